#include "penstock/data/iterator.h"

#include <algorithm>
#include <utility>

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/engine.h"
#include "penstock/data/plan.h"
#include "penstock/io/file_system.h"

namespace penstock::data {
namespace {

constexpr int kMostIoThreads = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<Iterator>> Dataset::MakeIterator(
    const IteratorOptions& options) const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  if (options.epoch < 0 || options.skip < 0) {
    return absl::InvalidArgumentError("IteratorOptions: epoch and skip must not be negative");
  }
  if (options.skip > 0 && !options.deterministic) {
    return absl::InvalidArgumentError(
        "IteratorOptions: skip needs deterministic: otherwise nobody knows which elements came "
        "first");
  }
  auto iterator = std::unique_ptr<Iterator>(new Iterator);
  iterator->spec_ = spec();
  iterator->seed_ = options.seed.has_value() ? *options.seed : base::EntropySeed();
  PENSTOCK_ASSIGN_OR_RETURN(
      iterator->plan_,
      Plan::Make(*description_, iterator->seed_,
                 {.file_system = options.file_system != nullptr ? options.file_system
                                                                : io::FileSystem::Default()}));

  base::ThreadPool* pool = options.pool;
  if (pool == nullptr) {
    iterator->own_pool_ = std::make_unique<base::ThreadPool>(base::NumCores(), "data");
    pool = iterator->own_pool_.get();
  }
  if (const int threads = iterator->plan_->io_threads(); threads > 0) {
    iterator->io_pool_ =
        std::make_unique<base::ThreadPool>(std::min(threads, kMostIoThreads), "data-io");
  }
  iterator->engine_ =
      std::make_shared<Engine>(Engine::Options{.compute = pool,
                                               .io = iterator->io_pool_.get(),
                                               .clock = options.clock,
                                               .deterministic = options.deterministic,
                                               .skip = options.skip});
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Node> root,
                            iterator->plan_->MakeRoot(*iterator->engine_, options.epoch));
  iterator->engine_->Start(std::move(root));
  return iterator;
}

Iterator::~Iterator() {
  if (engine_ != nullptr) engine_->Cancel();
}

absl::StatusOr<bool> Iterator::Next(base::NamedArrays* element) {
  *element = base::NamedArrays();  // gives its memory back before more is needed
  if (rows_.empty()) {
    range_ = 0;
    row_in_range_ = 0;
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, engine_->Next(&rows_));
    if (!more) return false;
  }
  const Rows::Range& range = rows_.ranges()[range_];
  const Block& block = *rows_.blocks()[range.block];
  const uint32_t row = range.begin + row_in_range_;
  for (int i = 0; i < spec_.size(); ++i) element->Set(spec_[i].name, block.columns[i].Row(row));
  if (++row_in_range_ == range.count) {
    row_in_range_ = 0;
    // The reader shall be the only holder of the last element.
    if (++range_ == rows_.ranges().size()) rows_.clear();
  }
  return true;
}

std::vector<StageStats> Iterator::Stats() const { return plan_->Stats(); }

double Iterator::wait_seconds() const { return engine_->reader_wait_seconds(); }

std::string Iterator::Explain() const { return plan_->ToString(); }

int64_t Iterator::batch_allocations() const { return engine_->buffers()->allocations(); }

}  // namespace penstock::data
