#include "penstock/data/engine/tuner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/available_memory.h"
#include "penstock/data/report.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

// Minimum length of an interval; it ends after some elements, or at the maximum.
constexpr double kMinIntervalSeconds = 0.1;
constexpr double kMaxIntervalSeconds = 2;
constexpr int64_t kMinIntervalElements = 8;
constexpr double kInputBoundStageShare = 0.1;  // share of the time
// A smaller effect is noise.
constexpr double kRateGain = 1.1;
constexpr double kWaitGain = 0.7;
// Fraction (1/n) of the budget that opportunistic memory leaves free.
constexpr int64_t kReserve = 16;
constexpr int64_t kMaxRejectedTrials = 6;
constexpr size_t kMaxDecisions = 1000;

std::string Print(const KnobOptions& options, int64_t value) {
  return options.bytes ? base::PrintBytes(value) : absl::StrCat(value);
}

}  // namespace

std::shared_ptr<const Knob> Tuner::Get(const std::string& stage, const StageCounters& counters,
                                       const MemoryAccount* memory, const KnobOptions& options) {
  for (const TunedKnob& tuned : knobs_) {
    if (tuned.counters == &counters && tuned.knob->options().what == options.what) {
      return tuned.knob;
    }
  }
  knobs_.push_back({.stage = stage,
                    .counters = &counters,
                    .memory = memory,
                    .knob = std::make_shared<Knob>(options)});
  return knobs_.back().knob;
}

void Tuner::Tick(const Moment& moment) {
  if (!began_) {
    began_ = true;
    first_ = moment.now;
    return Begin(moment);
  }
  const double seconds = moment.now - begin_.now;
  if (seconds < kMinIntervalSeconds) return;
  if (moment.elements - begin_.elements < kMinIntervalElements && seconds < kMaxIntervalSeconds)
    return;
  const Interval interval = Measure(moment);
  Begin(moment);
  Decide(interval);
}

void Tuner::Begin(const Moment& moment) {
  begin_ = moment;
  for (TunedKnob& tuned : knobs_) {
    tuned.wait_input_ns = tuned.counters->wait_input_ns;
    tuned.full = tuned.counters->full;
  }
}

Tuner::Interval Tuner::Measure(const Moment& moment) {
  const double seconds = moment.now - begin_.now;
  for (TunedKnob& tuned : knobs_) {
    tuned.waited = (tuned.counters->wait_input_ns - tuned.wait_input_ns) * 1e-9 / seconds;
    tuned.was_full = tuned.counters->full > tuned.full;
  }
  return {.seconds = seconds,
          .waited = (moment.reader_wait_seconds - begin_.reader_wait_seconds) / seconds,
          .rate = static_cast<double>(moment.elements - begin_.elements) / seconds};
}

void Tuner::Decide(const Interval& interval) {
  for (TunedKnob& tuned : knobs_) tuned.cooldown = std::max<int64_t>(tuned.cooldown - 1, 0);
  if (!budget_->CanReadAhead(budget_->bytes() / kReserve) && Shrink()) return;
  if (trial_.has_value()) return Judge(interval);
  if (interval.waited > kInputBoundShare) Raise(interval);
}

bool Tuner::Shrink() {
  TunedKnob* largest = nullptr;
  for (TunedKnob& tuned : knobs_) {
    if (tuned.knob->value() == tuned.knob->options().min) continue;
    if (tuned.memory->charged() == 0) continue;
    if (largest == nullptr || tuned.memory->charged() > largest->memory->charged())
      largest = &tuned;
  }
  if (largest == nullptr) return false;
  trial_.reset();
  largest->cooldown = int64_t{1} << kMaxRejectedTrials;
  Set(*largest, std::max(largest->knob->value() / 2, largest->knob->options().min),
      absl::StrCat(base::PrintBytes(budget_->charged()), " of ", base::PrintBytes(budget_->bytes()),
                   " are used, ", base::PrintBytes(largest->memory->charged()), " of it here"));
  return true;
}

void Tuner::Judge(const Interval& interval) {
  if (!trial_->warmed_up) {
    trial_->warmed_up = true;
    return;
  }
  const Trial trial = *std::exchange(trial_, std::nullopt);
  TunedKnob& tuned = *trial.tuned;
  if (interval.rate >= kRateGain * trial.before.rate ||
      interval.waited <= kWaitGain * trial.before.waited) {
    tuned.rejected_trials = 0;
    return;
  }
  tuned.rejected_trials = std::min(tuned.rejected_trials + 1, kMaxRejectedTrials);
  tuned.cooldown = int64_t{1} << tuned.rejected_trials;
  Set(tuned, trial.from,
      absl::StrFormat("more did not help (%.4g elements/s, %.4g before)", interval.rate,
                      trial.before.rate));
}

void Tuner::Raise(const Interval& interval) {
  TunedKnob* limits = nullptr;
  for (TunedKnob& tuned : knobs_) {
    const KnobOptions& options = tuned.knob->options();
    if (tuned.cooldown > 0 || tuned.knob->value() >= options.max) continue;
    const bool shows = tuned.waited > kInputBoundStageShare &&
                       (tuned.was_full || options.evidence != KnobOptions::kQueueFull);
    // Twice the limit may hold twice as much memory.
    if (!shows || !budget_->CanReadAhead(tuned.memory->charged())) continue;
    if (limits == nullptr || tuned.waited > limits->waited) limits = &tuned;
  }
  if (limits == nullptr) return;
  const KnobOptions& options = limits->knob->options();
  const int64_t from = limits->knob->value();
  trial_ = Trial{.tuned = limits, .from = from, .before = interval};
  Set(*limits, std::min(2 * from, options.max),
      absl::StrCat(
          "the reader waited ", Percent(interval.waited), " of the time, and ",
          options.evidence == KnobOptions::kQueueFull
              ? "the queue of this stage had been full"
              : absl::StrCat("this stage waited for its input ", Percent(limits->waited))));
}

void Tuner::Set(TunedKnob& tuned, int64_t value, const std::string& why) {
  const KnobOptions& options = tuned.knob->options();
  std::string decision = absl::StrFormat("%.1f s: %s: %s -> %s %s, because %s", begin_.now - first_,
                                         tuned.stage, Print(options, tuned.knob->value()),
                                         Print(options, value), options.what, why);
  tuned.knob->value_.store(value, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  decisions_.push_back(std::move(decision));
  if (decisions_.size() > kMaxDecisions) decisions_.pop_front();
}

std::vector<std::string> Tuner::Decisions() const {
  std::lock_guard lock(mutex_);
  return {decisions_.begin(), decisions_.end()};
}

}  // namespace penstock::data
