#include "penstock/data/sources/file_interleave.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/sources/source_files.h"

namespace penstock::data {
namespace {

// Upper limit of autotuning.
constexpr int64_t kMaxFilesAhead = 16;

// State shared by the files of one node.
struct Ahead {
  StageCounters& counters;
  MemoryAccount* memory;
  std::shared_ptr<const Knob> bytes;  // of all files
  int64_t files;                      // interleaved
  std::atomic<int64_t> largest_block = 0;

  int64_t bytes_of_file() const { return std::max<int64_t>(1, bytes->value() / files); }
};

// One file with read-ahead. Jobs read it, one at a time; the node consumes what they read.
class FileAhead : public std::enable_shared_from_this<FileAhead> {
 public:
  FileAhead(std::string uri, std::shared_ptr<Ahead> ahead,
            std::shared_ptr<io::FileSystem> file_system, OpenFileReader open)
      : uri_(std::move(uri)),
        ahead_(std::move(ahead)),
        file_system_(std::move(file_system)),
        open_(std::move(open)) {}

  // Schedules a job if the limits permit: a file in the cycle always gets one block, and more
  // within the read-ahead limit; an upcoming file gets one block.
  void ReadOn(Engine& engine, bool in_turn) {
    std::lock_guard lock(mutex_);
    in_turn_ = in_turn;
    if (reading_ || !CanReadAhead()) return;
    reading_ = true;
    engine.Io([self = shared_from_this(), &engine] { self->ReadWhileThereIsRoom(engine); });
  }

  enum class Found { kBlock, kError, kNothingYet, kEnd };
  // The first block not yet consumed, or the reason why there is none. Elements skipped before it
  // are reported once.
  absl::StatusOr<Found> Front(BlockPtr* block, std::vector<absl::Status>* skipped) {
    std::lock_guard lock(mutex_);
    std::swap(*skipped, blocks_.empty() ? skipped_at_end_ : blocks_.front().skipped);
    if (!blocks_.empty()) {
      *block = blocks_.front().block;
      return *block != nullptr ? Found::kBlock : Found::kError;
    }
    if (!status_.ok()) return status_;
    return ended_ ? Found::kEnd : Found::kNothingYet;
  }

  // Stops reading.
  bool IsRead() const {
    std::lock_guard lock(mutex_);
    return ended_ || !status_.ok();
  }

  // Returns the error of the element if it failed.
  absl::Status Pop() {
    std::lock_guard lock(mutex_);
    absl::Status error = std::move(blocks_.front().error);
    bytes_ -= blocks_.front().bytes;
    blocks_.pop_front();
    return error;
  }

 private:
  bool CanReadAhead() const {
    if (ended_ || !status_.ok()) return false;
    if (blocks_.empty()) return in_turn_ || ahead_->memory->CanReadAhead(ahead_->largest_block);
    return in_turn_ && bytes_ < ahead_->bytes_of_file() &&
           ahead_->memory->CanReadAhead(ahead_->largest_block);
  }

  void ReadWhileThereIsRoom(Engine& engine) {
    for (;;) {
      const double begin = engine.Now();
      MemoryCharge charge(ahead_->memory, ahead_->largest_block);
      absl::StatusOr<FileBlock> read = ReadNext();
      ahead_->counters.AddBusy(begin, engine.Now());
      if (read.ok() && read->block != nullptr) {
        charge.Set(read->bytes);
        read->block->charge = std::move(charge);
      }
      const bool go_on = Store(std::move(read)) && !engine.cancelled();
      engine.Wake();
      if (!go_on) return;
    }
  }

  absl::StatusOr<FileBlock> ReadNext() {
    if (reader_ == nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(reader_, open_(*file_system_, uri_));
    }
    return reader_->Read();
  }

  // Whether to read on.
  bool Store(absl::StatusOr<FileBlock> read) {
    if (read.ok()) {
      ahead_->counters.bytes.fetch_add(read->bytes, std::memory_order_relaxed);
      if (read->bytes > ahead_->largest_block) ahead_->largest_block = read->bytes;
    }
    std::lock_guard lock(mutex_);
    if (!read.ok()) {
      status_ = read.status();
    } else if (read->block == nullptr && read->error.ok()) {
      ended_ = true;
      skipped_at_end_ = std::move(read->skipped);
    } else {
      bytes_ += read->bytes;
      blocks_.push_back(*std::move(read));
    }
    reading_ = CanReadAhead();
    if (!reading_ && in_turn_ && !ended_) {
      ahead_->counters.full.fetch_add(1, std::memory_order_relaxed);
    }
    return reading_;
  }

  const std::string uri_;
  const std::shared_ptr<Ahead> ahead_;
  const std::shared_ptr<io::FileSystem> file_system_;
  const OpenFileReader open_;
  std::unique_ptr<FileReader> reader_;  // the job's

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  bool in_turn_ = false;
  std::deque<FileBlock> blocks_;
  std::vector<absl::Status> skipped_at_end_;
  int64_t bytes_ = 0;
  bool reading_ = false;
  bool ended_ = false;
  absl::Status status_;
};

class FileInterleaveNode : public Node {
 public:
  FileInterleaveNode(const NodeContext& context, std::vector<std::string> files,
                     OpenFileReader open, FileInterleaveOptions options)
      : Node(context, nullptr),
        block_length_(options.block_length),
        cycle_length_(options.parallel_files == 0 ? kDefaultFileCycleLength
                                                  : options.parallel_files),
        file_system_(context.file_system),
        files_(std::move(files)),
        open_(std::move(open)),
        meter_(engine_, counters_),
        reservation_(context.memory),
        ahead_(new Ahead{.counters = counters_,
                         .memory = context.memory,
                         .bytes = ReadAheadKnob(context, options.read_ahead_bytes, kReadAheadBytes),
                         .files = cycle_length_}),
        files_ahead_(FilesKnob(context, options)) {
    counters_.work = StageWork::kIo;
    counters_.prefetch_unit = "bytes";
  }

  bool IsNearEnd() const override {
    return opened_first_ && next_file_ == files_.size() && upcoming_.empty() &&
           (slots_.empty() || std::any_of(slots_.begin(), slots_.end(),
                                          [](const Slot& slot) { return slot.file->IsRead(); }));
  }
  void BeginReading() override { OpenFiles(); }

 protected:
  void DoAdvance() override {
    OpenFiles();
    for (const Slot& slot : slots_) slot.file->ReadOn(engine_, true);
    for (const auto& file : upcoming_) file->ReadOn(engine_, false);
    counters_.parallelism =
        static_cast<int64_t>(std::max<size_t>(slots_.size() + upcoming_.size(), 1));
    counters_.prefetch_limit = ahead_->bytes->value();
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    const int64_t before = out->size();
    DoAdvance();
    PENSTOCK_RETURN_IF_ERROR(
        reservation_.Set(ahead_->largest_block * static_cast<int64_t>(slots_.size())));
    while (!slots_.empty() && out->size() - before < max_rows) {
      BlockPtr block;
      const absl::StatusOr<Found> found = FindSlot(&block);
      if (!found.ok()) {
        if (out->size() > before) break;  // return these first; the error comes again
        return found.status();
      }
      if (*found == Found::kNothingYet) break;
      if (*found == Found::kError) {
        if (out->size() > before) break;  // return these rows first
        return TakeError();
      }
      if (*found == Found::kEnd) {
        ReplaceFile();
      } else {
        TakeRows(block, max_rows - (out->size() - before), out);
      }
    }
    if (out->size() > before) return Answer(Poll::kReady);
    return Answer(slots_.empty() ? Poll::kEnd : Poll::kPending);
  }

 private:
  using Found = FileAhead::Found;
  // One of the interleaved files.
  struct Slot {
    std::shared_ptr<FileAhead> file;
    int64_t row = 0;    // index in the file's first block
    int64_t left = 0;   // remaining rows of this turn
    int overtaken = 0;  // number of times that others came before its turn
  };

  Poll Answer(Poll poll) {
    meter_.Set(poll == Poll::kPending ? WaitMeter::kInput : WaitMeter::kNothing);
    return poll;
  }

  static std::shared_ptr<const Knob> FilesKnob(const NodeContext& context,
                                               const FileInterleaveOptions& options) {
    const KnobOptions knob = {.what = "files opened ahead", .max = kMaxFilesAhead};
    if (options.parallel_files == 0) return context.MakeKnob(knob);
    return std::make_shared<const Knob>(knob);
  }

  std::shared_ptr<FileAhead> Open(bool in_turn) {
    auto file = std::make_shared<FileAhead>(files_[next_file_++], ahead_, file_system_, open_);
    file->ReadOn(engine_, in_turn);
    return file;
  }

  // Opens the files of the cycle and upcoming files, so that the first block of each is available
  // at its turn: one, or as many as the tuner says, and another for each file of the cycle that has
  // been read to its end. (Shards are of similar size, so those of a cycle all end at the same
  // time, and opening a file may take a while.)
  void OpenFiles() {
    while (!opened_first_ && next_file_ < files_.size() &&
           static_cast<int>(slots_.size()) < cycle_length_) {
      slots_.push_back({.file = Open(true), .left = block_length_});
    }
    opened_first_ = true;
    const auto max_upcoming =
        files_ahead_->value() + std::count_if(slots_.begin(), slots_.end(),
                                              [](const Slot& slot) { return slot.file->IsRead(); });
    while (static_cast<int64_t>(upcoming_.size()) < max_upcoming && next_file_ < files_.size()) {
      upcoming_.push_back(Open(false));
    }
  }

  // The slot whose turn it is; if not deterministic, the next one that is ready.
  absl::StatusOr<Found> FindSlot(BlockPtr* block) {
    const size_t first = turn_;
    for (size_t i = 0; i < slots_.size(); ++i) {
      std::vector<absl::Status> skipped;
      PENSTOCK_ASSIGN_OR_RETURN(const Found found, slots_[turn_].file->Front(block, &skipped));
      for (const absl::Status& error : skipped) {
        if (error_.ok()) error_ = engine_.SkipElement(counters_, error);
      }
      PENSTOCK_RETURN_IF_ERROR(error_);
      if (found != Found::kNothingYet) {
        slots_[turn_].overtaken = 0;
        for (size_t s = first; s != turn_; s = (s + 1) % slots_.size()) ++slots_[s].overtaken;
        return found;
      }
      if (!engine_.MayReorder(slots_[turn_].overtaken)) break;
      NextTurn();
    }
    return Found::kNothingYet;
  }

  void TakeRows(const BlockPtr& block, int64_t max_rows, RowRefs* out) {
    Slot& slot = slots_[turn_];
    const int64_t rows = std::min({max_rows, slot.left, block->rows - slot.row});
    out->Append(block, slot.row, rows);
    slot.row += rows;
    slot.left -= rows;
    if (slot.row == block->rows) {
      slot.row = 0;
      slot.file->Pop().IgnoreError();
      slot.file->ReadOn(engine_, true);
    }
    if (slot.left == 0) NextTurn();
  }

  absl::Status TakeError() {
    Slot& slot = slots_[turn_];
    absl::Status error = slot.file->Pop();
    slot.file->ReadOn(engine_, true);
    if (--slot.left == 0) NextTurn();
    return error;
  }

  void NextTurn() {
    turn_ = (turn_ + 1) % slots_.size();
    slots_[turn_].left = block_length_;
  }

  // The file of this turn has ended: another takes its slot, and it is the next slot's turn.
  void ReplaceFile() {
    if (!upcoming_.empty()) {
      slots_[turn_] = {.file = std::move(upcoming_.front())};
      upcoming_.pop_front();
      slots_[turn_].file->ReadOn(engine_, true);
      OpenFiles();
      NextTurn();
      return;
    }
    slots_.erase(slots_.begin() + turn_);
    if (slots_.empty()) return;
    turn_ %= slots_.size();
    slots_[turn_].left = block_length_;
  }

  const int64_t block_length_;
  const int cycle_length_;
  const std::shared_ptr<io::FileSystem> file_system_;
  const std::vector<std::string> files_;
  const OpenFileReader open_;
  WaitMeter meter_;
  MemoryReservation reservation_;
  const std::shared_ptr<Ahead> ahead_;
  const std::shared_ptr<const Knob> files_ahead_;
  size_t next_file_ = 0;
  bool opened_first_ = false;
  std::vector<Slot> slots_;
  size_t turn_ = 0;
  std::deque<std::shared_ptr<FileAhead>> upcoming_;  // in the order of the list
  absl::Status error_;                               // too many elements were skipped
};

}  // namespace

std::unique_ptr<Node> MakeFileInterleave(const NodeContext& context, std::vector<std::string> files,
                                         OpenFileReader open, FileInterleaveOptions options) {
  return std::make_unique<FileInterleaveNode>(context, std::move(files), std::move(open), options);
}

std::string PrintParallelFiles(int parallel_files) {
  return parallel_files == 0 ? "auto" : absl::StrCat(parallel_files);
}

std::string PrintFileInterleave(int parallel_files, int64_t block_length) {
  std::string out = absl::StrCat(", parallel_files=", PrintParallelFiles(parallel_files));
  if (block_length != FileInterleaveOptions().block_length) {
    absl::StrAppend(&out, ", block_length=", block_length);
  }
  return out;
}

int ThreadsForFiles(int parallel_files, size_t files) {
  const int64_t threads =
      parallel_files == 0 ? kDefaultFileCycleLength + kMaxFilesAhead : int64_t{parallel_files} + 1;
  return static_cast<int>(std::min<int64_t>({threads, static_cast<int64_t>(files), INT_MAX}));
}

}  // namespace penstock::data
