// Arrow's compute kernels, most of which are in a library of their own.
#pragma once

namespace firn {

// Before a kernel beyond the core ones (take, cast) is called, such as filter and sort_indices. Costs nothing after the
// first call; any thread may call it. Throws io.
void initialize_compute();

}  // namespace firn
