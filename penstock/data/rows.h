// Rows: what flows through the engine. Elements are kept in blocks of columns, and stages pass on
// which rows of which blocks come next; only a stage that computes something touches elements.
//
//   Block   some rows: for each column one Array [rows, ...], and where every row came from
//   Rows    a sequence of rows out of several blocks, as ranges; shuffled rows are ranges of one
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/data/memory_budget.h"

namespace penstock::data {

// Where some elements came from. Every error of an element begins with its origin.
class OriginSource {
 public:
  virtual ~OriginSource() = default;
  // Of the source's element `index`: "train-00.tfrec:4096:17", "arrays:17", "cat.jpg".
  virtual std::string At(int64_t index) const = 0;
};

// The origins of a block's rows: some bytes for each run of rows that were neighbours in their
// source.
class Origins {
 public:
  void Append(std::shared_ptr<const OriginSource> source, int64_t index, int64_t count);
  // Rows [begin, begin + count) of `other`.
  void Append(const Origins& other, int64_t begin, int64_t count);
  std::string At(int64_t row) const;

 private:
  struct Run {
    int64_t end;  // first row after the run
    int64_t index;
    std::shared_ptr<const OriginSource> source;
  };
  const Run* Find(int64_t row) const;

  std::vector<Run> runs_;
};

// One column of a block. Rows of one shape stand in one Array; where shapes differ, either the
// values stand one after the other with the first index of each row (ragged: a row is
// values[splits[i], splits[i+1])), or every row is an Array of its own.
class Column {
 public:
  Column() = default;
  explicit Column(base::Array dense) : values_(std::move(dense)) {}
  static Column Ragged(base::Array values, std::vector<int64_t> splits);
  static Column List(std::vector<base::Array> rows);

  bool dense() const { return splits_.empty() && list_.empty(); }
  const base::Array& values() const { return values_; }  // of a dense or ragged column
  base::Array Row(int64_t i) const;
  base::Shape RowShape(int64_t i) const;
  int64_t RowBytes(int64_t i) const;  // of a string, its bytes
  // Rows [begin, end); shares memory. Of a column that was never set, the same.
  Column Slice(int64_t begin, int64_t end) const;
  // The same column with every array replaced by fn(array).
  template <typename Fn>
  Column Transform(Fn fn) const {
    Column out = *this;
    if (out.values_.valid()) out.values_ = fn(out.values_);
    for (base::Array& row : out.list_) row = fn(row);
    return out;
  }

 private:
  base::Array values_;
  std::vector<int64_t> splits_;
  std::vector<base::Array> list_;
};

struct Block;
using BlockPtr = std::shared_ptr<const Block>;

// The order of the members matters: they are destroyed in reverse order, so memory stays charged
// until it is freed.
struct Block {
  // Held while any of its rows is in use. Empty if its memory existed before (FromArrays), or is
  // charged elsewhere. Only the driving thread changes the account that it is charged to.
  mutable MemoryCharge charge = {};
  // Blocks whose memory its columns view. They stay alive, and charged, as long as this one: a
  // stage that makes views of its input lists it here.
  std::vector<BlockPtr> views = {};
  // Size of its own memory, without that of `views`. The stage that made it charges it.
  int64_t own_bytes = 0;
  int64_t rows = 0;
  std::vector<Column> columns;
  Origins origins;
};

// Charges a block, and all that it views, to `account`, the stage that holds it now.
void ChargeTo(const Block& block, MemoryAccount* account);
// As ChargeTo, but later calls of ChargeTo do not move the charge (Cache).
void KeepCharged(const Block& block, MemoryAccount* account);
// Whether any memory of the block or of its views is charged.
bool IsCharged(const Block& block);

// ---- Memory that is read again later ----
//
// A reader may write to the elements that it receives (iterator.h). Arrays whose memory is read
// again (the user's own arrays, elements that a Cache keeps) are marked as shared. Row, Slice and
// Reshape keep the mark, and an iterator returns copies of marked arrays.

base::Array MarkShared(const base::Array& array);
bool IsShared(const base::Array& array);
// The same rows, with their columns marked as shared.
BlockPtr MarkShared(const BlockPtr& block);

class Rows {
 public:
  struct Range {
    uint32_t block;
    uint32_t begin;
    uint32_t count;
  };

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear();

  void Append(const BlockPtr& block, int64_t begin, int64_t count);
  // For many rows of the same blocks in any order: AddBlock once, then AddRow for each.
  uint32_t AddBlock(const BlockPtr& block);
  void AddRow(uint32_t block, uint32_t row);
  void Append(const Rows& other, int64_t begin, int64_t count);
  // Moves the first `count` rows to the end of `to`. Blocks are let go when no row is left.
  void MoveFront(int64_t count, Rows* to);

  const std::vector<BlockPtr>& blocks() const { return blocks_; }
  // Without the rows that MoveFront took.
  absl::Span<const Range> ranges() const { return absl::MakeConstSpan(ranges_).subspan(head_); }

  // The block and the row in it. Time grows with the number of ranges before it: for errors.
  std::pair<const Block*, int64_t> At(int64_t row) const;
  std::string OriginOf(int64_t row) const;
  Origins AllOrigins() const;
  int64_t Bytes() const;  // of all rows' elements

 private:
  std::vector<BlockPtr> blocks_;
  std::vector<Range> ranges_;
  size_t head_ = 0;  // ranges before it were moved away
  int64_t size_ = 0;
};

// Bytes of the elements of rows [begin, begin + count) of a column of `rows` rows.
int64_t BytesOf(const Column& column, int64_t rows, int64_t begin, int64_t count);
// Copies the rows to new memory (Block::own_bytes), including bytes of strings: for a few rows out
// of large blocks.
BlockPtr CopyRows(const Rows& rows);
// Rows as a column: dense where they have one shape. They are copied, the bytes of strings are not.
Column ColumnOfRows(const std::vector<base::Array>& rows);

// Visits rows [begin, end) of `rows` as ranges of blocks: fn(const Block&, first row, count).
template <typename Fn>
void ForEachRange(const Rows& rows, int64_t begin, int64_t end, Fn fn) {
  const absl::Span<const Rows::Range> ranges = rows.ranges();
  // Shuffled rows are ranges of one row each: no search for the first.
  const bool singles = static_cast<int64_t>(ranges.size()) == rows.size();
  int64_t at = singles ? begin : 0;
  for (const Rows::Range& range : ranges.subspan(at)) {
    if (at >= end) break;
    const int64_t first = std::max<int64_t>(begin - at, 0);
    const int64_t last = std::min<int64_t>(end - at, range.count);
    if (first < last) fn(*rows.blocks()[range.block], range.begin + first, last - first);
    at += range.count;
  }
}

}  // namespace penstock::data
