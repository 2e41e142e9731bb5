#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include <arrow/io/file.h>

#include "base/arrow_status.h"

namespace firn {
namespace {

template <class Work>
Error error_of(Work work) {
  try {
    work();
  } catch (const Error& e) {
    return e;
  }
  return Error(ErrorKind::internal, "no error");
}

TEST(Error, TakesItsKindFromErrno) {
  EXPECT_EQ(error_of([] { fail_errno(ENOENT, "open /a"); }).kind(), ErrorKind::not_found);
  EXPECT_EQ(error_of([] { fail_errno(EEXIST, "link /a"); }).kind(), ErrorKind::already_exists);
  const Error full = error_of([] { fail_errno(ENOSPC, "write /a"); });
  EXPECT_EQ(full.kind(), ErrorKind::io);
  EXPECT_STREQ(full.what(), "write /a: No space left on device");
}

TEST(Error, NamesItsCause) {
  const Error cause(ErrorKind::io, "disk full");
  EXPECT_STREQ(Error(ErrorKind::commit_unknown, "commit of nyc.events", cause).what(),
               "commit of nyc.events: disk full");
}

TEST(Error, SpellsPartitionSpecDriftAsTheExportSpecificationDoes) {
  EXPECT_EQ(to_string(ErrorKind::partition_spec_drift), "iceberg_partition_spec_drift");
  EXPECT_EQ(to_string(ErrorKind::commit_conflict), "commit_conflict");
}

TEST(ArrowStatus, KeepsApartAbsentUnreadableAndCorrupt) {
  EXPECT_EQ(error_of([] { check(arrow::io::ReadableFile::Open("/no/such/file"), "open"); }).kind(),
            ErrorKind::not_found);
  EXPECT_EQ(error_of([] { check(arrow::Status::IOError("gone"), "read /a"); }).kind(), ErrorKind::io);
  EXPECT_EQ(error_of([] { check(arrow::Status::Invalid("bad"), "decode /a"); }).kind(), ErrorKind::corrupt);
  EXPECT_EQ(error_of([] { check(arrow::Status::NotImplemented("x"), "decode /a"); }).kind(), ErrorKind::unsupported);
  EXPECT_EQ(error_of([] { check(arrow::Status::Cancelled("x"), "scan"); }).kind(), ErrorKind::cancelled);
  EXPECT_STREQ(error_of([] { check(arrow::Status::Invalid("bad"), "decode /a"); }).what(), "decode /a: bad");
  EXPECT_EQ(check(arrow::Result<int>(7), "value"), 7);
}

}  // namespace
}  // namespace firn
