// How put_if_absent fails where nobody has to look what became of it.
#pragma once

#include "base/error.h"

namespace firn {

// Nothing was put, and nothing will be: the bytes could not even be written (no room, a read-only folder).
class NotPut : public Error {
 public:
  explicit NotPut(const Error& cause) : Error(cause) {}
};

}  // namespace firn
