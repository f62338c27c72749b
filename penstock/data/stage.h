// Stage: the interface of custom and built-in stages of a Dataset. A stage is one .cc with three
// things: the description (a Stage), its implementation (a Node, or a RowKernel: see row_stage.h),
// and the method of Dataset that adds it. No other code refers to it.
//
//   class TakeStage : public Stage { ... };       // name, parameters, output spec, MakeNode
//   class TakeNode : public Node { ... };         // DoNext
//   Dataset Dataset::Take(int64_t count) const { return Then(std::make_shared<TakeStage>(count)); }
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/trace.h"
#include "penstock/data/engine/engine.h"
#include "penstock/data/engine/memory_budget.h"
#include "penstock/data/engine/rows.h"
#include "penstock/data/engine/tuner.h"
#include "penstock/data/iterator.h"
#include "penstock/data/spec.h"

namespace penstock::io {
class FileSystem;
}

namespace penstock::data {

class FusedKernels;
struct NodeContext;

struct HostShard;

class StageFields;

struct ResolveContext {
  std::shared_ptr<io::FileSystem> file_system = {};
  // Whether SourceFingerprint includes what takes time to find: the versions of files in object
  // stores (by listings) and the whole contents of arrays. Fingerprints of caches do not.
  bool exact = false;
};

// Counters of one stage, the source of StageStats. Thread-safe.
struct StageCounters {
  std::atomic<int64_t> elements = 0;  // number of elements that left the stage
  std::atomic<int64_t> bytes = 0;     // bytes of the elements that the stage made
  std::atomic<int64_t> busy_ns = 0;   // summed over threads
  std::atomic<int64_t> wait_input_ns = 0;
  std::atomic<int64_t> backpressure_ns = 0;
  std::atomic<int64_t> full = 0;     // number of times that prefetch stopped at a full queue
  std::atomic<int64_t> skipped = 0;  // number of elements skipped because of an error
  // As in StageStats, set by the stage's node.
  std::atomic<StageWork> work = StageWork::kDriver;
  std::atomic<int64_t> parallelism = 1;
  std::atomic<int64_t> prefetch_limit = -1;
  std::atomic<const char*> prefetch_unit = "";

  static constexpr size_t kMaxMessages = 5;
  void AddSkipped(const absl::Status& status);        // called by Engine::SkipElement
  std::vector<std::string> skipped_messages() const;  // the first few

  // Sets advice that would make the stage faster; later calls have no effect.
  void SetHint(std::string hint);
  std::string hint() const;

  static void AddSeconds(std::atomic<int64_t>& counter, double seconds) {
    counter.fetch_add(static_cast<int64_t>(seconds * 1e9), std::memory_order_relaxed);
  }

  // Records work of this thread on the stage's elements from `begin` to `end`: counts it and traces
  // it.
  void AddBusy(double begin, double end) {
    AddSeconds(busy_ns, end - begin);
    TraceSpan(begin, end);
  }
  // Shortest work that is traced, in seconds.
  static constexpr double kShortestTraced = 10e-6;
  void TraceSpan(double begin, double end);
  // Enables tracing. Called before any work is done; `trace` may be null.
  void TraceTo(base::Trace* trace, absl::string_view name) {
    trace_ = trace;
    name_ = std::string(name);
  }
  const std::string& name() const { return name_; }  // the stage's name, for errors and traces

 private:
  base::Trace* trace_ = nullptr;
  std::string name_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::string> messages_;
  std::string hint_;
};

// Marks `status` as a recoverable error, which is the error of one element, and prepends "origin:
// stage: " to its message: the node that returned it continues with the next element when called
// again. IgnoreErrors skips such elements; every other error ends the iterator. Exhausted memory
// (base::IsOutOfMemory) is never recoverable: the status gets the text, but not the mark.
absl::Status RecoverableError(const absl::Status& status, absl::string_view origin,
                              absl::string_view stage);
bool IsRecoverable(const absl::Status& status);
// The report of the element that such an error belongs to.
SkippedElement DescribeSkipped(const absl::Status& status);
// The error without the mark, as readers receive it.
absl::Status WithoutRecoverableMark(absl::Status status);

// Description of a stage. Immutable, shared by datasets and iterators.
class Stage {
 public:
  virtual ~Stage() = default;

  virtual absl::string_view name() const = 0;  // name of Dataset's method: "Shuffle"
  // Parameters as in source code: "2048, seed=1". Part of the pipeline's fingerprint, so everything
  // that determines the order of elements must be printed.
  virtual std::string Parameters() const = 0;
  // Columns of its elements, given its inputs'. Checks the parameters; called once, when described.
  virtual absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const = 0;
  virtual absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const = 0;

  // Whether the stage is a selection: it only picks and reorders elements of its one input, without
  // reading them (Shuffle, Take, Shard, ...). Row stages may then run after it (engine/plan.h).
  virtual bool is_selection() const { return false; }
  // Columns that a selecting stage reads (Filter's predicate). Row stages that make none of them
  // run after it; those that make one are fused into it (NodeContext::kernels).
  virtual std::optional<std::vector<std::string>> predicate_columns(const ElementSpec&) const {
    return std::nullopt;
  }
  // It takes stages that make one element of each into itself (NodeContext::kernels).
  virtual bool runs_fused_kernels() const { return false; }
  // The stage for one of several hosts that share each of its batches; null: it does not make
  // batches.
  virtual std::shared_ptr<const Stage> ForHost(const HostShard&) const { return nullptr; }
  // Whether it may follow batches that are shared by several hosts: which elements it returns must
  // not depend on their contents, so that all hosts get the same number of batches.
  virtual bool may_follow_host_shard() const { return is_selection(); }
  // Whether its output depends on the number of its input's elements: Repeat continues after them,
  // Shuffle draws from all that are left. Only for stages that may follow shared batches.
  virtual bool depends_on_length() const { return false; }
  // Number of elements of one pass, given that of its inputs; or kInfiniteCardinality, or
  // kUnknownCardinality, which must not be used in arithmetic (Dataset::Cardinality).
  virtual absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                              const ResolveContext&) const {
    return kUnknownCardinality;
  }
  // Resolves what is looked up once for each iterator, such as a list of files: returns the stage
  // with the result in it. Null: there is nothing to resolve.
  virtual absl::StatusOr<std::shared_ptr<const Stage>> Resolve(const ResolveContext&) const {
    return nullptr;
  }
  // What a resolved stage found, as far as the order of its elements depends on it (files). Part of
  // the iterator state (IteratorState::sources).
  virtual std::string ResolvedSources() const { return ""; }
  // Fingerprint of what its elements are made of besides its parameters, such as the files' names,
  // sizes and modification times: Cache(folder) is rebuilt when it has changed.
  virtual absl::StatusOr<std::string> SourceFingerprint(const ResolveContext&) const {
    return std::string();
  }
  // Difference of the outputs of two passes over the same input or files, for code that computes
  // something once and uses it in every epoch:
  //   kNothing, kOrder   nothing; the order of the elements
  //   kElements          the elements, which are drawn or changed at random
  //   kUnknown           it calls a user-defined function that has no name (CallOf)
  enum class Varies { kNothing, kOrder, kElements, kUnknown };
  virtual Varies varies() const { return Varies::kNothing; }
  // Advice that reduces the memory it reserves, for an error: "a smaller buffer".
  virtual std::string memory_advice() const { return ""; }
  // Number of I/O threads that its jobs use for blocking on storage.
  virtual int io_threads() const { return 0; }
  // Of a source that numbers classes by name; null: it does not.
  virtual const std::vector<std::string>* class_names() const { return nullptr; }

  // Writes its parameters as fields of JSON, from which a reader in its .cc makes it again in another process
  // (travel/stage_fields.h, travel/stage_readers.cc). Unimplemented: it cannot travel; the message follows "stage
  // Map(...) " and says why and what to use instead.
  virtual absl::Status WriteFields(StageFields& out) const;
  // Of a method of Dataset that adds two stages: the second one's name, which the first returns; and whether it is
  // the second one. The first one's fields describe both.
  virtual absl::string_view adds_stage() const { return ""; }
  virtual bool is_added() const { return false; }

  // Cache("worker"): what is upstream of it may be computed in another process, and sent once
  // (cache/uploaded_rows.h).
  virtual bool keeps_rows() const { return false; }
  // Of a stage that stands for stages which run in another process: their number, because stages get their
  // seeds by their numbers, and what Dataset::ToString prints for them.
  virtual int64_t num_stages() const { return 1; }
  virtual const std::string* printed() const { return nullptr; }
  // Of the last stage of a dataset that is a part of a larger one: number of stages before the part's.
  virtual int64_t first_stage() const { return 0; }

  std::string ToString() const;  // "Shuffle(2048, seed=1)"

 protected:
  // varies() of a stage that calls a user-defined function: a name other than the options' default
  // identifies the function, and states that it computes the same in every pass.
  static Varies CallOf(absl::string_view name, absl::string_view default_name = "function") {
    return name == default_name ? Varies::kUnknown : Varies::kNothing;
  }
  // WriteFields of such a stage. `instead`: "use DecodeImage's random_crop".
  static absl::Status HoldsFunction(absl::string_view instead);
};

// Arguments of Stage::MakeNode.
struct NodeContext {
  Engine& engine;
  StageCounters& counters;
  const ElementSpec& spec;                  // columns of the stage's elements
  const ElementSpec* input_spec = nullptr;  // columns of its first input; null for sources
  int64_t epoch = 0;                        // pass over the data
  uint64_t seed = 0;                        // seed of this stage, the same in every epoch
  std::shared_ptr<io::FileSystem> file_system = {};
  // Makes nodes of the stage's inputs; may be called again for another pass.
  int num_inputs = 0;
  std::function<absl::StatusOr<std::unique_ptr<Node>>(int input, int64_t epoch)> make_input;
  // What has to be done to rows on the way (plan.h); null unless the stage runs_fused_kernels.
  std::shared_ptr<const FusedKernels> kernels;
  // Account for the memory that it holds (memory_budget.h).
  MemoryAccount* memory = nullptr;
  std::string stage = {};  // the stage as printed
  // Null: not tuned. Stages inside an Interleave are not tuned individually.
  Tuner* tuner = nullptr;

  // Makes a parameter that the tuner may change while the node runs.
  std::shared_ptr<const Knob> MakeKnob(const KnobOptions& options) const {
    if (tuner == nullptr) return std::make_shared<const Knob>(options);
    return tuner->Get(stage, counters, memory, options);
  }
};

enum class Poll { kReady, kPending, kEnd };

// Node: executes a stage for one pass over the data. Used by one thread at a time
// (engine/engine.h); it never blocks.
class Node {
 public:
  Node(const NodeContext& context, std::unique_ptr<Node> input)
      : engine_(context.engine),
        counters_(context.counters),
        memory_(context.memory),
        input_(std::move(input)) {}
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Appends at least 1 and at most `max_rows` rows to `out`, or returns kPending (then a job in
  // flight will wake the engine), or kEnd (then forever). On error nothing is appended. An
  // error of a single element (IsRecoverable) is returned in that element's position, and the next
  // call continues after it. Stages that count elements count it. If DoNext throws, the error names
  // the stage.
  absl::StatusOr<Poll> Next(int64_t max_rows, RowRefs* out);
  // Skips rows as if Next had returned them, and subtracts them from `*rows`; kReady when it is 0.
  // A failed element counts as one of the rows, and its error is not returned: no reader asked for
  // it (and nodes that skip without computing do not even detect it).
  //
  // After kPending a skip is unfinished: another Skip of at least the remaining rows must follow.
  // Until then the node may be in the middle of an element (a batch of which some rows have been
  // skipped, a Zip whose inputs are at different elements), so Advance does nothing and Next is an
  // error.
  absl::StatusOr<Poll> Skip(int64_t* rows);
  // Called by a Batch before anything else: of every `batch` consecutive rows it will use only
  // those of `host`, so that a source which knows its number of rows need not read the others. Rows
  // keep their positions in the output all the same.
  virtual void SetHostShard(int64_t batch, const HostShard& host) {
    (void)batch;
    (void)host;
  }
  // Prefetches up to its limits. An error is stored for Next. No effect in the middle of a skip.
  void Advance() {
    if (unfinished_skip_ == 0) DoAdvance();
  }
  // Whether the source has (almost) nothing left to read for this pass, so that the next one can
  // begin (Repeat). False if a pass depends on how the previous one ends (Cache).
  virtual bool IsNearEnd() const { return input_ != nullptr && input_->IsNearEnd(); }
  // Called once, before anything else, on the nodes of such a next pass: the source begins to read.
  // Nothing is computed yet.
  virtual void BeginReading() {
    if (input_ != nullptr) input_->BeginReading();
  }

 protected:
  virtual absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) = 0;
  // Overridden by nodes that can skip without computing the rows. An error is never one of a single
  // element.
  virtual absl::StatusOr<Poll> DoSkip(int64_t* rows);
  virtual void DoAdvance() {
    if (input_ != nullptr) input_->Advance();
  }

  // For a node that computed something itself within DoNext and has counted that time.
  void AlreadyCounted(double seconds) { engine_.input_seconds_ += seconds; }

  Engine& engine_;
  StageCounters& counters_;
  MemoryAccount* const memory_;
  std::unique_ptr<Node> input_;

 private:
  absl::StatusOr<Poll> NextCounted(int64_t max_rows, RowRefs* out);

  int64_t unfinished_skip_ = 0;  // rows still to be skipped
};

// Measures the time that a node waits for upstream (its input) or downstream (backpressure).
class WaitMeter {
 public:
  enum State { kNothing, kInput, kDownstream };
  WaitMeter(Engine& engine, StageCounters& counters) : engine_(engine), counters_(counters) {}
  ~WaitMeter() { Set(kNothing); }

  void Set(State state) {
    if (state == state_) return;
    const double now = engine_.Now();
    if (state_ == kInput) StageCounters::AddSeconds(counters_.wait_input_ns, now - since_);
    if (state_ == kDownstream) StageCounters::AddSeconds(counters_.backpressure_ns, now - since_);
    state_ = state;
    since_ = now;
  }

 private:
  Engine& engine_;
  StageCounters& counters_;
  State state_ = kNothing;
  double since_ = 0;
};

}  // namespace penstock::data
