// SQL over a cache of another system, which no query changes (P9.3).
#include <gtest/gtest.h>

#include "hyp/cache/legacy_table.h"
#include "hyp/query/query_box.h"

namespace firn::hyp {
namespace {

TEST(QueryLegacy, ATableWithoutTheHiddenColumnsIsReadAsItIs) {
  CacheBox box;
  Cache cache(box.config);
  const PartitionId partition{"logs", "s"};
  make_legacy_table(cache, partition, id_and_text());
  append_as_other(cache, partition, {R"({"id":1,"text":"a"})", R"({"id":2,"text":"b"})"});
  const int64_t version = legacy_table(cache, partition)->load().version;
  EXPECT_EQ(single_value(cache, "select count(*) from logs"), "2");
  EXPECT_EQ(single_value(cache, "select text from logs where id = 2"), "\"b\"");
  EXPECT_EQ(text_result(cache, "select * from logs order by id", OutputFormat::csv), "id,text\n1,a\n2,b\n");
  EXPECT_EQ(legacy_table(cache, partition)->load().version, version);
  ingest(cache, {make_frame("logs", "s", {R"({"id":3,"text":"c"})"}), make_frame("logs", "t", {R"({"id":4})"})});
  EXPECT_EQ(text_result(cache, "select * from logs order by id", OutputFormat::csv), "id,text\n1,a\n2,b\n3,c\n4,\n");
  EXPECT_EQ(single_value(cache, "select count(*) from logs"), "4");
}

}  // namespace
}  // namespace firn::hyp
