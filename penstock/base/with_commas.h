// Integers for tables that people read: "25,636,712".
#pragma once

#include <cstdint>
#include <string>

namespace penstock::base {

inline std::string WithCommas(int64_t n) {
  const std::string digits = std::to_string(n);
  const size_t first = n < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

}  // namespace penstock::base
