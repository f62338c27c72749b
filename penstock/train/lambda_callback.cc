#include "penstock/train/callbacks.h"

namespace penstock::train {
namespace {

class LambdaCallbackBody : public Callback {
 public:
  explicit LambdaCallbackBody(LambdaCallbackOptions functions) : on_(std::move(functions)) {}
  std::string name() const override { return "LambdaCallback"; }
  absl::Status TrainBegin(Run& run) override { return Call(on_.on_train_begin, run); }
  absl::Status EpochBegin(Run& run, const Position& at) override {
    return Call(on_.on_epoch_begin, run, at);
  }
  absl::Status BatchEnd(Run& run, const Position& at, const Logs& logs) override {
    return Call(on_.on_train_batch_end, run, at, logs);
  }
  absl::Status EpochEnd(Run& run, const Position& at, const Logs& logs) override {
    return Call(on_.on_epoch_end, run, at, logs);
  }
  absl::Status TrainEnd(Run& run) override { return Call(on_.on_train_end, run); }

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
