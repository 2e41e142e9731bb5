// `hyp serve` and `hyp gateway` as a user runs them.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "hyp/http/raw_client.h"
#include "io/file_io.h"
#include "io/local.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace firn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

class HypServe : public testing::Test {
 protected:
  ProgramResult hyp(Strings words) const {
    words.insert(words.begin(), {FIRN_HYP_PROGRAM, "--config", folder_ / "hyp.json"});
    return run_program(words);
  }
  std::string output_of(const Strings& words) const {
    const ProgramResult result = hyp(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
  std::string printed() const { return make_local_file_io()->read_if_exists(folder_ / "serve.out").value_or(""); }
  void start(const std::string& option = "") {
    std::filesystem::remove(folder_ / "serve.out");  // what an earlier one said
    pid_ = ::fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      const std::string config = folder_ / "hyp.json", out_path = folder_ / "serve.out";
      const int in = ::open("/dev/null", O_RDONLY), out = ::open(out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(in, 0);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execl(FIRN_HYP_PROGRAM, FIRN_HYP_PROGRAM, "--config", config.c_str(), "serve",
              option.empty() ? nullptr : option.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    for (int i = 0; i < 500 && printed().find("serving") == std::string::npos; ++i) ::usleep(20'000);
    ASSERT_THAT(printed(), HasSubstr("serving"));
  }
  int stop() {
    int status = 0;
    ::kill(pid_, SIGTERM);
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void TearDown() override {
    if (pid_ > 0) stop();
  }
  uint16_t port() const {
    const std::string text = printed();
    const size_t at = text.find("receiving on http://127.0.0.1:");
    return static_cast<uint16_t>(std::stoi(text.substr(at + 30)));
  }
  int post(const std::string& token, const std::string& rows, const std::string& headers = "") const {
    hyp::RawClient client(port());
    client.send(
        fmt::format("POST /v1/ingest/events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\n{}"
                    "Content-Length: {}\r\n\r\n{}",
                    token, headers, rows.size(), rows));
    return client.status();
  }
  // Of a stream of its own.
  int post_batch(const std::string& token, const std::string& rows, const std::string& range) const {
    return post(token, rows,
                fmt::format("X-Hyp-Batch-Id: b{}\r\nX-Hyp-Stream: c/events/source=default\r\nX-Hyp-Open: o\r\n"
                            "X-Hyp-Seq-Range: {}\r\n",
                            rows.size(), range));
  }

  TempFolder folder_;
  pid_t pid_ = 0;
};

std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

TEST_F(HypServe, GatewaysAreAddedWhileItRunsAndTheirRowsAreQueried) {
  replace_file(folder_ / "hyp.json",
               R"({"listen": "", "receiver": {"listen": "127.0.0.1:0", "accessLog": "access.log"}})");
  start();
  EXPECT_THAT(printed(), HasSubstr("hyp gateway add"));
  EXPECT_THAT(output_of({"gateway", "list"}), HasSubstr("there is no gateway"));
  const std::string token = trimmed(output_of({"gateway", "add", "edge-1"}));
  int status = 401;
  for (int i = 0; i < 500 && status == 401; ++i) {  // it looks once a second
    status = post(token, "{\"n\":1}\n");
    ::usleep(20'000);
  }
  EXPECT_EQ(status, 202);
  ::kill(pid_, SIGHUP);  // as what rotates logs sends it
  ::usleep(50'000);
  EXPECT_EQ(post(token, "{\"n\":2}\n"), 202);
  EXPECT_EQ(output_of({"query", "select hyp_gateway, n from events order by n", "--format", "csv"}),
            "hyp_gateway,n\nedge-1,1\nedge-1,2\n");
  EXPECT_EQ(stop(), 0);
  EXPECT_THAT(make_local_file_io()->read(folder_ / "access.log"),
              AllOf(HasSubstr("\"outcome\":\"captured\""), HasSubstr("\"outcome\":\"unauthorized\"")));
  EXPECT_EQ(output_of({"query", "select count(*) as c from events", "--format", "csv"}), "c\n2\n")
      << "flushed at the end";
}

TEST_F(HypServe, ALedgerOfAnOlderBackupThanTheTablesWaitsForAWord) {
  replace_file(folder_ / "hyp.json", R"({"listen": "", "receiver": {"listen": "127.0.0.1:0"}})");
  const std::string token = trimmed(output_of({"gateway", "add", "edge-1"}));
  const std::string ledger = folder_ / ".hyp/cache/receiver", saved = folder_ / "saved";
  start();
  EXPECT_EQ(post_batch(token, "{\"n\":1}\n", "0,1;start"), 202);
  EXPECT_EQ(stop(), 0);
  std::filesystem::copy(ledger, saved, std::filesystem::copy_options::recursive);
  start();
  EXPECT_EQ(post_batch(token, "{\"n\":22}\n", "1,2"), 202);
  EXPECT_EQ(stop(), 0);  // what it received is in the tables
  std::filesystem::remove_all(ledger);
  std::filesystem::copy(saved, ledger, std::filesystem::copy_options::recursive);
  const ProgramResult refused = hyp({"serve"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("ledger.db"), HasSubstr("datasets/events/source=edge-1"),
                                 HasSubstr("hyp serve --older-ledger")));
  start("--older-ledger");
  EXPECT_EQ(post_batch(token, "{\"n\":333}\n", "2,3"), 409) << "the sender is told what the ledger knows";
  EXPECT_EQ(stop(), 0);
  start();
  EXPECT_EQ(post_batch(token, "{\"n\":22}\n", "1,2"), 202) << "the operator's word";
  EXPECT_EQ(stop(), 0);
}

TEST_F(HypServe, ATokenIsShownOnceAndAMistakeSaysWhatToDo) {
  replace_file(folder_ / "hyp.json", "{}");
  const std::string first = trimmed(output_of({"gateway", "add", "edge-1"}));
  const std::string second = trimmed(output_of({"gateway", "rotate", "edge-1"}));
  EXPECT_EQ(first.size(), 43U);
  EXPECT_NE(first, second);
  const std::string list = output_of({"gateway", "list", "--json"});
  EXPECT_EQ(Json::parse(list)["gateways"][0]["name"], "edge-1");
  EXPECT_THAT(list, Not(HasSubstr(second)));
  const ProgramResult again = hyp({"gateway", "add", "edge-1"});
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, HasSubstr("hyp gateway rotate edge-1"));
  EXPECT_EQ(hyp({"gateway", "remove", "edge-2"}).status, 1);
  EXPECT_EQ(hyp({"gateway"}).status, 2);
  EXPECT_EQ(hyp({"gateway", "add"}).status, 2);
  EXPECT_THAT(output_of({"gateway", "rotate", "edge-1", "--token-file", folder_ / "token"}),
              AllOf(HasSubstr(folder_ / "token"), HasSubstr("tokenFile")));
  EXPECT_EQ(trimmed(make_local_file_io()->read(folder_ / "token")).size(), 43U);
  EXPECT_THAT(hyp({"gateway", "add", "edge-3", "--token-file", folder_ / "token"}).err, HasSubstr("already"));
  EXPECT_THAT(hyp({"gateway", "add", "edge-3", "--token-file", folder_ / "tokns/edge-3"}).err,
              HasSubstr("there is no folder"));
  EXPECT_EQ(hyp({"gateway", "remove", "edge-1", "--token-file", "x"}).status, 2);
  EXPECT_EQ(hyp({"gateway", "remove", "edge-1"}).status, 0);
  EXPECT_THAT(output_of({"gateway", "list"}), HasSubstr("there is no gateway"));
}

}  // namespace
}  // namespace firn
