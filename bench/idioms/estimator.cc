// tf.estimator: a model_fn, an input_fn, Train.
#include "penstock/estimator/estimator.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/session/losses.h"

#include "bench/idioms/idioms.h"
#include "bench/idioms/tf1_resnet.h"

namespace penstock::idioms {
namespace {

namespace tf = penstock::session;

estimator::EstimatorSpec ModelFn(const estimator::NamedTensors& features,
                                 const estimator::NamedTensors& labels, estimator::ModeKeys mode) {
  const tf::Tensor loss = tf::losses::SparseSoftmaxCrossEntropy(labels, Tf1ResNet20(features["x"]));
  return {.mode = mode, .loss = loss, .train_op = Tf1TrainOp(loss, tf::GetGlobalStep())};
}

// Time from the end of the first step, which compiles, to the end of the last one.
class Steps : public estimator::SessionRunHook {
 public:
  absl::Status AfterRun(estimator::RunContext&, const estimator::RunValues&) override {
    const double now = base::Clock::Real()->Seconds();
    if (steps_++ == 0) began_ = now;
    seconds_ = now - began_;
    return absl::OkStatus();
  }
  double seconds() const { return seconds_; }

 private:
  int64_t steps_ = 0;
  double began_ = 0, seconds_ = 0;
};

estimator::EstimatorOptions OptionsOf(const std::string& folder) {
  estimator::EstimatorOptions options;
  options.model_fn = ModelFn;
  options.model_dir = folder;
  options.config.save_summary_steps = 0;
  options.config.save_checkpoints_steps = 0;
  options.config.log_step_count_steps = 0;
  options.config.log = nullptr;
  return options;
}

class EstimatorTraining : public Training {
 public:
  EstimatorTraining() = default;
  ~EstimatorTraining() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<double> Run(int64_t steps) override {
    const base::Array x = Images(), y = Labels();
    const auto batches =
        data::Dataset::FromArrays({{"x", x.Reshape(x.shape().Prepend(1)).value()},
                                   {"label", y.Reshape(y.shape().Prepend(1)).value()}})
            .Repeat();
    const auto timed = std::make_shared<Steps>();
    PENSTOCK_RETURN_IF_ERROR(estimator_.Train(batches, {.hooks = {timed}, .steps = steps + 1}));
    return timed->seconds();
  }

 private:
  const std::string folder_ =
      (std::filesystem::temp_directory_path() / absl::StrCat("bench_estimator.", getpid()))
          .string();
  estimator::Estimator estimator_{OptionsOf(folder_)};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Training>> EstimatorResNet20() {
  return std::make_unique<EstimatorTraining>();
}

}  // namespace penstock::idioms
