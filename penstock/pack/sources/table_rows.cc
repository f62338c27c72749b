// Record source for the rows of a table whose columns are arrays.
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/pack/sources/record_sources.h"
#include "penstock/record/example.h"

namespace penstock::pack {
namespace {

using base::DType;

class TableSource : public RecordSource {
 public:
  TableSource(base::NamedArrays columns, int64_t rows)
      : columns_(std::move(columns)), rows_(rows) {}

  int64_t size() const override { return rows_; }
  std::string Name(int64_t i) const override { return absl::StrCat("row ", i); }
  const char* noun() const override { return "rows"; }

  absl::StatusOr<std::string> Make(int64_t i) const override {
    record::ExampleBuilder example;
    for (const auto& [name, column] : columns_) example.SetArray(name, column.Row(i));
    return example.Serialize();
  }

  Job job() const override {
    Fingerprint content;
    for (const auto& [name, column] : columns_) {
      content.Add(absl::string_view(name));
      content.Add(absl::string_view(column.TypeString()));
      if (column.dtype() == DType::kString) {
        for (absl::string_view text : column.values<absl::string_view>()) content.Add(text);
      } else {
        content.Add(absl::string_view(static_cast<const char*>(column.raw()),
                                      static_cast<size_t>(column.num_bytes())));
      }
    }
    return {{"the table", absl::StrCat(rows_, " rows (", content.ToString(), ")")}};
  }

 private:
  const base::NamedArrays columns_;
  const int64_t rows_;
};

// Converts a column to the dtype of its feature.
absl::StatusOr<base::Array> AsFeature(const base::Array& column) {
  const DType dtype = column.dtype();
  if (dtype == DType::kString) return column;
  if (base::IsFloat(dtype)) return column.Cast(DType::kF32);
  if (dtype != DType::kBool && !base::IsInteger(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is ", column.TypeString(), "; features are bools, integers, floats or strings"));
  }
  if (dtype == DType::kU64) {
    for (uint64_t value : column.values<uint64_t>()) {
      if (value <= static_cast<uint64_t>(INT64_MAX)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "holds ", value, ", which is larger than a feature's int64; store it as a string"));
    }
  }
  return column.Cast(DType::kI64);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> TableRows(const base::NamedArrays& columns) {
  if (columns.empty()) return absl::InvalidArgumentError("the table has no columns");
  int64_t rows = -1;
  base::NamedArrays features;
  for (const auto& [name, column] : columns) {
    const auto here = [&, &name = name](const absl::Status& status) {
      return base::WithContext(status, absl::StrCat("column '", name, "'"));
    };
    if (name.empty()) return absl::InvalidArgumentError("a column of the table has no name");
    if (features.Find(name) != nullptr)
      return here(absl::InvalidArgumentError("duplicate column name"));
    if (!column.valid() || column.rank() == 0)
      return here(absl::InvalidArgumentError("has no rows; a column is an array [rows, ...]"));
    if (rows >= 0 && column.dim(0) != rows) {
      return here(absl::InvalidArgumentError(
          absl::StrCat("has ", column.dim(0), " rows, other columns have ", rows)));
    }
    rows = column.dim(0);
    absl::StatusOr<base::Array> feature = AsFeature(column);
    if (!feature.ok()) return here(feature.status());
    features.Set(name, *std::move(feature));
  }
  return std::make_unique<TableSource>(std::move(features), rows);
}

}  // namespace penstock::pack
