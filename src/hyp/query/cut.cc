#include "hyp/query/cut.h"

#include <algorithm>
#include <set>

#include "base/arrow_status.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/uri.h"
#include "hyp/cache/flush_state.h"
#include "hyp/cache/legacy_rows.h"
#include "hyp/cache/partition_flush.h"
#include "hyp/cache/table_opens.h"
#include "hyp/cache/visible_schema.h"
#include "hyp/capture/spool_sources.h"
#include "hyp/sink/unit.h"

namespace firn::hyp {
namespace {

// Whether the dataset's table of `source` has the frame that begins at `begin`.
bool is_flushed(const DatasetCut& dataset, const std::string& source, const std::string& spool_id,
                SpoolPosition begin) {
  const auto table = dataset.tables.find(source);
  if (table == dataset.tables.end()) return false;
  const auto marker = flushed_until(*table->second.table.metadata, spool_id);
  return marker && begin < *marker;
}

// The lines of `frame` that no table of `dataset` has, as one text.
std::string unflushed_lines(const DatasetCut& dataset, const FrameAt& at, size_t spool, const std::string& spool_id) {
  std::string text;
  for (const RoutedLines& lines : route_lines(at.frame, dataset.config_by_spool[spool]).lines) {
    if (is_flushed(dataset, lines.source, spool_id, at.begin)) continue;
    text.append(at.frame.text, static_cast<size_t>(lines.begin), static_cast<size_t>(lines.end - lines.begin));
  }
  return text;
}

int64_t total_records(const iceberg::TableMetadata& metadata) {
  const iceberg::Snapshot* snapshot = metadata.current_snapshot();
  if (snapshot == nullptr) return 0;
  const auto total = snapshot->summary.find("total-records");
  return total == snapshot->summary.end() ? 0 : std::atoll(total->second.c_str());
}

bool has_numbered_legacy_rows(const HeldTable& held) {
  const iceberg::TableMetadata& metadata = *held.table.metadata;
  return metadata.properties.contains(kMaxSeqProperty) && metadata.bool_property(kSequencedProperty, false);
}

// `is_numbered`: legacy rows get their numbers first (P9.3), as a sink would give them: a copy of the cache may have
// sent them under these.
void hold_tables(const Cache& cache, DatasetCut& dataset, bool is_numbered) {
  for (const PartitionId& partition : cache.partitions(dataset.name)) {
    auto held = cache.hold(partition);
    if (held && is_numbered && !has_numbered_legacy_rows(*held)) {
      held.reset();
      number_legacy_rows(cache, partition);
      held = cache.hold(partition);
    }
    if (held) dataset.tables.emplace(partition.source, std::move(*held));
  }
}

// The opens that rows of the held table may belong to, of lists from before it was held and after: an entry may come or
// go meanwhile, and the table repeats those of its own rows.
std::vector<OpenRange> opens_of(const iceberg::TableMetadata& held, const std::vector<Open>& before,
                                const std::vector<Open>& after) {
  std::map<int64_t, Open> by_start;
  for (const auto* opens : {&after, &before}) {
    for (const Open& open : *opens) by_start.emplace(open.from_seq, open);
  }
  if (const std::string text = held.property(kOpensProperty, ""); !text.empty()) {
    for (const Open& open : opens_from_json(parse_json(text, held.location), held.location))
      by_start.emplace(open.from_seq, open);
  }
  std::vector<Open> opens;
  for (const auto& [start, open] : by_start) opens.push_back(open);
  return table_opens(held, opens);
}

// Numbers of the held table's rows that are below all of `opens`, which has those that the table repeats: of more than
// kOpensKept only the sequence file has the first ones. nullopt: it has no such rows.
std::optional<SentRange> unlisted_numbers(const HeldTable& held, const std::vector<OpenRange>& opens) {
  const iceberg::TableMetadata& metadata = *held.table.metadata;
  const std::string text = metadata.property(kOpensProperty, "");
  if (text.empty()) return std::nullopt;
  const size_t num_own = opens_from_json(parse_json(text, metadata.location), metadata.location).size();
  if (num_own < kOpensKept) return std::nullopt;
  const std::string legacy = metadata.property(kLegacyOpenProperty, "");
  const auto first = std::find_if(opens.begin(), opens.end(), [&](const OpenRange& o) { return o.open_id != legacy; });
  if (first == opens.end()) return std::nullopt;
  const SentRange numbers{metadata.int_property(kLegacyUntilProperty, 0), first->since_exclusive};
  if (numbers.since_exclusive >= numbers.until) return std::nullopt;
  iceberg::ScanOptions scan;
  scan.columns = {kIngestSeqColumn};
  scan.filter = iceberg::and_(iceberg::predicate(iceberg::Op::gt, kIngestSeqColumn, {numbers.since_exclusive}),
                              iceberg::predicate(iceberg::Op::lt_eq, kIngestSeqColumn, {numbers.until}));
  const auto rows = iceberg::scan(metadata, held.operations->io(), scan);
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    check(rows->ReadNext(&batch), "look for rows of opens that are not listed");
    if (!batch) return std::nullopt;
    if (batch->num_rows() > 0) return numbers;
  }
}

// Rows whose number is in none of `sent`, and those without one: they were not sent (P9.3). nullptr: all.
iceberg::ExpressionPtr rows_outside(const std::vector<SentRange>& sent) {
  if (sent.empty()) return nullptr;
  using iceberg::Op;
  const auto number = [](Op op, int64_t value) { return iceberg::predicate(op, kIngestSeqColumn, {value}); };
  iceberg::ExpressionPtr rows =
      iceberg::or_(iceberg::predicate(Op::is_null, kIngestSeqColumn), number(Op::gt, sent.back().until));
  for (size_t i = 0; i < sent.size(); ++i) {
    iceberg::ExpressionPtr between = number(Op::lt_eq, sent[i].since_exclusive);
    if (i > 0) between = iceberg::and_(number(Op::gt, sent[i - 1].until), between);
    rows = iceberg::or_(rows, between);
  }
  return rows;
}

// `schema` with the names of top-level columns spelled as `as` has them, where they differ in case alone (P4.3).
iceberg::Schema spelled_as(const iceberg::Schema& schema, const iceberg::Schema& as) {
  std::set<std::string> taken;
  std::map<std::string, std::string> spelling;
  for (const iceberg::Field& field : as.fields()) spelling.emplace(fold_name(field.name), field.name);
  for (const iceberg::Field& field : schema.fields()) taken.insert(field.name);
  std::vector<iceberg::Field> fields = schema.fields();
  for (iceberg::Field& field : fields) {
    const auto found = spelling.find(fold_name(field.name));
    if (found != spelling.end() && taken.insert(found->second).second) field.name = found->second;
  }
  return iceberg::Schema(std::move(fields));
}

// With the columns that exported rows alone have at the end.
iceberg::Schema with_exported_columns(const iceberg::Schema& schema, const Exports& exports,
                                      const std::string& dataset) {
  const iceberg::Schema exported = without_hidden(exports.schema);
  return schema.fields().empty() ? exported : merge_schemas(schema, spelled_as(exported, schema), dataset);
}

}  // namespace

Cut::Cut(const Cache& cache, const std::atomic<bool>* cancelled) : cache_(cache), cancelled_(cancelled) {
  for (const std::string& folder : list_spools(cache.config().cache_root)) {
    OpenSpool spool;
    auto routing = load_flush_state(folder).routing;
    do {  // until it is that of the frames which are read
      spool.routing = std::move(routing);
      // Read before the tables: what is before the progress is in every table that is opened later.
      const SpoolPosition progress = load_progress(folder);
      spool.reader = std::make_unique<SpoolReader>(folder, progress);
      routing = load_flush_state(folder).routing;
    } while (routing != spool.routing);
    spools_.push_back(std::move(spool));
  }
}

Cut::~Cut() = default;

void Cut::check_cancelled() const {
  if (cancelled_ != nullptr && *cancelled_) fail(ErrorKind::cancelled, "the query was interrupted");
}

std::shared_ptr<const DatasetCut> Cut::dataset(const std::string& name) {
  std::lock_guard guard(mutex_);
  auto& known = datasets_[name];
  if (!known) known = open(name);
  return known;
}

std::vector<std::string> Cut::names() {
  std::lock_guard guard(mutex_);
  if (names_) return *names_;
  std::set<std::string> names;
  for (const std::string& dataset : cache_.datasets()) names.insert(dataset);
  for (const auto& [dataset, config] : cache_.config().datasets) names.insert(dataset);
  for (const std::string& dataset : exported_names()) names.insert(dataset);
  for (const OpenSpool& spool : spools_) {
    const auto reader = spool.reader->again();
    while (const auto at = reader->next()) {
      check_cancelled();
      if (!at->frame.text.empty()) names.insert(at->frame.dataset);
    }
  }
  names_ = std::vector<std::string>(names.begin(), names.end());
  return *names_;
}

std::string Cut::resolve(const std::string& name) {
  std::string found;
  for (const std::string& one : names()) {
    if (one == name) return one;
  }
  for (const std::string& one : names()) {
    if (fold_name(one) != fold_name(name)) continue;
    if (!found.empty()) return "";
    found = one;
  }
  if (!found.empty() || !is_valid_dataset_name(name)) return found;
  // The tables of an archive that takes all datasets are not listed, since that would list their files, too.
  const SinkConfig* sink = find_queryable_sink(cache_.config(), name);
  const bool is_archived = sink != nullptr && sink->kind == SinkKind::iceberg &&
                           iceberg::filesystem_table_exists(*cache_.io(), archive_location(*sink, name));
  return is_archived ? name : "";
}

std::shared_ptr<const ClaimList> Cut::claims_of(const SinkConfig& sink) {
  if (sink.kind != SinkKind::blob) return nullptr;
  auto& claims = claims_[sink.name];
  if (!claims) claims = std::make_shared<const ClaimList>(list_claims(*cache_.io(), sink));
  return claims;
}

std::vector<std::string> Cut::exported_names() {
  std::vector<std::string> names;
  for (const SinkConfig& sink : cache_.config().sinks) {
    if (!sink.queryable) continue;
    const auto claims = claims_of(sink);
    const std::set<std::string> there =
        claims ? claims->datasets() : std::set<std::string>(sink.datasets.begin(), sink.datasets.end());
    for (const std::string& name : there) {
      if (find_queryable_sink(cache_.config(), name) != &sink) continue;
      if (claims || iceberg::filesystem_table_exists(*cache_.io(), archive_location(sink, name))) names.push_back(name);
    }
  }
  return names;
}

void Cut::hold_with_exports(DatasetCut& dataset, const SinkConfig& sink) {
  const std::string cache_id = cache_.sequence().cache_id();
  const std::string own_streams = fmt::format("{}/{}/", encode_segment(cache_id), encode_segment(dataset.name));
  constexpr int kTriesMax = 10;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    const ExportsSeen before = look_at_exports(cache_.io(), sink, dataset.name, claims_of(sink));
    const std::vector<Open> opens_before = cache_.sequence().opens();
    fault_point("query.exports-seen");
    hold_tables(cache_, dataset, /*is_numbered=*/true);
    fault_point("query.tables-held");
    const std::vector<Open> opens_after = cache_.sequence().opens();
    std::vector<HeldStream> held;
    for (const auto& [source, table] : dataset.tables) {
      const iceberg::TableMetadata& metadata = *table.table.metadata;
      HeldStream& stream = held.emplace_back();
      stream.stream = stream_of(cache_id, {dataset.name, source});
      stream.opens = opens_of(metadata, opens_before, opens_after);
      stream.max_seq = metadata.int_property(kMaxSeqProperty, 0);
      stream.unlisted = unlisted_numbers(table, stream.opens);
    }
    dataset.exports = find_exports(cache_.io(), sink, dataset.name, before, own_streams, held);
    if (dataset.exports) {
      size_t i = 0;
      for (const auto& [source, table] : dataset.tables)
        dataset.unsent[source] = rows_outside(dataset.exports->sent[held[i++].stream]);
      dataset.table_rows += dataset.exports->rows;
      return;
    }
    dataset.tables.clear();
    check_cancelled();
  }
  fail(ErrorKind::busy, "dataset {}: the destination of sink {} keeps changing while it is looked at; try again",
       dataset.name, sink.name);
}

std::shared_ptr<const DatasetCut> Cut::open(const std::string& name) {
  auto dataset = std::make_shared<DatasetCut>();
  dataset->name = name;
  dataset->config = cache_.dataset_config(name);
  for (const OpenSpool& spool : spools_) {
    DatasetConfig& config = dataset->config_by_spool.emplace_back(dataset->config);
    const auto routing = spool.routing.find(name);
    if (routing != spool.routing.end()) config.source_column = routing->second;
  }
  if (const SinkConfig* sink = find_queryable_sink(cache_.config(), name)) {
    hold_with_exports(*dataset, *sink);
  } else {
    hold_tables(cache_, *dataset, /*is_numbered=*/false);
  }
  bool is_first = true;
  for (const auto& [source, held] : dataset->tables) {
    dataset->table_rows += total_records(*held.table.metadata);
    const iceberg::Schema visible = without_hidden(held.table.metadata->schema());
    dataset->schema = is_first ? visible : merge_schemas(dataset->schema, visible, name);
    is_first = false;
  }
  if (dataset->config.schema) {
    dataset->schema = merge_schemas(without_other_case(*dataset->config.schema, dataset->schema), dataset->schema, name,
                                    Stands::second);
  }

  // Spooled rows may bring columns that no table has yet.
  SchemaInference inference(dataset->schema, dataset->config.row_bytes_max, timestamp_column(dataset->config));
  for (size_t i = 0; i < spools_.size(); ++i) {
    const auto reader = spools_[i].reader->again();
    while (const auto at = reader->next()) {
      check_cancelled();
      if (at->frame.dataset != name) continue;
      const std::string text = unflushed_lines(*dataset, *at, i, reader->spool_id());
      dataset->spooled_bytes += static_cast<int64_t>(text.size());
      if (dataset->config.allow_new_columns) inference.observe(text);
    }
  }
  if (dataset->config.allow_new_columns && dataset->spooled_bytes > 0) dataset->schema = inference.schema();
  dataset->spooled_schema = dataset->schema;
  if (dataset->config.schema) dataset->spooled_schema = with_required(dataset->schema, *dataset->config.schema);
  if (dataset->exports) dataset->schema = with_exported_columns(dataset->schema, *dataset->exports, name);
  return dataset;
}

struct Cut::SpoolScan::State {
  std::mutex mutex;
  const Cut& cut;
  std::shared_ptr<const DatasetCut> dataset;
  std::vector<std::unique_ptr<SpoolReader>> readers;
  size_t at = 0;
};

Cut::SpoolScan::SpoolScan(const Cut& cut, std::shared_ptr<const DatasetCut> dataset)
    : state_(new State{{}, cut, std::move(dataset), {}}) {
  if (state_->dataset->spooled_bytes == 0) return;
  for (const OpenSpool& spool : cut.spools_) state_->readers.push_back(spool.reader->again());
}

Cut::SpoolScan::~SpoolScan() = default;

std::optional<std::string> Cut::SpoolScan::next() {
  State& s = *state_;
  std::lock_guard guard(s.mutex);
  for (; s.at < s.readers.size(); ++s.at) {
    SpoolReader& reader = *s.readers[s.at];
    while (const auto frame = reader.next()) {
      s.cut.check_cancelled();
      if (frame->frame.dataset != s.dataset->name) continue;
      std::string text = unflushed_lines(*s.dataset, *frame, s.at, reader.spool_id());
      if (!text.empty()) return text;
    }
  }
  return std::nullopt;
}

iceberg::Schema schema_with_exports(const Cache& cache, const std::string& dataset) {
  iceberg::Schema schema = cache.dataset_schema(dataset);
  const SinkConfig* sink = find_queryable_sink(cache.config(), dataset);
  if (sink == nullptr) return schema;
  const auto cut = Cut(cache).dataset(dataset);
  return iceberg::assign_fresh_ids(with_exported_columns(schema, *cut->exports, dataset));
}

}  // namespace firn::hyp
