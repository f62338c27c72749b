#include "penstock/train/callbacks/early_stopping.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/train/callbacks/monitored.h"
#include "penstock/train/callbacks/option_checks.h"

namespace penstock::train {
namespace {

class EarlyStoppingCallback : public Callback {
 public:
  explicit EarlyStoppingCallback(const EarlyStoppingOptions& options)
      : options_(options), monitored_(options.monitor, options.mode), best_(monitored_.Worst()) {}

  bool ObservesBatchBegin() const override { return false; }
  absl::Status Check(const TrainingContext& context) const override {
    PENSTOCK_RETURN_IF_ERROR(CheckNotNegative(kWho, "patience", options_.patience));
    PENSTOCK_RETURN_IF_ERROR(CheckNotNegative(kWho, "start_from_epoch", options_.start_from_epoch));
    PENSTOCK_RETURN_IF_ERROR(CheckFinite(kWho, "min_delta", options_.min_delta));
    return Monitored::Resolve(context, kWho, options_.monitor, options_.mode).status();
  }

  // Each training is judged by itself. A checkpoint that is resumed comes after this.
  absl::Status TrainBegin(TrainingContext& context) override {
    PENSTOCK_ASSIGN_OR_RETURN(monitored_,
                              Monitored::Begin(context, kWho, options_.monitor, options_.mode));
    best_ = monitored_.Worst();
    best_epoch_ = -1;
    waited_ = 0;
    best_weights_ = base::NamedArrays();
    return absl::OkStatus();
  }

  absl::Status EpochEnd(TrainingContext& context, const Position& position,
                        const Logs& logs) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::optional<double> value,
                              monitored_.Value(logs, position.epoch));
    if (!value.has_value() || position.epoch < options_.start_from_epoch) return absl::OkStatus();
    if (monitored_.Better(*value, best_, options_.min_delta)) {
      best_ = *value;
      best_epoch_ = position.epoch;
      waited_ = 0;
      if (options_.restore_best_weights) {
        PENSTOCK_ASSIGN_OR_RETURN(best_weights_, context.Weights());
      }
      return absl::OkStatus();
    }
    if (options_.restore_best_weights && best_weights_.empty()) {  // as Keras: the first counts
      PENSTOCK_ASSIGN_OR_RETURN(best_weights_, context.Weights());
    }
    // Keras's rule: the first epoch that is not better ends a patience of 0 and of 1 alike.
    if (++waited_ < options_.patience || position.epoch == 0) return absl::OkStatus();
    const std::string what = best_epoch_ < 0
                                 ? absl::StrCat(options_.monitor, " has not been a finite number")
                                 : absl::StrCat(options_.monitor, " has not become better than ",
                                                best_, " (epoch ", best_epoch_ + 1, ")");
    context.Stop(absl::StrCat(what, " for ", waited_, waited_ == 1 ? " epoch" : " epochs"));
    return absl::OkStatus();
  }

  absl::Status TrainEnd(TrainingContext& context) override {
    if (best_weights_.empty()) return absl::OkStatus();
    return context.SetWeights(best_weights_);
  }

  std::string state_name() const override {
    return absl::StrCat("EarlyStopping(", options_.monitor, ")");
  }
  base::NamedArrays SaveArrays() const override { return best_weights_; }
  absl::Status RestoreArrays(const base::NamedArrays& arrays) override {
    if (options_.restore_best_weights) best_weights_ = arrays;
    return absl::OkStatus();
  }
  std::string Save() const override {
    return nlohmann::ordered_json{
        {"best", absl::StrFormat("%.17g", best_)}, {"best_epoch", best_epoch_}, {"waited", waited_}}
        .dump();
  }
  absl::Status Restore(absl::string_view saved) override {
    const auto json = nlohmann::ordered_json::parse(saved.begin(), saved.end(), nullptr, false);
    if (!json.is_object() || !json.contains("best") || !json.contains("best_epoch") ||
        !json.contains("waited")) {
      return absl::DataLossError("the checkpoint does not hold what EarlyStopping saved");
    }
    best_ = std::strtod(json["best"].get<std::string>().c_str(), nullptr);
    best_epoch_ = json["best_epoch"];
    waited_ = json["waited"];
    if (options_.restore_best_weights && best_weights_.empty()) {
      // The earlier run did not save them: restart the search for the best epoch.
      best_ = monitored_.Worst();
      best_epoch_ = -1;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr absl::string_view kWho = "EarlyStopping";

  EarlyStoppingOptions options_;
  Monitored monitored_;
  double best_;
  int best_epoch_ = -1;
  int waited_ = 0;
  base::NamedArrays best_weights_;
};

}  // namespace

std::shared_ptr<Callback> EarlyStopping(const EarlyStoppingOptions& options) {
  return std::make_shared<EarlyStoppingCallback>(options);
}

}  // namespace penstock::train
