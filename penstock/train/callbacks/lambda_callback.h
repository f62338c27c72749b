// A callback made of functions.
//
//   keras::LambdaCallback({.on_train_begin = [](keras::TrainingContext&) {
//     std::puts("begins");
//     return absl::OkStatus();
//   }});
#pragma once

#include <functional>
#include <memory>

#include "penstock/base/array.h"
#include "penstock/train/callback.h"

namespace penstock::train {

// A callback made of functions, with Keras's names; those that are null do nothing.
struct LambdaCallbackOptions {
  using TrainFunction = std::function<absl::Status(TrainingContext&)>;
  using InferenceFunction = std::function<absl::Status(InferenceContext&)>;
  using InferenceBatchFunction = std::function<absl::Status(InferenceContext&, int64_t batch)>;

  TrainFunction on_train_begin = nullptr;
  std::function<absl::Status(TrainingContext&, const Position&)> on_epoch_begin = nullptr;
  std::function<absl::Status(TrainingContext&, const Position&)> on_train_batch_begin = nullptr;
  std::function<absl::Status(TrainingContext&, const Position&, const Logs&)> on_train_batch_end =
      nullptr;
  std::function<absl::Status(TrainingContext&, const Position&, const Logs&)> on_epoch_end =
      nullptr;
  TrainFunction on_train_end = nullptr;

  InferenceFunction on_test_begin = nullptr;
  InferenceBatchFunction on_test_batch_begin = nullptr;
  std::function<absl::Status(InferenceContext&, int64_t batch, const Logs&)> on_test_batch_end =
      nullptr;
  std::function<absl::Status(InferenceContext&, const Logs&)> on_test_end = nullptr;

  InferenceFunction on_predict_begin = nullptr;
  InferenceBatchFunction on_predict_batch_begin = nullptr;
  std::function<absl::Status(InferenceContext&, int64_t batch,
                             absl::Span<const base::Array> outputs)>
      on_predict_batch_end = nullptr;
  InferenceFunction on_predict_end = nullptr;
};
std::shared_ptr<Callback> LambdaCallback(const LambdaCallbackOptions& options);

}  // namespace penstock::train
