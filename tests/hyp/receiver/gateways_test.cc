// Who may send: gateways.json, and the commands that change it.
#include "hyp/receiver/gateways.h"

#include <sys/stat.h>

#include <thread>

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/fault_point.h"
#include "base/hash.h"
#include "io/file_io.h"
#include "io/local.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Gateways, OnlyHashesOfTokensAreKeptAndOnlyForTheOwner) {
  const TempFolder folder;
  const std::string state = folder / "state";
  const std::string token = add_gateway(state, "edge-1");
  EXPECT_THAT(token, MatchesRegex("[A-Za-z0-9_-]{43}"));  // 32 bytes
  const std::string text = make_local_file_io()->read(gateways_path(state));
  EXPECT_THAT(text, HasSubstr(to_hex(sha256(token))));
  EXPECT_THAT(text, Not(HasSubstr(token)));
  struct stat info;
  ASSERT_EQ(::stat(gateways_path(state).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  rotate_gateway(state, "edge-1");
  ASSERT_EQ(::stat(gateways_path(state).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST(Gateways, ATokenFileIsItsOwnersAloneAndNeverWrittenOver) {
  const TempFolder folder;
  const std::string state = folder / "state", file = folder / "tokens/edge-1";
  const std::string token = add_gateway(state, "edge-1", file);
  EXPECT_EQ(make_local_file_io()->read(file), token + "\n");
  struct stat info;
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  GatewayTokens tokens(state);
  EXPECT_EQ(tokens.find(token), "edge-1");
  try {
    rotate_gateway(state, "edge-1", file);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::already_exists);
    EXPECT_THAT(e.what(), HasSubstr(file));
  }
  EXPECT_THROW(add_gateway(state, "edge-2", file), Error);
  EXPECT_THROW(add_gateway(state, "edge-1", folder / "tokens/again"), Error);
  EXPECT_FALSE(make_local_file_io()->stat(folder / "tokens/again")) << "there is no token for it";
  EXPECT_EQ(make_local_file_io()->read(file), token + "\n");
  EXPECT_EQ(load_gateways(state).size(), 1U);
  EXPECT_EQ(GatewayTokens(state).find(token), "edge-1") << "the old token goes on where the new one could not be kept";
}

TEST(Gateways, TokensAreTheirOwnUntilRotatedOrRemoved) {
  const TempFolder folder;
  int64_t now_us = 0;
  const std::string one = add_gateway(folder.path(), "one"), two = add_gateway(folder.path(), "two");
  GatewayTokens tokens(folder.path(), [&] { return now_us; });
  EXPECT_EQ(tokens.find(one), "one");
  EXPECT_EQ(tokens.find(two), "two");
  EXPECT_EQ(tokens.find(""), std::nullopt);
  EXPECT_EQ(tokens.find(to_hex(sha256(one))), std::nullopt) << "what is in the file opens nothing";
  const std::string rotated = rotate_gateway(folder.path(), "one");
  remove_gateway(folder.path(), "two");
  EXPECT_EQ(tokens.find(one), "one") << "it looks once a second";
  now_us += 1'000'000;
  EXPECT_EQ(tokens.find(one), std::nullopt);
  EXPECT_EQ(tokens.find(rotated), "one");
  EXPECT_EQ(tokens.find(two), std::nullopt);
  remove_gateway(folder.path(), "one");
  now_us += 1'000'000;
  EXPECT_TRUE(tokens.is_empty());
}

TEST(Gateways, WhatCannotBeReadLeavesThemAsTheyWere) {
  const TempFolder folder;
  int64_t now_us = 0;
  const std::string token = add_gateway(folder.path(), "one");
  GatewayTokens tokens(folder.path(), [&] { return now_us; });
  replace_file(gateways_path(folder.path()), "{");
  now_us += 1'000'000;
  EXPECT_EQ(tokens.find(token), "one");
  EXPECT_THROW(GatewayTokens(folder.path()), Error) << "but none is served by a receiver that begins so";
  EXPECT_THROW(add_gateway(folder.path(), "two"), Error) << "nor is it written over";
  remove_file(gateways_path(folder.path()));
  now_us += 1'000'000;
  EXPECT_EQ(tokens.find(token), std::nullopt) << "no file is no gateway";
}

TEST(Gateways, NamesAreUniqueInWhateverCaseAndNoPaths) {
  const TempFolder folder;
  add_gateway(folder.path(), "edge");
  const auto kind_of = [&](const std::function<void()>& change) {
    try {
      change();
    } catch (const Error& e) {
      return e.kind();
    }
    return ErrorKind::internal;
  };
  EXPECT_EQ(kind_of([&] { add_gateway(folder.path(), "edge"); }), ErrorKind::already_exists);
  EXPECT_EQ(kind_of([&] { add_gateway(folder.path(), "EDGE"); }), ErrorKind::already_exists);
  for (const char* name : {"", "..", "a/b", "a b", "a\"b", ".a"})
    EXPECT_EQ(kind_of([&] { add_gateway(folder.path(), name); }), ErrorKind::invalid_argument) << name;
  EXPECT_EQ(kind_of([&] { remove_gateway(folder.path(), "other"); }), ErrorKind::not_found);
  EXPECT_EQ(kind_of([&] { rotate_gateway(folder.path(), "other"); }), ErrorKind::not_found);
}

TEST(Gateways, AChangeThatIsCutShortHappenedOrDidNot) {
  int points = 0;
  {
    const TempFolder folder;
    add_gateway(folder.path(), "one");
    set_fault_handler([&](const char*) { ++points; });
    add_gateway(folder.path(), "two");
    set_fault_handler(nullptr);
  }
  ASSERT_GT(points, 0);
  for (int point = 1; point <= points; ++point) {
    const TempFolder folder;
    const std::string token = add_gateway(folder.path(), "one");
    int passes = 0;
    set_fault_handler([&](const char* name) {
      if (++passes == point) fail(ErrorKind::io, "cut short at {}", name);
    });
    EXPECT_THROW(add_gateway(folder.path(), "two"), Error) << point;
    set_fault_handler(nullptr);
    EXPECT_EQ(GatewayTokens(folder.path()).find(token), "one") << point;
    const size_t count = load_gateways(folder.path()).size();
    EXPECT_TRUE(count == 1 || count == 2) << point;
    if (count == 2) remove_gateway(folder.path(), "two");
    add_gateway(folder.path(), "two");
    EXPECT_EQ(load_gateways(folder.path()).size(), 2U) << point;
  }
}

TEST(Gateways, ChangesAtOnceAreAllKept) {
  const TempFolder folder;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&, i] { add_gateway(folder.path(), fmt::format("g{}", i)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(load_gateways(folder.path()).size(), 8U);
}

}  // namespace
}  // namespace firn::hyp
