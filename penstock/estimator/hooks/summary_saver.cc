#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/estimator/hooks/hooks.h"
#include "penstock/session/summary.h"

namespace penstock::estimator {
namespace {

class SummarySaver : public SessionRunHook {
 public:
  explicit SummarySaver(SummarySaverOptions options)
      : options_(std::move(options)),
        timer_(options_.save_steps, options_.save_secs, options_.clock) {}

  absl::Status Begin() override {
    if (!timer_.active()) {
      return absl::InvalidArgumentError("SummarySaverHook needs save_steps or save_secs");
    }
    if (options_.output_dir.empty()) {
      return absl::InvalidArgumentError("SummarySaverHook needs an output_dir");
    }
    timer_.Reset();
    PENSTOCK_RETURN_IF_ERROR(timer_.Check("SummarySaverHook", "save_steps", "save_secs"));
    session::Graph& graph = *session::Graph::Default();
    session::Tensors summaries = options_.summary_ops;
    for (const session::Tensor& summary : summaries) {
      if (summary.valid()) continue;
      return absl::InvalidArgumentError(
          "SummarySaverHook: an invalid tensor is among the summary_ops, as MergeAll() returns of "
          "a graph without summaries");
    }
    if (summaries.empty()) {
      for (const session::Tensor& summary : graph.GetCollection(session::graph_keys::kSummaries)) {
        // Those that shards compute have no value outside; a host_call makes others.
        if (summary.node()->num_shards == 1) summaries.push_back(summary);
      }
    }
    const bool has_loss =
        std::any_of(summaries.begin(), summaries.end(),
                    [](const session::Tensor& t) { return t.node()->name == "loss"; });
    if (options_.loss.valid() && !has_loss) {
      summaries.push_back(session::summary::Scalar("loss", options_.loss));
    }
    fetches_.clear();
    if (!summaries.empty()) fetches_.push_back(session::summary::Merge(summaries));
    only_scalars_ = std::all_of(summaries.begin(), summaries.end(), [](const session::Tensor& t) {
      return t.node()->type == "ScalarSummary";
    });
    return graph.status();
  }

  SessionRunArgs BeforeRun(RunContext& context) override {
    saves_ = timer_.ShouldTriggerForStep(context.global_step() + context.steps());
    // Numbers are fetched always, so that all steps have one program.
    return {.fetches = saves_ || only_scalars_ ? fetches_ : session::Fetches()};
  }

  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    if (!saves_) return absl::OkStatus();
    timer_.UpdateLastTriggeredStep(context.global_step());
    if (values.results.empty()) return absl::OkStatus();
    if (!writer_.has_value()) {
      writer_.emplace(options_.output_dir,
                      session::summary::FileWriterOptions{.file_system = options_.file_system,
                                                          .clock = options_.clock});
    }
    return writer_->AddSummary(values.results[0], context.global_step());
  }

  absl::Status End(RunContext&) override {
    return writer_.has_value() ? writer_->Flush() : absl::OkStatus();
  }

 private:
  const SummarySaverOptions options_;
  SecondOrStepTimer timer_;
  session::Fetches fetches_;
  bool saves_ = false, only_scalars_ = false;
  std::optional<session::summary::FileWriter> writer_;
};

}  // namespace

Hook SummarySaverHook(SummarySaverOptions options) {
  return std::make_shared<SummarySaver>(std::move(options));
}

}  // namespace penstock::estimator
