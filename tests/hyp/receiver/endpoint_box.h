// An endpoint on a fake ledger: what is asked of it without a server, and what reached the ledger.
#pragma once

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "hyp/capture/spool_format.h"
#include "hyp/receiver/endpoint.h"
#include "support/temp_folder.h"

namespace firn::hyp {

// The batch's lines as the spool gives them back.
inline std::string rows_of(const ReceivedBatch& batch) { return with_row_member(batch.text, batch.row_member); }

class EndpointBox {
 public:
  EndpointBox() {
    config.path = "hyp.json";
    config.state_dir = folder / "state";
    token = add_gateway(config.state_dir, "edge-1");
    other_token = add_gateway(config.state_dir, "edge-2");
  }

  // Made at the first use, once the configuration is as the test wants it.
  Endpoint& endpoint() {
    if (!gateways_) gateways_ = std::make_unique<GatewayTokens>(config.state_dir, [this] { return now_us; });
    if (!endpoint_) {
      endpoint_ = std::make_unique<Endpoint>(
          EndpointParts{.config = config,
                        .gateways = *gateways_,
                        .access_log = access_log.get(),
                        .check_room =
                            [this](const std::string&, const std::string&) {
                              if (room_error) throw Error(*room_error);
                            },
                        .capture =
                            [this](const CapturedBody& body, int64_t& rows) {
                              captured.push_back(body);
                              rows = 1;
                              return HttpResponse{202, "{}", {}};
                            },
                        .take =
                            [this](ReceivedBatch batch, const Receiver::Answered& answered) {
                              taken.push_back(std::move(batch));
                              answered(result);
                            },
                        .stream = [this](const std::string&, const std::string&) { return stream_state; },
                        .gateway_of = [](const std::string&) { return "edge-9"; },
                        .gauges =
                            [] {
                              return ReceiverGauges{7, 8, 9, {.groups = 3, .batches = 12, .micros = 1'500'000}, 10};
                            },
                        .steady_us = [this] { return now_us; }});
    }
    return *endpoint_;
  }

  static constexpr const char* kStream = "0b9de0c6-6bb6-4f5c-a2b5-6a6b6ef2f5a1/d/source=default";
  std::map<std::string, std::string> stream_headers(const std::string& range = "0,2;start") const {
    return {{"authorization", "Bearer " + token},
            {"x-hyp-batch-id", "b1"},
            {"x-hyp-stream", kStream},
            {"x-hyp-open", "o1"},
            {"x-hyp-seq-range", range}};
  }

  HttpResponse ask(const std::string& method, const std::string& path,
                   const std::map<std::string, std::string>& headers, const std::string& body = "",
                   bool is_local = false) {
    HttpRequest request{.method = method, .path = path, .headers = headers};
    request.content_length = static_cast<int64_t>(body.size());
    request.peer = "192.0.2.1:5";
    request.is_peer_local = is_local;
    HttpServed served;
    std::optional<HttpResponse> answer = endpoint().admit(request);
    if (!answer) {
      request.body = body;
      served.body_bytes = static_cast<int64_t>(body.size());
      endpoint().handle(request, [&](HttpResponse given) { answer = std::move(given); });
    }
    served.status = answer->status;
    endpoint().served(request, served);
    return *answer;
  }
  HttpResponse post(const std::string& body, const std::map<std::string, std::string>& headers) {
    return ask("POST", "/v1/ingest/d", headers, body);
  }

  // The lines of `folder`/access.log, whose log ends with this.
  std::vector<Json> logged() {
    access_log.reset();
    std::ifstream file(folder / "access.log");
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  TempFolder folder;
  Config config;
  std::string token, other_token;
  int64_t now_us = 1'000'000'000;
  std::unique_ptr<AccessLog> access_log;
  std::optional<Error> room_error;
  ReceiveResult result;
  std::optional<StreamState> stream_state = StreamState{};
  std::vector<ReceivedBatch> taken;
  std::vector<CapturedBody> captured;

 private:
  std::unique_ptr<GatewayTokens> gateways_;
  std::unique_ptr<Endpoint> endpoint_;
};

}  // namespace firn::hyp
