// Spans: what was done, with attributes and how long it took, as OTLP/JSON lines in the file FIRN_TRACE_FILE or the
// configuration names. Without a file a span costs an atomic load.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace firn {

// Appends to `path` from now on; empty stops. Thread-safe. Throws io if it cannot be opened.
void set_trace_file(const std::string& path);

// From construction to destruction; its parent is the innermost open span of this thread. Ends with error status if
// `fail` was called or it is destroyed by an exception. One thread.
class Span {
 public:
  explicit Span(std::string_view name);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  void set(std::string_view key, std::string_view value);
  void set(std::string_view key, int64_t value);
  void fail(std::string_view error_kind, std::string_view message);  // sets attribute error_kind

 private:
  struct State;
  State* state_;  // nullptr when tracing is off
};

}  // namespace firn
