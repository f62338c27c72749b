// SessionState's part of each Run: values from the host, the execution, its results.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/session/infer.h"
#include "penstock/session/lowering.h"
#include "penstock/session/run/session_state.h"
#include "penstock/session/variable_table.h"

namespace penstock::session {
namespace {

using Kind = StepGraph::Kind;

std::string Quoted(const std::vector<const VariableDef*>& variables) {
  return absl::StrJoin(variables, ", ", [](std::string* out, const VariableDef* v) {
    absl::StrAppend(out, "'", v->name, "'");
  });
}

}  // namespace

// ---- Values from outside ----

absl::StatusOr<Array> SessionState::CheckFeed(const Tensor& tensor, const Array& value) {
  const DType dtype = tensor.dtype();
  Array converted = value;
  if (value.dtype() != dtype) {
    if (!base::IsNumeric(value.dtype()) || !base::IsNumeric(dtype)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the feed of '", tensor.name(), "' is ",
                       value.valid() ? value.TypeString() : std::string("an invalid array"),
                       ", the tensor ", TypeString(tensor), "; devices have numbers only"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(converted, value.Cast(dtype));
  }
  if (!tensor.shape().IsCompatibleWith(value.shape())) {
    const SourceLocation where = tensor.node()->where;
    return absl::InvalidArgumentError(absl::StrCat(
        "the feed of '", tensor.name(), "' has the shape ", value.shape().ToString(),
        ", the tensor ", tensor.shape().ToString(), " (", where.file, ":", where.line, ")"));
  }
  return converted;
}

absl::Status SessionState::ConvertFeeds(const Plan& plan, absl::Span<const Array> feeds,
                                        std::vector<Array>& fed) {
  fed.clear();
  for (size_t i = 0; i < feeds.size(); ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(Array value, CheckFeed(plan.feeds[i], feeds[i]));
    fed.push_back(std::move(value));
  }
  return absl::OkStatus();
}

uint64_t SessionState::SeedOf(const Node& node, std::optional<uint64_t> op_seed) const {
  if (op_seed.has_value()) return *op_seed;
  const uint64_t id = static_cast<uint64_t>(node.id);
  return graph_->random_seed().has_value() ? id : base::MixSeeds(session_seed_, id);
}

Array SessionState::DrawSeeds(const Plan& plan, uint32_t draws) {
  Array seeds = Array::Uninitialized(DType::kU32, {static_cast<int64_t>(plan.random.size()), 2});
  uint32_t* out = seeds.mutable_data<uint32_t>();
  for (const Node* node : plan.random) {
    const auto& own = dynamic_cast<const RandomSeed&>(*node->extra);
    const uint64_t seed = SeedOf(*node, own.seed);
    *out++ = static_cast<uint32_t>(seed) ^ static_cast<uint32_t>(seed >> 32);
    uint32_t& drawn = draws_.try_emplace(node, first_draw_).first->second;
    *out++ = drawn;
    drawn += draws;
  }
  return seeds;
}

absl::Status SessionState::CheckInitialized(const Plan& plan, const StepGraph& step) const {
  std::vector<const VariableDef*> missing;
  for (const VariableDef* variable : step.read) {
    if (!variables_.Has(variable->index)) missing.push_back(variable);
  }
  if (missing.empty()) return absl::OkStatus();
  const std::string what =
      absl::StrCat("the variable", missing.size() > 1 ? "s " : " ", Quoted(missing),
                   missing.size() > 1 ? " have" : " has", " no value");
  const Node* const initializer = missing[0]->initializer.node();
  if (std::find(plan.nodes.begin(), plan.nodes.end(), initializer) != plan.nodes.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(what,
                     " at the start of this Run; to compute an initial value from another "
                     "variable, use its initial_value()"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(what, "; run ", InitializersOf(missing), " first"));
}

// ---- Execution ----

absl::Status SessionState::PutArgument(const Array& value, bool sliced, size_t parameter,
                                       std::vector<runtime::Buffers>& arguments) {
  const int64_t rows = sliced ? value.dim(0) / static_cast<int64_t>(arguments.size()) : 0;
  for (size_t replica = 0; replica < arguments.size(); ++replica) {
    const int64_t first = static_cast<int64_t>(replica) * rows;
    PENSTOCK_ASSIGN_OR_RETURN(
        arguments[replica][parameter],
        client_->Put(sliced ? value.Slice(first, first + rows) : value, devices_[replica]));
  }
  return absl::OkStatus();
}

absl::Status SessionState::FillArguments(const Plan& plan, StepProgram& program,
                                         const std::vector<Array>& fed, const StagedInputs& staged,
                                         int64_t steps) {
  const std::vector<StepGraph::Place>& parameters = program.step.parameters;
  std::vector<runtime::Buffers>& arguments = program.arguments;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const int index = parameters[p].index;
    if (parameters[p].kind == Kind::kVariable) {
      if (plan.num_replicas > 1) {
        PENSTOCK_RETURN_IF_ERROR(variables_.Spread(*client_, index, plan.num_replicas));
      }
      for (size_t replica = 0; replica < arguments.size(); ++replica) {
        arguments[replica][p] = variables_.On(index, static_cast<int>(replica));
      }
    } else if (program.slots[p] >= 0) {
      for (size_t replica = 0; replica < arguments.size(); ++replica) {
        arguments[replica][p] = staged.buffers[replica][static_cast<size_t>(program.slots[p])];
      }
    } else if (parameters[p].kind == Kind::kFed) {
      PENSTOCK_RETURN_IF_ERROR(PutArgument(fed[index], plan.sliced[index], p, arguments));
    } else {
      const Array seeds = DrawSeeds(plan, static_cast<uint32_t>(std::max<int64_t>(steps, 1)));
      PENSTOCK_RETURN_IF_ERROR(PutArgument(seeds, /*sliced=*/false, p, arguments));
    }
  }
  if (program.depth == 0) return absl::OkStatus();
  return PutArgument(Array::Scalar(static_cast<int32_t>(steps)), /*sliced=*/false,
                     parameters.size(), arguments);
}

absl::Status SessionState::ReadResults(const Plan& plan, const StepProgram& program,
                                       const std::vector<runtime::Buffers>& results,
                                       const std::vector<Array>& fed, std::vector<Array>& fetched) {
  bool waited = false;
  fetched.reserve(program.step.fetched.size());
  for (const StepGraph::Place& place : program.step.fetched) {
    if (place.kind == Kind::kNone) {
      fetched.emplace_back();
    } else if (place.kind == Kind::kFed) {
      // A copy: the caller may write to the fed array after Run.
      const bool is_feed = place.index < static_cast<int>(plan.feeds.size());
      fetched.push_back(is_feed ? fed[place.index].Clone() : fed[place.index]);
    } else {
      const bool is_result = place.kind == Kind::kResult;
      PENSTOCK_ASSIGN_OR_RETURN(
          Array value, (is_result ? results[0][place.index] : variables_.On(place.index)).Get());
      // A copy of a variable: it may be a view of its memory, and the caller may write to it.
      fetched.push_back(is_result ? std::move(value) : value.Clone());
      waited = waited || is_result;
    }
  }
  // As in TensorFlow, Run returns when everything is done on all devices, so that it returns all
  // errors, and fed arrays may be written again.
  for (size_t replica = waited ? 1 : 0; replica < results.size(); ++replica) {
    if (!results[replica].empty()) PENSTOCK_RETURN_IF_ERROR(results[replica][0].Await());
  }
  return absl::OkStatus();
}

absl::Status SessionState::StoreAssigned(const Plan& plan, const StepProgram& program,
                                         std::vector<runtime::Buffers>& results,
                                         const std::vector<Array>& fed) {
  for (const StepGraph::Assignment& assignment : program.step.assigned) {
    runtime::Buffers buffers;
    for (int replica = 0; replica < plan.num_replicas; ++replica) {
      if (assignment.value.kind == Kind::kResult) {
        buffers.push_back(std::move(results[replica][assignment.value.index]));
        continue;
      }
      // A copy: the caller may write to the fed array after Run, and a CPU device uses its memory.
      PENSTOCK_ASSIGN_OR_RETURN(
          runtime::Buffer buffer,
          client_->Put(fed[assignment.value.index].Clone(), devices_[replica]));
      buffers.push_back(std::move(buffer));
    }
    variables_.Set(assignment.variable->index, std::move(buffers));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Array>> SessionState::Execute(const Plan& plan, StepProgram& program,
                                                         const std::vector<Array>& fed,
                                                         const StagedInputs& staged,
                                                         int64_t steps) {
  std::vector<runtime::Buffers> results;
  absl::Status status;
  if (program.executable != nullptr) {
    status = FillArguments(plan, program, fed, staged, steps);
    if (status.ok()) {
      absl::StatusOr<std::vector<runtime::Buffers>> made =
          program.executable->Execute(program.arguments);
      status = made.status();
      if (made.ok()) results = *std::move(made);
    }
    for (runtime::Buffers& replica : program.arguments) {
      for (runtime::Buffer& buffer : replica) buffer = runtime::Buffer();
    }
  }
  if (!status.ok()) return Lost(program, status);
  // While the program runs.
  if (!program.inputs.uses.empty()) {
    inputs_.StageAhead(program.inputs, std::max<int64_t>(program.depth, 1), *client_,
                       ReplicaDevices(plan));
  }
  std::vector<Array> fetched;
  status = ReadResults(plan, program, results, fed, fetched);
  if (status.ok()) status = StoreAssigned(plan, program, results, fed);
  if (!status.ok()) return Lost(program, status);
  return fetched;
}

absl::Status SessionState::Lost(const StepProgram& program, const absl::Status& error) {
  std::vector<const VariableDef*> lost;
  for (const StepGraph::Assignment& assignment : program.step.assigned) {
    const int variable = assignment.variable->index;
    if (!variables_.Has(variable) || !variables_.On(variable).donated()) continue;
    lost.push_back(assignment.variable);
    variables_.Clear(variable);
  }
  if (lost.empty()) return error;
  return absl::Status(error.code(), absl::StrCat(error.message(), "; the values of ", Quoted(lost),
                                                 " are lost with it: restore or initialize them"));
}

absl::StatusOr<std::vector<Array>> SessionState::Run(Prepared& prepared,
                                                     absl::Span<const Array> feeds) {
  PENSTOCK_RETURN_IF_ERROR(CheckOpen());
  PENSTOCK_RETURN_IF_ERROR(ConvertFeeds(prepared.plan, feeds, fed_));
  PENSTOCK_RETURN_IF_ERROR(RunHostEffects(prepared.plan));
  absl::StatusOr<std::vector<Array>> fetched = RunOnce(prepared);
  fed_.clear();
  return fetched;
}

absl::StatusOr<std::vector<Array>> SessionState::RunOnce(Prepared& prepared) {
  const Plan& plan = prepared.plan;
  fed_.resize(plan.feeds.size());
  PENSTOCK_RETURN_IF_ERROR(PeekHostInputs(prepared, fed_));
  PENSTOCK_ASSIGN_OR_RETURN(StepProgram * program, ProgramFor(prepared, fed_));
  PENSTOCK_RETURN_IF_ERROR(CheckInitialized(plan, program->step));
  StagedInputs staged;
  if (!program->inputs.uses.empty()) {
    PENSTOCK_RETURN_IF_ERROR(
        inputs_.Stage(program->inputs, 1, 1, *client_, ReplicaDevices(plan)).status());
    staged = inputs_.Take(1);
  }
  return Execute(plan, *program, fed_, staged, /*steps=*/0);
}

}  // namespace penstock::session
