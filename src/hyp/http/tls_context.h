// TLS as a server speaks it.
#pragma once

#include <string>

#include <boost/asio/ssl/context.hpp>

namespace firn::hyp {

// Of a PEM certificate chain and its key, for TLS 1.2 and later. Throws config naming the file that cannot be read, or
// both where they are no pair.
boost::asio::ssl::context tls_server_context(const std::string& cert_file, const std::string& key_file);

}  // namespace firn::hyp
