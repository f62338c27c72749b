// End-to-end training: exact averages, replicas, padding, donation, and errors.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/nn/layers.h"
#include "penstock/record/tfrecord.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace training_test {

using testing::ChangingBytes;
using ::testing::HasSubstr;
using testing::LargestDifference;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

data::Dataset Batches(int64_t rows, int64_t batch, uint64_t seed = 1) {
  return data::Dataset::FromArrays(Points(rows, seed)).Batch(batch);
}

// Counts compilations.
class CompileCounter : public Callback {
 public:
  void Compiling(absl::string_view, bool begin) override { count += begin; }
  int count = 0;
};

// Records the reasons for recompilations.
class CompileReasons : public Callback {
 public:
  void Recompiling(absl::string_view program, absl::string_view why) override {
    lines.push_back(absl::StrCat(program, ": ", why));
  }
  std::vector<std::string> lines;
};

TEST(Training, ReportsWhyAnotherBatchSizeRecompiles) {
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  auto reasons = std::make_shared<CompileReasons>();
  ASSERT_TRUE((*trainer)->Fit(Batches(32, 16), {.epochs = 2, .callbacks = {reasons}}).ok());
  EXPECT_THAT(reasons->lines, ::testing::IsEmpty());
  ASSERT_TRUE((*trainer)->Fit(Batches(32, 8), {.callbacks = {reasons}}).ok());
  ASSERT_EQ(reasons->lines.size(), 1u);
  EXPECT_THAT(reasons->lines[0],
              HasSubstr("train_step: argument 'x' changed from f32[16,4] to f32[8,4]"));
}

// A hidden layer of 2^20 units for 2^20 rows needs 4 TiB; no step may start writing it.
TEST(Training, RejectsProgramBeyondMemoryBeforeFirstStep) {
  const int64_t many = int64_t{1} << 20;
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  const nn::Symbol h = nn::Dense({.units = many, .activation = "tanh", .name = "wide"})(x);
  auto trainer =
      SmallTrainer({.network = nn::Network({x}, {nn::Dense({.units = 3, .name = "logits"})(h)})});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const base::NamedArrays before = *(*trainer)->Weights();
  const absl::Status status = (*trainer)->Fit(Batches(many, many), {}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  for (const char* part : {"'train_step' needs", "TiB", "left", "4.0 TiB  f32[1048576,1048576]",
                           "layer \"wide\"", "fits (this one has 1048576)"}) {
    EXPECT_THAT(Message(status), HasSubstr(part));
  }
  EXPECT_EQ(LargestDifference(before, *(*trainer)->Weights()), 0);
  ASSERT_TRUE((*trainer)->Fit(Batches(8, 8), {}).ok());  // a smaller batch still trains
}

TEST(Training, LearnsSeparableProblem) {
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto history = (*trainer)->Fit(Batches(300, 32), {.epochs = 40});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_GT(*history->epochs.back().Get("accuracy"), 0.95);
  const auto logs = (*trainer)->Evaluate(Batches(500, 64, /*seed=*/99));
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_GT(*logs->Get("accuracy"), 0.9);
}

// 37 examples in batches of 16: the last batch has 5.
TEST(Training, PartialBatchIsWeightedExactlyWithoutRecompilation) {
  auto trainer = SmallTrainer({.optimizer = nn::SGD({.learning_rate = 0.0})});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const base::NamedArrays points = Points(37);
  const auto weights = (*trainer)->Weights();
  ASSERT_TRUE(weights.ok());
  // Reference implementation of the network and the loss.
  const auto at = [&](const char* name, int64_t i) {
    return double{weights->Find(name)->data<float>()[i]};
  };
  double loss = 0, right = 0;
  for (int64_t n = 0; n < 37; ++n) {
    double logits[3];
    for (int c = 0; c < 3; ++c) {
      logits[c] = at("logits/bias", c);
      for (int h = 0; h < 8; ++h) {
        double hidden = at("hidden/bias", h);
        for (int j = 0; j < 4; ++j)
          hidden += points.Find("x")->data<float>()[4 * n + j] * at("hidden/kernel", 8 * j + h);
        logits[c] += std::tanh(hidden) * at("logits/kernel", 3 * h + c);
      }
    }
    const int64_t label = points.Find("y")->data<int64_t>()[n];
    loss +=
        std::log(std::exp(logits[0]) + std::exp(logits[1]) + std::exp(logits[2])) - logits[label];
    right += std::max_element(logits, logits + 3) - logits == label;
  }
  auto counter = std::make_shared<CompileCounter>();
  const auto history = (*trainer)->Fit(Batches(37, 16), {.epochs = 2, .callbacks = {counter}});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(counter->count, 1);
  EXPECT_NEAR(*history->epochs[1].Get("loss"), loss / 37, 1e-5);
  EXPECT_NEAR(*history->epochs[1].Get("accuracy"), right / 37, 1e-6);
  const auto logs = (*trainer)->Evaluate(Batches(37, 16));
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_NEAR(*logs->Get("loss"), loss / 37, 1e-5);
  EXPECT_NEAR(*logs->Get("accuracy"), right / 37, 1e-6);
}

// 75 examples in batches of 24: the last batch has 3, so five of eight replicas get padding only.
TEST(Training, EightReplicasEqualOneDevice) {
  base::NamedArrays weights[2];
  double losses[2];
  for (int i = 0; i < 2; ++i) {
    auto trainer = SmallTrainer({.replicas = i == 0 ? 1 : 8});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const auto history = (*trainer)->Fit(Batches(75, 24), {.epochs = 3});
    ASSERT_TRUE(history.ok()) << history.status();
    losses[i] = *history->epochs.back().Get("loss");
    weights[i] = *(*trainer)->Weights();
  }
  EXPECT_LT(LargestDifference(weights[0], weights[1]), 1e-5);
  EXPECT_NEAR(losses[0], losses[1], 1e-5 * losses[0]);
}

// Each replica normalizes by its own examples. The moving mean is updated with the mean over
// replicas, weighted by their numbers of examples, which is the mean over the batch.
TEST(Training, WeightsMovingAveragesOfReplicasByExamples) {
  const int64_t rows = 20;  // of 24: the last of four replicas has 2 of 6
  auto trainer = SmallTrainer({.network = SmallNet(0, /*batch_norm=*/true),
                               .optimizer = nn::SGD({.learning_rate = 0.0}),
                               .replicas = 4});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const base::NamedArrays before = *(*trainer)->Weights();
  // The first batch determines the program's batch size; the second is partial.
  base::NamedArrays points = Points(24 + rows);
  const auto history = (*trainer)->Fit(data::Dataset::FromArrays(points).Batch(24), {.epochs = 1});
  ASSERT_TRUE(history.ok()) << history.status();
  const base::NamedArrays after = *(*trainer)->Weights();
  const auto hidden = [&](int64_t n, int h) {
    double sum = before.Find("hidden/bias")->data<float>()[h];
    for (int j = 0; j < 4; ++j) {
      sum += points.Find("x")->data<float>()[4 * n + j] *
             before.Find("hidden/kernel")->data<float>()[8 * j + h];
    }
    return std::tanh(sum);
  };
  for (int h = 0; h < 8; ++h) {
    double moving_mean = 0, moving_variance = 1;
    int64_t first = 0;
    for (int64_t size : {int64_t{24}, rows}) {
      double mean = 0, variance = 0;
      for (int64_t r = 0; r < 4; ++r) {
        const int64_t begin = r * 6, end = std::min(size, begin + 6), count = end - begin;
        double m = 0, v = 0;
        for (int64_t n = begin; n < end; ++n)
          m += hidden(first + n, h) / static_cast<double>(count);
        for (int64_t n = begin; n < end; ++n)
          v += std::pow(hidden(first + n, h) - m, 2) / static_cast<double>(count);
        mean += m * static_cast<double>(count) / static_cast<double>(size);
        variance += v * static_cast<double>(count) / static_cast<double>(size);
      }
      moving_mean = 0.9 * moving_mean + 0.1 * mean;
      moving_variance = 0.9 * moving_variance + 0.1 * variance;
      first += size;
    }
    EXPECT_NEAR(after.Find("norm/moving_mean")->data<float>()[h], moving_mean, 1e-5);
    EXPECT_NEAR(after.Find("norm/moving_variance")->data<float>()[h], moving_variance, 1e-5);
  }
}

// 8 replicas with 3 examples each. Of the last batch of 2 rows, seven replicas get padding only,
// whose moments must not affect the moving averages.
TEST(Training, ReplicasWithOnlyPaddingDoNotAffectBatchNorm) {
  base::NamedArrays weights[2];
  for (int i = 0; i < 2; ++i) {
    auto trainer = SmallTrainer({.network = SmallNet(0, /*batch_norm=*/true),
                                 .optimizer = nn::SGD({.learning_rate = 0.0}),
                                 .replicas = 8});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const base::NamedArrays points = Points(26);
    base::NamedArrays rows;
    // The second training has only the first batch.
    for (const auto& [name, array] : points) rows.Set(name, i == 0 ? array : array.Slice(0, 24));
    ASSERT_TRUE((*trainer)->Fit(data::Dataset::FromArrays(rows).Batch(24), {}).ok());
    weights[i] = *(*trainer)->Weights();
  }
  const auto hidden = [&](int64_t n, int h) {
    double sum = weights[0].Find("hidden/bias")->data<float>()[h];
    const Array x = *Points(26).Find("x");
    for (int j = 0; j < 4; ++j)
      sum +=
          x.data<float>()[4 * n + j] * weights[0].Find("hidden/kernel")->data<float>()[8 * j + h];
    return std::tanh(sum);
  };
  for (int h = 0; h < 8; ++h) {
    const double earlier = weights[1].Find("norm/moving_mean")->data<float>()[h];
    const double mean = (hidden(24, h) + hidden(25, h)) / 2;
    EXPECT_NEAR(weights[0].Find("norm/moving_mean")->data<float>()[h], 0.9 * earlier + 0.1 * mean,
                1e-5);
  }
}

TEST(Training, DonatesEntireState) {
  const nn::Network network = SmallNet();
  const Objective objective{
      network, {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true})}}, nn::Adam()};
  const StateLayout layout = StateLayout::Make(objective);
  const auto program =
      TrainStep(objective, layout,
                {.inputs = {{DType::kF32, {8, 4}}}, .labels = {{DType::kI64, {8}}}}, 1, false);
  ASSERT_TRUE(program.ok()) << program.status();
  const int64_t bytes = ChangingBytes(layout);
  auto executable = runtime::TestClient(1)->Compile(*program);
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ((*executable)->Memory()->aliased, bytes);
}

TEST(Training, StepsPerEpochContinuesThroughData) {
  auto trainer = SmallTrainer();
  const auto history =
      (*trainer)->Fit(Batches(64, 16).Repeat(), {.epochs = 3, .steps_per_epoch = 5});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->epochs.size(), 3u);
  const auto state = (*trainer)->State();
  EXPECT_EQ(state->Find("optimizer/iteration")->item<int>(), 15);
}

TEST(Training, StopsWithReasonWhenDataEndsEarly) {
  auto trainer = SmallTrainer();
  const auto history = (*trainer)->Fit(Batches(64, 16), {.epochs = 3, .steps_per_epoch = 3});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->epochs.size(), 1u);
  EXPECT_THAT(history->stop_reason,
              HasSubstr("the data ended after 1 of 3 steps of epoch 2; add Repeat()"));
}

TEST(Training, PredictsOneRowPerExampleOnAnyNumberOfReplicas) {
  Array outputs[2];
  const data::Dataset rows = data::Dataset::FromArrays({{"x", *Points(29).Find("x")}}).Batch(12);
  for (int i = 0; i < 2; ++i) {
    auto trainer = SmallTrainer({.replicas = i == 0 ? 1 : 4});
    const auto predicted = (*trainer)->Predict(rows);
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    outputs[i] = (*predicted)[0];
    EXPECT_EQ(outputs[i].shape(), base::Shape({29, 3}));
  }
  EXPECT_LT(LargestDifference({{"y", outputs[0]}}, {{"y", outputs[1]}}), 1e-6);
}

// A hint from the pipeline is reported once, during the training, while the user can still act on
// it.
TEST(Training, ReportsHintsOfPipelineOnce) {
  class Notes : public Callback {
   public:
    void Note(absl::string_view text) override { notes.emplace_back(text); }
    std::vector<std::string> notes;
  };
  const auto fs = io::MakeMemoryFileSystem();
  ASSERT_TRUE(io::WriteFile(*fs, "memory://d/1.tfrec", "").ok());
  auto writer = record::TfRecordWriter::Create(*fs, "memory://d/0.tfrec");
  ASSERT_TRUE(writer.ok());
  for (int i = 0; i < 40; ++i) ASSERT_TRUE((*writer)->Append("x").ok());
  ASSERT_TRUE((*writer)->Close().ok());
  const base::NamedArrays points = Points(1);
  const data::Dataset dataset =
      data::Dataset::FromTfRecords({"memory://d/*.tfrec"})
          .Map(
              [points](const base::NamedArrays&, base::NamedArrays* out) {
                out->Set("x", points.Find("x")->Row(0));
                out->Set("y", points.Find("y")->Row(0));
                return absl::OkStatus();
              },
              {.name = "point",
               .makes = {{"x", base::DType::kF32, {4}}, {"y", base::DType::kI64, {}}},
               .drops = {"record"}})
          .Batch(8);
  auto trainer = SmallTrainer();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto notes = std::make_shared<Notes>();
  const auto history =
      (*trainer)->Fit(dataset, {.epochs = 2, .callbacks = {notes}, .read = {.file_system = fs}});
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(notes->notes.size(), 1);
  EXPECT_THAT(notes->notes[0], HasSubstr("1 of 2 shards are empty"));
}

TEST(Training, ValidatesAfterEachEpoch) {
  auto trainer = SmallTrainer();
  const data::Dataset validation = Batches(30, 16, 5);
  const auto history =
      (*trainer)->Fit(Batches(64, 16), {.epochs = 2, .validation_data = &validation});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_NEAR(*history->epochs[1].Get("val_loss"), *(*trainer)->Evaluate(validation)->Get("loss"),
              1e-6);
}

TEST(TrainingErrors, NamesMissingColumns) {
  auto trainer = SmallTrainer();
  const auto wrong =
      (*trainer)->Fit(data::Dataset::FromArrays({{"a", *Points(8).Find("x")}}).Batch(4), {});
  EXPECT_THAT(Message(wrong.status()),
              HasSubstr("there is no column 'x'; the batch's columns are a"));
}

TEST(TrainingErrors, ShapeMismatchNamesInputAndBothShapes) {
  auto trainer = SmallTrainer();
  base::NamedArrays points = Points(8);
  points.Set("x", Array::Zeros(DType::kF32, {8, 5}));
  const auto wrong = (*trainer)->Fit(data::Dataset::FromArrays(points).Batch(4), {});
  EXPECT_THAT(Message(wrong.status()),
              HasSubstr("the network's input 'x' is f32[?,4]; the batch has f32[4,5]"));
}

TEST(TrainingErrors, NamesEmptyDataset) {
  auto trainer = SmallTrainer();
  const auto wrong = (*trainer)->Fit(Batches(8, 4).Take(0), {});
  EXPECT_THAT(Message(wrong.status()), HasSubstr("the dataset is empty"));
}

TEST(TrainingErrors, MoreReplicasThanDevices) {
  EXPECT_THAT(Message(Strategy::Create(runtime::TestClient(1), {.replicas = 3}).status()),
              HasSubstr("3 replicas were requested, but cpu has 1 device"));
}

TEST(TrainingErrors, RejectedWeightsChangeNothing) {
  auto trainer = SmallTrainer();
  const base::NamedArrays before = *(*trainer)->Weights();
  base::NamedArrays other = before;
  other.Set("norm/gamma", Array::Scalar(1.0f));
  EXPECT_THAT(Message((*trainer)->SetWeights(other)),
              HasSubstr("1 are of no variable (norm/gamma)"));
  other = before;
  other.Set("logits/bias", Array::Zeros(DType::kF32, {4}));
  EXPECT_THAT(Message((*trainer)->SetWeights(other)),
              HasSubstr("variable 'logits/bias' is f32[3]"));
  EXPECT_EQ(LargestDifference(before, *(*trainer)->Weights()), 0);
}

}  // namespace training_test
}  // namespace penstock::train
