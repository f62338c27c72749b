// Of measured times: one slow step among many says nothing.
#pragma once

#include <algorithm>
#include <vector>

namespace penstock::base {

// The upper one of the two in the middle, where there are two; 0 of none.
inline double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace penstock::base
