#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/data/cache/cache_folder.h"
#include "penstock/data/cache/cached_rows.h"
#include "penstock/data/cache/device_cache.h"
#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

// State shared by all iterators of a dataset. Elements are stored as references to the blocks in
// which they came; a failed element is stored as its error, in its position, so that every pass
// returns what the input returned.
class CachedRows {
 public:
  using Portions = CachedPortions;

  std::shared_ptr<const Portions> Find() const {
    std::lock_guard lock(mutex_);
    return portions_;
  }
  // Of several concurrent iterators that read the input, the first to end fills the cache.
  void Publish(Portions portions) {
    std::lock_guard lock(mutex_);
    if (portions_ == nullptr) portions_ = std::make_shared<const Portions>(std::move(portions));
  }
  // They do not fit into memory.
  void GiveUp() { gave_up_ = true; }
  bool gave_up() const { return gave_up_; }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Portions> portions_;
  std::atomic<bool> gave_up_ = false;
};

class FillCacheNode : public Node {
 public:
  FillCacheNode(const NodeContext& context, std::unique_ptr<Node> input,
                std::shared_ptr<CachedRows> cache, bool may_give_up, int64_t expected)
      : Node(context, std::move(input)),
        cache_(std::move(cache)),
        may_give_up_(may_give_up),
        expected_(expected),
        reservation_(context.memory) {}

  // The next pass reads what this pass stores.
  bool IsNearEnd() const override { return false; }

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    PENSTOCK_RETURN_IF_ERROR(CheckMemory());
    RowRefs rows;
    const absl::StatusOr<Poll> poll = input_->Next(max_rows, &rows);
    if (!poll.ok()) {
      if (!gave_up_ && IsRecoverable(poll.status())) {
        ++elements_;
        portions_.push_back({.rows = {}, .error = poll.status()});
      }
      return poll;
    }
    if (*poll == Poll::kEnd && !gave_up_) Publish();
    if (*poll != Poll::kReady) return poll;
    if (!gave_up_) rows = Keep(rows);
    out->Append(rows, 0, rows.size());
    return Poll::kReady;
  }

 private:
  // The same rows, marked so that the reader does not write to them.
  RowRefs Keep(const RowRefs& rows) {
    RowRefs kept;
    bool charged = false;
    for (const RowRefs::Range& range : rows.ranges()) {
      BlockPtr& block = blocks_[rows.blocks()[range.block].get()];
      if (block == nullptr) {
        block = MarkShared(rows.blocks()[range.block]);
        PinCharge(*block, memory_);
      }
      charged = charged || IsCharged(*block);
      kept.Append(block, range.begin, range.count);
    }
    elements_ += kept.size();
    // Arrays that belong to the user take no additional memory.
    if (charged) bytes_ += kept.Bytes();
    portions_.push_back({.rows = kept, .error = absl::OkStatus()});
    return kept;
  }

  void Publish() {
    cache_->Publish(std::exchange(portions_, {}));
    blocks_.clear();
  }

  absl::Status CheckMemory() {
    if (gave_up_) return absl::OkStatus();
    const int64_t budget = memory_->budget().bytes();
    // Reported after a few elements, not hours later when memory has run out.
    const bool too_many = BytesOfAll() > budget + budget / 10;
    if (may_give_up_ && (too_many || memory_->charged() > budget / 4 * 3)) {
      gave_up_ = true;
      cache_->GiveUp();
      if (const int64_t all = BytesOfAll(); all > 0) {
        counters_.SetHint(absl::StrCat("all ", expected_, " elements would take about ",
                                       base::PrintBytes(all), ", and the memory budget is ",
                                       base::PrintBytes(budget), ": they are not kept"));
      } else {
        counters_.SetHint(absl::StrCat(elements_, " elements fill the memory budget of ",
                                       base::PrintBytes(budget), ": they are not kept"));
      }
      portions_.clear();
      blocks_.clear();
      reservation_.Clear();
      return absl::OkStatus();
    }
    if (too_many) {
      reservation_.Clear();
      return base::WithContext(reservation_.Set(BytesOfAll()),
                               absl::StrCat("Cache() of ", expected_, " elements, estimated from ",
                                            elements_, " of them"));
    }
    return base::WithContext(
        reservation_.SetToCharged(),
        absl::StrCat("Cache() keeps ", elements_, " elements and the input has not ended"));
  }

  // Estimated size; 0 while unknown.
  int64_t BytesOfAll() const {
    constexpr int64_t kMinElementsForEstimate = 256;
    if (expected_ <= 0 || elements_ < std::min(expected_, kMinElementsForEstimate)) return 0;
    return static_cast<int64_t>(static_cast<double>(bytes_) / static_cast<double>(elements_) *
                                static_cast<double>(expected_));
  }

  const std::shared_ptr<CachedRows> cache_;
  const bool may_give_up_;
  const int64_t expected_;  // total number of elements; not positive if unknown
  MemoryReservation reservation_;
  CachedPortions portions_;
  absl::flat_hash_map<const Block*, BlockPtr> blocks_;  // the input's, for the stored views of them
  int64_t elements_ = 0;
  int64_t bytes_ = 0;
  bool gave_up_ = false;
};

class ReadCacheNode : public Node {
 public:
  ReadCacheNode(const NodeContext& context, std::shared_ptr<const CachedPortions> portions)
      : Node(context, nullptr), portions_(std::move(portions)) {}

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    while (*rows > 0 && output_rows_ < portions_->size()) {
      *rows -= TakeError().ok() ? Pass(*rows) : 1;
    }
    return *rows > 0 ? Poll::kEnd : Poll::kReady;
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    if (output_rows_ == portions_->size()) return Poll::kEnd;
    PENSTOCK_RETURN_IF_ERROR(TakeError());
    const RowRefs& portion = (*portions_)[output_rows_].rows;
    const int64_t begin = row_;
    out->Append(portion, begin, Pass(max_rows));
    return Poll::kReady;
  }

 private:
  absl::Status TakeError() {
    const absl::Status& error = (*portions_)[output_rows_].error;
    if (!error.ok()) ++output_rows_;
    return error;
  }
  // Passes on at most `max_rows` rows of the portion; returns their number.
  int64_t Pass(int64_t rows) {
    const int64_t size = (*portions_)[output_rows_].rows.size();
    const int64_t part = std::min(rows, size - row_);
    row_ += part;
    if (row_ == size) {
      ++output_rows_;
      row_ = 0;
    }
    return part;
  }

  const std::shared_ptr<const CachedPortions> portions_;
  size_t output_rows_ = 0;
  int64_t row_ = 0;
};

// Dataset::Cache's names for the memory of the process that runs the devices, and for that of the devices.
constexpr char kAtWorker[] = "worker", kOnDevice[] = "device";

class CacheStage : public Stage {
 public:
  // `folder`: the stage that keeps elements in a folder, null when there is none. at_worker: Cache("worker").
  CacheStage(Dataset input, std::shared_ptr<const Stage> folder, bool at_worker,
             std::shared_ptr<CachedRows> cache = std::make_shared<CachedRows>(),
             int64_t expected = kUnknownCardinality)
      : input_(std::move(input)),
        folder_(std::move(folder)),
        at_worker_(at_worker),
        cache_(std::move(cache)),
        expected_(expected) {}

  absl::string_view name() const override { return "Cache"; }
  absl::Status WriteFields(StageFields& out) const override {
    return WriteCacheFields(out, folder_ == nullptr ? "" : folder_->Parameters(),
                            /*memory_first=*/folder_ != nullptr,
                            at_worker_ ? CacheHome::kWorker : CacheHome::kHere);
  }
  bool keeps_rows() const override { return at_worker_; }
  std::string Parameters() const override {
    if (at_worker_) return kAtWorker;
    return folder_ == nullptr ? "" : absl::StrCat(folder_->Parameters(), ", memory first");
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    return inputs[0];
  }
  std::string memory_advice() const override {
    return "Cache(folder, {.memory_first = true}), which spills to disk if memory does not "
           "suffice; Cache(folder) or Snapshot(folder), which use none; a Cache of what is "
           "smaller "
           "(encoded images, not decoded ones)";
  }
  int io_threads() const override { return folder_ == nullptr ? 0 : folder_->io_threads(); }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    return folder_ == nullptr ? inputs[0] : folder_->OutputSpec(inputs);
  }

  absl::StatusOr<std::shared_ptr<const Stage>> Resolve(
      const ResolveContext& context) const override {
    std::shared_ptr<const Stage> folder;
    if (folder_ != nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(folder, folder_->Resolve(context));
    }
    int64_t expected = kUnknownCardinality;
    if (cache_->Find() == nullptr && !cache_->gave_up()) {
      // The input reports its own errors.
      expected =
          input_.Cardinality({.file_system = context.file_system}).value_or(kUnknownCardinality);
    }
    return std::make_shared<CacheStage>(input_, std::move(folder), at_worker_, cache_, expected);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    if (auto portions = cache_->Find()) {
      return std::make_unique<ReadCacheNode>(context, std::move(portions));
    }
    if (cache_->gave_up() && folder_ != nullptr) return folder_->MakeNode(context);
    // The first epoch is stored, even if a later one is read first: a run that is resumed there
    // continues with the same order.
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, /*epoch=*/0));
    if (cache_->gave_up()) return input;
    return std::make_unique<FillCacheNode>(context, std::move(input), cache_,
                                           folder_ != nullptr || at_worker_, expected_);
  }

 private:
  const Dataset input_;
  const std::shared_ptr<const Stage> folder_;
  const bool at_worker_;
  const std::shared_ptr<CachedRows> cache_;
  const int64_t expected_;
};

}  // namespace

std::unique_ptr<Node> MakeReadCacheNode(const NodeContext& context,
                                        std::shared_ptr<const CachedPortions> portions) {
  return std::make_unique<ReadCacheNode>(context, std::move(portions));
}

Dataset Dataset::Cache(std::string folder, CacheOptions options) const {
  if (folder.empty()) return Then(std::make_shared<CacheStage>(*this, nullptr, false));
  if (folder == kAtWorker) return Then(std::make_shared<CacheStage>(*this, nullptr, true));
  if (folder == kOnDevice) return Then(MakeDeviceCache());
  auto in_folder = MakeCacheFolder(*this, std::move(folder));
  if (!options.memory_first) return Then(std::move(in_folder));
  return Then(std::make_shared<CacheStage>(*this, std::move(in_folder), false));
}

}  // namespace penstock::data
