#include "hyp/http/http_client.h"

#include <algorithm>
#include <array>
#include <mutex>

#include <curl/curl.h>
#include <openssl/x509_vfy.h>

#include "base/clock.h"
#include "base/error.h"

namespace firn::hyp {
namespace {

constexpr long kConnectionIdleSeconds = 15;  // a receiver closes silent ones after at least as long

void init_curl() {
  static std::once_flag once;
  std::call_once(once, [] { ::curl_global_init(CURL_GLOBAL_DEFAULT); });
}

// One request on its way. Callbacks of libcurl get it as their pointer.
struct SentRequest {
  const HttpClientOptions& options;
  const std::string& body;
  size_t sent = 0;  // of the body, handed to libcurl
  HttpAnswer answer;
  int64_t header_bytes = 0;
  bool is_head_whole = false;
  curl_off_t seen_bytes = 0;  // both directions
  int64_t seen_us = steady_us();
  bool was_cancelled = false, was_silent = false, was_too_long = false;

  bool has_room(size_t count) {
    was_too_long = header_bytes + static_cast<int64_t>(answer.body.size() + count) > options.answer_bytes_max;
    return !was_too_long;
  }
};

size_t read_body(char* to, size_t size, size_t count, void* pointer) {
  SentRequest& exchange = *static_cast<SentRequest*>(pointer);
  const size_t some = exchange.body.copy(to, size * count, exchange.sent);
  exchange.sent += some;
  return some;
}

// libcurl sends a request again when a kept connection turns out to be closed. It cannot with a body that is not read
// twice.
int refuse_rewind(void*, curl_off_t, int) { return CURL_SEEKFUNC_FAIL; }

size_t take_header(char* bytes, size_t size, size_t count, void* pointer) {
  SentRequest& exchange = *static_cast<SentRequest*>(pointer);
  std::string_view line(bytes, size * count);
  if (!exchange.has_room(line.size())) return 0;
  exchange.header_bytes += static_cast<int64_t>(line.size());
  if (line.starts_with("HTTP/")) {  // of 100 Continue before, too
    exchange.answer.headers.clear();
    exchange.is_head_whole = false;
    return size * count;
  }
  if (line == "\r\n" || line == "\n") exchange.is_head_whole = true;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size * count;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  line.remove_prefix(colon + 1);
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  while (!line.empty() && std::string_view(" \t\r\n").find(line.back()) != std::string_view::npos)
    line.remove_suffix(1);
  exchange.answer.headers[name] = std::string(line);
  return size * count;
}

size_t take_body(char* bytes, size_t size, size_t count, void* pointer) {
  SentRequest& exchange = *static_cast<SentRequest*>(pointer);
  if (!exchange.has_room(size * count)) return 0;
  exchange.answer.body.append(bytes, size * count);
  return size * count;
}

// Called at least once a second, whatever happens.
int look_around(void* pointer, curl_off_t, curl_off_t received, curl_off_t, curl_off_t sent) {
  SentRequest& exchange = *static_cast<SentRequest*>(pointer);
  const int64_t now_us = steady_us();
  if (received + sent != exchange.seen_bytes) {
    exchange.seen_bytes = received + sent;
    exchange.seen_us = now_us;
  }
  exchange.was_cancelled = exchange.options.cancelled != nullptr && *exchange.options.cancelled;
  exchange.was_silent = now_us - exchange.seen_us > exchange.options.silent_ms_max * 1000;
  return exchange.was_cancelled || exchange.was_silent ? 1 : 0;
}

// Nothing was sent, and nothing will be until somebody changes the configuration or a certificate.
bool is_configuration(CURLcode code) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return true;
    default:
      return false;
  }
}

// What often is behind a failure that libcurl tells in other words; "": nothing is known.
std::string hint_of(CURL* easy, CURLcode code, const std::string& url) {
  if (code == CURLE_GOT_NOTHING && url.starts_with("http://"))
    return "; does it speak TLS? Then the address begins with https://";
  if (code != CURLE_PEER_FAILED_VERIFICATION) return "";
  long verified = X509_V_OK;
  ::curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &verified);
  switch (verified) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return "; if it is signed by itself or by your own authority, name who signed it as \"caFile\" (PEM)";
    default:
      return "";
  }
}

struct HeaderList {
  curl_slist* lines = nullptr;
  ~HeaderList() { ::curl_slist_free_all(lines); }
  void add(const std::string& line) {
    curl_slist* longer = ::curl_slist_append(lines, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    lines = longer;
  }
};

}  // namespace

struct HttpClient::State {
  HttpClientOptions options;
  CURL* easy = nullptr;

  ~State() { ::curl_easy_cleanup(easy); }

  template <class Value>
  void set(CURLoption option, Value value) const {
    if (const CURLcode code = ::curl_easy_setopt(easy, option, value); code != CURLE_OK)
      fail(ErrorKind::internal, "libcurl option {}: {}", static_cast<int>(option), ::curl_easy_strerror(code));
  }

  void set_up(SentRequest& exchange, const std::string& method, const std::string& url,
              const HeaderList& headers) const {
    ::curl_easy_reset(easy);  // connections stay
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_ms_max));
    set(CURLOPT_MAXAGE_CONN, kConnectionIdleSeconds);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
    if (!options.proxy.empty()) {
      set(CURLOPT_PROXY, options.proxy.c_str());
      set(CURLOPT_NOPROXY, "");  // the configuration, not the environment
    }
    if (method == "POST") {
      set(CURLOPT_POST, 1L);
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(exchange.body.size()));
      set(CURLOPT_READFUNCTION, read_body);
      set(CURLOPT_READDATA, &exchange);
      set(CURLOPT_SEEKFUNCTION, refuse_rewind);
    } else if (method == "GET") {
      set(CURLOPT_HTTPGET, 1L);
    } else {
      fail(ErrorKind::invalid_argument, "{} {}: the method is neither GET nor POST", method, url);
    }
    set(CURLOPT_HTTPHEADER, headers.lines);
    set(CURLOPT_HEADERFUNCTION, take_header);
    set(CURLOPT_HEADERDATA, &exchange);
    set(CURLOPT_WRITEFUNCTION, take_body);
    set(CURLOPT_WRITEDATA, &exchange);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, look_around);
    set(CURLOPT_XFERINFODATA, &exchange);
  }
};

HttpClient::HttpClient(HttpClientOptions options) : state_(std::make_unique<State>()) {
  init_curl();
  state_->options = std::move(options);
  state_->easy = ::curl_easy_init();
  if (state_->easy == nullptr) throw std::bad_alloc();
}

HttpClient::~HttpClient() = default;

HttpAnswer HttpClient::send(const std::string& method, const std::string& url, const std::vector<std::string>& headers,
                            const std::string& body) {
  const HttpClientOptions& options = state_->options;
  HeaderList list;
  for (const std::string& line : headers) {
    if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
      fail(ErrorKind::invalid_argument, "{} {}: a header with a line end: {}", method, url,
           line.substr(0, line.find(':')));
    list.add(line);
  }
  list.add("Expect:");  // no round trip for leave to send the body
  SentRequest exchange{options, body};
  std::array<char, CURL_ERROR_SIZE> details{};
  state_->set_up(exchange, method, url, list);
  state_->set(CURLOPT_ERRORBUFFER, details.data());
  const CURLcode code = ::curl_easy_perform(state_->easy);
  state_->set(CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));
  if (exchange.was_cancelled) fail(ErrorKind::cancelled, "{} {}: stopped on request", method, url);
  if (code != CURLE_OK) {
    std::string reason = details[0] != '\0' ? details.data() : ::curl_easy_strerror(code);
    if (exchange.was_silent) reason = fmt::format("nothing was heard for {} s", options.silent_ms_max / 1000.0);
    if (exchange.was_too_long) reason = fmt::format("the answer is longer than {} bytes", options.answer_bytes_max);
    if (code == CURLE_SEND_FAIL_REWIND) reason = "the connection ended";
    reason += hint_of(state_->easy, code, url);
    if (is_configuration(code)) fail(ErrorKind::config, "{} {}: {}", method, url, reason);
    fail(ErrorKind::io, "{} {}: no answer: {}", method, url, reason);
  }
  // libcurl takes a connection's end within the head for the head's.
  if (!exchange.is_head_whole) fail(ErrorKind::io, "{} {}: no answer: it ended within its head", method, url);
  long status = 0;
  ::curl_easy_getinfo(state_->easy, CURLINFO_RESPONSE_CODE, &status);
  exchange.answer.status = static_cast<int>(status);
  return std::move(exchange.answer);
}

bool is_loopback(const std::string& url) {
  init_curl();
  const std::unique_ptr<CURLU, decltype(&::curl_url_cleanup)> parsed(::curl_url(), &::curl_url_cleanup);
  char* text = nullptr;
  if (::curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      ::curl_url_get(parsed.get(), CURLUPART_HOST, &text, 0) != CURLUE_OK) {
    return false;
  }
  const std::string host(text);
  ::curl_free(text);
  const bool is_address = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "[::1]" || (is_address && host.starts_with("127."));
}

}  // namespace firn::hyp
