// Memory that a program computes in, in large pages.
//
// XLA's CPU client takes a program's temporary memory from the system at each execution and gives
// it back after it: for ResNet-20 at batch 128 that is 240 MB, which come in 60,000 page faults, a
// third of the step's time. Where the system gives large pages to who asks (transparent_hugepage is
// "madvise", as it mostly is), kernels ask for the memory that they are about to write.
//
// Internal to room kernels.
#pragma once

#include <cstddef>

namespace penstock::kernels {

// A hint: nothing happens for small memory, where the system has no such pages, or where they are
// there already. A microsecond.
void PreferHugePages(void* data, size_t bytes);

}  // namespace penstock::kernels
