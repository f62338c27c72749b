// Transparent huge pages for the memory that kernels write.
//
// XLA's CPU client allocates a program's temporary memory from the system at each execution and
// frees it afterwards: for ResNet-20 at batch 128, 240 MB in 60,000 page faults, a third of the
// step's time. Where the system provides huge pages on request (transparent_hugepage is "madvise",
// the usual default), kernels request them for the memory that they are about to write.
//
// Internal to room kernels.
#pragma once

#include <cstddef>

namespace penstock::kernels {

// Requests huge pages (madvise). A hint: has no effect on small memory, without system support, or
// if the pages are already mapped. Costs about a microsecond.
void PreferHugePages(void* data, size_t bytes);

}  // namespace penstock::kernels
