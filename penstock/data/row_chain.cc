#include "penstock/data/row_chain.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace penstock::data {
namespace {

using base::Array;
using base::DType;
using base::Shape;

Array AllocateRows(const ColumnSpec& spec, int64_t rows, const Shape& row_shape,
                   BufferPool& buffers) {
  const Shape shape = row_shape.Prepend(rows);
  if (spec.dtype == DType::kString) return Array::Uninitialized(spec.dtype, shape);
  return buffers.Allocate(spec.dtype, shape);
}

int64_t RowBytes(DType dtype, const Shape& row_shape) {
  return row_shape.num_elements() * base::BitWidth(dtype) / 8;
}

void CopyElements(DType dtype, const void* from, int64_t bytes, char* to) {
  if (dtype == DType::kString) {
    // Not memcpy: a string_view is a class.
    std::copy_n(static_cast<const absl::string_view*>(from), bytes / sizeof(absl::string_view),
                reinterpret_cast<absl::string_view*>(to));
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

void AddOwner(std::vector<std::shared_ptr<const void>>& owners, std::shared_ptr<const void> owner) {
  if (owner == nullptr || std::find(owners.begin(), owners.end(), owner) != owners.end()) return;
  owners.push_back(std::move(owner));
}

// Rows that stand together in a dense column need no copy to be read.
bool IsView(const Rows& rows, int64_t begin, int64_t end, int column, Column* view) {
  int ranges = 0;
  ForEachRange(rows, begin, end, [&](const Block& block, int64_t first, int64_t count) {
    if (++ranges > 1 || !block.columns[column].dense()) return;
    *view = Column(block.columns[column].values().Slice(first, first + count));
  });
  return ranges == 1 && view->values().valid();
}

// Copies rows [begin, end) of one column of the source. `*row` is the one at work.
absl::Status Gather(const Rows& rows, int64_t begin, int64_t end, int column, ColumnWriter& writer,
                    int64_t* row) {
  const DType dtype = writer.spec().dtype;
  const Block* last_block = nullptr;
  const char* source = nullptr;  // null: rows of this block are copied one by one
  char* target = nullptr;        // of row 0, when all rows so far have `shape`
  Shape shape;
  int64_t row_bytes = 0;
  int64_t at = 0;
  absl::Status status;
  ForEachRange(rows, begin, end, [&](const Block& block, int64_t first, int64_t count) {
    if (!status.ok()) return;
    *row = begin + at;
    const Column& from = block.columns[column];
    if (&block != last_block) {
      last_block = &block;
      source = nullptr;
      if (from.dense()) {
        const Shape here = from.values().shape().RowShape();
        if (at == 0) {
          shape = here;
          row_bytes = RowBytes(dtype, shape);
          const auto reserved = writer.Reserve(0, end - begin, shape);
          status = reserved.status();
          if (!status.ok()) return;
          target = *reserved;
        }
        if (target != nullptr && here == shape) {
          source = static_cast<const char*>(from.values().raw());
        }
      }
    }
    if (source != nullptr) {
      CopyElements(dtype, source + first * row_bytes, count * row_bytes, target + at * row_bytes);
      at += count;
      return;
    }
    target = nullptr;
    last_block = nullptr;
    for (int64_t i = first; i < first + count && status.ok(); ++i, ++at) {
      *row = begin + at;
      const Array value = from.Row(i);
      const auto reserved = writer.Reserve(at, 1, value.shape());
      status = reserved.status();
      if (status.ok()) CopyElements(dtype, value.raw(), value.num_bytes(), *reserved);
    }
  });
  return status;
}

std::string Advice(const ColumnSpec& spec) {
  if (spec.shape.rank() == 3 && spec.dtype == DType::kU8) {
    return "give DecodeImage a .height and a .width, so that all images have one size";
  }
  return "a batch stacks rows of one shape: cut or pad them in a Map before";
}

}  // namespace

absl::StatusOr<char*> StackedColumn::Reserve(int64_t row, int64_t count, const Shape& shape) {
  if (!ready_) {
    std::lock_guard lock(mutex_);
    if (!ready_) {
      first_row_ = row;
      row_shape_ = shape;
      array_ = AllocateRows(spec_, rows_.size(), shape, buffers_);
      ready_ = true;
    }
  }
  if (!(shape == row_shape_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("row ", row, " of the batch has ", spec_.name, " of shape ", shape.ToString(),
                     ", but row ", first_row_, " (", rows_.OriginOf(first_row_), ") has ",
                     row_shape_.ToString(), "; ", Advice(spec_)));
  }
  PENSTOCK_CHECK(row >= 0 && row + count <= rows_.size());
  return static_cast<char*>(array_.mutable_raw()) + row * RowBytes(spec_.dtype, shape);
}

void StackedColumn::KeepAlive(std::shared_ptr<const void> owner) {
  std::lock_guard lock(mutex_);
  AddOwner(owners_, std::move(owner));
}

Array StackedColumn::Finish() {
  if (spec_.dtype != DType::kString) return std::move(array_);
  std::lock_guard lock(mutex_);
  // Short strings (names, identifiers) are copied: else they would hold the whole records in
  // memory.
  constexpr size_t kShort = 64;
  size_t total = 0;
  const int64_t n = array_.num_elements();
  absl::string_view* views = array_.mutable_data<absl::string_view>();
  for (int64_t i = 0; i < n; ++i) total += views[i].size();
  if (total <= kShort * n) {
    auto copies = std::make_shared<std::string>();
    copies->reserve(total);
    for (int64_t i = 0; i < n; ++i) {
      const size_t begin = copies->size();
      copies->append(views[i].data(), views[i].size());
      views[i] = absl::string_view(copies->data() + begin, views[i].size());
    }
    owners_ = {std::move(copies)};
  }
  for (auto& owner : owners_) array_.KeepAlive(std::move(owner));
  return std::move(array_);
}

absl::StatusOr<char*> ColumnWriter::Reserve(int64_t row, int64_t count, const Shape& shape) {
  if (stacked_ != nullptr) return stacked_->Reserve(begin_ + row, count, shape);
  PENSTOCK_CHECK(row >= 0 && row + count <= rows_);
  if (row == 0 && list_.empty() && !dense_.valid()) {
    dense_ = AllocateRows(*spec_, rows_, shape, *buffers_);
  }
  if (list_.empty() && dense_.shape().RowShape() == shape) {
    return static_cast<char*>(dense_.mutable_raw()) + row * RowBytes(spec_->dtype, shape);
  }
  if (list_.empty()) {
    list_.resize(rows_);
    for (int64_t i = 0; i < row; ++i) list_[i] = dense_.Row(i);
  }
  Array part = AllocateRows(*spec_, count, shape, *buffers_);
  for (int64_t i = 0; i < count; ++i) list_[row + i] = part.Row(i);
  return static_cast<char*>(part.mutable_raw());
}

absl::StatusOr<Array> ColumnWriter::Dense() {
  PENSTOCK_CHECK(IsKnown(spec_->shape));
  PENSTOCK_RETURN_IF_ERROR(Reserve(0, rows_, spec_->shape).status());
  return stacked_ != nullptr ? stacked_->Slice(begin_, begin_ + rows_) : dense_;
}

absl::Status ColumnWriter::SetRagged(Array values, std::vector<int64_t> splits) {
  PENSTOCK_CHECK(static_cast<int64_t>(splits.size()) == rows_ + 1);
  Column ragged = Column::Ragged(std::move(values), std::move(splits));
  KeepAlive(ragged.values().owner());
  if (stacked_ == nullptr) {
    ragged_ = std::move(ragged);
    is_ragged_ = true;
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < rows_; ++i) {
    const Array row = ragged.Row(i);
    PENSTOCK_ASSIGN_OR_RETURN(char* to, Reserve(i, 1, row.shape()));
    CopyElements(spec_->dtype, row.raw(), row.num_bytes(), to);
  }
  return absl::OkStatus();
}

void ColumnWriter::KeepAlive(std::shared_ptr<const void> owner) {
  if (spec_->dtype != DType::kString) return;
  if (stacked_ != nullptr) return stacked_->KeepAlive(std::move(owner));
  AddOwner(owners_, std::move(owner));
}

Column ColumnWriter::Finish() {
  if (stacked_ != nullptr) return Column(stacked_->Slice(begin_, begin_ + rows_));
  if (is_ragged_) return ragged_;
  if (list_.empty()) {
    for (const auto& owner : owners_) dense_.KeepAlive(owner);
    return Column(dense_);
  }
  for (Array& row : list_) {
    for (const auto& owner : owners_) row.KeepAlive(owner);
  }
  return Column::List(list_);
}

absl::StatusOr<Array> RowsOut::Dense(int column) { return columns_[column]->Dense(); }

absl::StatusOr<void*> RowsOut::Row(int column, int64_t row, const Shape& shape) {
  return columns_[column]->Reserve(row, 1, shape);
}

absl::Status RowsOut::Ragged(int column, Array values, std::vector<int64_t> splits) {
  return columns_[column]->SetRagged(std::move(values), std::move(splits));
}

void RowsOut::KeepAlive(int column, std::shared_ptr<const void> owner) {
  columns_[column]->KeepAlive(std::move(owner));
}

absl::StatusOr<std::unique_ptr<Node>> RowStage::MakeNode(const NodeContext&) const {
  return absl::InternalError(absl::StrCat(ToString(), " has no node of its own"));
}

RowChain::RowChain(const ElementSpec& source) {
  std::vector<int> values;
  for (int i = 0; i < source.size(); ++i) {
    values.push_back(i);
    values_.push_back({.spec = source[i], .source = i});
  }
  SetOutput(source, std::move(values));
}

void RowChain::SetOutput(const ElementSpec& spec, std::vector<int> values) {
  output_ = spec;
  output_values_ = std::move(values);
  for (Value& value : values_) value.output = -1;
  for (int i = 0; i < spec.size(); ++i) values_[output_values_[i]].output = i;
}

absl::Status RowChain::Add(const RowStage& stage, const ElementSpec& output,
                           StageCounters* counters) {
  PENSTOCK_ASSIGN_OR_RETURN(RowKernelBinding binding, stage.Bind(output_, output));
  PENSTOCK_CHECK(static_cast<int>(binding.passes.size()) == output.size());
  Link link = {.name = std::string(stage.name()),
               .kernel = std::move(binding.kernel),
               .reads = {},
               .makes = {},
               .counters = counters};
  for (int column : binding.reads) {
    link.reads.push_back(output_values_[column]);
    values_[output_values_[column]].read = true;
  }
  std::vector<int> values;
  for (int i = 0; i < output.size(); ++i) {
    if (binding.passes[i] >= 0) {
      values.push_back(output_values_[binding.passes[i]]);
      continue;
    }
    values.push_back(static_cast<int>(values_.size()));
    link.makes.push_back(values.back());
    values_.push_back({.spec = output[i]});
  }
  links_.push_back(std::move(link));
  SetOutput(output, std::move(values));
  return absl::OkStatus();
}

void RowChain::Run(RowGroup& group, int64_t begin, int64_t end) const {
  const int64_t rows = end - begin;
  std::vector<ColumnWriter> writers;
  writers.reserve(values_.size());
  for (const Value& value : values_) {
    StackedColumn* stacked =
        value.output >= 0 && group.options_.stack ? group.stacked_[value.output].get() : nullptr;
    writers.emplace_back(value.spec, rows, *group.buffers_, stacked, begin);
  }
  std::vector<Column> columns(values_.size());
  for (size_t v = 0; v < values_.size(); ++v) {
    const Value& value = values_[v];
    if (value.source < 0 || (!value.read && value.output < 0)) continue;
    const bool into_batch = value.output >= 0 && group.options_.stack;
    if (!into_batch && IsView(group.rows(), begin, end, value.source, &columns[v])) continue;
    int64_t row = begin;
    const absl::Status status = Gather(group.rows(), begin, end, value.source, writers[v], &row);
    if (!status.ok()) return group.Fail(row, status, "Batch");
    writers[v].KeepAlive(group.rows_);
    columns[v] = writers[v].Finish();
  }
  for (const Link& link : links_) {
    if (!RunLink(link, group, begin, end, writers, columns)) return;
  }
  if (group.options_.stack) return;
  for (int v : output_values_) group.columns_.push_back(std::move(columns[v]));
}

bool RowChain::RunLink(const Link& link, RowGroup& group, int64_t begin, int64_t end,
                       std::vector<ColumnWriter>& writers, std::vector<Column>& columns) const {
  const double start = group.clock_->Seconds();
  RowsIn in = {.rows = end - begin,
               .first = group.options_.first + begin,
               .epoch = group.options_.epoch,
               .columns = {}};
  for (int v : link.reads) in.columns.push_back(&columns[v]);
  std::vector<ColumnWriter*> makes;
  for (int v : link.makes) {
    makes.push_back(&writers[v]);
    // Strings that a kernel makes may point into those it read.
    for (const Column* read : in.columns) {
      if (read->values().dtype() == DType::kString) writers[v].KeepAlive(read->values().owner());
    }
  }
  RowsOut out(in.rows, std::move(makes));
  link.kernel->Run(in, out);
  for (const auto& [row, status, place] : out.failures()) {
    group.Fail(begin + row, status, link.name, place);
  }
  const double seconds = group.clock_->Seconds() - start;
  StageCounters::AddSeconds(link.counters->busy_ns, seconds);
  group.busy_of_links_ns_ += static_cast<int64_t>(seconds * 1e9);
  if (!out.failures().empty()) return false;
  link.counters->elements.fetch_add(in.rows, std::memory_order_relaxed);
  for (int v : link.makes) columns[v] = writers[v].Finish();
  return true;
}

RowGroup::RowGroup(std::shared_ptr<const RowChain> chain, Rows rows, Options options,
                   std::shared_ptr<BufferPool> buffers, base::Clock* clock, StageCounters& counters)
    : chain_(std::move(chain)),
      rows_(std::make_shared<const Rows>(std::move(rows))),
      options_(options),
      buffers_(std::move(buffers)),
      clock_(clock),
      counters_(counters) {
  if (!options_.stack) return;
  for (const ColumnSpec& spec : chain_->output().columns()) {
    stacked_.push_back(std::make_unique<StackedColumn>(spec, *rows_, *buffers_));
  }
}

bool RowGroup::Run(int64_t chunk, int64_t chunks) {
  PENSTOCK_CHECK(options_.stack || chunks == 1);
  const double start = clock_->Seconds();
  const int64_t n = rows_->size();
  const int64_t begin = n * chunk / chunks;
  const int64_t end = n * (chunk + 1) / chunks;
  if (begin < end) chain_->Run(*this, begin, end);
  busy_ns_ += static_cast<int64_t>((clock_->Seconds() - start) * 1e9);
  if (++chunks_done_ < chunks) return false;
  Finish();
  done_ = true;
  return true;
}

void RowGroup::Fail(int64_t row, const absl::Status& status, absl::string_view stage,
                    absl::string_view place) {
  std::lock_guard lock(mutex_);
  if (failed_row_ >= 0 && failed_row_ <= row) return;
  failed_row_ = row;
  status_ = base::WithContext(status, absl::StrCat(rows_->OriginOf(row), place, ": ", stage));
}

void RowGroup::Finish() {
  StageCounters::AddSeconds(counters_.busy_ns, (busy_ns_ - busy_of_links_ns_) * 1e-9);
  if (failed_row_ >= 0) return;
  auto block = std::make_shared<Block>();
  if (options_.stack) {
    block->rows = 1;
    for (const auto& column : stacked_) {
      const Array array = column->Finish();
      block->columns.emplace_back(*array.Reshape(array.shape().Prepend(1)));
    }
    const auto [first, index] = rows_->At(0);
    block->origins.Append(first->origins, index, 1);
  } else {
    block->rows = rows_->size();
    block->columns = std::move(columns_);
    block->origins = rows_->AllOrigins();
  }
  result_ = std::move(block);
}

absl::StatusOr<BlockPtr> RowGroup::Take() {
  std::lock_guard lock(mutex_);
  if (failed_row_ >= 0) return status_;
  return std::move(result_);
}

}  // namespace penstock::data
