// Blocks and RowRefs: the data that flows through the engine. Elements are stored in blocks of
// columns, and stages exchange references to rows of blocks; only a stage that computes something
// reads elements.
//
//   Block     some rows: for each column one Array [rows, ...], and the origin of every row
//   RowRefs   references to a sequence of rows of several blocks, as ranges; shuffled rows are
//             ranges of one row
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/data/engine/memory_budget.h"

namespace penstock::data {

// Source of origins: describes where elements came from. Every error of an element begins with its
// origin.
class OriginSource {
 public:
  virtual ~OriginSource() = default;
  // Origin of the source's element `index`: "train-00.tfrec:4096:17", "arrays:17", "cat.jpg".
  virtual std::string At(int64_t index) const = 0;
};

// Origins of a block's rows: a few bytes for each segment of rows that are consecutive in their
// source.
class Origins {
 public:
  void Append(std::shared_ptr<const OriginSource> source, int64_t index, int64_t count);
  // Appends rows [begin, begin + count) of `other`.
  void Append(const Origins& other, int64_t begin, int64_t count);
  std::string At(int64_t row) const;

 private:
  struct Segment {
    int64_t end;  // first row after the segment
    int64_t index;
    std::shared_ptr<const OriginSource> source;
  };
  const Segment* Find(int64_t row) const;

  std::vector<Segment> segments_;
};

// One column of a block. Dense: rows of one shape in one Array. If shapes differ, the column is
// either ragged (the values of all rows concatenated, and row splits: row i is values[splits[i],
// splits[i+1])) or a list (every row is an Array of its own).
class Column {
 public:
  Column() = default;
  explicit Column(base::Array dense) : values_(std::move(dense)) {}
  static Column Ragged(base::Array values, std::vector<int64_t> splits);
  static Column List(std::vector<base::Array> rows);

  bool dense() const { return splits_.empty() && list_.empty(); }
  const base::Array& values() const { return values_; }  // dense or ragged columns only
  base::Array Row(int64_t i) const;
  base::Shape RowShape(int64_t i) const;
  int64_t RowBytes(int64_t i) const;  // strings: their bytes
  // Rows [begin, end), as a view. An unset column returns an unset column.
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
  // Charge of its memory, held while any of its rows is in use. Empty if the memory existed before
  // (FromArrays), or is charged elsewhere. Only the driving thread changes the account.
  mutable MemoryCharge charge = {};
  // Blocks whose memory its columns view. They stay alive, and charged, as long as this block: a
  // stage that makes views of its input lists it here.
  std::vector<BlockPtr> views = {};
  // Size of its own memory, without that of `views`. The stage that made it charges it.
  int64_t own_bytes = 0;
  int64_t rows = 0;
  std::vector<Column> columns;
  Origins origins;
};

// Charges a block, and all blocks that it views, to `account`, of the stage that holds it now.
void ChargeTo(const Block& block, MemoryAccount* account);
// As ChargeTo, but pins the charge: later calls of ChargeTo do not move it (Cache).
void PinCharge(const Block& block, MemoryAccount* account);
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

// References to a sequence of rows of several blocks, as ranges.
class RowRefs {
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
  // For many rows of the same blocks in any order: AddBlock once, then AddRow for each row.
  uint32_t AddBlock(const BlockPtr& block);
  void AddRow(uint32_t block, uint32_t row);
  void Append(const RowRefs& other, int64_t begin, int64_t count);
  // Moves the first `count` rows to the end of `to`. Blocks are released when none of their rows is
  // left.
  void MoveFront(int64_t count, RowRefs* to);

  const std::vector<BlockPtr>& blocks() const { return blocks_; }
  // Ranges of the rows that MoveFront has not removed.
  absl::Span<const Range> ranges() const { return absl::MakeConstSpan(ranges_).subspan(head_); }

  // Block of a row, and its index in the block. Linear in the number of ranges before it: for
  // errors only.
  std::pair<const Block*, int64_t> At(int64_t row) const;
  std::string OriginOf(int64_t row) const;
  Origins AllOrigins() const;
  int64_t Bytes() const;  // size of all rows' elements

 private:
  std::vector<BlockPtr> blocks_;
  std::vector<Range> ranges_;
  size_t head_ = 0;  // first range that MoveFront has not removed
  int64_t size_ = 0;
};

// Size in bytes of rows [begin, begin + count) of a column of `rows` rows.
int64_t BytesOf(const Column& column, int64_t rows, int64_t begin, int64_t count);
// Copies the rows to new memory (Block::own_bytes), including bytes of strings: for a few rows of
// large blocks.
BlockPtr CopyRows(const RowRefs& rows);
// Makes a column of rows: dense if they have one shape. Rows are copied, the bytes of strings are
// not.
Column ColumnOfRows(const std::vector<base::Array>& rows);

// Visits rows [begin, end) of `rows` as ranges of blocks: fn(const Block&, first row, count).
template <typename Fn>
void ForEachRange(const RowRefs& rows, int64_t begin, int64_t end, Fn fn) {
  const absl::Span<const RowRefs::Range> ranges = rows.ranges();
  // Shuffled rows are ranges of one row each: no search for the first.
  const bool singles = static_cast<int64_t>(ranges.size()) == rows.size();
  int64_t at = singles ? begin : 0;
  for (const RowRefs::Range& range : ranges.subspan(at)) {
    if (at >= end) break;
    const int64_t first = std::max<int64_t>(begin - at, 0);
    const int64_t last = std::min<int64_t>(end - at, range.count);
    if (first < last) fn(*rows.blocks()[range.block], range.begin + first, last - first);
    at += range.count;
  }
}

}  // namespace penstock::data
