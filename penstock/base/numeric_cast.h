// Conversion of numbers that is defined for every value: C++ leaves it undefined for a float beyond
// the integer type, and processors disagree about it.
//
//   NumericCast<int8_t>(300.5)     // 127
//   NumericCast<uint8_t>(-1.0f)    // 0
//   NumericCast<int32_t>(NAN)      // 0
//   NumericCast<int32_t>(-2.75)    // -2, as static_cast
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

namespace penstock::base {

// static_cast, except for floats that become integers: these saturate at their minimum and maximum,
// and NaN becomes 0, as in XLA. Types are those of VisitNumeric. An integer becomes a narrower one
// modulo 2^bits; to bool, whatever is not zero is true.
template <typename To, typename From>
To NumericCast(From value) {
  if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool> && !std::is_integral_v<From>) {
    using Limits = std::numeric_limits<To>;
    const double wide = static_cast<double>(value);
    if (std::isnan(wide)) return To{0};
    // The maximum of a 64-bit type is rounded up in double: whatever is below it fits.
    if (wide >= static_cast<double>(Limits::max())) return Limits::max();
    if (wide <= static_cast<double>(Limits::min())) return Limits::min();
    return static_cast<To>(wide);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace penstock::base
