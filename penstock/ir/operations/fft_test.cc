#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace fft_test {

using testing::Checks;
using testing::Doubles;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using ::testing::Not;
using testing::RandomArray;

using Numbers = std::vector<std::complex<double>>;

Numbers Pairs(const Array& real, const Array& imag) {
  const std::vector<double> re = Doubles(real), im = Doubles(imag);
  Numbers out(re.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = {re[i], im[i]};
  return out;
}

Array PartOf(const Numbers& numbers, DType dtype, const Shape& shape, bool imag) {
  std::vector<double> values;
  for (const auto& z : numbers) values.push_back(imag ? z.imag() : z.real());
  return Make(dtype, shape, values);
}

// Reference transform along one axis: sign -1 is forward, +1 is inverse (scaled by 1/n).
Numbers Transformed(const Numbers& x, const Shape& shape, int axis, int sign) {
  const int64_t n = shape.dim(axis);
  int64_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape.dim(i);
  Numbers out(x.size());
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const int64_t k = i / inner % n;
    for (int64_t j = 0; j < n; ++j) {
      const double angle = sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) / n;
      out[i] += x[i + (j - k) * inner] * std::polar(1.0, angle);
    }
    if (sign > 0) out[i] /= static_cast<double>(n);
  }
  return out;
}

Numbers LastAxes(Numbers x, const Shape& shape, int axes, int sign) {
  for (int a = shape.rank() - axes; a < shape.rank(); ++a) x = Transformed(x, shape, a, sign);
  return x;
}

Shape BinsOf(Shape shape) {
  shape.set_dim(shape.rank() - 1, shape.dim(-1) / 2 + 1);
  return shape;
}

// Truncates or zero-pads the last axis of `from` to that of `to`.
Numbers Resized(const Numbers& x, const Shape& from, const Shape& to) {
  Numbers out(to.num_elements());
  for (int64_t i = 0; i < to.num_elements(); ++i) {
    const int64_t row = i / to.dim(-1), column = i % to.dim(-1);
    if (column < from.dim(-1)) out[i] = x[row * from.dim(-1) + column];
  }
  return out;
}

// NumPy's irfftn: inverse transforms along the other axes, then along the last one, where each
// inner bin has an implied complex conjugate, so that the result is real.
Numbers InverseReal(const Numbers& bins, const Shape& shape, int axes) {
  const Shape short_shape = BinsOf(shape);
  Numbers x = bins;
  for (int a = shape.rank() - axes; a < shape.rank() - 1; ++a) {
    x = Transformed(x, short_shape, a, 1);
  }
  const int64_t n = shape.dim(-1);
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t k = static_cast<int64_t>(i) % short_shape.dim(-1);
    if (k != 0 && 2 * k != n) x[i] *= 2;
  }
  return Transformed(Resized(x, short_shape, shape), shape, shape.rank() - 1, 1);
}

struct Case {
  Shape shape;
  int axes;
};

const Case kCases[] = {{{2, 1}, 1},    {{2, 2}, 1},       {{2, 5}, 1},      {{2, 8}, 1},
                       {{2, 12}, 1},   {{7}, 1},          {{1, 6}, 2},      {{6, 1}, 2},
                       {{3, 5}, 2},    {{2, 4, 6}, 2},    {{5, 8}, 2},      {{3, 2, 2}, 3},
                       {{2, 3, 4}, 3}, {{2, 2, 5, 3}, 3}, {{2, 1, 3, 4}, 1}};

// The bins are random, so most are not the transform of real values.
TEST(Fft, MatchesDefinition) {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const double tolerance = dtype == DType::kF64 ? 1e-12 : 1e-5;
    Checks checks;
    for (const auto& [shape, axes] : kCases) {
      const std::string name = absl::StrCat(axes, " axes of ", shape.ToString());
      const Array re = RandomArray(shape, 1, -2, 2, dtype);
      const Array im = RandomArray(shape, 2, -2, 2, dtype);
      const Complex x{checks.Input(re), checks.Input(im)};
      const auto expect = [&](const char* what, const Complex& got, const Numbers& want,
                              const Shape& as) {
        checks.Expect(absl::StrCat(what, name), got.real, PartOf(want, dtype, as, false),
                      tolerance);
        checks.Expect(absl::StrCat(what, name), got.imag, PartOf(want, dtype, as, true), tolerance);
      };
      const Numbers z = Pairs(re, im);
      expect("fft, ", Fft(x, axes), LastAxes(z, shape, axes, -1), shape);
      expect("ifft, ", Ifft(x, axes), LastAxes(z, shape, axes, 1), shape);

      const Shape bins = BinsOf(shape);
      const Numbers real = Pairs(re, Make(dtype, shape, std::vector<double>(re.num_elements())));
      expect("rfft, ", Rfft(x.real, axes), Resized(LastAxes(real, shape, axes, -1), shape, bins),
             bins);

      const Array bin_re = RandomArray(bins, 3, -2, 2, dtype);
      const Array bin_im = RandomArray(bins, 4, -2, 2, dtype);
      const Complex y{checks.Input(bin_re), checks.Input(bin_im)};
      checks.Expect(absl::StrCat("irfft, ", name), Irfft(y, shape.dim(-1), axes),
                    PartOf(InverseReal(Pairs(bin_re, bin_im), shape, axes), dtype, shape, false),
                    tolerance);
    }
    checks.Run();
  }
}

TEST(Fft, InverseRestoresInput) {
  Checks checks;
  for (const auto& [shape, axes] : kCases) {
    const Array re = RandomArray(shape), im = RandomArray(shape, 2);
    const Complex x{checks.Input(re), checks.Input(im)};
    const Complex again = Ifft(Fft(x, axes), axes);
    checks.Expect("real", again.real, re, 1e-12);
    checks.Expect("imag", again.imag, im, 1e-12);
    checks.Expect("of real values", Irfft(Rfft(x.real, axes), shape.dim(-1), axes), re, 1e-12);
  }
  checks.Run();
}

// Imaginary parts that must be zero for real results are ignored.
TEST(Fft, IrfftIgnoresInconsistentBins) {
  const double inf = std::numeric_limits<double>::infinity();
  Checks checks;
  const Value re = checks.Input(Make(DType::kF64, {3}, {1, 2, 3}));
  const auto imag = [&](double first, double last) {
    return checks.Input(Make(DType::kF64, {3}, {first, 4, last}));
  };
  // Even length: (1 + 2 Re((2 + 4i) i^n) + 3 (-1)^n) / 4.
  const Array even = Make(DType::kF64, {4}, {2, -2.5, 0, 1.5});
  checks.Expect("even", Irfft({re, imag(0, 0)}, 4), even, 1e-12);
  checks.Expect("even, both ignored", Irfft({re, imag(inf, 9)}, 4), even, 1e-12);
  const Value odd = Irfft({re, imag(0, 7)}, 5);
  checks.Expect("odd, the first ignored", Irfft({re, imag(-5, 7)}, 5) - odd,
                Make(DType::kF64, {5}, std::vector<double>(5)), 1e-12);
  checks.Expect("odd, the last not", ReduceMax(Abs(Irfft({re, imag(0, 8)}, 5) - odd)),
                // 2/5 of the maximum of |sin(2 pi 2 n / 5)|
                Make(DType::kF64, {}, {0.4 * std::sin(0.4 * std::numbers::pi)}), 1e-12);
  checks.Run();
}

// Guaranteed on every platform, although this plugin would accept other bins.
TEST(Fft, IrfftPassesConsistentBinsToPlatform) {
  Checks checks;
  for (const auto& [shape, axes] : kCases) {
    const Shape bins = BinsOf(shape);
    const Value y = Irfft({checks.Input(RandomArray(bins)), checks.Input(RandomArray(bins, 2))},
                          shape.dim(-1), axes);
    const Node& node = y.node();
    const Value printed = node.op->decompose(checks.graph(), node, node.operands)[0];
    const Complex again = Rfft(printed, axes);
    const Array zeros = Make(DType::kF64, bins, std::vector<double>(bins.num_elements()));
    checks.Expect("real", again.real - printed.node().operands[0], zeros, 1e-12);
    checks.Expect("imag", again.imag - printed.node().operands[1], zeros, 1e-12);
  }
  checks.Run();
}

TEST(Fft, AcceptsEmptyBatchesAndTransposedOperands) {
  Checks checks;
  const Value none = checks.Input(Make(DType::kF32, {0, 6}, {}));
  const Complex bins = Rfft(none);
  checks.Expect("fft of nothing", Fft({none, none}).imag, Make(DType::kF32, {0, 6}, {}));
  checks.Expect("rfft of nothing", bins.real, Make(DType::kF32, {0, 4}, {}));
  checks.Expect("irfft of nothing", Irfft(bins, 6), Make(DType::kF32, {0, 6}, {}));

  const Array x = Make(DType::kF64, {2, 3}, {1, 2, 3, 4, 5, 7});
  const Value turned =
      Transpose(checks.Input(Make(DType::kF64, {3, 2}, {1, 4, 2, 5, 3, 7})), {1, 0});
  const Complex y = Rfft(turned);
  checks.Expect("turned", y.imag - Rfft(checks.Input(x)).imag,
                Make(DType::kF64, {2, 2}, {0, 0, 0, 0}), 1e-12);
  checks.Expect("turned back", Transpose(Irfft(y, 3), {1, 0}) - Transpose(turned, {1, 0}),
                Make(DType::kF64, {3, 2}, std::vector<double>(6)), 1e-12);
  checks.Run();
}

// Flattens the real and the imaginary part of a result.
Value Joined(const Complex& x) { return Concatenate({x.real, x.imag}, 0); }

TEST(Fft, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  const auto add = [&](const Shape& shape, int axes, bool second) {
    const std::string name = absl::StrCat(axes, " axes of ", shape.ToString());
    const auto both = [&](const char* what, const Shape& in, int inputs,
                          const GradientChecks::Function& function) {
      std::vector<Array> xs{RandomArray(in)};
      if (inputs == 2) xs.push_back(RandomArray(in, 2));
      checks.Add(absl::StrCat(what, name), xs, function);
      if (!second) return;
      checks.AddSecond(absl::StrCat(what, name), xs,
                       [&](const Values& v) { return Square(function(v)); });
    };
    both("fft, ", shape, 2, [=](const Values& v) { return Joined(Fft({v[0], v[1]}, axes)); });
    both("ifft, ", shape, 2, [=](const Values& v) { return Joined(Ifft({v[0], v[1]}, axes)); });
    both("rfft, ", shape, 1, [=](const Values& v) { return Joined(Rfft(v[0], axes)); });
    both("irfft, ", BinsOf(shape), 2, [=](const Values& v) {
      return Irfft({v[0], v[1]}, shape.dim(-1), axes);
    });
  };
  for (int64_t n : {1, 2, 5, 8, 12}) add({n}, 1, n == 5 || n == 8);
  add({2, 3}, 1, false);
  add({3, 5}, 2, true);
  add({3, 4}, 2, true);
  add({2, 3, 4}, 3, false);
  // Only one part of the result has a cotangent.
  checks.Add("imag of fft", {RandomArray({5}), RandomArray({5}, 2)}, [](const Values& v) {
    return Fft({v[0], v[1]}).imag;
  });
  checks.Add("real of rfft", {RandomArray({5})}, [](const Values& v) { return Rfft(v[0]).real; });
  checks.Run();
  testing::ExpectAllCovered(FftOps(), checks.ops(), {"penstock.hermitian_irfft"});
}

TEST(Fft, ComplexTypesOccurOnlyInItsOwnLines) {
  Graph graph("fft");
  const Value x = graph.Parameter({DType::kF32, {2, 5}}, "x");
  const Complex y = Rfft(x);
  graph.SetResults({Square(y.real)});
  const auto program = PrintStableHlo(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->text, HasSubstr("type = RFFT, length = [5] : (tensor<2x5xf32>) -> "
                                       "tensor<2x3xcomplex<f32>>"));
  EXPECT_THAT(program->text, HasSubstr("stablehlo.real"));
  EXPECT_THAT(program->text, Not(HasSubstr("stablehlo.imag")));  // unused
  EXPECT_EQ(program->results[0].ToString(), "f32[2,3]");
}

TEST(Fft, ErrorsStateActualAndExpected) {
  struct Wrong {
    std::function<Value(Value)> build;  // input: f32[2,3]
    const char* message;
  };
  const Wrong wrongs[] = {
      {[](Value x) { return Rfft(Convert(x, DType::kBF16)).real; },
       "rfft: expects f32 or f64, got bf16[2,3]; use Convert"},
      {[](Value x) {
         return Fft({x, Convert(x, DType::kF64)}).imag;
       },
       "fft: expects real and imaginary parts of one type, got f32[2,3] and f64[2,3]"},
      {[](Value x) {
         return Ifft({x, x}, 3).real;
       },
       "ifft: transforms the last 1 to 3 axes, not 3 of f32[2,3]"},
      {[](Value x) { return Rfft(x, 0).real; }, "not 0 of f32[2,3]"},
      {[](Value x) { return Rfft(ExpandDims(ExpandDims(x, 0), 0), 4).real; },
       "rfft: transforms the last 1 to 3 axes, not 4 of f32[1,1,2,3]"},
      {[](Value x) { return Rfft(SliceAxis(x, 0, 1, 1), 2).real; },
       "rfft: has no elements to transform along axis 0 of f32[0,3]"},
      {[](Value x) {
         return Irfft({x, x}, 6);
       },
       "irfft: 6 real values have 4 bins, got f32[2,3]; use SliceAxis to crop or Pad to add zeros"},
      {[](Value x) {
         return Irfft({x, x}, 0);
       },
       "irfft: returns 1 or more values, not 0"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    EXPECT_FALSE(wrong.build(graph.Parameter({DType::kF32, {2, 3}}, "x")).valid());
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

}  // namespace fft_test
}  // namespace penstock::ir
