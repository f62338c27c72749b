// A row of the parity table (table.py) written by expect.py: description, initial values, and
// Keras's results.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "penstock/base/array.h"

namespace penstock::tests {

// Relative tolerance in float32.
inline constexpr double kTolerance = 1e-5;

struct Row {
  nlohmann::ordered_json spec;  // "kind", "name", and the parameters of the kind
  base::NamedArrays tensors;

  std::string kind() const { return spec["kind"]; }
  std::string name() const { return spec["name"]; }
  // Maximum relative difference; kTolerance for float32.
  double tolerance() const { return spec.value("tolerance", kTolerance); }
  // Absolute scale below which differences are rounding errors of other terms.
  double min_scale() const { return spec.value("min_scale", 0.01); }
  // Returns a tensor, which must exist (contract: expect.py wrote it).
  const base::Array& Get(absl::string_view tensor) const;
  bool Has(absl::string_view tensor) const { return tensors.Find(tensor) != nullptr; }
  // Tensors whose names begin with `prefix`, with the rest of the name.
  base::NamedArrays Under(absl::string_view prefix) const;
};

// Reads the rows that expect.py wrote to `folder`.
absl::StatusOr<std::vector<Row>> ReadRows(const std::string& folder);

// Returns "" if `got` equals `want`, and otherwise the difference. Tensors are equal if their types
// are equal and no element differs by more than `tolerance` times the maximum element of `want`, or
// times `min_scale` if that is larger: smaller differences are rounding errors of other terms. NaNs
// and infinities must be at the same positions.
std::string Difference(absl::string_view name, const base::Array& got, const base::Array& want,
                       double tolerance, double min_scale = 0.01);

}  // namespace penstock::tests
