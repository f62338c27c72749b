// RowChain: kernels one after the other, as what they do to columns; RowGroup: rows on which a
// chain is being run, in parallel chunks. With an empty chain it still gathers rows into columns.
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
#include "penstock/data/buffer_pool.h"
#include "penstock/data/iterator.h"
#include "penstock/data/row_stage.h"
#include "penstock/data/rows.h"
#include "penstock/data/spec.h"

namespace penstock::data {

class RowGroup;

// Whether row `row` of these columns stays (Filter).
using RowPredicate =
    std::function<absl::StatusOr<bool>(absl::Span<const Column> columns, int64_t row)>;

// Makes columns of a batch out of rows of one column that need not have one shape.
class RowJoin {
 public:
  virtual ~RowJoin() = default;
  // Appends to `out` an array for each column. For an error that is one row's, `*failed_row`.
  virtual absl::Status Join(absl::Span<const base::Array> rows, BufferPool& buffers,
                            int64_t* failed_row, std::vector<base::Array>* out) const = 0;
  // Size of a row in the batch, if known in advance; else 0.
  virtual int64_t RowBytes() const { return 0; }
};

// What is done to a group of rows besides the chain, and how groups are formed (row_node.h).
struct RowNodeOptions {
  std::string name = "Batch";  // in errors
  int64_t batch = 0;           // rows that are stacked to one; 0: rows stay rows
  bool drop_remainder = false;
  // Each call of the input's Next is one batch: at most `batch` rows, fewer at the end (Window).
  bool batch_is_call = false;
  // Of each batch the rows of this machine only. `batch` is the number of all machines' rows.
  HostShard host = {};
  // A batch of rows that stand together in one array is that part of it, not a copy.
  bool share = false;
  // When stacking, for each column of the chain's output: null where rows are stacked as they are.
  // Empty: null for all.
  std::vector<std::shared_ptr<const RowJoin>> joins = {};
  // When not stacking: rows that are left out.
  RowPredicate keep = nullptr;
  bool in_order = false;  // one row after the other, by one thread at a time (Scan)
};

class RowChain {
 public:
  explicit RowChain(const ElementSpec& source);

  // `counters` lives as long as the chain. Null: what it does is counted where the chain is run.
  // `seed` is RowsIn::seed.
  absl::Status Add(const RowStage& stage, const ElementSpec& output, StageCounters* counters,
                   uint64_t seed = 0);

  const ElementSpec& output() const { return output_; }
  bool empty() const { return links_.empty(); }
  // Whether column `i` of the output, for unbatched rows [begin, end), is a view of a source's.
  bool IsView(const Rows& source, int64_t begin, int64_t end, int i) const;
  // Whether the column has strings whose bytes may belong to the source.
  bool PointsIntoSource(int i) const { return values_[output_values_[i]].points_into_source; }

  // Computes rows [begin, end) of the group.
  void Run(RowGroup& group, int64_t begin, int64_t end) const;

 private:
  // A value is a column at some point of the chain.
  struct Value {
    ColumnSpec spec;
    int source = -1;  // the column of the source that it is; -1 when a kernel makes it
    int output = -1;  // the column of the output that it is; -1 when it is of passing use
    bool read = false;
    // Strings that point, or may point, into the bytes of the source's strings.
    bool points_into_source = false;
  };
  struct Link {
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
  // From link `link` on. Rows that fail are left out when rows stay rows.
  void RunLinks(size_t link, RowGroup& group, int64_t begin, int64_t end,
                std::vector<Column> columns) const;
  struct Failed {
    std::vector<int64_t> rows;  // ascending
    bool stopped = false;       // others were not made either
  };
  Failed RunLink(const Link& link, RowGroup& group, int64_t begin, int64_t end,
                 std::vector<Column>& columns) const;

  std::vector<Value> values_;
  std::vector<Link> links_;
  ElementSpec output_;
  std::vector<int> output_values_;
};

// A column that many chunks write into at once. The first row to come decides the shape of all.
class StackedColumn {
 public:
  StackedColumn(const ColumnSpec& spec, const Rows& rows, BufferPool& buffers)
      : spec_(spec), rows_(rows), buffers_(buffers) {}

  // Memory of `count` rows from `row` on.
  absl::StatusOr<char*> Reserve(int64_t row, int64_t count, const base::Shape& shape);
  base::Array Slice(int64_t begin, int64_t end) const { return array_.Slice(begin, end); }
  void KeepAlive(std::shared_ptr<const void> owner);
  base::Array Finish();  // [rows, shape]
  // After Finish: whether strings in it point into other memory.
  bool has_owners() const { return has_owners_; }

 private:
  const ColumnSpec& spec_;
  const Rows& rows_;
  BufferPool& buffers_;
  std::mutex mutex_;
  std::atomic<bool> ready_ = false;  // what follows is then no longer changed
  int64_t first_row_ = 0;
  base::Shape row_shape_;
  base::Array array_;
  std::vector<std::shared_ptr<const void>> owners_;  // guarded by mutex_
  bool has_owners_ = false;
};

// Where one chunk writes a column: into a stacked column, or into memory of its own.
class ColumnWriter {
 public:
  ColumnWriter(const ColumnSpec& spec, int64_t rows, BufferPool& buffers, StackedColumn* stacked,
               int64_t begin)
      : spec_(&spec), rows_(rows), buffers_(&buffers), stacked_(stacked), begin_(begin) {}

  const ColumnSpec& spec() const { return *spec_; }
  // Memory of `count` rows from `row` on; rows come in order.
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
  // Of its own: dense as long as shapes agree, then a list.
  base::Array dense_;
  std::vector<base::Array> list_;
  Column ragged_;
  bool is_ragged_ = false;
  std::vector<std::shared_ptr<const void>> owners_;
};

// Rows, and after them, perhaps, the error of a row.
struct RowPart {
  Rows rows;
  absl::Status status;
};

class RowGroup {
 public:
  struct Place {
    int64_t first = 0;  // number of the first row in this pass
    int64_t epoch = 0;
  };
  RowGroup(std::shared_ptr<const RowChain> chain, Rows rows,
           std::shared_ptr<const RowNodeOptions> options, Place place,
           std::shared_ptr<BufferPool> buffers, base::Clock* clock, StageCounters& counters);

  const Rows& rows() const { return *rows_; }
  // One of `chunks` equal parts, once each, from any thread. True when it was the last to end.
  bool Run(int64_t chunk, int64_t chunks);
  // After the last: the result in order. Of a batch: itself, or the error of its first bad row.
  std::vector<RowPart> Take();
  double busy_seconds() const { return busy_ns_ * 1e-9; }
  bool done() const { return done_; }

 private:
  friend class RowChain;
  void Compute(int64_t begin, int64_t end);
  void Fail(int64_t row, const absl::Status& status, absl::string_view stage,
            absl::string_view place = "");
  // Reports an exception that was thrown while rows from `row` on were computed. It is unknown
  // which row is at fault, so the error is not recoverable.
  void FailWhole(int64_t row, const absl::Status& status, absl::string_view stage);
  bool stack() const { return options_->batch > 0; }
  const RowJoin* Join(int output) const;
  // Sets the memory of a block made of rows [begin, end), and the blocks that it views.
  void Account(int64_t begin, int64_t end, Block* block) const;
  void Done(int64_t begin, int64_t end, std::vector<Column> columns);
  // What is kept of the rows since the last that failed: they begin with the group's row `begin`.
  struct Kept {
    int64_t begin;
    Rows rows;
  };
  void Keep(const BlockPtr& block, int64_t first_in_block, int64_t count, int64_t row, Kept* kept);
  bool IsViewOfOneBlock() const;
  void Finish();
  void Stack();

  const std::shared_ptr<const RowChain> chain_;
  const std::shared_ptr<const Rows> rows_;
  const std::shared_ptr<const RowNodeOptions> options_;
  const Place place_;
  const std::shared_ptr<BufferPool> buffers_;
  base::Clock* const clock_;
  StageCounters& counters_;

  // Of a batch, for each column one of the two. Chunks write different rows.
  std::vector<std::unique_ptr<StackedColumn>> stacked_;
  std::vector<std::vector<base::Array>> joined_;
  const bool view_;
  // Of rows that stay rows, computed in one chunk: with the number of the first row of each.
  std::vector<std::pair<int64_t, Rows>> results_;
  std::atomic<int64_t> chunks_done_ = 0;
  std::atomic<int64_t> busy_ns_ = 0;
  std::atomic<int64_t> busy_of_links_ns_ = 0;
  std::atomic<bool> done_ = false;

  std::mutex mutex_;
  std::vector<std::pair<int64_t, absl::Status>> failures_;  // guarded by mutex_
};

}  // namespace penstock::data
