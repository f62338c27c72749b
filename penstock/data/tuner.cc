#include "penstock/data/tuner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/available_memory.h"
#include "penstock/data/report.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

// An interval has some elements, or is long.
constexpr double kLeastSeconds = 0.1;
constexpr double kMostSeconds = 2;
constexpr int64_t kLeastElements = 8;
constexpr double kStageWaits = 0.1;  // a share of the time
// A change that does less is noise.
constexpr double kRateGain = 1.1;
constexpr double kWaitGain = 0.7;
// Of the budget, kept free of what is only held to work ahead.
constexpr int64_t kReserve = 16;
constexpr int64_t kMostNaps = 6;
constexpr size_t kMostDecisions = 1000;

std::string Print(const KnobOptions& options, int64_t value) {
  return options.bytes ? base::PrintBytes(value) : absl::StrCat(value);
}

}  // namespace

std::shared_ptr<const Knob> Tuner::Get(const std::string& stage, const StageCounters& counters,
                                       const MemoryAccount* memory, const KnobOptions& options) {
  for (const Turned& turned : knobs_) {
    if (turned.counters == &counters && turned.knob->options().what == options.what) {
      return turned.knob;
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
  if (seconds < kLeastSeconds) return;
  if (moment.elements - begin_.elements < kLeastElements && seconds < kMostSeconds) return;
  const Interval interval = Measure(moment);
  Begin(moment);
  Decide(interval);
}

void Tuner::Begin(const Moment& moment) {
  begin_ = moment;
  for (Turned& turned : knobs_) {
    turned.wait_input_ns = turned.counters->wait_input_ns;
    turned.full = turned.counters->full;
  }
}

Tuner::Interval Tuner::Measure(const Moment& moment) {
  const double seconds = moment.now - begin_.now;
  for (Turned& turned : knobs_) {
    turned.waited = (turned.counters->wait_input_ns - turned.wait_input_ns) * 1e-9 / seconds;
    turned.was_full = turned.counters->full > turned.full;
  }
  return {.seconds = seconds,
          .waited = (moment.reader_wait_seconds - begin_.reader_wait_seconds) / seconds,
          .rate = static_cast<double>(moment.elements - begin_.elements) / seconds};
}

void Tuner::Decide(const Interval& interval) {
  for (Turned& turned : knobs_) turned.asleep = std::max<int64_t>(turned.asleep - 1, 0);
  if (!budget_->HasRoom(budget_->bytes() / kReserve) && Shrink()) return;
  if (trial_.has_value()) return Judge(interval);
  if (interval.waited > kReaderWaits) Raise(interval);
}

bool Tuner::Shrink() {
  Turned* most = nullptr;
  for (Turned& turned : knobs_) {
    if (turned.knob->value() == turned.knob->options().least) continue;
    if (turned.memory->charged() == 0) continue;
    if (most == nullptr || turned.memory->charged() > most->memory->charged()) most = &turned;
  }
  if (most == nullptr) return false;
  trial_.reset();
  most->asleep = int64_t{1} << kMostNaps;
  Set(*most, std::max(most->knob->value() / 2, most->knob->options().least),
      absl::StrCat(base::PrintBytes(budget_->charged()), " of ", base::PrintBytes(budget_->bytes()),
                   " are taken, ", base::PrintBytes(most->memory->charged()), " of it here"));
  return true;
}

void Tuner::Judge(const Interval& interval) {
  if (!trial_->settled) {
    trial_->settled = true;
    return;
  }
  const Trial trial = *std::exchange(trial_, std::nullopt);
  Turned& turned = *trial.turned;
  if (interval.rate >= kRateGain * trial.before.rate ||
      interval.waited <= kWaitGain * trial.before.waited) {
    turned.naps = 0;
    return;
  }
  turned.naps = std::min(turned.naps + 1, kMostNaps);
  turned.asleep = int64_t{1} << turned.naps;
  Set(turned, trial.from,
      absl::StrFormat("more gained nothing (%.4g elements/s, %.4g before)", interval.rate,
                      trial.before.rate));
}

void Tuner::Raise(const Interval& interval) {
  Turned* limits = nullptr;
  for (Turned& turned : knobs_) {
    const KnobOptions& options = turned.knob->options();
    if (turned.asleep > 0 || turned.knob->value() >= options.most) continue;
    const bool shows = turned.waited > kStageWaits &&
                       (turned.was_full || options.evidence != KnobOptions::kIsFull);
    // Twice the room may hold twice as much.
    if (!shows || !budget_->HasRoom(turned.memory->charged())) continue;
    if (limits == nullptr || turned.waited > limits->waited) limits = &turned;
  }
  if (limits == nullptr) return;
  const KnobOptions& options = limits->knob->options();
  const int64_t from = limits->knob->value();
  trial_ = Trial{.turned = limits, .from = from, .before = interval};
  Set(*limits, std::min(2 * from, options.most),
      absl::StrCat(
          "the reader waited ", Percent(interval.waited), " of the time, and ",
          options.evidence == KnobOptions::kIsFull
              ? "this stage had stopped for want of room"
              : absl::StrCat("this stage waited for its input ", Percent(limits->waited))));
}

void Tuner::Set(Turned& turned, int64_t value, const std::string& why) {
  const KnobOptions& options = turned.knob->options();
  std::string decision = absl::StrFormat("%.1f s: %s: %s -> %s %s, since %s", begin_.now - first_,
                                         turned.stage, Print(options, turned.knob->value()),
                                         Print(options, value), options.what, why);
  turned.knob->value_.store(value, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  decisions_.push_back(std::move(decision));
  if (decisions_.size() > kMostDecisions) decisions_.pop_front();
}

std::vector<std::string> Tuner::Decisions() const {
  std::lock_guard lock(mutex_);
  return {decisions_.begin(), decisions_.end()};
}

}  // namespace penstock::data
