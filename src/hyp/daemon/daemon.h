// The daemon: owns a cache, captures over HTTP and from collected files, flushes, and runs sinks on their schedules; as
// `hyp serve` it is a receiver besides.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "hyp/daemon/control.h"
#include "hyp/daemon/service.h"
#include "hyp/http/http_server.h"

namespace firn::hyp {

// What POST /v1/ingest/{dataset} and GET /healthz answer; apart from the server, so that it can be tested without a
// socket.
//   202 {"lines": n, "skipped": n}   durable in the spool (P4.1); X-Hyp-Batch-Id makes a repeat harmless, X-Hyp-Source
//   names
//                                    the source; the body is NDJSON, plain, gzip or zstd
//   400 a name that is no dataset's, a damaged body, a JSON array; 409 the batch id was another body's; 401 no or a
//   wrong bearer token; 404; 405; 415; 429 the spool is full (Retry-After); 500 the dataset's declaration contradicts
//   its tables; 501 X-Hyp-Stream, which is for a receiver; 503 the disk failed
HttpResponse answer_http(Service& service, const HttpRequest& request);

// The part of it that takes one body, of whichever listener: 202 or why not, as above.
struct CaptureAnswer {
  HttpResponse response;
  int64_t rows = 0;  // taken now
};
CaptureAnswer answer_capture(Service& service, CaptureOptions options, std::string_view body,
                             const std::string& batch_id);

struct DaemonOptions {
  bool receives = false;                                  // `hyp serve`: on config().receiver too
  ControlServer::Handler run_command;                     // a command that another process handed over
  std::function<void(const std::string& line)> announce;  // "listening on …", once it serves
};

// Runs until `stop`, then lets what is under way end, flushes, and returns. Failing ticks are logged and tried again.
void run_daemon(Service& service, const DaemonOptions& options, const std::atomic<bool>& stop);

}  // namespace firn::hyp
