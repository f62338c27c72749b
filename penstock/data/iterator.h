// Iterator: runs a Dataset and returns its elements in order. Stages prefetch in background
// threads, within the memory budget (IteratorOptions.memory_bytes); a slow reader causes
// backpressure, which stops them.
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
#include "penstock/data/engine/rows.h"
#include "penstock/data/spec.h"

namespace penstock::io {
class FileSystem;
}

namespace penstock::data {

class Engine;
class PipelinePlan;
struct PipelineReport;

// Iterator state (checkpoint position): enough to resume in a new process. A few numbers, whatever
// the size of the data or of a shuffle buffer.
struct IteratorState {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t elements = 0;   // number of elements returned
  uint64_t pipeline = 0;  // a hash of the dataset's description
  uint64_t sources = 0;   // a hash of the names of its files
  int64_t hosts = 1;      // number of hosts that shared the batches (HostShard)

  // "seed=7 epoch=0 elements=1200 pipeline=1f3a... sources=9c...", and " hosts=4" if there are
  // several hosts.
  std::string ToString() const;
  static absl::StatusOr<IteratorState> Parse(absl::string_view text);
};

// Host shard: one host's part of every batch in data-parallel training on several machines. Of a
// batch of `size` rows, host `index` of `count` gets rows [size * index / count, size * (index + 1)
// / count). All hosts therefore get the same number of batches, the order of the data does not
// depend on the number of hosts, and the iterator state is the same on every host and can be
// restored on a different number of hosts.
//
// A last batch of fewer rows is divided in the same way: it is smaller on all hosts. If it has
// fewer rows than there are hosts, it is dropped on all of them. Dataset::Cardinality returns the
// number of batches. If another number of hosts would have different batches because of that
// (Repeat or Shuffle comes after the Batch, and only one of the numbers drops the last batch), the
// state is rejected on that number; `drop_remainder` makes it valid on any number.
//
// The hosts' numbers of rows differ by at most one, and not at all if `size` is a multiple of
// `count` and the last batch is dropped (drop_remainder), as an SPMD program requires.
//
// No other part of a batch's shape may depend on which rows a host has, or the hosts would run
// programs of different shapes: MakeIterator rejects numeric columns whose rows have no fixed shape
// (PaddedBatch without padded_shapes, ragged columns, images without .height and .width).
struct HostShard {
  int64_t count = 1;
  int64_t index = 0;  // from 0

  // Rows [first, second) of a batch of `size` rows that belong to this host.
  std::pair<int64_t, int64_t> RowsOf(int64_t size) const {
    return {size * index / count, size * (index + 1) / count};
  }
};

// An element that was skipped because of a recoverable error.
struct SkippedElement {
  std::string origin;  // "uri:offset:record"
  std::string stage;   // the stage that failed: "DecodeImage"
  std::string what;    // the error message without these two
  absl::Status error;  // the complete error, as Iterator::Next would return it
};
// Callback for skipped elements. If it returns an error, the iterator ends with that error.
using OnSkipped = std::function<absl::Status(const SkippedElement& skipped)>;

// Reorder window when not deterministic: see IteratorOptions.deterministic.
inline constexpr int kReorderWindow = 64;

struct IteratorOptions {
  // Compute pool; must outlive the iterator. Default: a private pool with one worker thread per
  // core.
  base::ThreadPool* pool = nullptr;
  // Default: io::FileSystem::Default(), which handles every scheme.
  std::shared_ptr<io::FileSystem> file_system = {};
  // Seed of all random stages that have no seed of their own. Default: random; Iterator::seed
  // returns it.
  std::optional<uint64_t> seed = {};
  // Whether the order of elements is reproducible (tf.data's `deterministic`). True: the same seed
  // gives the same elements in the same order, whatever the number of threads.
  //
  // False: elements are returned as soon as they are ready, within a bounded reorder window: at
  // most kReorderWindow units come before one whose turn it was. A unit is a batch; a file of
  // FromFiles; a dataset of Interleave; 16 records of a global shuffle (64 from an object store); a
  // block of each interleaved file.
  bool deterministic = true;
  // Epoch (pass over the data) that this iterator runs, for programs that make one iterator per
  // epoch: Shuffle draws another order for each epoch. Epoch 3 returns the same elements as the
  // fourth round of Repeat() in an iterator that began with epoch 0.
  int64_t epoch = 0;
  // Number of elements (batches, if the dataset ends in batches) to skip before the first one, to
  // resume an earlier run: the elements that follow are the same as in that run. Skipped elements
  // are not decoded.
  //
  // When not deterministic, the first elements of the deterministic order are skipped. Those of
  // them that the earlier run had not returned yet are missing from this epoch, and as many that it
  // returned early come again: no more than the reorder window (see above) and the shuffle buffers
  // hold.
  int64_t skip = 0;
  // Iterator state to resume from (Iterator::State), in place of seed, epoch and skip. The dataset
  // must have the same description and files as when the state was saved; `host` may differ (see
  // HostShard). If the data ends before the state's position, Next returns an error, unless
  // `deterministic` is false.
  std::optional<IteratorState> state = {};
  // This host's part of every batch, for training on several hosts. With a count of more than 1 the
  // dataset must end in Batch, PaddedBatch or Rebatch, followed only by stages that map, select or
  // repeat whole batches. Every host must have the same seed, or state. Requires deterministic.
  // Each host reads all records, because there is one global order, but decodes only its own;
  // FromTfRecords with global_shuffle reads only its own records if only ParseExample, DecodeImage
  // and Map stand between it and the Batch.
  HostShard host = {};
  // Maximum number of elements that may be skipped because of errors, in stages that permit it
  // (IgnoreErrors, TfRecordOptions.skip_corrupt); counted over all stages and epochs, including
  // elements that `skip` or `state` skips. The error of one more ends the iterator. -1: no limit.
  int64_t max_errors = -1;
  // Callback for each element skipped because of an error. Calls do not overlap, come from any
  // thread, and may run ahead of the reader; the callback must not use the iterator. ErrorReport
  // (error_report.h) writes a file.
  OnSkipped on_skipped = {};
  // Memory budget in bytes: elements read ahead, shuffle buffers, batches in flight, Cache()
  // (memory_budget.h). A pipeline whose reserved working set exceeds it is rejected with an error
  // that names the stage. Elements that the reader holds and arrays that existed before do not
  // count. 0: half of what Linux reports as available to this process, including its cgroup's
  // limit.
  int64_t memory_bytes = 0;
  base::Clock* clock = base::Clock::Real();
  // Trace that records a span for each piece of work, named after its stage. It uses the same clock
  // and must outlive the iterator. Null: no tracing.
  base::Trace* trace = nullptr;
};

// The threads that do a stage's work.
enum class StageWork {
  kDriver,   // the driving thread, shared by all stages: only references to rows are moved
  kCompute,  // worker threads of the compute pool, shared by all such stages
  kIo,       // threads of the I/O pool, which block on storage
};

// Statistics of one stage since the iterator was made.
struct StageStats {
  std::string stage;
  bool inside_next = false;         // fused into the next stage for which this is false
  int64_t elements = 0;             // number of elements that left the stage
  int64_t bytes = 0;                // bytes of the elements that it made; 0 if it makes none
  double busy_seconds = 0;          // summed over threads
  double wait_input_seconds = 0;    // time in which it waited for its input
  double backpressure_seconds = 0;  // time in which its queue was full: downstream is slower
  int64_t skipped = 0;              // number of elements skipped because of errors
  std::vector<std::string> skipped_messages = {};  // errors of the first few, with their origins
  // Advice that was found while running, as a sentence and a command; usually empty. Explain prints
  // it.
  std::string hint = {};
  StageWork work = StageWork::kDriver;
  int64_t parallelism = 1;         // maximum number of threads, or of reads in flight
  int64_t prefetch_limit = -1;     // current limit of prefetch or read-ahead; -1: it has none
  std::string prefetch_unit = "";  // unit of prefetch_limit: "bytes", "batches"
  int64_t memory_bytes = 0;        // charged to it now
  int64_t peak_memory_bytes = 0;
  std::vector<int> inputs = {};  // indices of the stages directly upstream
};

// Iterator over the elements of a Dataset. Used by one thread at a time; Stats and Interrupt may be
// called by any thread at any time.
class Iterator {
 public:
  // Cancels queued work and blocks until running work ends: a read in flight, a user-defined
  // function.
  ~Iterator();
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;

  // Sets `*element` to the next element and returns true; returns false at the end. The element
  // belongs to the caller, who may write to its arrays: no other code reads that memory. Arrays are
  // returned without a copy, except those whose memory is read again (arrays of FromArrays and
  // FromNpy, an in-memory Cache), which are copied. Memory of batches is reused once the caller
  // releases it. After an error the same error is returned again. While it waits, the calling
  // thread runs jobs of the compute pool.
  absl::StatusOr<bool> Next(base::NamedArrays* element);

  // Ends the iteration from any thread: Next returns CANCELLED from now on, also one that waits. Does
  // not block, unlike the destructor.
  void Interrupt();

  const ElementSpec& spec() const { return spec_; }
  uint64_t seed() const { return state_.seed; }
  // Iterator state after the last element that Next returned, for IteratorOptions.state; see `skip`
  // there for its meaning when not deterministic.
  IteratorState State() const { return state_; }

  std::vector<StageStats> Stats() const;
  // Number of elements that all stages skipped because of errors.
  int64_t num_skipped() const;
  // Time that Next has spent waiting for elements, in seconds.
  double wait_seconds() const;
  // All statistics; as a text table; as a graph in the DOT language (report.h).
  PipelineReport Report() const;
  std::string Table() const;
  std::string Dot() const;
  // Decisions of the tuner (autotune, engine/tuner.h) and their reasons, in order.
  std::vector<std::string> Decisions() const;
  // Execution plan, one stage per line; stages fused into a stage stand before it, indented, and
  // advice below it (StageStats::hint).
  std::string Explain() const;
  // Number of times that memory for a column of a batch was allocated, not reused.
  int64_t batch_allocations() const;

 private:
  friend class Dataset;
  Iterator() = default;
  base::Array OwnCopy(const base::Array& shared) const;

  // Pools are destroyed last: their threads may still hold the engine.
  std::unique_ptr<base::ThreadPool> own_pool_;
  std::unique_ptr<base::ThreadPool> io_pool_;
  std::unique_ptr<PipelinePlan> plan_;
  std::shared_ptr<Engine> engine_;
  double began_ = 0;

  ElementSpec spec_;
  IteratorState state_;
  RowRefs rows_;  // from the engine, not yet returned to the reader
  size_t range_ = 0;
  uint32_t row_in_range_ = 0;
};

}  // namespace penstock::data
