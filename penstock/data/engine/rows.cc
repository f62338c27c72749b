#include "penstock/data/engine/rows.h"

#include <algorithm>
#include <cstring>

namespace penstock::data {

void Origins::Append(std::shared_ptr<const OriginSource> source, int64_t index, int64_t count) {
  if (count <= 0) return;
  const int64_t begin = segments_.empty() ? 0 : segments_.back().end;
  if (!segments_.empty() && segments_.back().source == source) {
    const int64_t run_begin = segments_.size() > 1 ? segments_[segments_.size() - 2].end : 0;
    if (segments_.back().index + (begin - run_begin) == index) {
      segments_.back().end += count;
      return;
    }
  }
  segments_.push_back({begin + count, index, std::move(source)});
}

const Origins::Segment* Origins::Find(int64_t row) const {
  const auto it = std::partition_point(segments_.begin(), segments_.end(),
                                       [&](const Segment& run) { return run.end <= row; });
  return it == segments_.end() ? nullptr : &*it;
}

void Origins::Append(const Origins& other, int64_t begin, int64_t count) {
  const Segment* run = other.Find(begin);
  for (int64_t row = begin; row < begin + count && run != nullptr; ++run) {
    if (run == other.segments_.data() + other.segments_.size()) break;
    const int64_t run_begin = run == other.segments_.data() ? 0 : run[-1].end;
    const int64_t last = std::min(run->end, begin + count);
    Append(run->source, run->index + (row - run_begin), last - row);
    row = last;
  }
}

std::string Origins::At(int64_t row) const {
  const Segment* run = Find(row);
  if (run == nullptr) return "(origin unknown)";
  const int64_t run_begin = run == segments_.data() ? 0 : run[-1].end;
  return run->source->At(run->index + (row - run_begin));
}

Column Column::Ragged(base::Array values, std::vector<int64_t> splits) {
  PENSTOCK_CHECK(!splits.empty());
  Column out(std::move(values));
  out.splits_ = std::move(splits);
  return out;
}

Column Column::List(std::vector<base::Array> rows) {
  Column out;
  out.list_ = std::move(rows);
  return out;
}

base::Array Column::Row(int64_t i) const {
  if (!list_.empty()) return list_[i];
  if (!splits_.empty()) return values_.Slice(splits_[i], splits_[i + 1]);
  return values_.Row(i);
}

base::Shape Column::RowShape(int64_t i) const {
  if (!list_.empty()) return list_[i].shape();
  if (!splits_.empty()) return values_.shape().RowShape().Prepend(splits_[i + 1] - splits_[i]);
  return values_.shape().RowShape();
}

int64_t Column::RowBytes(int64_t i) const {
  const base::Array row = Row(i);
  int64_t bytes = row.num_bytes();
  if (row.dtype() == base::DType::kString) {
    for (absl::string_view s : row.values<absl::string_view>()) bytes += s.size();
  }
  return bytes;
}

Column Column::Slice(int64_t begin, int64_t end) const {
  if (!list_.empty()) {
    return List(std::vector<base::Array>(list_.begin() + begin, list_.begin() + end));
  }
  if (!splits_.empty()) {
    return Ragged(values_,
                  std::vector<int64_t>(splits_.begin() + begin, splits_.begin() + end + 1));
  }
  return values_.valid() ? Column(values_.Slice(begin, end)) : Column();
}

void ChargeTo(const Block& block, MemoryAccount* account) {
  block.charge.MoveTo(account);
  for (const BlockPtr& viewed : block.views) ChargeTo(*viewed, account);
}

void PinCharge(const Block& block, MemoryAccount* account) {
  block.charge.MoveTo(account);
  block.charge.Pin();
  for (const BlockPtr& viewed : block.views) PinCharge(*viewed, account);
}

bool IsCharged(const Block& block) {
  return block.charge.bytes() > 0 ||
         std::any_of(block.views.begin(), block.views.end(),
                     [](const BlockPtr& viewed) { return IsCharged(*viewed); });
}

namespace {

// The mark is the type of the owner's deleter: it costs unmarked arrays nothing, and all views of
// the memory have it.
struct SharedMemory {
  std::shared_ptr<const void> owner;
  void operator()(const void*) { owner = nullptr; }
};

}  // namespace

base::Array MarkShared(const base::Array& array) {
  if (!array.valid() || IsShared(array)) return array;
  std::shared_ptr<const void> owner(array.raw(), SharedMemory{array.owner()});
  return base::Array::View(array.dtype(), array.shape(), array.raw(), std::move(owner));
}

bool IsShared(const base::Array& array) {
  return std::get_deleter<SharedMemory>(array.owner()) != nullptr;
}

BlockPtr MarkShared(const BlockPtr& block) {
  auto shared = std::make_shared<Block>();
  shared->rows = block->rows;
  for (const Column& column : block->columns) {
    shared->columns.push_back(
        column.Transform([](const base::Array& array) { return MarkShared(array); }));
  }
  shared->origins = block->origins;
  shared->views = {block};
  return shared;
}

void RowRefs::clear() { *this = RowRefs(); }

uint32_t RowRefs::AddBlock(const BlockPtr& block) {
  if (blocks_.empty() || blocks_.back() != block) blocks_.push_back(block);
  return static_cast<uint32_t>(blocks_.size() - 1);
}

void RowRefs::AddRow(uint32_t block, uint32_t row) {
  ranges_.push_back({block, row, 1});
  ++size_;
}

void RowRefs::Append(const BlockPtr& block, int64_t begin, int64_t count) {
  if (count <= 0) return;
  PENSTOCK_CHECK(begin >= 0 && begin + count <= block->rows && block->rows <= UINT32_MAX);
  const uint32_t index = AddBlock(block);
  size_ += count;
  if (ranges_.size() > head_) {
    Range& last = ranges_.back();
    if (last.block == index && last.begin + last.count == begin) {
      last.count += static_cast<uint32_t>(count);
      return;
    }
  }
  ranges_.push_back({index, static_cast<uint32_t>(begin), static_cast<uint32_t>(count)});
}

void RowRefs::Append(const RowRefs& other, int64_t begin, int64_t count) {
  int64_t at = 0;
  for (const Range& range : other.ranges()) {
    const int64_t first = std::max<int64_t>(begin - at, 0);
    const int64_t last = std::min<int64_t>(begin + count - at, range.count);
    if (first < last) Append(other.blocks_[range.block], range.begin + first, last - first);
    at += range.count;
    if (at >= begin + count) break;
  }
}

void RowRefs::MoveFront(int64_t count, RowRefs* to) {
  PENSTOCK_CHECK(count <= size_);
  if (count == size_ && to->empty() && head_ == 0) {
    std::swap(*this, *to);
    clear();
    return;
  }
  while (count > 0) {
    Range& range = ranges_[head_];
    const uint32_t part = static_cast<uint32_t>(std::min<int64_t>(count, range.count));
    to->Append(blocks_[range.block], range.begin, part);
    range.begin += part;
    range.count -= part;
    size_ -= part;
    count -= part;
    if (range.count == 0) ++head_;
  }
  if (size_ == 0) clear();
}

std::pair<const Block*, int64_t> RowRefs::At(int64_t row) const {
  std::pair<const Block*, int64_t> found = {nullptr, 0};
  ForEachRange(*this, row, row + 1, [&](const Block& block, int64_t begin, int64_t) {
    found = {&block, begin};
  });
  return found;
}

std::string RowRefs::OriginOf(int64_t row) const {
  const auto [block, index] = At(row);
  PENSTOCK_CHECK(block != nullptr);
  return block->origins.At(index);
}

Origins RowRefs::AllOrigins() const {
  Origins out;
  ForEachRange(*this, 0, size_, [&](const Block& block, int64_t begin, int64_t count) {
    out.Append(block.origins, begin, count);
  });
  return out;
}

int64_t BytesOf(const Column& column, int64_t rows, int64_t begin, int64_t count) {
  const base::Array& values = column.values();
  int64_t bytes = 0;
  if (column.dense() && values.rank() == 1 && values.dtype() == base::DType::kString) {
    const absl::string_view* strings = values.data<absl::string_view>();
    for (int64_t i = begin; i < begin + count; ++i) bytes += strings[i].size();
  } else if (column.dense() && values.dtype() != base::DType::kString) {
    bytes = values.num_bytes() / std::max<int64_t>(rows, 1) * count;
  } else {
    for (int64_t i = begin; i < begin + count; ++i) bytes += column.RowBytes(i);
  }
  return bytes;
}

int64_t RowRefs::Bytes() const {
  int64_t bytes = 0;
  ForEachRange(*this, 0, size_, [&](const Block& block, int64_t begin, int64_t count) {
    for (const Column& column : block.columns) bytes += BytesOf(column, block.rows, begin, count);
  });
  return bytes;
}

Column ColumnOfRows(const std::vector<base::Array>& rows) {
  PENSTOCK_CHECK(!rows.empty());
  const base::Shape& shape = rows[0].shape();
  for (const base::Array& row : rows) {
    if (!(row.shape() == shape)) return Column::List(rows);
  }
  const base::DType dtype = rows[0].dtype();
  base::Array dense =
      base::Array::Uninitialized(dtype, shape.Prepend(static_cast<int64_t>(rows.size())));
  const std::shared_ptr<const void>* owner = nullptr;
  for (size_t i = 0; i < rows.size(); ++i) {
    base::Array to = dense.Row(static_cast<int64_t>(i));
    if (dtype != base::DType::kString) {
      if (to.num_bytes() > 0) std::memcpy(to.mutable_raw(), rows[i].raw(), to.num_bytes());
      continue;
    }
    const auto strings = rows[i].values<absl::string_view>();
    std::copy(strings.begin(), strings.end(), to.mutable_data<absl::string_view>());
    if (owner == nullptr || *owner != rows[i].owner()) dense.KeepAlive(rows[i].owner());
    owner = &rows[i].owner();
  }
  return Column(std::move(dense));
}

BlockPtr CopyRows(const RowRefs& rows) {
  auto copy = std::make_shared<Block>();
  copy->rows = rows.size();
  copy->origins = rows.AllOrigins();
  const size_t num_columns = rows.empty() ? 0 : rows.blocks()[0]->columns.size();
  for (size_t c = 0; c < num_columns; ++c) {
    std::vector<base::Array> arrays;
    ForEachRange(rows, 0, rows.size(), [&](const Block& block, int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i) arrays.push_back(block.columns[c].Row(i));
    });
    if (arrays[0].dtype() == base::DType::kString) {
      for (base::Array& array : arrays) array = array.Clone();
    }
    Column column = ColumnOfRows(arrays);
    if (!column.dense() && arrays[0].dtype() != base::DType::kString) {
      for (base::Array& array : arrays) array = array.Clone();
      column = Column::List(std::move(arrays));
    }
    copy->own_bytes += BytesOf(column, copy->rows, 0, copy->rows);
    copy->columns.push_back(std::move(column));
  }
  return copy;
}

}  // namespace penstock::data
