#include "iceberg/write/spill_file.h"

#include <cerrno>
#include <filesystem>

#include <arrow/io/file.h>
#include <arrow/util/compression.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arrow_status.h"
#include "base/error.h"

namespace firn::iceberg {

namespace {

Descriptor make_nameless_file(const std::string& folder) {
  std::error_code error;
  const std::string parent = folder.empty() ? std::filesystem::temp_directory_path(error).string() : folder;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  std::string name = parent + "/firn-spill-XXXXXX";
  Descriptor fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd) fail_errno(errno, "create a spill file in " + parent);
  ::unlink(name.c_str());
  return fd;
}

int duplicate(const Descriptor& fd) {
  const int copy = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) fail_errno(errno, "open a spill file");
  return copy;
}

}  // namespace

SpillFile::SpillFile(const std::string& folder, const std::shared_ptr<arrow::Schema>& schema)
    : fd_(make_nameless_file(folder)),
      stream_(check(arrow::io::FileOutputStream::Open(duplicate(fd_)), "open a spill file")) {
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;
  if (arrow::util::Codec::IsAvailable(arrow::Compression::LZ4_FRAME))
    options.codec = check(arrow::util::Codec::Create(arrow::Compression::LZ4_FRAME), "open a spill file");
  writer_ = check(arrow::ipc::MakeFileWriter(stream_, schema, options), "write a spill file");
}

void SpillFile::write(const arrow::RecordBatch& batch) {
  check(writer_->WriteRecordBatch(batch), "write a spill file");
}

void SpillFile::finish() {
  check(writer_->Close(), "write a spill file");
  check(stream_->Close(), "write a spill file");
  writer_.reset();
  stream_.reset();
}

std::shared_ptr<arrow::ipc::RecordBatchFileReader> SpillFile::read() const {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  return check(arrow::ipc::RecordBatchFileReader::Open(
                   check(arrow::io::ReadableFile::Open(duplicate(fd_)), "open a spill file"), options),
               "read a spill file");
}

}  // namespace firn::iceberg
