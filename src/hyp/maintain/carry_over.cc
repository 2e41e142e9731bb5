#include "hyp/maintain/carry_over.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/arrow_status.h"
#include "hyp/cache/sequence_bounds.h"
#include "iceberg/commit/history.h"
#include "iceberg/manifest/file_identity.h"
#include "iceberg/scan/delete_cache.h"
#include "iceberg/write/array_values.h"

namespace firn::hyp {
namespace {

using iceberg::FileContent;
using iceberg::FileScanTask;
using iceberg::PositionSet;
using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

constexpr int64_t kScanBatchRows = 65536, kRowBatchRows = 1024;
constexpr int64_t kPositionsEnd = std::numeric_limits<int64_t>::max();

PositionSet deleted_positions(const LiveTable& table, const LiveData& data) {
  return iceberg::load_deleted_positions(table.task(data), *table.io, table.plan->delete_cache.get());
}

std::set<std::string> deletes_of(const FileScanTask& task, bool equality_alone) {
  std::set<std::string> keys;
  for (const auto& file : task.deletes) {
    if (!equality_alone || file->content == FileContent::equality_deletes) keys.insert(iceberg::file_key(*file));
  }
  return keys;
}

void for_each_live_number(const LiveTable& table, const LiveData& data,
                          const std::function<void(int64_t number, int64_t position)>& visit) {
  const auto rows = table.read(data, number_and_position(*table.metadata, table.seq_id), kScanBatchRows);
  for_each_number(*rows, data.file.file_path, visit);
}

bool overlaps(const std::vector<SequenceRange>& ranges, const FileShape& shape) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const SequenceRange& range) {
    return range.until >= shape.lower && range.since_exclusive < shape.upper;
  });
}

class CarryOver {
 public:
  CarryOver(NewGeneration& generation, const LiveTable& before, const LiveTable& now, const DroppedRows& dropped,
            const std::vector<SequenceRange>& pending)
      : generation_(generation), before_(before), now_(now), dropped_(dropped), pending_(pending) {
    for (size_t i = 0; i < before.files.size(); ++i) before_by_path_[before.files[i].file.file_path] = i;
    for (size_t i = 0; i < generation.files().size(); ++i) {
      const NewFile& file = generation.files()[i];
      if (!file.linked_from.empty()) linked_[file.linked_from] = i;
    }
  }

  int64_t run() {
    check_columns();
    restore_pending();
    compare();
    hide_gone();
    remove_emptied();
    return rows_restored_;
  }

 private:
  [[noreturn]] void give_up(const std::string& why) const {
    fail(ErrorKind::commit_conflict, "{}: {} while it was compacted; the next compaction begins anew",
         now_.metadata->location, why);
  }

  bool is_dropped(int64_t number) const { return dropped_.numbers.contains(number) && !is_in(pending_, number); }

  // P2: what was written under ids that mean other columns now cannot be published.
  void check_columns() const {
    const iceberg::Schema &old_schema = before_.metadata->schema(), &new_schema = now_.metadata->schema();
    try {
      iceberg::check_field_ids(*now_.metadata, old_schema);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::schema_mismatch) throw;
      give_up(fmt::format("its columns became others ({})", e.what()));
    }
    // Partition values were made of the old types.
    for (const iceberg::PartitionField& field : before_.metadata->spec().fields) {
      for (const int32_t id : field.source_ids) {
        const iceberg::Field *a = old_schema.find_field(id), *b = new_schema.find_field(id);
        const bool is_same =
            a != nullptr && b != nullptr && iceberg::type_to_json(*a->type) == iceberg::type_to_json(*b->type);
        if (!is_same) give_up(fmt::format("the type of its partition field {} changed", field.name));
      }
    }
  }

  // Rows that were dropped and are now announced by a sink.
  void restore_pending() {
    std::map<size_t, std::vector<const LiveData*>> by_group;
    for (size_t i = 0; i < before_.files.size(); ++i) {
      const LiveData& data = before_.files[i];
      if (dropped_.numbers.empty() || dropped_.rows_by_file[i] == 0 || !overlaps(pending_, data.shape)) continue;
      const size_t group = generation_.group_of(data.file.file_path);
      if (group != kNoGroup) {
        by_group[group].push_back(&data);
        continue;
      }
      NewFile& file = generation_.files()[linked_.at(data.file.file_path)];
      const int64_t hidden = file.hidden.size();
      hide_rows(file, before_, i, dropped_, pending_);
      rows_restored_ += hidden - file.hidden.size();
    }
    for (const auto& [group, files] : by_group) restore(group, files);
  }

  void restore(size_t group, const std::vector<const LiveData*>& files) {
    const iceberg::Schema& schema = before_.metadata->schema();
    size_t next_file = 0;
    std::shared_ptr<arrow::RecordBatchReader> reader;
    generation_.add_rows(group, [&]() -> BatchPtr {
      for (;;) {
        if (!reader) {
          if (next_file == files.size()) return nullptr;
          reader = before_.read(*files[next_file++], schema, kRowBatchRows);
        }
        BatchPtr batch;
        check(reader->ReadNext(&batch), "read rows of an announced unit");
        if (!batch) {
          reader = nullptr;
          continue;
        }
        const auto& numbers = static_cast<const arrow::Int64Array&>(*batch->GetColumnByName(kIngestSeqColumn));
        std::vector<int64_t> rows;
        for (int64_t row = 0; row < numbers.length(); ++row) {
          const int64_t number = numbers.Value(row);
          if (dropped_.numbers.contains(number) && is_in(pending_, number)) rows.push_back(row);
        }
        if (rows.empty()) continue;
        rows_restored_ += static_cast<int64_t>(rows.size());
        return iceberg::take_rows(batch, rows);
      }
    });
  }

  void compare() {
    if (now_.metadata->current_snapshot_id == before_.metadata->current_snapshot_id) return;
    std::unordered_set<std::string> kept;
    std::vector<const LiveData*> added;
    for (const LiveData& data : now_.files) {
      const auto found = before_by_path_.find(data.file.file_path);
      if (found == before_by_path_.end()) {
        if (!deletes_of(now_.task(data), true).empty()) give_up("another program deleted rows by their values");
        added.push_back(&data);
      } else {
        kept.insert(data.file.file_path);
        take_deletes(before_.files[found->second], data);
      }
    }
    for (const LiveData& data : before_.files) {
      if (!kept.contains(data.file.file_path)) take_removal(data);
    }
    const size_t first_added = generation_.files().size();
    generation_.link(now_, added);
    for (size_t i = 0; i < added.size(); ++i) {
      generation_.files()[first_added + i].hidden = deleted_positions(now_, *added[i]);
    }
  }

  // A file of both, whose deletes may be more now.
  void take_deletes(const LiveData& before, const LiveData& now) {
    if (deletes_of(before_.task(before), false) == deletes_of(now_.task(now), false)) return;
    if (deletes_of(before_.task(before), true) != deletes_of(now_.task(now), true))
      give_up("another program deleted rows by their values");
    const PositionSet was = deleted_positions(before_, before), is = deleted_positions(now_, now);
    PositionSet fresh;
    is.for_each_in(0, kPositionsEnd, [&](int64_t position) {
      if (!was.contains(position)) fresh.add(position);
    });
    if (was.size() + fresh.size() != is.size()) give_up("deleted rows came back");
    if (fresh.empty()) return;
    const size_t group = generation_.group_of(before.file.file_path);
    if (group == kNoGroup) {
      generation_.files()[linked_.at(before.file.file_path)].hidden.add_all(fresh);
      return;
    }
    for_each_live_number(before_, before, [&](int64_t number, int64_t position) {
      if (fresh.contains(position)) note_gone(group, number);
    });
  }

  void take_removal(const LiveData& data) {
    const size_t group = generation_.group_of(data.file.file_path);
    if (group == kNoGroup) {
      emptied_.insert(linked_.at(data.file.file_path));
      return;
    }
    for_each_live_number(before_, data, [&](int64_t number, int64_t) { note_gone(group, number); });
  }

  void note_gone(size_t group, int64_t number) {
    if (is_dropped(number)) return;
    if (generation_.has_equal_numbers(group)) give_up("rows that share a number were deleted");
    gone_[group].add(number);
  }

  // The group's new files have each number once.
  void hide_gone() {
    std::map<size_t, int64_t> found;
    for (size_t i = 0; i < generation_.files().size(); ++i) {
      NewFile& file = generation_.files()[i];
      const auto gone = gone_.find(file.group);
      if (file.group == kNoGroup || gone == gone_.end()) continue;
      const NumberSet& numbers = gone->second;
      const bool is_apart = lowest_number(file.file, before_.seq_id).value_or(*numbers.lowest()) > *numbers.highest() ||
                            highest_number(file.file, before_.seq_id).value_or(*numbers.highest()) < *numbers.lowest();
      if (is_apart) continue;
      const auto rows =
          read_new_file(*before_.metadata, file.file, number_and_position(*before_.metadata, before_.seq_id),
                        *numbers.lowest(), *numbers.highest(), generation_.io());
      for_each_number(*rows, file.file.file_path, [&](int64_t number, int64_t position) {
        if (!numbers.contains(number)) return;
        file.hidden.add(position);
        ++found[file.group];
      });
    }
    for (const auto& [group, numbers] : gone_) {
      if (found[group] == numbers.size()) continue;
      fail(ErrorKind::internal, "{}: of {} rows deleted while it was compacted {} were found again",
           now_.metadata->location, numbers.size(), found[group]);
    }
  }

  void remove_emptied() {
    for (size_t i = generation_.files().size(); i-- > 0;) {
      const NewFile& file = generation_.files()[i];
      if (emptied_.contains(i) || file.hidden.size() == file.file.record_count) generation_.remove_file(i);
    }
  }

  NewGeneration& generation_;
  const LiveTable &before_, &now_;
  const DroppedRows& dropped_;
  const std::vector<SequenceRange>& pending_;
  std::unordered_map<std::string, size_t> before_by_path_, linked_;
  std::map<size_t, NumberSet> gone_;  // by group: numbers of rows that went, dropped ones aside
  std::set<size_t> emptied_;          // of the new files: linked ones that went whole
  int64_t rows_restored_ = 0;
};

}  // namespace

void hide_rows(NewFile& file, const LiveTable& live, size_t live_index, const DroppedRows& dropped,
               const std::vector<SequenceRange>& kept) {
  const LiveData& data = live.files[live_index];
  file.hidden = deleted_positions(live, data);
  if (dropped.numbers.empty() || dropped.rows_by_file[live_index] == 0) return;
  for_each_live_number(live, data, [&](int64_t number, int64_t position) {
    if (dropped.numbers.contains(number) && !is_in(kept, number)) file.hidden.add(position);
  });
}

int64_t carry_over(NewGeneration& generation, const LiveTable& before, const LiveTable& now, const DroppedRows& dropped,
                   const std::vector<SequenceRange>& pending) {
  return CarryOver(generation, before, now, dropped, pending).run();
}

}  // namespace firn::hyp
