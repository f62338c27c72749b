#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/engine/plan.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

// The dataset that the function makes of one element, from the job that calls it to the last of its
// rows. It has its own plan, so its stages are planned, resolved and run like those of any dataset.
struct Inner {
  std::atomic<bool> made = false;
  // Accessed by the job until it is done: the plan, or an error.
  absl::Status status;
  std::shared_ptr<const PipelinePlan> plan;
  // Of the nodes.
  std::unique_ptr<Node> node;
};

// Calls the function. Shared by the stage and its jobs.
class InnerMaker {
 public:
  InnerMaker(std::string stage, DatasetFunction function, std::vector<std::string> reads,
             ElementSpec makes)
      : stage_(std::move(stage)),
        function_(std::move(function)),
        reads_(std::move(reads)),
        makes_(std::move(makes)) {}

  absl::StatusOr<ElementSpec> OutputSpec(const ElementSpec& input) const {
    if (function_ == nullptr) return absl::InvalidArgumentError("there is no function");
    for (const std::string& name : reads_) PENSTOCK_RETURN_IF_ERROR(input.Index(name).status());
    return makes_.size() > 0 ? makes_ : input;
  }

  // Of the only row in `element`, whose columns are `input`.
  absl::StatusOr<std::shared_ptr<PipelinePlan>> Make(const RowRefs& element,
                                                     const ElementSpec& input, uint64_t seed,
                                                     const ResolveContext& resolve_context) const {
    const std::string origin = element.OriginOf(0);
    const absl::StatusOr<Dataset> dataset = Call(element, input);
    if (!dataset.ok()) return RecoverableError(dataset.status(), origin, stage_);
    auto plan =
        base::CatchExceptions([&] { return MakePlan(*dataset, input, seed, resolve_context); });
    if (plan.ok()) return plan;
    return base::WithContext(plan.status(), absl::StrCat(origin, ": ", stage_));
  }

 private:
  absl::StatusOr<Dataset> Call(const RowRefs& element, const ElementSpec& input) const {
    const auto [block, row] = element.At(0);
    base::NamedArrays given;
    for (int i = 0; i < input.size(); ++i) {
      const bool reads =
          reads_.empty() || std::find(reads_.begin(), reads_.end(), input[i].name) != reads_.end();
      if (reads) given.Append(input[i].name, block->columns[i].Row(row));
    }
    return base::CatchExceptions([&] { return function_(given); });
  }

  absl::StatusOr<std::shared_ptr<PipelinePlan>> MakePlan(
      const Dataset& dataset, const ElementSpec& input, uint64_t seed,
      const ResolveContext& resolve_context) const {
    PENSTOCK_RETURN_IF_ERROR(dataset.status());
    PENSTOCK_RETURN_IF_ERROR(CheckSpec(dataset.spec(), makes_.size() > 0 ? makes_ : input));
    PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<PipelinePlan> plan,
                              PipelinePlan::Make(dataset.description(), seed, resolve_context));
    return std::shared_ptr<PipelinePlan>(std::move(plan));
  }

  static absl::Status CheckSpec(const ElementSpec& made, const ElementSpec& expected) {
    const auto common = CommonSpec({made, expected});
    if (common.ok() && *common == expected) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the function should make datasets of ", expected.ToString(),
                     " (options.makes), but made one of ", made.ToString()));
  }

  const std::string stage_;
  const DatasetFunction function_;
  const std::vector<std::string> reads_;  // empty: all
  const ElementSpec makes_;               // empty: as the input
};

struct Interleaving {
  int64_t cycle_length;
  int64_t block_length;
  int64_t parallel;  // 0: tuned
};

class InterleaveNode : public Node {
 public:
  InterleaveNode(const NodeContext& context, std::unique_ptr<Node> input, ElementSpec input_spec,
                 std::shared_ptr<const InnerMaker> maker, Interleaving options)
      : Node(context, std::move(input)),
        input_spec_(std::move(input_spec)),
        maker_(std::move(maker)),
        parallel_(ParallelKnob(context, options)),
        block_length_(options.block_length),
        resolve_context_({.file_system = context.file_system}),
        seed_(context.seed),
        epoch_(context.epoch),
        meter_(engine_, counters_),
        slots_(options.cycle_length, Slot{.inner = nullptr, .left = options.block_length}) {
    counters_.work = StageWork::kIo;
    counters_.prefetch_unit = "datasets";
  }

  // The end of the input is not the end of the datasets made from it.
  bool IsNearEnd() const override { return false; }

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    while (*rows > 0) {
      if (engine_.cancelled()) return Poll::kPending;
      MakeAhead();
      int64_t passed = 0;
      const absl::StatusOr<Poll> poll =
          error_.ok() ? Step(*rows, nullptr, &passed) : std::exchange(error_, absl::OkStatus());
      *rows -= passed;
      if (!poll.ok() && IsRecoverable(poll.status())) {
        --*rows;
        continue;
      }
      if (!poll.ok() || *poll != Poll::kReady) return poll;
    }
    return Poll::kReady;
  }

  void DoAdvance() override {
    MakeAhead();
    counters_.prefetch_limit = counters_.parallelism = parallel_->value();
    int64_t left = parallel_->value();
    for (size_t i = 0; i < slots_.size() && left > 0; ++i) {
      Slot& slot = slots_[(turn_ + i) % slots_.size()];
      if (slot.inner == nullptr) continue;
      if (i > 0 && !CanReadAhead())
        return input_->Advance();  // the slot whose turn it is always continues
      const Engine::JobOwnerScope keep(engine_, slot.inner->plan);
      slot.inner->node->Advance();
      --left;
    }
    for (size_t i = 0; i < upcoming_.size() && left > 0 && CanReadAhead(); ++i) {
      Inner& inner = *upcoming_[i];
      if (!inner.made || !Begin(inner).ok()) continue;
      const Engine::JobOwnerScope keep(engine_, inner.plan);
      inner.node->Advance();
      --left;
    }
    input_->Advance();
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    if (!error_.ok()) return std::exchange(error_, absl::OkStatus());
    DoAdvance();
    int64_t rows = 0;
    size_t waiting = 0;  // consecutive slots that were not ready
    while (rows < max_rows && (waiting == 0 || waiting < slots_.size())) {
      const absl::StatusOr<Poll> poll = Step(max_rows - rows, out, &rows);
      if (!poll.ok()) {
        if (rows == 0) return poll;
        error_ = poll.status();  // these first
        break;
      }
      if (*poll == Poll::kEnd) break;
      waiting = *poll == Poll::kPending ? waiting + 1 : 0;
      if (waiting == 0) continue;
      Slot& slot = slots_[turn_];
      if (!engine_.MayReorder(slot.overtaken + slot.passed)) break;
      ++slot.passed;
      NextTurn();
    }
    for (Slot& slot : slots_) {
      if (rows > 0) slot.overtaken += slot.passed;  // otherwise nothing overtook it
      slot.passed = 0;
    }
    meter_.Set(rows == 0 && waiting > 0 ? WaitMeter::kInput : WaitMeter::kNothing);
    if (rows > 0) return Poll::kReady;
    return slots_.empty() ? Poll::kEnd : Poll::kPending;
  }

 private:
  // One of the datasets that are interleaved.
  struct Slot {
    std::shared_ptr<Inner> inner;  // null: waits for the next dataset
    int64_t left;                  // remaining elements of this turn
    int overtaken = 0;             // number of times that others came before its turn
    int passed = 0;                // number of times it was overtaken in this call
  };

  static std::shared_ptr<const Knob> ParallelKnob(const NodeContext& context,
                                                  const Interleaving& options) {
    const int64_t all = options.cycle_length + 1;
    if (options.parallel > 0) {
      return std::make_shared<const Knob>(
          KnobOptions{.what = "", .initial = std::min(options.parallel, all)});
    }
    return context.MakeKnob({.what = "datasets prefetched", .initial = all, .max = 2 * all});
  }

  // Size of one dataset more than those that are read: the average that these hold.
  bool CanReadAhead() const {
    return memory_->CanReadAhead(memory_->charged() / std::max<int64_t>(num_read_, 1));
  }

  // Starts to make the datasets of the next elements.
  void MakeAhead() {
    const size_t room = static_cast<size_t>(std::max<int64_t>(1, parallel_->value() - num_read_));
    while (upcoming_.size() < room && !input_ended_ && !input_failed_) {
      auto element = std::make_shared<RowRefs>();
      const absl::StatusOr<Poll> poll = input_->Next(1, element.get());
      if (!poll.ok()) {
        // Its turn comes after the preceding elements.
        auto failed = std::make_shared<Inner>();
        failed->status = poll.status();
        failed->made = true;
        upcoming_.push_back(std::move(failed));
        input_failed_ = true;
        return;
      }
      if (*poll == Poll::kPending) return;
      if (*poll == Poll::kEnd) {
        input_ended_ = true;
        return;
      }
      upcoming_.push_back(MakeInner(std::move(element)));
    }
  }

  std::shared_ptr<Inner> MakeInner(std::shared_ptr<const RowRefs> element) {
    auto inner = std::make_shared<Inner>();
    engine_.Io([inner, element = std::move(element), maker = maker_, input_spec = input_spec_,
                resolve_context = resolve_context_, seed = base::MixSeeds(seed_, next_++),
                &engine = engine_, &counters = counters_] {
      const double begin = engine.Now();
      auto plan = maker->Make(*element, input_spec, seed, resolve_context);
      counters.AddBusy(begin, engine.Now());
      if (plan.ok()) {
        (*plan)->TraceTo(engine.trace());
        inner->plan = *std::move(plan);
      } else {
        inner->status = plan.status();
      }
      inner->made = true;
      engine.Wake();
    });
    return inner;
  }

  // Makes the nodes, unless they are there.
  absl::Status Begin(Inner& inner) {
    if (inner.node != nullptr || !inner.status.ok()) return inner.status;
    const Engine::JobOwnerScope keep(engine_, inner.plan);
    auto node = inner.plan->MakeRoot(engine_, epoch_, memory_);
    if (!node.ok()) return inner.status = node.status();
    inner.node = *std::move(node);
    return absl::OkStatus();
  }

  // One step of the slot whose turn it is: appends at most `max_rows` of its elements to `out`
  // (skips them if it is null) and adds their number to `*rows`, or replaces the slot's dataset, or
  // moves to the next slot.
  absl::StatusOr<Poll> Step(int64_t max_rows, RowRefs* out, int64_t* rows) {
    if (slots_.empty()) return Poll::kEnd;
    Slot& slot = slots_[turn_];
    if (slot.inner == nullptr) return FillSlot();
    absl::StatusOr<Poll> poll =
        Take(*slot.inner, std::min(max_rows, slot.left), out, [&](int64_t n) {
          *rows += n;
          slot.left -= n;
          if (n > 0) slot.overtaken = slot.passed = 0;
        });
    if (!poll.ok()) {
      // A failed element counts toward block_length.
      if (IsRecoverable(poll.status()) && --slot.left == 0) NextTurn();
      return poll;
    }
    if (*poll == Poll::kEnd) {
      slot.inner = nullptr;
      --num_read_;
      MakeAhead();
    }
    if (*poll == Poll::kEnd || slot.left == 0) {
      NextTurn();
      return Poll::kReady;
    }
    return poll;
  }

  template <typename Count>
  absl::StatusOr<Poll> Take(Inner& inner, int64_t max_rows, RowRefs* out, Count count) {
    const Engine::JobOwnerScope keep(engine_, inner.plan);
    if (out == nullptr) {
      int64_t left = max_rows;
      absl::StatusOr<Poll> poll = inner.node->Skip(&left);
      count(max_rows - left);
      return poll;
    }
    const int64_t before = out->size();
    absl::StatusOr<Poll> poll = inner.node->Next(max_rows, out);
    count(out->size() - before);
    return poll;
  }

  // Begins the next dataset; removes the slot if there is none.
  absl::StatusOr<Poll> FillSlot() {
    if (upcoming_.empty()) MakeAhead();
    if (upcoming_.empty() && input_ended_) {
      slots_.erase(slots_.begin() + turn_);
      if (slots_.empty()) return Poll::kEnd;
      turn_ %= slots_.size();
      slots_[turn_].left = block_length_;
      return Poll::kReady;
    }
    const auto end = engine_.MayReorder(overtaken_) || upcoming_.empty() ? upcoming_.end()
                                                                         : upcoming_.begin() + 1;
    const auto it =
        std::find_if(upcoming_.begin(), end, [](const auto& inner) { return inner->made.load(); });
    if (it == end) return Poll::kPending;
    overtaken_ = it == upcoming_.begin() ? 0 : overtaken_ + 1;
    const std::shared_ptr<Inner> inner = std::move(*it);
    upcoming_.erase(it);
    if (upcoming_.empty()) input_failed_ = false;
    PENSTOCK_RETURN_IF_ERROR(Begin(*inner));
    slots_[turn_].inner = inner;
    ++num_read_;
    return Poll::kReady;
  }

  void NextTurn() {
    turn_ = (turn_ + 1) % slots_.size();
    slots_[turn_].left = block_length_;
  }

  const ElementSpec input_spec_;
  const std::shared_ptr<const InnerMaker> maker_;
  const std::shared_ptr<const Knob> parallel_;
  const int64_t block_length_;
  const ResolveContext resolve_context_;
  const uint64_t seed_;
  const int64_t epoch_;
  WaitMeter meter_;
  uint64_t next_ = 0;                            // number of the next element of the input
  std::deque<std::shared_ptr<Inner>> upcoming_;  // made, being made, or failed
  int overtaken_ = 0;                            // how often the first of them was
  bool input_ended_ = false;
  bool input_failed_ = false;  // the last of the upcoming is its error
  std::vector<Slot> slots_;    // none after the end
  size_t turn_ = 0;
  int64_t num_read_ = 0;  // slots that have a dataset
  absl::Status error_;    // comes next
};

class InterleaveStage : public Stage {
 public:
  InterleaveStage(std::string name, DatasetFunction function, InterleaveOptions options)
      : name_(std::move(name)),
        options_(std::move(options)),
        maker_(std::make_shared<InnerMaker>(name_, std::move(function), options_.reads,
                                            options_.makes)) {}

  absl::string_view name() const override { return name_; }
  absl::Status WriteFields(StageFields&) const override {
    return HoldsFunction(
        "name the files in a source with parallel_files and block_length (FromTfRecords, FromCsv, "
        "FromText)");
  }
  Varies varies() const override { return CallOf(options_.name); }
  std::string Parameters() const override {
    const std::string turns = name_ == "FlatMap"
                                  ? ""
                                  : absl::StrCat(", cycle_length=", options_.cycle_length,
                                                 ", block_length=", options_.block_length);
    return absl::StrCat(options_.name, turns, ", C++ of this process");
  }
  std::string memory_advice() const override {
    return "a smaller cycle_length, or datasets that hold less";
  }
  // For the function and for the files of its datasets, which are not known yet.
  int io_threads() const override {
    return static_cast<int>(std::clamp<int64_t>(2 * (options_.cycle_length + 1), 1, 32));
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (options_.cycle_length < 1 || options_.block_length < 1 || options_.parallel < 0) {
      return absl::InvalidArgumentError(
          "cycle_length and block_length must be at least 1, parallel not negative");
    }
    if (options_.cycle_length > kMaxCycleLength) {
      return absl::InvalidArgumentError(absl::StrCat("cycle_length is at most ", kMaxCycleLength));
    }
    return maker_->OutputSpec(inputs[0]);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return std::make_unique<InterleaveNode>(context, std::move(input), *context.input_spec, maker_,
                                            Interleaving{.cycle_length = options_.cycle_length,
                                                         .block_length = options_.block_length,
                                                         .parallel = options_.parallel});
  }

 private:
  static constexpr int64_t kMaxCycleLength = 1 << 16;

  const std::string name_;
  const InterleaveOptions options_;
  const std::shared_ptr<const InnerMaker> maker_;
};

}  // namespace

Dataset Dataset::Interleave(DatasetFunction function, InterleaveOptions options) const {
  return Then(
      std::make_shared<InterleaveStage>("Interleave", std::move(function), std::move(options)));
}

Dataset Dataset::FlatMap(DatasetFunction function, FlatMapOptions options) const {
  return Then(std::make_shared<InterleaveStage>("FlatMap", std::move(function),
                                                InterleaveOptions{.name = std::move(options.name),
                                                                  .reads = std::move(options.reads),
                                                                  .makes = std::move(options.makes),
                                                                  .cycle_length = 1}));
}

}  // namespace penstock::data
