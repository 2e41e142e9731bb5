// What may be changed, and what a change would leave.
#include <fmt/ranges.h>

#include "cli/firn/command.h"
#include "iceberg/catalog/version_files.h"

namespace firn::cli {
namespace {

using iceberg::LoadedTable;
using iceberg::TableMetadata;
using iceberg::TableOperations;

// A commit went all the way to publishing. An Error, so that the commit takes back what it wrote.
class NotPublished final : public Error {
 public:
  explicit NotPublished(TableMetadata next)
      : Error(ErrorKind::cancelled, "a dry run publishes nothing"),
        next_(std::make_shared<TableMetadata>(std::move(next))) {}
  const TableMetadata& next() const { return *next_; }

 private:
  std::shared_ptr<TableMetadata> next_;
};

class UnpublishedTable final : public TableOperations {
 public:
  explicit UnpublishedTable(TableOperations& table) : table_(table) {}
  const std::string& location() const override { return table_.location(); }
  const std::shared_ptr<FileIO>& io() const override { return table_.io(); }
  LoadedTable load() override { return table_.load(); }
  Published publish(const LoadedTable& base, TableMetadata next, int64_t) override {
    check_may_change(table_, base);
    serialize_table_metadata(next);  // refuses what cannot be written
    throw NotPublished(std::move(next));
  }

 private:
  TableOperations& table_;
};

}  // namespace

void check_may_change(const TableOperations& table, const LoadedTable& head) {
  iceberg::check_may_publish(table.location(), head.metadata_path);
}

void check_branch(const TableMetadata& metadata, const std::string& branch) {
  const auto ref = metadata.refs.find(branch);
  if (ref != metadata.refs.end() && !ref->second.is_branch) {
    fail(ErrorKind::invalid_argument, "'{}' is a tag; only branches take commits", branch);
  }
  if (ref != metadata.refs.end() || branch == "main") return;
  std::vector<std::string> names = {"main"};
  for (const auto& [name, other] : metadata.refs) {
    if (other.is_branch && name != "main") names.push_back(name);
  }
  fail(ErrorKind::not_found, "there is no branch '{}'{} (the table has: {}; firn branch makes another)", branch,
       did_you_mean(branch, names), fmt::join(names, ", "));
}

std::optional<TableMetadata> metadata_after(TableOperations& table,
                                            const std::function<void(TableOperations&)>& commit) {
  UnpublishedTable unpublished(table);
  try {
    commit(unpublished);
  } catch (const NotPublished& reached) {
    return reached.next();
  }
  return std::nullopt;
}

}  // namespace firn::cli
