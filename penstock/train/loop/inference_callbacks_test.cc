// Callbacks of Evaluate, Predict, and validation in Fit.
#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/runtime/testing/counting_client.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/lambda_callback.h"
#include "penstock/train/feed_host.h"
#include "penstock/train/loop/in_flight.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace inference_callbacks_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Points;
using testing::SmallTrainer;

constexpr int64_t kRows = 44;  // 6 batches of 8, the last one of 4
data::Dataset Batches() { return data::Dataset::FromArrays(Points(kRows)).Batch(8); }
constexpr int kBatches = 6;

// Records the names of its hooks, e.g. "TestBatchBegin 0"; fails or throws in one of them.
class Recorder : public Callback {
 public:
  explicit Recorder(std::string fails_in = "", bool throws = false)
      : fails_in_(std::move(fails_in)), throws_(throws) {}
  absl::Status TrainBegin(TrainingContext&) override { return Add("TrainBegin"); }
  absl::Status EpochBegin(TrainingContext&, const Position&) override { return Add("EpochBegin"); }
  absl::Status EpochTrained(TrainingContext&, const Position&) override {
    return Add("EpochTrained");
  }
  absl::Status EpochEnd(TrainingContext&, const Position&, const Logs&) override {
    return Add("EpochEnd");
  }
  absl::Status TrainEnd(TrainingContext& context) override {
    failed = context.failed();
    return Add("TrainEnd");
  }
  absl::Status TestBegin(InferenceContext& context) override {
    trains = context.training() != nullptr;
    num_batches = context.num_batches();
    return Add("TestBegin");
  }
  absl::Status TestBatchBegin(InferenceContext&, int64_t batch) override {
    return Add(absl::StrCat("TestBatchBegin ", batch));
  }
  absl::Status TestBatchEnd(InferenceContext&, int64_t batch, const Logs& now) override {
    logs.push_back(now);
    return Add(absl::StrCat("TestBatchEnd ", batch));
  }
  absl::Status TestEnd(InferenceContext& context, const Logs& result) override {
    test_failed = context.failed();
    examples = context.examples();
    last = result;
    return Add("TestEnd");
  }
  absl::Status PredictBegin(InferenceContext&) override { return Add("PredictBegin"); }
  absl::Status PredictBatchBegin(InferenceContext&, int64_t batch) override {
    return Add(absl::StrCat("PredictBatchBegin ", batch));
  }
  absl::Status PredictBatchEnd(InferenceContext&, int64_t batch,
                               absl::Span<const base::Array> rows) override {
    outputs.push_back({rows.begin(), rows.end()});
    return Add(absl::StrCat("PredictBatchEnd ", batch));
  }
  absl::Status PredictEnd(InferenceContext& context) override {
    test_failed = context.failed();
    return Add("PredictEnd");
  }

  std::vector<std::string> With(absl::string_view prefix) const {
    std::vector<std::string> found;
    for (const std::string& hook : hooks) {
      if (absl::StartsWith(hook, prefix)) found.push_back(hook);
    }
    return found;
  }

  std::vector<std::string> hooks;
  std::vector<Logs> logs;
  std::vector<std::vector<base::Array>> outputs;
  Logs last;
  int64_t num_batches = 0, examples = 0;
  bool trains = false, failed = false, test_failed = false;

 private:
  absl::Status Add(std::string hook) {
    hooks.push_back(hook);
    if (hook != fails_in_) return absl::OkStatus();
    if (throws_) throw std::runtime_error("no socket");
    return absl::UnavailableError("no network");
  }
  const std::string fails_in_;
  const bool throws_;
};

std::vector<std::string> Numbered(absl::string_view hook, int count = kBatches) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(absl::StrCat(hook, i));
  return names;
}

// Keras's order, except that a batch is dispatched (Begin) up to two batches ahead of the End of an
// earlier one.
void ExpectOrder(const Recorder& recorder, const std::string& what) {
  const std::vector<std::string>& hooks = recorder.hooks;
  ASSERT_EQ(hooks.size(), 2u + 2 * kBatches);
  EXPECT_EQ(hooks.front(), what + "Begin");
  EXPECT_EQ(hooks.back(), what + "End");
  EXPECT_EQ(recorder.With(what + "BatchBegin "), Numbered(what + "BatchBegin "));
  EXPECT_EQ(recorder.With(what + "BatchEnd "), Numbered(what + "BatchEnd "));
  const auto index = [&](const std::string& hook) {
    return std::find(hooks.begin(), hooks.end(), hook) - hooks.begin();
  };
  for (int i = 0; i < kBatches; ++i) {
    const auto end = index(absl::StrCat(what, "BatchEnd ", i));
    EXPECT_LT(index(absl::StrCat(what, "BatchBegin ", i)), end);
    if (i + 3 < kBatches) {
      EXPECT_LT(end, index(absl::StrCat(what, "BatchBegin ", i + 3))) << "too far ahead";
    }
  }
}

TEST(Evaluate, CallsHooksInKerasOrderWithRunningMeans) {
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto recorder = std::make_shared<Recorder>();
  const auto logs = (*trainer)->Evaluate(Batches(), {.callbacks = {recorder}});
  ASSERT_TRUE(logs.ok()) << logs.status();
  ExpectOrder(*recorder, "Test");
  EXPECT_FALSE(recorder->trains);
  EXPECT_EQ(recorder->num_batches, kBatches);
  EXPECT_EQ(recorder->examples, kRows);
  for (const auto& [name, value] : *logs) {
    EXPECT_EQ(*recorder->last.Get(name), value) << name;
    EXPECT_EQ(*recorder->logs.back().Get(name), value) << name;
  }
  // The running means after three batches cover exactly their rows.
  const auto first = (*trainer)->Evaluate(Batches(), {.steps = 3});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*recorder->logs[2].Get("loss"), *first->Get("loss"));
  EXPECT_NE(*logs->Get("loss"), *first->Get("loss"));
}

TEST(Predict, CallsHooksInKerasOrderWithOutputsOfEachBatch) {
  for (const int replicas : {1, 3}) {
    SCOPED_TRACE(replicas);
    auto trainer = SmallTrainer({.replicas = replicas});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const auto recorder = std::make_shared<Recorder>();
    const auto whole = (*trainer)->Predict(Batches(), {.callbacks = {recorder}});
    ASSERT_TRUE(whole.ok()) << whole.status();
    ExpectOrder(*recorder, "Predict");
    int64_t row = 0;
    for (const std::vector<base::Array>& batch : recorder->outputs) {
      ASSERT_EQ(batch.size(), 1u);
      const int64_t rows = batch[0].dim(0);
      ASSERT_EQ(rows, std::min<int64_t>(8, kRows - row));
      const base::Array part = (*whole)[0].Slice(row, row + rows);
      EXPECT_TRUE(std::equal(part.values<float>().begin(), part.values<float>().end(),
                             batch[0].values<float>().begin()));
      row += rows;
    }
    EXPECT_EQ(row, kRows);
  }
}

// Devices that seem to be far away.
class FarClient final : public runtime::CountingClient, public FeedHost {
 public:
  using runtime::CountingClient::CountingClient;
  absl::Status CheckPath(absl::string_view, bool) const override { return Here(); }
  absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeed(const FeedRequest&) override { return Here(); }
  absl::StatusOr<KeptRows> KeepRows(const data::DatasetPart&,
                                    const data::IteratorOptions&) override {
    return Here();
  }
  std::shared_ptr<const void> device_state() const override { return nullptr; }
  absl::StatusOr<RowsThere> ReadToDevices(const FeedRequest&) override { return Here(); }
  absl::StatusOr<runtime::Buffers> CopyToDevice(const runtime::Buffers&,
                                                const runtime::Device&) override {
    return Here();
  }
  double round_trip_seconds() const override { return 1e6; }

 private:
  static absl::Status Here() { return absl::UnimplementedError("pipelines run here"); }
};

// Two in flight would wait for a round trip with every third batch.
TEST(EvaluateAndPredict, KeepMoreInFlightWhereDevicesAreFar) {
  auto near = SmallTrainer();
  auto far = SmallTrainer({.client = std::make_shared<FarClient>(runtime::TestClient(1))});
  ASSERT_TRUE(near.ok() && far.ok()) << near.status() << far.status();
  const data::Dataset data = data::Dataset::FromArrays(Points(8 * 100)).Batch(8);
  int begun = 0, ended = 0, most = 0;
  const auto count = [&](int& count) {
    ++count;
    most = std::max(most, begun - ended);
    return absl::OkStatus();
  };
  const auto counts = LambdaCallback(
      {.on_test_batch_begin = [&](InferenceContext&, int64_t) { return count(begun); },
       .on_test_batch_end = [&](InferenceContext&, int64_t, const Logs&) { return count(ended); },
       .on_predict_batch_begin = [&](InferenceContext&, int64_t) { return count(begun); },
       .on_predict_batch_end = [&](InferenceContext&, int64_t,
                                   absl::Span<const base::Array>) { return count(ended); }});
  const auto logs = (*far)->Evaluate(data, {.callbacks = {counts}});
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_EQ(*logs->Get("loss"), *(*near)->Evaluate(data)->Get("loss"));
  EXPECT_EQ(begun, 100);
  EXPECT_EQ(most, static_cast<int>(InFlight::kMaxLimit) + 1);
  begun = ended = most = 0;
  const auto outputs = (*far)->Predict(data, {.callbacks = {counts}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const auto expected = (*near)->Predict(data);
  EXPECT_THAT((*outputs)[0].values<float>(),
              ::testing::ElementsAreArray((*expected)[0].values<float>()));
  EXPECT_EQ(begun, 100);
  EXPECT_EQ(most, static_cast<int>(InFlight::kMaxLimit) + 1);
}

TEST(Fit, CallsTestHooksInValidation) {
  auto trainer = SmallTrainer();
  const auto recorder = std::make_shared<Recorder>();
  const auto validation = Batches();
  const auto history =
      (*trainer)->Fit(Batches(), {.callbacks = {recorder}, .validation_data = &validation});
  ASSERT_TRUE(history.ok()) << history.status();
  std::vector<std::string> hooks = recorder->hooks;
  std::erase_if(hooks, [](const std::string& hook) { return absl::StrContains(hook, "Batch"); });
  EXPECT_THAT(hooks, ElementsAre("TrainBegin", "EpochBegin", "EpochTrained", "TestBegin", "TestEnd",
                                 "EpochEnd", "TrainEnd"));
  EXPECT_EQ(recorder->With("TestBatchEnd ").size(), static_cast<size_t>(kBatches));
  EXPECT_TRUE(recorder->trains);
  EXPECT_EQ(*recorder->last.Get("loss"), *history->epochs[0].Get("val_loss"));
}

// As with TrainEnd, the end hooks are called after an error, too, with the failed flag set.
TEST(Evaluate, EndsWithErrorOrExceptionOfHook) {
  auto trainer = SmallTrainer();
  for (const char* hook : {"TestBegin", "TestBatchBegin 1", "TestBatchEnd 4", "TestEnd"}) {
    SCOPED_TRACE(hook);
    const auto fails = std::make_shared<Recorder>(hook), other = std::make_shared<Recorder>();
    const absl::Status status =
        (*trainer)->Evaluate(Batches(), {.callbacks = {fails, other}}).status();
    EXPECT_EQ(status, absl::UnavailableError("no network"));
    EXPECT_EQ(fails->hooks.back(), "TestEnd");
    EXPECT_EQ(other->hooks.back(), "TestEnd");
    EXPECT_TRUE(other->test_failed);
  }
  const auto throws = std::make_shared<Recorder>("TestBatchEnd 0", /*throws=*/true);
  EXPECT_EQ((*trainer)->Evaluate(Batches(), {.callbacks = {throws}}).status(),
            absl::InternalError("callback Recorder.TestBatchEnd: threw std::runtime_error: no "
                                "socket"));
  EXPECT_EQ(throws->hooks.back(), "TestEnd");
  // A later evaluation is not affected.
  EXPECT_TRUE((*trainer)->Evaluate(Batches()).ok());
}

TEST(Predict, EndsWithErrorOrExceptionOfHook) {
  auto trainer = SmallTrainer();
  for (const char* hook : {"PredictBegin", "PredictBatchBegin 1", "PredictBatchEnd 4"}) {
    for (const bool throws : {false, true}) {
      const auto fails = std::make_shared<Recorder>(hook, throws);
      const auto outputs = (*trainer)->Predict(Batches(), {.callbacks = {fails}});
      EXPECT_THAT(std::string(outputs.status().message()),
                  HasSubstr(throws ? "callback Recorder.Predict" : "no network"));
      EXPECT_EQ(fails->hooks.back(), "PredictEnd");
      EXPECT_TRUE(fails->test_failed);
    }
  }
}

TEST(Fit, EndsWithErrorOfTestHookAfterSavingEpoch) {
  auto trainer = SmallTrainer();
  const auto fails = std::make_shared<Recorder>("TestBatchEnd 2");
  const auto validation = Batches();
  const std::string folder = testing::NewPath("_ck");
  const auto history = (*trainer)->Fit(
      Batches(), {.epochs = 2,
                  .callbacks = {fails, Checkpoint({.folder = folder, .remove_at_end = true})},
                  .validation_data = &validation});
  EXPECT_EQ(history.status(), absl::UnavailableError("validation: no network"));
  EXPECT_TRUE(fails->failed);
  EXPECT_EQ(fails->hooks.back(), "TrainEnd");
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

// A failing log causes one warning, but no error.
TEST(Evaluate, ContinuesAfterErrorOfLog) {
  class Log : public Recorder {
   public:
    using Recorder::Recorder;
    bool IsLog() const override { return true; }
  };
  auto trainer = SmallTrainer();
  const auto log = std::make_shared<Log>("TestBatchEnd 2");
  EXPECT_TRUE((*trainer)->Evaluate(Batches(), {.callbacks = {log}}).ok());
  EXPECT_EQ(log->hooks.size(), 2u + 2 * kBatches);
}

TEST(Evaluate, StopReturnsResultOfBatchesSoFar) {
  auto trainer = SmallTrainer();
  const auto stop = LambdaCallback(
      {.on_test_batch_end = [](InferenceContext& context, int64_t batch, const Logs&) {
        if (batch == 2) context.Stop();
        return absl::OkStatus();
      }});
  const auto recorder = std::make_shared<Recorder>();
  const auto logs = (*trainer)->Evaluate(Batches(), {.callbacks = {stop, recorder}});
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_EQ(*logs->Get("loss"), *(*trainer)->Evaluate(Batches(), {.steps = 3})->Get("loss"));
  EXPECT_EQ(recorder->With("TestBatchEnd "), Numbered("TestBatchEnd ", 3));
  EXPECT_EQ(recorder->examples, 24);
}

TEST(Predict, StopReturnsRowsSoFarAndStepsLimitsBatches) {
  auto trainer = SmallTrainer();
  const auto stop_at = [](int64_t last) {
    return LambdaCallback({.on_predict_batch_end = [last](InferenceContext& context, int64_t batch,
                                                          absl::Span<const base::Array>) {
      if (batch == last) context.Stop();
      return absl::OkStatus();
    }});
  };
  const auto stopped = (*trainer)->Predict(Batches(), {.callbacks = {stop_at(1)}});
  const auto limited = (*trainer)->Predict(Batches(), {.steps = 2});
  ASSERT_TRUE(stopped.ok() && limited.ok()) << stopped.status() << limited.status();
  EXPECT_EQ((*stopped)[0].dim(0), 16);
  EXPECT_EQ((*limited)[0].dim(0), 16);
  const auto at_once = LambdaCallback({.on_predict_begin = [](InferenceContext& context) {
    context.Stop();
    return absl::OkStatus();
  }});
  EXPECT_EQ((*trainer)->Predict(Batches(), {.callbacks = {at_once}}).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(LambdaCallback, CallsItsFunctionsForEvaluationAndPrediction) {
  auto trainer = SmallTrainer();
  std::string calls;
  const auto add = [&](const char* what) {
    calls += what;
    return absl::OkStatus();
  };
  const auto callback = LambdaCallback(
      {.on_test_begin = [&](InferenceContext&) { return add("("); },
       .on_test_batch_begin = [&](InferenceContext&, int64_t) { return add("<"); },
       .on_test_batch_end = [&](InferenceContext&, int64_t, const Logs&) { return add(">"); },
       .on_test_end = [&](InferenceContext&, const Logs&) { return add(")"); },
       .on_predict_begin = [&](InferenceContext&) { return add("["); },
       .on_predict_batch_begin = [&](InferenceContext&, int64_t) { return add("<"); },
       .on_predict_batch_end = [&](InferenceContext&, int64_t,
                                   absl::Span<const base::Array>) { return add(">"); },
       .on_predict_end = [&](InferenceContext&) { return add("]"); }});
  const auto data = data::Dataset::FromArrays(Points(16)).Batch(8);
  ASSERT_TRUE((*trainer)->Evaluate(data, {.callbacks = {callback}}).ok());
  ASSERT_TRUE((*trainer)->Predict(data, {.callbacks = {callback}}).ok());
  EXPECT_EQ(calls, "(<<>>)[<<>>]");
}

TEST(Options, ChecksThoseOfEvaluateAndPredict) {
  auto trainer = SmallTrainer();
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(message((*trainer)->Evaluate(Batches(), {.batch_size = 4}).status()),
              HasSubstr("batch_size is for arrays"));
  EXPECT_THAT(message((*trainer)->Evaluate(Batches(), {.verbose = 3}).status()),
              HasSubstr("verbose is 0"));
  EXPECT_THAT(message((*trainer)->Evaluate(Batches(), {.steps = -1}).status()),
              HasSubstr("Evaluate's steps must be at least 0"));
  EXPECT_THAT(message((*trainer)->Predict(Batches(), {.batch_size = 4}).status()),
              HasSubstr("batch_size is for arrays"));
  EXPECT_THAT(message((*trainer)->Predict(Batches(), {.steps = -1}).status()),
              HasSubstr("Predict's steps must be at least 0"));
  EXPECT_THAT(message((*trainer)->Predict(Batches(), {.callbacks = {nullptr}}).status()),
              HasSubstr("callback 0 (from 0) is null"));
}

}  // namespace inference_callbacks_test
}  // namespace penstock::train
