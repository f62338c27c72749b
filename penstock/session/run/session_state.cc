#include "penstock/session/run/session_state.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/delayed_call.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/session/tpu/shard_region.h"
#include "penstock/session/variable_table.h"

namespace penstock::session {
namespace {

// TensorFlow's seed of graphs without one.
constexpr uint64_t kDefaultGraphSeed = 87654321;

// A compile that takes longer is announced, so that a program does not seem to hang.
constexpr int kSilentSeconds = 10;

std::string NamesOf(const Operations& operations) {
  std::string names;
  for (const Operation& each : operations) absl::StrAppend(&names, " ", each.name());
  return names;
}

bool SameFetch(const Fetch& a, const Fetch& b) {
  return a.operation() == b.operation() && a.tensor() == b.tensor() && a.name() == b.name();
}

// Feeds are given as pairs to Run and as tensors to MakeCallable.
const Tensor& FedTensor(const Feed& feed) { return feed.first; }
const Tensor& FedTensor(const Tensor& tensor) { return tensor; }

template <typename FeedList>
size_t HashOf(const Fetches& fetches, const FeedList& feeds) {
  size_t hash = fetches.size();
  for (const Fetch& fetch : fetches) {
    hash = absl::HashOf(hash, fetch.operation().node(), fetch.tensor(), fetch.name());
  }
  for (const auto& feed : feeds) hash = absl::HashOf(hash, FedTensor(feed));
  return hash;
}

template <typename FeedList>
bool IsFor(const Prepared& prepared, const Fetches& fetches, const FeedList& feeds) {
  if (prepared.fetches.size() != fetches.size() || prepared.plan.feeds.size() != feeds.size()) {
    return false;
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    if (!SameFetch(prepared.fetches[i], fetches[i])) return false;
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!(prepared.plan.feeds[i] == FedTensor(feeds[i]))) return false;
  }
  return true;
}

bool SameTypes(const FedTypes& types, const std::vector<Array>& values) {
  if (types.size() != values.size()) return false;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].dtype != values[i].dtype() || !(types[i].shape == values[i].shape())) return false;
  }
  return true;
}

// The tensor and the operation that a fetch names.
absl::Status ResolveFetch(const Graph& graph, const Fetch& fetch, Tensors& tensors,
                          Operations& operations) {
  Tensor tensor = fetch.tensor();
  Operation operation = fetch.operation();
  if (!fetch.name().empty() && absl::StrContains(fetch.name(), ":")) {
    PENSTOCK_ASSIGN_OR_RETURN(tensor, graph.GetTensorByName(fetch.name()));
    operation = tensor;
  } else if (!fetch.name().empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(operation, graph.GetOperationByName(fetch.name()));
  }
  if (!operation.valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat("fetch ", tensors.size(),
                     " is an invalid tensor or operation; make it with an operation "
                     "of the session's graph"));
  }
  if (operation.node()->graph != &graph) {
    return absl::InvalidArgumentError(
        absl::StrCat("the fetch '", operation.name(),
                     "' belongs to another graph; fetch it in a session of that graph"));
  }
  tensors.push_back(tensor);
  operations.push_back(operation);
  return absl::OkStatus();
}

absl::Status CheckFeeds(const Graph& graph, const Tensors& feeds) {
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (!feeds[i].valid()) {
      return absl::InvalidArgumentError(absl::StrCat("feed ", i, " is for an invalid tensor"));
    }
    if (feeds[i].graph() != &graph) {
      return absl::InvalidArgumentError(
          absl::StrCat("the fed tensor '", feeds[i].name(),
                       "' belongs to another graph; feed it in a session of that graph"));
    }
    if (std::find(feeds.begin(), feeds.begin() + static_cast<int64_t>(i), feeds[i]) !=
        feeds.begin() + static_cast<int64_t>(i)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", feeds[i].name(), "' is fed twice; feed one value for each tensor"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

// ---- Opening and closing ----

SessionState::SessionState(absl::string_view target, const ConfigProto& config, Graph* graph)
    : graph_(graph == nullptr ? Graph::Default() : graph), session_seed_(base::EntropySeed()) {
  status_ = Open(target, config);
}

absl::Status SessionState::Open(absl::string_view target, const ConfigProto& config) {
  if (graph_ == nullptr) {
    return absl::FailedPreconditionError(
        "this thread has no default graph: keep the result of Graph::AsDefault(), or give the "
        "session its graph");
  }
  log_compilations_ = config.log_compilations;
  client_ = config.client;
  if (client_ == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(client_, runtime::OpenClient({.device = std::string(target),
                                                            .cpu_devices = config.cpu_devices}));
  }
  lowering_ = kernels::Lowering::For(*client_);
  devices_.assign(client_->devices().begin(), client_->devices().end());
  variables_.SetDevices(devices_);
  inputs_.SetDevices(devices_);
  return absl::OkStatus();
}

void SessionState::Close() {
  closed_ = true;
  // Prepared fetches stay, because callables refer to them; their programs go.
  for (auto& [hash, list] : prepared_) {
    for (const auto& prepared : list) {
      prepared->programs.clear();
      prepared->loops.clear();
    }
  }
  inputs_ = SessionInputs();
  variables_ = DeviceVariables();
  client_ = nullptr;
}

absl::Status SessionState::CheckOpen() const {
  if (!status_.ok()) return status_;
  if (closed_) return absl::FailedPreconditionError("the session is closed");
  return graph_->status();
}

// ---- Preparing ----

absl::StatusOr<std::unique_ptr<Prepared>> SessionState::MakePrepared(const Fetches& fetches,
                                                                     const Tensors& feeds) {
  auto made = std::make_unique<Prepared>();
  made->fetches = fetches;
  Tensors tensors;
  Operations operations;
  for (const Fetch& fetch : fetches) {
    PENSTOCK_RETURN_IF_ERROR(ResolveFetch(*graph_, fetch, tensors, operations));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckFeeds(*graph_, feeds));
  PENSTOCK_ASSIGN_OR_RETURN(
      made->plan,
      MakePlan(tensors, operations, feeds, static_cast<int>(devices_.size()), client_->platform()));
  absl::flat_hash_map<const NodeExtra*, int64_t> elements;
  for (const Node* node : made->plan.host_inputs) {
    const auto& source = dynamic_cast<const HostInputSource&>(*node->extra);
    inputs_.Register(source, SeedOf(*node, source.op_seed()));
    made->host_elements.push_back({.element = elements[&source]++});
  }
  for (size_t i = 0; i < made->host_elements.size(); ++i) {
    const auto& source = dynamic_cast<const HostInputSource&>(*made->plan.host_inputs[i]->extra);
    made->host_elements[i].per_step = elements[&source];
  }
  return made;
}

absl::StatusOr<Prepared*> SessionState::Prepare(const Fetches& fetches, const FeedDict& feeds) {
  const size_t hash = HashOf(fetches, feeds);
  for (const auto& known : prepared_[hash]) {
    if (IsFor(*known, fetches, feeds)) return known.get();
  }
  Tensors tensors;
  for (const Feed& feed : feeds) tensors.push_back(feed.first);
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Prepared> made, MakePrepared(fetches, tensors));
  prepared_[hash].push_back(std::move(made));
  return prepared_[hash].back().get();
}

absl::StatusOr<Prepared*> SessionState::Prepare(const Fetches& fetches, const Tensors& feeds) {
  const size_t hash = HashOf(fetches, feeds);
  for (const auto& known : prepared_[hash]) {
    if (IsFor(*known, fetches, feeds)) return known.get();
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Prepared> made, MakePrepared(fetches, feeds));
  prepared_[hash].push_back(std::move(made));
  return prepared_[hash].back().get();
}

// ---- Programs ----

absl::StatusOr<StepGraph> SessionState::Build(const Plan& plan, const FedTypes& fed) {
  const auto evaluate = [&](const ir::Graph& graph) -> absl::StatusOr<Array> {
    PENSTOCK_ASSIGN_OR_RETURN(const ir::Program program, ir::PrintStableHlo(graph));
    const std::string key = ir::TextWithoutLocations(program);
    if (const auto known = constants_.find(key); known != constants_.end()) return known->second;
    PENSTOCK_ASSIGN_OR_RETURN(const auto executable, client_->Compile(program));
    PENSTOCK_ASSIGN_OR_RETURN(const auto results, executable->Execute({{}}));
    PENSTOCK_ASSIGN_OR_RETURN(Array value, results[0][0].Get());
    constants_[key] = value;
    return value;
  };
  return BuildStepGraph(plan, fed, graph_->random_seed().value_or(kDefaultGraphSeed), evaluate);
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> SessionState::Compile(
    const Plan& plan, const ir::Graph& graph, const std::vector<std::pair<int, int>>& donate) {
  PENSTOCK_ASSIGN_OR_RETURN(const ir::Program program, lowering_.Print(graph, {.donate = donate}));
  const base::DelayedCall slow(kSilentSeconds, [&plan] {
    std::fprintf(stderr, "session: the program for%s is still compiling after %d s\n",
                 NamesOf(plan.targets).c_str(), kSilentSeconds);
  });
  return client_->Compile(program);
}

void SessionState::LogCompilation(const Prepared& prepared, const FedTypes& fed) const {
  std::string text =
      absl::StrCat("session: compiling a program for", NamesOf(prepared.plan.targets));
  for (size_t i = 0; i < prepared.plan.feeds.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? ", fed " : ", ", prepared.plan.feeds[i].node()->name, " ",
                    fed[i].ToString());
  }
  absl::StrAppend(&text, prepared.programs.empty() ? " (new fetches or feeds)" : " (new shapes)");
  std::fprintf(stderr, "%s\n", text.c_str());
}

void SessionState::LogShards(const Plan& plan, const StepGraph& step) const {
  const std::string line =
      DescribeShards(plan.nodes, plan.num_replicas, devices_[0].kind, step.shard_rows);
  if (!line.empty()) std::fprintf(stderr, "%s\n", line.c_str());
}

StepProgram* SessionState::FindProgram(std::vector<std::unique_ptr<StepProgram>>& programs,
                                       const std::vector<Array>& fed, int64_t depth) {
  for (size_t i = 0; i < programs.size(); ++i) {
    if (programs[i]->depth != depth || !SameTypes(programs[i]->fed, fed)) continue;
    std::rotate(programs.begin(), programs.begin() + static_cast<int64_t>(i),
                programs.begin() + static_cast<int64_t>(i) + 1);
    return programs[0].get();
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<StepProgram>> SessionState::MakeProgram(
    const Prepared& prepared, const std::vector<Array>& fed) {
  auto program = std::make_unique<StepProgram>();
  for (const Array& value : fed) program->fed.push_back({value.dtype(), value.shape()});
  PENSTOCK_ASSIGN_OR_RETURN(program->step, Build(prepared.plan, program->fed));
  // Before the program is compiled, which takes longer than to find out that it cannot run.
  PENSTOCK_RETURN_IF_ERROR(CheckInitialized(prepared.plan, program->step));
  AddInputPlan(prepared.plan, *program);
  program->arguments.assign(static_cast<size_t>(prepared.plan.num_replicas),
                            runtime::Buffers(program->step.parameters.size()));
  return program;
}

absl::StatusOr<StepProgram*> SessionState::ProgramFor(Prepared& prepared,
                                                      const std::vector<Array>& fed) {
  std::vector<std::unique_ptr<StepProgram>>& programs = prepared.programs;
  if (StepProgram* const known = FindProgram(programs, fed, /*depth=*/0)) return known;
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<StepProgram> program, MakeProgram(prepared, fed));
  if (!program->step.graph->results().empty()) {
    if (log_compilations_) LogCompilation(prepared, program->fed);
    PENSTOCK_ASSIGN_OR_RETURN(program->executable,
                              Compile(prepared.plan, *program->step.graph, program->step.donate));
    LogShards(prepared.plan, program->step);
  }
  program->step.graph = nullptr;
  programs.insert(programs.begin(), std::move(program));
  return programs[0].get();
}

// ---- Variables ----

std::vector<std::string> SessionState::UninitializedVariables() const {
  std::vector<std::string> names;
  const VariableTable* const table =
      graph_ == nullptr ? nullptr : graph_->FindExtension<VariableTable>();
  if (table == nullptr) return names;
  for (const auto& variable : table->all) {
    if (!variables_.Has(variable->index)) names.push_back(variable->name);
  }
  return names;
}

absl::StatusOr<const VariableDef*> SessionState::FindVariable(absl::string_view name) const {
  PENSTOCK_RETURN_IF_ERROR(CheckOpen());
  if (const VariableTable* const table = graph_->FindExtension<VariableTable>()) {
    const auto found = table->by_name.find(name);
    if (found != table->by_name.end()) return found->second;
  }
  return absl::NotFoundError(absl::StrCat("the graph has no variable '", name, "'"));
}

absl::StatusOr<Array> SessionState::GetVariableValue(absl::string_view name) const {
  PENSTOCK_ASSIGN_OR_RETURN(const runtime::Buffer buffer, VariableBuffer(name));
  PENSTOCK_ASSIGN_OR_RETURN(const Array value, buffer.Get());
  return value.Clone();  // the caller may write to it, and it may be a view of the variable
}

absl::StatusOr<runtime::Buffer> SessionState::VariableBuffer(absl::string_view name) const {
  PENSTOCK_ASSIGN_OR_RETURN(const VariableDef* variable, FindVariable(name));
  if (variables_.Has(variable->index)) return variables_.On(variable->index);
  return absl::FailedPreconditionError(absl::StrCat("the variable '", name, "' has no value; run ",
                                                    InitializersOf({variable}), " first"));
}

absl::Status SessionState::SetVariableValue(absl::string_view name, const Array& value) {
  PENSTOCK_ASSIGN_OR_RETURN(const VariableDef* variable, FindVariable(name));
  PENSTOCK_ASSIGN_OR_RETURN(const Array checked, CheckFeed(Tensor(variable->handle, 0), value));
  // A copy: the caller may write to the array later, and the device may use its memory.
  const Array own = checked.raw() == value.raw() ? checked.Clone() : checked;
  PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffer buffer, client_->Put(own, devices_[0]));
  variables_.Set(variable->index, {std::move(buffer)});
  return absl::OkStatus();
}

}  // namespace penstock::session
