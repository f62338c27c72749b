// Random operations with kernels, compared with XLA in f64. To run one case:
//   PENSTOCK_RANDOM_SEED=17 build/release/penstock/kernels/kernels_tests --file kernels_random_test
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/testing/random_cases.h"
#include "penstock/kernels/testing/compare.h"
#include "penstock/kernels/testing/random_kernels.h"

namespace penstock::kernels {
namespace kernels_random_test {

TEST(RandomKernels, MatchXla) {
  ASSERT_TRUE(TestLowering().uses_kernels()) << TestLowering().reason();
  for (base::RandomCases cases(24); cases.Next() && !HasFailure();) {
    base::Random random(cases.seed());
    EXPECT_EQ(CompareWithXla(DrawRandomKernel(random)), "")
        << cases.Describe() << "; to reproduce it:\n  PENSTOCK_RANDOM_SEED=" << cases.seed()
        << " build/release/penstock/kernels/kernels_tests --file kernels_random_test";
  }
}

}  // namespace kernels_random_test
}  // namespace penstock::kernels
