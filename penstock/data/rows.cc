#include "penstock/data/rows.h"

#include <algorithm>

namespace penstock::data {

void Origins::Append(std::shared_ptr<const OriginSource> source, int64_t index, int64_t count) {
  if (count <= 0) return;
  const int64_t begin = runs_.empty() ? 0 : runs_.back().end;
  if (!runs_.empty() && runs_.back().source == source) {
    const int64_t run_begin = runs_.size() > 1 ? runs_[runs_.size() - 2].end : 0;
    if (runs_.back().index + (begin - run_begin) == index) {
      runs_.back().end += count;
      return;
    }
  }
  runs_.push_back({begin + count, index, std::move(source)});
}

const Origins::Run* Origins::Find(int64_t row) const {
  const auto it = std::partition_point(runs_.begin(), runs_.end(),
                                       [&](const Run& run) { return run.end <= row; });
  return it == runs_.end() ? nullptr : &*it;
}

void Origins::Append(const Origins& other, int64_t begin, int64_t count) {
  const Run* run = other.Find(begin);
  for (int64_t row = begin; row < begin + count && run != nullptr; ++run) {
    if (run == other.runs_.data() + other.runs_.size()) break;
    const int64_t run_begin = run == other.runs_.data() ? 0 : run[-1].end;
    const int64_t last = std::min(run->end, begin + count);
    Append(run->source, run->index + (row - run_begin), last - row);
    row = last;
  }
}

std::string Origins::At(int64_t row) const {
  const Run* run = Find(row);
  if (run == nullptr) return "(origin unknown)";
  const int64_t run_begin = run == runs_.data() ? 0 : run[-1].end;
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

void Rows::clear() { *this = Rows(); }

uint32_t Rows::AddBlock(const BlockPtr& block) {
  if (blocks_.empty() || blocks_.back() != block) blocks_.push_back(block);
  return static_cast<uint32_t>(blocks_.size() - 1);
}

void Rows::AddRow(uint32_t block, uint32_t row) {
  ranges_.push_back({block, row, 1});
  ++size_;
}

void Rows::Append(const BlockPtr& block, int64_t begin, int64_t count) {
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

void Rows::Append(const Rows& other, int64_t begin, int64_t count) {
  int64_t at = 0;
  for (const Range& range : other.ranges()) {
    const int64_t first = std::max<int64_t>(begin - at, 0);
    const int64_t last = std::min<int64_t>(begin + count - at, range.count);
    if (first < last) Append(other.blocks_[range.block], range.begin + first, last - first);
    at += range.count;
    if (at >= begin + count) break;
  }
}

void Rows::MoveFront(int64_t count, Rows* to) {
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

std::pair<const Block*, int64_t> Rows::At(int64_t row) const {
  std::pair<const Block*, int64_t> found = {nullptr, 0};
  ForEachRange(*this, row, row + 1, [&](const Block& block, int64_t begin, int64_t) {
    found = {&block, begin};
  });
  return found;
}

std::string Rows::OriginOf(int64_t row) const {
  const auto [block, index] = At(row);
  PENSTOCK_CHECK(block != nullptr);
  return block->origins.At(index);
}

Origins Rows::AllOrigins() const {
  Origins out;
  ForEachRange(*this, 0, size_, [&](const Block& block, int64_t begin, int64_t count) {
    out.Append(block.origins, begin, count);
  });
  return out;
}

int64_t Rows::Bytes() const {
  int64_t bytes = 0;
  ForEachRange(*this, 0, size_, [&](const Block& block, int64_t begin, int64_t count) {
    for (const Column& column : block.columns) {
      const base::Array& values = column.values();
      if (column.dense() && values.rank() == 1 && values.dtype() == base::DType::kString) {
        const absl::string_view* strings = values.data<absl::string_view>();
        for (int64_t i = begin; i < begin + count; ++i) bytes += strings[i].size();
      } else if (column.dense() && values.dtype() != base::DType::kString) {
        bytes += values.num_bytes() / std::max<int64_t>(block.rows, 1) * count;
      } else {
        for (int64_t i = begin; i < begin + count; ++i) bytes += column.RowBytes(i);
      }
    }
  });
  return bytes;
}

}  // namespace penstock::data
