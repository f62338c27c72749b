#include "penstock/keras/timeseries.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace penstock::keras {
namespace {

using base::Array;

absl::Status WrongOption(absl::string_view option, absl::string_view requirement, int64_t given) {
  return absl::InvalidArgumentError(absl::StrCat("TimeseriesDatasetFromArray: ", option,
                                                 " must be ", requirement, ", got ", given));
}

// `added`: number of axes that windows and batches add.
absl::Status CheckArray(absl::string_view name, const Array& array, int added) {
  if (array.rank() + added > base::kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("TimeseriesDatasetFromArray: ", name, " has too many axes, ", array.rank(),
                     "; its windows and batches would have more than ", base::kMaxRank));
  }
  if (array.rank() >= 1 && base::IsNumeric(array.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("TimeseriesDatasetFromArray: ", name,
                   " must be numbers with an axis of steps, [steps, ...]; got ",
                   array.valid() ? array.TypeString() : "an empty array"));
}

int64_t RowBytes(const Array& array) {
  return array.dim(0) == 0 ? 0 : array.num_bytes() / array.dim(0);
}

}  // namespace

absl::StatusOr<data::Dataset> TimeseriesDatasetFromArray(const Array& data, const Array& targets,
                                                         const TimeseriesOptions& options) {
  const int batch_axes = options.batch_size.has_value() ? 1 : 0;
  PENSTOCK_RETURN_IF_ERROR(CheckArray("data", data, 1 + batch_axes));
  if (targets.valid()) PENSTOCK_RETURN_IF_ERROR(CheckArray("targets", targets, batch_axes - 1));
  const int64_t steps = data.dim(0), begin = options.start_index,
                end = options.end_index.value_or(steps), length = options.sequence_length,
                rate = options.sampling_rate, stride = options.sequence_stride;
  if (steps == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("TimeseriesDatasetFromArray: data has no steps, ", data.TypeString()));
  }
  if (length < 1) return WrongOption("sequence_length", "at least 1", length);
  if (rate < 1 || rate > steps) return WrongOption("sampling_rate", "from 1 to the steps", rate);
  if (stride < 1) return WrongOption("sequence_stride", "at least 1", stride);
  if (options.batch_size.has_value() && *options.batch_size < 1)
    return WrongOption("batch_size", "at least 1", *options.batch_size);
  if (begin < 0 || begin > steps) return WrongOption("start_index", "from 0 to the steps", begin);
  if (end < begin || end > steps)
    return WrongOption("end_index", "from start_index to the steps", end);
  // The places at which a whole window begins. The division rules out an overflow.
  int64_t places = length - 1 > (end - begin) / rate ? 0 : end - begin - (length - 1) * rate;
  if (targets.valid()) places = std::min(places, std::min(targets.dim(0), end) - begin);
  if (places < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TimeseriesDatasetFromArray: no window of ", length, " steps, ", rate,
        " apart, fits into the steps [", begin, ", ", end, ")",
        targets.valid() ? absl::StrCat(" with targets of ", targets.dim(0), " steps") : ""));
  }
  data::Dataset windows = data::Dataset::Range(begin, begin + places, stride);
  if (options.shuffle) {
    windows = windows.Shuffle((places - 1) / stride + 1, {.seed = options.seed});
  }
  const base::Shape window = data.shape().RowShape().Prepend(length);
  std::vector<data::ColumnSpec> makes{{"x", data.dtype(), window}};
  if (targets.valid()) makes.push_back({"y", targets.dtype(), targets.shape().RowShape()});
  const auto gather = [data, targets, window, rate, bytes = RowBytes(data)](
                          const base::NamedArrays& in, base::NamedArrays* out) {
    const int64_t first = in.Find("value")->item<int64_t>();
    Array x = Array::Uninitialized(data.dtype(), window);
    for (int64_t i = 0; i < window.dim(0) && bytes > 0; ++i) {
      std::memcpy(static_cast<char*>(x.mutable_raw()) + i * bytes,
                  static_cast<const char*>(data.raw()) + (first + i * rate) * bytes,
                  static_cast<size_t>(bytes));
    }
    out->Set("x", std::move(x));
    if (targets.valid()) out->Set("y", targets.Row(first).Clone());
    return absl::OkStatus();
  };
  data::Dataset dataset = windows.Map(gather, {.name = "timeseries window",
                                               .reads = {"value"},
                                               .makes = data::ElementSpec(std::move(makes)),
                                               .drops = {"value"}});
  if (options.batch_size.has_value()) dataset = dataset.Batch(*options.batch_size);
  PENSTOCK_RETURN_IF_ERROR(dataset.status());
  return dataset;
}

}  // namespace penstock::keras
