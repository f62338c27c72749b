#include "penstock/data/spec.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::data {

std::string ColumnSpec::ToString() const {
  return absl::StrCat(name, ": ", base::DTypeName(dtype), shape.ToString());
}

bool IsKnown(const base::Shape& shape) {
  for (int64_t extent : shape) {
    if (extent < 0) return false;
  }
  return true;
}

bool Fits(const base::Shape& shape, const base::Shape& spec) {
  if (shape.rank() != spec.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (spec.dim(i) >= 0 && spec.dim(i) != shape.dim(i)) return false;
  }
  return true;
}

int ElementSpec::Find(absl::string_view name) const {
  for (int i = 0; i < size(); ++i) {
    if (columns_[i].name == name) return i;
  }
  return -1;
}

absl::StatusOr<int> ElementSpec::Index(absl::string_view name) const {
  if (const int i = Find(name); i >= 0) return i;
  return absl::InvalidArgumentError(
      absl::StrCat("there is no column '", name, "'; an element here is ", ToString()));
}

int ElementSpec::Set(ColumnSpec column) {
  int i = Find(column.name);
  if (i < 0) {
    i = size();
    columns_.emplace_back();
  }
  columns_[i] = std::move(column);
  return i;
}

std::string ElementSpec::ToString() const {
  const auto print = [](std::string* out, const ColumnSpec& c) {
    absl::StrAppend(out, c.ToString());
  };
  return absl::StrCat("{", absl::StrJoin(columns_, ", ", print), "}");
}

}  // namespace penstock::data
