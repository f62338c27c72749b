#include "penstock/data/engine/plan.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/random.h"
#include "penstock/data/engine/fused_kernels.h"
#include "penstock/data/engine/row_node.h"
#include "penstock/data/report.h"

namespace penstock::data {

// A stage of the plan, which becomes one node of the engine.
struct PipelinePlan::PlannedStage {
  std::shared_ptr<const Stage> stage;  // null: runs the kernels and nothing else
  ElementSpec spec;
  uint64_t seed = 0;
  std::vector<std::unique_ptr<PlannedStage>> inputs;
  StageCounters counters;
  MemoryAccount* memory = nullptr;

  std::string name() const { return stage == nullptr ? "Rows()" : stage->ToString(); }

  // Row stages that are fused into this one.
  struct FusedStage {
    std::string name;
    StageCounters counters;
  };
  std::vector<std::unique_ptr<FusedStage>> fused;
  std::shared_ptr<const FusedKernels> kernels;
};

struct PipelinePlan::SeededRowStage {
  const Dataset::Description* description;
  uint64_t seed;
};

// A planned stage, and the row stages that still have to be applied to its rows.
struct PipelinePlan::Unfinished {
  std::unique_ptr<PlannedStage> planned;
  RowStages row_stages;
};

namespace {

bool CanDefer(const Dataset::Description& description, const std::vector<std::string>& reads) {
  const auto& stage = static_cast<const RowStage&>(*description.stage);
  if (stage.counts_rows()) return false;
  if (reads.empty()) return true;
  const ElementSpec& input = description.inputs[0]->spec;
  const auto binding = stage.Bind(input, description.spec);
  if (!binding.ok()) return false;  // the next Bind returns the error
  for (const std::string& name : reads) {
    const int from = binding->passes[description.spec.Find(name)];
    if (from < 0 || input[from].name != name) return false;
  }
  return true;
}

// Splits row stages into those that run before a stage that selects by columns `reads`, and the
// others.
template <typename RowStages>
std::pair<RowStages, RowStages> Split(RowStages stages, const std::vector<std::string>& reads) {
  size_t now = stages.size();
  while (now > 0 && CanDefer(*stages[now - 1].description, reads)) --now;
  RowStages later(stages.begin() + now, stages.end());
  stages.resize(now);
  return {std::move(stages), std::move(later)};
}

}  // namespace

PipelinePlan::PipelinePlan(uint64_t seed, const ResolveContext& resolve_context)
    : seed_(seed), resolve_context_(resolve_context) {}

PipelinePlan::~PipelinePlan() = default;

absl::StatusOr<std::unique_ptr<PipelinePlan>> PipelinePlan::Make(
    const Dataset::Description& description, uint64_t seed, const ResolveContext& resolve_context) {
  auto plan = std::unique_ptr<PipelinePlan>(new PipelinePlan(seed, resolve_context));
  plan->num_stages_ = description.stage->first_stage();
  PENSTOCK_ASSIGN_OR_RETURN(Unfinished unfinished, plan->Build(description));
  PENSTOCK_ASSIGN_OR_RETURN(plan->root_, plan->Finish(std::move(unfinished)));
  return plan;
}

absl::StatusOr<PipelinePlan::Unfinished> PipelinePlan::Build(
    const Dataset::Description& description) {
  std::vector<Unfinished> inputs;
  for (const auto& input : description.inputs) {
    PENSTOCK_ASSIGN_OR_RETURN(inputs.emplace_back(), Build(*input));
  }
  std::shared_ptr<const Stage> stage = description.stage;
  const uint64_t seed = base::MixSeeds(seed_, num_stages_);
  num_stages_ += stage->num_stages();
  if (dynamic_cast<const RowStage*>(stage.get()) != nullptr) {
    inputs[0].row_stages.push_back({&description, seed});
    return std::move(inputs[0]);
  }
  auto resolved = stage->Resolve(resolve_context_);
  if (!resolved.ok()) return base::WithContext(resolved.status(), stage->ToString());
  if (*resolved != nullptr) stage = *std::move(resolved);
  absl::StrAppend(&resolved_sources_, stage->ResolvedSources());

  auto planned = std::make_unique<PlannedStage>();
  planned->spec = description.spec;
  planned->seed = seed;
  RowStages later;
  if (stage->is_selection()) {
    auto [now, movable] = Split(std::move(inputs[0].row_stages), {});
    PENSTOCK_ASSIGN_OR_RETURN(
        planned->inputs.emplace_back(),
        Finish({.planned = std::move(inputs[0].planned), .row_stages = std::move(now)}));
    planned->spec = planned->inputs[0]->spec;
    later = std::move(movable);
  } else if (const auto reads = stage->predicate_columns(description.spec); reads.has_value()) {
    auto [now, movable] = Split(std::move(inputs[0].row_stages), *reads);
    planned->spec = now.empty() ? inputs[0].planned->spec : now.back().description->spec;
    planned->inputs.push_back(std::move(inputs[0].planned));
    PENSTOCK_RETURN_IF_ERROR(FuseKernels(now, *planned));
    later = std::move(movable);
  } else if (stage->runs_fused_kernels()) {
    planned->inputs.push_back(std::move(inputs[0].planned));
    PENSTOCK_RETURN_IF_ERROR(FuseKernels(inputs[0].row_stages, *planned));
  } else {
    for (Unfinished& input : inputs) {
      PENSTOCK_ASSIGN_OR_RETURN(planned->inputs.emplace_back(), Finish(std::move(input)));
    }
  }
  planned->stage = std::move(stage);
  return Unfinished{std::move(planned), std::move(later)};
}

absl::StatusOr<std::unique_ptr<PipelinePlan::PlannedStage>> PipelinePlan::Finish(
    Unfinished unfinished) {
  if (unfinished.row_stages.empty()) return std::move(unfinished.planned);
  auto planned = std::make_unique<PlannedStage>();
  planned->spec = unfinished.row_stages.back().description->spec;
  planned->inputs.push_back(std::move(unfinished.planned));
  PENSTOCK_RETURN_IF_ERROR(FuseKernels(unfinished.row_stages, *planned));
  return planned;
}

absl::Status PipelinePlan::FuseKernels(const RowStages& row_stages, PlannedStage& planned) {
  auto kernels = std::make_shared<FusedKernels>(planned.inputs[0]->spec);
  for (const auto& [description, seed] : row_stages) {
    const auto& stage = static_cast<const RowStage&>(*description->stage);
    auto& fused = planned.fused.emplace_back(std::make_unique<PlannedStage::FusedStage>());
    fused->name = stage.ToString();
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(
        kernels->Add(stage, description->spec, &fused->counters, seed), fused->name));
  }
  planned.kernels = std::move(kernels);
  return absl::OkStatus();
}

void PipelinePlan::OpenAccounts(MemoryBudget& budget) {
  const std::function<void(PlannedStage&)> open = [&](PlannedStage& planned) {
    for (const auto& input : planned.inputs) open(*input);
    planned.memory =
        budget.Open(planned.name(), planned.stage == nullptr ? "" : planned.stage->memory_advice());
  };
  open(*root_);
}

void PipelinePlan::TraceTo(base::Trace* trace) {
  // Without the parameters, which are too long for a trace.
  const auto name = [](absl::string_view stage) { return stage.substr(0, stage.find('(')); };
  const std::function<void(PlannedStage&)> trace_to = [&](PlannedStage& planned) {
    for (const auto& input : planned.inputs) trace_to(*input);
    for (const auto& fused : planned.fused) fused->counters.TraceTo(trace, name(fused->name));
    planned.counters.TraceTo(trace, name(planned.name()));
  };
  if (trace != nullptr) trace_to(*root_);
}

absl::StatusOr<std::unique_ptr<Node>> PipelinePlan::MakeNode(const PlannedStage& planned,
                                                             Engine& engine, int64_t epoch,
                                                             MemoryAccount* one_account) const {
  NodeContext context = {
      .engine = engine,
      .counters = const_cast<StageCounters&>(planned.counters),
      .spec = planned.spec,
      .input_spec = planned.inputs.empty() ? nullptr : &planned.inputs[0]->spec,
      .epoch = epoch,
      .seed = planned.seed,
      .file_system = resolve_context_.file_system,
      .num_inputs = static_cast<int>(planned.inputs.size()),
      .make_input =
          [this, &planned, &engine, one_account](int input, int64_t of_epoch) {
            return MakeNode(*planned.inputs[input], engine, of_epoch, one_account);
          },
      .kernels = planned.kernels,
      .memory = one_account != nullptr ? one_account : planned.memory,
      .stage = planned.name(),
      .tuner = one_account != nullptr ? nullptr : &engine.tuner(),
  };
  if (planned.stage != nullptr) {
    auto node = planned.stage->MakeNode(context);
    if (!node.ok()) return base::WithContext(node.status(), planned.stage->name());
    return node;
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Node> input, context.make_input(0, epoch));
  return MakeRowNode(context, std::move(input), {});
}

absl::StatusOr<std::unique_ptr<Node>> PipelinePlan::MakeRoot(Engine& engine, int64_t epoch,
                                                             MemoryAccount* one_account) const {
  PENSTOCK_ASSIGN_OR_RETURN(auto root, MakeNode(*root_, engine, epoch, one_account));
  PENSTOCK_RETURN_IF_ERROR(engine.memory()->Check());
  return root;
}

namespace {

StageStats StatsOf(std::string stage, bool inside, const StageCounters& counters) {
  return {.stage = std::move(stage),
          .inside_next = inside,
          .elements = counters.elements,
          .bytes = counters.bytes,
          .busy_seconds = counters.busy_ns * 1e-9,
          .wait_input_seconds = counters.wait_input_ns * 1e-9,
          .backpressure_seconds = counters.backpressure_ns * 1e-9,
          .skipped = counters.skipped,
          .skipped_messages = counters.skipped_messages(),
          .hint = counters.hint(),
          .work = counters.work,
          .parallelism = counters.parallelism,
          .prefetch_limit = counters.prefetch_limit,
          .prefetch_unit = counters.prefetch_unit.load()};
}

}  // namespace

int64_t PipelinePlan::io_threads() const {
  const std::function<int64_t(const PlannedStage&)> count = [&](const PlannedStage& planned) {
    int64_t threads = planned.stage == nullptr ? 0 : planned.stage->io_threads();
    for (const auto& input : planned.inputs) threads += count(*input);
    return threads;
  };
  return count(*root_);
}

std::vector<StageStats> PipelinePlan::Stats() const {
  std::vector<StageStats> stats;
  const std::function<int(const PlannedStage&)> add = [&](const PlannedStage& planned) {
    std::vector<int> inputs;
    for (const auto& input : planned.inputs) inputs.push_back(add(*input));
    const auto append = [&](StageStats stage) {
      stage.inputs = std::exchange(inputs, {static_cast<int>(stats.size())});
      stats.push_back(std::move(stage));
    };
    for (const auto& fused : planned.fused) {
      StageStats inside = StatsOf(fused->name, true, fused->counters);
      inside.work = StageWork::kCompute;
      inside.parallelism = planned.counters.parallelism;
      append(std::move(inside));
    }
    StageStats stage = StatsOf(planned.name(), false, planned.counters);
    if (planned.memory != nullptr) {
      stage.memory_bytes = planned.memory->charged();
      stage.peak_memory_bytes = planned.memory->peak();
    }
    append(std::move(stage));
    return inputs[0];
  };
  add(*root_);
  return stats;
}

std::string PipelinePlan::ToString() const {
  const std::vector<StageStats> stages = Stats();
  const std::vector<int> depths = Depths(stages);
  std::string out;
  for (size_t i = 0; i < stages.size(); ++i) {
    const std::string space(2 * static_cast<size_t>(depths[i]), ' ');
    absl::StrAppend(&out, space, stages[i].inside_next ? "  " : "", stages[i].stage, "\n");
    if (!stages[i].hint.empty()) {
      absl::StrAppend(&out, space, "  hint: ", stages[i].hint, "\n");
    }
  }
  return out;
}

}  // namespace penstock::data
