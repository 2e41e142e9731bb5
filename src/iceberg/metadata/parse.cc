// Reading metadata JSON (Iceberg spec, Appendix C, "Table Metadata and Snapshots"; Appendix E for what v1 lacks).
#include <zlib.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "iceberg/metadata/metadata_text.h"
#include "iceberg/metadata/table_metadata.h"

namespace firn::iceberg {

namespace {

constexpr std::string_view kGzipMagic("\x1f\x8b", 2);
constexpr size_t kPlainBytesMax = size_t{2} << 30;

// The file name is no guide: "v3.gz.metadata.json", "v3.metadata.json.gz" and plain names all occur with gzip.
std::string gunzip(std::string_view bytes, std::string_view where) {
  z_stream stream{};
  constexpr int kGzipWindow = MAX_WBITS + 16;
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) fail(ErrorKind::internal, "{}: zlib does not start", where);
  struct End {
    z_stream* stream;
    ~End() { inflateEnd(stream); }
  } end{&stream};

  std::string plain;
  size_t read = 0, written = 0;
  while (true) {
    if (written == plain.size()) {
      if (written >= kPlainBytesMax) fail(ErrorKind::corrupt, "{}: unpacks beyond {} bytes", where, kPlainBytesMax);
      plain.resize(std::min(kPlainBytesMax, std::max<size_t>(plain.size() * 2, bytes.size() * 6 + 1024)));
    }
    const size_t step_in = std::min<size_t>(bytes.size() - read, 1 << 30);
    const size_t step_out = std::min<size_t>(plain.size() - written, 1 << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + read));
    stream.avail_in = static_cast<uInt>(step_in);
    stream.next_out = reinterpret_cast<Bytef*>(plain.data() + written);
    stream.avail_out = static_cast<uInt>(step_out);
    const int code = inflate(&stream, Z_NO_FLUSH);
    read += step_in - stream.avail_in;
    written += step_out - stream.avail_out;
    if (code == Z_STREAM_END) {
      if (!bytes.substr(read).starts_with(kGzipMagic)) break;  // else another member follows (RFC 1952, 2.2)
      inflateReset(&stream);
    } else if (code != Z_OK) {
      fail(ErrorKind::corrupt, "{}: damaged gzip data: {}", where,
           code == Z_BUF_ERROR ? "they end too early" : zError(code));
    }
  }
  plain.resize(written);
  return plain;
}

std::map<std::string, std::string> string_map(const Json& object, const char* key, std::string_view where) {
  std::map<std::string, std::string> result;
  const Json* member = find_member(object, key);
  if (member == nullptr) return result;
  if (!member->is_object()) fail(ErrorKind::corrupt, "{}: \"{}\" is no object", where, key);
  // Values are strings by the specification; a number or boolean of a lax writer is taken as its text.
  for (const auto& [name, value] : member->items())
    result[name] = value.is_string() ? value.get<std::string>() : value.dump();
  return result;
}

// The elements of an optional array member.
std::vector<Json> elements(const Json& object, const char* key, std::string_view where) {
  const Json* member = find_member(object, key);
  if (member == nullptr) return {};
  if (!member->is_array()) fail(ErrorKind::corrupt, "{}: \"{}\" is no array", where, key);
  return {member->begin(), member->end()};
}

const Json* find_array(const Json& object, const char* key, std::string_view where) {
  const Json* member = find_member(object, key);
  if (member != nullptr && !member->is_array()) fail(ErrorKind::corrupt, "{}: \"{}\" is no array", where, key);
  return member;
}

// What `json` has beyond `known`; null if nothing.
template <size_t N>
Json unknown_members(const Json& json, const std::array<std::string_view, N>& known) {
  Json unknown;
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) unknown[key] = value;
  return unknown;
}

constexpr std::array<std::string_view, 11> kSnapshotMembers = {
    "snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms", "manifest-list", "manifests",
    "summary",     "schema-id",          "first-row-id",    "added-rows",   "key-id"};
constexpr std::array<std::string_view, 5> kRefMembers = {"snapshot-id", "type", "min-snapshots-to-keep",
                                                         "max-snapshot-age-ms", "max-ref-age-ms"};
constexpr std::array<std::string_view, 25> kTableMembers = {"format-version",
                                                            "table-uuid",
                                                            "location",
                                                            "last-sequence-number",
                                                            "last-updated-ms",
                                                            "last-column-id",
                                                            "schema",
                                                            "schemas",
                                                            "current-schema-id",
                                                            "partition-spec",
                                                            "partition-specs",
                                                            "default-spec-id",
                                                            "last-partition-id",
                                                            "default-sort-order-id",
                                                            "sort-orders",
                                                            "properties",
                                                            "current-snapshot-id",
                                                            "refs",
                                                            "snapshots",
                                                            "snapshot-log",
                                                            "metadata-log",
                                                            "statistics",
                                                            "partition-statistics",
                                                            "next-row-id",
                                                            "encryption-keys"};

Snapshot parse_snapshot(const Json& json, std::string_view where) {
  Snapshot snapshot;
  snapshot.snapshot_id = get_int64(json, "snapshot-id", where);
  snapshot.parent_snapshot_id = find_int64(json, "parent-snapshot-id", where);
  // Absent in v1, and in what v1 wrote of a table upgraded since.
  snapshot.sequence_number = find_int64(json, "sequence-number", where).value_or(0);
  snapshot.timestamp_ms = get_int64(json, "timestamp-ms", where);
  snapshot.manifest_list = find_string(json, "manifest-list", where).value_or("");
  for (const Json& path : elements(json, "manifests", where)) {
    if (!path.is_string()) fail(ErrorKind::corrupt, "{}: \"manifests\" of a snapshot holds no path", where);
    snapshot.manifests.push_back(path.get<std::string>());
  }
  snapshot.summary = string_map(json, "summary", where);
  snapshot.schema_id = find_int32(json, "schema-id", where);
  snapshot.first_row_id = find_int64(json, "first-row-id", where);
  snapshot.added_rows = find_int64(json, "added-rows", where);
  snapshot.key_id = find_string(json, "key-id", where).value_or("");
  snapshot.unknown_members = unknown_members(json, kSnapshotMembers);
  return snapshot;
}

SnapshotRef parse_ref(const Json& json, std::string_view where) {
  SnapshotRef ref;
  ref.snapshot_id = get_int64(json, "snapshot-id", where);
  const std::string type = get_string(json, "type", where);
  if (type != "branch" && type != "tag") fail(ErrorKind::corrupt, "{}: a ref of unknown type '{}'", where, type);
  ref.is_branch = type == "branch";
  ref.min_snapshots_to_keep = find_int32(json, "min-snapshots-to-keep", where);
  ref.max_snapshot_age_ms = find_int64(json, "max-snapshot-age-ms", where);
  ref.max_ref_age_ms = find_int64(json, "max-ref-age-ms", where);
  ref.unknown_members = unknown_members(json, kRefMembers);
  return ref;
}

void parse_schemas(TableMetadata& metadata, const Json& json, std::string_view where) {
  if (const Json* schemas = find_array(json, "schemas", where)) {
    for (const Json& schema : *schemas) metadata.schemas.push_back(Schema::from_json(schema, where));
    metadata.current_schema_id = get_int32(json, "current-schema-id", where);
  } else {
    if (metadata.format_version > 1) fail(ErrorKind::corrupt, "{}: \"schemas\" is missing", where);
    metadata.schemas.push_back(Schema::from_json(get_object(json, "schema", where), where));
    metadata.current_schema_id = metadata.schemas.front().schema_id();
  }
  metadata.schema();
}

void parse_partition_specs(TableMetadata& metadata, const Json& json, std::string_view where) {
  int32_t highest_id = 999;
  if (const Json* specs = find_array(json, "partition-specs", where)) {
    for (const Json& spec : *specs) metadata.partition_specs.push_back(PartitionSpec::from_json(spec, where));
    metadata.default_spec_id = get_int32(json, "default-spec-id", where);
  } else {
    if (metadata.format_version > 1) fail(ErrorKind::corrupt, "{}: \"partition-specs\" is missing", where);
    PartitionSpec spec;
    spec.fields = PartitionSpec::fields_from_v1_json(get_array(json, "partition-spec", where), where);
    metadata.partition_specs.push_back(std::move(spec));
  }
  metadata.spec();
  for (const PartitionSpec& spec : metadata.partition_specs)
    for (const PartitionField& field : spec.fields) highest_id = std::max(highest_id, field.field_id);
  metadata.last_partition_id = std::max(highest_id, find_int32(json, "last-partition-id", where).value_or(highest_id));
}

void parse_sort_orders(TableMetadata& metadata, const Json& json, std::string_view where) {
  if (const Json* orders = find_array(json, "sort-orders", where)) {
    for (const Json& order : *orders) metadata.sort_orders.push_back(SortOrder::from_json(order, where));
    metadata.default_sort_order_id = find_int32(json, "default-sort-order-id", where).value_or(0);
  }
  const bool has_unsorted = std::any_of(metadata.sort_orders.begin(), metadata.sort_orders.end(),
                                        [](const SortOrder& order) { return order.order_id == 0; });
  if (!has_unsorted && metadata.default_sort_order_id == 0) metadata.sort_orders.emplace_back();
  metadata.sort_order();
}

void parse_snapshots(TableMetadata& metadata, const Json& json, std::string_view where) {
  if (const Json* snapshots = find_array(json, "snapshots", where)) {
    metadata.snapshots.reserve(snapshots->size());
    std::set<int64_t> ids;
    for (const Json& snapshot : *snapshots) {
      metadata.snapshots.push_back(parse_snapshot(snapshot, where));
      if (!ids.insert(metadata.snapshots.back().snapshot_id).second)
        fail(ErrorKind::corrupt, "{}: snapshot {} is listed twice", where, metadata.snapshots.back().snapshot_id);
    }
  }
  // -1 is how Java writes none (spec, Appendix C, current-snapshot-id).
  metadata.current_snapshot_id = find_int64(json, "current-snapshot-id", where);
  if (metadata.current_snapshot_id == -1) metadata.current_snapshot_id.reset();
  if (metadata.current_snapshot_id && metadata.current_snapshot() == nullptr)
    fail(ErrorKind::corrupt, "{}: the current snapshot {} is not among its snapshots", where,
         *metadata.current_snapshot_id);
}

void parse_refs(TableMetadata& metadata, const Json& json, std::string_view where) {
  if (const Json* refs = find_member(json, "refs")) {
    if (!refs->is_object()) fail(ErrorKind::corrupt, "{}: \"refs\" is no object", where);
    for (const auto& [name, ref] : refs->items()) metadata.refs[name] = parse_ref(ref, where);
  }
  const auto main = metadata.refs.find("main");
  if (main == metadata.refs.end()) {
    if (metadata.current_snapshot_id) metadata.refs["main"].snapshot_id = *metadata.current_snapshot_id;
  } else if (main->second.snapshot_id != metadata.current_snapshot_id) {
    fail(ErrorKind::corrupt, "{}: ref main is snapshot {}, but the current snapshot is {}", where,
         main->second.snapshot_id,
         metadata.current_snapshot_id ? std::to_string(*metadata.current_snapshot_id) : "none");
  }
}

void parse_logs(TableMetadata& metadata, const Json& json, std::string_view where) {
  if (const Json* log = find_array(json, "snapshot-log", where))
    for (const Json& entry : *log)
      metadata.snapshot_log.push_back(
          {get_int64(entry, "timestamp-ms", where), get_int64(entry, "snapshot-id", where)});
  if (const Json* log = find_array(json, "metadata-log", where))
    for (const Json& entry : *log)
      metadata.metadata_log.push_back(
          {get_int64(entry, "timestamp-ms", where), get_string(entry, "metadata-file", where)});
}

// Row ids that the snapshots used up, for v3 metadata of writers that leave next-row-id out.
int64_t highest_used_row_id(const TableMetadata& metadata) {
  int64_t next = 0;
  for (const Snapshot& snapshot : metadata.snapshots) {
    int64_t end = 0;
    if (!__builtin_add_overflow(snapshot.first_row_id.value_or(0), snapshot.added_rows.value_or(0), &end))
      next = std::max(next, end);
  }
  return next;
}

}  // namespace

std::string metadata_text(std::string_view bytes, std::string_view where) {
  return bytes.starts_with(kGzipMagic) ? gunzip(bytes, where) : std::string(bytes);
}

TableMetadata parse_table_metadata(std::string_view bytes, std::string_view where) {
  const Json json = bytes.starts_with(kGzipMagic) ? parse_json(gunzip(bytes, where), where) : parse_json(bytes, where);
  if (!json.is_object()) fail(ErrorKind::corrupt, "{}: not a JSON object", where);

  TableMetadata metadata;
  metadata.format_version = get_int32(json, "format-version", where);
  if (metadata.format_version < 1) fail(ErrorKind::corrupt, "{}: format version {}", where, metadata.format_version);
  if (metadata.format_version > 3)
    fail(ErrorKind::unsupported, "{}: format version {}; firn reads versions 1 to 3", where, metadata.format_version);
  const bool is_v1 = metadata.format_version == 1;
  metadata.table_uuid =
      is_v1 ? find_string(json, "table-uuid", where).value_or("") : get_string(json, "table-uuid", where);
  metadata.location = get_string(json, "location", where);
  while (metadata.location.size() > 1 && metadata.location.ends_with('/')) metadata.location.pop_back();
  metadata.last_sequence_number = is_v1 ? 0 : get_int64(json, "last-sequence-number", where);
  metadata.last_updated_ms = get_int64(json, "last-updated-ms", where);
  metadata.last_column_id = get_int32(json, "last-column-id", where);
  metadata.properties = string_map(json, "properties", where);
  parse_schemas(metadata, json, where);
  parse_partition_specs(metadata, json, where);
  parse_sort_orders(metadata, json, where);
  parse_snapshots(metadata, json, where);
  parse_refs(metadata, json, where);
  parse_logs(metadata, json, where);
  metadata.statistics = elements(json, "statistics", where);
  metadata.partition_statistics = elements(json, "partition-statistics", where);
  if (metadata.format_version >= 3) {
    metadata.encryption_keys = elements(json, "encryption-keys", where);
    const auto next_row_id = find_int64(json, "next-row-id", where);
    metadata.next_row_id = next_row_id ? *next_row_id : highest_used_row_id(metadata);
  }
  metadata.unknown_members = unknown_members(json, kTableMembers);
  return metadata;
}

}  // namespace firn::iceberg
