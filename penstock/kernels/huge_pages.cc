#include "penstock/kernels/huge_pages.h"

#include <cerrno>
#include <cstdint>

#include <sys/mman.h>

namespace penstock::kernels {
namespace {

constexpr uintptr_t kHugePage = 2 << 20;

}  // namespace

void PreferHugePages(void* data, size_t bytes) {
  if (bytes < kHugePage / 2) return;
  // Whole pages, also those that a neighbour has a part of: it is of the same program's memory, and
  // for memory of anybody else this changes no content either.
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) / kHugePage * kHugePage;
  const uintptr_t end =
      (reinterpret_cast<uintptr_t>(data) + bytes + kHugePage - 1) / kHugePage * kHugePage;
  const int before = errno;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  errno = before;
}

}  // namespace penstock::kernels
