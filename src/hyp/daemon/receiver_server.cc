#include "hyp/daemon/receiver_server.h"

#include <algorithm>
#include <atomic>

#include "hyp/daemon/daemon.h"
#include "hyp/receiver/endpoint.h"

namespace firn::hyp {
namespace {

HttpServerOptions server_options(const ReceiverConfig& config) {
  HttpServerOptions options;
  options.listen = config.listen;
  options.cert_file = config.cert_file;
  options.key_file = config.key_file;
  options.body_bytes_max = config.body_bytes_max;
  options.bodies_bytes_max = config.bodies_bytes_max;
  options.connections_max = config.connections_max;
  constexpr int64_t kYearMs = 366LL * 86'400'000;  // what means "never" must not overflow a clock
  options.header_ms_max = std::min(config.header_ms_max, kYearMs);
  options.idle_ms_max = std::min(config.idle_ms_max, kYearMs);
  options.request_ms_max = std::min(config.request_ms_max, kYearMs);
  return options;
}

// A configuration without "receiver" knows nothing of the gateway's column; then rows that this process has spooled
// could be rejected by the next command that finds them.
void check_gateway_column(const Config& config) {
  const std::string& column = config.receiver.gateway_column;
  for (const auto& [name, dataset] : config.datasets) {
    if (!dataset.schema || dataset.schema->find_field(column) != nullptr || dataset.allow_new_columns) continue;
    fail(ErrorKind::config,
         "{}: the dataset {} takes no other columns than those that are declared, and received rows have \"{}\", too: "
         "add \"receiver\": {{}} to the configuration, which declares it",
         config.path, name, column);
  }
}

}  // namespace

struct ReceiverServer::State {
  GatewayTokens gateways;
  std::unique_ptr<AccessLog> access_log;
  std::atomic<const HttpServer*> server{nullptr};
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<HttpServer> http;  // ends first

  explicit State(Service& service) : gateways(service.config().state_dir) {
    const ReceiverConfig& config = service.config().receiver;
    check_gateway_column(service.config());
    Receiver& receiver = service.open_receiver();
    if (!config.access_log.empty()) access_log = std::make_unique<AccessLog>(config.access_log);
    endpoint = std::make_unique<Endpoint>(EndpointParts{
        .config = service.config(),
        .gateways = gateways,
        .access_log = access_log.get(),
        .check_room = [&service](const std::string& dataset,
                                 const std::string& gateway) { service.check_capture(dataset, gateway); },
        .capture =
            [&service](const CapturedBody& body, int64_t& rows) {
              CaptureOptions options;
              options.dataset = body.dataset;
              options.source = body.gateway;
              CaptureAnswer answer = answer_capture(service, std::move(options), body.text, body.batch_id);
              rows = answer.rows;
              return std::move(answer.response);
            },
        .take = [&receiver](ReceivedBatch batch,
                            Receiver::Answered answered) { receiver.take(std::move(batch), std::move(answered)); },
        .stream = [&receiver](const std::string& gateway,
                              const std::string& stream) { return receiver.stream(gateway, stream); },
        .gateway_of = [&receiver](const std::string& stream) { return receiver.gateway_of(stream).value_or(""); },
        .gauges =
            [this, &service, &receiver] {
              ReceiverGauges gauges;
              gauges.waiting_batches = receiver.waiting();
              gauges.commits = receiver.commits();
              gauges.unflushed_bytes = service.unflushed_bytes();
              if (const HttpServer* now = server) {
                gauges.connections = now->connections();
                gauges.bodies_bytes = now->bodies_bytes();
              }
              return gauges;
            },
        .receiver_id = receiver.spool().id(),
    });
    http = std::make_unique<HttpServer>(server_options(config), endpoint->handlers());
    server = http.get();
  }
  ~State() { server = nullptr; }
};

ReceiverServer::ReceiverServer(Service& service, const std::function<void(const std::string& line)>& announce)
    : state_(std::make_unique<State>(service)) {
  const ReceiverConfig& config = service.config().receiver;
  const bool has_tls = !config.cert_file.empty();
  announce(fmt::format("receiving on {}://{}:{}", has_tls ? "https" : "http",
                       config.listen.substr(0, config.listen.rfind(':')), state_->http->port()));
  if (!has_tls && !state_->http->is_local()) {
    announce(
        "warning: tokens and rows come to it unencrypted: name a certificate (receiver.certFile and keyFile), or "
        "listen on this machine alone, behind a proxy that speaks TLS");
  }
  if (state_->gateways.is_empty())
    announce("there is no gateway yet, so that all requests are refused; `hyp gateway add NAME` makes one");
}

ReceiverServer::~ReceiverServer() = default;

}  // namespace firn::hyp
