#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/status.h"
#include "penstock/estimator/hooks/hooks.h"
#include "penstock/estimator/hooks/number_text.h"

namespace penstock::estimator {
namespace {

// The tensor, also one that is given by its name in the graph. The name of an operation stands for
// its only output, as in TensorFlow.
absl::StatusOr<session::Tensor> TensorOf(const session::Fetch& fetch) {
  const std::string& name = fetch.name();
  if (name.empty()) {
    if (fetch.tensor().valid()) return fetch.tensor();
    return absl::InvalidArgumentError("it is invalid");
  }
  const session::Graph& graph = *session::Graph::Default();
  if (absl::StrContains(name, ":")) return graph.GetTensorByName(name);
  PENSTOCK_ASSIGN_OR_RETURN(const session::Operation operation, graph.GetOperationByName(name));
  const session::Tensors outputs = operation.outputs();
  if (outputs.size() == 1) return outputs[0];
  return absl::InvalidArgumentError(absl::StrCat("the operation '", name, "' has ", outputs.size(),
                                                 " outputs; '", name, ":0' is the first one"));
}

class LoggingTensor : public SessionRunHook {
 public:
  explicit LoggingTensor(LoggingTensorOptions options)
      : options_(std::move(options)),
        timer_(options_.every_n_iter, options_.every_n_secs, options_.clock) {}

  absl::Status Begin() override {
    if (options_.tensors.entries().empty()) {
      return absl::InvalidArgumentError("LoggingTensorHook has no tensors to print");
    }
    if (!timer_.active() && !options_.at_end) {
      return absl::InvalidArgumentError(
          "LoggingTensorHook needs one of every_n_iter, every_n_secs and at_end");
    }
    fetches_.clear();
    only_scalars_ = true;
    for (const auto& [name, fetch] : options_.tensors.entries()) {
      const absl::StatusOr<session::Tensor> tensor = TensorOf(fetch);
      if (!tensor.ok()) {
        return base::WithContext(tensor.status(),
                                 absl::StrCat("LoggingTensorHook: tensor '", name, "'"));
      }
      fetches_.push_back(*tensor);
      const session::PartialShape& shape = tensor->shape();
      only_scalars_ = only_scalars_ && shape.has_rank() && shape.rank() == 0;
    }
    timer_.Reset();
    return timer_.Check("LoggingTensorHook", "every_n_iter", "every_n_secs");
  }

  SessionRunArgs BeforeRun(RunContext& context) override {
    // Steps are counted from 1, as they are printed.
    logs_ = timer_.ShouldTriggerForStep(context.global_step() + context.steps());
    // Numbers are fetched always, so that all steps have one program.
    return {.fetches = logs_ || (timer_.active() && only_scalars_) ? fetches_ : session::Fetches()};
  }

  absl::Status AfterRun(RunContext& context, const RunValues& values) override {
    if (!logs_) return absl::OkStatus();
    const auto elapsed = timer_.UpdateLastTriggeredStep(context.global_step());
    Print(context, values.results, elapsed);
    return absl::OkStatus();
  }

  absl::Status End(RunContext& context) override {
    if (!options_.at_end) return absl::OkStatus();
    // As in TensorFlow: these tensors are computed once more.
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<base::Array> values,
                              context.session().Run(fetches_));
    Print(context, values, std::nullopt);
    return absl::OkStatus();
  }

 private:
  void Print(RunContext& context, const std::vector<base::Array>& values,
             const std::optional<SecondOrStepTimer::Elapsed>& elapsed) {
    base::NamedArrays named;
    for (size_t i = 0; i < values.size(); ++i) {
      named.Append(options_.tensors.entries()[i].first, values[i]);
    }
    if (options_.formatter != nullptr) {
      context.Log(options_.formatter(named));
      return;
    }
    std::string line = absl::StrCat("step ", context.global_step(), ": ");
    for (size_t i = 0; i < named.size(); ++i) {
      absl::StrAppend(&line, i > 0 ? ", " : "", named[i].first, " = ", NumberText(named[i].second));
    }
    if (elapsed.has_value() && options_.every_n_iter.has_value()) {
      absl::StrAppendFormat(&line, " (%.3f s)", elapsed->seconds);
    }
    context.Log(line);
  }

  const LoggingTensorOptions options_;
  SecondOrStepTimer timer_;
  session::Fetches fetches_;
  bool logs_ = false, only_scalars_ = false;
};

}  // namespace

Hook LoggingTensorHook(LoggingTensorOptions options) {
  return std::make_shared<LoggingTensor>(std::move(options));
}

}  // namespace penstock::estimator
