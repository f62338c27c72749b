#include "penstock/train/device_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/base/with_commas.h"
#include "penstock/data/cache/device_cache.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"

namespace penstock::train {
namespace {

using base::Array;

// Rows that are read at once.
constexpr int64_t kReadRows = 256;

std::string CountRows(int64_t rows) {
  return absl::StrCat(base::WithCommas(rows), rows == 1 ? " row" : " rows");
}

std::string WhereOf(const RowsRoom& room) {
  return room.free.where.empty() ? "" : absl::StrCat(" (", room.free.where, ")");
}

absl::Status TooManyRows() {
  return absl::ResourceExhaustedError(absl::StrCat("Cache(\"device\") holds at most ",
                                                   base::WithCommas(data::kMaxDeviceRows),
                                                   " rows; use Cache(\"worker\")"));
}

// Columns that grow as batches are appended.
class ColumnsBuilder {
 public:
  ColumnsBuilder(int64_t expected, const RowsFit& fits) : expected_(expected), fits_(fits) {}

  absl::Status Append(const base::NamedArrays& batch) {
    if (columns_.names.empty()) PENSTOCK_RETURN_IF_ERROR(Begin(batch));
    const int64_t more = batch.begin()->second.dim(0);
    PENSTOCK_RETURN_IF_ERROR(Reserve(rows_ + more));
    size_t i = 0;
    for (const auto& [name, array] : batch) {
      Array& column = columns_.arrays[i++];
      if (!(array.shape().RowShape() == column.shape().RowShape()) || array.dim(0) != more) {
        return absl::FailedPreconditionError(absl::StrCat(
            "Cache(\"device\") needs rows of one shape; column '", name, "' has ",
            column.shape().RowShape().ToString(), " and ", array.shape().RowShape().ToString(),
            ": resize or pad them before, or use Cache(\"worker\")"));
      }
      const int64_t row_bytes = more == 0 ? 0 : array.num_bytes() / more;
      std::memcpy(static_cast<char*>(column.mutable_raw()) + rows_ * row_bytes, array.raw(),
                  static_cast<size_t>(array.num_bytes()));
    }
    rows_ += more;
    return absl::OkStatus();
  }

  absl::StatusOr<RowColumns> Take() {
    if (rows_ == 0) {
      return absl::FailedPreconditionError("Cache(\"device\"): the dataset upstream is empty");
    }
    for (Array& column : columns_.arrays) column = column.Slice(0, rows_);
    return std::move(columns_);
  }

 private:
  absl::Status Begin(const base::NamedArrays& batch) {
    for (const auto& [name, array] : batch) {
      const int64_t rows = array.dim(0);
      row_bytes_ += rows == 0 ? 0 : array.num_bytes() / rows;
      columns_.names.push_back(name);
      columns_.arrays.push_back(
          Array::Uninitialized(array.dtype(), array.shape().RowShape().Prepend(0)));
    }
    return expected_ >= 0 ? Grow(expected_) : absl::OkStatus();
  }

  absl::Status Reserve(int64_t rows) {
    if (rows <= capacity_) return absl::OkStatus();
    PENSTOCK_RETURN_IF_ERROR(CheckFits(rows));
    return Grow(std::max(rows, 2 * capacity_));
  }

  absl::Status CheckFits(int64_t rows) const {
    if (rows > data::kMaxDeviceRows) return TooManyRows();
    int64_t bytes = 0;
    if (__builtin_mul_overflow(rows, row_bytes_, &bytes)) bytes = INT64_MAX;
    PENSTOCK_RETURN_IF_ERROR(fits_(rows, bytes));
    const base::MemoryHeadroom here = base::AvailableMemory();
    if (bytes <= here.bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "Cache(\"device\") collects its rows on the host before they are transferred: ",
        CountRows(rows), " take ", base::PrintBytes(bytes), ", and ", here.limited_by, " has ",
        base::PrintBytes(here.bytes), " free"));
  }

  absl::Status Grow(int64_t rows) {
    PENSTOCK_RETURN_IF_ERROR(CheckFits(std::min(rows, std::max(expected_, rows_ + 1))));
    for (Array& column : columns_.arrays) {
      Array larger = Array::Uninitialized(column.dtype(), column.shape().RowShape().Prepend(rows));
      if (rows_ > 0) {
        const Array old = column.Slice(0, rows_);
        std::memcpy(larger.mutable_raw(), old.raw(), static_cast<size_t>(old.num_bytes()));
      }
      column = std::move(larger);
    }
    capacity_ = rows;
    return absl::OkStatus();
  }

  const int64_t expected_;
  const RowsFit& fits_;
  RowColumns columns_;
  int64_t rows_ = 0, capacity_ = 0, row_bytes_ = 0;
};

}  // namespace

RowsRoom RoomForRows(runtime::Client& client, absl::Span<const runtime::Device> devices) {
  RowsRoom room = {.free = client.FreeMemory(devices[0]),
                   .devices = static_cast<int>(devices.size())};
  for (const runtime::Device& device : devices.subspan(1)) {
    if (room.free.shared) break;
    runtime::FreeMemoryInfo other = client.FreeMemory(device);
    if (other.bytes < room.free.bytes) room.free = std::move(other);
  }
  if (room.free.shared) room.copies = room.devices;
  return room;
}

absl::Status CheckRowsFit(const RowsRoom& room, int64_t rows, int64_t bytes) {
  if (rows > data::kMaxDeviceRows) return TooManyRows();
  const double all = static_cast<double>(bytes) * room.copies;
  if (room.free.bytes == INT64_MAX || all <= static_cast<double>(room.free.bytes)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "Cache(\"device\") does not fit: ", CountRows(rows), " take ", base::PrintBytes(bytes),
      room.copies > 1 ? absl::StrCat(" for each of ", room.copies, " devices") : "", ", and ",
      base::PrintBytes(room.free.bytes), " are free on the device", WhereOf(room), ", which holds ",
      CountRows(
          static_cast<int64_t>(static_cast<double>(room.free.bytes) * rows / std::max(all, 1.0))),
      ". Use Cache(\"worker\"), which keeps the rows in the memory of the device's host and "
      "transfers "
      "each batch, or smaller elements: uint8 takes a quarter of float32, and is converted on the "
      "device"));
}

std::string DescribeRows(const RowsRoom& room, int64_t rows, int64_t bytes) {
  const std::string where =
      room.devices > 1 ? absl::StrCat("on each of ", room.devices, " devices") : "on the device";
  return absl::StrCat("cache: ", CountRows(rows), ", ", base::PrintBytes(bytes),
                      room.free.bytes == INT64_MAX
                          ? " "
                          : absl::StrCat(" of ", base::PrintBytes(room.free.bytes), " free "),
                      where, WhereOf(room));
}

data::IteratorOptions OptionsOfFirstEpoch(data::IteratorOptions options) {
  if (options.state.has_value()) options.seed = options.state->seed;
  options.state = {};
  options.epoch = options.skip = 0;
  options.host = {};
  return options;
}

int64_t BytesOfRows(const data::ElementSpec& spec, int64_t rows) {
  if (rows < 0) return -1;
  double bytes = 0;
  for (const data::ColumnSpec& column : spec.columns()) {
    if (!base::IsNumeric(column.dtype) || !data::IsKnown(column.shape)) return -1;
    bytes += static_cast<double>(rows) * static_cast<double>(column.shape.num_elements()) *
             base::ByteWidth(column.dtype);
  }
  return static_cast<int64_t>(std::min(bytes, 9e18));
}

absl::StatusOr<RowsSource> SourceOfRows(const data::Dataset& part,
                                        const data::IteratorOptions& options) {
  for (const data::ColumnSpec& column : part.spec().columns()) {
    if (base::IsNumeric(column.dtype)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "Cache(\"device\"): column ", column.ToString(),
        " is of a type that devices do not support; remove it before, or use Cache(\"worker\")"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t expected, part.Cardinality(options));
  if (expected == data::kInfiniteCardinality) {
    return absl::InvalidArgumentError(
        "Cache(\"device\") of an infinite dataset; put Repeat() after it");
  }
  if (expected > data::kMaxDeviceRows) return TooManyRows();
  RowsSource source = {.batches = part.Batch(kReadRows),
                       .expected = std::max<int64_t>(expected, -1)};
  PENSTOCK_RETURN_IF_ERROR(source.batches.status());
  return source;
}

absl::StatusOr<RowColumns> ReadRows(data::Iterator& iterator, int64_t expected,
                                    const RowsFit& fits) {
  ColumnsBuilder columns(expected, fits);
  for (base::NamedArrays batch;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator.Next(&batch));
    if (!more) return columns.Take();
    PENSTOCK_RETURN_IF_ERROR(columns.Append(batch));
  }
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> GatherPrograms::Get(
    runtime::Client& client, absl::Span<const runtime::Device> devices,
    absl::Span<const ir::TensorType> columns, int64_t rows, int64_t depth) {
  std::string key = absl::StrCat(rows, "x", depth);
  for (const runtime::Device& device : devices) absl::StrAppend(&key, " d", device.index);
  for (const ir::TensorType& type : columns) {
    absl::StrAppend(&key, " ", base::DTypeName(type.dtype), type.shape.ToString());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->key != key) continue;
    std::rotate(it, it + 1, entries_.end());
    return entries_.back().executable;
  }
  ir::Graph graph("gather_rows", static_cast<int>(devices.size()));
  std::vector<ir::Value> from, results;
  for (size_t i = 0; i < columns.size(); ++i) {
    from.push_back(graph.Parameter(columns[i], absl::StrCat("column", i)));
  }
  const ir::Value numbers = graph.Parameter(
      {base::DType::kI32, depth > 1 ? base::Shape({depth, rows}) : base::Shape({rows})}, "rows");
  for (const ir::Value& column : from) results.push_back(ir::Take(column, numbers, 0));
  graph.SetResults(results);
  PENSTOCK_ASSIGN_OR_RETURN(const ir::Program program,
                            ir::PrintStableHlo(graph, {.locations = false}));
  runtime::CompileOptions options;
  for (const runtime::Device& device : devices) options.devices.push_back(device.index);
  PENSTOCK_ASSIGN_OR_RETURN(auto executable, client.Compile(program, options));
  if (entries_.size() == kMaxPrograms) entries_.erase(entries_.begin());
  entries_.push_back({std::move(key), executable});
  return executable;
}

}  // namespace penstock::train
