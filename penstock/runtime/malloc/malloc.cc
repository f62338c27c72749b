// malloc of programs that train: large aligned memory, as a CPU client allocates it, comes from
// LargeBlocks. All other requests go to tcmalloc.
//
// The definitions here take the place of the C library's for the whole process, plugins included,
// as the ELF rules say of a symbol that the program defines itself. Nothing includes this file or
// calls its functions by another way: programs link penstock::allocator.
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <malloc.h>

#include "penstock/runtime/large_blocks.h"

// tcmalloc's functions under their own names.
extern "C" {
void* tc_malloc(size_t bytes);
void* tc_realloc(void* memory, size_t bytes);
void tc_free(void* memory);
size_t tc_malloc_size(void* memory);
int tc_posix_memalign(void** memory, size_t alignment, size_t bytes);
}

namespace {

using penstock::runtime::LargeBlocks;

// Size from which LargeBlocks is at least as fast as a general allocator.
constexpr size_t kLarge = 8 << 20;

// Process-wide, like malloc itself; never destroyed, since memory is freed until the end of the
// process.
union Blocks {
  constexpr Blocks() : blocks() {}
  ~Blocks() {}  // NOLINT(modernize-use-equals-default): the default would be deleted
  LargeBlocks blocks;
};
constinit Blocks process;

LargeBlocks& Large() { return process.blocks; }

}  // namespace

extern "C" {

// Programs reference this symbol through a linker option (CMakeLists.txt), so that the linker
// includes this file.
void PenstockAllocatorIsLinked() {}

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  const bool power_of_two = alignment != 0 && (alignment & (alignment - 1)) == 0;
  if (bytes >= kLarge && power_of_two && alignment <= LargeBlocks::kAlignment) {
    const int before = errno;  // posix_memalign preserves errno
    LargeBlocks::SetForProcess(&Large());
    void* const block = Large().Allocate(bytes);
    errno = before;
    if (block != nullptr) {
      *memory = block;
      return 0;
    }
  }
  return tc_posix_memalign(memory, alignment, bytes);
}

void free(void* memory) noexcept {
  if (!Large().Owns(memory)) return tc_free(memory);
  const int before = errno;  // free preserves errno
  Large().Free(memory);
  errno = before;
}

size_t malloc_usable_size(void* memory) noexcept {
  return Large().Owns(memory) ? Large().SizeOf(memory) : tc_malloc_size(memory);
}

void* realloc(void* memory, size_t bytes) noexcept {
  if (!Large().Owns(memory)) return tc_realloc(memory, bytes);
  void* moved = nullptr;
  if (bytes > 0) {
    moved = tc_malloc(bytes);
    if (moved == nullptr) return nullptr;
    const size_t size = Large().SizeOf(memory);
    std::memcpy(moved, memory, size < bytes ? size : bytes);
  }
  free(memory);
  return moved;
}

}  // extern "C"
