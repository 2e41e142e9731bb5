#include "iceberg/commit/history.h"

#include <charconv>

#include "iceberg/catalog/head.h"
#include "iceberg/metadata/properties.h"

namespace firn::iceberg {
namespace {

const Field* find_ever(const TableMetadata& base, int32_t id) {
  for (const Schema& schema : base.schemas) {
    if (const Field* field = schema.find_field(id)) return field;
  }
  return nullptr;
}

bool may_become(const Type& from, const Type& to, int32_t format_version) {
  // Children of nested types have ids of their own, and are compared by them.
  return from.is_nested() || to.is_nested() ? from.id() == to.id() : can_promote(from, to, format_version);
}

void check_fields(const TableMetadata& base, const Schema& written, const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    const Field* current = base.schema().find_field(field.id);
    const Field* known = current ? current : find_ever(base, field.id);
    const auto refuse = [&](const std::string& what) {
      fail(ErrorKind::schema_mismatch,
           "table {}: files were written with column {} as field id {} ({}), {}; load the table and write them anew",
           base.location, written.full_name(field.id), field.id, field.type->to_string(), what);
    };
    if (!known) refuse("which the table never gave out");
    if (known->name != field.name) refuse("which the table gives to '" + known->name + "'");
    if (!may_become(*field.type, *known->type, base.format_version)) {
      refuse("which the table has as " + known->type->to_string());
    }
    if (current) {
      if (base.schema().path_to(field.id) != written.path_to(field.id)) refuse("which the table has in another struct");
      if (current->required && !field.required) refuse("which the table requires and the files leave optional");
    }
    if (field.type->is_nested()) check_fields(base, written, field.type->fields());
  }
}

const std::string* find_property(const Snapshot& snapshot, const std::string& key) {
  const auto found = snapshot.summary.find(key);
  return found == snapshot.summary.end() ? nullptr : &found->second;
}

[[noreturn]] void fail_cut(const TableMetadata& base, const CommitId& id, int64_t missing) {
  fail(ErrorKind::commit_unknown,
       "table {}: whether {} '{}' was committed cannot be told: snapshot {} was expired, and it may be above sequence "
       "number {}; "
       "look for its rows before doing it again",
       base.location, id.property, id.value, missing, id.floor_sequence);
}

}  // namespace

BackoffOptions retry_options(const TableMetadata& metadata) {
  BackoffOptions options;
  options.num_retries = wait_property(metadata, "commit.retry.num-retries", options.num_retries);
  options.min_wait_ms = wait_property(metadata, "commit.retry.min-wait-ms", options.min_wait_ms);
  options.max_wait_ms = wait_property(metadata, "commit.retry.max-wait-ms", options.max_wait_ms);
  options.total_ms = wait_property(metadata, "commit.retry.total-timeout-ms", options.total_ms);
  return options;
}

const Snapshot* branch_head(const TableMetadata& base, const std::string& branch) {
  const auto ref = base.refs.find(branch);
  if (ref == base.refs.end()) return base.current_snapshot();
  if (!ref->second.is_branch) {
    fail(ErrorKind::invalid_argument, "table {}: '{}' is a tag; only branches take commits", base.location, branch);
  }
  const Snapshot* head = base.find_snapshot(ref->second.snapshot_id);
  if (!head)
    fail(ErrorKind::corrupt, "table {}: branch '{}' names snapshot {}, which is not there", base.location, branch,
         ref->second.snapshot_id);
  return head;
}

std::optional<int64_t> walk_history(const TableMetadata& base, const std::string& branch, int64_t floor_sequence,
                                    const std::function<bool(const Snapshot& step, const Snapshot& made)>& visit) {
  const Snapshot* step = branch_head(base, branch);
  while (step && step->sequence_number > floor_sequence) {
    if (!visit(*step, *step)) return std::nullopt;
    if (const std::string* text = find_property(*step, "source-snapshot-id")) {
      int64_t source_id = 0;
      const auto parsed = std::from_chars(text->data(), text->data() + text->size(), source_id);
      const Snapshot* source = parsed.ec == std::errc{} ? base.find_snapshot(source_id) : nullptr;
      if (!source) return source_id;
      if (source->sequence_number > floor_sequence && !visit(*step, *source)) return std::nullopt;
    }
    if (!step->parent_snapshot_id) return std::nullopt;
    const Snapshot* parent = base.find_snapshot(*step->parent_snapshot_id);
    // A parent's number is lower, so one that is gone matters only if it can be above the floor.
    if (!parent && step->sequence_number - 1 > floor_sequence) return *step->parent_snapshot_id;
    step = parent;
  }
  return std::nullopt;
}

std::optional<int64_t> find_commit(const TableMetadata& base, const std::string& branch, const CommitId& id) {
  std::optional<int64_t> found;
  const std::optional<int64_t> missing =
      walk_history(base, branch, id.floor_sequence, [&](const Snapshot& step, const Snapshot& made) {
        const std::string* value = find_property(made, id.property);
        if (value && *value == id.value) found = step.snapshot_id;
        return !found;
      });
  if (missing) fail_cut(base, id, *missing);
  return found;
}

bool proves_lost(const LoadedTable& head, const LoadedTable& base, const std::string& branch) {
  if (head.version <= base.version) return false;
  const Snapshot* parent = branch_head(*base.metadata, branch);
  return head.version == base.version + 1 ||
         leads_back(*head.metadata, branch, parent ? std::optional(parent->snapshot_id) : std::nullopt);
}

void check_field_ids(const TableMetadata& base, const Schema& written) {
  check_fields(base, written, written.fields());
}

void check_partition_spec(const TableMetadata& base, const PartitionSpec& written, const Schema& schema) {
  const PartitionSpec& spec = base.spec();
  if (spec.spec_id == written.spec_id && spec.compatible_with(written)) return;
  fail(ErrorKind::partition_spec_drift,
       "table {}: its partition spec is now {} (id {}), but the files were written under {} (id {})", base.location,
       spec.to_display(base.schema()), spec.spec_id, written.to_display(schema), written.spec_id);
}

}  // namespace firn::iceberg
