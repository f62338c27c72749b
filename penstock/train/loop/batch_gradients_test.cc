// The gradients that a callback asks for at the end of an epoch.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/train/callbacks/swap_ema_weights.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace batch_gradients_test {

using base::NamedArrays;
using ::testing::ElementsAre;

// Records gradients and weights at the end of each epoch but those that it leaves out.
class Recorder : public Callback {
 public:
  explicit Recorder(int every = 1) : every_(every) {}
  bool WantsGradients(int epoch) const override { return epoch % every_ == 0; }
  absl::Status EpochEnd(TrainingContext& context, const Position&, const Logs&) override {
    const absl::StatusOr<NamedArrays> found = context.Gradients(), now = context.Weights();
    if (!found.ok()) return found.status();
    gradients.push_back(*found);
    weights.push_back(*now);
    return now.status();
  }
  void Compiling(absl::string_view program, bool begin) override {
    if (begin) compiled.emplace_back(program);
  }

  std::vector<NamedArrays> gradients, weights;
  std::vector<std::string> compiled;

 private:
  const int every_;
};

// Trains for three epochs of `rows` / 10 batches.
std::shared_ptr<Recorder> Train(const testing::SmallOptions& options, int64_t rows = 30,
                                std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>(),
                                std::vector<std::shared_ptr<Callback>> before = {}) {
  auto trainer = testing::SmallTrainer(options);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  before.push_back(recorder);
  const auto history = (*trainer)->Fit(data::Dataset::FromArrays(testing::Points(rows)).Batch(10),
                                       {.epochs = 3, .callbacks = std::move(before)});
  EXPECT_TRUE(history.ok()) << history.status();
  return recorder;
}

// With one batch per epoch, the weights after the next epoch are those of SGD with these gradients.
TEST(BatchGradients, AreThoseOfTheNextStepOfTheSameBatch) {
  constexpr float kRate = 0.1F;
  const auto recorder = Train({.optimizer = nn::SGD({.learning_rate = kRate})}, /*rows=*/10);
  ASSERT_EQ(recorder->gradients.size(), 3u);
  for (size_t epoch = 0; epoch < 2; ++epoch) {
    for (const auto& [name, before] : recorder->weights[epoch]) {
      const base::Array &gradient = *recorder->gradients[epoch].Find(name),
                        &after = *recorder->weights[epoch + 1].Find(name);
      for (int64_t i = 0; i < before.num_elements(); ++i) {
        EXPECT_NEAR(after.data<float>()[i],
                    before.data<float>()[i] - kRate * gradient.data<float>()[i], 1e-6)
            << name;
      }
    }
  }
}

// Neither the number of steps in an execution changes them, nor replicas, loss scaling, or averages
// that validation and other callbacks see instead of the variables.
TEST(BatchGradients, AreThoseOfTheLastBatchHoweverItIsTrained) {
  const auto plain = Train({});
  const auto expect_same = [&](const Recorder& other, const char* what) {
    for (size_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_LT(testing::LargestDifference(plain->gradients[epoch], other.gradients[epoch]), 1e-5)
          << what;
    }
  };
  expect_same(*Train({.steps_per_execution = 2}), "a stack that is not full");
  expect_same(*Train({.replicas = 2}), "replicas");
  expect_same(*Train({.optimizer = nn::SGD(
                          {.learning_rate = 0.1, .momentum = 0.9, .loss_scale_factor = 1024})}),
              "loss scaling");
  expect_same(
      *Train({.optimizer = nn::SGD({.learning_rate = 0.1, .momentum = 0.9, .use_ema = true})}, 30,
             std::make_shared<Recorder>(), {SwapEMAWeights({.swap_on_epoch = true})}),
      "averages");
}

TEST(BatchGradients, CostNothingInEpochsWithoutThem) {
  const auto recorder = Train({}, 30, std::make_shared<Recorder>(/*every=*/2));
  ASSERT_EQ(recorder->gradients.size(), 3u);
  EXPECT_FALSE(recorder->gradients[0].empty());
  EXPECT_TRUE(recorder->gradients[1].empty());
  EXPECT_FALSE(recorder->gradients[2].empty());
  EXPECT_THAT(recorder->compiled, ElementsAre("train_step", "gradients_step"));
}

}  // namespace batch_gradients_test
}  // namespace penstock::train
