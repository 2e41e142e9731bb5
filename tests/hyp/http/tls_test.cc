// The server over TLS.
#include <openssl/ssl.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hyp/http/http_client.h"
#include "hyp/http/http_server.h"
#include "hyp/http/raw_client.h"
#include "support/self_signed.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct TlsBox {
  TempFolder folder;
  HttpServerOptions options;
  TlsBox() {
    options.listen = "127.0.0.1:0";
    options.cert_file = folder / "cert.pem";
    options.key_file = folder / "key.pem";
    options.header_ms_max = 200;
    options.body_bytes_max = 1 << 20;
    write_self_signed(options.cert_file, options.key_file);
  }
};

HttpResponse size_of_body(const HttpRequest& request) { return {200, std::to_string(request.body.size()), {}}; }

// What a handshake of at most that version comes to; with a server that ends it, false.
bool can_connect(uint16_t port, int version_max) {
  const RawClient client(port);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context, version_max);
  SSL_CTX_set_security_level(context, 0);
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, client.get());
  const bool has_connected = SSL_connect(ssl) == 1;
  SSL_free(ssl);
  SSL_CTX_free(context);
  return has_connected;
}

TEST(Tls, RequestsAndBodiesGoThrough) {
  TlsBox box;
  const HttpServer server(box.options, size_of_body);
  HttpClientOptions options;
  options.ca_file = box.options.cert_file;
  HttpClient client(options);
  const std::string url = fmt::format("https://localhost:{}/x", server.port());
  EXPECT_EQ(client.send("POST", url, {}, std::string(1'000'000, 'x')).body, "1000000");
  EXPECT_EQ(client.send("POST", url, {}, "abc").body, "3");
  EXPECT_EQ(client.send("POST", url, {}, std::string(2'000'000, 'x')).status, 413);
  EXPECT_EQ(client.send("POST", url, {}, "abcd").body, "4");
}

TEST(Tls, IsOfVersion12AtLeast) {
  TlsBox box;
  const HttpServer server(box.options, size_of_body);
  EXPECT_FALSE(can_connect(server.port(), TLS1_1_VERSION));
  EXPECT_TRUE(can_connect(server.port(), TLS1_2_VERSION));
  EXPECT_TRUE(can_connect(server.port(), TLS1_3_VERSION));
}

TEST(Tls, WhoDoesNotSpeakItIsClosedAndToldOf) {
  TlsBox box;
  std::mutex mutex;
  std::vector<std::string> problems;
  const HttpServer server(box.options, HttpHandlers{.admit = {},
                                                    .handle =
                                                        [](HttpRequest&, const HttpHandlers::Answer& answer) {
                                                          answer({200, "{}", {}});
                                                        },
                                                    .served =
                                                        [&](const HttpRequest&, const HttpServed& served) {
                                                          const std::lock_guard guard(mutex);
                                                          problems.push_back(served.problem);
                                                        }});
  RawClient plain(server.port());
  plain.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(plain.receive(), AllOf(HasSubstr("HTTP/1.1 400"), HasSubstr("https://"))) << "what would have served it";
  RawClient silent(server.port());
  EXPECT_EQ(silent.receive(), "");
  EXPECT_TRUE(can_connect(server.port(), TLS1_3_VERSION));
  const std::lock_guard guard(mutex);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_THAT(problems[0], HasSubstr("TLS handshake failed"));
  EXPECT_THAT(problems[1], HasSubstr("it took too long"));
}

TEST(Tls, WhoTrustsAnotherIsToldOfTheCaFile) {
  TlsBox box, other;
  const HttpServer server(box.options, size_of_body);
  HttpClientOptions options;
  options.ca_file = other.options.cert_file;
  try {
    HttpClient(options).send("GET", fmt::format("https://localhost:{}/x", server.port()), {}, "");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    EXPECT_THAT(e.what(), HasSubstr("\"caFile\""));
  }
}

TEST(Tls, ARenewedCertificateCountsWithinAMinuteAndABadOneDoesNot) {
  TlsBox box, renewed;
  std::atomic<int64_t> now_us{0};
  box.options.steady_us = [&] { return now_us.load(); };
  const HttpServer server(box.options, size_of_body);
  const auto trusts = [&](const std::string& ca_file) {
    HttpClientOptions options;
    options.ca_file = ca_file;
    try {
      return HttpClient(options).send("GET", fmt::format("https://localhost:{}/x", server.port()), {}, "").status ==
             200;
    } catch (const Error&) {
      return false;
    }
  };
  const std::string old_cert = box.folder / "old.pem", new_cert = renewed.options.cert_file;
  fs::copy_file(box.options.cert_file, old_cert);
  fs::copy_file(new_cert, box.options.cert_file, fs::copy_options::overwrite_existing);
  now_us += 59'000'000;
  EXPECT_TRUE(trusts(old_cert)) << "it looks once a minute";
  now_us += 1'000'000;
  EXPECT_TRUE(trusts(old_cert)) << "the key is not there yet, so the old one stands";
  fs::copy_file(renewed.options.key_file, box.options.key_file, fs::copy_options::overwrite_existing);
  EXPECT_TRUE(trusts(old_cert));
  now_us += 60'000'000;
  EXPECT_TRUE(trusts(new_cert));
  EXPECT_FALSE(trusts(old_cert));
  fs::remove(box.options.cert_file);
  now_us += 60'000'000;
  EXPECT_TRUE(trusts(new_cert)) << "one that is gone stands, too";
}

TEST(Tls, AKeyThatIsNotTheCertificatesIsAnErrorOfTheConfiguration) {
  TlsBox box, other;
  box.options.key_file = other.options.key_file;
  try {
    const HttpServer server(box.options, size_of_body);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    EXPECT_THAT(e.what(), HasSubstr("does not hold the PEM key of the certificate"));
  }
  box.options.cert_file = "/nowhere/cert.pem";
  EXPECT_THROW(HttpServer(box.options, size_of_body), Error);
}

}  // namespace
}  // namespace firn::hyp
