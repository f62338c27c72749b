// Small real data sets that train in seconds.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"

namespace penstock::tests {

struct Examples {
  base::Array x, y;  // y: i64 [n]
};
struct TrainAndTest {
  Examples train, test;  // every fifth example is held out
};

// scikit-learn's 1,797 handwritten digits: ui8 [n, 8, 8, 1] of 17 shades (E. Alpaydin and C.
// Kaynak, UCI Machine Learning Repository, 1998).
absl::StatusOr<TrainAndTest> Digits();

// 150 flowers of three species: f32 [n, 4], in centimeters (R. A. Fisher: The use of multiple
// measurements in taxonomic problems, 1936).
absl::StatusOr<TrainAndTest> Iris();

// Three sonnets of Shakespeare (18, 29, and 116).
absl::StatusOr<std::string> Sonnets();

}  // namespace penstock::tests
