#include "penstock/data/plan.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/random.h"
#include "penstock/data/report.h"
#include "penstock/data/row_chain.h"
#include "penstock/data/row_node.h"

namespace penstock::data {

// One node of the engine.
struct Plan::Step {
  std::shared_ptr<const Stage> stage;  // null: runs the chain and nothing else
  ElementSpec spec;
  uint64_t seed = 0;
  std::vector<std::unique_ptr<Step>> inputs;
  StageCounters counters;
  MemoryAccount* memory = nullptr;

  std::string name() const { return stage == nullptr ? "Rows()" : stage->ToString(); }

  // Stages whose kernels this step runs.
  struct Link {
    std::string name;
    StageCounters counters;
  };
  std::vector<std::unique_ptr<Link>> links;
  std::shared_ptr<const RowChain> chain;
};

struct Plan::SeededRowStage {
  const Dataset::Description* description;
  uint64_t seed;
};

// A step, and the stages that are still to be done to its rows.
struct Plan::Unfinished {
  std::unique_ptr<Step> step;
  RowStages row_stages;
};

namespace {

bool CanMoveBehind(const Dataset::Description& description, const std::vector<std::string>& reads) {
  const auto& stage = static_cast<const RowStage&>(*description.stage);
  if (stage.counts_rows()) return false;
  if (reads.empty()) return true;
  const ElementSpec& input = description.inputs[0]->spec;
  const auto binding = stage.Bind(input, description.spec);
  if (!binding.ok()) return false;  // whoever binds it next gives the error
  for (const std::string& name : reads) {
    const int from = binding->passes[description.spec.Find(name)];
    if (from < 0 || input[from].name != name) return false;
  }
  return true;
}

// Those to be done before a stage that chooses elements by columns `reads`, and those after.
template <typename RowStages>
std::pair<RowStages, RowStages> Split(RowStages stages, const std::vector<std::string>& reads) {
  size_t now = stages.size();
  while (now > 0 && CanMoveBehind(*stages[now - 1].description, reads)) --now;
  RowStages later(stages.begin() + now, stages.end());
  stages.resize(now);
  return {std::move(stages), std::move(later)};
}

}  // namespace

Plan::Plan(uint64_t seed, const LookUpContext& look_up) : seed_(seed), look_up_(look_up) {}

Plan::~Plan() = default;

absl::StatusOr<std::unique_ptr<Plan>> Plan::Make(const Dataset::Description& description,
                                                 uint64_t seed, const LookUpContext& look_up) {
  auto plan = std::unique_ptr<Plan>(new Plan(seed, look_up));
  PENSTOCK_ASSIGN_OR_RETURN(Unfinished unfinished, plan->Build(description));
  PENSTOCK_ASSIGN_OR_RETURN(plan->root_, plan->Finish(std::move(unfinished)));
  return plan;
}

absl::StatusOr<Plan::Unfinished> Plan::Build(const Dataset::Description& description) {
  std::vector<Unfinished> inputs;
  for (const auto& input : description.inputs) {
    PENSTOCK_ASSIGN_OR_RETURN(inputs.emplace_back(), Build(*input));
  }
  const uint64_t seed = base::MixSeeds(seed_, num_stages_++);
  std::shared_ptr<const Stage> stage = description.stage;
  if (dynamic_cast<const RowStage*>(stage.get()) != nullptr) {
    inputs[0].row_stages.push_back({&description, seed});
    return std::move(inputs[0]);
  }
  auto looked_up = stage->LookUp(look_up_);
  if (!looked_up.ok()) return base::WithContext(looked_up.status(), stage->ToString());
  if (*looked_up != nullptr) stage = *std::move(looked_up);
  absl::StrAppend(&found_, stage->Found());

  auto step = std::make_unique<Step>();
  step->spec = description.spec;
  step->seed = seed;
  RowStages later;
  if (stage->only_selects()) {
    auto [now, movable] = Split(std::move(inputs[0].row_stages), {});
    PENSTOCK_ASSIGN_OR_RETURN(
        step->inputs.emplace_back(),
        Finish({.step = std::move(inputs[0].step), .row_stages = std::move(now)}));
    step->spec = step->inputs[0]->spec;
    later = std::move(movable);
  } else if (const auto reads = stage->selects_by(description.spec); reads.has_value()) {
    auto [now, movable] = Split(std::move(inputs[0].row_stages), *reads);
    step->spec = now.empty() ? inputs[0].step->spec : now.back().description->spec;
    step->inputs.push_back(std::move(inputs[0].step));
    PENSTOCK_RETURN_IF_ERROR(MakeChain(std::move(now), *step));
    later = std::move(movable);
  } else if (stage->runs_chain()) {
    step->inputs.push_back(std::move(inputs[0].step));
    PENSTOCK_RETURN_IF_ERROR(MakeChain(std::move(inputs[0].row_stages), *step));
  } else {
    for (Unfinished& input : inputs) {
      PENSTOCK_ASSIGN_OR_RETURN(step->inputs.emplace_back(), Finish(std::move(input)));
    }
  }
  step->stage = std::move(stage);
  return Unfinished{std::move(step), std::move(later)};
}

absl::StatusOr<std::unique_ptr<Plan::Step>> Plan::Finish(Unfinished unfinished) {
  if (unfinished.row_stages.empty()) return std::move(unfinished.step);
  auto step = std::make_unique<Step>();
  step->spec = unfinished.row_stages.back().description->spec;
  step->inputs.push_back(std::move(unfinished.step));
  PENSTOCK_RETURN_IF_ERROR(MakeChain(std::move(unfinished.row_stages), *step));
  return step;
}

absl::Status Plan::MakeChain(const RowStages& row_stages, Step& step) {
  auto chain = std::make_shared<RowChain>(step.inputs[0]->spec);
  for (const auto& [description, seed] : row_stages) {
    const auto& stage = static_cast<const RowStage&>(*description->stage);
    auto& link = step.links.emplace_back(std::make_unique<Step::Link>());
    link->name = stage.ToString();
    PENSTOCK_RETURN_IF_ERROR(
        base::WithContext(chain->Add(stage, description->spec, &link->counters, seed), link->name));
  }
  step.chain = std::move(chain);
  return absl::OkStatus();
}

void Plan::OpenAccounts(MemoryBudget& budget) {
  const std::function<void(Step&)> open = [&](Step& step) {
    for (const auto& input : step.inputs) open(*input);
    step.memory =
        budget.Open(step.name(), step.stage == nullptr ? "" : step.stage->memory_advice());
  };
  open(*root_);
}

void Plan::TraceTo(base::Trace* trace) {
  // Without its parameters, which fill the picture.
  const auto name = [](absl::string_view stage) { return stage.substr(0, stage.find('(')); };
  const std::function<void(Step&)> trace_to = [&](Step& step) {
    for (const auto& input : step.inputs) trace_to(*input);
    for (const auto& link : step.links) link->counters.TraceTo(trace, name(link->name));
    step.counters.TraceTo(trace, name(step.name()));
  };
  if (trace != nullptr) trace_to(*root_);
}

absl::StatusOr<std::unique_ptr<Node>> Plan::MakeNode(const Step& step, Engine& engine,
                                                     int64_t epoch,
                                                     MemoryAccount* one_account) const {
  NodeContext context = {
      .engine = engine,
      .counters = const_cast<StageCounters&>(step.counters),
      .spec = step.spec,
      .input_spec = step.inputs.empty() ? nullptr : &step.inputs[0]->spec,
      .epoch = epoch,
      .seed = step.seed,
      .file_system = look_up_.file_system,
      .num_inputs = static_cast<int>(step.inputs.size()),
      .make_input =
          [this, &step, &engine, one_account](int input, int64_t of_epoch) {
            return MakeNode(*step.inputs[input], engine, of_epoch, one_account);
          },
      .chain = step.chain,
      .memory = one_account != nullptr ? one_account : step.memory,
      .stage = step.name(),
      .tuner = one_account != nullptr ? nullptr : &engine.tuner(),
  };
  if (step.stage != nullptr) {
    auto node = step.stage->MakeNode(context);
    if (!node.ok()) return base::WithContext(node.status(), step.stage->name());
    return node;
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Node> input, context.make_input(0, epoch));
  return MakeRowNode(context, std::move(input), {});
}

absl::StatusOr<std::unique_ptr<Node>> Plan::MakeRoot(Engine& engine, int64_t epoch,
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
          .wait_room_seconds = counters.wait_room_ns * 1e-9,
          .ignored = counters.ignored,
          .ignored_messages = counters.ignored_messages(),
          .hint = counters.hint(),
          .work = counters.work,
          .parallelism = counters.parallelism,
          .room = counters.room,
          .room_unit = counters.room_unit.load()};
}

}  // namespace

int64_t Plan::io_threads() const {
  const std::function<int64_t(const Step&)> count = [&](const Step& step) {
    int64_t threads = step.stage == nullptr ? 0 : step.stage->io_threads();
    for (const auto& input : step.inputs) threads += count(*input);
    return threads;
  };
  return count(*root_);
}

std::vector<StageStats> Plan::Stats() const {
  std::vector<StageStats> stats;
  const std::function<int(const Step&)> add = [&](const Step& step) {
    std::vector<int> inputs;
    for (const auto& input : step.inputs) inputs.push_back(add(*input));
    const auto append = [&](StageStats stage) {
      stage.inputs = std::exchange(inputs, {static_cast<int>(stats.size())});
      stats.push_back(std::move(stage));
    };
    for (const auto& link : step.links) {
      StageStats inside = StatsOf(link->name, true, link->counters);
      inside.work = StageWork::kComputes;
      inside.parallelism = step.counters.parallelism;
      append(std::move(inside));
    }
    StageStats stage = StatsOf(step.name(), false, step.counters);
    if (step.memory != nullptr) {
      stage.memory_bytes = step.memory->charged();
      stage.peak_memory_bytes = step.memory->peak();
    }
    append(std::move(stage));
    return inputs[0];
  };
  add(*root_);
  return stats;
}

std::string Plan::ToString() const {
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
