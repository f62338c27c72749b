#include "penstock/data/engine/fused_kernels.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"

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

using Owners = std::vector<std::shared_ptr<const void>>;

// Consecutive rows often have the same owner. To search all of them would take time quadratic in
// the rows.
void AddOwner(Owners& owners, std::shared_ptr<const void> owner) {
  if (owner == nullptr || (!owners.empty() && owners.back() == owner)) return;
  owners.push_back(std::move(owner));
}

// One owner for all: an array's owners are a chain, which is destroyed recursively.
std::shared_ptr<const void> Together(Owners owners) {
  if (owners.empty()) return nullptr;
  if (owners.size() == 1) return std::move(owners[0]);
  return std::make_shared<const Owners>(std::move(owners));
}

// Rows that are contiguous in a dense column need no copy to be read.
bool IsView(const RowRefs& rows, int64_t begin, int64_t end, int column, Column* view) {
  int ranges = 0;
  ForEachRange(rows, begin, end, [&](const Block& block, int64_t first, int64_t count) {
    if (++ranges > 1 || !block.columns[column].dense()) return;
    *view = Column(block.columns[column].values().Slice(first, first + count));
  });
  return ranges == 1 && view->values().valid();
}

// Copies rows [begin, end) of one column of the source. `*row` is the current one.
absl::Status Gather(const RowRefs& rows, int64_t begin, int64_t end, int column,
                    ColumnWriter& writer, int64_t* row) {
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
  const bool pixels = spec.dtype == DType::kU8 || base::IsFloat(spec.dtype);
  if (spec.shape.rank() == 3 && pixels) {
    return "give DecodeImage a .height and a .width, so that all images have the same size";
  }
  return "a batch stacks rows of one shape: crop or pad them in a Map before it";
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
  // Short strings (names, identifiers) are copied: otherwise they would keep whole records in
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
  } else {
    has_owners_ = true;
  }
  if (!owners_.empty()) array_.KeepAlive(Together(std::move(owners_)));
  return std::move(array_);
}

absl::StatusOr<char*> ColumnWriter::Reserve(int64_t row, int64_t count, const Shape& shape) {
  if (stacked_ != nullptr) return stacked_->Reserve(begin_ + row, count, shape);
  PENSTOCK_CHECK(row >= 0 && row + count <= rows_);
  if (list_.empty() && !dense_.valid()) {  // rows before it failed, if there are any
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
  Column column = is_ragged_      ? std::move(ragged_)
                  : list_.empty() ? Column(std::move(dense_))
                                  : Column::List(std::move(list_));
  const std::shared_ptr<const void> owner = Together(std::move(owners_));
  if (owner == nullptr) return column;
  return column.Transform([&](Array values) {
    values.KeepAlive(owner);
    return values;
  });
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

FusedKernels::FusedKernels(const ElementSpec& source) {
  std::vector<int> values;
  for (int i = 0; i < source.size(); ++i) {
    values.push_back(i);
    values_.push_back(
        {.spec = source[i], .source = i, .points_into_source = source[i].dtype == DType::kString});
  }
  SetOutput(source, std::move(values));
}

void FusedKernels::SetOutput(const ElementSpec& spec, std::vector<int> values) {
  output_ = spec;
  output_values_ = std::move(values);
  for (Value& value : values_) value.output = -1;
  for (int i = 0; i < spec.size(); ++i) values_[output_values_[i]].output = i;
}

absl::Status FusedKernels::Add(const RowStage& stage, const ElementSpec& output,
                               StageCounters* counters, uint64_t seed) {
  PENSTOCK_ASSIGN_OR_RETURN(RowKernelBinding binding, stage.Bind(output_, output));
  PENSTOCK_CHECK(static_cast<int>(binding.passes.size()) == output.size());
  FusedKernel fused = {.name = std::string(stage.name()),
                       .kernel = std::move(binding.kernel),
                       .reads = {},
                       .makes = {},
                       .counters = counters,
                       .seed = seed};
  for (int column : binding.reads) {
    fused.reads.push_back(output_values_[column]);
    values_[output_values_[column]].read = true;
  }
  const bool reads_source = std::any_of(fused.reads.begin(), fused.reads.end(),
                                        [&](int v) { return values_[v].points_into_source; });
  std::vector<int> values;
  for (int i = 0; i < output.size(); ++i) {
    if (binding.passes[i] >= 0) {
      values.push_back(output_values_[binding.passes[i]]);
      continue;
    }
    values.push_back(static_cast<int>(values_.size()));
    fused.makes.push_back(values.back());
    values_.push_back({.spec = output[i],
                       .points_into_source = reads_source && output[i].dtype == DType::kString});
  }
  kernels_.push_back(std::move(fused));
  SetOutput(output, std::move(values));
  return absl::OkStatus();
}

absl::Status FusedKernels::Read(RowGroup& group, int64_t begin, int64_t end,
                                std::vector<Column>& columns, int64_t* failed_row) const {
  for (size_t v = 0; v < values_.size(); ++v) {
    const Value& value = values_[v];
    if (value.source < 0) continue;
    StackedColumn* stacked =
        value.output >= 0 && group.stack() ? group.stacked_[value.output].get() : nullptr;
    // Rows that will be joined need not be contiguous before.
    const bool is_output = value.output >= 0 && group.Join(value.output) == nullptr;
    if (!value.read && !is_output) continue;
    if (stacked == nullptr && data::IsView(group.rows(), begin, end, value.source, &columns[v])) {
      continue;
    }
    ColumnWriter writer(value.spec, end - begin, *group.buffers_, stacked, begin);
    PENSTOCK_RETURN_IF_ERROR(Gather(group.rows(), begin, end, value.source, writer, failed_row));
    writer.KeepAlive(group.rows_);
    columns[v] = writer.Finish();
  }
  return absl::OkStatus();
}

bool FusedKernels::IsView(const RowRefs& source, int64_t begin, int64_t end, int i) const {
  const Value& value = values_[output_values_[i]];
  Column view;
  return value.source >= 0 && data::IsView(source, begin, end, value.source, &view);
}

void FusedKernels::Run(RowGroup& group, int64_t begin, int64_t end) const {
  std::vector<Column> columns(values_.size());
  int64_t row = begin;
  const absl::Status status = Read(group, begin, end, columns, &row);
  if (!status.ok()) return group.Fail(row, status, group.options_->name);
  RunKernels(0, group, begin, end, std::move(columns));
}

void FusedKernels::RunKernels(size_t first, RowGroup& group, int64_t begin, int64_t end,
                              std::vector<Column> columns) const {
  for (size_t k = first; k < kernels_.size(); ++k) {
    Failed failed = RunKernel(kernels_[k], group, begin, end, columns);
    if (failed.rows.empty()) continue;
    if (group.stack()) return;
    // The rows between the failed ones continue.
    failed.rows.push_back(end - begin);
    int64_t from = 0;
    for (int64_t row : failed.rows) {
      if (row > from) {
        std::vector<Column> part;
        for (const Column& column : columns) part.push_back(column.Slice(from, row));
        RunKernels(failed.stopped ? k : k + 1, group, begin + from, begin + row, std::move(part));
      }
      from = row + 1;
    }
    return;
  }
  if (!group.stack()) {
    std::vector<Column> output;
    for (int v : output_values_) output.push_back(std::move(columns[v]));
    return group.Done(begin, end, std::move(output));
  }
  for (size_t i = 0; i < output_values_.size(); ++i) {
    if (group.Join(static_cast<int>(i)) == nullptr) continue;
    const int v = output_values_[i];
    base::Array* to = group.joined_[i].data() + begin;
    if (values_[v].source < 0) {
      for (int64_t row = 0; row < end - begin; ++row) to[row] = columns[v].Row(row);
      continue;
    }
    ForEachRange(group.rows(), begin, end, [&](const Block& block, int64_t first, int64_t count) {
      const Column& column = block.columns[values_[v].source];
      for (int64_t row = first; row < first + count; ++row) *to++ = column.Row(row);
    });
  }
}

FusedKernels::Failed FusedKernels::RunKernel(const FusedKernel& fused, RowGroup& group,
                                             int64_t begin, int64_t end,
                                             std::vector<Column>& columns) const {
  const double start = group.clock_->Seconds();
  RowsIn in = {.rows = end - begin,
               .first = group.position_.first + begin,
               .epoch = group.position_.epoch,
               .seed = fused.seed,
               .columns = {}};
  for (int v : fused.reads) in.columns.push_back(&columns[v]);
  std::vector<ColumnWriter> writers;
  std::vector<ColumnWriter*> makes;
  writers.reserve(fused.makes.size());
  for (int v : fused.makes) {
    const int output = values_[v].output;
    writers.emplace_back(values_[v].spec, in.rows, *group.buffers_,
                         output >= 0 && group.stack() ? group.stacked_[output].get() : nullptr,
                         begin);
    makes.push_back(&writers.back());
    // Strings that a kernel makes may point into those it read.
    for (size_t i = 0; i < fused.reads.size(); ++i) {
      if (values_[fused.reads[i]].spec.dtype != DType::kString) continue;
      const Column& read = *in.columns[i];
      makes.back()->KeepAlive(read.values().valid() ? read.values().owner()
                                                    : std::make_shared<const Column>(read));
    }
  }
  RowsOut out(in.rows, std::move(makes));
  Failed failed;
  const absl::Status ran = base::CatchExceptions([&] {
    fused.kernel->Run(in, out);
    return absl::OkStatus();
  });
  if (!ran.ok()) {
    group.FailWhole(begin, ran, fused.name);
    for (int64_t row = 0; row < in.rows; ++row) failed.rows.push_back(row);
    return failed;
  }
  failed.stopped = out.stopped();
  for (const auto& [row, status, location] : out.failures()) {
    group.Fail(begin + row, status, fused.name, location);
    failed.rows.push_back(row);
  }
  std::sort(failed.rows.begin(), failed.rows.end());
  failed.rows.erase(std::unique(failed.rows.begin(), failed.rows.end()), failed.rows.end());
  if (fused.counters != nullptr) {
    const double now = group.clock_->Seconds();
    fused.counters->AddBusy(start, now);
    group.busy_of_kernels_ns_ += static_cast<int64_t>((now - start) * 1e9);
  }
  if (failed.stopped || (group.stack() && !failed.rows.empty())) return failed;
  if (fused.counters != nullptr) {
    fused.counters->elements.fetch_add(in.rows - static_cast<int64_t>(failed.rows.size()),
                                       std::memory_order_relaxed);
  }
  if (static_cast<int64_t>(failed.rows.size()) == in.rows) return failed;
  for (size_t i = 0; i < fused.makes.size(); ++i) columns[fused.makes[i]] = writers[i].Finish();
  return failed;
}

RowGroup::RowGroup(std::shared_ptr<const FusedKernels> kernels, RowRefs rows,
                   std::shared_ptr<const RowNodeOptions> options, Position position,
                   std::shared_ptr<BufferPool> buffers, base::Clock* clock, StageCounters& counters)
    : kernels_(std::move(kernels)),
      rows_(std::make_shared<const RowRefs>(std::move(rows))),
      options_(std::move(options)),
      position_(position),
      buffers_(std::move(buffers)),
      clock_(clock),
      counters_(counters),
      view_(IsViewOfOneBlock()) {
  if (!stack()) return;
  const ElementSpec& output = kernels_->output();
  joined_.resize(output.size());
  for (int i = 0; i < output.size(); ++i) {
    if (Join(i) != nullptr) joined_[i].resize(rows_->size());
    stacked_.push_back(Join(i) != nullptr
                           ? nullptr
                           : std::make_unique<StackedColumn>(output[i], *rows_, *buffers_));
  }
}

const RowJoin* RowGroup::Join(int output) const {
  return options_->joins.empty() ? nullptr : options_->joins[output].get();
}

bool RowGroup::IsViewOfOneBlock() const {
  if (!options_->share || !kernels_->empty() || rows_->ranges().size() != 1) return false;
  for (int i = 0; i < kernels_->output().size(); ++i) {
    if (Join(i) == nullptr && !rows_->blocks()[rows_->ranges()[0].block]->columns[i].dense()) {
      return false;
    }
  }
  return true;
}

bool RowGroup::Run(int64_t chunk, int64_t chunks) {
  PENSTOCK_CHECK(stack() || chunks == 1);
  const double start = clock_->Seconds();
  const int64_t n = rows_->size();
  const int64_t begin = n * chunk / chunks;
  const int64_t end = n * (chunk + 1) / chunks;
  // A chunk must end even if it throws: the group waits for all of them.
  const absl::Status ran = base::CatchExceptions([&] {
    Compute(begin, end);
    return absl::OkStatus();
  });
  if (!ran.ok()) FailWhole(begin, ran, options_->name);
  const double now = clock_->Seconds();
  busy_ns_ += static_cast<int64_t>((now - start) * 1e9);
  counters_.TraceSpan(start, now);
  if (++chunks_done_ < chunks) return false;
  const absl::Status finished = base::CatchExceptions([&] {
    Finish();
    return absl::OkStatus();
  });
  if (!finished.ok()) FailWhole(0, finished, options_->name);
  done_ = true;
  return true;
}

void RowGroup::Compute(int64_t begin, int64_t end) {
  if (options_->keep != nullptr && kernels_->empty()) {
    // Nothing is computed: the rows of the source are passed on.
    Kept kept = {0, {}};
    int64_t row = 0;
    for (const RowRefs::Range& range : rows_->ranges()) {
      Keep(rows_->blocks()[range.block], range.begin, range.count, row, &kept);
      row += range.count;
    }
    results_.emplace_back(kept.begin, std::move(kept.rows));
  } else if (begin < end && !view_) {
    kernels_->Run(*this, begin, end);
  }
}

void RowGroup::FailWhole(int64_t row, const absl::Status& status, absl::string_view stage) {
  absl::Status failure = base::WithContext(status, absl::StrCat(rows_->OriginOf(row), ": ", stage));
  std::lock_guard lock(mutex_);
  failures_.emplace_back(row, std::move(failure));
}

void RowGroup::Fail(int64_t row, const absl::Status& status, absl::string_view stage,
                    absl::string_view location) {
  const std::string origin = absl::StrCat(rows_->OriginOf(row), location);
  absl::Status failure = RecoverableError(status, origin, stage);
  std::lock_guard lock(mutex_);
  failures_.emplace_back(row, std::move(failure));
}

void RowGroup::Account(int64_t begin, int64_t end, Block* block) const {
  bool views = false;
  for (int i = 0; i < kernels_->output().size(); ++i) {
    if (kernels_->IsView(*rows_, begin, end, i)) {
      views = true;
      continue;
    }
    const Column& column = block->columns[i];
    views = views || kernels_->PointsIntoSource(i);
    block->own_bytes += BytesOf(column, block->rows, 0, block->rows);
  }
  if (views) block->views = rows_->blocks();
}

// Rows [begin, end) have passed all kernels.
void RowGroup::Done(int64_t begin, int64_t end, std::vector<Column> columns) {
  auto block = std::make_shared<Block>();
  block->rows = end - begin;
  block->columns = std::move(columns);
  block->origins.Append(rows_->AllOrigins(), begin, end - begin);
  Account(begin, end, block.get());
  Kept kept = {begin, {}};
  if (options_->keep != nullptr) {
    Keep(block, 0, block->rows, begin, &kept);
  } else {
    kept.rows.Append(block, 0, block->rows);
  }
  results_.emplace_back(kept.begin, std::move(kept.rows));
}

// Appends the kept rows of a block; the first is the group's row `row`. Rows before a failed row
// become a result.
void RowGroup::Keep(const BlockPtr& block, int64_t first_in_block, int64_t count, int64_t row,
                    Kept* kept) {
  for (int64_t i = 0; i < count; ++i) {
    const absl::StatusOr<bool> keep = options_->keep(block->columns, first_in_block + i);
    if (!keep.ok()) {
      Fail(row + i, keep.status(), options_->name);
      results_.emplace_back(kept->begin, std::move(kept->rows));
      *kept = {row + i + 1, {}};
    } else if (*keep) {
      kept->rows.Append(block, first_in_block + i, 1);
    }
  }
}

void RowGroup::Finish() {
  const double start = clock_->Seconds();
  if (stack()) Stack();
  if (options_->keep != nullptr) {
    // Few kept rows must not keep the input of many rows alive, or a downstream Shuffle would hold
    // all of it.
    for (auto& [row, rows] : results_) {
      if (rows.empty() || rows.size() * 2 > rows_->size()) continue;
      RowRefs copy;
      copy.Append(CopyRows(rows), 0, rows.size());
      rows = std::move(copy);
    }
  }
  const double now = clock_->Seconds();
  busy_ns_ += static_cast<int64_t>((now - start) * 1e9);
  counters_.TraceSpan(start, now);
  StageCounters::AddSeconds(counters_.busy_ns, (busy_ns_ - busy_of_kernels_ns_) * 1e-9);
}

void RowGroup::Stack() {
  if (!failures_.empty()) return;
  auto block = std::make_shared<Block>();
  block->rows = 1;
  const auto add = [&block](const Array& array) {
    block->columns.emplace_back(*array.Reshape(array.shape().Prepend(1)));
  };
  bool views = view_;
  for (int i = 0; i < kernels_->output().size(); ++i) {
    if (Join(i) == nullptr && view_) {
      const RowRefs::Range& range = rows_->ranges()[0];
      add(rows_->blocks()[range.block]->columns[i].values().Slice(range.begin,
                                                                  range.begin + range.count));
    } else if (Join(i) == nullptr) {
      add(stacked_[i]->Finish());
      const bool points_elsewhere = stacked_[i]->has_owners();
      views = views || points_elsewhere;
      const Column& column = block->columns.back();
      block->own_bytes += points_elsewhere ? column.values().num_bytes() : column.RowBytes(0);
    } else {
      if (view_) {
        for (int64_t row = 0; row < rows_->size(); ++row) {
          const auto [from, index] = rows_->At(row);
          joined_[i][row] = from->columns[i].Row(index);
        }
      }
      std::vector<Array> arrays;
      int64_t failed_row = 0;
      const absl::Status status = Join(i)->Join(joined_[i], *buffers_, &failed_row, &arrays);
      if (!status.ok()) return Fail(failed_row, status, options_->name);
      for (const Array& array : arrays) {
        add(array);
        block->own_bytes += block->columns.back().RowBytes(0);
      }
    }
  }
  if (views) block->views = rows_->blocks();
  const auto [first, index] = rows_->At(0);
  block->origins.Append(first->origins, index, 1);
  results_.emplace_back(0, RowRefs());
  results_.back().second.Append(block, 0, 1);
}

std::vector<RowPart> RowGroup::Take() {
  std::vector<RowPart> parts = Parts();
  rows_ = std::make_shared<const RowRefs>();
  stacked_.clear();
  joined_.clear();
  results_.clear();
  return parts;
}

std::vector<RowPart> RowGroup::Parts() {
  std::lock_guard lock(mutex_);
  // Reports the first of several failures of a row, but first an unrecoverable one, because other
  // rows are missing due to it.
  std::stable_sort(failures_.begin(), failures_.end(), [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return !IsRecoverable(a.second) && IsRecoverable(b.second);
  });
  failures_.erase(std::unique(failures_.begin(), failures_.end(),
                              [](const auto& a, const auto& b) { return a.first == b.first; }),
                  failures_.end());
  std::vector<RowPart> parts;
  if (stack()) {
    parts.push_back(failures_.empty() ? RowPart{std::move(results_[0].second), absl::OkStatus()}
                                      : RowPart{RowRefs(), failures_[0].second});
    return parts;
  }
  auto result = results_.begin();
  for (auto& [row, status] : failures_) {
    RowRefs before;
    for (; result != results_.end() && result->first < row; ++result) {
      before.Append(result->second, 0, result->second.size());
    }
    parts.push_back({std::move(before), std::move(status)});
  }
  RowRefs rest;
  for (; result != results_.end(); ++result) {
    rest.Append(result->second, 0, result->second.size());
  }
  if (!rest.empty()) parts.push_back({std::move(rest), absl::OkStatus()});
  return parts;
}

}  // namespace penstock::data
