// State of a session: its client, the values of variables, the programs that it compiled. Internal
// to room session.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "penstock/kernels/kernels.h"
#include "penstock/runtime/client.h"
#include "penstock/session/run/device_variables.h"
#include "penstock/session/run/plan.h"
#include "penstock/session/run/session_inputs.h"
#include "penstock/session/run/step_graph.h"
#include "penstock/session/session.h"

namespace penstock::session {

// A compiled program.
struct StepProgram {
  FedTypes fed;    // what it was compiled for
  StepGraph step;  // without its graph
  // Null if there is nothing to compute.
  std::shared_ptr<runtime::Executable> executable;
  // Arguments of the next execution, kept to reuse their memory.
  std::vector<runtime::Buffers> arguments;
  // The host inputs, and for each parameter its slot in them (-1: it is none).
  InputPlan inputs;
  std::vector<int> slots;
  // Of a loop (loop_graph.h): the extent of its stacks, and its number of steps is one more
  // argument. 0: a single step.
  int64_t depth = 0;
};

// Fetches and feeds, with the programs compiled for them.
struct Prepared {
  std::vector<Fetch> fetches;  // as the caller gave them
  Plan plan;
  // For each of the plan's host inputs, which element it gets of those that a step takes of its
  // source.
  struct HostElement {
    int64_t element = 0, per_step = 1;
  };
  std::vector<HostElement> host_elements;
  // Most recently used first.
  std::vector<std::unique_ptr<StepProgram>> programs;
  std::vector<std::unique_ptr<StepProgram>> loops;
};

// All methods but the constructor require the mutex.
class SessionState {
 public:
  SessionState(absl::string_view target, const ConfigProto& config, Graph* graph);

  std::mutex& mutex() const { return mutex_; }
  const absl::Status& status() const { return status_; }
  Graph* graph() const { return graph_; }
  runtime::Client* client() const { return client_.get(); }
  DeviceVariables& variables() { return variables_; }
  const std::vector<runtime::Device>& devices() const { return devices_; }

  // What was prepared for these fetches and feeds before, or is prepared now. Lives as long as the
  // session.
  absl::StatusOr<Prepared*> Prepare(const Fetches& fetches, const FeedDict& feeds);
  absl::StatusOr<Prepared*> Prepare(const Fetches& fetches, const Tensors& feeds);

  // Runs the plan once; feeds[i] is the value of the plan's feed i. Returns when the results are
  // available.
  absl::StatusOr<std::vector<Array>> Run(Prepared& prepared, absl::Span<const Array> feeds);

  // Runs the plan n times in executions of several steps, fewer times if the data ends; returns the
  // values of the last. `steps_done`, if not null: receives the number of times.
  absl::StatusOr<std::vector<Array>> RunLoop(Prepared& prepared, int64_t n,
                                             absl::Span<const Array> feeds, int64_t* steps_done);

  // Host inputs, for their positions.
  SessionInputs& inputs() { return inputs_; }
  // Position of the next element that a Run will take of the source.
  absl::StatusOr<std::string> PositionOf(HostInputSource& source);

  std::vector<std::string> UninitializedVariables() const;
  absl::StatusOr<runtime::Buffer> VariableBuffer(absl::string_view name) const;
  absl::StatusOr<Array> GetVariableValue(absl::string_view name) const;
  absl::Status SetVariableValue(absl::string_view name, const Array& value);
  void SetRandomDraws(uint32_t draws) {
    draws_.clear();
    first_draw_ = draws;
  }

  // Frees everything on the devices; later calls fail.
  void Close();

  // ---- For the parts of a Run ----
  // An error if the session cannot run: it is closed, its devices or the graph have errors.
  absl::Status CheckOpen() const;
  // `value` as a feed of `tensor`: numbers are converted, the shape is checked.
  static absl::StatusOr<Array> CheckFeed(const Tensor& tensor, const Array& value);
  // Appends the outputs of the plan's host inputs in step `step` from now; they are taken later.
  absl::Status PeekHostInputs(const Prepared& prepared, std::vector<Array>& fed, int64_t step = 0);
  absl::Status RunHostEffects(const Plan& plan);
  absl::Status CheckInitialized(const Plan& plan, const StepGraph& step) const;
  // The argument of kRandom; counts a draw by each of the plan's random operations.
  Array DrawSeeds(const Plan& plan, uint32_t draws = 1);
  absl::StatusOr<StepGraph> Build(const Plan& plan, const FedTypes& fed);
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(
      const Plan& plan, const ir::Graph& graph, const std::vector<std::pair<int, int>>& donate);
  // Puts a value on the devices, as an argument of each; in slices, each gets its rows only.
  absl::Status PutArgument(const Array& value, bool sliced, size_t parameter,
                           std::vector<runtime::Buffers>& arguments);

 private:
  absl::Status Open(absl::string_view target, const ConfigProto& config);
  absl::StatusOr<std::unique_ptr<Prepared>> MakePrepared(const Fetches& fetches,
                                                         const Tensors& feeds);
  absl::StatusOr<StepProgram*> ProgramFor(Prepared& prepared, const std::vector<Array>& fed);
  // Programs for fed values of these types: the first one moves to the front.
  static StepProgram* FindProgram(std::vector<std::unique_ptr<StepProgram>>& programs,
                                  const std::vector<Array>& fed, int64_t depth);
  absl::StatusOr<StepProgram*> LoopFor(Prepared& prepared, const std::vector<Array>& fed,
                                       int64_t depth);
  // Builds the program's graph, without compiling it.
  absl::StatusOr<std::unique_ptr<StepProgram>> MakeProgram(const Prepared& prepared,
                                                           const std::vector<Array>& fed);
  static void AddInputPlan(const Plan& plan, StepProgram& program);
  absl::Span<const runtime::Device> ReplicaDevices(const Plan& plan) const {
    return absl::MakeConstSpan(devices_).subspan(0, static_cast<size_t>(plan.num_replicas));
  }
  absl::Status ConvertFeeds(const Plan& plan, absl::Span<const Array> feeds,
                            std::vector<Array>& fed);
  // `steps`: 0 for a program of a single step.
  absl::Status FillArguments(const Plan& plan, StepProgram& program, const std::vector<Array>& fed,
                             const StagedInputs& staged, int64_t steps);
  absl::StatusOr<std::vector<Array>> Execute(const Plan& plan, StepProgram& program,
                                             const std::vector<Array>& fed,
                                             const StagedInputs& staged, int64_t steps);
  // Run and RunLoop, with the converted feeds in fed_. RunLoopOnce: one execution of at most
  // `steps` steps; returns their number.
  absl::StatusOr<std::vector<Array>> RunOnce(Prepared& prepared);
  absl::StatusOr<int64_t> RunLoopOnce(Prepared& prepared, int64_t depth, int64_t steps,
                                      std::vector<Array>& fetched);
  absl::Status ReadResults(const Plan& plan, const StepProgram& program,
                           const std::vector<runtime::Buffers>& results,
                           const std::vector<Array>& fed, std::vector<Array>& fetched);
  absl::Status StoreAssigned(const Plan& plan, const StepProgram& program,
                             std::vector<runtime::Buffers>& results, const std::vector<Array>& fed);
  absl::StatusOr<const VariableDef*> FindVariable(absl::string_view name) const;
  absl::Status Lost(const StepProgram& program, const absl::Status& error);
  uint64_t SeedOf(const Node& node, std::optional<uint64_t> op_seed) const;
  void LogCompilation(const Prepared& prepared, const FedTypes& fed) const;
  // Says how many shards the program really has, if it has any.
  void LogShards(const Plan& plan, const StepGraph& step) const;

  mutable std::mutex mutex_;  // protects everything below that is not constant
  absl::Status status_;       // of opening; constant afterwards
  Graph* graph_;              // constant
  bool closed_ = false;
  std::shared_ptr<runtime::Client> client_;
  kernels::Lowering lowering_;
  bool log_compilations_ = false;
  DeviceVariables variables_;
  std::vector<runtime::Device> devices_;
  absl::flat_hash_map<size_t, std::vector<std::unique_ptr<Prepared>>> prepared_;  // by hash
  SessionInputs inputs_;
  absl::flat_hash_map<const Node*, uint32_t> draws_;
  uint32_t first_draw_ = 0;                            // of operations without an entry in draws_
  absl::flat_hash_map<std::string, Array> constants_;  // by the text of their programs
  uint64_t session_seed_;
  // Of the current Run, kept to reuse their memory.
  std::vector<Array> fed_;
};

}  // namespace penstock::session
