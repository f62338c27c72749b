// Callbacks and trainers that are reused for a second or a resumed Fit.
#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/train/callbacks/early_stopping.h"
#include "penstock/train/callbacks/terminate_on_nan.h"
#include "penstock/train/trainer.h"

namespace penstock::train {
namespace refit_test {

using ::testing::HasSubstr;

// A context without a training; tests call the hooks themselves.
class IdleRun : public TrainingContext {
 public:
  void Stop(std::string reason) override { stopped = std::move(reason); }
  absl::StatusOr<NamedArrays> State() override { return NamedArrays(); }
  absl::StatusOr<NamedArrays> Weights() override { return NamedArrays(); }
  absl::Status SetWeights(const NamedArrays&) override { return absl::OkStatus(); }
  absl::StatusOr<double> LearningRate() override { return rate; }
  absl::Status SetLearningRate(double to) override {
    rate = to;
    return absl::OkStatus();
  }
  double rate = 1;
  std::string Progress() override { return "{}"; }
  absl::Status Resume(const NamedArrays&, absl::string_view) override { return absl::OkStatus(); }
  int64_t examples_per_step() const override { return 1; }
  int64_t steps_per_epoch() const override { return 1; }
  int epochs() const override { return 100; }

  std::string stopped;
};

// Reports the epochs' losses to `callback`, starting with `epoch`.
std::string Follow(Callback& callback, int epoch, const std::vector<double>& losses) {
  IdleRun run;
  for (const double loss : losses) {
    EXPECT_TRUE(callback.EpochEnd(run, {.epoch = epoch++}, {{"loss", loss}}).ok());
  }
  return run.stopped;
}

TEST(EarlyStoppingAgain, SecondTrainingStartsWithoutBestValue) {
  const auto callback = EarlyStopping({.monitor = "loss", .patience = 2});
  IdleRun run;
  ASSERT_TRUE(callback->TrainBegin(run).ok());
  EXPECT_THAT(Follow(*callback, 0, {0.1, 0.2, 0.3}), HasSubstr("not become better than 0.1"));
  ASSERT_TRUE(callback->TrainBegin(run).ok());
  EXPECT_EQ(Follow(*callback, 0, {0.9, 0.8, 0.7, 0.75}), "");
}

TEST(EarlyStoppingAgain, RestoresBestValueExactly) {
  // A value rounded to six digits would make the next epoch look worse, or better, than it is.
  const double best = 0.123456789012345;
  const auto before = EarlyStopping({.monitor = "loss", .patience = 1});
  EXPECT_EQ(Follow(*before, 0, {best}), "");
  const auto better = EarlyStopping({.monitor = "loss", .patience = 1});
  ASSERT_TRUE(better->Restore(before->Save()).ok());
  EXPECT_EQ(Follow(*better, 1, {best - 1e-12}), "");
  const auto worse = EarlyStopping({.monitor = "loss", .patience = 1});
  ASSERT_TRUE(worse->Restore(before->Save()).ok());
  EXPECT_NE(Follow(*worse, 1, {best + 1e-12}), "");
}

TEST(TerminateOnNanAgain, TrainsAgainAfterNan) {
  auto strategy = Strategy::Create(runtime::TestClient(1));
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  const nn::Symbol x = nn::Input({.shape = {2}, .name = "x"});
  auto trainer =
      Trainer::Create({.objective = {.network = nn::Network({x}, {nn::Dense({.units = 1})(x)}),
                                     .targets = {{.loss = nn::MeanSquaredError()}},
                                     .optimizer = nn::SGD({.learning_rate = 0.1})},
                       .strategy = *strategy});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto data = [](float first) {
    return data::Dataset::FromArrays({{"x", Array::Of<float>({4, 2}, {first, 0, 0, 1, 1, 1, 0, 0})},
                                      {"y", Array::Of<float>({4}, {1, 2, 3, 0})}})
        .Batch(4);
  };
  const FitOptions fit{.epochs = 50, .callbacks = {TerminateOnNan()}};
  const auto stopped = (*trainer)->Fit(data(std::numeric_limits<float>::infinity()), fit);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_THAT(stopped->stop_reason, HasSubstr("the input 'x' is not finite"));
  const auto history = (*trainer)->Fit(data(1), fit);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->stop_reason, "");
  ASSERT_EQ(history->epochs.size(), 50u);
  EXPECT_LT(*history->epochs.back().Get("loss"), *history->epochs.front().Get("loss") / 10);
}

}  // namespace refit_test
}  // namespace penstock::train
