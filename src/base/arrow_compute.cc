#include "base/arrow_compute.h"

#include <arrow/compute/initialize.h>

#include "base/arrow_status.h"

namespace firn {

void initialize_compute() {
  static const arrow::Status status = arrow::compute::Initialize();
  check(status, "initialize Arrow's compute functions");
}

}  // namespace firn
