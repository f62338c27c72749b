// What a stage of a Dataset is, for those who write one. A stage is one .cc with three things: the
// description (a Stage), what runs it (a Node, or a RowKernel: see row_stage.h), and the method of
// Dataset that adds it. Nothing else knows of it.
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
#include "penstock/data/engine.h"
#include "penstock/data/iterator.h"
#include "penstock/data/memory_budget.h"
#include "penstock/data/rows.h"
#include "penstock/data/spec.h"
#include "penstock/data/tuner.h"

namespace penstock::io {
class FileSystem;
}

namespace penstock::data {

class RowChain;
struct NodeContext;

struct HostShard;

struct LookUpContext {
  std::shared_ptr<io::FileSystem> file_system = {};
};

// Any thread may add.
struct StageCounters {
  std::atomic<int64_t> elements = 0;  // that left the stage
  std::atomic<int64_t> bytes = 0;     // of them, where the stage makes them
  std::atomic<int64_t> busy_ns = 0;   // summed over threads
  std::atomic<int64_t> wait_input_ns = 0;
  std::atomic<int64_t> wait_room_ns = 0;
  std::atomic<int64_t> full = 0;     // how often it stopped working ahead for want of room
  std::atomic<int64_t> ignored = 0;  // elements left out because of an error
  // As in StageStats, told by the stage's node.
  std::atomic<StageWork> work = StageWork::kPassesOn;
  std::atomic<int64_t> parallelism = 1;
  std::atomic<int64_t> room = -1;
  std::atomic<const char*> room_unit = "";

  static constexpr size_t kMostMessages = 5;
  void AddIgnored(const absl::Status& status);        // Engine::LeaveOut does
  std::vector<std::string> ignored_messages() const;  // the first few

  // What would make the stage faster, once that is known; the first one stays.
  void SetHint(std::string hint);
  std::string hint() const;

  static void AddSeconds(std::atomic<int64_t>& counter, double seconds) {
    counter.fetch_add(static_cast<int64_t>(seconds * 1e9), std::memory_order_relaxed);
  }

  // Work on the stage's elements from `begin` to `end`, by this thread: counted, and traced.
  void AddBusy(double begin, double end) {
    AddSeconds(busy_ns, end - begin);
    TraceSpan(begin, end);
  }
  // What is shorter is not worth its place in a trace.
  static constexpr double kShortestTraced = 10e-6;
  void TraceSpan(double begin, double end);
  // Before any work is done; `trace` may be null.
  void TraceTo(base::Trace* trace, absl::string_view name) {
    trace_ = trace;
    name_ = std::string(name);
  }
  const std::string& name() const { return name_; }  // of the stage, for errors and traces

 private:
  base::Trace* trace_ = nullptr;
  std::string name_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::string> messages_;
  std::string hint_;
};

// An error of one element, "origin: stage: " before its message: the node that returned it
// continues with the next element when called again. IgnoreErrors drops such elements; every other
// error ends the iterator. Exhausted memory (base::IsOutOfMemory) is never the fault of one
// element: the status gets the text, but does not count as an error of one element.
absl::Status OfOneElement(const absl::Status& status, absl::string_view origin,
                          absl::string_view stage);
bool IsOfOneElement(const absl::Status& status);
// What is told of such an element when it is left out.
SkippedElement DescribeSkipped(const absl::Status& status);
// Without the mark, as readers get it.
absl::Status Unmarked(absl::Status status);

// The description. Immutable, shared by datasets and iterators.
class Stage {
 public:
  virtual ~Stage() = default;

  virtual absl::string_view name() const = 0;  // of the method: "Shuffle"
  virtual std::string Parameters() const = 0;  // as one would write them: "2048, seed=1"
  // Of its elements, given its inputs'. Checks the parameters; called once, when described.
  virtual absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const = 0;
  virtual absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const = 0;

  // Its elements are elements of its one input, chosen and ordered without a look at them. What
  // computes elements may then as well be done after it (plan.h).
  virtual bool only_selects() const { return false; }
  // As only_selects, but it looks at these columns (Filter): what makes none of them is done after
  // it, what makes one it takes into itself (NodeContext::chain).
  virtual std::optional<std::vector<std::string>> selects_by(const ElementSpec&) const {
    return std::nullopt;
  }
  // It takes stages that make one element of each into itself (NodeContext::chain).
  virtual bool runs_chain() const { return false; }
  // The stage for one of several machines that share each of its batches; null: it makes none.
  virtual std::shared_ptr<const Stage> OfHost(const HostShard&) const { return nullptr; }
  // Whether it does the same to a machine's rows of batches as it does to the batches: how many
  // elements there are, and which, does not depend on what is in them.
  virtual bool may_follow_shared() const { return only_selects(); }
  // Whether its output depends on the number of its input's elements: Repeat continues after them,
  // Shuffle draws from all that are left. Only for stages that may follow shared batches.
  virtual bool depends_on_length() const { return false; }
  // How many elements one pass gives, given that of its inputs; or kInfiniteCardinality, or
  // kUnknownCardinality, which no arithmetic takes (Dataset::Cardinality).
  virtual absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                              const LookUpContext&) const {
    return kUnknownCardinality;
  }
  // What is looked up once for an iterator, such as a list of files: the stage with the answer in
  // it. Null: there was nothing to look up.
  virtual absl::StatusOr<std::shared_ptr<const Stage>> LookUp(const LookUpContext&) const {
    return nullptr;
  }
  // Of a stage with the answer in it: what it found, as far as the order of its elements depends on
  // it (files). Part of an iterator's state.
  virtual std::string Found() const { return ""; }
  // What its elements are made of besides its parameters, such as which files there are, how large
  // and how old: Cache(folder) makes its elements anew when this has changed.
  virtual absl::StatusOr<std::string> SourceState(const LookUpContext&) const {
    return std::string();
  }
  // What would make it need less memory, for an error: "a smaller buffer".
  virtual std::string memory_advice() const { return ""; }
  // Threads that its jobs want for waiting on storage.
  virtual int io_threads() const { return 0; }

  std::string ToString() const;  // "Shuffle(2048, seed=1)"
};

// What a node is made from.
struct NodeContext {
  Engine& engine;
  StageCounters& counters;
  const ElementSpec& spec;                  // of the stage's elements
  const ElementSpec* input_spec = nullptr;  // of those its first input gives; null for sources
  int64_t epoch = 0;                        // which pass over the data this is
  uint64_t seed = 0;                        // of this stage, the same in every epoch
  std::shared_ptr<io::FileSystem> file_system = {};
  // Nodes of the stage's inputs; may be called again for another pass.
  int num_inputs = 0;
  std::function<absl::StatusOr<std::unique_ptr<Node>>(int input, int64_t epoch)> make_input;
  // What has to be done to rows on the way (plan.h); null unless the stage runs_chain.
  std::shared_ptr<const RowChain> chain;
  // What it holds is charged here (memory_budget.h).
  MemoryAccount* memory = nullptr;
  std::string stage = {};  // as printed
  // Null where nothing is tuned: within an Interleave, which is tuned as one.
  Tuner* tuner = nullptr;

  // A number that may be tuned while the node runs.
  std::shared_ptr<const Knob> MakeKnob(const KnobOptions& options) const {
    if (tuner == nullptr) return std::make_shared<const Knob>(options);
    return tuner->Get(stage, counters, memory, options);
  }
};

enum class Poll { kReady, kPending, kEnd };

// What runs a stage, for one pass. One thread at a time (engine.h); it never waits.
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
  // flight will wake the engine), or kEnd (then again and again). On error nothing is appended. An
  // error of a single element (IsOfOneElement) is returned in that element's position, and the next
  // call continues after it. Stages that count elements count it. If DoNext throws, the error names
  // the stage.
  absl::StatusOr<Poll> Next(int64_t max_rows, Rows* out);
  // Skips rows as if Next had returned them, and subtracts them from `*rows`; kReady when it is 0.
  // A failed element counts as one of the rows, and its error is not returned: no reader asked for
  // it (and nodes that skip without computing do not even detect it).
  //
  // After kPending a skip is unfinished: another Skip of at least the remaining rows must follow.
  // Until then the node may be in the middle of an element (a batch of which some rows have been
  // skipped, a Zip whose inputs are at different elements), so Advance does nothing and Next is an
  // error.
  absl::StatusOr<Poll> Skip(int64_t* rows);
  // Said by a Batch before all else: of every `batch` rows in turn it will look at those of `host`
  // only, so that a source which knows its number of rows need not read the others. It gives rows
  // in their places all the same.
  virtual void ShareBatches(int64_t batch, const HostShard& host) {
    (void)batch;
    (void)host;
  }
  // Prefetches as far as there is room. An error is stored for Next. No effect in the middle of a
  // skip.
  void Advance() {
    if (unfinished_skip_ == 0) DoAdvance();
  }
  // The source reads nothing more for this pass, or less and less: time to begin with the next one
  // (Repeat). False where a pass depends on how the one before it ends (Cache).
  virtual bool IsNearEnd() const { return input_ != nullptr && input_->IsNearEnd(); }
  // Said once, before all else, to the nodes of such a next pass: the source begins to read.
  // Nothing is computed yet.
  virtual void BeginReading() {
    if (input_ != nullptr) input_->BeginReading();
  }

 protected:
  virtual absl::StatusOr<Poll> DoNext(int64_t max_rows, Rows* out) = 0;
  // Overridden by nodes that can skip without computing the rows. An error is never one of a single
  // element.
  virtual absl::StatusOr<Poll> DoSkip(int64_t* rows);
  virtual void DoAdvance() {
    if (input_ != nullptr) input_->Advance();
  }

  // For a node that computed something itself within DoNext and has counted that.
  void AlreadyCounted(double seconds) { engine_.input_seconds_ += seconds; }

  Engine& engine_;
  StageCounters& counters_;
  MemoryAccount* const memory_;
  std::unique_ptr<Node> input_;

 private:
  absl::StatusOr<Poll> NextCounted(int64_t max_rows, Rows* out);

  int64_t unfinished_skip_ = 0;  // rows still to be skipped
};

// Measures for what a node waits.
class WaitMeter {
 public:
  enum State { kNothing, kInput, kRoom };
  WaitMeter(Engine& engine, StageCounters& counters) : engine_(engine), counters_(counters) {}
  ~WaitMeter() { Set(kNothing); }

  void Set(State state) {
    if (state == state_) return;
    const double now = engine_.Now();
    if (state_ == kInput) StageCounters::AddSeconds(counters_.wait_input_ns, now - since_);
    if (state_ == kRoom) StageCounters::AddSeconds(counters_.wait_room_ns, now - since_);
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
