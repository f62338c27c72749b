#include "penstock/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/checked_size.h"
#include "penstock/base/exceptions.h"
#include "penstock/train/fit_run.h"
#include "penstock/train/in_flight.h"
#include "penstock/train/profiler.h"

namespace penstock::train {

namespace {

// Runs before variables are initialized: variables, slots and metric sums are first created on the
// host.
absl::Status CheckStateFits(const StateLayout& layout) {
  constexpr double kGiga = 1e9;
  double bytes = 0, largest_bytes = -1;
  const StateLayout::Entry* largest = nullptr;
  for (const StateLayout::Entry& entry : layout.entries) {
    const std::optional<int64_t> size = base::CheckedBytes(entry.type.dtype, entry.type.shape);
    if (!size.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("'", entry.name, "' would be ",
                                                     entry.type.ToString(),
                                                     ", whose number of bytes overflows"));
    }
    bytes += static_cast<double>(*size);
    if (static_cast<double>(*size) > largest_bytes) {
      largest_bytes = static_cast<double>(*size);
      largest = &entry;
    }
  }
  const base::MemoryRoom room = base::AvailableMemory();
  if (largest == nullptr || bytes <= static_cast<double>(room.bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("the model with its optimizer is %.3g GB, the largest array '%s', %s, has "
                      "%.3g GB; %s has only "
                      "%s free",
                      bytes / kGiga, largest->name, largest->type.ToString(), largest_bytes / kGiga,
                      room.limited_by, base::PrintBytes(room.bytes)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(TrainerOptions options) {
  return base::CatchExceptions([&] { return Make(std::move(options)); });
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Make(TrainerOptions options) {
  const Objective& objective = options.objective;
  PENSTOCK_RETURN_IF_ERROR(CheckObjective(objective));
  if (options.steps_per_execution < 0 || options.steps_per_execution > kMostStepsPerExecution) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps_per_execution must be from 1 to ", kMostStepsPerExecution,
                     ", or kAutoSteps (0), got ", options.steps_per_execution));
  }
  auto trainer = std::unique_ptr<Trainer>(new Trainer(std::move(options)));
  const Objective& kept = trainer->options_.objective;
  trainer->report_names_ = ReportNames(kept);
  trainer->layout_ = StateLayout::Make(kept);
  PENSTOCK_RETURN_IF_ERROR(CheckStateFits(trainer->layout_));
  PENSTOCK_ASSIGN_OR_RETURN(
      const NamedArrays state,
      InitialState(trainer->layout_, kept.network, kept.optimizer, trainer->options_.seed));
  PENSTOCK_RETURN_IF_ERROR(trainer->SetState(state));
  return trainer;
}

Trainer::~Trainer() = default;

absl::StatusOr<std::shared_ptr<runtime::Executable>> Trainer::Compile(
    std::vector<Compiled>& kept, const BatchTypes& types,
    absl::Span<const std::shared_ptr<Callback>> callbacks, base::Trace* trace, const Print& print) {
  for (const Compiled& c : kept) {
    if (c.types == types) return c.executable;
  }
  base::Trace::Span printing(trace, "build and print a program");
  PENSTOCK_ASSIGN_OR_RETURN(const ir::Program program, print());
  printing.End();
  runtime::CompileOptions compile;
  for (int r = 0; r < strategy().num_replicas(); ++r)
    compile.devices.push_back(strategy().device(r).index);
  std::string why = compile_history_.Add(program, compile);
  if (!kept.empty() && kept.back().types.depth != types.depth) {
    why = absl::StrCat("steps_per_execution is auto, and one step at a time leaves the devices ",
                       "waiting: up to ", types.depth, " steps are one execution now");
  }
  for (const auto& callback : callbacks) {
    if (!why.empty()) callback->Recompiling(program.name, why);
    callback->Compiling(program.name, true);
  }
  const double began = trace != nullptr ? trace->Now() : 0;
  auto executable = strategy().client().Compile(program, compile);
  if (trace != nullptr) {
    const bool loaded = executable.ok() && (*executable)->from_cache();
    trace->Add(absl::StrCat(loaded ? "load " : "compile ", program.name,
                            loaded ? " from the compile cache" : ""),
               began, trace->Now());
  }
  for (const auto& callback : callbacks) callback->Compiling(program.name, false);
  if (!executable.ok()) {
    const runtime::BatchMemory batch = MemoryOf(types, /*with_state=*/true);
    return base::WithContext(runtime::AdviseBatch(executable.status(), batch),
                             absl::StrCat("compiling ", program.name));
  }
  if (options_.check_memory) {
    const runtime::MemoryRoom room = strategy().client().FreeMemory(strategy().device(0));
    PENSTOCK_RETURN_IF_ERROR(
        runtime::CheckMemory(**executable, room, MemoryOf(types, /*with_state=*/false)));
  }
  kept.push_back({types, *executable});
  return *executable;
}

// What does not grow with the batch: the state, which is on the device before the step, and a
// gradient of each variable.
runtime::BatchMemory Trainer::MemoryOf(const BatchTypes& types, bool with_state) const {
  runtime::BatchMemory batch;
  batch.examples = types.inputs[0].shape.dim(0) * strategy().num_replicas();
  for (int i = 0; i < layout_.size(); ++i) {
    const ir::TensorType& type = layout_.entries[i].type;
    const int64_t bytes = type.shape.num_elements() * base::ByteWidth(type.dtype);
    if (i < layout_.num_variables) batch.fixed_bytes += bytes;
    if (with_state) batch.fixed_bytes += bytes;
  }
  return batch;
}

const std::vector<Target>* Trainer::TargetsToCheck() const {
  return objective().custom.has_value() ? nullptr : &objective().targets;
}

std::vector<std::string> Trainer::Advice() const {
  if (objective().custom.has_value()) return {};
  // The network once more, on rows that nobody computes.
  ir::Graph graph("advice");
  ir::Values variables, inputs;
  for (const nn::VariableSpec& v : objective().network.variables()) {
    variables.push_back(graph.Parameter(v.type, v.name));
  }
  for (const auto& port : objective().network.inputs()) {
    ir::TensorType type = port.type;
    type.shape.set_dim(0, 2);
    inputs.push_back(graph.Parameter(type, port.name));
  }
  const auto outputs = objective().network.Apply({.graph = &graph}, variables, inputs).outputs;
  std::vector<std::string> advice;
  for (size_t t = 0; t < outputs.size(); ++t) {
    const std::string text = objective().targets[t].loss.Advice(outputs[t]);
    if (!text.empty()) advice.push_back(text);
  }
  return advice;
}

Logs Trainer::LogsOf(const Array& report) const {
  const float* numbers = report.data<float>();
  Logs logs;
  for (size_t i = 0; i < report_names_.size(); ++i) logs.Set(report_names_[i], numbers[i]);
  return logs;
}

absl::StatusOr<std::vector<runtime::Buffers>> Trainer::ZeroMetrics() const {
  std::vector<runtime::Buffers> zeros(strategy().num_replicas());
  for (int r = 0; r < strategy().num_replicas(); ++r) {
    for (int i = layout_.first_metric; i < layout_.size(); ++i) {
      const ir::TensorType& type = layout_.entries[i].type;
      PENSTOCK_ASSIGN_OR_RETURN(
          zeros[r].emplace_back(),
          strategy().client().Put(Array::Zeros(type.dtype, type.shape), strategy().device(r)));
    }
  }
  return zeros;
}

absl::StatusOr<History> Trainer::Fit(const data::Dataset& dataset, const FitOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckFitOptions(options));
  if (fitting_.exchange(true)) {
    return absl::FailedPreconditionError(
        "Fit was called while another Fit of the same model is running, in another thread or in a "
        "callback of it; wait until it has returned");
  }
  struct Ended {
    std::atomic<bool>& fitting;
    ~Ended() { fitting = false; }
  } const ended{fitting_};
  return base::CatchExceptions([&]() -> absl::StatusOr<History> {
    FitRun run(*this, dataset, options);
    return run.Go();
  });
}

absl::StatusOr<Logs> Trainer::Evaluate(const data::Dataset& dataset, const ReadOptions& read) {
  return base::CatchExceptions([&] { return EvaluateWith(dataset, read, {}, nullptr); });
}

absl::StatusOr<Logs> Trainer::EvaluateWith(const data::Dataset& dataset, const ReadOptions& read,
                                           absl::Span<const std::shared_ptr<Callback>> callbacks,
                                           Profiler* profiler) {
  base::Trace* const trace = profiler != nullptr ? profiler->trace() : nullptr;
  data::IteratorOptions iterate{.pool = read.pool,
                                .file_system = read.file_system,
                                .seed = options_.seed,
                                .deterministic = read.deterministic,
                                .trace = trace};
  if (trace != nullptr) iterate.clock = options_.clock;
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator(iterate));
  Feed feed(std::move(iterator), objective().network, strategy(),
            {.columns = options_.columns, .targets = TargetsToCheck(), .trace = trace});
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<runtime::Buffers> metrics, ZeroMetrics());
  const size_t num_metrics = metrics[0].size();
  InFlight in_flight;
  Array report;
  const auto take = [&]() -> absl::Status {
    base::Trace::Span waiting(trace, "wait for the devices");
    PENSTOCK_ASSIGN_OR_RETURN(const InFlight::Step step, in_flight.Take());
    waiting.End();
    if (profiler != nullptr) profiler->Executed("evaluate_step", step, -1);
    report = step.report;
    return absl::OkStatus();
  };
  for (;;) {
    PENSTOCK_ASSIGN_OR_RETURN(std::optional<DeviceBatch> batch, feed.Next());
    if (!batch.has_value()) break;
    PENSTOCK_ASSIGN_OR_RETURN(
        auto executable, Compile(evaluate_steps_, batch->types, callbacks, trace, [&] {
          return EvaluateStep(objective(), layout_, batch->types, strategy().num_replicas(),
                              strategy().lowering());
        }));
    std::vector<runtime::Buffers> arguments = metrics;
    for (int r = 0; r < strategy().num_replicas(); ++r) {
      const runtime::Buffers& state = state_.replicas()[r];
      arguments[r].insert(arguments[r].end(), state.begin(), state.begin() + layout_.num_variables);
      arguments[r].insert(arguments[r].end(), batch->replicas[r].begin(), batch->replicas[r].end());
    }
    std::shared_ptr<IdleMeter::Execution> execution;
    if (trace != nullptr) {
      execution = std::make_shared<IdleMeter::Execution>(options_.clock, trace->Now());
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<runtime::Buffers> results,
                              executable->Execute(arguments));
    for (int r = 0; r < strategy().num_replicas(); ++r) {
      metrics[r].assign(results[r].begin(), results[r].begin() + num_metrics);
    }
    PENSTOCK_RETURN_IF_ERROR(in_flight.Add(results[0].back(), *std::move(batch),
                                           std::move(arguments), std::move(execution)));
    for (size_t r = 1; trace != nullptr && r < results.size(); ++r) {
      PENSTOCK_RETURN_IF_ERROR(in_flight.Watch(results[r].back()));
    }
    while (in_flight.full()) PENSTOCK_RETURN_IF_ERROR(take());
  }
  while (!in_flight.empty()) PENSTOCK_RETURN_IF_ERROR(take());
  if (!report.valid())
    return absl::InvalidArgumentError("there is nothing to evaluate: the dataset is empty");
  return LogsOf(report);
}

namespace {

// Rows of several batches, one after the other.
Array JoinRows(const std::vector<Array>& parts) {
  int64_t rows = 0;
  for (const Array& part : parts) rows += part.dim(0);
  Array out = Array::Uninitialized(parts[0].dtype(), parts[0].shape().RowShape().Prepend(rows));
  char* to = static_cast<char*>(out.mutable_raw());
  for (const Array& part : parts) {
    std::memcpy(to, part.raw(), part.num_bytes());
    to += part.num_bytes();
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<Array>> Trainer::Predict(const data::Dataset& dataset,
                                                    const ReadOptions& read) {
  return base::CatchExceptions([&] { return PredictRows(dataset, read); });
}

absl::StatusOr<std::vector<Array>> Trainer::PredictRows(const data::Dataset& dataset,
                                                        const ReadOptions& read) {
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator({.pool = read.pool,
                                                                 .file_system = read.file_system,
                                                                 .seed = options_.seed}));
  Feed feed(std::move(iterator), objective().network, strategy(),
            {.columns = options_.columns, .with_labels = false});
  const size_t num_outputs = objective().network.outputs().size();
  std::vector<std::vector<Array>> parts(num_outputs);
  struct Pending {
    std::vector<runtime::Buffers> results;
    int64_t examples;
  };
  std::deque<Pending> pending;
  const auto take = [&]() -> absl::Status {
    const Pending next = std::move(pending.front());
    pending.pop_front();
    int64_t left = next.examples;
    for (const runtime::Buffers& replica : next.results) {
      int64_t rows = 0;
      for (size_t i = 0; i < num_outputs; ++i) {
        PENSTOCK_ASSIGN_OR_RETURN(const Array whole, replica[i].Get());
        rows = std::min(left, whole.dim(0));
        parts[i].push_back(whole.Slice(0, rows));
      }
      left -= rows;
    }
    return absl::OkStatus();
  };
  for (;;) {
    PENSTOCK_ASSIGN_OR_RETURN(std::optional<DeviceBatch> batch, feed.Next());
    if (!batch.has_value()) break;
    PENSTOCK_ASSIGN_OR_RETURN(
        auto executable, Compile(predict_steps_, batch->types, {}, nullptr, [&] {
          return PredictStep(objective(), batch->types.inputs, strategy().num_replicas(),
                             strategy().lowering());
        }));
    std::vector<runtime::Buffers> arguments(strategy().num_replicas());
    for (int r = 0; r < strategy().num_replicas(); ++r) {
      const runtime::Buffers& state = state_.replicas()[r];
      arguments[r].assign(state.begin(), state.begin() + layout_.num_variables);
      arguments[r].insert(arguments[r].end(), batch->replicas[r].begin(), batch->replicas[r].end());
    }
    PENSTOCK_ASSIGN_OR_RETURN(auto results, executable->Execute(arguments));
    pending.push_back({std::move(results), batch->examples});
    if (pending.size() > InFlight::kLimit) PENSTOCK_RETURN_IF_ERROR(take());
  }
  while (!pending.empty()) PENSTOCK_RETURN_IF_ERROR(take());
  std::vector<Array> outputs;
  for (const auto& list : parts) {
    if (list.empty())
      return absl::InvalidArgumentError("there is nothing to predict: the dataset is empty");
    outputs.push_back(JoinRows(list));
  }
  return outputs;
}

absl::StatusOr<NamedArrays> Trainer::Weights() const {
  return state_.Get(layout_, 0, layout_.num_variables);
}

absl::StatusOr<double> Trainer::LearningRate() const {
  const int entry = layout_.learning_rate;
  if (entry < 0) {
    return absl::FailedPreconditionError(
        "the learning rate is a schedule's, which each step reckons by itself; give the optimizer "
        "a number to see or set it");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays rate, state_.Get(layout_, entry, entry + 1));
  return rate.Find(layout_.entries[entry].name)->data<float>()[0];
}

absl::Status Trainer::SetLearningRate(double rate) {
  PENSTOCK_RETURN_IF_ERROR(LearningRate().status());
  if (!(rate >= 0) || !std::isfinite(rate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a learning rate is a number from 0 on, got ", rate));
  }
  return state_.Set(layout_, strategy(), layout_.learning_rate,
                    Array::Scalar(static_cast<float>(rate)));
}

absl::StatusOr<NamedArrays> Trainer::State() const {
  return state_.Get(layout_, 0, layout_.size());
}

absl::Status Trainer::SetState(const NamedArrays& state) {
  PENSTOCK_ASSIGN_OR_RETURN(state_, DeviceState::Put(layout_, strategy(), state));
  return absl::OkStatus();
}

namespace {

bool FitsVariable(const Array& array, const ir::TensorType& type) {
  const bool both_float = base::IsFloat(array.dtype()) && base::IsFloat(type.dtype);
  return array.shape() == type.shape && (array.dtype() == type.dtype || both_float);
}

}  // namespace

namespace {

bool SameBytes(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.num_bytes()) == 0;
}

// Maps weights to the names of the network's variables. A shared layer's weights may come under the
// names of its other paths, too, or instead: in older versions each path had its own variables.
absl::StatusOr<NamedArrays> ByVariable(const nn::Network& network, const NamedArrays& given) {
  const auto is_variable = [&](const auto& entry) {
    return network.VariableName(entry.first) == entry.first;
  };
  if (std::all_of(given.begin(), given.end(), is_variable)) return given;
  NamedArrays weights;
  for (const auto& [name, array] : given) {
    const std::string variable = network.VariableName(name);
    const Array* other = weights.Find(variable);
    if (other == nullptr) {
      weights.Append(variable, array);
    } else if (!SameBytes(array, *other)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the weights have two different arrays for the variable '", variable,
          "', one of them as '", name,
          "': in this network the layer is shared, so both are one variable. They come from a "
          "network with two separate layers: build that one, or drop one of the two"));
    }
  }
  return weights;
}

}  // namespace

absl::Status Trainer::SetWeights(const NamedArrays& given) {
  // All is checked before anything is changed.
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, ByVariable(objective().network, given));
  std::vector<std::string> missing, superfluous;
  for (int i = 0; i < layout_.num_variables; ++i) {
    const auto& [name, type] = layout_.entries[i];
    const Array* array = weights.Find(name);
    if (array == nullptr) {
      missing.push_back(name);
    } else if (!FitsVariable(*array, type)) {
      return absl::InvalidArgumentError(absl::StrCat("variable '", name, "' is ", type.ToString(),
                                                     " in this network; the weights have ",
                                                     array->TypeString()));
    }
  }
  for (const auto& [name, array] : weights) {
    bool known = false;
    for (int i = 0; i < layout_.num_variables && !known; ++i)
      known = layout_.entries[i].name == name;
    if (!known) superfluous.push_back(name);
  }
  if (!missing.empty() || !superfluous.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "these are not this network's weights: ", missing.size(), " variables have none (",
        absl::StrJoin(missing, ", "), "), ", superfluous.size(), " are of no variable (",
        absl::StrJoin(superfluous, ", "), ")"));
  }
  for (int i = 0; i < layout_.num_variables; ++i) {
    const auto& [name, type] = layout_.entries[i];
    PENSTOCK_ASSIGN_OR_RETURN(const Array array, weights.Find(name)->Cast(type.dtype));
    PENSTOCK_RETURN_IF_ERROR(state_.Set(layout_, strategy(), i, array));
  }
  return absl::OkStatus();
}

}  // namespace penstock::train
