#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace {

using testing::ExpectConforms;

TEST(Combinations, Conform) {
  ExpectConforms([](const Dataset& d) { return d.Shuffle(7).Repeat(2).Batch(5).Prefetch(2); });
  ExpectConforms([](const Dataset& d) { return d.Batch(3).Shuffle(4).Cache().Repeat(2).Skip(1); });
}

}  // namespace
}  // namespace penstock::data
