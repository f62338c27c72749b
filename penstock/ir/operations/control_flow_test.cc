#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::ir {
namespace control_flow_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using ::testing::Not;
using testing::RandomArray;

TEST(ControlFlow, WhileRunsUntilTheConditionFails) {
  Checks checks;
  // 27 has 111 Collatz steps.
  const Value n = checks.Input(Array::Scalar<int64_t>(27)),
              steps = checks.Input(Array::Scalar<int32_t>(0));
  const Values done = While(
      {n, steps}, [](Graph&, const Values& s) { return Greater(s[0], SplatLike(s[0], 1)); },
      [](Graph&, const Values& s) {
        const Value two = SplatLike(s[0], 2);
        const Value odd = Equal(Remainder(s[0], two), SplatLike(s[0], 1));
        return Values{Select(odd, s[0] * 3.0 + 1.0, s[0] / two), s[1] + 1.0};
      });
  checks.Expect("end", done[0], Array::Scalar<int64_t>(1));
  checks.Expect("steps", done[1], Array::Scalar<int32_t>(111));
  // A single state; the condition is false at once, so the body never runs.
  const Values none = While(
      {steps}, [](Graph&, const Values& s) { return Less(s[0], s[0]); },
      [](Graph&, const Values& s) { return Values{s[0] + 1.0}; });
  checks.Expect("none", none[0], Array::Scalar<int32_t>(0));
  checks.Run();
}

TEST(ControlFlow, ForCountsFromZero) {
  Checks checks;
  const Value zero = checks.Input(Array::Scalar<int32_t>(0)),
              row = checks.Input(Make(DType::kF32, {3}, {1, 2, 3}));
  const auto sum = [](Graph&, Value index, const Values& s) {
    return Values{s[0] + index, s[1] * 2.0};
  };
  const Values ten = For(10, {zero, row}, sum);
  checks.Expect("sum of indices", ten[0], Array::Scalar<int32_t>(45));
  checks.Expect("doubled ten times", ten[1], Make(DType::kF32, {3}, {1024, 2048, 3072}));
  EXPECT_EQ(For(0, {zero, row}, sum), (Values{zero, row}));
  const Value nested = For(3, {zero}, [](Graph&, Value i, const Values& s) {
    return Values{For(4, {s[0], i}, [](Graph&, Value j, const Values& t) {
      return Values{t[0] + t[1] * j, t[1]};
    })[0]};
  })[0];
  checks.Expect("nested", nested, Array::Scalar<int32_t>(18));
  checks.Run();
}

TEST(ControlFlow, LoopInvariantStatesAreNotCarried) {
  Graph graph("idle");
  const Value x = graph.Parameter({DType::kF32, {}}, "x"),
              idle = graph.Parameter({DType::kF32, {100}}, "idle");
  const Values done = For(3, {idle, x}, [](Graph&, Value, const Values& s) {
    return Values{s[0], s[1] * 2.0};
  });
  EXPECT_EQ(done[0], idle);
  EXPECT_EQ(done[1].node().operands.size(), 1u);
}

// A loop-invariant state is returned as the operand itself, so that no copy of it is needed.
TEST(ControlFlow, ResultsIndependentOfTheLoopAreNotRecomputed) {
  Checks checks;
  const Value n = checks.Input(Array::Scalar<int32_t>(3)),
              by = checks.Input(Array::Scalar<int32_t>(5));
  const Values done = While(
      {n, by}, [](Graph&, const Values& s) { return Less(s[0], SplatLike(s[0], 40)); },
      [](Graph&, const Values& s) {
        return Values{s[0] + s[1], s[1]};
      });
  EXPECT_EQ(done[1], by);
  checks.Expect("steps of five", done[0], Array::Scalar<int32_t>(43));
  checks.Run();
}

TEST(ControlFlow, CondRunsOneBranch) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {2}, {3, 4})),
              n = checks.Input(Array::Scalar<int32_t>(5));
  for (const bool pred : {false, true}) {
    const Values out = Cond(
        checks.Input(Array::Scalar(pred)), {x, n},
        [](Graph&, const Values& v) {
          return Values{v[0] + 1.0, v[1]};
        },
        [](Graph& g, const Values& v) {
          return Values{v[0] * v[0], Constant(g, Array::Scalar<int32_t>(-1))};
        });
    checks.Expect(
        "first", out[0],
        Make(DType::kF32, {2}, pred ? std::vector<double>{4, 5} : std::vector<double>{9, 16}));
    checks.Expect("second", out[1], Array::Scalar<int32_t>(pred ? 5 : -1));
  }
  checks.Run();
}

TEST(ControlFlow, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  const Array x = RandomArray({2}), w = RandomArray({2, 2}, 3, -0.7, 0.7);
  // An RNN of five steps; the weights are loop-invariant states, and the index is used.
  const auto recurrent = [](const Values& v) {
    return For(5, {v[0], v[1]}, [](Graph&, Value index, const Values& s) {
      const Value step = Convert(index, DType::kF64) * 0.1;
      const Value h = Reshape(MatMul(Reshape(s[0], {1, 2}), s[1]), {2});
      return Values{Tanh(h + step), s[1]};
    })[0];
  };
  checks.Add("for", {x, w}, recurrent);
  checks.AddSecond("for", {x, w}, recurrent);
  // Two float states that depend on each other; an integer state; and one that is read before it
  // changes.
  const auto coupled = [](const Values& v) {
    const Values out = For(4, {v[0], v[1], v[2]}, [](Graph&, Value, const Values& s) {
      return Values{s[1] * s[0], Sin(s[0]), s[2] + 1.0};
    });
    return out[0] * out[1];
  };
  checks.Add("for with coupled states", {x, RandomArray({2}, 4), Array::Scalar<int32_t>(0)},
             coupled);
  checks.AddSecond("for with coupled states", {x, RandomArray({2}, 4), Array::Scalar<int32_t>(0)},
                   coupled);
  const auto once = [](const Values& v) {
    return For(1, {v[0]}, [](Graph&, Value, const Values& s) { return Values{s[0] * s[0]}; })[0];
  };
  checks.Add("for once", {x}, once);
  const auto nested = [](const Values& v) {
    return For(2, {v[0]}, [](Graph&, Value, const Values& s) {
      return For(3, {s[0]}, [](Graph&, Value j, const Values& t) {
        return Values{Sin(t[0] + Convert(j, DType::kF64))};
      });
    })[0];
  };
  checks.Add("for in for", {x}, nested);
  checks.AddSecond("for in for", {x}, nested);
  for (const bool pred : {false, true}) {
    const auto branch = [](const Values& v) {
      const Values out = Cond(
          v[1], {v[0], v[2]},
          [](Graph&, const Values& s) {
            return Values{Sin(s[0]), s[1] * s[0]};
          },
          [](Graph&, const Values& s) {
            return Values{s[1], s[0] * s[0]};
          });
      return out[0] + out[1] * out[1];
    };
    checks.Add("cond", {x, Array::Scalar(pred), RandomArray({2}, 5)}, branch);
    checks.AddSecond("cond", {x, Array::Scalar(pred), RandomArray({2}, 5)}, branch);
    // Only one of the results is used.
    checks.Add("cond, one result", {x, Array::Scalar(pred)}, [](const Values& v) {
      return Cond(
          v[1], {v[0]},
          [](Graph&, const Values& s) {
            return Values{Exp(s[0]), s[0]};
          },
          [](Graph&, const Values& s) {
            return Values{s[0], Exp(s[0])};
          })[1];
    });
  }
  checks.Add("cond in for", {x}, [](const Values& v) {
    return For(4, {v[0]}, [](Graph&, Value i, const Values& s) {
      return Cond(
          Less(i, SplatLike(i, 2)), {s[0]},
          [](Graph&, const Values& t) { return Values{t[0] * t[0]}; },
          [](Graph&, const Values& t) { return Values{Cos(t[0])}; });
    })[0];
  });
  checks.Run();
  testing::ExpectAllCovered(ControlFlowOps(), checks.ops(), {"stablehlo.while"});
  testing::ExpectAllCovered(ScanOps(), checks.ops());
}

TEST(ControlFlow, ResidualsAreSavedOnlyForGradients) {
  Graph graph("history");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x");
  const Value y =
      ReduceSum(For(7, {x}, [](Graph&, Value, const Values& s) { return Values{s[0] * s[0]}; })[0]);
  graph.SetResults({y});
  EXPECT_THAT(PrintStableHlo(graph)->text, Not(HasSubstr("7x2xf32")));
  graph.SetResults({Gradients(y, {x})[0]});
  EXPECT_THAT(PrintStableHlo(graph)->text, HasSubstr("7x2xf32"));
}

TEST(ControlFlow, ErrorsStateActualAndExpected) {
  using Build = std::function<Values(Graph&, Value)>;  // input: f32[2]
  const auto same = [](Graph&, const Values& s) { return s; };
  struct Wrong {
    Build build;
    const char* message;
  };
  const Wrong wrongs[] = {
      {[&](Graph&, Value x) {
         return While(
             {x}, [](Graph&, const Values& s) { return s[0]; }, same);
       },
       "while: the condition must return (i1[]), it returns (f32[2])"},
      {[&](Graph&, Value x) {
         return While(
             {x}, [](Graph& g, const Values&) { return Constant(g, Array::Scalar(true)); },
             [](Graph&, const Values& s) { return Values{ReduceSum(s[0])}; });
       },
       "while: the body must return (f32[2]), it returns (f32[])"},
      {[&](Graph&, Value x) {
         return For(2, {x}, [](Graph&, Value, const Values& s) { return Values{s[0], s[0]}; });
       },
       "for: the body must return (f32[2]), it returns (f32[2], f32[2])"},
      {[&](Graph&, Value x) {
         return For(-1, {x}, [](Graph&, Value, const Values& s) { return s; });
       },
       "for: the number of iterations must be 0 to 2147483647, got -1"},
      {[&](Graph&, Value x) {
         return For(2, {x}, [x](Graph&, Value, const Values&) { return Values{x * 2.0}; });
       },
       "belongs to another graph than 'body'. The body of a loop or a branch refers only to its "
       "arguments"},
      {[&](Graph&, Value x) {
         return For(2, {x}, [x](Graph&, Value, const Values& s) { return Values{s[0] + x}; });
       },
       "an operand of stablehlo.add belongs to another graph"},
      {[&](Graph&, Value x) { return Cond(x, {x}, same, same); },
       "if: the predicate is a bool scalar, got f32[2]"},
      {[&](Graph& g, Value x) {
         return Cond(Constant(g, Array::Scalar(true)), {x}, same,
                     [](Graph&, const Values& s) { return Values{ReduceSum(s[0])}; });
       },
       "if: the else branch must return (f32[2]), it returns (f32[])"},
      {[&](Graph&, Value x) {
         return For(2, {x}, [](Graph&, Value, const Values& s) {
           return Values{Tanh(Convert(s[0], DType::kI32))};
         });
       },
       "tanh: expects floats, got i32[2]"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    const Scope scope(graph, "my_layer");
    const Values out = wrong.build(graph, graph.Parameter({DType::kF32, {2}}, "x"));
    for (const Value& v : out) EXPECT_FALSE(v.valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
    EXPECT_THAT(ErrorOf(graph), HasSubstr("layer \"my_layer\""));
  }
}

TEST(ControlFlow, RejectsGradientOfWhile) {
  Graph graph("while");
  const Value x = graph.Parameter({DType::kF32, {}}, "x");
  const Value y = While(
      {x}, [](Graph&, const Values& s) { return Less(s[0], SplatLike(s[0], 9)); },
      [](Graph&, const Values& s) { return Values{s[0] * 2.0}; })[0];
  EXPECT_FALSE(Gradients(y, {x})[0].valid());
  EXPECT_THAT(ErrorOf(graph), HasSubstr("while: has no gradient"));
}

TEST(ControlFlow, PrintsKernelAndAttributesOfCustomCall) {
  Graph graph("call");
  const Value x = graph.Parameter({DType::kF32, {2, 3}}, "x");
  const Values out =
      CustomCall(graph, "penstock.conv", {x}, {{DType::kF32, {2}}, {DType::kI32, {}}},
                 {{"groups", int64_t{3}},
                  {"strides", std::vector<int64_t>{1, 2}},
                  {"fused", true},
                  {"kind", std::string("re\"lu")},
                  {"alpha", 0.1}});
  ASSERT_EQ(out.size(), 2u) << graph.status();
  EXPECT_EQ(out[1].type().ToString(), "i32[]");
  graph.SetResults(out);
  const auto program = PrintStableHlo(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(
      program->text,
      HasSubstr("\"stablehlo.custom_call\"(%arg0) {api_version = 4 : i32, backend_config = {"
                "alpha = 1.0000000000000001e-01 : f64, fused = true, groups = 3 : i64, kind = "
                "\"re\\22lu\", "
                "strides = array<i64: 1, 2>}, call_target_name = \"penstock.conv\", "
                "has_side_effect = false, operand_layouts = [dense<[1, 0]> : tensor<2xindex>], "
                "result_layouts = [dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>]} "
                ": (tensor<2x3xf32>) -> (tensor<2xf32>, tensor<i32>)"));
  // The program parses; only the kernel is missing.
  EXPECT_THAT(std::string(testing::Executable::Compile(*program).status().message()),
              HasSubstr("penstock.conv"));
  Gradients(ReduceSum(out[0]), {x});
  EXPECT_THAT(ErrorOf(graph), HasSubstr("custom_call: has no gradient"));
}

TEST(ControlFlow, PrintsAliasingOfInPlaceCustomCall) {
  Graph graph("call");
  const Value x = graph.Parameter({DType::kF32, {2, 3}}, "x");
  graph.SetResults(CustomCall(graph, "penstock.same", {x}, {x.type()}, {}, /*in_place=*/true));
  const auto program = PrintStableHlo(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->text, HasSubstr("output_operand_aliases = [#stablehlo.output_operand_alias<"
                                       "output_tuple_indices = [], operand_index = 0, "
                                       "operand_tuple_indices = []>]"));
  EXPECT_THAT(std::string(testing::Executable::Compile(*program).status().message()),
              HasSubstr("penstock.same"));
}

TEST(ControlFlow, ErrorsInABranchLeaveAsManyInvalidResults) {
  const auto same = [](Graph&, const Values& s) { return s; };
  Graph loop("a loop in a branch");
  {
    const Value x = loop.Parameter({DType::kF32, {}}, "x"),
                p = loop.Parameter({DType::kBool, {}}, "p");
    const auto doubled = [](Graph&, const Values& v) {
      return While(
          {v[0]}, [](Graph&, const Values& s) { return Less(s[0], SplatLike(s[0], 9)); },
          [](Graph&, const Values& s) { return Values{s[0] * 2.0}; });
    };
    const Value y = Cond(p, {x}, doubled, same)[0];
    ASSERT_TRUE(y.valid());
    EXPECT_FALSE(Gradients(y, {x})[0].valid());
    EXPECT_THAT(ErrorOf(loop), HasSubstr("while: has no gradient"));
  }
  Graph wrong("a wrong shape in a branch");
  const Value x = wrong.Parameter({DType::kF32, {2}}, "x"),
              p = wrong.Parameter({DType::kBool, {}}, "p");
  const auto square = [](Graph&, const Values& s) { return Values{MatMul(s[0], s[0])}; };
  const Values out = Cond(p, {x}, square, same);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_FALSE(out[0].valid());
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("matmul: expects"));
}

}  // namespace control_flow_test
}  // namespace penstock::ir
