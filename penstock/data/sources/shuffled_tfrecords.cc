#include "penstock/data/sources/shuffled_tfrecords.h"

#include <algorithm>
#include <deque>
#include <list>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/permutation.h"
#include "penstock/base/random.h"
#include "penstock/data/sources/file_interleave.h"
#include "penstock/data/sources/files.h"
#include "penstock/data/sources/source_files.h"
#include "penstock/io/file_system.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::data {
namespace {

// Number of records that one job reads; a job also needs as many bytes to be worthwhile.
constexpr int64_t kRecordsAtOnce = 16;
// Including records of other hosts in between, which are not read.
constexpr size_t kMaxPlacesAtOnce = 4096;
constexpr int64_t kOfOthers = -1;  // in place of a record's number
// When automatic.
// An object store gets kObjectStoreRequests, where each record is one.
constexpr int kThreads = 32;
constexpr int64_t kParallelRanges = 16;
// A process may have 1024 files open by default.
constexpr size_t kMaxOpenFiles = 256;

// Global shuffle index: all records of all files, numbered consecutively.
class RecordTable {
 public:
  explicit RecordTable(std::vector<record::TfRecordIndex> files) : files_(std::move(files)) {
    firsts_.push_back(0);
    for (const record::TfRecordIndex& file : files_)
      firsts_.push_back(firsts_.back() + file.size());
  }

  struct Location {
    size_t file;
    int64_t record;  // in the file
  };
  Location Find(int64_t number) const {
    const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), number);
    const size_t file = static_cast<size_t>(after - firsts_.begin()) - 1;
    return {file, number - firsts_[file]};
  }
  int64_t size() const { return firsts_.back(); }
  const record::TfRecordIndex& file(size_t i) const { return files_[i]; }

 private:
  const std::vector<record::TfRecordIndex> files_;
  std::vector<int64_t> firsts_;  // number of each file's first record
};

// Cache of open files, opened on demand; the least recently used are closed. Thread-safe.
class OpenFiles {
 public:
  OpenFiles(std::shared_ptr<io::FileSystem> file_system, SourceFiles files)
      : file_system_(std::move(file_system)), files_(std::move(files)) {}

  absl::StatusOr<std::shared_ptr<io::RandomAccessFile>> Get(const std::string& uri) {
    {
      std::lock_guard lock(mutex_);
      const auto found = std::find_if(open_.begin(), open_.end(),
                                      [&](const auto& file) { return file->full_uri() == uri; });
      if (found != open_.end()) {
        open_.splice(open_.begin(), open_, found);
        return open_.front();
      }
    }
    // Opening may take a request; two threads may then open the same file.
    PENSTOCK_ASSIGN_OR_RETURN(
        std::shared_ptr<io::RandomAccessFile> file,
        io::OpenRandomAccessOfVersion(*file_system_, uri, files_.VersionOf(uri)));
    std::lock_guard lock(mutex_);
    open_.push_front(file);
    if (open_.size() > kMaxOpenFiles) open_.pop_back();
    return file;
  }

 private:
  const std::shared_ptr<io::FileSystem> file_system_;
  const SourceFiles files_;
  std::mutex mutex_;
  std::list<std::shared_ptr<io::RandomAccessFile>> open_;  // most recently used first
};

class PlaceOrigins : public OriginSource {
 public:
  PlaceOrigins(std::shared_ptr<const RecordTable> table, std::vector<int64_t> numbers)
      : table_(std::move(table)), numbers_(std::move(numbers)) {}
  std::string At(int64_t index) const override {
    const RecordTable::Location location = table_->Find(numbers_[static_cast<size_t>(index)]);
    const record::TfRecordIndex& file = table_->file(location.file);
    return record::RecordOrigin(file.shard(), file.OffsetOf(location.record), location.record,
                                false);
  }

 private:
  const std::shared_ptr<const RecordTable> table_;
  const std::vector<int64_t> numbers_;
};

// State shared by the jobs of one pass.
struct ShuffledPass {
  std::shared_ptr<const RecordTable> table;
  OpenFiles files;
  bool verify;
  StageCounters& counters;
  MemoryAccount* memory;
};

// Some consecutive records of the random order: read by one job, then a block.
class Portion : public std::enable_shared_from_this<Portion> {
 public:
  Portion(std::shared_ptr<ShuffledPass> pass, std::vector<int64_t> numbers)
      : pass_(std::move(pass)), numbers_(std::move(numbers)) {
    for (int64_t number : numbers_) {
      if (number == kOfOthers) continue;
      const RecordTable::Location location = pass_->table->Find(number);
      bytes_ += pass_->table->file(location.file).FrameBytes(location.record);
    }
    charge_ = MemoryCharge(pass_->memory, bytes_);
  }

  int64_t bytes() const { return bytes_; }

  void Start(Engine& engine) {
    engine.Io([self = shared_from_this(), &engine] {
      const double begin = engine.Now();
      absl::StatusOr<BlockPtr> block = self->Read(engine);
      self->pass_->counters.AddBusy(begin, engine.Now());
      if (block.ok()) (*block)->charge = std::move(self->charge_);
      {
        std::lock_guard lock(self->mutex_);
        self->block_ = std::move(block);
        self->done_ = true;
      }
      engine.Wake();
    });
  }

  bool done() const {
    std::lock_guard lock(mutex_);
    return done_;
  }
  const absl::StatusOr<BlockPtr>& block() const { return block_; }  // once done

 private:
  absl::StatusOr<BlockPtr> Read(Engine& engine) const {
    // Records of one file in the order in which they stand there, for the disk's sake.
    std::vector<size_t> order;
    for (size_t i = 0; i < numbers_.size(); ++i) {
      if (numbers_[i] != kOfOthers) order.push_back(i);
    }
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return numbers_[a] < numbers_[b]; });
    auto owners = std::make_shared<std::vector<record::RecordBlock>>(numbers_.size());
    auto views = std::make_shared<std::pair<decltype(owners), std::vector<absl::string_view>>>(
        owners, std::vector<absl::string_view>(numbers_.size()));
    for (size_t i : order) {
      if (engine.cancelled()) return absl::CancelledError("the iterator was destroyed");
      const RecordTable::Location location = pass_->table->Find(numbers_[i]);
      const record::TfRecordIndex& index = pass_->table->file(location.file);
      PENSTOCK_ASSIGN_OR_RETURN(const auto file, pass_->files.Get(index.shard()));
      PENSTOCK_ASSIGN_OR_RETURN((*owners)[i],
                                index.ReadRecord(file, location.record, pass_->verify));
      views->second[i] = (*owners)[i].records[0];
      pass_->counters.bytes.fetch_add((*owners)[i].records[0].size(), std::memory_order_relaxed);
    }
    auto block = std::make_shared<Block>();
    block->rows = static_cast<int64_t>(numbers_.size());
    block->origins.Append(std::make_shared<PlaceOrigins>(pass_->table, numbers_), 0, block->rows);
    block->columns.emplace_back(
        base::Array::View(base::DType::kString, {block->rows}, views->second.data(), views));
    return block;
  }

  const std::shared_ptr<ShuffledPass> pass_;
  const std::vector<int64_t> numbers_;
  int64_t bytes_ = 0;
  MemoryCharge charge_;  // the block's, once read

  mutable std::mutex mutex_;
  // Guarded by mutex_ until done_.
  bool done_ = false;
  absl::StatusOr<BlockPtr> block_ = BlockPtr();
};

class ShuffledTfRecordsNode : public Node {
 public:
  ShuffledTfRecordsNode(const NodeContext& context, std::shared_ptr<const RecordTable> table,
                        const SourceFiles& files, const TfRecordOptions& options, uint64_t seed)
      : Node(context, nullptr),
        order_(static_cast<uint64_t>(table->size()), seed),
        pass_(new ShuffledPass{std::move(table), OpenFiles(context.file_system, files),
                               options.verify, context.counters, context.memory}),
        meter_(engine_, counters_),
        reservation_(context.memory),
        reads_(ReadsKnob(context, options, AnyInObjectStore(files.names()))),
        read_ahead_(ReadAheadKnob(context, options.read_ahead_bytes, kReadAheadBytes)) {
    counters_.work = StageWork::kIo;
    counters_.prefetch_unit = "bytes";
  }

  void SetHostShard(int64_t batch, const HostShard& host) override {
    batch_ = batch;
    host_ = host;
  }

  bool IsNearEnd() const override { return next_ == order_.size(); }
  void BeginReading() override { DoAdvance(); }

 protected:
  void DoAdvance() override {
    counters_.parallelism = reads_->value();
    counters_.prefetch_limit = read_ahead_->value();
    while (next_ < order_.size() && (portions_.empty() || CanReadAhead())) {
      std::vector<int64_t> numbers;
      int64_t own = 0;
      for (; next_ < order_.size() && own < kRecordsAtOnce && numbers.size() < kMaxPlacesAtOnce;
           ++next_) {
        const bool is_own = IsOwn(static_cast<int64_t>(next_));
        numbers.push_back(is_own ? static_cast<int64_t>(order_(next_)) : kOfOthers);
        own += is_own ? 1 : 0;
      }
      portions_.push_back(std::make_shared<Portion>(pass_, std::move(numbers)));
      bytes_ += portions_.back()->bytes();
      portions_.back()->Start(engine_);
    }
  }

  // Indices can be skipped without reading.
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    if (!portions_.empty()) return Node::DoSkip(rows);
    const int64_t left = static_cast<int64_t>(order_.size() - next_);
    const int64_t passed = std::min(*rows, left);
    next_ += static_cast<uint64_t>(passed);
    *rows -= passed;
    return *rows > 0 ? Poll::kEnd : Poll::kReady;
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    DoAdvance();
    if (portions_.empty()) return Answer(Poll::kEnd);
    PENSTOCK_RETURN_IF_ERROR(
        reservation_.Set(std::max(reservation_.bytes(), portions_.front()->bytes())));
    // If not deterministic, any portion that has been read; a portion that was begun is finished
    // first.
    const auto end =
        engine_.MayReorder(overtaken_) && row_ == 0 ? portions_.end() : portions_.begin() + 1;
    const auto found =
        std::find_if(portions_.begin(), end, [](const auto& portion) { return portion->done(); });
    if (found == end) return Answer(Poll::kPending);
    if (!(*found)->block().ok()) return (*found)->block().status();
    if (row_ == 0) overtaken_ = found == portions_.begin() ? 0 : overtaken_ + 1;
    std::rotate(portions_.begin(), found, found + 1);
    const BlockPtr& block = *portions_.front()->block();
    const int64_t rows = std::min(max_rows, block->rows - row_);
    out->Append(block, row_, rows);
    row_ += rows;
    if (row_ == block->rows) {
      row_ = 0;
      bytes_ -= portions_.front()->bytes();
      portions_.pop_front();
      DoAdvance();
    }
    return Answer(Poll::kReady);
  }

 private:
  // Whether this host reads the record at this position of the order.
  bool IsOwn(int64_t place) const {
    if (host_.count == 1) return true;
    const int64_t row = place % batch_;
    const auto [begin, end] =
        host_.RowsOf(std::min(batch_, static_cast<int64_t>(order_.size()) - (place - row)));
    return row >= begin && row < end;
  }
  static std::shared_ptr<const Knob> ReadsKnob(const NodeContext& context,
                                               const TfRecordOptions& options,
                                               bool in_object_store) {
    const KnobOptions knob = {
        .what = "reads in flight or done",
        .initial = in_object_store ? int64_t{2} * kObjectStoreRequests : kParallelRanges,
        .min = 2,
        .max = int64_t{2} * (in_object_store ? kObjectStoreRequests : kThreads)};
    if (options.parallel_files == 0) return context.MakeKnob(knob);
    return std::make_shared<const Knob>(
        KnobOptions{.what = knob.what, .initial = int64_t{2} * options.parallel_files});
  }

  bool CanReadAhead() {
    if (static_cast<int64_t>(portions_.size()) >= reads_->value()) return false;
    if (bytes_ < read_ahead_->value() && memory_->CanReadAhead(portions_.back()->bytes()))
      return true;
    counters_.full.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  Poll Answer(Poll poll) {
    meter_.Set(poll == Poll::kPending ? WaitMeter::kInput : WaitMeter::kNothing);
    return poll;
  }

  const base::IndexPermutation order_;
  const std::shared_ptr<ShuffledPass> pass_;
  WaitMeter meter_;
  int64_t batch_ = 0;  // of this many records some are this machine's
  HostShard host_;
  MemoryReservation reservation_;
  const std::shared_ptr<const Knob> reads_;
  const std::shared_ptr<const Knob> read_ahead_;
  uint64_t next_ = 0;  // position in the order
  std::deque<std::shared_ptr<Portion>> portions_;
  int64_t bytes_ = 0;  // of portions_
  int64_t row_ = 0;    // of the first portion, the next to pass on
  int overtaken_ = 0;  // number of times that the first portion was overtaken
};

class ShuffledTfRecordsStage : public Stage {
 public:
  ShuffledTfRecordsStage(SourceFiles files, TfRecordOptions options,
                         std::shared_ptr<const RecordTable> table = nullptr)
      : files_(std::move(files)), options_(options), table_(std::move(table)) {}

  absl::string_view name() const override { return "FromTfRecords"; }
  absl::Status WriteFields(StageFields& out) const override {
    return WriteTfRecordFields(out, files_.names(), options_);
  }
  Varies varies() const override { return Varies::kOrder; }
  std::string Parameters() const override {
    return absl::StrCat(PrintPatterns(files_.names()), ", global shuffle, parallel_files=",
                        PrintParallelFiles(options_.parallel_files));
  }
  int io_threads() const override {
    if (options_.parallel_files > 0) return options_.parallel_files;
    return AnyInObjectStore(files_.names()) ? kObjectStoreRequests : kThreads;
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    PENSTOCK_RETURN_IF_ERROR(files_.CheckNotEmpty());
    if (options_.parallel_files < 0 || options_.read_ahead_bytes < 0) {
      return absl::InvalidArgumentError(kCountsAtLeastOne);
    }
    if (options_.skip_corrupt) {
      return absl::InvalidArgumentError(
          "skip_corrupt and global_shuffle cannot be combined: corruption hides where the records "
          "after it begin; write the shards again");
    }
    return ElementSpec{{"record", base::DType::kString, {}}};
  }

  absl::StatusOr<std::shared_ptr<const Stage>> Resolve(
      const ResolveContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(SourceFiles found, files_.Resolve(context));
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<record::TfRecordIndex> indices,
                              LoadIndices(*context.file_system, found));
    return std::make_shared<ShuffledTfRecordsStage>(
        std::move(found), options_, std::make_shared<const RecordTable>(std::move(indices)));
  }

  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const SourceFiles found, files_.Resolve(context));
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<record::TfRecordIndex> indices,
                              LoadIndices(*context.file_system, found));
    int64_t records = 0;
    for (const record::TfRecordIndex& index : indices) records += index.size();
    return records;
  }

  std::string ResolvedSources() const override {
    return absl::StrCat(files_.ResolvedSources(), " ", table_->size());
  }
  absl::StatusOr<std::string> SourceFingerprint(const ResolveContext& context) const override {
    return files_.Fingerprint(context);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    context.counters.SetHint(files_.warning());
    return std::make_unique<ShuffledTfRecordsNode>(context, table_, files_, options_,
                                                   base::MixSeeds(context.seed, context.epoch));
  }

 private:
  absl::StatusOr<std::vector<record::TfRecordIndex>> LoadIndices(io::FileSystem& file_system,
                                                                 const SourceFiles& shards) const {
    return data::LoadIndices(file_system, shards.names(), record::TfRecordIndex::LoadOrBuild,
                             options_.parallel_files);
  }

  const SourceFiles files_;
  const TfRecordOptions options_;
  const std::shared_ptr<const RecordTable> table_;  // null until resolved
};

}  // namespace

std::shared_ptr<const Stage> MakeShuffledTfRecords(std::vector<std::string> patterns,
                                                   TfRecordOptions options) {
  return std::make_shared<ShuffledTfRecordsStage>(
      SourceFiles(std::move(patterns), SourceFiles::Content::kTfRecords), options);
}

}  // namespace penstock::data
