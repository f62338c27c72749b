// FusedKernels: the kernels of consecutive row stages, fused into one pass over the rows. RowGroup:
// the rows of one such pass, computed in parallel chunks. Without kernels a RowGroup still gathers
// rows into columns.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/data/engine/buffer_pool.h"
#include "penstock/data/engine/rows.h"
#include "penstock/data/iterator.h"
#include "penstock/data/row_stage.h"
#include "penstock/data/spec.h"

namespace penstock::data {

class RowGroup;

// Whether to keep row `row` of these columns (Filter).
using RowPredicate =
    std::function<absl::StatusOr<bool>(absl::Span<const Column> columns, int64_t row)>;

// Makes columns of a batch from rows of one column that may have different shapes (padding,
// ragged).
class RowJoin {
 public:
  virtual ~RowJoin() = default;
  // Appends to `out` an array for each column. If an error is caused by one row, sets
  // `*failed_row`.
  virtual absl::Status Join(absl::Span<const base::Array> rows, BufferPool& buffers,
                            int64_t* failed_row, std::vector<base::Array>* out) const = 0;
  // Size of a row in the batch, if known in advance; else 0.
  virtual int64_t RowBytes() const { return 0; }
};

// Options of a RowNode: how rows are grouped, and what is done to a group besides the kernels
// (row_node.h).
struct RowNodeOptions {
  std::string name = "Batch";  // name in errors
  int64_t batch = 0;           // number of rows to stack; 0: rows are not stacked
  bool drop_remainder = false;
  // Whether each call of the input's Next is one batch: at most `batch` rows, fewer at the end
  // (Window).
  bool batch_is_call = false;
  // Computes this host's rows of each batch only. `batch` is the number of all hosts' rows.
  HostShard host = {};
  // Whether a batch of rows that are contiguous in one array is a view of it, not a copy.
  bool share = false;
  // When stacking, for each column of the kernels' output: null if rows are stacked unchanged.
  // Empty: null for all.
  std::vector<std::shared_ptr<const RowJoin>> joins = {};
  // When not stacking: rows to keep. Null: all.
  RowPredicate keep = nullptr;
  bool in_order = false;  // one row after the other, by one thread at a time (Scan)
};

// The kernels of consecutive row stages.
class FusedKernels {
 public:
  explicit FusedKernels(const ElementSpec& source);

  // `counters` outlives this object. Null: the work is counted by the node that runs it.
  // `seed` is RowsIn::seed.
  absl::Status Add(const RowStage& stage, const ElementSpec& output, StageCounters* counters,
                   uint64_t seed = 0);

  const ElementSpec& output() const { return output_; }
  bool empty() const { return kernels_.empty(); }
  // Whether column `i` of the output, for unbatched rows [begin, end), is a view of a source's
  // column.
  bool IsView(const RowRefs& source, int64_t begin, int64_t end, int i) const;
  // Whether the column has strings whose bytes may belong to the source.
  bool PointsIntoSource(int i) const { return values_[output_values_[i]].points_into_source; }

  // Computes rows [begin, end) of the group.
  void Run(RowGroup& group, int64_t begin, int64_t end) const;

 private:
  // A value is a column before, between or after kernels.
  struct Value {
    ColumnSpec spec;
    int source = -1;  // its column in the source; -1 if a kernel makes it
    int output = -1;  // its column in the output; -1 if it is temporary
    bool read = false;
    // Strings that point, or may point, into the bytes of the source's strings.
    bool points_into_source = false;
  };
  struct FusedKernel {
    std::string name;
    std::shared_ptr<const RowKernel> kernel;
    std::vector<int> reads;
    std::vector<int> makes;
    StageCounters* counters;
    uint64_t seed;
  };
  void SetOutput(const ElementSpec& spec, std::vector<int> values);
  absl::Status Read(RowGroup& group, int64_t begin, int64_t end, std::vector<Column>& columns,
                    int64_t* failed_row) const;
  // Runs kernel `first` and the following ones. Rows that fail are dropped, unless rows are
  // stacked.
  void RunKernels(size_t first, RowGroup& group, int64_t begin, int64_t end,
                  std::vector<Column> columns) const;
  struct Failed {
    std::vector<int64_t> rows;  // ascending
    bool stopped = false;       // other rows were not computed either
  };
  Failed RunKernel(const FusedKernel& kernel, RowGroup& group, int64_t begin, int64_t end,
                   std::vector<Column>& columns) const;

  std::vector<Value> values_;
  std::vector<FusedKernel> kernels_;
  ElementSpec output_;
  std::vector<int> output_values_;
};

// A stacked column that many chunks write into concurrently. The first row that arrives decides the
// shape of all.
class StackedColumn {
 public:
  StackedColumn(const ColumnSpec& spec, const RowRefs& rows, BufferPool& buffers)
      : spec_(spec), rows_(rows), buffers_(buffers) {}

  // Memory of `count` rows, beginning with `row`.
  absl::StatusOr<char*> Reserve(int64_t row, int64_t count, const base::Shape& shape);
  base::Array Slice(int64_t begin, int64_t end) const { return array_.Slice(begin, end); }
  void KeepAlive(std::shared_ptr<const void> owner);
  base::Array Finish();  // [rows, shape]
  // After Finish: whether strings in it point into other memory.
  bool has_owners() const { return has_owners_; }

 private:
  const ColumnSpec& spec_;
  const RowRefs& rows_;
  BufferPool& buffers_;
  std::mutex mutex_;
  std::atomic<bool> ready_ = false;  // the members below are then no longer changed
  int64_t first_row_ = 0;
  base::Shape row_shape_;
  base::Array array_;
  std::vector<std::shared_ptr<const void>> owners_;  // guarded by mutex_
  bool has_owners_ = false;
};

// Output of one chunk for one column: writes into a stacked column, or into memory of its own.
class ColumnWriter {
 public:
  ColumnWriter(const ColumnSpec& spec, int64_t rows, BufferPool& buffers, StackedColumn* stacked,
               int64_t begin)
      : spec_(&spec), rows_(rows), buffers_(&buffers), stacked_(stacked), begin_(begin) {}

  const ColumnSpec& spec() const { return *spec_; }
  // Memory of `count` rows, beginning with `row`; rows come in order.
  absl::StatusOr<char*> Reserve(int64_t row, int64_t count, const base::Shape& shape);
  absl::StatusOr<base::Array> Dense();
  absl::Status SetRagged(base::Array values, std::vector<int64_t> splits);
  void KeepAlive(std::shared_ptr<const void> owner);
  Column Finish();

 private:
  const ColumnSpec* spec_;
  int64_t rows_;
  BufferPool* buffers_;
  StackedColumn* stacked_;
  int64_t begin_;
  // Its own memory: dense while shapes agree, then a list.
  base::Array dense_;
  std::vector<base::Array> list_;
  Column ragged_;
  bool is_ragged_ = false;
  std::vector<std::shared_ptr<const void>> owners_;
};

// Rows, followed by the error of a row unless `status` is OK.
struct RowPart {
  RowRefs rows;
  absl::Status status;
};

// The rows of one pass of FusedKernels.
class RowGroup {
 public:
  struct Position {
    int64_t first = 0;  // index of the first row in this pass
    int64_t epoch = 0;
  };
  RowGroup(std::shared_ptr<const FusedKernels> kernels, RowRefs rows,
           std::shared_ptr<const RowNodeOptions> options, Position position,
           std::shared_ptr<BufferPool> buffers, base::Clock* clock, StageCounters& counters);

  // The input; empty after Take.
  const RowRefs& rows() const { return *rows_; }
  // Computes one of `chunks` equal parts. Called once for each part, by any thread. True for the
  // call that ends last.
  bool Run(int64_t chunk, int64_t chunks);
  // The result in order, once, after the last chunk. For a batch: the batch, or the error of its
  // first failed row. Releases everything else: a thread that ran the last chunk may hold the group
  // a little longer, but no memory of the pipeline.
  std::vector<RowPart> Take();
  double busy_seconds() const { return busy_ns_ * 1e-9; }
  bool done() const { return done_; }

 private:
  friend class FusedKernels;
  void Compute(int64_t begin, int64_t end);
  void Fail(int64_t row, const absl::Status& status, absl::string_view stage,
            absl::string_view location = "");
  // Reports an exception that was thrown while rows from `row` on were computed. It is unknown
  // which row is at fault, so the error is not recoverable.
  void FailWhole(int64_t row, const absl::Status& status, absl::string_view stage);
  bool stack() const { return options_->batch > 0; }
  const RowJoin* Join(int output) const;
  // Sets own_bytes and views of a block made of rows [begin, end).
  void Account(int64_t begin, int64_t end, Block* block) const;
  void Done(int64_t begin, int64_t end, std::vector<Column> columns);
  // Rows kept since the last that failed: they begin with the group's row `begin`.
  struct Kept {
    int64_t begin;
    RowRefs rows;
  };
  void Keep(const BlockPtr& block, int64_t first_in_block, int64_t count, int64_t row, Kept* kept);
  bool IsViewOfOneBlock() const;
  void Finish();
  void Stack();
  std::vector<RowPart> Parts();

  const std::shared_ptr<const FusedKernels> kernels_;
  std::shared_ptr<const RowRefs> rows_;
  const std::shared_ptr<const RowNodeOptions> options_;
  const Position position_;
  const std::shared_ptr<BufferPool> buffers_;
  base::Clock* const clock_;
  StageCounters& counters_;

  // For each column of a batch one of the two. Chunks write different rows.
  std::vector<std::unique_ptr<StackedColumn>> stacked_;
  std::vector<std::vector<base::Array>> joined_;
  const bool view_;
  // Rows that are not stacked, computed in one chunk: with the index of the first row of each.
  std::vector<std::pair<int64_t, RowRefs>> results_;
  std::atomic<int64_t> chunks_done_ = 0;
  std::atomic<int64_t> busy_ns_ = 0;
  std::atomic<int64_t> busy_of_kernels_ns_ = 0;
  std::atomic<bool> done_ = false;

  std::mutex mutex_;
  std::vector<std::pair<int64_t, absl::Status>> failures_;  // guarded by mutex_
};

}  // namespace penstock::data
