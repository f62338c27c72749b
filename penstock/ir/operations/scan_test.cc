#include <cmath>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace scan_test {

using testing::Checks;
using testing::Doubles;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using ::testing::Not;
using testing::RandomArray;

// h[t] = tanh(x[t] + h[t-1] w); returns all h.
ScanOut Recurrent(Value h, Value x, Value w, const ScanOptions& options = {}) {
  return Scan(
      {h}, {x}, {w},
      [](Graph&, const ScanIn& in) {
        const Value next = Tanh(in.x[0] + MatMul(in.state[0], in.constants[0]));
        return ScanOut{.state = {next}, .y = {next}};
      },
      options);
}

// The same, unrolled.
ScanOut RecurrentWrittenOut(Value h, Value x, Value w, bool reverse) {
  const int64_t length = x.shape().dim(0);
  Values rows(length);
  for (int64_t i = 0; i < length; ++i) {
    const int64_t t = reverse ? length - 1 - i : i;
    h = Tanh(Squeeze(SliceAxis(x, 0, t, t + 1), {0}) + MatMul(h, w));
    rows[t] = ExpandDims(h, 0);
  }
  return {.state = {h}, .y = {Concatenate(rows, 0)}};
}

TEST(Scan, MatchesUnrolledLoop) {
  for (DType dtype : {DType::kF64, DType::kBF16}) {
    for (const bool reverse : {false, true}) {
      Checks checks;
      const Array zeros = Make(dtype, {}, {0});
      const Value h = checks.Input(RandomArray({2, 3}, 1, -1, 1, dtype));
      const Value x = checks.Input(RandomArray({5, 2, 3}, 2, -1, 1, dtype));
      const Value w = checks.Input(RandomArray({3, 3}, 3, -1, 1, dtype));
      const Value weights = Constant(checks.graph(), RandomArray({5, 2, 3}, 4, -1, 1, dtype));
      const auto results = [&](const ScanOut& done) {
        const Value sum = ReduceSum(done.y[0] * weights) + ReduceSum(Square(done.state[0]));
        Values all = Gradients(sum, {h, x, w});
        all.push_back(done.state[0]);
        all.push_back(done.y[0]);
        return all;
      };
      const Values got = results(Recurrent(h, x, w, {.reverse = reverse}));
      const Values want = results(RecurrentWrittenOut(h, x, w, reverse));
      const Values small =
          results(Recurrent(h, x, w, {.reverse = reverse, .save_products = false}));
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(got[i].valid()) << checks.graph().status();
        EXPECT_EQ(got[i].type(), want[i].type());
        // In bf16 the scan accumulates its gradients in f32, which is more accurate than the
        // unrolled sum.
        const double tolerance = dtype == DType::kBF16 ? 0.04 : 1e-12;
        checks.Expect(absl::StrCat("difference ", i), ReduceMax(Abs(got[i] - want[i])), zeros,
                      tolerance);
        checks.Expect(absl::StrCat("without products ", i), ReduceMax(Abs(small[i] - got[i])),
                      zeros, tolerance);
      }
      checks.Run();
    }
  }
}

// A weight's cotangent is a sum of outer products over iterations, computed as one product of
// stacked rows.
TEST(Scan, CotangentsOfConstantsAreOneProductAfterTheLoop) {
  // Batch size. If stacked rows would have more elements than the weight, they are not stacked for
  // it.
  for (const int64_t batch : {2, 5}) {
    const auto gradient = [&](Graph& graph, bool with_x) {
      const Value h = graph.Parameter({DType::kF32, {batch, 3}}, "h");
      const Value x = graph.Parameter({DType::kF32, {4, batch, 3}}, "x");
      const Value w = graph.Parameter({DType::kF32, {3, 3}}, "w");
      const Value loss = ReduceSum(Recurrent(h, x, w).state[0]);
      return Gradients(loss, with_x ? Values{w, x} : Values{w});
    };
    for (const bool with_x : {false, true}) {
      Graph graph("w");
      graph.SetResults(gradient(graph, with_x));
      const auto program = PrintStableHlo(graph);
      ASSERT_TRUE(program.ok()) << program.status();
      const auto behind = HasSubstr("contracting_dims = [0, 1] x [0, 1]");
      // With x, the cotangents of its rows are stacked anyway.
      if (batch == 2 || with_x) {
        EXPECT_THAT(program->text, behind);
      } else {
        EXPECT_THAT(program->text, Not(behind));
      }
    }
    Checks checks;
    const Value h = checks.Input(RandomArray({batch, 3}, 1, -1, 1, DType::kF64));
    const Value x = checks.Input(RandomArray({4, batch, 3}, 2, -1, 1, DType::kF64));
    const Value w = checks.Input(RandomArray({3, 3}, 3, -1, 1, DType::kF64));
    const Value got = Gradients(ReduceSum(Square(Recurrent(h, x, w).state[0])), {w})[0];
    const Value want =
        Gradients(ReduceSum(Square(RecurrentWrittenOut(h, x, w, false).state[0])), {w})[0];
    checks.Expect("of the weight alone", ReduceMax(Abs(got - want)), Make(DType::kF64, {}, {0}),
                  1e-12);
    // The multiplied cotangent is the state itself: h[t] = h[t-1] w.
    const ScanOut linear =
        Scan({h}, {}, {w},
             [](Graph&, const ScanIn& in) {
               return ScanOut{.state = {MatMul(in.state[0], in.constants[0])}, .y = {}};
             },
             {.count = 3});
    const Value written_out = MatMul(MatMul(MatMul(h, w), w), w);
    const Value of_linear = Gradients(ReduceSum(Square(linear.state[0])), {w})[0],
                of_written_out = Gradients(ReduceSum(Square(written_out)), {w})[0];
    checks.Expect("of a linear loop", ReduceMax(Abs(of_linear - of_written_out)),
                  Make(DType::kF64, {}, {0}), 1e-12);
    checks.Run();
  }
}

TEST(Scan, CarriesIntegersAndReturnsSeveralStacks) {
  Checks checks;
  const Value n = checks.Input(Array::Scalar<int32_t>(10));
  const Value ids = checks.Input(Make(DType::kI32, {4}, {3, 1, 2, 3}));
  const Value x = checks.Input(Make(DType::kF32, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  const auto body = [](Graph&, const ScanIn& in) {
    const Value sum = in.state[0] + in.x[0];
    return ScanOut{.state = {sum}, .y = {in.index, sum, in.x[1] * 2.0}};
  };
  const ScanOut there = Scan({n}, {ids, x}, {}, body);
  checks.Expect("last", there.state[0], Array::Scalar<int32_t>(19));
  checks.Expect("indices", there.y[0], Make(DType::kI32, {4}, {0, 1, 2, 3}));
  checks.Expect("sums", there.y[1], Make(DType::kI32, {4}, {13, 14, 16, 19}));
  checks.Expect("rows", there.y[2], Make(DType::kF32, {4, 2}, {2, 4, 6, 8, 10, 12, 14, 16}));
  const ScanOut back = Scan({n}, {ids, x}, {}, body, {.reverse = true});
  checks.Expect("indices back", back.y[0], Make(DType::kI32, {4}, {0, 1, 2, 3}));
  checks.Expect("sums back", back.y[1], Make(DType::kI32, {4}, {19, 16, 15, 13}));
  const ScanOut one = Scan({n}, {SliceAxis(ids, 0, 1, 2), SliceAxis(x, 0, 1, 2)}, {}, body);
  checks.Expect("one row", one.y[2], Make(DType::kF32, {1, 2}, {6, 8}));
  const ScanOut none = Scan({n}, {SliceAxis(ids, 0, 0, 0), SliceAxis(x, 0, 0, 0)}, {}, body);
  EXPECT_EQ(none.state[0], n);
  checks.Expect("no row", none.y[2], Make(DType::kF32, {0, 2}, {}));
  const ScanOut counted = Scan({n}, {}, {},
                               [](Graph&, const ScanIn& in) {
                                 return ScanOut{.state = {in.state[0] * 2.0}, .y = {in.state[0]}};
                               },
                               {.count = 3});
  checks.Expect("without rows", counted.y[0], Make(DType::kI32, {3}, {10, 20, 40}));
  checks.Run();
}

// An LSTM, and special cases: integer and float states, integer constants, results without a
// cotangent, a stack that is read twice.
TEST(Scan, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  const Array h = RandomArray({2, 3}), c = RandomArray({2, 3}, 5), x = RandomArray({4, 2, 12}, 2);
  const Array u = RandomArray({3, 12}, 3, -0.7, 0.7), bias = RandomArray({12}, 4);
  const auto lstm = [](bool reverse, bool keep) {
    return [=](const Values& v) {
      const ScanOut done =
          Scan({v[0], v[1]}, {v[2]}, {v[3], v[4]},
               [](Graph&, const ScanIn& in) {
                 const Value z = in.x[0] + MatMul(in.state[0], in.constants[0]) + in.constants[1];
                 const auto gate = [&](int i) { return SliceAxis(z, 1, 3 * i, 3 * i + 3); };
                 const Value c = Sigmoid(gate(1)) * in.state[1] + Sigmoid(gate(0)) * Tanh(gate(2));
                 const Value h = Sigmoid(gate(3)) * Tanh(c);
                 return ScanOut{.state = {h, c}, .y = {h, z}};
               },
               {.reverse = reverse, .save_products = keep});
      return Concatenate({Reshape(done.y[0], {-1}), Reshape(done.state[1], {-1})}, 0);
    };
  };
  for (const bool reverse : {false, true}) {
    checks.Add("lstm", {h, c, x, u, bias}, lstm(reverse, true));
    checks.Add("lstm, states only", {h, c, x, u, bias}, lstm(reverse, false));
  }
  const Array h1 = RandomArray({1, 2}), x1 = RandomArray({3, 1, 2}, 2), w1 = RandomArray({2, 2}, 3);
  const auto recurrent = [](const Values& v) { return Recurrent(v[0], v[1], v[2]).y[0]; };
  checks.AddSecond("recurrent", {h1, x1, w1}, recurrent);
  checks.AddSecond("last of recurrent", {h1, x1, w1}, [](const Values& v) {
    return Recurrent(v[0], v[1], v[2], {.reverse = true, .save_products = false}).state[0];
  });
  const auto mixed = [](const Values& v) {  // float and int states, int rows, float constant
    const ScanOut done = Scan({v[0], v[1]}, {v[2], v[3]}, {v[4]}, [](Graph&, const ScanIn& in) {
      const Value n = in.state[1] + in.x[0];
      const Value y = Sin(in.state[0]) * Convert(n, DType::kF64) + in.x[1] * in.constants[0];
      return ScanOut{.state = {y, n}, .y = {n, y * y, in.state[0]}};
    });
    return done.y[1] + done.y[2] * Convert(done.y[0], DType::kF64);
  };
  const std::vector<Array> of_mixed{RandomArray({}), Array::Scalar<int32_t>(1),
                                    Make(DType::kI32, {3}, {0, 1, 2}), RandomArray({3}, 8),
                                    RandomArray({}, 9)};
  checks.Add("mixed", of_mixed, mixed);
  checks.AddSecond("mixed", of_mixed, mixed);
  const auto nested = [](const Values& v) {
    return Scan({v[0]}, {v[1]}, {},
                [](Graph&, const ScanIn& in) {
                  const ScanOut inner =
                      Scan({in.state[0]}, {in.x[0]}, {in.x[0]}, [](Graph&, const ScanIn& i) {
                        const Value s = Sin(i.state[0] * i.x[0]) + ReduceSum(i.constants[0]);
                        return ScanOut{.state = {s}, .y = {s * s}};
                      });
                  return ScanOut{.state = inner.state, .y = inner.y};
                })
        .y[0];
  };
  checks.Add("scan in scan", {RandomArray({}), RandomArray({2, 3}, 2)}, nested);
  checks.AddSecond("scan in scan", {RandomArray({}), RandomArray({2, 3}, 2)}, nested);
  // A loop that slices and updates its rows explicitly instead of using Scan, with a table lookup
  // in each iteration.
  const auto by_hand = [](const Values& v) {
    const Value y = SplatLike(v[0], 0);
    return For(
        3, {y, SplatLike(ReduceSum(v[0]), 1), v[0], v[1], v[2]},
        [](Graph&, Value t, const Values& s) {
          const Value zero = SplatLike(t, 0);
          const Value row = DynamicSlice(s[2], {t, zero}, {1, 2});
          const Value picked = Take(s[3], Reshape(DynamicSlice(s[4], {t}, {1}), {}), 0);
          const Value state = Tanh(s[1] * ReduceSum(row)) + picked;
          return Values{DynamicUpdateSlice(s[0], row * state, {t, zero}), state, s[2], s[3], s[4]};
        })[0];
  };
  const std::vector<Array> of_hand{RandomArray({3, 2}), RandomArray({5}, 2),
                                   Make(DType::kI32, {3}, {4, 0, 4})};
  checks.Add("by hand", of_hand, by_hand);
  checks.AddSecond("by hand", of_hand, by_hand);
  checks.Run();
  testing::ExpectAllCovered(ScanOps(), checks.ops());
}

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Scan, SavesOnlyResidualsThatTheGradientReads) {
  Graph graph("kept");
  const Value h = graph.Parameter({DType::kF32, {2, 3}}, "h"),
              x = graph.Parameter({DType::kF32, {50, 2, 3}}, "x"),
              w = graph.Parameter({DType::kF32, {3, 3}}, "w");
  const auto text = [&](const Values& results) {
    graph.SetResults(results);
    const auto program = PrintStableHlo(graph);
    return program.ok() ? program->text : std::string(program.status().message());
  };
  const Value last = Recurrent(h, x, w).state[0];
  // Nothing is stacked, because y is unused.
  EXPECT_THAT(text({last}), Not(HasSubstr("dynamic_update_slice")));
  const Values d = Gradients(ReduceSum(last), {h, w});
  // Residuals: the states before each iteration, the products, and the products' left operands for
  // w.
  EXPECT_EQ(CountOf(text({d[0], d[1]}), "dynamic_update_slice"), 3);
  // Gradients requested later come from the same loop.
  const Values again = Gradients(ReduceSum(last), {h, w, x});
  const std::string all = text({d[1], again[2]});
  EXPECT_EQ(CountOf(all, "stablehlo.while"), 3) << all;
  EXPECT_EQ(CountOf(all, "dynamic_update_slice"), 4) << all;
  // One product forward and two backward: it is not recomputed.
  Graph once("once");
  Recurrent(h, x, w);
  EXPECT_EQ(CountOf(text({again[0], again[1], again[2]}), "dot_general"), 3);
  const Value states_only = Recurrent(h, x, w, {.save_products = false}).state[0];
  const Values e = Gradients(ReduceSum(states_only), {h, w});
  const std::string small = text(e);
  EXPECT_EQ(CountOf(small, "dynamic_update_slice"), 1) << small;
  EXPECT_EQ(CountOf(small, "dot_general"), 4) << small;
}

// Time or memory quadratic in the length would appear as types of [length, length], or as sums of
// entire stacks within the loop.
TEST(Scan, GradientIsLinearInLength) {
  Graph graph("by_hand");
  const Value x = graph.Parameter({DType::kF32, {50, 3}}, "x");
  const Value table = graph.Parameter({DType::kF32, {70, 3}}, "table");
  const Value y = For(50, {SplatLike(x, 0), x, table}, [](Graph&, Value t, const Values& s) {
    const Value zero = SplatLike(t, 0);
    const Value row = DynamicSlice(s[1], {t, zero}, {1, 3});
    const Value more = Sin(row) * ExpandDims(Take(s[2], t, 0), 0);
    return Values{DynamicUpdateSlice(s[0], more, {t, zero}), s[1], s[2]};
  })[0];
  graph.SetResults(Gradients(ReduceSum(Sin(y)), {x, table}));
  const auto program = PrintStableHlo(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->text, Not(HasSubstr("50x50")));
  // Additions of the loop counters, of one slice, and in the scatter's reducer.
  EXPECT_EQ(CountOf(program->text, "stablehlo.add %"), 2 + 2) << program->text;
  EXPECT_THAT(program->text,
              Not(::testing::ContainsRegex("stablehlo.add [^\n]*tensor<[57]0x3xf32>")));
}

TEST(Scan, ErrorsStateActualAndExpected) {
  struct Wrong {
    std::function<ScanOut(Value)> build;  // input: f32[2,3]
    const char* message;
  };
  const auto same = [](Graph&, const ScanIn& in) { return ScanOut{.state = in.state, .y = {}}; };
  const Wrong wrongs[] = {
      {[&](Value x) {
         return Scan({x}, {x, Reshape(x, {3, 2})}, {}, same);
       },
       "scan: expects 2 rows of each x, got (f32[2,3], f32[3,2])"},
      {[&](Value x) { return Scan({x}, {ReduceSum(x)}, {}, same); },
       "scan: expects some number of rows of each x, got (f32[])"},
      {[&](Value x) { return Scan({x}, {}, {}, same); },
       "scan: the number of iterations must be 0 to 2147483647, got -1"},
      {[&](Value x) {
         return Scan({x}, {x}, {}, [](Graph&, const ScanIn& in) {
           return ScanOut{.state = {ReduceSum(in.state[0])}, .y = {}};
         });
       },
       "scan: the body must return (f32[2,3]), it returns (f32[])"},
      {[&](Value x) {
         return Scan({x}, {x}, {}, [&](Graph&, const ScanIn& in) {
           return ScanOut{.state = {in.state[0] + x}, .y = {}};
         });
       },
       "an operand of stablehlo.add belongs to another graph"},
      {[&](Value x) {
         return Scan({}, {x}, {}, [&](Graph& g, const ScanIn&) {
           return ScanOut{.state = {}, .y = {Splat(g, {DType::kF32, {1, 1, 1, 1, 1, 1, 1, 1}}, 0)}};
         });
       },
       "scan: a row has at most 7 axes, got f32[1,1,1,1,1,1,1,1]"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    const Scope scope(graph, "my_layer");
    const ScanOut out = wrong.build(graph.Parameter({DType::kF32, {2, 3}}, "x"));
    for (const Value& v : out.state) EXPECT_FALSE(v.valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
    EXPECT_THAT(ErrorOf(graph), HasSubstr("layer \"my_layer\""));
  }
}

TEST(Scan, GradientOfAStateWithTheMostAxesIsAnError) {
  Graph graph("axes");
  const Value x = graph.Parameter({DType::kF32, {1, 1, 1, 1, 1, 1, 1, 2}}, "x");
  const Value y = For(3, {x}, [](Graph&, Value, const Values& s) { return Values{Sin(s[0])}; })[0];
  ASSERT_TRUE(y.valid());
  EXPECT_FALSE(Gradients(ReduceSum(y), {x})[0].valid());
  EXPECT_THAT(ErrorOf(graph), HasSubstr("a row has at most 7 axes"));
}

}  // namespace scan_test
}  // namespace penstock::ir
