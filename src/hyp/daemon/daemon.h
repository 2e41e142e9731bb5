// The daemon: owns a cache, captures over HTTP and from collected files, flushes, and runs sinks on their schedules.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "hyp/daemon/control.h"
#include "hyp/daemon/http_server.h"
#include "hyp/daemon/service.h"

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

struct DaemonOptions {
  ControlServer::Handler run_command;                     // a command that another process handed over
  std::function<void(const std::string& line)> announce;  // "listening on …", once it serves
};

// Runs until `stop`, then lets what is under way end, flushes, and returns. Failing ticks are logged and tried again.
void run_daemon(Service& service, const DaemonOptions& options, const std::atomic<bool>& stop);

}  // namespace firn::hyp
