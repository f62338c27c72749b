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
  // Rounded out to whole pages, including those shared with neighbors, which belong to the same
  // program; for any other memory the advice does not change its content.
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data) / kHugePage * kHugePage;
  const uintptr_t end =
      (reinterpret_cast<uintptr_t>(data) + bytes + kHugePage - 1) / kHugePage * kHugePage;
  const int before = errno;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  errno = before;
}

}  // namespace penstock::kernels
