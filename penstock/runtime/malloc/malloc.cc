// What programs that train have before tcmalloc: large aligned memory, as a CPU client asks for it,
// comes from LargeBlocks. Every other request is tcmalloc's.
//
// The definitions here take the place of the C library's for the whole process, plugins included,
// as the ELF rules say of a symbol that the program defines itself. Nobody includes or calls this
// file: cmake/Dependencies.cmake links it where it links tcmalloc.
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <malloc.h>

#include "penstock/runtime/large_blocks.h"

// tcmalloc's own names for what it does as malloc.
extern "C" {
void* tc_malloc(size_t bytes);
void* tc_realloc(void* memory, size_t bytes);
void tc_free(void* memory);
size_t tc_malloc_size(void* memory);
int tc_posix_memalign(void** memory, size_t alignment, size_t bytes);
}

namespace {

using penstock::runtime::LargeBlocks;

// From here on a general allocator gets no faster, and its large pages pay.
constexpr size_t kLarge = 8 << 20;

// Of the process, like malloc itself; never destroyed, since memory is freed until its very end.
union Blocks {
  constexpr Blocks() : blocks() {}
  ~Blocks() {}
  LargeBlocks blocks;
};
constinit Blocks process;

LargeBlocks& Large() { return process.blocks; }

}  // namespace

extern "C" {

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  const bool power_of_two = alignment != 0 && (alignment & (alignment - 1)) == 0;
  if (bytes >= kLarge && power_of_two && alignment <= LargeBlocks::kAlignment) {
    const int before = errno;  // which posix_memalign leaves alone
    LargeBlocks::SetOfProcess(&Large());
    void* const block = Large().Take(bytes);
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
  const int before = errno;  // which free leaves alone
  Large().GiveBack(memory);
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
