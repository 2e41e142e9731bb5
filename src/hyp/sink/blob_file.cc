#include "hyp/sink/blob_file.h"

#include <algorithm>
#include <iterator>

#include <arrow/io/compressed.h>
#include <arrow/util/compression.h>

#include "base/arrow_status.h"
#include "hyp/sink/json_lines.h"
#include "iceberg/parquet/file_writer.h"

namespace firn::hyp {
namespace {

constexpr int64_t kSliceRows = 4096;  // turned into text at once

iceberg::ParquetWriteOptions parquet_options(const std::string& compression) {
  iceberg::ParquetWriteOptions options;
  options.compression = compression;
  options.default_metrics_mode = "none";  // of Iceberg's manifests; the file's own statistics stay
  return options;
}

class ParquetBlob final : public BlobFile {
 public:
  ParquetBlob(FileIO& io, const std::string& path, const iceberg::Schema& schema, const std::string& compression)
      : writer_(io.create_or_replace(path), schema, parquet_options(compression)) {}

  void write(const arrow::RecordBatch& batch) override { writer_.write(batch); }
  int64_t close() override { return writer_.close().file_size_bytes; }

 private:
  iceberg::ParquetFileWriter writer_;
};

class JsonlBlob final : public BlobFile {
 public:
  JsonlBlob(FileIO& io, const std::string& path, const iceberg::Schema& schema)
      : schema_(schema), file_(io.create_or_replace(path)) {
    if (path.ends_with(".gz")) compress(arrow::Compression::GZIP);
    if (path.ends_with(".zst")) compress(arrow::Compression::ZSTD);
  }

  void write(const arrow::RecordBatch& batch) override {
    for (int64_t begin = 0; begin < batch.num_rows(); begin += kSliceRows) {
      text_.clear();
      append_json_lines(*batch.Slice(begin, kSliceRows), schema_, NullColumns::written, text_);
      arrow::io::OutputStream& to = compressed_ ? *compressed_ : file_->stream();
      check(to.Write(text_), "write " + file_->path());
    }
  }

  int64_t close() override {
    if (compressed_) check(compressed_->Close(), "write " + file_->path());
    const int64_t size_bytes = check(file_->stream().Tell(), file_->path());
    file_->close();
    return size_bytes;
  }

 private:
  // Ends the compressed stream, and leaves the file's own open: closing that is OutputFile's.
  class KeptOpen final : public arrow::io::OutputStream {
   public:
    explicit KeptOpen(arrow::io::OutputStream& to) : to_(to) {}
    using arrow::io::OutputStream::Write;
    arrow::Status Write(const void* data, int64_t size) override { return to_.Write(data, size); }
    arrow::Result<int64_t> Tell() const override { return to_.Tell(); }
    arrow::Status Close() override {
      is_closed_ = true;
      return arrow::Status::OK();
    }
    bool closed() const override { return is_closed_; }

   private:
    arrow::io::OutputStream& to_;
    bool is_closed_ = false;
  };

  void compress(arrow::Compression::type codec) {
    codec_ = check(arrow::util::Codec::Create(codec), "compress " + file_->path());
    compressed_ =
        check(arrow::io::CompressedOutputStream::Make(codec_.get(), std::make_shared<KeptOpen>(file_->stream())),
              file_->path());
  }

  iceberg::Schema schema_;
  std::unique_ptr<OutputFile> file_;
  std::unique_ptr<arrow::util::Codec> codec_;
  std::shared_ptr<arrow::io::CompressedOutputStream> compressed_;  // destroyed before the codec and the file
  std::string text_;
};

}  // namespace

std::string blob_extension(BlobFormat format, const std::string& compression) {
  if (format == BlobFormat::parquet) {
    constexpr std::string_view kCodecs[] = {"zstd",    "gzip",   "snappy", "lz4",
                                            "lz4_raw", "brotli", "none",   "uncompressed"};
    if (std::find(std::begin(kCodecs), std::end(kCodecs), compression) == std::end(kCodecs)) {
      fail(ErrorKind::config, "compression \"{}\": for Parquet give zstd, gzip, snappy, lz4, brotli or none",
           compression);
    }
    return ".parquet";
  }
  if (compression == "gzip") return ".jsonl.gz";
  if (compression == "zstd") return ".jsonl.zst";
  if (compression == "none") return ".jsonl";
  fail(ErrorKind::config, "compression \"{}\": for JSONL give gzip, zstd or none", compression);
}

std::unique_ptr<BlobFile> create_blob_file(FileIO& io, const std::string& path, const iceberg::Schema& schema,
                                           const std::string& compression) {
  if (path.ends_with(".parquet")) return std::make_unique<ParquetBlob>(io, path, schema, compression);
  return std::make_unique<JsonlBlob>(io, path, schema);
}

}  // namespace firn::hyp
