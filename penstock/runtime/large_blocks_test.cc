#include "penstock/runtime/large_blocks.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

namespace penstock::runtime {
namespace large_blocks_test {

constexpr size_t kMiB = 1 << 20;

TEST(LargeBlocks, ReusesSlotWithItsPages) {
  LargeBlocks blocks;
  char* const first = static_cast<char*>(blocks.Allocate(100 * kMiB));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % LargeBlocks::kAlignment, 0u);
  first[0] = first[100 * kMiB - 1] = 7;
  blocks.Free(first);
  char* const second = static_cast<char*>(blocks.Allocate(100 * kMiB));
  EXPECT_EQ(second, first);
  EXPECT_EQ(second[100 * kMiB - 1], 7);  // the pages were kept
  EXPECT_EQ(blocks.Bytes(), 100 * kMiB);
  blocks.Free(second);
}

TEST(LargeBlocks, NeverAllocatesASlotTwice) {
  LargeBlocks blocks;
  std::vector<char*> used;
  for (size_t i = 0; i < LargeBlocks::kSlots; ++i) {
    used.push_back(static_cast<char*>(blocks.Allocate(kMiB)));
    ASSERT_NE(used.back(), nullptr) << i;
    std::memset(used.back(), static_cast<int>(i), kMiB);
  }
  EXPECT_EQ(blocks.Allocate(kMiB), nullptr);  // all slots are used
  for (size_t i = 0; i < used.size(); ++i) {
    EXPECT_EQ(used[i][0], static_cast<char>(i));
    EXPECT_EQ(used[i][kMiB - 1], static_cast<char>(i));
  }
  blocks.Free(used[5]);
  EXPECT_EQ(blocks.Allocate(kMiB), used[5]);
}

TEST(LargeBlocks, SmallBlockLeavesLargeSlotFree) {
  LargeBlocks blocks;
  void* const large = blocks.Allocate(200 * kMiB);
  blocks.Free(large);
  void* const small = blocks.Allocate(10 * kMiB);
  EXPECT_NE(small, large);
  EXPECT_EQ(blocks.Allocate(200 * kMiB), large);
  EXPECT_EQ(blocks.Bytes(), 210 * kMiB);
}

TEST(LargeBlocks, SlotGrowsInPlace) {
  LargeBlocks blocks;
  void* const first = blocks.Allocate(100 * kMiB);
  blocks.Free(first);
  char* const larger = static_cast<char*>(blocks.Allocate(150 * kMiB));
  EXPECT_EQ(larger, first);
  larger[150 * kMiB - 1] = 1;
  EXPECT_EQ(blocks.Bytes(), 150 * kMiB);
  EXPECT_EQ(blocks.SizeOf(larger), 150 * kMiB);
}

TEST(LargeBlocks, ReturnsUnusedSlotsToSystem) {
  LargeBlocks blocks;
  void* const once = blocks.Allocate(100 * kMiB);
  blocks.Free(once);
  for (uint64_t i = 0; i < LargeBlocks::kTrimAfter + 1; ++i)
    blocks.Free(blocks.Allocate(10 * kMiB));
  EXPECT_EQ(blocks.Bytes(), 10 * kMiB);
  char* const again = static_cast<char*>(blocks.Allocate(100 * kMiB));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again[50 * kMiB], 0);  // new zeroed pages
  again[50 * kMiB] = 1;
}

TEST(LargeBlocks, RejectsSizesBeyondSlot) {
  LargeBlocks blocks;
  EXPECT_EQ(blocks.Allocate(0), nullptr);
  EXPECT_EQ(blocks.Allocate(LargeBlocks::kSlotBytes + 1), nullptr);
}

TEST(LargeBlocks, OwnsOnlyItsBlocks) {
  LargeBlocks blocks;
  int other = 0;
  EXPECT_FALSE(blocks.Owns(&other));
  EXPECT_FALSE(blocks.Owns(nullptr));
  char* const used = static_cast<char*>(blocks.Allocate(kMiB));
  EXPECT_TRUE(blocks.Owns(used));
  EXPECT_TRUE(blocks.Owns(used + kMiB - 1));
  EXPECT_FALSE(blocks.Owns(&other));
  EXPECT_FALSE(blocks.Owns(nullptr));
}

TEST(LargeBlocks, DoesNotWaitForeverForUsedBlock) {
  LargeBlocks blocks;
  void* const kept = blocks.Allocate(kMiB);
  EXPECT_FALSE(blocks.AwaitFreed(kMiB));
  EXPECT_TRUE(blocks.AwaitFreed(2 * kMiB));
  blocks.Free(kept);
  EXPECT_TRUE(blocks.AwaitFreed(kMiB));
}

// Requires a program linked with tcmalloc; sanitizers have their own malloc.
class LargeMalloc : public testing::Test {
 protected:
  void SetUp() override {
    void* memory = nullptr;
    ASSERT_EQ(::posix_memalign(&memory, 64, 10 * kMiB), 0);
    ::free(memory);
    if (LargeBlocks::ForProcess() == nullptr) GTEST_SKIP() << "there is no large malloc here";
  }
};

TEST_F(LargeMalloc, ServesLargeAlignedAllocations) {
  void* memory = nullptr;
  ASSERT_EQ(::posix_memalign(&memory, 64, 50 * kMiB), 0);
  EXPECT_TRUE(LargeBlocks::ForProcess()->Owns(memory));
  EXPECT_EQ(::malloc_usable_size(memory), 50 * kMiB);
  ::free(memory);
  void* again = nullptr;
  ASSERT_EQ(::posix_memalign(&again, 64, 50 * kMiB), 0);
  EXPECT_EQ(again, memory);
  ::free(again);
}

TEST_F(LargeMalloc, DoesNotServeSmallOrUnalignedAllocations) {
  void* small = nullptr;
  ASSERT_EQ(::posix_memalign(&small, 64, kMiB), 0);
  EXPECT_FALSE(LargeBlocks::ForProcess()->Owns(small));
  EXPECT_GE(::malloc_usable_size(small), kMiB);
  ::free(small);
  void* const plain = ::malloc(50 * kMiB);
  EXPECT_FALSE(LargeBlocks::ForProcess()->Owns(plain));
  ::free(plain);
  ::free(nullptr);
  EXPECT_NE(::posix_memalign(&small, 3, 50 * kMiB), 0);  // not a power of two
}

TEST_F(LargeMalloc, ReallocCopiesContents) {
  void* memory = nullptr;
  ASSERT_EQ(::posix_memalign(&memory, 64, 20 * kMiB), 0);
  std::memset(memory, 5, 20 * kMiB);
  char* const larger = static_cast<char*>(::realloc(memory, 30 * kMiB));
  ASSERT_NE(larger, nullptr);
  EXPECT_FALSE(LargeBlocks::ForProcess()->Owns(larger));
  EXPECT_EQ(larger[0], 5);
  EXPECT_EQ(larger[20 * kMiB - 1], 5);
  ::free(larger);
}

}  // namespace large_blocks_test
}  // namespace penstock::runtime
