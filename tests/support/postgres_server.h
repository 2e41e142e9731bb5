// A PostgreSQL server of a test's own, in a temporary folder.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "support/temp_folder.h"

namespace firn {

// Listens on a socket in its folder alone, and dies with this process. As root it runs as another user.
class PostgresServer {
 public:
  static bool is_installed();  // PostgreSQL 15's programs, under /usr/lib/postgresql/15/bin
  PostgresServer();            // started and ready
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  std::string new_database();                           // the URL of an empty one
  std::string copy_database(const std::string& url);    // of one to which no one is connected
  void drop_database(const std::string& url) noexcept;  // best effort
  void stop();                                          // at once, as a crash would
  void start();

 private:
  std::string create_database(const std::vector<std::string>& options);

  TempFolder folder_;
  pid_t pid_ = -1;
  int databases_ = 0;
};

// One for the whole test program, started when it is first asked for.
PostgresServer& postgres_server();

}  // namespace firn
