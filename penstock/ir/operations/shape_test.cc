#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace shape_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomArray;

Array F32(const Shape& shape, const std::vector<double>& values) {
  return Make(DType::kF32, shape, values);
}

TEST(Shape, MakesConstantsOfEveryType) {
  Checks checks;
  for (DType dtype :
       {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
        DType::kU32, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const std::string name(base::DTypeName(dtype));
    const Array several = Make(dtype, {2, 3}, {0, 1, 1, 0, 1, 0});
    const Array one = Make(dtype, {}, {1});
    checks.Expect(name + " array", Constant(checks.graph(), several), several);
    checks.Expect(name + " scalar", Constant(checks.graph(), one), one);
    checks.Expect(name + " empty", Constant(checks.graph(), Array::Zeros(dtype, {0, 2})),
                  Array::Zeros(dtype, {0, 2}));
    checks.Expect(name + " splat", Splat(checks.graph(), {dtype, {2, 2}}, 1),
                  Make(dtype, {2, 2}, {1, 1, 1, 1}));
  }
  checks.Run();
}

TEST(Shape, PreservesBitsOfConstants) {
  // Numbers that need many digits, the limits of each type, NaN, and infinities.
  const Array floats = Array::Of<float>(
      {7}, {0.1f, 1e-45f, 3.4028235e38f, -0.0f, std::numeric_limits<float>::infinity(),
            std::nextafter(1.0f, 2.0f), std::numeric_limits<float>::quiet_NaN()});
  const Array doubles = Array::Of<double>({3}, {0.1, std::nextafter(1.0, 2.0), -4.9e-324});
  const Array ints = Array::Of<int64_t>(
      {2}, {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()});
  const Array unsigneds = Array::Of<uint64_t>({2}, {0, std::numeric_limits<uint64_t>::max()});
  Checks checks;
  for (const Array& array : {floats, doubles, ints, unsigneds}) {
    checks.Expect("array", Constant(checks.graph(), array), array);
    for (int64_t i = 0; i < array.num_elements(); ++i) {
      checks.Expect("scalar", Constant(checks.graph(), array.Row(i)), array.Row(i));
    }
  }
  checks.Run();
}

TEST(Shape, SplatsTheNearestNumberOfTheType) {
  Checks checks;
  const auto expect = [&](DType dtype, double value, const Array& want) {
    checks.Expect(base::DTypeName(dtype), Splat(checks.graph(), {dtype, {}}, value), want);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  // 2^63 - 1 and 2^64 - 1 are not doubles; the nearest doubles are out of range.
  for (const double above : {0x1p63, 0x1p80, infinity}) {
    expect(DType::kI64, above, Array::Scalar(std::numeric_limits<int64_t>::max()));
    expect(DType::kI64, -above, Array::Scalar(std::numeric_limits<int64_t>::min()));
  }
  expect(DType::kU64, 0x1p64, Array::Scalar(std::numeric_limits<uint64_t>::max()));
  expect(DType::kU64, -1, Array::Scalar(uint64_t{0}));
  expect(DType::kI8, 1000, Array::Scalar(int8_t{127}));
  expect(DType::kI32, std::nan(""), Array::Scalar(int32_t{0}));
  checks.Run();
}

TEST(Shape, CountsAlongAnAxis) {
  Checks checks;
  checks.Expect("rows", Iota(checks.graph(), {DType::kI32, {2, 3}}, 0),
                Make(DType::kI32, {2, 3}, {0, 0, 0, 1, 1, 1}));
  checks.Expect("last", Iota(checks.graph(), {DType::kF32, {2, 3}}, -1),
                F32({2, 3}, {0, 1, 2, 0, 1, 2}));
  checks.Run();
}

TEST(Shape, MovesElements) {
  Checks checks;
  const Value x = checks.Input(F32({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Value row = checks.Input(F32({3}, {1, 2, 3}));
  checks.Expect("broadcast_in_dim", BroadcastInDim(row, {3, 2}, {0}),
                F32({3, 2}, {1, 1, 2, 2, 3, 3}));
  checks.Expect("broadcast_to", BroadcastTo(row, {2, 3}), F32({2, 3}, {1, 2, 3, 1, 2, 3}));
  checks.Expect("reshape", Reshape(x, {3, -1}), F32({3, 2}, {1, 2, 3, 4, 5, 6}));
  checks.Expect("transpose from the end", Transpose(x, {-1, 0}), F32({3, 2}, {1, 4, 2, 5, 3, 6}));
  checks.Expect("transpose", Transpose(x, {1, 0}), F32({3, 2}, {1, 4, 2, 5, 3, 6}));
  checks.Expect("expand", ExpandDims(row, -1), F32({3, 1}, {1, 2, 3}));
  checks.Expect("squeeze", Squeeze(ExpandDims(row, 0), {0}), F32({3}, {1, 2, 3}));
  checks.Expect("reverse", Reverse(x, {-1}), F32({2, 3}, {3, 2, 1, 6, 5, 4}));
  checks.Expect("concatenate", Concatenate({x, x}, 1),
                F32({2, 6}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  checks.Expect("slice", Slice(x, {0, 0}, {2, 3}, {1, 2}), F32({2, 2}, {1, 3, 4, 6}));
  checks.Expect("slice of nothing", SliceAxis(x, 1, 2, 2), F32({2, 0}, {}));
  checks.Expect("pad", Pad(row, 9, {{1, 2, 1}}), F32({8}, {9, 1, 9, 2, 9, 3, 9, 9}));
  checks.Expect("crop", Pad(row, 9, {{-1, 1, 0}}), F32({3}, {2, 3, 9}));
  checks.Run();
}

TEST(Shape, ClampsDynamicSlices) {
  Checks checks;
  const Value x = checks.Input(F32({5}, {1, 2, 3, 4, 5}));
  for (const auto& [begin, want] : std::vector<std::pair<double, std::vector<double>>>{
           {1, {2, 3}}, {4, {4, 5}}, {-3, {1, 2}}}) {
    const Value at = checks.Input(Make(DType::kI32, {}, {begin}));
    checks.Expect("dynamic_slice", DynamicSlice(x, {at}, {2}), F32({2}, want));
  }
  const Value at = checks.Input(Make(DType::kI32, {}, {4}));
  checks.Expect("dynamic_update_slice",
                DynamicUpdateSlice(x, SplatLike(DynamicSlice(x, {at}, {2}), 0), {at}),
                F32({5}, {1, 2, 3, 0, 0}));
  // Indices of two types, as those of a loop and of data.
  const Value square = checks.Input(F32({2, 2}, {1, 2, 3, 4})),
              row = checks.Input(Make(DType::kI64, {}, {1})),
              column = checks.Input(Make(DType::kI32, {}, {0}));
  checks.Expect("two types", DynamicSlice(square, {row, column}, {1, 1}), F32({1, 1}, {3}));
  checks.Expect(
      "update, two types",
      DynamicUpdateSlice(square, Constant(checks.graph(), F32({1, 1}, {9})), {row, column}),
      F32({2, 2}, {1, 2, 9, 4}));
  checks.Run();
}

TEST(Shape, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  const Array x = RandomArray({2, 3}), row = RandomArray({3}, 2), empty = RandomArray({0, 3}, 3);
  const auto add = [&](const char* name, const std::vector<Array>& inputs,
                       const GradientChecks::Function& function) {
    checks.Add(name, inputs, function);
    // These are linear; squaring them makes the second derivative nonzero.
    checks.AddSecond(name, inputs, [&](const Values& v) { return Square(function(v)); });
  };
  add("broadcast_in_dim adds", {row}, [](const Values& v) {
    return BroadcastInDim(v[0], {2, 3, 2}, {1});
  });
  add("broadcast_in_dim stretches", {RandomArray({1, 3})}, [](const Values& v) {
    return BroadcastInDim(v[0], {4, 3}, {0, 1});
  });
  add("broadcast to an extent of 1", {row}, [](const Values& v) {
    return BroadcastTo(v[0], {1, 3});
  });
  add("broadcast of a scalar", {RandomArray({})}, [](const Values& v) {
    return BroadcastTo(v[0], {2, 2});
  });
  add("broadcast to nothing", {RandomArray({1})},
      [](const Values& v) { return BroadcastTo(v[0], {0}); });
  add("reshape", {x}, [](const Values& v) { return Reshape(v[0], {3, 2}); });
  add("reshape of nothing", {empty}, [](const Values& v) { return Reshape(v[0], {3, 0}); });
  add("transpose", {RandomArray({2, 3, 4})}, [](const Values& v) {
    return Transpose(v[0], {2, 0, 1});
  });
  add("reverse", {x}, [](const Values& v) { return Reverse(v[0], {0, 1}); });
  add("concatenate", {x, RandomArray({2, 1}, 4), RandomArray({2, 0}, 5)},
      [](const Values& v) { return Concatenate(v, 1); });
  add("slice with stride", {RandomArray({5, 4})}, [](const Values& v) {
    return Slice(v[0], {1, 0}, {5, 4}, {3, 2});
  });
  add("slice of nothing", {x}, [](const Values& v) { return SliceAxis(v[0], 0, 1, 1); });
  add("pad", {x}, [](const Values& v) { return Pad(v[0], 2, {{1, 0, 2}, {0, 3, 1}}); });
  add("crop", {RandomArray({4, 5})}, [](const Values& v) {
    return Pad(v[0], 0, {{-1, 2, 0}, {1, -2, 1}});
  });
  add("pad of nothing", {empty}, [](const Values& v) {
    return Pad(v[0], 1, {{1, 1, 3}, {0, 0, 0}});
  });
  const Array at = Make(DType::kI32, {}, {1}), beyond = Make(DType::kI32, {}, {9});
  add("dynamic_slice", {RandomArray({4, 3}), at, beyond}, [](const Values& v) {
    return DynamicSlice(v[0], {v[1], v[2]}, {2, 2});
  });
  add("dynamic_update_slice", {RandomArray({4, 3}), RandomArray({2, 2}, 2), at, beyond},
      [](const Values& v) {
        return DynamicUpdateSlice(v[0], v[1], {v[2], v[3]});
      });
  checks.Run();
  testing::ExpectAllCovered(ShapeOps(), checks.ops());
}

TEST(Shape, ErrorsStateActualAndExpected) {
  struct Wrong {
    std::function<Value(Value)> build;  // input: f32[2,3]
    const char* message;
  };
  const Wrong wrongs[] = {
      {[](Value x) { return Reshape(x, {4}); }, "reshape: f32[2,3] has 6 elements, [4] has 4"},
      {[](Value x) {
         return Reshape(x, {-1, 4});
       },
       "reshape: f32[2,3] does not fit [?,4]"},
      {[](Value x) {
         return Transpose(x, {0, 0});
       },
       "transpose: axis 0 is repeated"},
      {[](Value x) { return Transpose(x, {0}); },
       "transpose: [0] does not name each axis of f32[2,3] once"},
      {[](Value x) { return BroadcastTo(x, {3}); }, "broadcast: f32[2,3] has more axes than [3]"},
      {[](Value x) {
         return BroadcastTo(x, {4, 3});
       },
       "f32[2,3] cannot be broadcast to f32[4,3]"},
      {[](Value x) { return Squeeze(x, {0}); }, "squeeze: axis 0 of f32[2,3] is not 1"},
      {[](Value x) { return Reverse(x, {2}); }, "reverse: there is no axis 2 in f32[2,3]"},
      {[](Value x) {
         return Reverse(x, {1, -1});
       },
       "reverse: axis 1 is repeated"},
      {[](Value x) {
         return Concatenate({x, Transpose(x, {1, 0})}, 0);
       },
       "concatenate: values may differ only along axis 0, got f32[2,3] and f32[3,2]"},
      {[](Value x) { return SliceAxis(x, 1, 1, 4); }, "do not lie within f32[2,3]"},
      {[](Value x) {
         return Pad(x, 0, {{-3, 0, 0}, {0, 0, 0}});
       },
       "axis 0 of f32[2,3] cannot be padded"},
      {[](Value x) {
         return Pad(x, 0, {{1, 0, 0}});
       },
       "pad: expects padding for each axis of f32[2,3], got 1"},
      {[](Value x) {
         return DynamicSlice(x, {x, x}, {1, 1});
       },
       "dynamic_slice: expects one integer scalar"},
      {[](Value x) { return DynamicUpdateSlice(x, x, {}); }, "dynamic_update_slice: expects"},
      {[](Value x) { return ExpandDims(x, 4); }, "expand_dims: invalid position 4"},
      {[](Value x) {
         return Iota(*x.graph(), {DType::kI32, {2}}, 1);
       },
       "iota: there is no axis 1"},
      {[](Value x) { return Constant(*x.graph(), Array::Strings({1}, {"a"})); },
       "constant: holds numbers"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    EXPECT_FALSE(wrong.build(graph.Parameter({DType::kF32, {2, 3}}, "x")).valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

TEST(Shape, OmitsOperationsWithoutEffect) {
  Graph graph("same");
  const Value x = graph.Parameter({DType::kF32, {2, 3}}, "x");
  EXPECT_EQ(Reshape(x, {2, 3}), x);
  EXPECT_EQ(Transpose(x, {0, 1}), x);
  EXPECT_EQ(BroadcastTo(x, {2, 3}), x);
  EXPECT_EQ(Pad(x, 1, {{}, {}}), x);
  EXPECT_EQ(Concatenate({x}, 0), x);
  EXPECT_EQ(graph.num_nodes(), 1);
}

}  // namespace shape_test
}  // namespace penstock::ir
