// Monitored: a number that a callback monitors, and its better direction. Internal to rooms train
// and keras.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/train/callback.h"

namespace penstock::train {

class Monitored {
 public:
  // A direction without looking it up: kAuto minimizes.
  explicit Monitored(absl::string_view name, Mode mode)
      : name_(name), sign_(mode == Mode::kMax ? 1 : -1) {}

  // Looks up what is known about the name. Errors: it is not measured; `mode` is kAuto and the
  // metric has no direction. `who` is the callback, for errors.
  static absl::StatusOr<Monitored> Resolve(const TrainingContext& context, absl::string_view who,
                                           absl::string_view name, Mode mode) {
    const absl::StatusOr<MonitorInfo> measure = context.FindMonitor(name);
    if (!measure.ok()) return base::WithContext(measure.status(), who);
    if (mode == Mode::kAuto) mode = measure->better;
    if (mode == Mode::kAuto) {
      return absl::InvalidArgumentError(
          absl::StrCat(who, " monitors '", name,
                       "', which does not say whether more or less of it is better; set mode to "
                       "Mode::kMax or Mode::kMin"));
    }
    Monitored monitored(name, mode);
    monitored.every_epochs_ = measure->every_epochs;
    return monitored;
  }

  // Resolve for TrainBegin: also warns if the number is not measured in every epoch.
  static absl::StatusOr<Monitored> Begin(TrainingContext& context, absl::string_view who,
                                         absl::string_view name, Mode mode) {
    absl::StatusOr<Monitored> monitored = Resolve(context, who, name, mode);
    if (monitored.ok() && monitored->every_epochs_ > 1) {
      context.Warn(
          absl::StrCat(who, ": '", name, "' is measured only every ", monitored->every_epochs_,
                       " epochs (validation_freq); the epochs in between are skipped, and ",
                       "count neither as better nor as worse"));
    }
    return monitored;
  }

  // Its value in the epoch that has just ended; no value in an epoch without validation.
  absl::StatusOr<std::optional<double>> Value(const Logs& logs, int epoch) const {
    if (const double* value = logs.Find(name_)) return *value;
    if (every_epochs_ > 1 && (epoch + 1) % every_epochs_ != 0) return std::nullopt;
    return logs.Get(name_).status();
  }

  // Greater is better.
  double Score(double value) const { return sign_ * value; }
  // NaN is never better.
  bool Better(double value, double than, double min_delta = 0) const {
    return Score(value) - std::abs(min_delta) > Score(than);
  }
  double Worst() const { return -sign_ * std::numeric_limits<double>::infinity(); }

 private:
  std::string name_;
  double sign_;
  int every_epochs_ = 1;
};

}  // namespace penstock::train
