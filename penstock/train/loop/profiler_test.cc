#include "penstock/train/loop/profiler.h"

#include <filesystem>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/train/callbacks/early_stopping.h"
#include "penstock/train/callbacks/tensorboard.h"
#include "penstock/train/callbacks/terminate_on_nan.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"
#include "penstock/train/trainer.h"

namespace penstock::train {
namespace profiler_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using testing::Points;
using testing::SmallTrainer;
using Json = nlohmann::json;

constexpr char kFolder[] = "memory://run/profile";

// The spans of a track in trace.json.
struct Track {
  std::vector<Json> spans;

  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const Json& span : spans) all.insert(span["name"].get<std::string>());
    return all;
  }
  // "step" of each span, 0 if it has none.
  std::vector<int64_t> steps() const {
    std::vector<int64_t> all;
    for (const Json& span : spans) {
      all.push_back(span.contains("args") ? span["args"]["step"].get<int64_t>() : 0);
    }
    return all;
  }
};

class ProfilerTest : public ::testing::Test {
 protected:
  ProfileOptions Options() const { return {.folder = kFolder, .out = nullptr, .file_system = fs_}; }

  std::string Read(const std::string& name) const {
    const auto bytes = io::ReadFile(*fs_, absl::StrCat(kFolder, "/", name));
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? *bytes : "";
  }

  std::map<std::string, Track> ReadTrace() const {
    const Json json = Json::parse(Read("trace.json"), nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(json.is_discarded());
    std::map<int, std::string> groups;
    std::map<std::pair<int, int>, std::string> names;
    std::map<std::string, Track> tracks;
    for (const Json& event : json["traceEvents"]) {
      const std::pair<int, int> place{event["pid"], event.value("tid", 0)};
      if (event["name"] == "process_name") groups[place.first] = event["args"]["name"];
      if (event["name"] == "thread_name") {
        names[place] =
            absl::StrCat(groups[place.first], "/", event["args"]["name"].get<std::string>());
      }
      if (event["ph"] == "X") tracks[names[place]].spans.push_back(event);
    }
    return tracks;
  }

  const std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
};

// Spans are sorted and properly nested. The file rounds to nanoseconds.
void ExpectNested(const std::string& name, const Track& track) {
  constexpr double kRounding = 0.0011;
  std::vector<double> open;  // end times of the enclosing spans
  double last = -1;
  for (const Json& span : track.spans) {
    const double begin = span["ts"], end = begin + span["dur"].get<double>();
    EXPECT_GE(begin + kRounding, last) << name;
    last = begin;
    while (!open.empty() && open.back() <= begin + kRounding) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(end, open.back() + 2 * kRounding) << name << ": " << span;
    }
    open.push_back(end);
  }
}

class NamedCallback : public Callback {
 public:
  void Note(absl::string_view text) override { notes.emplace_back(text); }
  absl::Status EpochEnd(TrainingContext& run, const Position&, const Logs&) override {
    return run.Weights().status();  // makes the callback take measurable time
  }
  std::vector<std::string> notes;
};

TEST_F(ProfilerTest, TracesEntireTrainingOfTwoReplicas) {
  auto trainer = SmallTrainer({.replicas = 2});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const data::Dataset train = data::Dataset::FromArrays(Points(64)).Batch(8),
                      test = data::Dataset::FromArrays(Points(16, 2)).Batch(8);
  const auto history = (*trainer)->Fit(train, {.epochs = 2,
                                               .callbacks = {std::make_shared<NamedCallback>()},
                                               .validation_data = &test,
                                               .profile = Options()});
  ASSERT_TRUE(history.ok()) << history.status();

  auto tracks = ReadTrace();
  for (const auto& [name, track] : tracks) ExpectNested(name, track);
  EXPECT_THAT(tracks["training/epochs"].names(), ElementsAre("epoch 1", "epoch 2"));
  const std::vector<int64_t> steps{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  EXPECT_EQ(tracks["training/steps"].steps(), steps);
  for (const char* device : {"devices/cpu 0", "devices/cpu 1"}) {
    EXPECT_THAT(tracks[device].names(), ElementsAre("evaluate_step", "train_step"));
    std::vector<int64_t> trained;
    for (int64_t step : tracks[device].steps()) {
      if (step > 0) trained.push_back(step);
    }
    EXPECT_EQ(trained, steps) << device;
  }
  EXPECT_THAT(tracks["host/training loop"].names(),
              IsSupersetOf({"open the data", "take a batch", "wait for the pipeline",
                            "copy to the devices", "build and print a program", "dispatch",
                            "wait for the devices", "callbacks", "Named.EpochEnd", "validation"}));

  const Json operations = Json::parse(Read("operations.json"));
  std::map<std::string, int64_t> products;
  for (const Json& row : operations["operations"]) {
    EXPECT_GE(row["seconds"].get<double>(), 0) << row;
    if (row["operation"] != "dot_general") continue;
    for (const Json& layer : row["layers"]) products[layer] += row["count"].get<int64_t>();
  }
  // One forward and two gradient products; the gradient of the inputs is not computed.
  EXPECT_EQ(products, (std::map<std::string, int64_t>{{"hidden", 2}, {"logits", 3}}));
  EXPECT_GT(operations["step_seconds"].get<double>(), 0);
  EXPECT_THAT(Read("operations.txt"), HasSubstr("everything else, fused"));
  EXPECT_THAT(Read("pipeline.txt"), HasSubstr("Batch(8"));
  EXPECT_THAT(Read("summary.txt"), HasSubstr("trace of steps 1 to 16"));
}

TEST_F(ProfilerTest, TracesOnlyRequestedSteps) {
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ProfileOptions options = Options();
  options.first_step = 10;
  options.last_step = 12;
  options.operations = false;
  const auto history = (*trainer)->Fit(data::Dataset::FromArrays(Points(64)).Batch(8),
                                       {.epochs = 3, .profile = options});
  ASSERT_TRUE(history.ok()) << history.status();
  auto tracks = ReadTrace();
  const auto steps = tracks["training/steps"].steps();
  EXPECT_THAT(steps, IsSupersetOf({10, 11, 12}));
  EXPECT_THAT(steps, Not(Contains(13)));
  // Steps in flight when tracing begins are included.
  EXPECT_GE(steps.front(), 8);
  EXPECT_THAT(tracks["training/epochs"].names(), ElementsAre("epoch 2"));
  EXPECT_THAT(tracks["host/training loop"].names(), Not(Contains(HasSubstr("compile"))));
  EXPECT_FALSE(io::ReadFile(*fs_, absl::StrCat(kFolder, "/operations.txt")).ok());
}

TEST_F(ProfilerTest, StackIsOneSpanNamedAfterItsSteps) {
  auto trainer = SmallTrainer({.steps_per_execution = 3});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ProfileOptions options = Options();
  options.operations_seconds = -1;  // skips the measurement, but not the list of operations
  const auto history =
      (*trainer)->Fit(data::Dataset::FromArrays(Points(64)).Batch(8), {.profile = options});
  ASSERT_TRUE(history.ok()) << history.status();
  auto tracks = ReadTrace();
  EXPECT_THAT(tracks["training/steps"].names(), ElementsAre("1-3", "4-6", "7-8"));
  EXPECT_THAT(tracks["devices/cpu 0"].names(), ElementsAre("train_steps x2", "train_steps x3"));
  EXPECT_THAT(tracks["host/training loop"].names(), Contains("stack batches"));
  EXPECT_THAT(Read("operations.txt"), HasSubstr("dot_general f32[8,4], f32[4,8] -> f32[8,8]"))
      << "the operations of a single step";
}

TEST_F(ProfilerTest, ReportsDroppedSpansOfFullTrace) {
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ProfileOptions options = Options();
  options.max_spans = 20;
  options.operations = false;
  const auto history =
      (*trainer)->Fit(data::Dataset::FromArrays(Points(64)).Batch(8), {.profile = options});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_THAT(Read("summary.txt"), HasSubstr(": 20 spans, and "));
  EXPECT_THAT(Read("summary.txt"), HasSubstr(" more that were dropped"));
}

TEST_F(ProfilerTest, RejectsInvalidStepsBeforeTraining) {
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ProfileOptions options = Options();
  options.first_step = 5;
  options.last_step = 4;
  const auto history =
      (*trainer)->Fit(data::Dataset::FromArrays(Points(64)).Batch(8), {.profile = options});
  EXPECT_EQ(history.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(history.status().message()),
              HasSubstr("first_step is 5 and last_step 4"));
}

TEST_F(ProfilerTest, WriteErrorDoesNotEndTraining) {
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  // A folder occupies the path of the file.
  ASSERT_TRUE(io::WriteFile(*fs_, absl::StrCat(kFolder, "/trace.json/in the way"), "").ok());
  ProfileOptions options = Options();
  options.last_step = 3;
  options.operations = false;
  const auto callback = std::make_shared<NamedCallback>();
  const auto history = (*trainer)->Fit(data::Dataset::FromArrays(Points(64)).Batch(8),
                                       {.callbacks = {callback}, .profile = options});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->stats[0].steps, 8);
  EXPECT_THAT(callback->notes, ElementsAre(HasSubstr("trace.json")));
}

TEST_F(ProfilerTest, TensorBoardWritesProfileOfSomeSteps) {
  const std::string folder = testing::NewPath("_profiler");
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto history =
      (*trainer)->Fit(data::Dataset::FromArrays(Points(64)).Batch(8),
                      {.callbacks = {TensorBoard({.folder = folder, .profile_steps = {2, 4}})}});
  ASSERT_TRUE(history.ok()) << history.status();
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::recursive_directory_iterator(
           std::filesystem::path(folder) / "plugins" / "profile")) {
    if (file.is_regular_file()) files.push_back(file.path().filename().string());
  }
  EXPECT_THAT(
      files, ::testing::UnorderedElementsAre(HasSubstr(".trace.json.gz"), HasSubstr(".xplane.pb")));
  std::filesystem::remove_all(folder);
}

TEST(CallbackName, IsItsClassName) {
  EXPECT_EQ(NamedCallback().name(), "Named");
  EXPECT_EQ(EarlyStopping({})->name(), "EarlyStopping");
  EXPECT_EQ(TerminateOnNan()->name(), "TerminateOnNan");
}

}  // namespace profiler_test
}  // namespace penstock::train
