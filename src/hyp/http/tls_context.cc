#include "hyp/http/tls_context.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

namespace firn::hyp {
namespace {

using boost::asio::ssl::context;

constexpr int64_t kLookAtCertificateUs = 60'000'000;

std::shared_ptr<context> load(const std::string& cert_file, const std::string& key_file) {
  auto tls = std::make_shared<context>(context::tls_server);
  SSL_CTX* native = tls->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);  // idle connections take little memory
  boost::system::error_code error;
  tls->use_certificate_chain_file(cert_file, error);
  if (error) fail(ErrorKind::config, "receiver.certFile: {} holds no PEM certificate: {}", cert_file, error.message());
  tls->use_private_key_file(key_file, context::pem, error);
  if (error) {
    fail(ErrorKind::config, "receiver.keyFile: {} does not hold the PEM key of the certificate in {}: {}", key_file,
         cert_file, error.message());
  }
  return tls;
}

// Through symbolic links, which is how renewed certificates are often put in place. What is not there has one, too.
std::string version_of(const std::string& cert_file, const std::string& key_file) {
  std::string version;
  for (const std::string& path : {cert_file, key_file}) {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) info = {};
    version += fmt::format("{}:{}:{}:{}.{} ", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                           info.st_mtim.tv_nsec);
  }
  return version;
}

}  // namespace

TlsServerContext::TlsServerContext(std::string cert_file, std::string key_file, std::function<int64_t()> steady_us)
    : cert_file_(std::move(cert_file)),
      key_file_(std::move(key_file)),
      steady_us_(steady_us ? std::move(steady_us) : firn::steady_us),
      looked_us_(steady_us_()),
      version_(version_of(cert_file_, key_file_)),  // first, so that a change meanwhile is seen by the next look
      context_(load(cert_file_, key_file_)) {}

void TlsServerContext::look() {
  const int64_t now_us = steady_us_();
  if (now_us - looked_us_ < kLookAtCertificateUs) return;
  looked_us_ = now_us;
  try {
    std::string version = version_of(cert_file_, key_file_);
    if (version == version_) return;
    context_ = load(cert_file_, key_file_);
    version_ = std::move(version);
    spdlog::info("the certificate {} was renewed; new connections have it", cert_file_);
  } catch (const std::exception& e) {  // the old one may be good for a while, the new one be half written
    spdlog::error("the certificate stays as it was: {}", e.what());
  }
}

std::shared_ptr<context> TlsServerContext::get() {
  const std::lock_guard guard(mutex_);
  look();
  return context_;
}

}  // namespace firn::hyp
