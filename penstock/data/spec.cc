#include "penstock/data/spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"

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

absl::Status CheckColumns(const ElementSpec& spec) {
  for (int i = 0; i < spec.size(); ++i) {
    const ColumnSpec& column = spec[i];
    if (spec.Find(column.name) != i) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are two columns '", column.name, "': ", spec.ToString()));
    }
    if (column.dtype == base::DType::kInvalid) {
      return absl::InvalidArgumentError(absl::StrCat("column '", column.name, "' has no type"));
    }
    if (column.shape.rank() >= base::kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat("column ", column.ToString(),
                                                     " has more than ", base::kMaxRank - 1,
                                                     " dimensions; one is left for the batch"));
    }
    int64_t bits = base::BitWidth(column.dtype);
    for (int64_t extent : column.shape) {
      if (extent < -1) {
        return absl::InvalidArgumentError(absl::StrCat("column ", column.ToString(),
                                                       " has the dimension ", extent,
                                                       "; use -1 for an unknown dimension"));
      }
      if (extent > 0 && __builtin_mul_overflow(bits, extent, &bits)) {
        return absl::InvalidArgumentError(
            absl::StrCat("an element of column ", column.ToString(), " is too large"));
      }
    }
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<ElementSpec> CommonSpec(const ElementSpec& a, const ElementSpec& b) {
  const auto differ = [&](absl::string_view column) {
    return absl::InvalidArgumentError(
        absl::StrCat("elements differ in column '", column, "': those of one dataset are ",
                     a.ToString(), ", of another ", b.ToString(),
                     "; columns must have the same names, order, types and ranks"));
  };
  ElementSpec common;
  for (int i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size() || i >= b.size()) return differ((i < a.size() ? a : b)[i].name);
    if (a[i].name != b[i].name || a[i].dtype != b[i].dtype ||
        a[i].shape.rank() != b[i].shape.rank()) {
      return differ(a[i].name);
    }
    base::Shape shape = a[i].shape;
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape.dim(d) != b[i].shape.dim(d)) shape.set_dim(d, -1);
    }
    common.Set({a[i].name, a[i].dtype, shape});
  }
  return common;
}

}  // namespace

absl::StatusOr<ElementSpec> CommonSpec(absl::Span<const ElementSpec> specs) {
  ElementSpec common = specs[0];
  for (const ElementSpec& spec : specs.subspan(1)) {
    PENSTOCK_ASSIGN_OR_RETURN(common, CommonSpec(common, spec));
  }
  return common;
}

}  // namespace penstock::data
