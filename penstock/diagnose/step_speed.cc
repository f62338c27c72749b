#include "penstock/diagnose/step_speed.h"

#include <memory>
#include <utility>

#include "penstock/base/status.h"

namespace penstock::diagnose {
namespace {

class Stopwatch : public train::Callback {
 public:
  Stopwatch(const StepSpeedOptions& options, StepSpeed& speed) : options_(options), speed_(speed) {}

  // Discards the measurement: steps before and during a compilation are not representative.
  void Compiling(absl::string_view, bool) override {
    seen_ = 0;
    speed_ = {};
  }
  absl::Status BatchEnd(train::TrainingContext& run, const train::Position& position,
                        const train::Logs&) override {
    const double now = options_.clock->Seconds();
    if (++seen_ <= kWarmUp) {
      began_ = now;
      first_ = position.total_steps;
      return absl::OkStatus();
    }
    speed_.steps = position.total_steps - first_;
    speed_.seconds = now - began_;
    if (speed_.seconds > 0) {
      speed_.examples_per_second = static_cast<double>(speed_.steps) *
                                   static_cast<double>(run.examples_per_step()) / speed_.seconds;
    }
    if (speed_.seconds >= options_.seconds ||
        (options_.steps > 0 && speed_.steps >= options_.steps))
      run.Stop("measured");
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kWarmUp = 4;  // executions; more than the in-flight limit

  const StepSpeedOptions& options_;
  StepSpeed& speed_;
  int64_t seen_ = 0;
  int64_t first_ = 0;  // number of steps before the measured ones
  double began_ = 0;
};

}  // namespace

absl::StatusOr<StepSpeed> MeasureSteps(keras::Model& model, const data::Dataset& dataset,
                                       const StepSpeedOptions& options) {
  constexpr int64_t kEndless = int64_t{1} << 40;
  StepSpeed speed;
  PENSTOCK_ASSIGN_OR_RETURN(
      const train::History history,
      model.Fit(dataset.Repeat(), {.epochs = 1,
                                   .verbose = 0,
                                   .callbacks = {std::make_shared<Stopwatch>(options, speed)},
                                   .steps_per_epoch = kEndless}));
  if (speed.steps == 0) return absl::InvalidArgumentError(history.stop_reason);
  return speed;
}

absl::StatusOr<data::Dataset> FirstBatchInMemory(const data::Dataset& dataset) {
  base::NamedArrays batch, rows;
  {
    PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator({.seed = 0}));
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&batch));
    if (!more) return absl::InvalidArgumentError("the data is empty");
  }
  // The dataset has one row, which is the batch, so that reading it returns a view.
  for (const auto& [name, array] : batch) {
    PENSTOCK_ASSIGN_OR_RETURN(base::Array row, array.Reshape(array.shape().Prepend(1)));
    rows.Set(name, std::move(row));
  }
  return data::Dataset::FromArrays(std::move(rows));
}

}  // namespace penstock::diagnose
