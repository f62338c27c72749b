#include "penstock/train/callbacks/swap_ema_weights.h"

namespace penstock::train {
namespace {

class SwapEMAWeightsCallback : public Callback {
 public:
  explicit SwapEMAWeightsCallback(const SwapEMAWeightsOptions& options) : options_(options) {}
  bool ObservesBatchBegin() const override { return false; }
  std::string name() const override { return "SwapEMAWeights"; }

  absl::Status Check(const TrainingContext& context) const override {
    if (context.has_averages()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "SwapEMAWeights needs an optimizer that keeps moving averages; give it use_ema = true");
  }
  // Outside Fit, the variables are the averages already.
  absl::Status TestBegin(InferenceContext& context) override {
    if (context.training() == nullptr) return absl::OkStatus();
    return context.training()->UseAverages(true);
  }
  absl::Status TestEnd(InferenceContext& context, const Logs&) override {
    if (context.training() == nullptr) return absl::OkStatus();
    return context.training()->UseAverages(false);
  }
  absl::Status EpochEnd(TrainingContext& context, const Position&, const Logs&) override {
    return options_.swap_on_epoch ? context.UseAverages(true) : absl::OkStatus();
  }

 private:
  SwapEMAWeightsOptions options_;
};

}  // namespace

std::shared_ptr<Callback> SwapEMAWeights(const SwapEMAWeightsOptions& options) {
  return std::make_shared<SwapEMAWeightsCallback>(options);
}

}  // namespace penstock::train
