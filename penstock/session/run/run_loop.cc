// Session::RunLoop: several steps in one execution.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/session/run/loop_graph.h"
#include "penstock/session/run/session_state.h"

namespace penstock::session {
namespace {

// What the parameters of a step are in the loop.
std::vector<LoopParameter> LoopParameters(const StepProgram& program) {
  std::vector<LoopParameter> parameters(program.step.parameters.size());
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (program.slots[p] >= 0) parameters[p].kind = LoopParameter::kBatch;
    if (program.step.parameters[p].kind == StepGraph::Kind::kRandom) {
      parameters[p].kind = LoopParameter::kRandom;
    }
  }
  for (const auto& [parameter, result] : program.step.donate) {
    parameters[parameter] = {LoopParameter::kState, result};
  }
  return parameters;
}

// Stacks up to this size are made without a look at the free memory.
constexpr int64_t kSmallStacks = int64_t{64} << 20;
// What an element that was read costs on the host besides its numbers: the array, its block, its
// position in the data.
constexpr int64_t kElementOverhead = 512;

// The extent of the stacks for a loop of n steps with `bytes` of batches each. Stacks of a program
// that exists need not be full.
int64_t LoopDepth(const Prepared& prepared, int64_t n, int64_t bytes) {
  const auto fits = [&](int64_t steps) {
    if (steps <= kSmallStacks / std::max<int64_t>(bytes, 1)) return steps;
    return LoopDepthThatFits(steps, bytes, base::AvailableMemory().bytes);
  };
  int64_t depth = INT64_MAX;
  for (const auto& loop : prepared.loops) {
    if (loop->depth >= n) depth = std::min(depth, loop->depth);
  }
  return depth != INT64_MAX && fits(depth) == depth ? depth : fits(n);
}

}  // namespace

absl::StatusOr<StepProgram*> SessionState::LoopFor(Prepared& prepared,
                                                   const std::vector<Array>& fed, int64_t depth) {
  std::vector<std::unique_ptr<StepProgram>>& loops = prepared.loops;
  if (StepProgram* const known = FindProgram(loops, fed, depth)) return known;
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<StepProgram> program, MakeProgram(prepared, fed));
  program->depth = depth;
  if (!program->step.graph->results().empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<ir::Graph> loop,
                              LoopGraph(*program->step.graph, LoopParameters(*program), depth));
    if (log_compilations_) LogCompilation(prepared, program->fed);
    PENSTOCK_ASSIGN_OR_RETURN(program->executable,
                              Compile(prepared.plan, *loop, program->step.donate));
    LogShards(prepared.plan, program->step);
    for (runtime::Buffers& replica : program->arguments) replica.emplace_back();  // steps
  }
  program->step.graph = nullptr;
  loops.insert(loops.begin(), std::move(program));
  return loops[0].get();
}

absl::StatusOr<int64_t> SessionState::RunLoopOnce(Prepared& prepared, int64_t depth, int64_t steps,
                                                  std::vector<Array>& fetched) {
  const Plan& plan = prepared.plan;
  const bool stacks = !plan.host_inputs.empty();
  if (stacks && depth == 1) {
    PENSTOCK_ASSIGN_OR_RETURN(fetched, RunOnce(prepared));
    return 1;
  }
  fed_.resize(plan.feeds.size());
  PENSTOCK_RETURN_IF_ERROR(PeekHostInputs(prepared, fed_));
  // Without stacks of batches one program serves every number of steps.
  PENSTOCK_ASSIGN_OR_RETURN(StepProgram * program, LoopFor(prepared, fed_, stacks ? depth : 1));
  PENSTOCK_RETURN_IF_ERROR(CheckInitialized(plan, program->step));
  StagedInputs staged;
  if (!program->inputs.uses.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const StagedInputs* ready,
        inputs_.Stage(program->inputs, depth, steps, *client_, ReplicaDevices(plan)));
    steps = std::min(steps, ready->steps);
    // Fetched elements are those of the last step.
    fed_.resize(plan.feeds.size());
    PENSTOCK_RETURN_IF_ERROR(PeekHostInputs(prepared, fed_, steps - 1));
    staged = inputs_.Take(steps);
  }
  PENSTOCK_ASSIGN_OR_RETURN(fetched, Execute(plan, *program, fed_, staged, steps));
  return steps;
}

absl::StatusOr<std::vector<Array>> SessionState::RunLoop(Prepared& prepared, int64_t n,
                                                         absl::Span<const Array> feeds,
                                                         int64_t* steps_done) {
  PENSTOCK_RETURN_IF_ERROR(CheckOpen());
  if (n < 1 || n > INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("RunLoop: the number of steps is ", n,
                                                   "; it must be between 1 and ", INT32_MAX));
  }
  const Plan& plan = prepared.plan;
  PENSTOCK_RETURN_IF_ERROR(ConvertFeeds(plan, feeds, fed_));
  PENSTOCK_RETURN_IF_ERROR(RunHostEffects(plan));
  const bool stacks = !plan.host_inputs.empty();
  int64_t depth = n;
  if (stacks) {
    PENSTOCK_RETURN_IF_ERROR(PeekHostInputs(prepared, fed_));
    int64_t bytes = 0;
    for (size_t i = plan.feeds.size(); i < fed_.size(); ++i) {
      bytes += fed_[i].num_bytes() + kElementOverhead;
    }
    depth = LoopDepth(prepared, n, bytes);
  }
  std::vector<Array> fetched;
  int64_t done = 0;
  while (done < n) {
    const absl::StatusOr<int64_t> steps =
        RunLoopOnce(prepared, depth, std::min(depth, n - done), fetched);
    if (absl::IsOutOfRange(steps.status()) && done > 0) break;  // reported by the next call
    PENSTOCK_RETURN_IF_ERROR(steps.status());
    done += *steps;
  }
  if (steps_done != nullptr) *steps_done = done;
  fed_.clear();
  return fetched;
}

}  // namespace penstock::session
