#include "penstock/data/iterator.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/engine/engine.h"
#include "penstock/data/engine/memory_budget.h"
#include "penstock/data/engine/plan.h"
#include "penstock/data/report.h"
#include "penstock/data/stages/host_shard.h"
#include "penstock/io/file_system.h"

namespace penstock::data {
namespace {

constexpr int64_t kMaxIoThreads = 64;

// FNV-1a (Fowler, Noll, Vo): the same in every process and version.
uint64_t Fingerprint(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

absl::StatusOr<IteratorState> FirstState(const Dataset& dataset, const IteratorOptions& options) {
  const std::string description = dataset.ToString();
  IteratorState first = {.seed = options.seed.has_value() ? *options.seed : base::EntropySeed(),
                         .epoch = options.epoch,
                         .elements = options.skip,
                         .pipeline = Fingerprint(description)};
  if (options.state.has_value()) {
    if (options.seed.has_value() || options.epoch != 0 || options.skip != 0) {
      return absl::InvalidArgumentError(
          "IteratorOptions: `state` contains seed, epoch and skip; set either it or them");
    }
    if (options.state->pipeline != first.pipeline) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the iterator's state (", options.state->ToString(),
          ") was saved with a different input pipeline; resuming would return other elements:\n",
          description));
    }
    first = *options.state;
  }
  if (first.epoch < 0 || first.elements < 0) {
    return absl::InvalidArgumentError("IteratorOptions: epoch and skip must not be negative");
  }
  if (first.hosts < 1) {
    return absl::InvalidArgumentError("IteratorOptions: `state` must have at least 1 host");
  }
  if (options.memory_bytes < 0) {
    return absl::InvalidArgumentError("IteratorOptions: memory_bytes must not be negative");
  }
  if (options.max_errors < -1) {
    return absl::InvalidArgumentError(
        "IteratorOptions: max_errors must be -1 (no limit) or not negative");
  }
  return first;
}

absl::Status CheckHost(const IteratorOptions& options) {
  const HostShard& host = options.host;
  if (host.count < 1 || host.index < 0 || host.index >= host.count) {
    return absl::InvalidArgumentError(absl::StrCat("IteratorOptions.host: there is no host ",
                                                   host.index, " of ", host.count,
                                                   "; the index must be from 0 to count - 1"));
  }
  if (host.count == 1) return absl::OkStatus();
  if (!options.deterministic) {
    return absl::InvalidArgumentError(
        "IteratorOptions.host requires deterministic: otherwise the hosts would not share the same "
        "batches");
  }
  if (!options.seed.has_value() && !options.state.has_value()) {
    return absl::InvalidArgumentError(
        "IteratorOptions.host requires a seed (or a state), the same on every host: otherwise each "
        "would "
        "draw its own");
  }
  return absl::OkStatus();
}

// A state is of the files that the iterator's sources find.
absl::Status CheckSameSources(const IteratorOptions& options, uint64_t sources,
                              const Dataset& dataset) {
  if (!options.state.has_value() || options.state->sources == sources) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the iterator's state (", options.state->ToString(),
                   ") was saved with other input files; resuming would return other elements. "
                   "Remove files that were added, or begin a new epoch:\n",
                   dataset.ToString()));
}

}  // namespace

std::string IteratorState::ToString() const {
  return absl::StrCat("seed=", seed, " epoch=", epoch, " elements=", elements,
                      " pipeline=", absl::Hex(pipeline), " sources=", absl::Hex(sources),
                      hosts == 1 ? "" : absl::StrCat(" hosts=", hosts));
}

absl::StatusOr<IteratorState> IteratorState::Parse(absl::string_view text) {
  IteratorState state;
  const auto take = [&text](absl::string_view name, absl::string_view* digits) {
    if (!absl::ConsumePrefix(&text, name)) return false;
    *digits = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), digits->size() + 1));
    return true;
  };
  const auto number = [&take](absl::string_view name, auto* out) {
    absl::string_view digits;
    return take(name, &digits) && absl::SimpleAtoi(digits, out);
  };
  const auto hash = [&take](absl::string_view name, uint64_t* out) {
    absl::string_view digits;
    return take(name, &digits) && absl::SimpleHexAtoi(digits, out);
  };
  const bool read = number("seed=", &state.seed) && number("epoch=", &state.epoch) &&
                    number("elements=", &state.elements) && hash("pipeline=", &state.pipeline) &&
                    hash("sources=", &state.sources) &&
                    (text.empty() || (number("hosts=", &state.hosts) && state.hosts > 0)) &&
                    text.empty();
  if (!read) return absl::InvalidArgumentError("this is not an iterator state");
  return state;
}

absl::StatusOr<std::unique_ptr<Iterator>> Dataset::MakeIterator(
    const IteratorOptions& options) const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  PENSTOCK_RETURN_IF_ERROR(CheckHost(options));
  PENSTOCK_ASSIGN_OR_RETURN(const Dataset own, ForHost(options.host));
  if (options.host.count > 1) PENSTOCK_RETURN_IF_ERROR(CheckSameShapes(own.spec()));
  auto iterator = std::unique_ptr<Iterator>(new Iterator);
  iterator->spec_ = own.spec();
  PENSTOCK_ASSIGN_OR_RETURN(iterator->state_, FirstState(*this, options));
  if (options.state.has_value()) PENSTOCK_RETURN_IF_ERROR(CheckSameBatches(options));
  iterator->state_.hosts = options.host.count;
  PENSTOCK_ASSIGN_OR_RETURN(iterator->plan_,
                            PipelinePlan::Make(*own.description_, iterator->state_.seed,
                                               {.file_system = options.file_system != nullptr
                                                                   ? options.file_system
                                                                   : io::FileSystem::Default()}));
  const uint64_t sources = Fingerprint(iterator->plan_->resolved_sources());
  PENSTOCK_RETURN_IF_ERROR(CheckSameSources(options, sources, *this));
  iterator->state_.sources = sources;

  base::ThreadPool* pool = options.pool;
  if (pool == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(iterator->own_pool_,
                              base::ThreadPool::Make(base::NumCores(), "data"));
    pool = iterator->own_pool_.get();
  }
  if (const int64_t threads = iterator->plan_->io_threads(); threads > 0) {
    PENSTOCK_ASSIGN_OR_RETURN(
        iterator->io_pool_,
        base::ThreadPool::Make(static_cast<int>(std::min(threads, kMaxIoThreads)), "data-io"));
  }
  const auto budget = MemoryBudget::MakeDefault(options.memory_bytes);
  iterator->plan_->OpenAccounts(*budget);
  iterator->plan_->TraceTo(options.trace);
  iterator->began_ = options.clock->Seconds();
  iterator->engine_ =
      std::make_shared<Engine>(Engine::Options{.compute = pool,
                                               .io = iterator->io_pool_.get(),
                                               .clock = options.clock,
                                               .memory = budget,
                                               .deterministic = options.deterministic,
                                               .skip = iterator->state_.elements,
                                               .skip_is_state = options.state.has_value(),
                                               .max_errors = options.max_errors,
                                               .on_skipped = options.on_skipped,
                                               .trace = options.trace});
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Node> root,
                            iterator->plan_->MakeRoot(*iterator->engine_, iterator->state_.epoch));
  iterator->engine_->Start(std::move(root));
  return iterator;
}

Iterator::~Iterator() {
  if (engine_ != nullptr) engine_->Cancel();
}

void Iterator::Interrupt() { engine_->Interrupt(); }

absl::StatusOr<bool> Iterator::Next(base::NamedArrays* element) {
  *element = base::NamedArrays();  // releases its memory before more is needed
  if (rows_.empty() || engine_->cancelled()) {
    range_ = 0;
    row_in_range_ = 0;
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, engine_->Next(&rows_));
    if (!more) return false;
  }
  const RowRefs::Range& range = rows_.ranges()[range_];
  const Block& block = *rows_.blocks()[range.block];
  const uint32_t row = range.begin + row_in_range_;
  for (int i = 0; i < spec_.size(); ++i) {
    base::Array array = block.columns[i].Row(row);
    element->Set(spec_[i].name, IsShared(array) ? OwnCopy(array) : std::move(array));
  }
  ++state_.elements;
  if (++row_in_range_ == range.count) {
    row_in_range_ = 0;
    // The reader must be the only owner of the last element.
    if (++range_ == rows_.ranges().size()) rows_.clear();
  }
  return true;
}

base::Array Iterator::OwnCopy(const base::Array& shared) const {
  if (shared.dtype() == base::DType::kString) {
    // The reader cannot write to the bytes of strings, so they are not copied.
    base::Array copy = base::Array::Uninitialized(shared.dtype(), shared.shape());
    const auto strings = shared.values<absl::string_view>();
    std::copy(strings.begin(), strings.end(), copy.mutable_data<absl::string_view>());
    copy.KeepAlive(shared.owner());
    return copy;
  }
  base::Array copy = engine_->buffers()->Allocate(shared.dtype(), shared.shape());
  if (shared.num_bytes() > 0) {
    std::memcpy(copy.mutable_raw(), shared.raw(), static_cast<size_t>(shared.num_bytes()));
  }
  return copy;
}

std::vector<StageStats> Iterator::Stats() const { return plan_->Stats(); }

int64_t Iterator::num_skipped() const { return engine_->num_skipped(); }

double Iterator::wait_seconds() const { return engine_->reader_wait_seconds(); }

PipelineReport Iterator::Report() const {
  const MemoryBudget& memory = *engine_->memory();
  return {.stages = Stats(),
          .seconds = engine_->Now() - began_,
          .reader_wait_seconds = wait_seconds(),
          .memory_budget_bytes = memory.bytes(),
          .memory_bytes = memory.charged(),
          .peak_memory_bytes = memory.peak(),
          .decisions = Decisions(),
          .cores = static_cast<int>(std::thread::hardware_concurrency())};
}

std::string Iterator::Table() const { return data::Table(Report()); }

std::string Iterator::Dot() const { return data::Dot(Report()); }

std::vector<std::string> Iterator::Decisions() const { return engine_->tuner().Decisions(); }

std::string Iterator::Explain() const { return plan_->ToString(); }

int64_t Iterator::batch_allocations() const { return engine_->buffers()->allocations(); }

}  // namespace penstock::data
