#include "support/postgres_server.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "support/run_program.h"

namespace firn {
namespace {

const std::string kPrograms = "/usr/lib/postgresql/15/bin/";
const std::string kUrlStart = "postgresql:///";

std::string name_in(const std::string& url) { return url.substr(kUrlStart.size(), url.find('?') - kUrlStart.size()); }

// Who the server runs as: it refuses to be root.
passwd* server_user() {
  if (geteuid() != 0) return nullptr;
  passwd* user = getpwnam("postgres");
  return user != nullptr ? user : getpwnam("nobody");
}

// Starts argv as the server's user, its output in `log`.
pid_t start_as_server_user(const std::vector<std::string>& argv, const std::string& log) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const passwd* user = server_user();
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) fail_errno(errno, "fork for " + argv[0]);
  if (pid > 0) return pid;
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  dup2(out, 1);
  dup2(out, 2);
  if (user != nullptr && (setgroups(0, nullptr) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
    _exit(126);
  prctl(PR_SET_PDEATHSIG, SIGQUIT);  // an immediate shutdown
  if (getppid() != parent) _exit(126);
  execv(words[0], words.data());
  _exit(127);
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

bool PostgresServer::is_installed() { return std::filesystem::exists(kPrograms + "postgres"); }

PostgresServer::PostgresServer() {
  if (const passwd* user = server_user()) {
    if (chown(folder_.path().c_str(), user->pw_uid, user->pw_gid) != 0) fail_errno(errno, "chown " + folder_.path());
  }
  const pid_t init = start_as_server_user({kPrograms + "initdb", "-D", folder_ / "data", "-U", "orca", "-A", "trust",
                                           "-E", "UTF8", "--no-locale", "--no-sync"},
                                          folder_ / "initdb.log");
  int status = 0;
  waitpid(init, &status, 0);
  if (status != 0) fail(ErrorKind::io, "initdb failed: {}", text_of(folder_ / "initdb.log"));
  start();
}

PostgresServer::~PostgresServer() { stop(); }

void PostgresServer::start() {
  // A client that is killed loses nothing by fsync = off; only the machine's own crash would.
  pid_ = start_as_server_user({kPrograms + "postgres", "-D", folder_ / "data", "-k", folder_.path(), "-c",
                               "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60"},
                              folder_ / "server.log");
  for (int i = 0; i < 600; ++i) {
    if (run_program({kPrograms + "pg_isready", "-q", "-h", folder_.path()}).status == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  fail(ErrorKind::io, "PostgreSQL does not answer: {}", text_of(folder_ / "server.log"));
}

void PostgresServer::stop() {
  if (pid_ < 0) return;
  kill(pid_, SIGQUIT);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string PostgresServer::new_database() { return create_database({}); }

std::string PostgresServer::copy_database(const std::string& url) {
  return create_database({"--template", name_in(url)});
}

void PostgresServer::drop_database(const std::string& url) noexcept {
  try {
    run_program({kPrograms + "dropdb", "--force", "-h", folder_.path(), "-U", "orca", name_in(url)});
  } catch (const Error&) {  // it goes with the server
  }
}

std::string PostgresServer::create_database(const std::vector<std::string>& options) {
  const std::string name = "test" + std::to_string(++databases_);
  std::vector<std::string> argv = {kPrograms + "createdb", "-h", folder_.path(), "-U", "orca"};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.push_back(name);
  const ProgramResult made = run_program(argv);
  if (made.status != 0) fail(ErrorKind::io, "createdb: {}", made.err);
  return kUrlStart + name + "?user=orca&host=" + folder_.path();
}

PostgresServer& postgres_server() {
  static PostgresServer server;
  return server;
}

}  // namespace firn
