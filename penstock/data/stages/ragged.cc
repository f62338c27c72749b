#include "penstock/data/stages/ragged.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace penstock::data {

std::string RowSplitsOf(absl::string_view column) { return absl::StrCat(column, kRowSplits); }

bool IsRowSplits(const ElementSpec& spec, const ColumnSpec& column) {
  absl::string_view name = column.name;
  return absl::ConsumeSuffix(&name, kRowSplits) && column.dtype == base::DType::kI64 &&
         column.shape.rank() == 1 && spec.Find(name) >= 0;
}

}  // namespace penstock::data
