#include "penstock/train/callbacks/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/train/callbacks/monitored.h"
#include "penstock/train/callbacks/option_checks.h"

namespace penstock::train {
namespace {

absl::Status CheckRateCanBeSet(const TrainingContext& context, absl::string_view who) {
  if (context.learning_rate_is_constant()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(who, " cannot set the learning rate, which is a schedule's: give the optimizer ",
                   "a constant one, or remove the callback"));
}

class LearningRateSchedulerCallback : public Callback {
 public:
  explicit LearningRateSchedulerCallback(EpochSchedule schedule) : schedule_(std::move(schedule)) {}

  absl::Status Check(const TrainingContext& context) const override {
    if (schedule_ == nullptr)
      return absl::InvalidArgumentError("LearningRateScheduler has no schedule");
    return CheckRateCanBeSet(context, "LearningRateScheduler");
  }

  absl::Status TrainBegin(TrainingContext&) override {
    begun_ = -1;
    return absl::OkStatus();
  }

  absl::Status EpochBegin(TrainingContext& context, const Position& position) override {
    // Resumed in the epoch: the state contains its rate.
    if (position.step > 0 || position.epoch == begun_) return absl::OkStatus();
    begun_ = position.epoch;
    PENSTOCK_ASSIGN_OR_RETURN(const double rate, context.LearningRate());
    return base::WithContext(
        context.SetLearningRate(schedule_(position.epoch, rate)),
        absl::StrCat("LearningRateScheduler, epoch ", position.epoch, " (from 0)"));
  }

  std::string Save() const override {
    return begun_ < 0 ? "" : nlohmann::ordered_json{{"epoch", begun_}}.dump();
  }
  absl::Status Restore(absl::string_view saved) override {
    const auto json = nlohmann::ordered_json::parse(saved.begin(), saved.end(), nullptr, false);
    if (!json.is_object() || !json.contains("epoch") || !json["epoch"].is_number_integer()) {
      return absl::DataLossError("the checkpoint does not hold what LearningRateScheduler saved");
    }
    begun_ = json["epoch"];
    return absl::OkStatus();
  }

 private:
  EpochSchedule schedule_;
  int begun_ = -1;  // the last epoch whose rate was set
};

class ReduceLROnPlateauCallback : public Callback {
 public:
  explicit ReduceLROnPlateauCallback(const ReduceLROnPlateauOptions& options)
      : options_(options), monitored_(options.monitor, options.mode), best_(monitored_.Worst()) {}

  absl::Status Check(const TrainingContext& context) const override {
    if (!(options_.factor > 0 && options_.factor < 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kWho, "'s factor must be above 0 and below 1, got ", options_.factor));
    }
    PENSTOCK_RETURN_IF_ERROR(CheckNotNegative(kWho, "patience", options_.patience));
    PENSTOCK_RETURN_IF_ERROR(CheckNotNegative(kWho, "cooldown", options_.cooldown));
    PENSTOCK_RETURN_IF_ERROR(CheckFinite(kWho, "min_delta", options_.min_delta));
    if (!(options_.min_lr >= 0) || !std::isfinite(options_.min_lr)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kWho, "'s min_lr must be finite and not negative, got ", options_.min_lr));
    }
    PENSTOCK_RETURN_IF_ERROR(CheckRateCanBeSet(context, kWho));
    return Monitored::Resolve(context, kWho, options_.monitor, options_.mode).status();
  }

  absl::Status TrainBegin(TrainingContext& context) override {
    PENSTOCK_ASSIGN_OR_RETURN(monitored_,
                              Monitored::Begin(context, kWho, options_.monitor, options_.mode));
    best_ = monitored_.Worst();
    waited_ = cooldown_ = 0;
    return absl::OkStatus();
  }

  absl::Status EpochEnd(TrainingContext& context, const Position& position,
                        const Logs& logs) override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::optional<double> value,
                              monitored_.Value(logs, position.epoch));
    if (!value.has_value()) return absl::OkStatus();
    if (cooldown_ > 0) {
      --cooldown_;
      waited_ = 0;
    }
    if (monitored_.Better(*value, best_, options_.min_delta)) {
      best_ = *value;
      waited_ = 0;
      return absl::OkStatus();
    }
    if (cooldown_ > 0 || ++waited_ < options_.patience) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(const double rate, context.LearningRate());
    if (rate <= options_.min_lr) return absl::OkStatus();
    cooldown_ = options_.cooldown;
    waited_ = 0;
    return context.SetLearningRate(std::max(rate * options_.factor, options_.min_lr));
  }

  std::string state_name() const override {
    return absl::StrCat("ReduceLROnPlateau(", options_.monitor, ")");
  }
  std::string Save() const override {
    return nlohmann::ordered_json{
        {"best", absl::StrFormat("%.17g", best_)}, {"waited", waited_}, {"cooldown", cooldown_}}
        .dump();
  }
  absl::Status Restore(absl::string_view saved) override {
    const auto json = nlohmann::ordered_json::parse(saved.begin(), saved.end(), nullptr, false);
    if (!json.is_object() || !json.contains("best") || !json.contains("waited") ||
        !json.contains("cooldown")) {
      return absl::DataLossError("the checkpoint does not hold what ReduceLROnPlateau saved");
    }
    best_ = std::strtod(json["best"].get<std::string>().c_str(), nullptr);
    waited_ = json["waited"];
    cooldown_ = json["cooldown"];
    return absl::OkStatus();
  }

 private:
  static constexpr absl::string_view kWho = "ReduceLROnPlateau";

  ReduceLROnPlateauOptions options_;
  Monitored monitored_;
  double best_;
  int waited_ = 0;
  int cooldown_ = 0;
};

}  // namespace

std::shared_ptr<Callback> LearningRateScheduler(EpochSchedule schedule) {
  return std::make_shared<LearningRateSchedulerCallback>(std::move(schedule));
}
std::shared_ptr<Callback> ReduceLROnPlateau(const ReduceLROnPlateauOptions& options) {
  return std::make_shared<ReduceLROnPlateauCallback>(options);
}

}  // namespace penstock::train
