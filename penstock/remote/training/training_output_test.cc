#include "penstock/remote/training/training_output.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"

namespace penstock::remote {
namespace training_output_test {

class TrainingOutputTest : public testing::Test {
 protected:
  TrainingOutputTest() {
    std::string pattern = testing::TempDir() + "training_output_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~TrainingOutputTest() override { std::filesystem::remove_all(folder_); }

  int64_t BytesOnDisk() const {
    int64_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      bytes += static_cast<int64_t>(file.file_size());
    }
    return bytes;
  }

  std::string folder_;
};

TEST_F(TrainingOutputTest, ReadsFromAnyOffset) {
  TrainingOutput output(folder_);
  EXPECT_EQ(output.Read(0, 100).bytes, "");
  EXPECT_EQ(output.Read(-5, 100).end, 0);
  output.Append("0123456789");
  EXPECT_EQ(output.Read(4, 3).bytes, "456");
  EXPECT_EQ(output.Read(-3, 100).bytes, "789");
  EXPECT_EQ(output.Read(-100, 100).begin, 0);
  EXPECT_EQ(output.Read(-100, 100).dropped, 0);
  EXPECT_EQ(output.Read(INT64_MIN, 100).bytes, "0123456789");
  EXPECT_EQ(output.Read(INT64_MAX, 100).bytes, "");
  EXPECT_EQ(output.Read(INT64_MAX, 100).begin, 10);
}

TEST_F(TrainingOutputTest, KnowsTheLastLine) {
  TrainingOutput output(folder_);
  EXPECT_EQ(output.LastLine(), "");
  output.Append("first\nthe reason\n\n");
  EXPECT_EQ(output.LastLine(), "the reason");
  output.Append("50 %\r60 %");
  EXPECT_EQ(output.LastLine(), "60 %");
}

// Beside all that was printed, over several runs of the worker.
TEST_F(TrainingOutputTest, KeepsTheEndAndSaysWhatWasDropped) {
  constexpr int64_t kMax = 1000;
  base::Random random(5);
  std::string all;
  for (int run = 0; run < 20; ++run) {
    TrainingOutput output(folder_, kMax);
    EXPECT_EQ(output.end(), static_cast<int64_t>(all.size()));
    for (int i = 0; i < 20; ++i) {
      std::string bytes;
      const auto size = static_cast<size_t>(random.Uniform() * (i % 7 == 0 ? 3000 : 200));
      while (bytes.size() < size) absl::StrAppend(&bytes, all.size() + bytes.size(), " ");
      output.Append(bytes);
      all += bytes;
      if (i % 5 == 0) output.Close();
      EXPECT_LE(BytesOnDisk(), kMax);

      const auto end = static_cast<int64_t>(all.size());
      const auto offset = static_cast<int64_t>(random.Uniform() * static_cast<double>(end));
      const auto part = output.Read(offset, 300);
      EXPECT_EQ(part.end, end);
      EXPECT_EQ(part.begin, offset + part.dropped);
      EXPECT_EQ(part.bytes, all.substr(static_cast<size_t>(part.begin), 300));
      EXPECT_TRUE(part.dropped == 0 || offset < end - kMax / 2) << offset << " of " << end;
      const auto tail = output.Read(-100, 300);
      EXPECT_EQ(tail.bytes, all.substr(static_cast<size_t>(std::max<int64_t>(0, end - 100))));
    }
  }
  TrainingOutput(folder_, kMax).Remove();
  EXPECT_EQ(BytesOnDisk(), 0);
}

TEST_F(TrainingOutputTest, IgnoresOtherFilesAndAMissingFolder) {
  for (const char* const name : {"/output-", "/output-x", "/output--5", "/training.json"}) {
    std::filesystem::create_directory(folder_ + name);
  }
  TrainingOutput output(folder_);
  output.Append("a");
  EXPECT_EQ(output.Read(0, 10).bytes, "a");
  TrainingOutput missing(folder_ + "/missing");
  missing.Append("a");
  EXPECT_EQ(missing.Read(0, 10).end, 0);
}

}  // namespace training_output_test
}  // namespace penstock::remote
