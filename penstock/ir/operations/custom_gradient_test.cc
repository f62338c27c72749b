#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::ir {
namespace custom_gradient_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using ::testing::Not;
using testing::RandomArray;

Values Double(Graph&, const Values& in) { return {in[0] * 2.0}; }

TEST(CustomGradient, ReplacesTheGradient) {
  Checks checks;
  const Value x = checks.Input(Make(DType::kF32, {3}, {-2, 0.5, 3}));
  const Value n = checks.Input(Make(DType::kI32, {3}, {1, 2, 3}));
  // Rounding with a straight-through gradient; the second result is an integer.
  const Values rounded = CustomGradient(
      {x, n},
      [](Graph&, const Values& in) {
        return Values{Round(in[0]), in[1] + 1.0};
      },
      [](Graph&, const BackwardIn& in) {
        EXPECT_FALSE(in.cotangents[1].valid()) << "integers have no cotangent";
        return Values{in.cotangents[0], Value()};
      });
  checks.Expect("value", rounded[0], Make(DType::kF32, {3}, {-2, 0, 3}));
  checks.Expect("count", rounded[1], Make(DType::kI32, {3}, {2, 3, 4}));
  checks.Expect("gradient", Gradients(ReduceSum(rounded[0] * rounded[0]), {x})[0],
                Make(DType::kF32, {3}, {-4, 0, 6}));
  // A clipped gradient that uses results and inputs; the second input has none.
  const auto clipped = [](Value a, Value b) {
    return CustomGradient(
        {a, b},
        [](Graph&, const Values& in) {
          return Values{in[0] * in[1], Exp(in[0])};
        },
        [](Graph&, const BackwardIn& in) {
          const Value sum = in.cotangents[0] * in.inputs[1] + in.cotangents[1] * in.results[1];
          return Values{Clamp(SplatLike(sum, -1), sum, SplatLike(sum, 1)), Value()};
        });
  };
  const Value b = checks.Input(Make(DType::kF32, {3}, {0.25, 8, -9}));
  const Values d = Gradients(ReduceSum(clipped(x, b)[0]), {x, b});
  checks.Expect("clipped", d[0], Make(DType::kF32, {3}, {0.25, 1, -1}));
  checks.Expect("none", d[1], Make(DType::kF32, {3}, {0, 0, 0}));
  checks.Run();
}

// Blocks of wide layers: [rows, 64] -> [rows, 1024] -> [rows, 64].
Value Blocks(Value x, Value up, Value down, int count, bool again) {
  const Body block = [](Graph&, const Values& in) {
    return Values{in[0] + Tanh(MatMul(Sin(Exp(Tanh(MatMul(in[0], in[1])))), in[2]))};
  };
  for (int i = 0; i < count; ++i) {
    x = again ? Rematerialize({x, up, down}, block)[0] : block(*x.graph(), {x, up, down})[0];
  }
  return x;
}

TEST(Rematerialize, SavesMemoryWithEqualResults) {
  const std::vector<Array> arguments{RandomArray({256, 64}, 1, -1, 1, DType::kF32),
                                     RandomArray({64, 1024}, 2, -0.1, 0.1, DType::kF32),
                                     RandomArray({1024, 64}, 3, -0.1, 0.1, DType::kF32)};
  std::vector<int64_t> bytes;
  std::vector<std::vector<Array>> results;
  for (const bool again : {false, true}) {
    Graph graph("blocks");
    Values in;
    for (const Array& a : arguments) in.push_back(graph.Parameter({a.dtype(), a.shape()}, "x"));
    const Value loss = ReduceMean(Square(Blocks(in[0], in[1], in[2], 8, again)));
    graph.SetResults(Gradients(loss, in));
    const auto program = PrintStableHlo(graph);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(program->text.find("optimization_barrier") != std::string::npos, again);
    const auto executable = testing::Executable::Compile(*program);
    ASSERT_TRUE(executable.ok()) << executable.status();
    bytes.push_back(*executable->TemporaryBytes());
    results.push_back(*executable->Run(arguments));
  }
  // Without remat, eight blocks store three residuals of 1 MiB each; with it, one block at a time
  // does.
  EXPECT_LT(bytes[1], bytes[0] / 2) << bytes[1];
  for (size_t i = 0; i < results[0].size(); ++i) {
    const std::vector<double> want = testing::Doubles(results[0][i]);
    const std::vector<double> got = testing::Doubles(results[1][i]);
    for (size_t k = 0; k < want.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-6);
  }
}

int CountOf(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Products are not computed again, and everything else is.
TEST(Rematerialize, SavesProductsWhenAskedTo) {
  const auto block = [](Graph&, const Values& in) {
    return Values{in[0] + Tanh(MatMul(Sin(Exp(Tanh(MatMul(in[0], in[1])))), in[2]))};
  };
  const std::vector<Array> arguments{RandomArray({32, 8}, 1, -1, 1, DType::kF32),
                                     RandomArray({8, 64}, 2, -0.1, 0.1, DType::kF32),
                                     RandomArray({64, 8}, 3, -0.1, 0.1, DType::kF32)};
  enum Way { kPlain, kProducts, kFull };
  std::vector<int> products, sines;
  std::vector<std::vector<Array>> results;
  for (const Way way : {kPlain, kProducts, kFull}) {
    Graph graph("blocks");
    Values in;
    for (const Array& a : arguments) in.push_back(graph.Parameter({a.dtype(), a.shape()}, "x"));
    Value x = in[0];
    for (int i = 0; i < 3; ++i) {
      const Values given{x, in[1], in[2]};
      x = way == kPlain ? block(graph, given)[0]
                        : Rematerialize(given, block, {.save_products = way == kProducts})[0];
    }
    graph.SetResults(Gradients(ReduceMean(Square(x)), in));
    const auto program = PrintStableHlo(graph);
    ASSERT_TRUE(program.ok()) << program.status();
    products.push_back(CountOf(program->text, "stablehlo.dot_general"));
    sines.push_back(CountOf(program->text, "stablehlo.sine"));
    const auto executable = testing::Executable::Compile(*program);
    ASSERT_TRUE(executable.ok()) << executable.status();
    results.push_back(*executable->Run(arguments));
  }
  // Two products a block in the forward pass, four in the backward pass; recomputing takes the
  // first one again (and the second, whose result Tanh's slope reads).
  EXPECT_EQ(products[kPlain], 3 * 6);
  EXPECT_EQ(products[kProducts], products[kPlain]);
  EXPECT_EQ(products[kFull], 3 * 8);
  EXPECT_EQ(sines[kPlain], 3);
  EXPECT_EQ(sines[kProducts], 2 * 3);
  for (const Way way : {kProducts, kFull}) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::vector<double> want = testing::Doubles(results[kPlain][i]);
      const std::vector<double> got = testing::Doubles(results[way][i]);
      for (size_t k = 0; k < want.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-6);
    }
  }
}

TEST(Rematerialize, PreservesBitsOfEveryType) {
  Checks checks;
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kF64}) {
    const Value x = checks.Input(Make(dtype, {3}, {-2, 0.5, 3}));
    const Value n = checks.Input(Make(DType::kI8, {3}, {1, -2, 3}));
    const Value p = checks.Input(Make(DType::kBool, {3}, {1, 0, 1}));
    const Value y = Rematerialize({x, n, p}, [&](Graph&, const Values& in) {
      const Value z = Square(in[0]) * Convert(in[1], dtype);
      return Values{Select(in[2], z, -z)};
    })[0];
    const Value weights = checks.Input(Make(dtype, {3}, {-1, 1, 2}));
    checks.Expect("gradient", Gradients(ReduceSum(y * weights), {x})[0],
                  Make(dtype, {3}, {4, 2, 36}));
  }
  checks.Run();
}

TEST(Rematerialize, DelaysOnlyValuesThatItReads) {
  Graph graph("held");
  const Value x = graph.Parameter({DType::kF32, {2}}, "x"),
              bias = graph.Parameter({DType::kF32, {2}}, "bias"),
              n = graph.Parameter({DType::kI32, {2}}, "n");
  const Values y = Rematerialize({x, bias, n}, [](Graph&, const Values& in) {
    return Values{Sin(in[0]) * Convert(in[2], DType::kF32) + in[1], in[2]};
  });
  graph.SetResults(Gradients(ReduceSum(y[0]), {x, bias}));
  const auto program = PrintStableHlo(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  // Residuals: x, n, and the cotangent, but not the bias.
  EXPECT_THAT(program->text, HasSubstr("optimization_barrier %arg0, %arg2, %"));
  EXPECT_THAT(program->text, Not(HasSubstr("stablehlo.sine"))) << "only its slope is read";
}

TEST(CustomGradient, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  const std::vector<Array> inputs{RandomArray({2, 3}), RandomArray({3}, 2)};
  const auto again = [](const Values& v) {
    const Values y = Rematerialize({v[0], v[1]}, [](Graph&, const Values& in) {
      return Values{Sin(in[0]) * in[1], Exp(in[1])};
    });
    return y[0] * y[1] + v[0];
  };
  checks.Add("rematerialize", inputs, again);
  checks.AddSecond("rematerialize", inputs, again);
  const auto products = [](const Values& v) {
    const Values y = Rematerialize(
        {v[0], v[1]},
        [](Graph&, const Values& in) {
          const Value product = MatMul(Sin(in[0]), in[1]);
          return Values{Tanh(product) * product, product, MatMul(Exp(product), in[0])};
        },
        {.save_products = true});
    return y[0] * y[1] + y[2];
  };
  const std::vector<Array> squares{RandomArray({2, 2}), RandomArray({2, 2}, 2)};
  checks.Add("rematerialize, products saved", squares, products);
  checks.AddSecond("rematerialize, products saved", squares, products);
  const auto nested = [](const Values& v) {
    return Rematerialize({v[0], v[1]}, [](Graph&, const Values& in) {
      const Value h = Rematerialize({in[0]}, [](Graph&, const Values& inner) {
        return Values{Tanh(inner[0] * inner[0])};
      })[0];
      return Values{For(2, {h, in[1]}, [](Graph&, Value, const Values& s) {
        return Values{Sin(s[0] * s[1]), s[1]};
      })[0]};
    })[0];
  };
  checks.Add("nested", inputs, nested);
  checks.AddSecond("nested", {RandomArray({2}), RandomArray({2}, 2)}, nested);
  const auto in_scan = [](const Values& v) {
    return Scan({v[1]}, {v[0]}, {},
                [](Graph&, const ScanIn& in) {
                  const Value h = Rematerialize(
                      {in.state[0], in.x[0]},
                      [](Graph&, const Values& s) { return Values{Sin(s[0] * s[1])}; })[0];
                  return ScanOut{.state = {h}, .y = {}};
                })
        .state[0];
  };
  checks.Add("in a scan", inputs, in_scan);
  const auto custom = [](const Values& v) {  // the exact derivative
    return CustomGradient(
        {v[0], v[1]}, [](Graph&, const Values& in) { return Values{Exp(in[0]) * in[1]}; },
        [](Graph&, const BackwardIn& in) {
          return Values{in.cotangents[0] * in.results[0],
                        ReduceSum(in.cotangents[0] * Exp(in.inputs[0]), {0})};
        })[0];
  };
  checks.Add("custom", inputs, custom);
  checks.AddSecond("custom", inputs, custom);
  const auto barrier = [](const Values& v) {
    const Values held = OptimizationBarrier({Sin(v[0]), v[1] * v[1]});
    return held[0] * held[1];
  };
  checks.Add("barrier", inputs, barrier);
  checks.AddSecond("barrier", inputs, barrier);
  checks.Add("barrier, one result", inputs, [](const Values& v) {
    return OptimizationBarrier({Sin(v[0]), v[1]})[0];
  });
  checks.Run();
  testing::ExpectAllCovered(CustomGradientOps(), checks.ops());
}

TEST(CustomGradient, ErrorsStateActualAndExpected) {
  const auto nothing = [](Graph&, const BackwardIn&) { return Values{}; };
  struct Wrong {
    std::function<Values(Value)> build;  // input: f32[2]
    const char* message;
  };
  const Wrong wrongs[] = {
      {[&](Value x) { return CustomGradient({x}, Double, nothing); },
       "custom_gradient: expects a cotangent, or none, for each of (f32[2]) that is a float, got "
       "0"},
      {[&](Value x) {
         return CustomGradient({x}, Double, [](Graph&, const BackwardIn& in) {
           return Values{ReduceSum(in.cotangents[0])};
         });
       },
       "for each of (f32[2]) that is a float, got 1: (f32[])"},
      {[&](Value x) {
         return CustomGradient({x}, Double,
                               [&](Graph&, const BackwardIn&) { return Values{x * 2.0}; });
       },
       "belongs to another graph"},
      {[&](Value x) {
         return Rematerialize({x}, [&](Graph&, const Values& in) { return Values{in[0] + x}; });
       },
       "an operand of stablehlo.add belongs to another graph"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    const Scope scope(graph, "my_layer");
    const Values out = wrong.build(graph.Parameter({DType::kF32, {2}}, "x"));
    for (const Value& v : out) EXPECT_FALSE(v.valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
    EXPECT_THAT(ErrorOf(graph), HasSubstr("layer \"my_layer\""));
  }
}

}  // namespace custom_gradient_test
}  // namespace penstock::ir
