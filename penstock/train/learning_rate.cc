// Callbacks that set the learning rate.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/train/callbacks.h"
#include "penstock/train/monitored.h"

namespace penstock::train {
namespace {

class LearningRateSchedulerCallback : public Callback {
 public:
  explicit LearningRateSchedulerCallback(EpochSchedule schedule) : schedule_(std::move(schedule)) {}

  absl::Status EpochBegin(Run& run, const Position& position) override {
    // Resumed within the epoch: its rate came with the state.
    if (position.step > 0) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(const double rate, run.LearningRate());
    return run.SetLearningRate(schedule_(position.epoch, rate));
  }

 private:
  EpochSchedule schedule_;
};

class ReduceLROnPlateauCallback : public Callback {
 public:
  explicit ReduceLROnPlateauCallback(const ReduceLROnPlateauOptions& options)
      : options_(options), monitored_(options.monitor, options.mode), best_(monitored_.Worst()) {}

  absl::Status TrainBegin(Run&) override {
    if (!(options_.factor < 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("ReduceLROnPlateau's factor must be below 1, else nothing is reduced; got ",
                       options_.factor));
    }
    best_ = monitored_.Worst();
    waited_ = cooldown_ = 0;
    return absl::OkStatus();
  }

  absl::Status EpochEnd(Run& run, const Position&, const Logs& logs) override {
    PENSTOCK_ASSIGN_OR_RETURN(const double value, logs.Get(options_.monitor));
    if (cooldown_ > 0) {
      --cooldown_;
      waited_ = 0;
    }
    if (monitored_.Better(value, best_, options_.min_delta)) {
      best_ = value;
      waited_ = 0;
      return absl::OkStatus();
    }
    if (cooldown_ > 0 || ++waited_ < options_.patience) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(const double rate, run.LearningRate());
    if (rate <= options_.min_lr) return absl::OkStatus();
    cooldown_ = options_.cooldown;
    waited_ = 0;
    return run.SetLearningRate(std::max(rate * options_.factor, options_.min_lr));
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
