// The expected texts are those of NumPy 2.4.
#include <cmath>
#include <numeric>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/array.h"
#include "penstock/base/contract_error.h"

namespace penstock::base {
namespace array_text_test {

using ::testing::ElementsAre;

std::string Str(const Array& array) {
  std::ostringstream out;
  out << array;
  return out.str();
}

template <typename T>
Array Count(Shape shape) {
  std::vector<T> values(static_cast<size_t>(shape.num_elements()));
  std::iota(values.begin(), values.end(), T{});
  return Array::Of<T>(std::move(shape), values);
}

TEST(ArrayText, ReadsAsNumpysRepr) {
  EXPECT_EQ(Array::Of<uint8_t>({3}, {1, 2, 255}).Repr(), "array([  1,   2, 255], dtype=uint8)");
  EXPECT_EQ(Array::Of<float>({2, 2}, {0.5, 1, 2, 3.25}).Repr(),
            "array([[0.5 , 1.  ],\n       [2.  , 3.25]], dtype=float32)");
  EXPECT_EQ(Array::Of<bool>({2}, {true, false}).Repr(), "array([ True, False])");
  EXPECT_EQ(Array::Of<double>({3}, {0.1, -0.25, 1.0 / 3}).Repr(),
            "array([ 0.1       , -0.25      ,  0.33333333])");
  EXPECT_EQ(Array::Of<double>({4}, {1e-5, 1, std::nan(""), -HUGE_VAL}).Repr(),
            "array([1.e-05, 1.e+00,    nan,   -inf])");
  EXPECT_EQ(Array::Of<double>({2}, {1.5e-10, 1}).Repr(), "array([1.5e-10, 1.0e+00])");
  EXPECT_EQ(Array::Of<double>({2}, {1e5, 1e-3}).Repr(), "array([1.e+05, 1.e-03])");
  EXPECT_EQ(Array::Scalar<float>(1.5f).Repr(), "array(1.5, dtype=float32)");
  EXPECT_EQ(Array::Zeros(DType::kF32, {0}).Repr(), "array([], dtype=float32)");
  EXPECT_EQ(Array::Zeros(DType::kF32, {2, 0}).Repr(), "array([], shape=(2, 0), dtype=float32)");
  EXPECT_EQ(Array::Strings({2}, {"cat", "a'\n"}).Repr(), "array(['cat', 'a\\'\\n'], dtype=string)");
  EXPECT_EQ(Count<int8_t>({2, 2, 2}).Repr(),
            "array([[[0, 1],\n        [2, 3]],\n\n       [[4, 5],\n        [6, 7]]], dtype=int8)");
  EXPECT_EQ(Array().Repr(), "array(invalid)");
}

TEST(ArrayText, BreaksLinesWhereNumpyDoes) {
  std::vector<float> values;
  for (int i = 0; i < 8; ++i) values.push_back(static_cast<float>(i) / 29);
  const Array array = Array::Of<float>({8}, values);
  EXPECT_EQ(array.Repr(),
            "array([0.        , 0.03448276, 0.06896552, 0.10344828, 0.13793103,\n"
            "       0.1724138 , 0.20689656, 0.2413793 ], dtype=float32)");
  EXPECT_EQ(Str(array),
            "[0.         0.03448276 0.06896552 0.10344828 0.13793103 0.1724138\n"
            " 0.20689656 0.2413793 ]");
}

TEST(ArrayText, ShowsTheEndsOfLargeArrays) {
  EXPECT_EQ(Count<int64_t>({50, 40}).Repr(),
            "array([[   0,    1,    2, ...,   37,   38,   39],\n"
            "       [  40,   41,   42, ...,   77,   78,   79],\n"
            "       [  80,   81,   82, ...,  117,  118,  119],\n"
            "       ...,\n"
            "       [1880, 1881, 1882, ..., 1917, 1918, 1919],\n"
            "       [1920, 1921, 1922, ..., 1957, 1958, 1959],\n"
            "       [1960, 1961, 1962, ..., 1997, 1998, 1999]], shape=(50, 40))");
  EXPECT_EQ(Str(Count<int64_t>({1001})), "[   0    1    2 ...  998  999 1000]");
}

TEST(ArraySelect, ItemTakesAnIndexForEachAxis) {
  const Array array = Count<int32_t>({2, 3});
  EXPECT_EQ(array.item<int>({1, 2}), 5);
  EXPECT_EQ(array.item<double>({-1, -3}), 3.0);
  EXPECT_THROW(array.item<int>({2, 0}), ContractError);
  EXPECT_THROW(array.item<int>({0}), ContractError);
  EXPECT_THROW(array.item<int>({0, -4}), ContractError);
  EXPECT_THROW(Array::Strings({1}, {"a"}).item<int>({0}), ContractError);
}

TEST(ArraySelect, ArgMaxIsNumpys) {
  const Array array = Array::Of<float>({2, 3}, {1, 7, 7, 9, -2, 0});
  EXPECT_EQ(array.ArgMax(), 3);
  EXPECT_EQ(array.ArgMin(), 4);
  EXPECT_THAT(array.ArgMax(-1).values<int64_t>(), ElementsAre(1, 0));
  EXPECT_THAT(array.ArgMax(0).values<int64_t>(), ElementsAre(1, 0, 0));
  EXPECT_THAT(array.ArgMin(1).values<int64_t>(), ElementsAre(0, 1));
  const Array nan = Array::Of<double>({3}, {1, std::nan(""), 2});
  EXPECT_EQ(nan.ArgMax(), 1);
  EXPECT_EQ(nan.ArgMin(), 1);
  EXPECT_EQ(Array::Of<bool>({2}, {false, true}).ArgMax(), 1);
  EXPECT_THROW(Array::Zeros(DType::kF32, {0}).ArgMax(), ContractError);
  EXPECT_THROW(array.ArgMax(2), ContractError);
  EXPECT_EQ(Array::Zeros(DType::kF32, {0, 2}).ArgMax(1).num_elements(), 0);
}

TEST(ArraySelect, SlicesAsPythonDoes) {
  const Array array = Count<int16_t>({3, 4});
  EXPECT_THAT(array.Slice({{0, 2}, {1}}).values<int16_t>(), ElementsAre(1, 2, 3, 5, 6, 7));
  EXPECT_THAT(array.Slice({{-1}, {0, INT64_MAX, 2}}).values<int16_t>(), ElementsAre(8, 10));
  EXPECT_THAT(array.Slice({{}, {-2, 100}}).values<int16_t>(), ElementsAre(2, 3, 6, 7, 10, 11));
  EXPECT_EQ(array.Slice({{2, 1}}).shape(), Shape({0, 4}));
  EXPECT_THAT(array.Slice({{0, INT64_MAX, INT64_MAX}, {INT64_MIN, 1}}).values<int16_t>(),
              ElementsAre(0))
      << "a step as large as the type allows";
  EXPECT_EQ(Array::Zeros(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40, 0}).num_elements(), 0);
  EXPECT_THROW(array.Slice({{0, 1, 0}}), ContractError);
  EXPECT_THROW(array.Slice({{}, {}, {}}), ContractError);
  Array names;
  {
    const Array all = Array::Strings({2, 2}, {"a", "bb", "ccc", "d"});
    names = all.Slice({{}, {0, 1}});
  }
  EXPECT_THAT(names.values<absl::string_view>(), ElementsAre("a", "ccc"));
}

}  // namespace array_text_test
}  // namespace penstock::base
