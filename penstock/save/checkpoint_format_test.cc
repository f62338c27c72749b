// Training checkpoints as a format of weights.
#include "penstock/save/checkpoint_format.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/save/checkpoint.h"

namespace penstock::save {
namespace checkpoint_format_test {

using base::Array;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr char kFolder[] = "memory://bucket/run";

float Value(int64_t step) { return static_cast<float>(step) + 0.5f; }

class CheckpointFormatTest : public ::testing::Test {
 protected:
  // Checkpoints of these steps, of two files each.
  void Save(const std::vector<int64_t>& steps) {
    CheckpointManager manager(*fs_, kFolder, {.keep = 10, .max_file_bytes = 1});
    for (const int64_t step : steps) {
      const absl::StatusOr<Saved> saved =
          manager.Save({.step = step,
                        .arrays = {{"kernel", Array::Of<float>({1, 2}, {Value(step), 1})},
                                   {"optimizer/momentum/kernel", Array::Scalar<int32_t>(7)}}});
      ASSERT_TRUE(saved.ok()) << saved.status();
      last_ = saved->info;
    }
  }
  void ExpectStep(const std::string& uri, int64_t step) {
    const absl::StatusOr<Weights> weights = ReadWeights(*fs_, uri);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_THAT(weights->metadata, ElementsAre(Pair("penstock.step", absl::StrCat(step))));
    ASSERT_EQ(weights->arrays.size(), 2u);
    EXPECT_EQ(weights->arrays.Find("kernel")->data<float>()[0], Value(step));
    EXPECT_EQ(weights->arrays.Find("optimizer/momentum/kernel")->item<int32_t>(), 7);
    const absl::StatusOr<Contents> contents = Inspect(*fs_, uri);
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(contents->metadata, weights->metadata);
    EXPECT_EQ(contents->skipped.size(), weights->skipped.size());
    ASSERT_EQ(contents->tensors.size(), 2u);
    EXPECT_EQ(contents->tensors[0].name, "kernel");
    EXPECT_EQ(contents->tensors[0].shape, base::Shape({1, 2}));
    EXPECT_NE(contents->tensors[0].file, contents->tensors[1].file);
  }
  void FlipLastByte(const std::string& uri) {
    std::string bytes = *io::ReadFile(*fs_, uri);
    bytes.back() ^= 1;
    ASSERT_TRUE(io::WriteFile(*fs_, uri, bytes).ok());
  }

  const std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
  CheckpointInfo last_;
};

TEST_F(CheckpointFormatTest, ReadsNewestOrChosenCheckpoint) {
  Save({5, 100, 123456789});
  ExpectStep(kFolder, 123456789);
  ExpectStep(absl::StrCat(kFolder, "/step-00000005"), 5);
  ExpectStep(absl::StrCat(kFolder, "/step-123456789"), 123456789);
  EXPECT_THAT(ReadWeights(*fs_, kFolder)->skipped, IsEmpty());
}

TEST_F(CheckpointFormatTest, ReadsCopyUnderAnotherName) {
  Save({5});
  const std::string copy = "memory://bucket/best";
  const std::vector<io::FileInfo> files = *fs_->List(last_.uri);
  for (const io::FileInfo& file : files) {
    ASSERT_TRUE(io::WriteFile(*fs_, io::JoinPath(copy, io::Basename(file.uri)),
                              *io::ReadFile(*fs_, file.uri))
                    .ok());
  }
  ExpectStep(copy, 5);
}

TEST_F(CheckpointFormatTest, SkipsAndReportsCorruptNewestCheckpoint) {
  Save({5, 100});
  ASSERT_TRUE(fs_->Remove(last_.files[0]).ok());
  ExpectStep(kFolder, 5);
  EXPECT_THAT(ReadWeights(*fs_, kFolder)->skipped,
              ElementsAre(HasSubstr("corrupt checkpoint of step 100")));
}

TEST_F(CheckpointFormatTest, RejectsChangedBytes) {
  Save({5});
  FlipLastByte(last_.files[1]);
  for (const std::string& uri : {std::string(kFolder), last_.uri}) {
    const absl::Status status = ReadWeights(*fs_, uri).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(io::Basename(last_.files[1])));
  }
  FlipLastByte(io::JoinPath(last_.uri, "checkpoint.json"));
  EXPECT_TRUE(absl::IsDataLoss(ReadWeights(*fs_, last_.uri).status()));
  EXPECT_TRUE(absl::IsDataLoss(Inspect(*fs_, last_.uri).status()));
}

// A killed writer leaves array files without a manifest.
TEST_F(CheckpointFormatTest, RejectsFolderWithoutCompleteCheckpoint) {
  Save({5});
  ASSERT_TRUE(fs_->Remove(io::JoinPath(last_.uri, "checkpoint.json")).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadWeights(*fs_, kFolder).status()));
  EXPECT_TRUE(absl::IsNotFound(Inspect(*fs_, kFolder).status()));
  EXPECT_FALSE(ReadWeights(*fs_, last_.uri).ok());
}

}  // namespace checkpoint_format_test
}  // namespace penstock::save
