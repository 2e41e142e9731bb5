// The receiver of an owned cache, on its address.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "hyp/daemon/service.h"

namespace firn::hyp {

// Serves config().receiver until destroyed; what has arrived is answered then. The service must outlive it.
class ReceiverServer {
 public:
  // Opens the service's receiver and listens; tells where, and what an operator should know before the first request.
  // Throws what Service::open_receiver and HttpServer do.
  ReceiverServer(Service& service, const std::function<void(const std::string& line)>& announce);
  ~ReceiverServer();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace firn::hyp
