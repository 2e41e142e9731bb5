// Random row-level changes against a model in memory: the rows are the model's, and on v3 a row keeps its id from when
// it came until it goes.
#include <random>

#include "row_table.h"
#include "support/test_seed.h"

namespace firn::iceberg {
namespace {

// `tag` is unique to a row, and updates leave it alone.
struct ModelRow {
  std::optional<int64_t> id;
  std::optional<int64_t> part;
  std::optional<double> val;
  std::string row_id;   // "" until it was seen
  std::string updated;  // likewise
};
using Model = std::map<int64_t, ModelRow>;  // by tag

Schema tagged_schema() {
  return Schema({column(1, "id", primitive(TypeId::long_)), column(2, "part", primitive(TypeId::long_)),
                 column(3, "val", primitive(TypeId::double_)), column(4, "tag", primitive(TypeId::long_))});
}

template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "null";
}
std::string text_of(const std::optional<double>& value) {
  return !value ? "null" : std::isnan(*value) ? "NaN" : fmt::format("{:.1f}", *value);
}

struct Predicate {
  std::string text;
  std::function<bool(const ModelRow&)> matches;
};

class World {
 public:
  World(int32_t version, uint64_t seed)
      : random_(seed), table_(version, {{"part"}}, {{"commit.manifest.min-count-to-merge", "4"}}, tagged_schema()) {}

  void step() {
    const int choice = pick(20);
    if (choice < 4) return append();
    if (choice < 9) return delete_matching();
    if (choice < 14) return upsert();
    if (choice < 16) return overwrite();
    if (choice < 18) return delete_equal();
    if (choice == 18) return replace();
    if (!evolved_ && pick(3) == 0) {
      log_ = "evolve the spec";
      table_.evolve_spec("id", "bucket[3]");
      evolved_ = true;
    } else if (evolved_ && table_.metadata().format_version == 2 && pick(3) == 0) {
      log_ = "upgrade to version 3";
      table_.change_metadata([](TableMetadata& next) { next.format_version = 3; });
    }
  }

  void check() {
    SCOPED_TRACE(log_);
    const bool has_lineage = table_.metadata().format_version >= 3;
    std::vector<std::string> expected, actual;
    for (const auto& [tag, row] : model_)
      expected.push_back(fmt::format("{} {} {} {}", tag, text_of(row.id), text_of(row.part), text_of(row.val)));
    std::set<std::string> row_ids;
    const std::string sequence = std::to_string(table_.metadata().last_sequence_number);
    for (const std::string& line : table_.rows({.row_lineage = has_lineage})) {
      const Json json = parse_json(line, "row");
      const auto text = [&](const char* name) {
        return json[name].is_string() ? json[name].get<std::string>() : json[name].dump();
      };
      actual.push_back(fmt::format("{} {} {} {}", text("tag"), text("id"), text("part"), text("val")));
      const auto found = model_.find(std::stoll(text("tag")));
      if (!has_lineage || found == model_.end()) continue;
      const std::string row_id = text("_row_id"), updated = text("_last_updated_sequence_number");
      if (row_id == "null") continue;  // of before the upgrade, until a commit gives it one
      EXPECT_TRUE(row_ids.insert(row_id).second) << row_id << " twice";
      if (!found->second.row_id.empty()) {
        EXPECT_EQ(row_id, found->second.row_id) << line;
      }
      if (!found->second.updated.empty()) {
        EXPECT_EQ(updated, found->second.updated) << line;
      }
      found->second.row_id = row_id;
      found->second.updated = updated;
    }
    std::sort(expected.begin(), expected.end());
    std::sort(actual.begin(), actual.end());
    ASSERT_EQ(actual, expected);
  }

  void check_orphans() { EXPECT_TRUE(table_.orphans().empty()); }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }

  std::optional<double> random_val() {
    switch (pick(8)) {
      case 0:
        return std::nullopt;
      case 1:
        return std::numeric_limits<double>::quiet_NaN();
      default:
        return pick(10) - 5;
    }
  }
  std::optional<int64_t> random_part() {
    if (pick(8) == 0) return std::nullopt;
    return pick(3);
  }
  std::string json_of(int64_t tag, const ModelRow& row) {
    return fmt::format(R"({{"id":{},"part":{},"val":{},"tag":{}}})", text_of(row.id), text_of(row.part),
                       text_of(row.val), tag);
  }
  // Keys are unique but for null.
  ModelRow new_row() {
    return {pick(6) == 0 ? std::optional<int64_t>() : next_id_++, random_part(), random_val(), "", ""};
  }

  Predicate random_predicate() {
    const int64_t low = next_id_ == 0 ? 0 : pick(static_cast<int>(next_id_)), high = low + pick(6);
    const int64_t part = pick(3), val = pick(10) - 5;
    switch (pick(8)) {
      case 0:
        return {fmt::format("id >= {} and id <= {}", low, high),
                [=](const ModelRow& row) { return row.id && *row.id >= low && *row.id <= high; }};
      case 1:
        return {fmt::format("part = {}", part), [=](const ModelRow& row) { return row.part == part; }};
      case 2:
        return {fmt::format("val < {}", val), [=](const ModelRow& row) { return row.val && *row.val < val; }};
      case 3:
        return {fmt::format("val != {} and part != {}", val, part),
                [=](const ModelRow& row) { return row.val && *row.val != val && row.part && *row.part != part; }};
      case 4:
        return {"isnan(val)", [](const ModelRow& row) { return row.val && std::isnan(*row.val); }};
      case 5:
        return {fmt::format("id is null and part = {}", part),
                [=](const ModelRow& row) { return !row.id && row.part == part; }};
      case 6:
        return {fmt::format("part is null or id in ({}, {})", low, high),
                [=](const ModelRow& row) { return !row.part || (row.id && (*row.id == low || *row.id == high)); }};
      default:
        return {fmt::format("not (val >= {}) and id < {}", val, high),
                [=](const ModelRow& row) { return row.val && !(*row.val >= val) && row.id && *row.id < high; }};
    }
  }

  RowOptions options() {
    RowOptions options;
    options.mode = pick(2) == 0 ? RowMode::copy_on_write : RowMode::merge_on_read;
    log_ += options.mode == RowMode::copy_on_write ? ", copy-on-write" : ", merge-on-read";
    if (pick(3) == 0) options.memory_bytes_max = 1;
    return options;
  }

  void append() {
    std::string json = "[";
    const int count = 1 + pick(12);
    for (int i = 0; i < count; ++i) {
      const ModelRow row = new_row();
      json += (i > 0 ? "," : "") + json_of(next_tag_, row);
      model_[next_tag_++] = row;
    }
    log_ = "append " + json + "]";
    table_.append(json + "]");
  }

  int64_t remove(const Predicate& predicate) {
    return static_cast<int64_t>(
        std::erase_if(model_, [&](const auto& entry) { return predicate.matches(entry.second); }));
  }

  void delete_matching() {
    const Predicate predicate = random_predicate();
    log_ = "delete where " + predicate.text;
    const RowsResult result = delete_rows(*table_.table, parse_expression(predicate.text), options());
    EXPECT_EQ(result.counts.rows_deleted, remove(predicate)) << log_;
    EXPECT_EQ(result.commit.has_value(), result.counts.rows_deleted > 0);
  }

  void delete_equal() {
    if (next_id_ == 0 || evolved_) return;  // the key does not say the first spec's partition then
    const int64_t id = pick(static_cast<int>(next_id_));
    std::string json = "[";
    for (const char* part : {"null", "0", "1", "2"})
      json += fmt::format(R"({}{{"id":{},"part":{}}})", json.size() > 1 ? "," : "", id, part);
    log_ = fmt::format("equality delete of id {}", id);
    table_.delete_equal({1}, json + "]");
    remove({"", [=](const ModelRow& row) { return row.id == id; }});
  }

  void upsert() {
    std::string json = "[";
    std::set<int64_t> keys;
    int64_t updated = 0, inserted = 0;
    const int count = 1 + pick(10);
    Model rows;
    for (int i = 0; i < count; ++i) {
      int64_t tag = next_tag_;
      ModelRow row = new_row();
      if (!model_.empty() && pick(2) == 0) {  // a row that is there
        auto existing = model_.begin();
        std::advance(existing, pick(static_cast<int>(model_.size())));
        if (existing->second.id && keys.contains(*existing->second.id)) continue;
        if (existing->second.id) {
          tag = existing->first;
          row.id = existing->second.id;
          if (pick(4) == 0) {
            row.part = existing->second.part;
            row.val = existing->second.val;
          }
        }
      }
      if (row.id && !keys.insert(*row.id).second) continue;
      if (tag == next_tag_) ++next_tag_;
      json += (json.size() > 1 ? "," : "") + json_of(tag, row);
      rows[tag] = row;
    }
    for (const auto& [tag, row] : rows) {
      const auto old = model_.find(tag);
      if (old == model_.end()) {
        ++inserted;
        model_[tag] = row;
      } else if (text_of(old->second.val) != text_of(row.val) || old->second.part != row.part) {
        ++updated;
        old->second.val = row.val;
        old->second.part = row.part;
        old->second.updated = "";
      }
    }
    log_ = "upsert " + json + "]";
    MergeOptions merge;
    merge.rows = options();
    merge.key_columns = {"id"};
    const auto reader = table_.reader(json + "]");
    const RowsResult result = upsert_rows(*table_.table, *reader, merge);
    EXPECT_EQ(result.counts.rows_updated, updated) << log_;
    EXPECT_EQ(result.counts.rows_inserted, inserted) << log_;
  }

  void overwrite() {
    const Predicate predicate = random_predicate();
    std::string json = "[";
    const int count = pick(6);
    Model rows;
    for (int i = 0; i < count; ++i) {
      const ModelRow row = new_row();
      json += (i > 0 ? "," : "") + json_of(next_tag_, row);
      rows[next_tag_++] = row;
    }
    log_ = "overwrite " + predicate.text + " with " + json + "]";
    OverwriteOptions overwrite;
    overwrite.rows = options();
    const auto reader = table_.reader(json + "]");
    const RowsResult result = overwrite_rows(*table_.table, parse_expression(predicate.text), *reader, overwrite);
    EXPECT_EQ(result.counts.rows_deleted, remove(predicate)) << log_;
    model_.merge(rows);
  }

  void replace() {
    if (evolved_) return;  // files of older specs stay
    std::string json = "[";
    const int count = 1 + pick(4);
    Model rows;
    std::set<std::string> parts;
    for (int i = 0; i < count; ++i) {
      const ModelRow row = new_row();
      json += (i > 0 ? "," : "") + json_of(next_tag_, row);
      parts.insert(text_of(row.part));
      rows[next_tag_++] = row;
    }
    log_ = "replace partitions with " + json + "]";
    const auto reader = table_.reader(json + "]");
    replace_partitions(*table_.table, *reader);
    remove({"", [&](const ModelRow& row) { return parts.contains(text_of(row.part)); }});
    model_.merge(rows);
  }

  std::mt19937_64 random_;
  RowTable table_;
  Model model_;
  std::string log_;
  bool evolved_ = false;
  int64_t next_id_ = 0, next_tag_ = 0;
};

class RandomChanges : public ::testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(, RandomChanges, ::testing::Values(2, 3),
                         [](const auto& info) { return "V" + std::to_string(info.param); });

TEST_P(RandomChanges, LeaveTheRowsThatAModelHas) {
  for (uint64_t round = 0; round < 8; ++round) {
    const uint64_t seed = test_seed() + round;
    SCOPED_TRACE("FIRN_TEST_SEED=" + std::to_string(seed));
    World world(GetParam(), seed);
    for (int i = 0; i < 30; ++i) {
      world.step();
      world.check();
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
    world.check_orphans();
  }
}

}  // namespace
}  // namespace firn::iceberg
