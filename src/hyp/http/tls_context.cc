#include "hyp/http/tls_context.h"

#include "base/error.h"

namespace firn::hyp {

boost::asio::ssl::context tls_server_context(const std::string& cert_file, const std::string& key_file) {
  using boost::asio::ssl::context;
  context tls(context::tls_server);
  SSL_CTX* native = tls.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);  // idle connections take little memory
  boost::system::error_code error;
  tls.use_certificate_chain_file(cert_file, error);
  if (error) fail(ErrorKind::config, "receiver.certFile: {} holds no PEM certificate: {}", cert_file, error.message());
  tls.use_private_key_file(key_file, context::pem, error);
  if (error) {
    fail(ErrorKind::config, "receiver.keyFile: {} does not hold the PEM key of the certificate in {}: {}", key_file,
         cert_file, error.message());
  }
  return tls;
}

}  // namespace firn::hyp
