#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

class NumberedElements : public OriginSource {
 public:
  explicit NumberedElements(std::string name) : name_(std::move(name)) {}
  std::string At(int64_t index) const override { return absl::StrCat(name_, ":", index); }

 private:
  const std::string name_;
};

// A block of one row that shares the element's memory.
absl::StatusOr<std::shared_ptr<Block>> ToBlock(const base::NamedArrays& element,
                                               const ElementSpec& spec) {
  auto block = std::make_shared<Block>();
  block->rows = 1;
  for (const ColumnSpec& column : spec.columns()) {
    const base::Array* array = element.Find(column.name);
    if (array == nullptr || array->dtype() != column.dtype || !Fits(array->shape(), column.shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the generator should make ", column.ToString(), ", but made ",
                       array == nullptr ? absl::StrCat("no such column, only ", element.ToString())
                                        : array->TypeString()));
    }
    auto row = array->Reshape(array->shape().Prepend(1));
    if (!row.ok()) return row.status();
    block->columns.emplace_back(*std::move(row));
  }
  if (element.size() != static_cast<size_t>(spec.size())) {
    return absl::InvalidArgumentError(absl::StrCat("the generator should make ", spec.ToString(),
                                                   ", but made ", element.ToString()));
  }
  return block;
}

// One pass of the generator. Jobs run it, one at a time; the node consumes the elements.
class GeneratorPass : public std::enable_shared_from_this<GeneratorPass> {
 public:
  GeneratorPass(Engine& engine, StageCounters& counters, MakeGenerator make,
                const ElementSpec& spec, const GeneratorOptions& options, GeneratorContext context,
                MemoryAccount* memory)
      : engine_(engine),
        counters_(counters),
        memory_(memory),
        make_(std::move(make)),
        spec_(spec),
        options_(options),
        context_(std::move(context)),
        origins_(std::make_shared<NumberedElements>(options.name)) {}

  // Schedules a job if the read-ahead limit permits.
  void GoOn() {
    std::lock_guard lock(mutex_);
    if (running_ || !CanReadAhead()) return;
    running_ = true;
    engine_.Io([self = shared_from_this()] { self->RunWhileThereIsRoom(); });
  }

  // kReady with the next element, or the reason why there is none.
  absl::StatusOr<Poll> Take(BlockPtr* block) {
    std::lock_guard lock(mutex_);
    if (!made_.empty()) {
      *block = std::move(made_.front());
      made_.pop_front();
      return Poll::kReady;
    }
    if (!status_.ok()) return status_;
    return ended_ ? Poll::kEnd : Poll::kPending;
  }

  // Cancels: no more elements are consumed.
  void Drop() { dropped_ = true; }

 private:
  bool CanReadAhead() const {
    if (ended_ || !status_.ok()) return false;
    return made_.empty() || (static_cast<int64_t>(made_.size()) < options_.read_ahead &&
                             memory_->CanReadAhead(element_bytes_));
  }

  void RunWhileThereIsRoom() {
    for (bool go_on = true; go_on;) {
      const double begin = engine_.Now();
      absl::StatusOr<BlockPtr> block = MakeElement();
      counters_.AddBusy(begin, engine_.Now());
      go_on = Store(std::move(block)) && !Cancelled();
      engine_.Wake();
    }
  }

  // Null at the end.
  absl::StatusOr<BlockPtr> MakeElement() {
    const auto failed = [this](const absl::Status& status) {
      return base::WithContext(status, absl::StrCat(origins_->At(index_), ": FromGenerator"));
    };
    if (generate_ == nullptr) {
      const absl::Status begun = base::CatchExceptions([this] { return BeginPass(); });
      if (!begun.ok()) return failed(begun);
    }
    base::NamedArrays element;
    const auto more = base::CatchExceptions([&] { return generate_(&element); });
    if (more.ok() && !*more) return nullptr;
    auto block = more.ok() ? ToBlock(element, spec_) : more.status();
    if (!block.ok()) return failed(block.status());
    (*block)->origins.Append(origins_, index_++, 1);
    int64_t bytes = 0;
    for (const Column& column : (*block)->columns) bytes += column.RowBytes(0);
    (*block)->charge = MemoryCharge(memory_, bytes);
    return *std::move(block);
  }

  absl::Status BeginPass() {
    GeneratorContext context = context_;
    // Not shared_from_this: this object owns the generator, which may store the callback.
    context.cancelled = [this] { return Cancelled(); };
    generate_ = make_(context);
    if (generate_ != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError("the function returned no generator");
  }

  // Whether to go on.
  bool Store(absl::StatusOr<BlockPtr> block) {
    std::lock_guard lock(mutex_);
    if (!block.ok()) {
      status_ = block.status();
    } else if (*block == nullptr) {
      ended_ = true;
    } else {
      element_bytes_ = (*block)->charge.bytes();
      made_.push_back(*std::move(block));
    }
    running_ = CanReadAhead();
    return running_;
  }

  bool Cancelled() const { return dropped_ || engine_.cancelled(); }

  Engine& engine_;
  StageCounters& counters_;
  MemoryAccount* const memory_;
  const MakeGenerator make_;
  const ElementSpec spec_;
  const GeneratorOptions options_;
  const GeneratorContext context_;
  const std::shared_ptr<const OriginSource> origins_;
  std::atomic<bool> dropped_ = false;
  // The job's.
  ElementGenerator generate_;
  int64_t index_ = 0;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<BlockPtr> made_;
  int64_t element_bytes_ = 0;  // of the last
  bool running_ = false;
  bool ended_ = false;
  absl::Status status_;
};

class FromGeneratorNode : public Node {
 public:
  FromGeneratorNode(const NodeContext& context, std::shared_ptr<GeneratorPass> pass)
      : Node(context, nullptr), pass_(std::move(pass)), meter_(engine_, counters_) {
    counters_.work = StageWork::kIo;
  }
  ~FromGeneratorNode() override { pass_->Drop(); }

 protected:
  void DoAdvance() override { pass_->GoOn(); }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    const int64_t before = out->size();
    absl::StatusOr<Poll> poll = Poll::kReady;
    while (out->size() - before < max_rows) {
      BlockPtr block;
      poll = pass_->Take(&block);
      if (!poll.ok() || *poll != Poll::kReady) break;
      out->Append(block, 0, 1);
    }
    pass_->GoOn();
    if (out->size() > before) poll = Poll::kReady;  // these first; an error comes again
    meter_.Set(poll.ok() && *poll == Poll::kPending ? WaitMeter::kInput : WaitMeter::kNothing);
    return poll;
  }

 private:
  const std::shared_ptr<GeneratorPass> pass_;
  WaitMeter meter_;
};

class FromGeneratorStage : public Stage {
 public:
  FromGeneratorStage(MakeGenerator make, ElementSpec spec, GeneratorOptions options)
      : make_(std::move(make)), spec_(std::move(spec)), options_(std::move(options)) {}

  absl::string_view name() const override { return "FromGenerator"; }
  absl::Status WriteFields(StageFields&) const override {
    return HoldsFunction("read files in place of the generator");
  }
  Varies varies() const override { return CallOf(options_.name, GeneratorOptions().name); }
  std::string Parameters() const override {
    return absl::StrCat(options_.name, ", ", spec_.ToString());
  }
  int io_threads() const override { return 1; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    if (make_ == nullptr) return absl::InvalidArgumentError("there is no function");
    if (options_.read_ahead < 1) {
      return absl::InvalidArgumentError("read_ahead must be at least 1");
    }
    if (spec_.size() == 0) return absl::InvalidArgumentError("an element has no column");
    for (const ColumnSpec& column : spec_.columns()) {
      if (column.dtype == base::DType::kInvalid || base::BitWidth(column.dtype) % 8 != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("column ", column.ToString(), " has a type smaller than a byte"));
      }
      if (column.shape.rank() == base::kMaxRank) {
        return absl::InvalidArgumentError(absl::StrCat("column ", column.ToString(),
                                                       " has more than ", base::kMaxRank - 1,
                                                       " dimensions; one is left for the batch"));
      }
    }
    return spec_;
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return std::make_unique<FromGeneratorNode>(
        context,
        std::make_shared<GeneratorPass>(
            context.engine, context.counters, make_, spec_, options_,
            GeneratorContext{.epoch = context.epoch, .seed = context.seed, .cancelled = {}},
            context.memory));
  }

 private:
  const MakeGenerator make_;
  const ElementSpec spec_;
  const GeneratorOptions options_;
};

}  // namespace

Dataset Dataset::FromGenerator(MakeGenerator make, ElementSpec spec, GeneratorOptions options) {
  return From(
      std::make_shared<FromGeneratorStage>(std::move(make), std::move(spec), std::move(options)));
}

}  // namespace penstock::data
