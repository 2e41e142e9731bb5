// The text of a CSV file on its way to the parser, with its quotes checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <arrow/io/interfaces.h>

namespace firn::cli {

// Gives what `in` gives. Reading ends with Status::Invalid, naming the line on which the quote was opened, where one is
// not closed, or where text follows a closed one (RFC 4180): a parser that takes such text makes other rows of it.
// Quotes within a value that does not begin with one are text. One thread at a time.
class CsvText final : public arrow::io::InputStream {
 public:
  static constexpr int32_t kBlockBytes = 1 << 20;

  CsvText(std::shared_ptr<arrow::io::InputStream> in, std::string name) : in_(std::move(in)), name_(std::move(name)) {}
  // The cells of the first line that has any; the empty ones before it are passed over. Before the first Read().
  std::vector<std::string> titles();
  // Of a quote that is open after what was read; "" for none.
  std::string open_quote_hint() const;

  arrow::Status Close() override { return in_->Close(); }
  bool closed() const override { return in_->closed(); }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Result<int64_t> Read(int64_t num_bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t num_bytes) override;

 private:
  enum class State : uint8_t { begin, plain, quoted, after_quote };  // of a value

  arrow::Status look_at(std::string_view bytes);
  arrow::Status look_at_end() const;

  std::shared_ptr<arrow::io::InputStream> in_;
  std::string name_;
  std::string held_;      // looked at, and not given
  int64_t position_ = 0;  // of what was given
  State state_ = State::begin;
  size_t mark_bytes_ = 0;  // of the byte order mark, so far
  bool may_be_mark_ = true;
  char last_ = 0;
  int64_t line_ = 1, quote_line_ = 0;
};

}  // namespace firn::cli
