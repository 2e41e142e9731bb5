// A dropped table is gone whole, and nothing that is not its own goes with it.
#include "iceberg/catalog/drop_table.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/catalog/catalog.h"
#include "support/temp_folder.h"

namespace firn::iceberg {
namespace {

class DropTable : public ::testing::Test {
 protected:
  void make(std::map<std::string, std::string> properties = {}) {
    const Schema schema({Field{.id = 1, .name = "id", .type = Type::primitive(TypeId::long_)}});
    create_filesystem_table(io_, new_table_metadata(location_, schema, {}, {}, std::move(properties), 1));
    ASSERT_TRUE(io_->put_if_absent(location_ + "/data/a.parquet", "abc"));
    ASSERT_TRUE(io_->put_if_absent(location_ + "/notes.txt", "mine"));
  }
  template <class Call>
  ErrorKind error_of(const Call& call) {
    try {
      call();
    } catch (const Error& e) {
      return e.kind();
    }
    ADD_FAILURE() << "no error";
    return ErrorKind::internal;
  }

  TempFolder folder_;
  std::shared_ptr<FileIO> io_ = make_local_file_io();
  std::string location_ = folder_ / "t";
};

TEST_F(DropTable, TakesMetadataAndDataAndLeavesOtherFiles) {
  make();
  const DroppedTable dropped = drop_filesystem_table(io_, location_, {});
  EXPECT_FALSE(filesystem_table_exists(*io_, location_));
  EXPECT_EQ(dropped.kept, std::vector<std::string>{location_ + "/notes.txt"});
  const std::vector<FileInfo> left = io_->list(location_, true);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].path, location_ + "/notes.txt");
  make_local_file_io()->remove(location_ + "/notes.txt");
  make();  // the place is free again
  EXPECT_TRUE(filesystem_table_exists(*io_, location_));
}

TEST_F(DropTable, TakesWhatKilledWritersLeftToo) {
  make();
  make_local_file_io()->remove(location_ + "/notes.txt");
  for (const char* name :
       {"data/p=1/.x.parquet.tmp-0123456789abcdef", "metadata/.v2.metadata.json.tmp-00ff00ff00ff00ff"})
    ASSERT_TRUE(io_->put_if_absent(location_ + "/" + name, "left"));
  drop_filesystem_table(io_, location_, {});
  EXPECT_FALSE(std::filesystem::exists(location_));
}

TEST_F(DropTable, ADryRunTellsTheSameAndChangesNothing) {
  make();
  const size_t num_files = io_->list(location_, true).size();
  const DroppedTable would = drop_filesystem_table(io_, location_, {.dry_run = true});
  EXPECT_EQ(io_->list(location_, true).size(), num_files);
  const DroppedTable dropped = drop_filesystem_table(io_, location_, {});
  EXPECT_EQ(would.files, dropped.files);
  EXPECT_EQ(would.bytes, dropped.bytes);
  EXPECT_EQ(would.files, static_cast<int64_t>(num_files) - 1);
}

TEST_F(DropTable, RefusesWhatIsNoTableAndFilesThatMayBeShared) {
  EXPECT_EQ(error_of([&] { drop_filesystem_table(io_, location_, {}); }), ErrorKind::not_found);
  make({{"gc.enabled", "false"}});
  EXPECT_EQ(error_of([&] { drop_filesystem_table(io_, location_, {}); }), ErrorKind::invalid_argument);
  EXPECT_TRUE(filesystem_table_exists(*io_, location_));
}

}  // namespace
}  // namespace firn::iceberg
