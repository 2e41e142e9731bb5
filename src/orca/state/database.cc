#include "orca/state/database.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace firn::orca {

std::optional<int64_t> SqlRow::maybe_integer(size_t column) const {
  const std::optional<std::string>& text = cell(column);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    fail(ErrorKind::corrupt, "the state of runs: \"{}\" stands where a number should", *text);
  }
  return value;
}

int64_t SqlRow::integer(size_t column) const {
  const std::optional<int64_t> value = maybe_integer(column);
  if (!value) fail(ErrorKind::corrupt, "the state of runs: a number is missing");
  return *value;
}

std::string SqlRow::text(size_t column) const { return cell(column).value_or(""); }

StateLocation state_location() {
  const char* url = std::getenv("ORCA_DATABASE_URL");
  if (url != nullptr && *url != '\0') {
    const std::string_view text = url;
    if (!text.starts_with("postgres://") && !text.starts_with("postgresql://") && text.find('=') == text.npos) {
      fail(ErrorKind::config,
           "ORCA_DATABASE_URL: \"{}\" is no address of a PostgreSQL database (postgresql://USER@HOST/DATABASE)", text);
    }
    return {.postgres_url = url};
  }
  const char* path = std::getenv("ORCA_STATE");
  const std::string name = path == nullptr || *path == '\0' ? ".orca/state.db" : path;
  return {.sqlite_path = std::filesystem::absolute(name).string()};
}

std::unique_ptr<Database> open_database(const StateLocation& location) {
  std::unique_ptr<Database> database =
      location.postgres_url.empty() ? open_sqlite(location.sqlite_path, true) : open_postgres(location.postgres_url);
  migrate(*database);
  return database;
}

std::unique_ptr<Database> open_existing_database(const StateLocation& location) {
  if (!location.postgres_url.empty()) return open_database(location);
  std::unique_ptr<Database> database = open_sqlite(location.sqlite_path, false);
  migrate(*database);
  return database;
}

}  // namespace firn::orca
