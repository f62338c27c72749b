// Keras: Fit, with one step per execution.
#include <algorithm>

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/models/models.h"
#include "penstock/nn/layers.h"
#include "penstock/runtime/client.h"
#include "penstock/train/trainer.h"

#include "bench/idioms/idioms.h"

namespace penstock::idioms {
namespace {

// One batch, again and again; reading it returns a view.
data::Dataset Repeated(const base::Array& x, const base::Array& y) {
  return data::Dataset::FromArrays({{"x", x.Reshape(x.shape().Prepend(1)).value()},
                                    {"y", y.Reshape(y.shape().Prepend(1)).value()}})
      .Repeat();
}

class KerasTraining : public Training {
 public:
  KerasTraining(std::unique_ptr<train::Trainer> trainer, data::Dataset batches)
      : trainer_(std::move(trainer)), batches_(std::move(batches)) {}

  // From the second epoch, which does not include the start of the training.
  absl::StatusOr<double> Run(int64_t steps) override {
    const int64_t half = std::max<int64_t>(1, steps / 2);
    PENSTOCK_ASSIGN_OR_RETURN(const train::History history,
                              trainer_->Fit(batches_, {.epochs = 2, .steps_per_epoch = half}));
    return history.stats.back().seconds * static_cast<double>(steps) / static_cast<double>(half);
  }

 private:
  std::unique_ptr<train::Trainer> trainer_;
  const data::Dataset batches_;
};

absl::StatusOr<std::unique_ptr<Training>> Make(const nn::Network& network, nn::Optimizer optimizer,
                                               data::Dataset batches) {
  PENSTOCK_RETURN_IF_ERROR(network.status());
  PENSTOCK_ASSIGN_OR_RETURN(auto client, runtime::OpenClient());
  PENSTOCK_ASSIGN_OR_RETURN(train::Strategy strategy,
                            train::Strategy::Create(std::move(client), {.replicas = 1}));
  PENSTOCK_ASSIGN_OR_RETURN(
      auto trainer,
      train::Trainer::Create({.objective = {.network = network,
                                            .targets = {{.loss = nn::SparseCategoricalCrossentropy(
                                                             {.from_logits = true})}},
                                            .optimizer = std::move(optimizer)},
                              .strategy = std::move(strategy),
                              .columns = {.inputs = {"x"}, .labels = {"y"}},
                              .steps_per_execution = 1}));
  return std::make_unique<KerasTraining>(std::move(trainer), std::move(batches));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Training>> KerasResNet20() {
  return Make(
      models::ResNetCifar({.depth = 20, .input_dtype = base::DType::kU8, .rescale = 1 / 255.0}),
      nn::SGD({.learning_rate = kLearningRate, .momentum = kMomentum}),
      Repeated(Images(), Labels()));
}

absl::StatusOr<std::unique_ptr<Training>> KerasIris() {
  const nn::Symbol x = nn::Input({.shape = {4}});
  const nn::Symbol hidden = nn::Dense({.units = 10, .activation = "sigmoid"})(x);
  return Make(nn::Network({x}, {nn::Dense({.units = 3})(hidden)}),
              nn::SGD({.learning_rate = kIrisLearningRate}), Repeated(Flowers(), FlowerClasses()));
}

}  // namespace penstock::idioms
