#include "penstock/train/callbacks/tensorboard.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/resource.h>

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord.h"
#include "penstock/train/testing/fake_context.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

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
  auto callback = TensorBoard({.folder = folder, .update_every_steps = 4, .initial_step = 0x10});
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
  // The version, then steps 6 and 8 of this training, after 16 of another.
  ASSERT_EQ(block->records.size(), 3u);
  EXPECT_THAT(std::string(block->records[1]), HasSubstr("\x10\x16"));
  EXPECT_THAT(std::string(block->records[2]), HasSubstr("\x10\x18"));
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
    // The version, the numbers by epoch, and those of the validation by step.
    ASSERT_EQ(block->records.size(), name == std::string("train") ? 2u : 3u);
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

// ---- Variables, graph, faults ----

// All bytes of the event files of a folder, and the number of files that hold events.
std::string BytesOf(const std::string& folder, int* files = nullptr) {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    all.append(std::istreambuf_iterator<char>(file), {});
    if (files != nullptr) ++*files;
  }
  return all;
}

TEST(TensorBoard, WritesVariablesEveryHistogramFreqEpochs) {
  const std::string folder = NewPath("_tb");
  auto trainer = testing::SmallTrainer();
  const data::Dataset points = data::Dataset::FromArrays(testing::Points(20)).Batch(10);
  const auto history =
      (*trainer)->Fit(points, {.epochs = 5,
                               .callbacks = {TensorBoard({.folder = folder,
                                                          .histogram_freq = 2,
                                                          .write_grads = true,
                                                          .write_images = true,
                                                          .write_steps_per_second = true})}});
  ASSERT_TRUE(history.ok()) << history.status();
  const std::string bytes = BytesOf(folder + "/train");
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (size_t at = bytes.find(text); at != std::string::npos; at = bytes.find(text, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("hidden/kernel/histogram"), 3) << "epochs 0, 2, 4";
  EXPECT_EQ(count("hidden/kernel_grad/histogram"), 3);
  EXPECT_EQ(count("logits/bias/image/0"), 3);
  EXPECT_EQ(count("epoch_learning_rate"), 5);
  EXPECT_EQ(count("epoch_steps_per_second"), 5);
  EXPECT_EQ(count("VarHandleOp"), 4) << "the graph, once";
  EXPECT_EQ(count("graph_run_metadata_graph"), 1) << "the graph of a step, once";
  EXPECT_THAT(bytes, HasSubstr("hidden/dot_general"));
  std::filesystem::remove_all(folder);
}

TEST(TensorBoard, WarnsOnceOfVariablesThatAreNotFinite) {
  const std::string folder = NewPath("_tb");
  class Context : public FakeContext {
   public:
    void Warn(absl::string_view text) override { warnings.emplace_back(text); }
    std::vector<std::string> warnings;
  } run;
  run.weights.Set("dense/kernel", base::Array::Of<float>({2}, {NAN, 1}));
  auto callback = TensorBoard({.folder = folder, .histogram_freq = 1, .write_images = true});
  for (int epoch = 0; epoch < 3; ++epoch) {
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = epoch}, {{"loss", NAN}}).ok());
  }
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  ASSERT_EQ(run.warnings.size(), 1u);
  EXPECT_THAT(run.warnings[0], HasSubstr("'dense/kernel' has values that are not finite"));
  std::filesystem::remove_all(folder);
}

TEST(TensorBoard, WritesConfusionOfEachValidation) {
  const std::string folder = NewPath("_tb");
  FakeContext run;
  int calls = 0;
  auto callback = TensorBoard({.folder = folder,
                               .confusion_matrix = [&]() -> absl::StatusOr<base::Array> {
                                 ++calls;
                                 return base::Array::Of<int64_t>({2, 2}, {3, 1, 0, 4});
                               },
                               .class_names = {"cat", "dog"}});
  ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 0}, {{"loss", 1}}).ok());
  EXPECT_EQ(calls, 0) << "an epoch without validation";
  ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 1}, {{"loss", 1}, {"val_loss", 2}}).ok());
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  EXPECT_EQ(calls, 1);
  const std::string bytes = BytesOf(folder + "/validation");
  for (const char* text : {"confusion/image", "| cat | 3 | 1 |", "confusion/accuracy",
                           "evaluation_loss_vs_iterations"}) {
    EXPECT_THAT(bytes, HasSubstr(text));
  }
  std::filesystem::remove_all(folder);
}

TEST(TensorBoard, WritesEmbeddingsForProjector) {
  const std::string folder = NewPath("_tb");
  FakeContext run;
  run.weights.Set("words/embeddings", base::Array::Of<float>({2, 2}, {1, 2.5, -3, 4}));
  run.weights.Set("dense/kernel", base::Array::Of<float>({1, 1}, {1}));
  auto callback = TensorBoard(
      {.folder = folder, .embeddings_freq = 1, .embeddings_metadata = {{"words", "words.tsv"}}});
  for (int epoch = 0; epoch < 2; ++epoch) {
    ASSERT_TRUE(callback->EpochEnd(run, {.epoch = epoch}, {{"loss", 1}}).ok());
  }
  const auto read = [&](const char* name) {
    std::ifstream file(folder + "/" + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(read("words_embeddings.tsv"), "1\t2.5\n-3\t4\n");
  EXPECT_EQ(read("projector_config.pbtxt"),
            "embeddings {\n  tensor_name: \"words_embeddings\"\n  tensor_path: "
            "\"words_embeddings.tsv\"\n  metadata_path: \"words.tsv\"\n}\n");
  std::filesystem::remove_all(folder);
}

// A full disk, for which a limit of the size of files stands: the training goes on, and events after
// it are in a new file, because no reader passes the torn one.
TEST(TensorBoard, SurvivesFullDiskAndStartsNewFileAfterIt) {
  const std::string folder = NewPath("_tb");
  FakeContext run;
  auto callback = TensorBoard({.folder = folder});
  ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 0}, {{"loss", 0.5}}).ok());
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit full = before;
  full.rlim_cur = 100;
  setrlimit(RLIMIT_FSIZE, &full);
  const absl::Status failed = callback->EpochEnd(run, {.epoch = 1}, {{"loss", 0.5}});
  // Where nothing at all can be written no empty files are left, one for each event.
  const std::string nothing = NewPath("_tb");
  full.rlim_cur = 0;
  setrlimit(RLIMIT_FSIZE, &full);
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_FALSE(
        TensorBoard({.folder = nothing})->EpochEnd(run, {.epoch = epoch}, {{"loss", 1}}).ok());
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable) << failed;
  EXPECT_THAT(failed.message(), HasSubstr("cannot be written: File too large"));
  EXPECT_TRUE(callback->IsLog()) << "such an error is a warning";
  EXPECT_TRUE(std::filesystem::is_empty(nothing + "/train"));
  std::filesystem::remove_all(nothing);
  ASSERT_TRUE(callback->EpochEnd(run, {.epoch = 2}, {{"loss", 0.25}}).ok());
  ASSERT_TRUE(callback->TrainEnd(run).ok());
  int files = 0, whole = 0;
  BytesOf(folder + "/train", &files);
  EXPECT_EQ(files, 2);
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/train")) {
    auto reader = record::TfRecordReader::Open(*io::FileSystem::Default(), entry.path().string());
    for (;;) {
      const auto block = (*reader)->ReadBlock();
      if (!block.ok() || block->empty()) break;
      whole += static_cast<int>(block->size());
    }
  }
  EXPECT_GE(whole, 3) << "the version and epoch 2; the version before the torn event";
  std::filesystem::remove_all(folder);
}

}  // namespace tensorboard_test
}  // namespace penstock::train
