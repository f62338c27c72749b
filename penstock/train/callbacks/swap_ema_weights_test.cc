// Validation by moving averages: what is seen when, and that training is not affected.
#include "penstock/train/callbacks/swap_ema_weights.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace swap_ema_weights_test {

using base::Array;
using base::NamedArrays;
using testing::FitError;
using ::testing::HasSubstr;
using testing::Points;
using testing::SmallNet;
using testing::SmallTrainer;

constexpr char kKernel[] = "hidden/kernel", kAverage[] = "optimizer/average/hidden/kernel";

// Whether the weights are the averages, in validation and in EpochEnd.
class Witness : public Callback {
 public:
  absl::Status TestBatchBegin(InferenceContext& context, int64_t) override {
    PENSTOCK_RETURN_IF_ERROR(Look(*context.training(), in_validation));
    return absl::OkStatus();
  }
  absl::Status EpochEnd(TrainingContext& context, const Position&, const Logs& logs) override {
    val_loss.push_back(*logs.Get("val_loss"));
    return Look(context, at_epoch_end);
  }
  absl::Status EpochBegin(TrainingContext& context, const Position&) override {
    return Look(context, at_epoch_begin);
  }

  std::vector<bool> in_validation, at_epoch_end, at_epoch_begin;
  std::vector<double> val_loss;

 private:
  // State has the variable itself and its average, whatever Weights has.
  absl::Status Look(TrainingContext& context, std::vector<bool>& seen) {
    PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, context.Weights());
    PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays state, context.State());
    PENSTOCK_ASSIGN_OR_RETURN(const Array average,
                              state.Find(kAverage)->Cast(weights.Find(kKernel)->dtype()));
    EXPECT_FALSE(base::BitwiseEqual(*state.Find(kKernel), average));
    seen.push_back(base::BitwiseEqual(*weights.Find(kKernel), average));
    if (!seen.back()) {
      EXPECT_TRUE(base::BitwiseEqual(*weights.Find(kKernel), *state.Find(kKernel)));
    }
    return absl::OkStatus();
  }
};

struct Outcome {
  NamedArrays state;
  std::shared_ptr<Witness> witness = std::make_shared<Witness>();
};
Outcome Train(const std::string& policy, std::vector<std::shared_ptr<Callback>> callbacks,
              int replicas = 1) {
  nn::Network network = SmallNet();
  if (!policy.empty()) network = network.WithPolicy(policy);
  const auto trainer = SmallTrainer(
      {.network = network,
       .optimizer = nn::SGD({.learning_rate = 0.1, .use_ema = true, .ema_momentum = 0.8}),
       .replicas = replicas});
  PENSTOCK_CHECK_OK(trainer);
  Outcome run;
  callbacks.push_back(run.witness);
  const data::Dataset points = data::Dataset::FromArrays(Points(24)).Batch(8);
  PENSTOCK_CHECK_OK((*trainer)->Fit(
      points, {.epochs = 2, .callbacks = std::move(callbacks), .validation_data = &points}));
  auto state = (*trainer)->State();
  PENSTOCK_CHECK_OK(state);
  run.state = *std::move(state);
  return run;
}

void ExpectEqualStates(const NamedArrays& a, const NamedArrays& b) {
  for (const auto& [name, array] : a) {
    if (name.find("metrics/") == 0) continue;
    EXPECT_TRUE(base::BitwiseEqual(array, *b.Find(name))) << name;
  }
}

class SwapEMA : public ::testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Policies, SwapEMA,
                         ::testing::Combine(::testing::Values("", "bfloat16"),
                                            ::testing::Values(1, 2)));

// The averages of 16-bit variables are float32, so that they are converted.
TEST_P(SwapEMA, ValidationSeesAveragesAndTrainingGoesOnWithVariables) {
  const auto [policy, replicas] = GetParam();
  const Outcome plain = Train(policy, {}, replicas),
                swapped = Train(policy, {SwapEMAWeights()}, replicas),
                on_epoch = Train(policy, {SwapEMAWeights({.swap_on_epoch = true})}, replicas);
  EXPECT_THAT(plain.witness->in_validation, ::testing::Each(false));
  EXPECT_THAT(swapped.witness->in_validation, ::testing::Each(true));
  EXPECT_THAT(swapped.witness->at_epoch_end, ::testing::ElementsAre(false, false));
  EXPECT_THAT(on_epoch.witness->in_validation, ::testing::Each(true));
  EXPECT_THAT(on_epoch.witness->at_epoch_end, ::testing::ElementsAre(true, true));
  EXPECT_NE(plain.witness->val_loss, swapped.witness->val_loss);
  EXPECT_EQ(swapped.witness->val_loss, on_epoch.witness->val_loss);
  ExpectEqualStates(plain.state, swapped.state);
  ExpectEqualStates(plain.state, on_epoch.state);
}

TEST(SwapEMA, NeedsAnOptimizerWithAverages) {
  EXPECT_THAT(std::string(FitError({SwapEMAWeights()}).message()), HasSubstr("use_ema = true"));
}

}  // namespace swap_ema_weights_test
}  // namespace penstock::train
