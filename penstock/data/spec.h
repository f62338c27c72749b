// ElementSpec: the columns of an element of a dataset, each with a name, a type and a shape
// (tf.data's element_spec).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/dtype.h"
#include "penstock/base/shape.h"

namespace penstock::data {

// Special values of a number of elements (Dataset::Cardinality).
inline constexpr int64_t kInfiniteCardinality = -1;
inline constexpr int64_t kUnknownCardinality = -2;

struct ColumnSpec {
  std::string name;
  base::DType dtype = base::DType::kInvalid;
  // Shape of one element. -1 is a dimension that is unknown before the data is read and may differ
  // from one element to the next.
  base::Shape shape;

  std::string ToString() const;  // "image: uint8[?,?,3]"
  friend bool operator==(const ColumnSpec&, const ColumnSpec&) = default;
};

bool IsKnown(const base::Shape& shape);  // whether it has no -1
// Whether an element may have `shape`, where `spec` may contain -1.
bool Fits(const base::Shape& shape, const base::Shape& spec);

class ElementSpec {
 public:
  ElementSpec() = default;
  ElementSpec(std::initializer_list<ColumnSpec> columns) : columns_(columns) {}
  explicit ElementSpec(std::vector<ColumnSpec> columns) : columns_(std::move(columns)) {}

  const std::vector<ColumnSpec>& columns() const { return columns_; }
  int size() const { return static_cast<int>(columns_.size()); }
  const ColumnSpec& operator[](int i) const { return columns_[i]; }
  int Find(absl::string_view name) const;  // -1 if it does not exist
  // Index of a column; the error lists the existing columns.
  absl::StatusOr<int> Index(absl::string_view name) const;
  // Adds a column, or replaces the column of that name in place; returns its index.
  int Set(ColumnSpec column);

  std::string ToString() const;  // "{image: uint8[?,?,3], class: int64[]}"
  friend bool operator==(const ElementSpec&, const ElementSpec&) = default;

 private:
  std::vector<ColumnSpec> columns_;
};

// Checks that names are unique, each rank leaves a dimension for the batch, no dimension is below
// -1, and the known part of an element's size in bytes does not overflow. Dataset checks every
// stage.
absl::Status CheckColumns(const ElementSpec& spec);

// Common spec of elements that come from any of several datasets (at least one), as in tf.data: the
// same columns in the same order, of the same types and ranks; dimensions that differ become -1.
// Otherwise an error that names the column.
absl::StatusOr<ElementSpec> CommonSpec(absl::Span<const ElementSpec> specs);

}  // namespace penstock::data
