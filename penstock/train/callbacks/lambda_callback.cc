#include "penstock/train/callbacks/lambda_callback.h"

namespace penstock::train {
namespace {

class LambdaCallbackBody : public Callback {
 public:
  explicit LambdaCallbackBody(LambdaCallbackOptions functions) : on_(std::move(functions)) {}
  std::string name() const override { return "LambdaCallback"; }

  absl::Status TrainBegin(TrainingContext& context) override {
    return Call(on_.on_train_begin, context);
  }
  absl::Status EpochBegin(TrainingContext& context, const Position& at) override {
    return Call(on_.on_epoch_begin, context, at);
  }
  absl::Status BatchBegin(TrainingContext& context, const Position& at) override {
    return Call(on_.on_train_batch_begin, context, at);
  }
  absl::Status BatchEnd(TrainingContext& context, const Position& at, const Logs& logs) override {
    return Call(on_.on_train_batch_end, context, at, logs);
  }
  absl::Status EpochEnd(TrainingContext& context, const Position& at, const Logs& logs) override {
    return Call(on_.on_epoch_end, context, at, logs);
  }
  absl::Status TrainEnd(TrainingContext& context) override {
    return Call(on_.on_train_end, context);
  }

  absl::Status TestBegin(InferenceContext& context) override {
    return Call(on_.on_test_begin, context);
  }
  absl::Status TestBatchBegin(InferenceContext& context, int64_t batch) override {
    return Call(on_.on_test_batch_begin, context, batch);
  }
  absl::Status TestBatchEnd(InferenceContext& context, int64_t batch, const Logs& logs) override {
    return Call(on_.on_test_batch_end, context, batch, logs);
  }
  absl::Status TestEnd(InferenceContext& context, const Logs& logs) override {
    return Call(on_.on_test_end, context, logs);
  }

  absl::Status PredictBegin(InferenceContext& context) override {
    return Call(on_.on_predict_begin, context);
  }
  absl::Status PredictBatchBegin(InferenceContext& context, int64_t batch) override {
    return Call(on_.on_predict_batch_begin, context, batch);
  }
  absl::Status PredictBatchEnd(InferenceContext& context, int64_t batch,
                               absl::Span<const base::Array> outputs) override {
    return Call(on_.on_predict_batch_end, context, batch, outputs);
  }
  absl::Status PredictEnd(InferenceContext& context) override {
    return Call(on_.on_predict_end, context);
  }

 private:
  template <typename Function, typename... Arguments>
  static absl::Status Call(const Function& function, Arguments&&... arguments) {
    return function == nullptr ? absl::OkStatus() : function(arguments...);
  }
  LambdaCallbackOptions on_;
};

}  // namespace

std::shared_ptr<Callback> LambdaCallback(const LambdaCallbackOptions& options) {
  return std::make_shared<LambdaCallbackBody>(options);
}

}  // namespace penstock::train
