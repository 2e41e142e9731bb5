// TLS as a server speaks it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <boost/asio/ssl/context.hpp>

namespace firn::hyp {

// A PEM certificate chain and its key, for TLS 1.2 and later. They may be renewed in place while they are used.
// Thread-safe.
class TlsServerContext {
 public:
  // Throws config naming the file that cannot be read, or both where they are no pair. `steady_us` is for tests.
  TlsServerContext(std::string cert_file, std::string key_file, std::function<int64_t()> steady_us = nullptr);
  // What the next connection begins with. Looks at most once a minute whether the files are others; while they cannot
  // be read, or are no pair, what was read last stands, and the log says so.
  std::shared_ptr<boost::asio::ssl::context> get();

 private:
  void look();  // requires mutex_

  const std::string cert_file_, key_file_;
  const std::function<int64_t()> steady_us_;
  std::mutex mutex_;
  int64_t looked_us_ = 0;
  std::string version_;  // of the files, as they were read last
  std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace firn::hyp
