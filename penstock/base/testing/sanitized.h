// Whether this program is compiled with AddressSanitizer or ThreadSanitizer, which make it several
// times slower.
#pragma once

#include <cstdint>

namespace penstock::base {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// A quarter of `count` under a sanitizer, for the number of random cases of a test: results are
// compared without sanitizers, and what sanitizers detect shows in fewer cases.
constexpr int64_t FewerIfSanitized(int64_t count) { return kSanitized ? (count + 3) / 4 : count; }

}  // namespace penstock::base
