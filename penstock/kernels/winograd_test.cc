#include "penstock/kernels/winograd.h"

#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/kernels/testing/compare.h"
#include "penstock/kernels/vector_loops.h"

namespace penstock::kernels {
namespace winograd_test {

using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;

ConvolutionShape Square(int64_t size, int64_t channels, int64_t filters) {
  return {.batch = 16,
          .channels = channels,
          .filters = filters,
          .input = {size, size},
          .kernel = {3, 3},
          .output = {size, size},
          .low = {1, 1}};
}

TEST(Winograd, HandlesThreeByThreeWithManyFeatures) {
  if (!HasAvx512()) GTEST_SKIP() << "this CPU has no AVX-512";
  EXPECT_TRUE(IsForWinograd(Square(32, 16, 48)));
  EXPECT_TRUE(IsForWinograd(Square(7, 512, 512)));
}

TEST(Winograd, LeavesSlowAndUnsupportedCases) {
  EXPECT_FALSE(IsForWinograd(Square(32, 3, 16)));  // channels are not a multiple of 16
  EXPECT_FALSE(IsForWinograd(Square(32, 16, 24)));
  EXPECT_FALSE(IsForWinograd(Square(2, 64, 64)));  // tiles four times the size of the image
  ConvolutionShape shape = Square(32, 64, 64);
  shape.kernel = {1, 1};
  EXPECT_FALSE(IsForWinograd(shape));
  shape = Square(32, 64, 64);
  shape.strides = {2, 1};
  EXPECT_FALSE(IsForWinograd(shape));
  shape = Square(32, 64, 64);
  shape.dilation = {1, 2};
  EXPECT_FALSE(IsForWinograd(shape));
  shape = Square(32, 64, 64);
  shape.groups = 2;
  EXPECT_FALSE(IsForWinograd(shape));
  shape = Square(32, 64, 64);
  shape.low = {3, 1};  // padding exceeds the kernel's extent
  EXPECT_FALSE(IsForWinograd(shape));
  shape = Square(32, 16, 16);
  shape.dtype = DType::kBF16;  // bf16 has dedicated instructions
  EXPECT_FALSE(IsForWinograd(shape));
}

// The result and both gradients, computed in `dtype` and converted to f32.
std::unique_ptr<ir::Graph> GraphIn(DType dtype, const Shape& input, int64_t filters) {
  auto graph = std::make_unique<ir::Graph>("winograd");
  const Shape kernel{3, 3, input.dim(3), filters};
  const auto parameter = [&](const Shape& shape, const char* name) {
    return ir::Convert(graph->Parameter({DType::kF32, shape}, name), dtype);
  };
  const Value x = parameter(input, "x"), w = parameter(kernel, "w");
  const Value y = ir::Convolution(x, w, {.padding = {{1, 1}, {1, 1}}});
  Values results = ir::Gradients(y, {x, w}, parameter(y.shape(), "cotangent"));
  results.push_back(y);
  for (Value& value : results) value = ir::Convert(value, DType::kF32);
  graph->SetResults(results);
  return graph;
}

// Compared with the result in f64. In these shapes, the error of a direct convolution in f32 is
// 0.3e-6 to 1e-6 of the maximum element; that of this kernel is 0.7e-6 to 2.4e-6, and would be up
// to 8e-6 with the usual interpolation points.
TEST(Winograd, ErrorIsCloseToDirectConvolution) {
  struct Case {
    Shape input;
    int64_t filters;
  };
  for (const Case& c : {Case{{8, 32, 32, 16}, 16}, Case{{8, 16, 16, 32}, 32},
                        Case{{16, 8, 8, 64}, 64}, Case{{2, 28, 28, 128}, 128}}) {
    SCOPED_TRACE(c.input.ToString());
    ExpectSame(*GraphIn(DType::kF32, c.input, c.filters), *GraphIn(DType::kF64, c.input, c.filters),
               {.calls = 3, .tolerance = 4e-6});
  }
}

}  // namespace winograd_test
}  // namespace penstock::kernels
