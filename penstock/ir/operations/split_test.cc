#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace split_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using ::testing::Not;
using testing::RandomArray;

TEST(Split, ReturnsPartsAlongAnAxis) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
  const Values columns = Split(x, {1, 0, 3}, -1), rows = Split(x, 2, 0);
  ASSERT_EQ(columns.size(), 3u);
  checks.Expect("first column", columns[0], Make(DType::kF32, {2, 1}, {1, 5}));
  checks.Expect("nothing", columns[1], Make(DType::kF32, {2, 0}, {}));
  checks.Expect("the rest", columns[2], Make(DType::kF32, {2, 3}, {2, 3, 4, 6, 7, 8}));
  ASSERT_EQ(rows.size(), 2u);
  checks.Expect("second row", rows[1], Make(DType::kF32, {1, 4}, {5, 6, 7, 8}));
  EXPECT_EQ(Split(x, 1, 0), Values{x});
  checks.Run();
}

TEST(Split, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  const auto add = [&](const char* name, const GradientChecks::Function& function) {
    checks.Add(name, {RandomArray({2, 5})}, function);
    checks.AddSecond(name, {RandomArray({2, 5})},
                     [&](const Values& v) { return Square(function(v)); });
  };
  add("all parts", [](const Values& v) {
    const Values parts = Split(v[0], {2, 1, 2}, 1);
    return parts[0] * parts[1] + parts[2];
  });
  add("some parts", [](const Values& v) { return Split(v[0], {2, 1, 2}, 1)[2]; });
  checks.Run();
  testing::ExpectAllCovered(SplitOps(), checks.ops());
}

TEST(Split, GradientIsConcatenatedNotSummed) {
  Graph graph("split");
  const Value x = graph.Parameter({DType::kF32, {2, 6}}, "x");
  const Values parts = Split(x, 3, 1);
  graph.SetResults(Gradients(ReduceSum(Tanh(parts[0]) * parts[1] + parts[2]), {x}));
  const auto program = PrintStableHlo(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->text, HasSubstr("stablehlo.concatenate"));
  EXPECT_THAT(program->text, Not(HasSubstr("stablehlo.pad")));
  EXPECT_THAT(program->text, Not(HasSubstr("4:6")));  // the third part is unused
}

TEST(Split, ErrorsStateActualAndExpected) {
  struct Wrong {
    std::function<Values(Value)> build;  // input: f32[2,3]
    const char* message;
  };
  const Wrong wrongs[] = {
      {[](Value x) { return Split(x, 2, 1); },
       "axis 1 of f32[2,3] cannot be split into 2 equal parts"},
      {[](Value x) { return Split(x, 0, 1); }, "cannot be split into 0 equal parts"},
      {[](Value x) {
         return Split(x, {1, 1}, 1);
       },
       "split: the sizes [1, 1] do not add up"},
      {[](Value x) {
         return Split(x, {4, -1}, 1);
       },
       "split: the sizes [4, -1] do not add up"},
      {[](Value x) { return Split(x, 2, 2); }, "split: there is no axis 2 in f32[2,3]"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    for (const Value& part : wrong.build(graph.Parameter({DType::kF32, {2, 3}}, "x"))) {
      EXPECT_FALSE(part.valid()) << wrong.message;
    }
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

}  // namespace split_test
}  // namespace penstock::ir
