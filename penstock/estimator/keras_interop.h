// Keras models as estimators and on TPUs, under the names of tf.keras.estimator and
// tf.contrib.tpu in TensorFlow 1.15.
//
//   // keras.estimator.model_to_estimator:
//   PENSTOCK_ASSIGN_OR_RETURN(auto estimator, keras::ModelToEstimator(model, "run7"));
//   PENSTOCK_RETURN_IF_ERROR(estimator->Train(TrainInput, {.steps = 1000}));
//
//   // tf.contrib.tpu.keras_to_tpu_model:
//   keras::TPUDistributionStrategy strategy(session::tpu::TPUClusterResolver("tpu"));
//   PENSTOCK_ASSIGN_OR_RETURN(keras::TPUModel tpu_model,
//                             keras::KerasToTpuModel(std::move(model), strategy));
//   PENSTOCK_RETURN_IF_ERROR(tpu_model.Fit(train_set, {.epochs = 5}).status());
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/estimator/estimator.h"
#include "penstock/keras/keras.h"
#include "penstock/session/tpu.h"

namespace penstock::keras {

// An estimator that trains the model's network with its loss, metrics and optimizer, beginning with
// its weights; the model itself does not change. The model must be compiled, without a custom step
// and without batch augmentation, and no output may have a mask (Embedding with mask_zero). The first element of a fresh training equals Fit's: the numbers
// are those of Fit with the same batches, for a network without random operations.
//
// Features: the only one, or those named like the network's inputs. Labels (input_fn.h): the only
// one, or those named like the outputs, or in their order. Predictions: the outputs by their names.
// Metrics: the model's, under the names of Evaluate's logs, and "loss".
absl::StatusOr<std::unique_ptr<estimator::Estimator>> ModelToEstimator(
    const Model& keras_model, const std::string& model_dir = "",
    const estimator::RunConfig& config = {});

struct TPUDistributionStrategyOptions {
  // Number of replicas; 0: all devices of the address.
  int num_replicas = 0;
  // Number of CPU devices to make where the address is the CPU.
  int cpu_devices = 1;
  // The devices; default: those of the address.
  std::shared_ptr<runtime::Client> client = nullptr;
};

// The devices that a keras::TPUModel trains on (tf.contrib.tpu.TPUDistributionStrategy): each batch
// is divided among replicas.
class TPUDistributionStrategy {
 public:
  // `using_single_core`: one replica, whatever the number of devices.
  explicit TPUDistributionStrategy(
      session::tpu::TPUClusterResolver tpu_cluster_resolver = session::tpu::TPUClusterResolver(),
      bool using_single_core = false, TPUDistributionStrategyOptions options = {});

  // Opens the devices, once.
  absl::StatusOr<std::shared_ptr<runtime::Client>> client() const;
  // Number of replicas of a model.
  absl::StatusOr<int> num_replicas() const;

 private:
  session::tpu::TPUClusterResolver resolver_;
  TPUDistributionStrategyOptions options_;
  struct Opened;
  std::shared_ptr<Opened> opened_;  // shared by copies
};

// A model that trains on a strategy's devices (tf.contrib.tpu.KerasTPUModel). Fit, Evaluate and
// Predict are those of Model with `replicas`, so the numbers are the same.
class TPUModel : public Model {
 public:
  // Compile with the strategy's devices in place of options.client and options.replicas.
  absl::Status Compile(CompileOptions options);

 private:
  friend absl::StatusOr<TPUModel> KerasToTpuModel(Model model,
                                                  const TPUDistributionStrategy& strategy);
  TPUModel(Model model, TPUDistributionStrategy strategy)
      : Model(std::move(model)), strategy_(std::move(strategy)) {}

  TPUDistributionStrategy strategy_;
};

// Moves a model to the strategy's devices. A compiled model keeps its weights and compile
// arguments; the optimizer's state is reset, as in TensorFlow. Another one is compiled afterwards.
absl::StatusOr<TPUModel> KerasToTpuModel(
    Model model, const TPUDistributionStrategy& strategy = TPUDistributionStrategy());

}  // namespace penstock::keras
