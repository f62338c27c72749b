#include "penstock/estimator/pad_batch.h"

#include <cstring>

#include "absl/strings/str_cat.h"

#include "penstock/base/array.h"

namespace penstock::estimator {
namespace {

using base::Array;

Array PadRows(const Array& rows, int64_t size) {
  const int64_t given = rows.dim(0);
  if (given >= size || given == 0) return rows;
  Array padded = Array::Uninitialized(rows.dtype(), rows.shape().RowShape().Prepend(size));
  const int64_t row_bytes = rows.num_bytes() / given;
  char* out = static_cast<char*>(padded.mutable_raw());
  const char* in = static_cast<const char*>(rows.raw());
  std::memcpy(out, in, given * row_bytes);
  for (int64_t i = given; i < size; ++i) {
    std::memcpy(out + i * row_bytes, in + (given - 1) * row_bytes, row_bytes);
  }
  padded.KeepAlive(rows.owner());  // of strings
  return padded;
}

}  // namespace

data::Dataset PadBatches(const data::Dataset& dataset, int64_t size,
                         absl::string_view count_column) {
  data::MapOptions options{.name = "pad_batch"};
  for (data::ColumnSpec column : dataset.spec().columns()) {
    column.shape.set_dim(0, size);
    options.makes.Set(std::move(column));
  }
  options.makes.Set({.name = std::string(count_column), .dtype = base::DType::kI64, .shape = {1}});
  return dataset.Map(
      [size, count = std::string(count_column)](const base::NamedArrays& in,
                                                base::NamedArrays* out) {
        int64_t examples = 0;
        for (const auto& [name, rows] : in) {
          examples = rows.dim(0);
          out->Set(name, PadRows(rows, size));
        }
        out->Set(count, Array::Of<int64_t>({1}, {examples}));
        return absl::OkStatus();
      },
      std::move(options));
}

}  // namespace penstock::estimator
