// MixUp and CutMix in the training step: loss, gradients and metrics against plain formulas;
// several steps per execution, resuming, and the errors of objectives that cannot be mixed.
#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/gradients.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"
#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/forward.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace mixing_test {

using ir::testing::Doubles;
using ::testing::HasSubstr;
using testing::Points;

constexpr int64_t kRows = 7, kReal = 6, kFeatures = 4, kClasses = 3;
constexpr double kSmoothing = 0.1;

Objective Linear(nn::Reduction reduction) {
  const nn::Symbol x = nn::Input({.shape = {kFeatures}, .name = "x"});
  return {.network = nn::Network({x}, {nn::Dense({.units = kClasses, .use_bias = false})(x)}),
          .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true,
                                                                  .label_smoothing = kSmoothing,
                                                                  .reduction = reduction}),
                       .metrics = {nn::Accuracy()},
                       .weighted_metrics = {nn::Accuracy()}}},
          .optimizer = nn::SGD(),
          .batch_augmentation = {nn::MixUp({.alpha = 1})}};
}

// Results of one step for a batch with `count` real rows, whose weights identify them.
struct Step {
  Array x = ir::testing::RandomArray({kRows, kFeatures}, 3, -1, 1, DType::kF32);
  Array labels = Array::Of<int64_t>({kRows}, {0, 1, 2, 2, 1, 0, 99});
  Array weights = Array::Of<float>({kRows}, {1, 2, 0.5, 3, 0.25, 4, 77});
  Array kernel = ir::testing::RandomArray({kFeatures, kClasses}, 4, -1, 1, DType::kF32);
  std::vector<double> mixed, label, other_label, weight, other_weight, share, loss, gradient;
  std::vector<double> sums;  // of the metrics

  void Run(const Objective& objective) {
    ir::Graph graph("mixing");
    ir::Values given;
    for (const Array* array : {&x, &labels, &weights, &kernel}) {
      given.push_back(graph.Parameter({array->dtype(), array->shape()}, "p"));
    }
    const ir::Value count = ir::Splat(graph, {DType::kI32, {}}, kReal);
    const ir::Value key = ir::RandomKey(graph, 8);
    const BatchValues batch = MixBatch(
        objective, MakeBatch(graph, objective, {given[0], given[1], given[2], count}), key);
    const Forward forward = RunForward(graph, objective, {given[3]}, batch, true, key);
    PENSTOCK_CHECK_OK(graph.status());
    const ir::Value real = ir::Greater(batch.mask, ir::SplatLike(batch.mask, 0));
    const ir::Value total =
        ir::ReduceSum(ir::Select(real, forward.per_example, ir::SplatLike(batch.mask, 0))) /
        static_cast<double>(kReal);
    ir::Values results{batch.inputs[0],
                       batch.labels[0],
                       batch.other_labels[0],
                       batch.weights[0],
                       batch.other_weights[0],
                       batch.share,
                       total,
                       ir::Gradients(total, {given[3]})[0]};
    results.insert(results.end(), forward.metric_additions.begin(), forward.metric_additions.end());
    graph.SetResults(results);
    const auto got = ir::testing::Run(graph, {x, labels, weights, kernel});
    PENSTOCK_CHECK_OK(got);
    std::vector<double>* into[] = {&mixed,        &label, &other_label, &weight,
                                   &other_weight, &share, &loss,        &gradient};
    for (size_t i = 0; i < 8; ++i) *into[i] = Doubles((*got)[i]);
    for (size_t i = 8; i < got->size(); ++i) sums.push_back(Doubles((*got)[i])[0]);
  }
};

std::vector<double> SoftmaxOf(const std::vector<double>& logits) {
  std::vector<double> p;
  double sum = 0;
  for (double logit : logits) sum += p.emplace_back(std::exp(logit));
  for (double& each : p) each /= sum;
  return p;
}

class Formulas : public ::testing::TestWithParam<nn::Reduction::Value> {};
INSTANTIATE_TEST_SUITE_P(Reductions, Formulas,
                         ::testing::Values(nn::Reduction::kSumOverBatchSize, nn::Reduction::kSum,
                                           nn::Reduction::kMeanWithSampleWeight));

TEST_P(Formulas, LossGradientsAndMetricsAreThoseOfTheMixedBatch) {
  Step step;
  step.Run(Linear(GetParam()));
  const std::vector<double> x = Doubles(step.x), kernel = Doubles(step.kernel),
                            weights = Doubles(step.weights), labels = Doubles(step.labels);
  double loss = 0, divisor = kReal, weight_sum = 0, correct = 0, weighted_correct = 0, counted = 0;
  std::vector<double> gradient(kFeatures * kClasses, 0);
  for (int64_t i = 0; i < kReal; ++i) {
    // Weights are distinct, so they identify the examples that were mixed.
    const auto example = [&](double weight) {
      return std::find(weights.begin(), weights.end(), weight) - weights.begin();
    };
    const int64_t first = example(step.weight[i]), second = example(step.other_weight[i]);
    EXPECT_TRUE(first == i || second == i);
    ASSERT_TRUE(first < kReal && second < kReal) << "padding was mixed into row " << i;
    EXPECT_EQ(step.label[i], labels[first]);
    EXPECT_EQ(step.other_label[i], labels[second]);
    const double share = step.share[i];
    EXPECT_TRUE(share >= 0.5 && share <= 1) << share;
    std::vector<double> logits(kClasses, 0), weighted_label(kClasses, 0);
    for (int64_t f = 0; f < kFeatures; ++f) {
      const double mixed =
          share * x[first * kFeatures + f] + (1 - share) * x[second * kFeatures + f];
      EXPECT_NEAR(step.mixed[i * kFeatures + f], mixed, 1e-6);
      for (int64_t c = 0; c < kClasses; ++c) logits[c] += mixed * kernel[f * kClasses + c];
    }
    // The mixed one-hot label, each part with the weight of its example.
    const double both[] = {share * weights[first], (1 - share) * weights[second]};
    for (int64_t c = 0; c < kClasses; ++c) {
      for (int part = 0; part < 2; ++part) {
        const bool is_label = labels[part == 0 ? first : second] == static_cast<double>(c);
        weighted_label[c] += both[part] * ((1 - kSmoothing) * is_label + kSmoothing / kClasses);
      }
    }
    const std::vector<double> p = SoftmaxOf(logits);
    for (int64_t c = 0; c < kClasses; ++c) {
      loss -= weighted_label[c] * std::log(p[c]);
      for (int64_t f = 0; f < kFeatures; ++f) {
        gradient[f * kClasses + c] +=
            step.mixed[i * kFeatures + f] * ((both[0] + both[1]) * p[c] - weighted_label[c]);
      }
    }
    weight_sum += both[0] + both[1];
    const auto best = std::max_element(p.begin(), p.end()) - p.begin();
    const bool right = static_cast<double>(best) == labels[first];
    correct += right, weighted_correct += right * weights[first], counted += weights[first];
  }
  if (GetParam() == nn::Reduction::kSum) divisor = 1;
  if (GetParam() == nn::Reduction::kMeanWithSampleWeight) divisor = weight_sum;
  EXPECT_NEAR(step.loss[0], loss / divisor, 1e-5 * std::abs(loss / divisor));
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_NEAR(step.gradient[i], gradient[i] / divisor, 2e-5 * weight_sum / divisor) << i;
  }
  // Sums and counts of the loss, the accuracy, and the weighted accuracy.
  ASSERT_EQ(step.sums.size(), 6u);
  EXPECT_EQ(step.sums[2], correct);
  EXPECT_EQ(step.sums[3], kReal);
  EXPECT_NEAR(step.sums[4], weighted_correct, 1e-5);
  EXPECT_NEAR(step.sums[5], counted, 1e-5);
}

nn::Network ImageNet() {
  const nn::Symbol x = nn::Input({.shape = {4, 4, 1}, .dtype = DType::kU8, .name = "x"});
  nn::Symbol y = nn::Rescaling({.scale = 1 / 255.0})(x);
  y = nn::Conv2D({.filters = 4, .kernel_size = 3, .activation = "relu"})(y);
  return nn::Network({x}, {nn::Dense({.units = kClasses})(nn::Flatten()(y))});
}

struct TrainingOptions {
  int64_t steps_per_execution = 1;
  int replicas = 1;
  std::vector<nn::BatchAugmentation> augmentation = {nn::MixUp(), nn::CutMix()};
};

absl::StatusOr<std::unique_ptr<Trainer>> MakeTraining(const TrainingOptions& options = {}) {
  auto strategy =
      Strategy::Create(runtime::TestClient(options.replicas), {.replicas = options.replicas});
  PENSTOCK_CHECK_OK(strategy);
  return Trainer::Create(
      {.objective = {.network = ImageNet(),
                     .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true}),
                                  .metrics = {nn::Accuracy()}}},
                     .optimizer = nn::SGD({.learning_rate = 0.1, .momentum = 0.9}),
                     .batch_augmentation = options.augmentation},
       .strategy = *std::move(strategy),
       .columns = {.inputs = {"x"}, .labels = {"y"}},
       .steps_per_execution = options.steps_per_execution,
       .seed = 3});
}

// 45 images in batches of 8, so that the last batch has padding.
data::Dataset Images() {
  const int64_t rows = 45;
  Array x = Array::Zeros(DType::kU8, {rows, 4, 4, 1}), y = Array::Zeros(DType::kI64, {rows});
  for (int64_t i = 0; i < x.num_elements(); ++i)
    x.mutable_data<uint8_t>()[i] = static_cast<uint8_t>((i * 37 + i / 16 * 59) % 256);
  for (int64_t i = 0; i < rows; ++i) y.mutable_data<int64_t>()[i] = i % kClasses;
  return data::Dataset::FromArrays({{"x", x}, {"y", y}}).Batch(8);
}

NamedArrays Trained(const TrainingOptions& options, int epochs = 2) {
  const auto trainer = MakeTraining(options);
  PENSTOCK_CHECK_OK(trainer);
  PENSTOCK_CHECK_OK((*trainer)->Fit(Images(), {.epochs = epochs}));
  auto weights = (*trainer)->Weights();
  PENSTOCK_CHECK_OK(weights);
  return *std::move(weights);
}

void ExpectBitwiseEqual(const NamedArrays& a, const NamedArrays& b) {
  for (const auto& [name, array] : a) EXPECT_TRUE(base::BitwiseEqual(array, *b.Find(name))) << name;
}

TEST(Mixing, SeveralStepsPerExecutionDrawTheNumbersOfSingleSteps) {
  for (int replicas : {1, 2}) {
    ExpectBitwiseEqual(Trained({.replicas = replicas}),
                       Trained({.steps_per_execution = 4, .replicas = replicas}));
  }
}

TEST(Mixing, ChangesTrainingButNotEvaluation) {
  EXPECT_GT(testing::LargestDifference(Trained({}), Trained({.augmentation = {}})), 1e-3);
  const auto mixed = MakeTraining(), plain = MakeTraining({.augmentation = {}});
  ASSERT_TRUE(mixed.ok() && plain.ok());
  const auto a = (*mixed)->Evaluate(Images()), b = (*plain)->Evaluate(Images());
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a->Get("loss"), *b->Get("loss"));
}

TEST(Mixing, AResumedRunDrawsTheSameNumbers) {
  const std::string folder = testing::NewPath("_mixing");
  {
    const auto first = MakeTraining();
    PENSTOCK_CHECK_OK(first);
    PENSTOCK_CHECK_OK(
        (*first)->Fit(Images(), {.epochs = 1, .callbacks = {Checkpoint({.folder = folder})}}));
  }
  const auto second = MakeTraining();
  PENSTOCK_CHECK_OK(second);
  PENSTOCK_CHECK_OK(
      (*second)->Fit(Images(), {.epochs = 2, .callbacks = {Checkpoint({.folder = folder})}}));
  ExpectBitwiseEqual(*(*second)->Weights(), Trained({}));
}

TEST(Mixing, ReplicasNeedTwoExamplesEach) {
  const auto trainer = MakeTraining({.replicas = 2});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto history = (*trainer)->Fit(Images().Unbatch().Batch(2), {});
  EXPECT_THAT(std::string(history.status().message()),
              HasSubstr("MixUp mixes the examples of a batch, and each replica gets only one"));
}

std::string WhyNot(Objective objective) { return std::string(CheckObjective(objective).message()); }

TEST(Mixing, RequiresLabelsThatAreClasses) {
  Objective objective = Linear("mean");
  EXPECT_EQ(WhyNot(objective), "");
  objective.targets[0].loss = nn::CategoricalCrossentropy({.label_smoothing = 0.1});
  EXPECT_EQ(WhyNot(objective), "");
  for (const nn::Loss& loss : {nn::MeanSquaredError(), nn::Circle(), nn::CTC(), nn::Dice()}) {
    objective.targets[0].loss = loss;
    EXPECT_THAT(WhyNot(objective), HasSubstr("MixUp mixes labels that are classes; the loss"));
  }
  objective = Linear("mean");
  objective.batch_augmentation = {nn::CutMix()};
  EXPECT_THAT(WhyNot(objective), HasSubstr("CutMix needs a network with one input of images"));
  objective = Linear("mean");
  objective.custom = CustomStep{
      [](const StepContext& step) -> StepResult { return {.loss = step.apply(step.inputs)[0]}; }};
  EXPECT_THAT(WhyNot(objective), HasSubstr("has to mix its batch itself"));
  const nn::Symbol x = nn::Input({.shape = {4, 4, 3}, .name = "x"});
  objective = Linear("mean");
  objective.network = nn::Network({x}, {nn::Dense({.units = 3})(x)});  // a class of each pixel
  EXPECT_THAT(WhyNot(objective), HasSubstr("with labels of every position"));
}

}  // namespace mixing_test
}  // namespace penstock::train
