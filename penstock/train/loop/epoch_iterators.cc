#include "penstock/train/loop/epoch_iterators.h"

#include <algorithm>
#include <utility>

#include "penstock/base/status.h"
#include "penstock/data/stage.h"

namespace penstock::train {
namespace {

// Whether one pass over the data stores elements for the next one.
bool StoresElements(const data::Dataset::Description& dataset) {
  const absl::string_view name = dataset.stage->name();
  return name == "Cache" || name == "Snapshot" ||
         std::any_of(dataset.inputs.begin(), dataset.inputs.end(),
                     [](const auto& input) { return StoresElements(*input); });
}

}  // namespace

// The pass that fills a cache may be the second one (of what does not fit into memory) or, in a
// resumed run, the third.
EpochIterators::EpochIterators(const FitArguments& fit, base::Trace* trace)
    : fit_(fit),
      trace_(trace),
      passes_before_ahead_(StoresElements(fit.dataset.description()) ? 3 : 1) {}

absl::Status EpochIterators::Place() {
  PENSTOCK_ASSIGN_OR_RETURN(
      place_, PlaceFeed(fit_.model.strategy().client(), fit_.dataset, fit_.options.read));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HostFeed>> EpochIterators::Open(
    int epoch, const std::optional<data::IteratorState>& resume_at, int64_t batch_rows) {
  if (next_.has_value()) return *std::exchange(next_, std::nullopt);
  opened_ = fit_.model.options().clock->Seconds();
  return Make(epoch, resume_at, batch_rows);
}

void EpochIterators::BatchRead() {
  if (opened_ < 0) return;
  fill_seconds_ = fit_.model.options().clock->Seconds() - opened_;
  opened_ = -1;
}

bool EpochIterators::MayOpenAhead(int epoch) const {
  return !fit_.endless() && !next_.has_value() && epoch < fit_.options.epochs &&
         passes_ >= passes_before_ahead_;
}

absl::StatusOr<std::unique_ptr<HostFeed>> EpochIterators::Make(
    int epoch, const std::optional<data::IteratorState>& resume_at, int64_t batch_rows) {
  data::IteratorOptions options = fit_.model.IteratorOptionsFor(fit_.options.read, trace_);
  if (resume_at.has_value()) {
    options.state = *resume_at;
    options.seed = {};
  } else {
    options.epoch = epoch;
  }
  PENSTOCK_RETURN_IF_ERROR(SendParts(place_, fit_.options.read, options, fit_.model.strategy()));
  if (options.pool == nullptr && place_.host == nullptr) {
    if (pool_ == nullptr) {
      // On CPU devices a step waits for each of the threads that compute it, so decoding a later
      // batch must not take a core from one of them.
      const auto priority = fit_.model.on_cpu() ? base::ThreadPool::Priority::kBackground
                                                : base::ThreadPool::Priority::kNormal;
      PENSTOCK_ASSIGN_OR_RETURN(pool_, base::ThreadPool::Make(base::NumCores(), "data", priority));
    }
    options.pool = pool_.get();
  }
  DeviceModel& model = fit_.model;
  Feed::Options feed = {.columns = model.options().columns,
                        .class_weight = fit_.options.class_weight,
                        .targets = model.TargetsToCheck(),
                        .trace = trace_,
                        .batch_rows = batch_rows};
  const nn::Network& network = model.objective().network;
  if (place_.host != nullptr) {
    return OpenFeedAt(place_, options, network, model.strategy(), feed);
  }
  return OpenFeedHere(place_, fit_.dataset, options, network, model.strategy(), feed);
}

}  // namespace penstock::train
