// RowChain: kernels one after the other, as what they do to columns; RowGroup: rows on which a
// chain is being run, in parallel chunks. With an empty chain it still gathers rows into columns.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/clock.h"
#include "penstock/data/buffer_pool.h"
#include "penstock/data/row_stage.h"
#include "penstock/data/rows.h"
#include "penstock/data/spec.h"

namespace penstock::data {

class RowGroup;

class RowChain {
 public:
  explicit RowChain(const ElementSpec& source);

  // `counters` lives as long as the chain.
  absl::Status Add(const RowStage& stage, const ElementSpec& output, StageCounters* counters);

  const ElementSpec& output() const { return output_; }
  bool empty() const { return links_.empty(); }

  // Computes rows [begin, end) of the group.
  void Run(RowGroup& group, int64_t begin, int64_t end) const;

 private:
  // A value is a column at some point of the chain.
  struct Value {
    ColumnSpec spec;
    int source = -1;  // the column of the source that it is; -1 when a kernel makes it
    int output = -1;  // the column of the output that it is; -1 when it is of passing use
    bool read = false;
  };
  struct Link {
    std::string name;
    std::shared_ptr<const RowKernel> kernel;
    std::vector<int> reads;
    std::vector<int> makes;
    StageCounters* counters;
  };
  void SetOutput(const ElementSpec& spec, std::vector<int> values);
  bool RunLink(const Link& link, RowGroup& group, int64_t begin, int64_t end,
               std::vector<ColumnWriter>& writers, std::vector<Column>& columns) const;

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

class RowGroup {
 public:
  struct Options {
    bool stack = false;  // the rows become one row of the output
    int64_t first = 0;   // number of the first row in this pass
    int64_t epoch = 0;
  };
  RowGroup(std::shared_ptr<const RowChain> chain, Rows rows, Options options,
           std::shared_ptr<BufferPool> buffers, base::Clock* clock, StageCounters& counters);

  const Rows& rows() const { return *rows_; }
  // One of `chunks` equal parts, once each, from any thread. True when it was the last to end.
  bool Run(int64_t chunk, int64_t chunks);
  // After the last: the result, one block.
  absl::StatusOr<BlockPtr> Take();
  double busy_seconds() const { return busy_ns_ * 1e-9; }
  bool done() const { return done_; }

 private:
  friend class RowChain;
  void Fail(int64_t row, const absl::Status& status, absl::string_view stage,
            absl::string_view place = "");
  void Finish();

  const std::shared_ptr<const RowChain> chain_;
  const std::shared_ptr<const Rows> rows_;
  const Options options_;
  const std::shared_ptr<BufferPool> buffers_;
  base::Clock* const clock_;
  StageCounters& counters_;

  std::vector<std::unique_ptr<StackedColumn>> stacked_;
  std::vector<Column> columns_;  // when not stacked: of the only chunk
  std::atomic<int64_t> chunks_done_ = 0;
  std::atomic<int64_t> busy_ns_ = 0;
  std::atomic<int64_t> busy_of_links_ns_ = 0;
  std::atomic<bool> done_ = false;
  BlockPtr result_;

  std::mutex mutex_;
  // Guarded by mutex_: of the first row that failed.
  int64_t failed_row_ = -1;
  absl::Status status_;
};

}  // namespace penstock::data
