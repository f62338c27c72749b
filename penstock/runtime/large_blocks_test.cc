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

TEST(LargeBlocks, GivesTheSamePlaceAgainWithItsPages) {
  LargeBlocks blocks;
  char* const first = static_cast<char*>(blocks.Take(100 * kMiB));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % LargeBlocks::kAlignment, 0u);
  first[0] = first[100 * kMiB - 1] = 7;
  blocks.GiveBack(first);
  char* const second = static_cast<char*>(blocks.Take(100 * kMiB));
  EXPECT_EQ(second, first);
  EXPECT_EQ(second[100 * kMiB - 1], 7);  // no page was given back to the system
  EXPECT_EQ(blocks.Bytes(), 100 * kMiB);
  blocks.GiveBack(second);
}

TEST(LargeBlocks, NobodyIsLentWhatAnotherHas) {
  LargeBlocks blocks;
  std::vector<char*> lent;
  for (size_t i = 0; i < LargeBlocks::kPlaces; ++i) {
    lent.push_back(static_cast<char*>(blocks.Take(kMiB)));
    ASSERT_NE(lent.back(), nullptr) << i;
    std::memset(lent.back(), static_cast<int>(i), kMiB);
  }
  EXPECT_EQ(blocks.Take(kMiB), nullptr);  // all are lent
  for (size_t i = 0; i < lent.size(); ++i) {
    EXPECT_EQ(lent[i][0], static_cast<char>(i));
    EXPECT_EQ(lent[i][kMiB - 1], static_cast<char>(i));
  }
  blocks.GiveBack(lent[5]);
  EXPECT_EQ(blocks.Take(kMiB), lent[5]);
}

TEST(LargeBlocks, ASmallOneLeavesALargePlaceToALargeOne) {
  LargeBlocks blocks;
  void* const large = blocks.Take(200 * kMiB);
  blocks.GiveBack(large);
  void* const small = blocks.Take(10 * kMiB);
  EXPECT_NE(small, large);
  EXPECT_EQ(blocks.Take(200 * kMiB), large);
  EXPECT_EQ(blocks.Bytes(), 210 * kMiB);
}

TEST(LargeBlocks, APlaceGrowsWhereItIs) {
  LargeBlocks blocks;
  void* const first = blocks.Take(100 * kMiB);
  blocks.GiveBack(first);
  char* const larger = static_cast<char*>(blocks.Take(150 * kMiB));
  EXPECT_EQ(larger, first);
  larger[150 * kMiB - 1] = 1;
  EXPECT_EQ(blocks.Bytes(), 150 * kMiB);
  EXPECT_EQ(blocks.SizeOf(larger), 150 * kMiB);
}

TEST(LargeBlocks, WhatNobodyWantsGoesBackToTheSystem) {
  LargeBlocks blocks;
  void* const once = blocks.Take(100 * kMiB);
  blocks.GiveBack(once);
  for (uint64_t i = 0; i < LargeBlocks::kOldAge + 1; ++i) blocks.GiveBack(blocks.Take(10 * kMiB));
  EXPECT_EQ(blocks.Bytes(), 10 * kMiB);
  char* const again = static_cast<char*>(blocks.Take(100 * kMiB));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again[50 * kMiB], 0);  // new pages, which can be written
  again[50 * kMiB] = 1;
}

TEST(LargeBlocks, RefusesWhatNoPlaceHolds) {
  LargeBlocks blocks;
  EXPECT_EQ(blocks.Take(0), nullptr);
  EXPECT_EQ(blocks.Take(LargeBlocks::kPlaceBytes + 1), nullptr);
}

TEST(LargeBlocks, OwnsWhatItLentAndNothingElse) {
  LargeBlocks blocks;
  int other = 0;
  EXPECT_FALSE(blocks.Owns(&other));
  EXPECT_FALSE(blocks.Owns(nullptr));
  char* const lent = static_cast<char*>(blocks.Take(kMiB));
  EXPECT_TRUE(blocks.Owns(lent));
  EXPECT_TRUE(blocks.Owns(lent + kMiB - 1));
  EXPECT_FALSE(blocks.Owns(&other));
  EXPECT_FALSE(blocks.Owns(nullptr));
}

TEST(LargeBlocks, DoesNotWaitForeverForWhatIsKept) {
  LargeBlocks blocks;
  void* const kept = blocks.Take(kMiB);
  EXPECT_FALSE(blocks.AwaitNoneLent(kMiB));
  EXPECT_TRUE(blocks.AwaitNoneLent(2 * kMiB));
  blocks.GiveBack(kept);
  EXPECT_TRUE(blocks.AwaitNoneLent(kMiB));
}

// Of a program with tcmalloc; sanitizers have a malloc of their own.
class LargeMalloc : public testing::Test {
 protected:
  void SetUp() override {
    void* memory = nullptr;
    ASSERT_EQ(::posix_memalign(&memory, 64, 10 * kMiB), 0);
    ::free(memory);
    if (LargeBlocks::OfProcess() == nullptr) GTEST_SKIP() << "there is no large malloc here";
  }
};

TEST_F(LargeMalloc, AlignedMemoryThatIsLargeComesFromIt) {
  void* memory = nullptr;
  ASSERT_EQ(::posix_memalign(&memory, 64, 50 * kMiB), 0);
  EXPECT_TRUE(LargeBlocks::OfProcess()->Owns(memory));
  EXPECT_EQ(::malloc_usable_size(memory), 50 * kMiB);
  ::free(memory);
  void* again = nullptr;
  ASSERT_EQ(::posix_memalign(&again, 64, 50 * kMiB), 0);
  EXPECT_EQ(again, memory);
  ::free(again);
}

TEST_F(LargeMalloc, SmallOrPlainMemoryDoesNot) {
  void* small = nullptr;
  ASSERT_EQ(::posix_memalign(&small, 64, kMiB), 0);
  EXPECT_FALSE(LargeBlocks::OfProcess()->Owns(small));
  EXPECT_GE(::malloc_usable_size(small), kMiB);
  ::free(small);
  void* const plain = ::malloc(50 * kMiB);
  EXPECT_FALSE(LargeBlocks::OfProcess()->Owns(plain));
  ::free(plain);
  ::free(nullptr);
  EXPECT_NE(::posix_memalign(&small, 3, 50 * kMiB), 0);  // no power of two
}

TEST_F(LargeMalloc, ReallocTakesTheContentsAlong) {
  void* memory = nullptr;
  ASSERT_EQ(::posix_memalign(&memory, 64, 20 * kMiB), 0);
  std::memset(memory, 5, 20 * kMiB);
  char* const larger = static_cast<char*>(::realloc(memory, 30 * kMiB));
  ASSERT_NE(larger, nullptr);
  EXPECT_FALSE(LargeBlocks::OfProcess()->Owns(larger));
  EXPECT_EQ(larger[0], 5);
  EXPECT_EQ(larger[20 * kMiB - 1], 5);
  ::free(larger);
}

}  // namespace large_blocks_test
}  // namespace penstock::runtime
