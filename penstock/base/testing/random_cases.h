// RandomCases: seeds for randomized (property-based) tests, in which each case is generated from a
// seed and compared with a reference.
//
//   for (base::RandomCases cases(200); cases.Next();) {
//     SCOPED_TRACE(cases.Describe());             // "random case 17 (PENSTOCK_RANDOM_SEED=17)"
//     base::Random random(cases.seed());
//     ...
//     if (testing::Test::HasFailure()) break;
//   }
//
// By default the seeds are 0, 1, 2, ..., the same in every run of the tests (a quarter of them
// under sanitizers). With PENSTOCK_FUZZ_SECONDS new seeds are used for that many seconds; tools/fuzz
// sets it for the random tests in its list. With PENSTOCK_RANDOM_SEED only that case runs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/base/testing/sanitized.h"

namespace penstock::base {

class RandomCases {
 public:
  explicit RandomCases(int64_t count) : count_(FewerIfSanitized(count)) {
    const char* const seconds = std::getenv("PENSTOCK_FUZZ_SECONDS");
    const char* const seed = std::getenv("PENSTOCK_RANDOM_SEED");
    if (seed != nullptr) {
      PENSTOCK_CHECK(absl::SimpleAtoi(seed, &first_));
      count_ = 1;
    } else if (seconds != nullptr) {
      PENSTOCK_CHECK(absl::SimpleAtod(seconds, &seconds_));
      first_ = EntropySeed() >> 1;  // so that seed() does not overflow
    }
  }

  // Advances to the next case; false after the last.
  bool Next() {
    ++number_;
    if (seconds_ <= 0) return number_ < count_;
    return Clock::Real()->Seconds() - begin_ < seconds_;
  }

  int64_t number() const { return number_; }
  uint64_t seed() const { return first_ + static_cast<uint64_t>(number_); }
  std::string Describe() const {
    return absl::StrCat("random case ", number_, " (PENSTOCK_RANDOM_SEED=", seed(), ")");
  }

 private:
  int64_t count_;
  uint64_t first_ = 0;
  double seconds_ = 0;
  const double begin_ = Clock::Real()->Seconds();
  int64_t number_ = -1;
};

}  // namespace penstock::base
