#include "penstock/kernels/all_finite.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gtest/gtest.h>

#include "penstock/base/status.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace all_finite_test {

using base::Array;
using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;

// Runs `graph`, whose only result is a bool, with and without kernels; the results must agree.
bool Answer(const ir::Graph& graph, const std::vector<Array>& arguments, bool call) {
  std::vector<bool> answers;
  for (const auto& program : {TestLowering().Print(graph), ir::PrintStableHlo(graph)}) {
    PENSTOCK_CHECK_OK(program);
    EXPECT_EQ(program->text.find(kAllFiniteTarget) != std::string::npos, call && answers.empty())
        << program->text;
    const auto results = RunProgram(*program, arguments);
    PENSTOCK_CHECK_OK(results);
    answers.push_back((*results)[0].values<bool>()[0]);
  }
  EXPECT_EQ(answers[0], answers[1]);
  return answers[0];
}

// The largest finite value is not taken for infinity, and every position is checked: the first, the
// last, and those in an incomplete vector.
TEST(AllFinite, FindsNonFiniteElementAtAnyPosition) {
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const std::vector<Shape> shapes{{70001}, {3, 5}, {}, {0, 4}, {40000}};
    ir::Graph graph("check");
    Values xs;
    std::vector<Array> fine;
    for (const Shape& shape : shapes) {
      xs.push_back(graph.Parameter({dtype, shape}, absl::StrCat("x", xs.size())));
      const double largest = dtype == DType::kF16    ? 65504.0
                             : dtype == DType::kF64  ? std::numeric_limits<double>::max()
                             : dtype == DType::kBF16 ? 3.38953139e38
                                                     : std::numeric_limits<float>::max();
      fine.push_back(*Array::Of<double>(shape, std::vector<double>(shape.num_elements(), -largest))
                          .Cast(dtype));
    }
    graph.SetResults({ir::AllFinite(xs)});
    EXPECT_TRUE(Answer(graph, fine, true)) << base::DTypeName(dtype);
    for (const auto& [tensor, place] : std::vector<std::pair<int, int64_t>>{
             {0, 0}, {0, 70000}, {0, 69999}, {0, 31}, {1, 14}, {2, 0}, {4, 0}, {4, 39999}}) {
      for (double bad :
           {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
        std::vector<double> values(shapes[tensor].num_elements());
        values[place] = bad;
        std::vector<Array> arguments = fine;
        arguments[tensor] = *Array::Of<double>(shapes[tensor], values).Cast(dtype);
        EXPECT_FALSE(Answer(graph, arguments, true))
            << base::DTypeName(dtype) << " tensor " << tensor << " element " << place;
      }
    }
  }
}

// Slices of one vector, as produced by a collective, are checked in place, without the gaps between
// them. A conversion to a wider type needs no extra pass over memory.
TEST(AllFinite, ReadsSlicesAndConversionsInPlace) {
  constexpr int64_t kSize = 100000;
  const auto check = [&](int64_t bad) {
    ir::Graph graph("check");
    const Value all = graph.Parameter({DType::kF32, {kSize}}, "all");
    const Value narrow = graph.Parameter({DType::kBF16, {40, 10}}, "narrow");
    const auto part = [&](int64_t begin, int64_t end) {
      return ir::Reshape(ir::SliceAxis(all, 0, begin, end), {2, (end - begin) / 2});
    };
    graph.SetResults(
        {ir::AllFinite({part(0, 60000), ir::Convert(narrow, DType::kF32), part(60002, kSize)})});
    std::vector<float> values(kSize);
    if (bad >= 0) values[bad] = std::numeric_limits<float>::infinity();
    return Answer(graph, {Array::Of<float>({kSize}, values), Array::Zeros(DType::kBF16, {40, 10})},
                  true);
  };
  EXPECT_TRUE(check(-1));
  EXPECT_TRUE(check(60000));
  EXPECT_TRUE(check(60001));
  for (int64_t bad : {int64_t{0}, int64_t{59999}, int64_t{60002}, kSize - 1}) {
    EXPECT_FALSE(check(bad)) << bad;
  }
}

// For a small network a custom call would be slower.
TEST(AllFinite, LeavesSmallTensorsToXla) {
  ir::Graph graph("check");
  graph.SetResults({ir::AllFinite({graph.Parameter({DType::kF32, {10, 10}}, "x")})});
  EXPECT_TRUE(Answer(graph, {Array::Zeros(DType::kF32, {10, 10})}, false));
}

}  // namespace all_finite_test
}  // namespace penstock::kernels
