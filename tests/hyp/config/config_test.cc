#include "hyp/config.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "hyp/type_text.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string config_error(const std::string& text) {
  try {
    parse_config(text, "/etc/hyp.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config) << error.what();
    return error.what();
  }
  return "no error";
}

std::string dataset_error(const std::string& body) {
  return config_error("{\"datasets\": {\"d\": {\n" + body + "\n}}}");
}

TEST(Config, AnEmptyObjectIsAllDefaults) {
  const Config config = parse_config("{}", "/etc/hyp.json");
  EXPECT_EQ(config.cache_root, "/etc/.hyp/cache");
  EXPECT_EQ(config.state_dir, "/etc/.hyp/state");
  EXPECT_TRUE(config.allow_undeclared_datasets);
  EXPECT_EQ(config.listen, "127.0.0.1:4747");
  EXPECT_TRUE(config.sinks.empty());
  EXPECT_TRUE(config.token.empty());
}

TEST(Config, TheInitialFileSaysTheDefaults) {
  const Config initial = parse_config(initial_config_text(), "/etc/hyp.json");
  const Config defaults = parse_config("{}", "/etc/hyp.json");
  EXPECT_EQ(initial.cache_root, defaults.cache_root);
  EXPECT_EQ(initial.state_dir, defaults.state_dir);
  EXPECT_EQ(initial.allow_undeclared_datasets, defaults.allow_undeclared_datasets);
  EXPECT_TRUE(initial.datasets.empty());
  EXPECT_TRUE(initial.sinks.empty());
  EXPECT_TRUE(initial.collect.empty());
  EXPECT_EQ(initial.listen, defaults.listen);
  EXPECT_EQ(initial.flush_interval_ms, defaults.flush_interval_ms);
  EXPECT_EQ(initial.flush_bytes, defaults.flush_bytes);
  EXPECT_EQ(initial.spool_bytes_max, defaults.spool_bytes_max);
  EXPECT_EQ(initial.cache_bytes_max, defaults.cache_bytes_max);
  EXPECT_EQ(initial.retention.days, defaults.retention.days);
  EXPECT_EQ(initial.retention.wait_for_sink_ack, defaults.retention.wait_for_sink_ack);
  EXPECT_EQ(initial.retention.grace_days, defaults.retention.grace_days);
  EXPECT_EQ(initial.compaction.target_file_bytes, defaults.compaction.target_file_bytes);
  EXPECT_EQ(initial.compaction.files_min, defaults.compaction.files_min);
  EXPECT_EQ(initial.compaction.metadata_bytes_max, defaults.compaction.metadata_bytes_max);
  EXPECT_EQ(initial.compaction.memory_bytes_max, defaults.compaction.memory_bytes_max);
  EXPECT_EQ(initial.compaction.tick_budget_ms, defaults.compaction.tick_budget_ms);
  EXPECT_EQ(initial.maintain_interval_ms, defaults.maintain_interval_ms);
}

TEST(Config, TheExamplesOfTheInitialFileAreValidTogether) {
  TempFolder folder;
  std::ofstream(folder / "token") << "secret\n";
  std::string text = initial_config_text();
  for (size_t at = 0; (at = text.find("//> ", at)) != std::string::npos;) text.erase(at, 4);
  const Config config = parse_config(text, folder / "hyp.json");
  const DatasetConfig requests = config.dataset("requests");
  ASSERT_TRUE(requests.schema.has_value());
  EXPECT_EQ(requests.schema->fields().size(), 6U);
  EXPECT_EQ(requests.schema->fields()[1].type->id(), iceberg::TypeId::long_);
  EXPECT_TRUE(requests.schema->fields()[1].required);
  EXPECT_EQ(requests.schema->find_field("amount")->type->to_string(), "decimal(9,2)");
  EXPECT_EQ(requests.schema->find_field("tags")->type->element().type->id(), iceberg::TypeId::string);
  EXPECT_EQ(requests.schema->find_field("client.port")->type->id(), iceberg::TypeId::int_);
  EXPECT_EQ(requests.row_bytes_max, DatasetConfig{}.row_bytes_max);
  EXPECT_EQ(requests.retention.days, 30);
  EXPECT_TRUE(requests.retention.wait_for_sink_ack);
  EXPECT_EQ(requests.retention.grace_days, RetentionConfig{}.grace_days);
  EXPECT_TRUE(requests.dedupe_content);
  ASSERT_EQ(config.sinks.size(), 3U);
  EXPECT_EQ(config.sinks[0].unit_rows_max, SinkConfig{}.unit_rows_max);
  EXPECT_EQ(config.sinks[0].unit_bytes_max, SinkConfig{}.unit_bytes_max);
  EXPECT_EQ(config.sinks[1].kind, SinkKind::iceberg);
  EXPECT_EQ(config.sinks[1].path, folder / "warehouse");
  EXPECT_EQ(config.sinks[2].kind, SinkKind::forward);
  EXPECT_EQ(config.sinks[2].forward.token_file, folder / "upstream.token");
  EXPECT_EQ(config.sinks[2].unit_rows_max, 10'000);
  EXPECT_EQ(config.sinks[2].unit_bytes_max, 4 << 20);
  EXPECT_EQ(config.sinks[2].parallel_max, SinkConfig{}.parallel_max);
  EXPECT_EQ(config.collect.at(0).glob, "/var/log/nginx/*.json");
  EXPECT_EQ(config.token, "secret");
  EXPECT_EQ(config.trace_file, folder / "trace.jsonl");
  const ReceiverConfig defaults;
  EXPECT_EQ(config.receiver.listen, defaults.listen);
  EXPECT_EQ(config.receiver.cert_file, folder / "cert.pem");
  EXPECT_EQ(config.receiver.key_file, folder / "key.pem");
  EXPECT_EQ(config.receiver.gateway_column, defaults.gateway_column);
  EXPECT_EQ(config.receiver.body_bytes_max, defaults.body_bytes_max);
  EXPECT_EQ(config.receiver.bodies_bytes_max, defaults.bodies_bytes_max);
  EXPECT_EQ(config.receiver.connections_max, defaults.connections_max);
  EXPECT_EQ(config.receiver.gateway_requests_per_s, defaults.gateway_requests_per_s);
  EXPECT_EQ(config.receiver.gateway_bytes_per_s, defaults.gateway_bytes_per_s);
  EXPECT_EQ(config.receiver.gateway_streams_max, defaults.gateway_streams_max);
  EXPECT_EQ(config.receiver.header_ms_max, defaults.header_ms_max);
  EXPECT_EQ(config.receiver.request_ms_max, defaults.request_ms_max);
  EXPECT_EQ(config.receiver.idle_ms_max, defaults.idle_ms_max);
  EXPECT_EQ(config.receiver.access_log, folder / "access.log");
  for (const char* key : {"listen", "certFile", "keyFile", "gatewayColumn", "maxBodyBytes", "maxQueuedBytes",
                          "maxConnections", "maxRequestsPerSecond", "maxBytesPerSecond", "maxStreamsPerGateway",
                          "headerTimeoutMs", "requestTimeoutMs", "idleTimeoutMs", "accessLog"})
    EXPECT_NE(text.find(std::string("\"") + key + "\":", text.find("\"receiver\"")), std::string::npos) << key;
}

TEST(Config, CommentsAndTrailingCommasAreFine) {
  const Config config = parse_config(
      "\xEF\xBB\xBF// a\n{ /* b \n */ \"cacheRoot\": \"//x/*y*/\", // c\n \"sinks\": [], }", "/etc/hyp.json");
  EXPECT_EQ(config.cache_root, "//x/*y*/");
}

TEST(Config, ColumnsAreDeclaredAsAnObjectOrAsAList) {
  const Config config = parse_config(
      R"({"datasets": {
            "a": {"columns": {"id": "long", "at": {"type": "timestamptz", "required": true}, "m": "map<string, list<double>>"}},
            "b": {"columns": [{"name": "id", "type": "long", "required": true}, {"name": "x", "type": "fixed[16]"}], "additionalColumns": true}}})",
      "/etc/hyp.json");
  const DatasetConfig a = config.dataset("a");
  EXPECT_FALSE(a.allow_new_columns);
  EXPECT_EQ(a.schema->fields()[0].id, 1);
  EXPECT_FALSE(a.schema->fields()[0].required);
  EXPECT_TRUE(a.schema->fields()[1].required);
  EXPECT_EQ(a.schema->find_field("m.value.element")->type->id(), iceberg::TypeId::double_);
  EXPECT_TRUE(config.dataset("b").allow_new_columns);
  EXPECT_EQ(config.dataset("b").schema->fields()[1].type->length(), 16);
}

TEST(Config, UndeclaredDatasetsHaveTheDefaultsUnlessRefused) {
  const Config open = parse_config(R"({"datasets": {"Known": {}}})", "/etc/hyp.json");
  EXPECT_EQ(open.dataset("other").name, "other");
  EXPECT_THROW(open.dataset("known"), Error);  // differs only in case
  const std::vector<std::string> wrong = {"", ".hidden", "a/b", "a..b", "ä", std::string(129, 'a')};
  for (const std::string& name : wrong) EXPECT_THROW(open.dataset(name), Error) << name;
  EXPECT_EQ(open.dataset(std::string(128, 'a')).name.size(), 128U);
  const Config closed = parse_config(R"({"datasets": {"known": {}}, "undeclaredDatasets": false})", "/etc/hyp.json");
  EXPECT_EQ(closed.dataset("known").name, "known");
  EXPECT_THROW(closed.dataset("other"), Error);
}

TEST(Config, ErrorsNameFileLineAndKey) {
  EXPECT_THAT(
      config_error("{\n  \"cacheroot\": \"x\"\n}"),
      AllOf(HasSubstr("/etc/hyp.json, line 2"), HasSubstr("\"cacheroot\""), HasSubstr("did you mean \"cacheRoot\"")));
  EXPECT_THAT(config_error("{\n\n  \"listen\":\n 5}"),
              AllOf(HasSubstr("line 3"), HasSubstr("\"listen\""), HasSubstr("string")));
  EXPECT_THAT(config_error("{\"listen\": \"localhost\"}"), HasSubstr("host:port"));
  EXPECT_THAT(config_error("{\n\"listen\": \"a:1\",\n\"listen\": \"b:1\"}"),
              AllOf(HasSubstr("line 3"), HasSubstr("twice")));
  EXPECT_THAT(config_error("{\n\"flushBytes\": 0}"), AllOf(HasSubstr("line 2"), HasSubstr("at least 1")));
  EXPECT_THAT(config_error("{\"flushBytes\": 1.5}"), HasSubstr("integer"));
  EXPECT_THAT(config_error("{\"flushBytes\": 99999999999999999999}"), HasSubstr("integer"));
  EXPECT_THAT(config_error("[]"), HasSubstr("object"));
  EXPECT_THAT(config_error("{\n\"cacheRoot\" \"x\"}"), AllOf(HasSubstr("line 2"), HasSubstr("':'")));
  EXPECT_THAT(config_error("{\n\"cacheRoot\": yes}"), AllOf(HasSubstr("line 2"), HasSubstr("'yes'")));
  EXPECT_THAT(config_error("{\n\"cacheRoot\": \"x}\n"), AllOf(HasSubstr("line 2"), HasSubstr("string")));
  EXPECT_THAT(config_error("{\n/* "), AllOf(HasSubstr("line 2"), HasSubstr("comment")));
  EXPECT_THAT(config_error("{}\n{}"), AllOf(HasSubstr("line 2"), HasSubstr("after")));
  EXPECT_THAT(config_error(std::string(100, '[')), HasSubstr("too deeply"));
  EXPECT_THAT(config_error("{\"tokenFile\": \"absent\"}"), AllOf(HasSubstr("tokenFile"), HasSubstr("absent")));
  EXPECT_THAT(config_error("{\"tokenEnv\": \"HYP_NO_SUCH_VARIABLE\"}"), HasSubstr("HYP_NO_SUCH_VARIABLE"));
}

TEST(Config, DatasetsAreChecked) {
  EXPECT_THAT(config_error("{\"datasets\": {\n\"a/b\": {}}}"), AllOf(HasSubstr("line 2"), HasSubstr("a/b")));
  EXPECT_THAT(config_error("{\"datasets\": {\"a\": {},\n\"A\": {}}}"), AllOf(HasSubstr("line 2"), HasSubstr("case")));
  EXPECT_THAT(dataset_error("\"columns\": {\"a\": \"long\",\n \"A\": \"long\"}"),
              AllOf(HasSubstr("line 3"), HasSubstr("case")));
  EXPECT_THAT(dataset_error("\"columns\": {\n\"_hyp_x\": \"long\"}"),
              AllOf(HasSubstr("line 3"), HasSubstr("reserved")));
  EXPECT_THAT(dataset_error("\"columns\": {\"a\": \"log\"}"),
              AllOf(HasSubstr("line 2"), HasSubstr("unknown type \"log\""), HasSubstr("long")));
  for (const std::string type : {"list<long", "list<>", "map<long, string>", "struct<a int>", "struct<>", "decimal(9)",
                                 "decimal(39,0)", "decimal(2,3)", "fixed[0]", "long long", "variant", ""}) {
    EXPECT_THAT(dataset_error("\"columns\": {\"a\": \"" + type + "\"}"), HasSubstr("line 2")) << type;
  }
  EXPECT_THAT(dataset_error("\"columns\": {}"), HasSubstr("names no column"));
  EXPECT_THAT(dataset_error("\"columns\": [{\"name\": \"a\"}]"), AllOf(HasSubstr("type"), HasSubstr("missing")));
  EXPECT_THAT(dataset_error("\"columns\": {\"a\": \"long\"},\n\"primaryTimestampColumn\": \"a\""),
              AllOf(HasSubstr("line 3"), HasSubstr("no timestamp")));
  EXPECT_THAT(dataset_error("\"columns\": {\"a\": \"long\"}, \"primaryTimestampColumn\": \"b\""),
              HasSubstr("no column \"b\""));
  EXPECT_THAT(
      dataset_error(
          "\"cachePartitioning\": {\"iceberg\": {\"fields\": [{\"column\": \"a\",\n\"transform\": \"weekly\"}]}}"),
      AllOf(HasSubstr("line 3"), HasSubstr("weekly")));
  EXPECT_THAT(dataset_error("\"columns\": {\"a\": \"double\"}, \"cachePartitioning\": {\"iceberg\": {\"fields\": "
                            "[{\"column\": \"a\", \"transform\": \"day\"}]}}"),
              HasSubstr("does not apply"));
  EXPECT_THAT(dataset_error("\"dedupe\": \"all\""), HasSubstr("content"));
}

TEST(Config, RetentionOfADatasetGoesBeforeThatOfAllMemberByMember) {
  const Config config = parse_config(
      R"({"retention": {"defaultDays": 30, "waitForSinkAck": true, "graceDays": 3},
          "datasets": {"longer": {"retention": {"days": 90}}, "eager": {"retention": {"waitForSinkAck": false}},
                       "patient": {"retention": {"graceDays": 0}}, "kept": {"retention": {"days": null}}, "plain": {}}})",
      "/etc/hyp.json");
  const auto text = [&](const char* dataset) {
    const RetentionConfig retention = config.dataset(dataset).retention;
    return fmt::format("{} {} {}", retention.days.value_or(-1), retention.wait_for_sink_ack, retention.grace_days);
  };
  EXPECT_EQ(text("longer"), "90 true 3");
  EXPECT_EQ(text("eager"), "30 false 3");
  EXPECT_EQ(text("patient"), "30 true 0");
  EXPECT_EQ(text("kept"), "-1 true 3");
  EXPECT_EQ(text("plain"), "30 true 3");
  EXPECT_EQ(text("undeclared"), "30 true 3");
}

TEST(Config, RowsAreKeptForEverUnlessSaid) {
  for (const char* text : {"{}", R"({"retention": {}})", R"({"retention": {"defaultDays": null}})"}) {
    EXPECT_FALSE(parse_config(text, "/etc/hyp.json").dataset("d").retention.days) << text;
  }
  // Whether 0 means at once or never is not guessed.
  EXPECT_THAT(dataset_error("\"retention\": {\"days\": 0}"),
              AllOf(HasSubstr("line 2"), HasSubstr("datasets.d.retention.days"), HasSubstr("at least 1; null keeps")));
  EXPECT_THAT(config_error("{\"retention\": {\"defaultDays\": 0}}"), HasSubstr("at least 1"));
}

TEST(Config, RetentionAndUpkeepAreChecked) {
  EXPECT_THAT(dataset_error("\"retention\": {\"days\": -1}"), HasSubstr("at least 1"));
  EXPECT_THAT(dataset_error("\"retention\": {\"day\": 1}"), HasSubstr("did you mean \"days\""));
  EXPECT_THAT(dataset_error("\"retention\": {\"days\": 1.5}"), HasSubstr("integer"));
  EXPECT_THAT(dataset_error("\"retention\": {\"days\": 9223372036854775807}"), HasSubstr("at most"));
  EXPECT_THAT(dataset_error("\"retention\": {\"graceDays\": -1}"), HasSubstr("at least 0"));
  EXPECT_THAT(config_error("{\"retention\": {\"days\": 1}}"), HasSubstr("unknown key"));
  EXPECT_THAT(config_error("{\"compaction\": {\n\"minFiles\": 1}}"),
              AllOf(HasSubstr("line 2"), HasSubstr("compaction.minFiles"), HasSubstr("at least 2")));
  EXPECT_THAT(config_error("{\"compaction\": {\"targetFileByte\": 1}}"), HasSubstr("did you mean \"targetFileBytes\""));
  EXPECT_THAT(config_error("{\"maxCacheBytes\": -1}"), HasSubstr("at least 0"));
  EXPECT_THAT(config_error("{\"maintainIntervalMs\": 0}"), HasSubstr("at least 1"));
  const Config config = parse_config(
      R"({"compaction": {"targetFileBytes": 1000, "minFiles": 2, "maxMetadataBytes": 3, "maxMemoryBytes": 40000000,
                         "tickBudgetMs": 5}, "maxCacheBytes": 6, "maintainIntervalMs": 7})",
      "/etc/hyp.json");
  EXPECT_EQ(config.compaction.target_file_bytes, 1000);
  EXPECT_EQ(config.compaction.files_min, 2);
  EXPECT_EQ(config.compaction.metadata_bytes_max, 3);
  EXPECT_EQ(config.compaction.memory_bytes_max, 40'000'000);
  EXPECT_EQ(config.compaction.tick_budget_ms, 5);
  EXPECT_EQ(config.cache_bytes_max, 6);
  EXPECT_EQ(config.maintain_interval_ms, 7);
}

TEST(Config, MessagesNameEachKeyOnceAndTypesWhole) {
  EXPECT_THAT(config_error("{\"sinks\": [{\"name\": \"a\", \"type\": \"blob\", \"path\": \"x\", \"zzzzzzzz\": 1}]}"),
              HasSubstr("known are: name, type, datasets, schedule, path, format, compression, maxRows, maxBytes"));
  EXPECT_THAT(dataset_error("\"columns\": {\"a\": \"int32\"}"), HasSubstr("unknown type \"int32\""));
  EXPECT_THAT(config_error("{\"undeclaredDatasets\": false, \"collect\": [{\"name\": \"a\", \"glob\": \"x\"}]}"),
              AllOf(HasSubstr("\"a\" is not declared"), HasSubstr("declared are: none")));
  EXPECT_THAT(dataset_error("\"columns\": {\"a\\u0000b\": \"long\"}"), HasSubstr("NUL"));
}

TEST(Config, ACollectedFilesDatasetIsItsNameUnlessSaid) {
  const Config config = parse_config(
      R"({"collect": [{"name": "a", "glob": "x"}, {"name": "b", "dataset": "c", "glob": "y"}]})", "/etc/hyp.json");
  EXPECT_EQ(config.collect[0].dataset, "a");
  EXPECT_EQ(config.collect[1].dataset, "c");
}

TEST(TypeText, IsReadBack) {
  for (const std::string text : {"long", "decimal(9,2)", "fixed[16]", "timestamptz_ns", "list<map<string, list<int>>>",
                                 "struct<a: long, b c: struct<d: list<string>>>"}) {
    int32_t next_id = 1;
    EXPECT_EQ(type_text(*parse_type(text, next_id)), text);
  }
}

TEST(Config, AForwardSinkHasItsOwnKeysAndLimits) {
  const Config config = parse_config(
      R"({"sinks": [
            {"name": "a", "type": "forward", "url": "http://localhost:1/"},
            {"name": "b", "type": "forward", "url": "https://r.example.com/base//", "tokenEnv": "T", "caFile": "ca.pem",
             "proxy": "http://p:3128", "compression": "none", "maxRows": 5, "maxBytes": 6, "maxParallel": 7,
             "datasets": ["d"], "schedule": "@hourly"}]})",
      "/etc/hyp.json");
  const SinkConfig& plain = config.sinks.at(0);
  EXPECT_EQ(plain.kind, SinkKind::forward);
  EXPECT_EQ(plain.forward.url, "http://localhost:1");
  EXPECT_EQ(plain.compression, "zstd");
  EXPECT_EQ(plain.unit_rows_max, 10'000);
  EXPECT_EQ(plain.unit_bytes_max, 4 << 20);
  EXPECT_TRUE(plain.forward.token_file.empty() && plain.forward.token_env.empty() && plain.forward.ca_file.empty());
  const SinkConfig& full = config.sinks.at(1);
  EXPECT_EQ(full.forward.url, "https://r.example.com/base");
  EXPECT_EQ(full.forward.token_env, "T");
  EXPECT_EQ(full.forward.ca_file, "/etc/ca.pem");
  EXPECT_EQ(full.forward.proxy, "http://p:3128");
  EXPECT_EQ(full.compression, "none");
  EXPECT_EQ(full.unit_rows_max, 5);
  EXPECT_EQ(full.unit_bytes_max, 6);
  EXPECT_EQ(full.parallel_max, 7);

  const auto error = [](const std::string& keys) {
    return config_error(R"({"sinks": [{"name": "a", "type": "forward")" + keys + "}]}");
  };
  EXPECT_THAT(error(""), AllOf(HasSubstr("sinks[0].url"), HasSubstr("missing")));
  for (const std::string url : {"r.example.com", "ftp://r", "http://r?x", "http://r#x", "http://r x"})
    EXPECT_THAT(error(R"(, "url": ")" + url + "\""), HasSubstr("sinks[0].url")) << url;
  EXPECT_THAT(error(R"(, "url": "http://r", "tokenFile": "t", "tokenEnv": "T")"), HasSubstr("tokenEnv"));
  EXPECT_THAT(error(R"(, "url": "http://r", "compression": "gzip")"), HasSubstr("gzip"));
  EXPECT_THAT(error(R"(, "url": "http://r", "maxBytes": 0)"), HasSubstr("maxBytes"));
  EXPECT_THAT(error(R"(, "url": "http://r", "queryable": true)"), HasSubstr("queryable"));
  for (const std::string key : {"path", "format", "namespace"})
    EXPECT_THAT(error(R"(, "url": "http://r", ")" + key + R"(": "x")"), HasSubstr("unknown key")) << key;
}

TEST(Config, NothingElseLiesInTheCachesOwnFolders) {
  EXPECT_THAT(config_error(R"({"cacheRoot": ""})"), AllOf(HasSubstr("cacheRoot"), HasSubstr("empty")));
  EXPECT_THAT(config_error(R"({"stateDir": ""})"), AllOf(HasSubstr("stateDir"), HasSubstr("empty")));
  for (const char* state : {"/c", "/c/", "/c/datasets", "/c/datasets/a", "/c/./spool", "/x/../c/receiver"}) {
    EXPECT_THAT(config_error(fmt::format(R"({{"cacheRoot": "/c", "stateDir": "{}"}})", state)),
                AllOf(HasSubstr("stateDir"), HasSubstr("the cache's own folders (/c)")))
        << state;
    EXPECT_THAT(config_error(fmt::format(
                    R"({{"cacheRoot": "/c", "sinks": [{{"name": "s", "type": "blob", "path": "{}"}}]}})", state)),
                AllOf(HasSubstr("sinks[0].path"), HasSubstr("the cache's own folders (/c)")))
        << state;
  }
  for (const char* state : {"/", "/s", "/cache", "/c/state", "/c/../datasets"}) {
    EXPECT_EQ(config_error(fmt::format(R"({{"cacheRoot": "/c/", "stateDir": "{}"}})", state)), "no error") << state;
  }
}

TEST(Config, TwoSinksShipNoDatasetToOnePlace) {
  const auto sinks = [](const std::string& a, const std::string& b) {
    return "{\"sinks\": [{\"name\": \"first\", " + a + "},\n{\"name\": \"second\", " + b + "}]}";
  };
  const auto names_both = AllOf(HasSubstr("line 2"), HasSubstr("\"first\" and \"second\""), HasSubstr("\"datasets\""));
  const std::string blob = R"("type": "blob", "path": ")", table = R"("type": "iceberg", "path": ")",
                    receiver = R"("type": "forward", "url": ")";
  const std::string a = R"(", "datasets": ["a"])", b = R"(", "datasets": ["b"])", a_b = R"(", "datasets": ["a", "b"])";
  for (const auto& [one, other] : std::vector<std::pair<std::string, std::string>>{
           {blob + "/x\"", blob + "/x\""},
           {blob + "/x\"", blob + "/x/\""},
           {blob + "/etc/x" + a, blob + "x\""},
           {blob + "/x" + a, blob + "/y/.././x" + a_b},
           {blob + "/x\"", blob + "/x\", \"format\": \"jsonl\", \"datasets\": []"}}) {
    EXPECT_THAT(config_error(sinks(one, other)),
                AllOf(names_both, HasSubstr("sinks[1].path"), HasSubstr("x: "), HasSubstr("another path")))
        << one << " and " << other;
  }
  EXPECT_THAT(config_error(sinks(table + "/x\"", table + "//x" + b)),
              AllOf(names_both, HasSubstr("sinks[1].path"), HasSubstr("/x/hyp: "), HasSubstr("another path")));
  EXPECT_THAT(config_error(sinks(receiver + "http://r/\"", receiver + "http://r" + a)),
              AllOf(names_both, HasSubstr("sinks[1].url"), HasSubstr("http://r: "), HasSubstr("another url")));

  for (const auto& [one, other] :
       std::vector<std::pair<std::string, std::string>>{{blob + "/x" + a, blob + "/x" + b},
                                                        {blob + "/x\"", blob + "/x/y\""},
                                                        {blob + "/x\"", table + "/x\""},
                                                        {table + "/x\"", table + "/x\", \"namespace\": \"other\""},
                                                        {receiver + "http://r" + a, receiver + "http://r" + b},
                                                        {receiver + "http://r\"", receiver + "http://r:1\""}}) {
    EXPECT_EQ(parse_config(sinks(one, other), "/etc/hyp.json").sinks.size(), 2U) << one << " and " << other;
  }
}

TEST(Config, SinksAreChecked) {
  const auto sink_error = [](const std::string& sink) {
    return config_error("{\"undeclaredDatasets\": false, \"sinks\": [\n" + sink + "]}");
  };
  EXPECT_THAT(sink_error("{\"type\": \"blob\", \"path\": \"x\"}"),
              AllOf(HasSubstr("line 2"), HasSubstr("sinks[0].name")));
  EXPECT_THAT(sink_error("{\"name\": \"a\", \"type\": \"s3\", \"path\": \"x\"}"), HasSubstr("\"s3\""));
  EXPECT_THAT(sink_error("{\"name\": \"a/b\", \"type\": \"blob\", \"path\": \"x\"}"), HasSubstr("a/b"));
  EXPECT_THAT(sink_error("{\"name\": \"a\", \"type\": \"blob\",\n\"path\": \"x\",\n\"schedule\": \"* * *\"}"),
              AllOf(HasSubstr("line 4"), HasSubstr("schedule")));
  EXPECT_THAT(sink_error("{\"name\": \"a\", \"type\": \"blob\", \"path\": \"x\", \"format\": \"csv\"}"),
              HasSubstr("csv"));
  EXPECT_THAT(
      sink_error(
          "{\"name\": \"a\", \"type\": \"blob\", \"path\": \"x\", \"format\": \"jsonl\", \"compression\": \"snappy\"}"),
      HasSubstr("snappy"));
  EXPECT_THAT(sink_error("{\"name\": \"a\", \"type\": \"iceberg\", \"path\": \"x\", \"format\": \"parquet\"}"),
              HasSubstr("unknown key"));
  EXPECT_THAT(sink_error("{\"name\": \"a\", \"type\": \"blob\", \"path\": \"x\", \"datasets\": [\"absent\"]}"),
              HasSubstr("\"absent\""));
  EXPECT_THAT(sink_error("{\"name\": \"a\", \"type\": \"blob\", \"path\": \"x\"},\n{\"name\": \"A\", \"type\": "
                         "\"blob\", \"path\": \"x\"}"),
              AllOf(HasSubstr("line 3"), HasSubstr("another sink")));
}

TEST(Config, TheOptionComesBeforeTheVariableBeforeTheHomeFolder) {
  TempFolder folder;
  std::filesystem::create_directories(folder / "home/.config/hyp");
  std::ofstream(folder / "option.json") << R"({"cacheRoot": "o"})";
  std::ofstream(folder / "variable.json") << R"({"cacheRoot": "v"})";
  ASSERT_EQ(::setenv("HOME", (folder / "home").c_str(), 1), 0);
  ASSERT_EQ(::setenv("HYP_CONFIG", (folder / "variable.json").c_str(), 1), 0);
  EXPECT_EQ(find_config(folder / "option.json").cache_root, folder / "o");
  EXPECT_EQ(find_config("").cache_root, folder / "v");
  ::unsetenv("HYP_CONFIG");
  EXPECT_EQ(find_config("").cache_root, folder / "home/.hyp/cache");
  std::ofstream(folder / "home/.config/hyp/hyp.json") << R"({"cacheRoot": "h"})";
  EXPECT_EQ(find_config("").cache_root, folder / "home/.config/hyp/h");
  EXPECT_THROW(find_config(folder / "absent.json"), Error);
}

}  // namespace
}  // namespace firn::hyp
