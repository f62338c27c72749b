// Iterator: runs a Dataset. It works ahead on its own, within the room of its stages.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto iterator, dataset.MakeIterator({.seed = 7}));
//   for (base::NamedArrays batch;;) {
//     PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&batch));
//     if (!more) break;
//     ...
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/base/clock.h"
#include "penstock/base/thread_pool.h"
#include "penstock/base/trace.h"
#include "penstock/data/rows.h"
#include "penstock/data/spec.h"

namespace penstock::io {
class FileSystem;
}

namespace penstock::data {

class Engine;
class Plan;
struct PipelineReport;

// Position of an iterator: enough to resume from there in a new process; a few numbers, whatever
// the size of the data or of a shuffle buffer.
struct IteratorState {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t elements = 0;   // that it has given
  uint64_t pipeline = 0;  // a hash of the dataset's description
  uint64_t sources = 0;   // a hash of the names of its files
  int64_t hosts = 1;      // how many machines shared its batches (HostShard)

  // "seed=7 epoch=0 elements=1200 pipeline=1f3a... sources=9c...", and " hosts=4" of several.
  std::string ToString() const;
  static absl::StatusOr<IteratorState> Parse(absl::string_view text);
};

// This machine among those that share every batch of one training: of a batch of `size` rows,
// machine `index` of `count` gets those of [size * index / count, size * (index + 1) / count). So
// all get the same number of batches, the order of the data does not depend on how many they are,
// and the state of an iterator is the same on each of them and holds for another number of them.
//
// A last batch of fewer rows is shared alike: it is smaller on all machines; one of fewer rows than
// there are machines is dropped on all. Dataset::Cardinality tells the number of batches. If
// another number of machines would have different batches because of that (Repeat or Shuffle comes
// after the Batch, and only one of the numbers drops the last batch), a state is rejected on the
// other number; `drop_remainder` makes it valid on any.
//
// The numbers of rows of the machines differ by at most one, and not at all where `size` is a
// multiple of `count` and the last batch is dropped (drop_remainder): what one SPMD program needs.
//
// Nothing else about the shape of a batch may depend on which rows a machine has, or machines would
// run programs of different shapes: MakeIterator rejects numeric columns whose rows have no fixed
// shape (PaddedBatch without padded_shapes, ragged columns, images without .height, .width).
struct HostShard {
  int64_t count = 1;
  int64_t index = 0;  // from 0

  // Of a batch of `size` rows: the first of this machine, and the one behind its last.
  std::pair<int64_t, int64_t> RowsOf(int64_t size) const {
    return {size * index / count, size * (index + 1) / count};
  }
};

// An element that was left out because of an error.
struct SkippedElement {
  std::string origin;  // "uri:offset:record"
  std::string stage;   // that failed: "DecodeImage"
  std::string what;    // its error without these two
  absl::Status error;  // the whole, as an iterator would give it
};
// An error ends the iterator.
using OnSkipped = std::function<absl::Status(const SkippedElement& skipped)>;

// See IteratorOptions.deterministic.
inline constexpr int kMostOvertaken = 64;

struct IteratorOptions {
  // Computes. None: the iterator owns one of the machine's size. It outlives the iterator.
  base::ThreadPool* pool = nullptr;
  // None: io::FileSystem::Default(), which knows every scheme.
  std::shared_ptr<io::FileSystem> file_system = {};
  // Of all that is random and has no seed of its own. None: drawn; Iterator::seed tells.
  std::optional<uint64_t> seed = {};
  // True: the same seed gives the same elements in the same order, whatever the number of threads.
  // False: what is ready first comes first, but nothing is overtaken without end: where a stage
  // gives what is ready (a batch; a file of FromFiles; a dataset of Interleave; 16 records of a
  // global shuffle, 64 from an object store; of files read in turns, a block of each), at most
  // kMostOvertaken of these come before one whose turn it was.
  bool deterministic = true;
  // Which pass over the data this is, for one iterator per epoch: Shuffle draws another order for
  // each. Epoch 3 gives what the fourth round of Repeat() gives in one that began with epoch 0.
  int64_t epoch = 0;
  // Elements (batches, when the dataset ends in batches) that are passed over before the first, for
  // going on where an earlier run stopped: the same elements follow as there. Nothing is decoded
  // for it. Not deterministic: what is passed over are the first elements of the fixed order; those
  // of them that the earlier run had not given yet are lost in this epoch, and as many that it gave
  // before their turn come again. There are no more of them than may overtake (see above), and
  // stand in shuffle buffers.
  int64_t skip = 0;
  // Resumes from the State of another iterator, in place of seed, epoch and skip. The dataset must
  // be described as it was then; `host` may be another (see HostShard). Data that ends before the
  // state's position is an error, unless `deterministic` is false.
  std::optional<IteratorState> state = {};
  // With a count of more than 1 the dataset has to end in Batch, PaddedBatch or Rebatch, behind
  // which may stand what makes a batch of each, chooses batches or repeats them. Every machine has
  // the same seed, or state. Needs deterministic. Each machine reads all records, since the order
  // is one, but computes its own only; of FromTfRecords with global_shuffle, when nothing but
  // ParseExample, DecodeImage and Map stands between, it reads its own only.
  HostShard host = {};
  // Elements may be left out because of errors where a stage says so (IgnoreErrors,
  // TfRecordOptions.skip_damaged): so many of them, all stages and epochs together, those included
  // that are passed over first. The error of one more ends the iterator. -1: any number.
  int64_t max_errors = -1;
  // Called for each of them, one call at a time, by any thread, also ahead of the reader; it must
  // not use the iterator. ErrorReport (error_report.h) writes them into a file.
  OnSkipped on_skipped = {};
  // What the iterator may hold: elements read ahead, shuffle buffers, batches under way, Cache().
  // A pipeline that cannot run within it is refused, and the error names the stage. What the reader
  // holds, and arrays that were there before, do not count. 0: half of what Linux says is available
  // to this process, its cgroup's limit included.
  int64_t memory_bytes = 0;
  base::Clock* clock = base::Clock::Real();
  // Tells what each thread does for which stage; it has the same clock, and outlives the iterator.
  base::Trace* trace = nullptr;
};

// Who does a stage's work.
enum class StageWork {
  kPassesOn,  // one thread, which drives all stages: it moves references
  kComputes,  // the compute pool, which all such stages share
  kReads,     // threads that wait for storage
};

// Counted since the iterator was made.
struct StageStats {
  std::string stage;
  bool inside_next = false;  // its work is done within the next stage that is not
  int64_t elements = 0;      // that left it
  int64_t bytes = 0;         // of elements that it made; 0 where it makes none
  double busy_seconds = 0;   // summed over threads
  double wait_input_seconds = 0;
  double wait_room_seconds = 0;                    // had elements that nobody took
  int64_t ignored = 0;                             // elements left out because of errors
  std::vector<std::string> ignored_messages = {};  // of the first few, with their origins
  // What was found while running that would make it faster, as a sentence and a command; mostly
  // empty. Explain prints it.
  std::string hint = {};
  StageWork work = StageWork::kPassesOn;
  int64_t parallelism = 1;        // threads, or reads, that may be at work on it at once
  int64_t room = -1;              // how far it may work ahead now, in units; -1: not at all
  std::string room_unit = "";     // "bytes", "batches"
  int64_t memory_bytes = 0;       // that it holds now
  int64_t peak_memory_bytes = 0;  // that it held at most
  std::vector<int> inputs = {};   // indices of the stages from which its elements come
};

// One thread at a time; Stats at any time from any.
class Iterator {
 public:
  // Ends everything under way and waits for what is just running: a read in flight, a row function.
  ~Iterator();
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

  // The next element; false at the end. It belongs to the caller, who may write to its arrays: no
  // other code reads that memory. Arrays are returned without a copy, except those whose memory is
  // read again (arrays of FromArrays and FromNpy, an in-memory Cache), which are copied. Memory of
  // batches is reused once the caller releases it. After an error the same error is returned again.
  // While it waits it computes along with the pool.
  absl::StatusOr<bool> Next(base::NamedArrays* element);

  const ElementSpec& spec() const { return spec_; }
  uint64_t seed() const { return state_.seed; }
  // After the last element that Next gave. For IteratorOptions.state; see `skip` there for what it
  // means when not deterministic.
  IteratorState State() const { return state_; }

  std::vector<StageStats> Stats() const;
  // Elements that were left out because of errors, of all stages.
  int64_t num_skipped() const;
  // How long Next had nothing to give.
  double wait_seconds() const;
  // All of it, for report.h: as a table in text, and as a picture in DOT's language.
  PipelineReport Report() const;
  std::string Table() const;
  std::string Dot() const;
  // What the tuner changed, and why (tuner.h), in order.
  std::vector<std::string> Decisions() const;
  // What is run for what, one step a line; work done within a step stands before it, indented, and
  // what would make it faster below it (StageStats::hint).
  std::string Explain() const;
  // How often memory for a column of a batch had to be allocated.
  int64_t batch_allocations() const;

 private:
  friend class Dataset;
  Iterator() = default;
  base::Array OwnCopy(const base::Array& shared) const;

  // Pools go last: their threads may still hold the engine.
  std::unique_ptr<base::ThreadPool> own_pool_;
  std::unique_ptr<base::ThreadPool> io_pool_;
  std::unique_ptr<Plan> plan_;
  std::shared_ptr<Engine> engine_;
  double began_ = 0;

  ElementSpec spec_;
  IteratorState state_;
  Rows rows_;  // from the engine, not yet given to the reader
  size_t range_ = 0;
  uint32_t row_in_range_ = 0;
};

}  // namespace penstock::data
