#include "penstock/train/callbacks/tensorboard.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord.h"
#include "penstock/train/testing/fake_context.h"
#include "penstock/train/testing/files.h"

namespace penstock::train {
namespace tensorboard_test {

using testing::FakeContext;
using ::testing::HasSubstr;
using testing::NewPath;

// Objects cannot be appended to: each flush rewrites the object, and after 256 KiB a new one
// starts.
TEST(TensorBoard, WritesToFileSystemsWithoutAppend) {
  const auto memory = io::MakeMemoryFileSystem();
  base::FakeClock clock;
  FakeContext run;
  auto callback = TensorBoard(
      {.folder = "memory://tb", .update_every_steps = 1, .file_system = memory, .clock = &clock});
  ASSERT_EQ(callback->Check(run), absl::OkStatus());
  ASSERT_TRUE(callback->EpochBegin(run, {}).ok());
  const auto records = [&] {
    std::vector<size_t> counts;
    const auto files = memory->ListRecursive("memory://tb");
    for (size_t i = 0; files.ok() && i < files->size(); ++i) {
      auto reader = record::TfRecordReader::Open(*memory, (*files)[i].uri);
      counts.push_back(0);
      for (;;) {
        const auto block = (*reader)->ReadBlock();
        if (!block.ok() || block->empty()) break;
        counts.back() += block->size();
      }
    }
    return counts;
  };
  const auto step = [&](int64_t number) {
    EXPECT_TRUE(callback->BatchEnd(run, {.total_steps = number}, {{"loss", 0.5}}).ok());
  };
  clock.Advance(100);
  step(1);
  EXPECT_THAT(records(), ::testing::ElementsAre(2));  // the version and step 1
  step(2);
  EXPECT_THAT(records(), ::testing::ElementsAre(2)) << "within 30 seconds";
  clock.Advance(31);
  step(3);
  EXPECT_THAT(records(), ::testing::ElementsAre(4));
  for (int64_t i = 4; i <= 10000; ++i) step(i);
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  size_t steps = 0;
  for (size_t count : records()) steps += count - 1;
  EXPECT_EQ(steps, 10000u);
  EXPECT_GT(records().size(), 1u);
}

// Executions end at steps 3, 6, 8, and 11; events are due at 4, 8, and 12.
TEST(TensorBoard, DoesNotMissPeriodsThatEndWithinExecution) {
  const std::string folder = NewPath("_tb");
  FakeContext run;
  auto callback = TensorBoard({.folder = folder, .update_every_steps = 4});
  ASSERT_TRUE(callback->EpochBegin(run, {}).ok());
  for (int64_t step : {3, 6, 8, 11}) {
    ASSERT_TRUE(callback->BatchEnd(run, {.total_steps = step}, {{"loss", 0.5}}).ok());
  }
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  const auto file = std::filesystem::directory_iterator(folder + "/train")->path().string();
  auto reader = record::TfRecordReader::Open(*io::FileSystem::Default(), file);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto block = (*reader)->ReadBlock();
  ASSERT_TRUE(block.ok()) << block.status();
  ASSERT_EQ(block->records.size(), 3u);  // the version, then steps 6 and 8
  EXPECT_THAT(std::string(block->records[1]), HasSubstr("\x10\x06"));
  EXPECT_THAT(std::string(block->records[2]), HasSubstr("\x10\x08"));
  std::filesystem::remove_all(folder);
}

TEST(TensorBoard, WritesTrainingAndValidationEventsToSeparateFolders) {
  const std::string folder = NewPath("_tb");
  FakeContext run;
  auto callback = TensorBoard({.folder = folder});
  ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 3}, {{"loss", 0.5}, {"val_loss", 0.75}}).ok());
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  for (const auto& [name, value] : {std::pair("train", 0.5f), std::pair("validation", 0.75f)}) {
    const auto file = std::filesystem::directory_iterator(folder + "/" + name)->path().string();
    auto reader = record::TfRecordReader::Open(*io::FileSystem::Default(), file);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const auto block = (*reader)->ReadBlock();
    ASSERT_TRUE(block.ok()) << block.status();
    ASSERT_EQ(block->records.size(), 2u);
    EXPECT_THAT(std::string(block->records[0]), HasSubstr("brain.Event:2"));
    // Value { 1: "epoch_loss", 2: float }, step 3.
    std::string expected(
        "\x0a\x0a"
        "epoch_loss\x15",
        13);
    expected.append(reinterpret_cast<const char*>(&value), 4);
    EXPECT_THAT(std::string(block->records[1]), HasSubstr(expected));
    EXPECT_THAT(std::string(block->records[1]), HasSubstr("\x10\x03"));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace tensorboard_test
}  // namespace penstock::train
