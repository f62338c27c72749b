// Median of measured times, which one slow step among many does not distort.
#pragma once

#include <algorithm>
#include <vector>

namespace penstock::base {

// The median. For an even number of values, the upper of the two middle ones; 0 for no values.
inline double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace penstock::base
