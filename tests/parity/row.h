// A row of the parity table (table.py), as expect.py wrote it: what it is, what to start from and
// what Keras made of it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "penstock/base/array.h"

namespace penstock::tests {

// Relative, in float32: what the project promises.
inline constexpr double kTolerance = 1e-5;

struct Row {
  nlohmann::ordered_json spec;  // "kind", "name" and what the kind needs
  base::NamedArrays tensors;

  std::string kind() const { return spec["kind"]; }
  std::string name() const { return spec["name"]; }
  // How much may differ, relative; float32 promises kTolerance.
  double tolerance() const { return spec.value("tolerance", kTolerance); }
  // Below this a difference is rounding of other terms.
  double least() const { return spec.value("least", 0.01); }
  // The tensor must be there (contract: expect.py wrote it).
  const base::Array& Get(absl::string_view tensor) const;
  bool Has(absl::string_view tensor) const { return tensors.Find(tensor) != nullptr; }
  // Those whose names begin with `prefix`, under the rest of their names.
  base::NamedArrays Under(absl::string_view prefix) const;
};

// What expect.py wrote into `folder`.
absl::StatusOr<std::vector<Row>> ReadRows(const std::string& folder);

// "" if `got` is `want`, else what differs. Two tensors are the same when their types are and no
// element differs by more than `tolerance` times the largest element of `want` (at least
// `least`: below that a difference is rounding of other terms). NaN and infinity must stand in the
// same places.
std::string Difference(absl::string_view name, const base::Array& got, const base::Array& want,
                       double tolerance, double least = 0.01);

}  // namespace penstock::tests
