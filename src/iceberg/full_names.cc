#include "iceberg/full_names.h"

#include <unordered_set>

#include "base/error.h"

namespace firn::iceberg {
namespace {

std::optional<std::string> find_repeated(const Type& type, const std::string& prefix,
                                         std::unordered_set<std::string>& names) {
  for (const Field& field : type.fields()) {
    std::string name = prefix + field.name;
    if (!names.insert(name).second) return name;
    if (auto repeated = find_repeated(*field.type, name + ".", names)) return repeated;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> repeated_full_name(const Schema& schema) {
  if (schema.fields().empty()) return std::nullopt;
  std::unordered_set<std::string> names;
  return find_repeated(*schema.as_struct(), "", names);
}

void check_full_names(const Schema& schema) {
  if (const auto name = repeated_full_name(schema))
    fail(ErrorKind::invalid_argument,
         "Column {0}: a column named \"{0}\" and a member of a struct have this full name, and other engines refuse "
         "such "
         "a table: rename one of the two",
         *name);
}

}  // namespace firn::iceberg
