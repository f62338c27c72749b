#include "penstock/remote/worker/upload_memory.h"

#include <cstdint>
#include <cstring>
#include <memory>

#include "gtest/gtest.h"

namespace penstock::remote {
namespace upload_memory_test {

constexpr auto kLarge = static_cast<int64_t>(UploadMemory::kMinMapped);

TEST(UploadMemory, OutlivesItsPool) {
  for (const int64_t bytes : {int64_t{1}, kLarge - 1, kLarge, kLarge + 1}) {
    auto memory = std::make_shared<UploadMemory>();
    base::Array array = memory->Allocate(bytes);
    ASSERT_EQ(array.num_bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array.raw()) % base::kArrayAlignment, 0u);
    std::memset(array.mutable_raw(), 7, static_cast<size_t>(bytes));
    const base::Array part = array.Slice(bytes - 1, bytes);
    array = {};
    memory = nullptr;
    EXPECT_EQ(part.values<uint8_t>()[0], 7);
  }
}

TEST(UploadMemory, KeepsWhatWasFreedUpToALimit) {
  const auto memory = std::make_shared<UploadMemory>();
  base::Array first = memory->Allocate(kLarge);
  const void* const place = first.raw();
  const base::Array second = memory->Allocate(kLarge);
  EXPECT_NE(second.raw(), place);
  first = {};
  EXPECT_EQ(memory->kept_bytes(), UploadMemory::kMinMapped);
  EXPECT_NE(memory->Allocate(2 * kLarge).raw(), place);
  first = memory->Allocate(kLarge);
  EXPECT_EQ(first.raw(), place);
  // Not touched, so it takes address space only.
  memory->Allocate(static_cast<int64_t>(UploadMemory::kMaxKept) + 1);
  EXPECT_LE(memory->kept_bytes(), UploadMemory::kMaxKept);
  for (int i = 0; i < 100; ++i) memory->Allocate(kLarge + i * (int64_t{2} << 20));
  EXPECT_LE(memory->kept_bytes(), UploadMemory::kMaxKept);
}

}  // namespace upload_memory_test
}  // namespace penstock::remote
