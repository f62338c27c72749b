#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/testing/checks.h"

namespace penstock::ir {
namespace window_test {

using testing::Checks;
using testing::ErrorOf;
using testing::GradientChecks;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomArray;

struct Setting {
  const char* name;
  Shape input;
  WindowOptions options;
};

std::vector<Setting> Settings() {
  return {
      {"2x2, stride 2", {1, 4, 6, 2}, {.size = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}}},
      {"3x3, stride 2, same",
       {1, 5, 6, 2},
       {.size = {1, 3, 3, 1},
        .strides = {1, 2, 2, 1},
        .padding = {{0, 0}, {1, 1}, {0, 1}, {0, 0}}}},
      {"overlapping", {1, 4, 4, 1}, {.size = {1, 3, 2, 1}}},
      {"stride that skips", {1, 7, 5, 1}, {.size = {1, 2, 1, 1}, .strides = {1, 3, 2, 1}}},
      {"dilated",
       {1, 7, 6, 1},
       {.size = {1, 3, 2, 1}, .strides = {1, 1, 2, 1}, .dilation = {1, 2, 3, 1}}},
      {"padded and dilated",
       {1, 5, 5, 1},
       {.size = {1, 2, 2, 1},
        .dilation = {1, 3, 2, 1},
        .padding = {{0, 0}, {2, 1}, {1, 2}, {0, 0}}}},
      {"negative padding",
       {1, 6, 5, 1},
       {.size = {1, 2, 2, 1},
        .strides = {1, 2, 1, 1},
        .padding = {{0, 0}, {-1, 0}, {-1, -1}, {0, 0}}}},
      {"negative padding of windows of one element",  // XLA aborts the process on it
       {1, 6, 5, 1},
       {.padding = {{0, 0}, {-1, 0}, {-2, -1}, {0, 0}}}},
      {"the whole image", {2, 3, 3, 2}, {.size = {1, 3, 3, 1}}},
      {"every axis", {3, 4, 3}, {.size = {2, 2, 3}, .strides = {1, 2, 1}}},
      {"no window", {2, 3}, {}},
      {"window above the input", {1, 2, 2, 1}, {.size = {1, 3, 3, 1}}},
      {"no images", {0, 4, 4, 1}, {.size = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}}},
  };
}

double Combine(WindowReducer reducer, double a, double b) {
  return reducer == WindowReducer::kSum   ? a + b
         : reducer == WindowReducer::kMax ? std::max(a, b)
                                          : std::min(a, b);
}

// Visits the elements of every window in row-major order: (window index, element index).
void VisitWindows(const Setting& s, const Shape& out,
                  const std::function<void(int64_t, int64_t)>& visit) {
  const int rank = s.input.rank();
  const auto at = [](const std::vector<int64_t>& list, int i) {
    return list.empty() ? 1 : list[i];
  };
  std::vector<int64_t> sizes;
  for (int d = 0; d < rank; ++d) sizes.push_back(at(s.options.size, d));
  const Shape window{absl::MakeConstSpan(sizes)};
  for (int64_t o = 0; o < out.num_elements(); ++o) {
    for (int64_t t = 0; t < window.num_elements(); ++t) {
      int64_t rest_o = o, rest_t = t, element = 0, scale = 1;
      bool inside = true;
      for (int d = rank; d-- > 0;) {
        const int64_t low = s.options.padding.empty() ? 0 : s.options.padding[d].first;
        const int64_t place = rest_o % out.dim(d) * at(s.options.strides, d) +
                              rest_t % window.dim(d) * at(s.options.dilation, d) - low;
        rest_o /= out.dim(d);
        rest_t /= window.dim(d);
        inside = inside && place >= 0 && place < s.input.dim(d);
        element += place * scale;
        scale *= s.input.dim(d);
      }
      if (inside) visit(o, element);
    }
  }
}

TEST(Window, ComputesItsDefinition) {
  Checks checks;
  for (const Setting& s : Settings()) {
    for (WindowReducer reducer : {WindowReducer::kSum, WindowReducer::kMax, WindowReducer::kMin}) {
      const Array x = RandomArray(s.input);
      const Value y = ReduceWindow(checks.Input(x), reducer, s.options);
      ASSERT_TRUE(y.valid()) << s.name << ": " << checks.graph().status();
      const double inf = std::numeric_limits<double>::infinity();
      const double start = reducer == WindowReducer::kSum   ? 0
                           : reducer == WindowReducer::kMax ? -inf
                                                            : inf;
      std::vector<double> want(y.shape().num_elements(), start);
      VisitWindows(s, y.shape(), [&](int64_t window, int64_t element) {
        want[window] = Combine(reducer, want[window], x.data<double>()[element]);
      });
      checks.Expect(s.name, y, Make(DType::kF64, y.shape(), want), 1e-12);
    }
  }
  const Value bytes = checks.Input(Make(DType::kU8, {4}, {1, 200, 3, 4}));
  checks.Expect("bytes", ReduceWindow(bytes, WindowReducer::kMax, {.size = {2}}),
                Make(DType::kU8, {3}, {200, 200, 4}));
  checks.Run();
}

TEST(Window, GradientsMatchFiniteDifferences) {
  GradientChecks checks;
  for (const Setting& s : Settings()) {
    for (WindowReducer reducer : {WindowReducer::kSum, WindowReducer::kMax, WindowReducer::kMin}) {
      const auto function = [&s, reducer](const Values& x) {
        return ReduceWindow(x[0], reducer, s.options);
      };
      checks.Add(s.name, {RandomArray(s.input)}, function);
      if (s.input.num_elements() <= 30) {
        checks.AddSecond(s.name, {RandomArray(s.input, 2)}, [&function](const Values& x) {
          return Tanh(function({x[0] * x[0] * x[0]}));
        });
      }
    }
  }
  checks.Run();
  testing::ExpectAllCovered(WindowOps(), checks.ops());
}

// Few distinct values, so that nearly every window has ties: the first in row-major order wins.
TEST(Window, TiesGiveTheGradientToTheFirst) {
  Checks checks;
  for (const Setting& s : Settings()) {
    std::vector<double> values = testing::Doubles(RandomArray(s.input, 5, 0, 3));
    for (double& v : values) v = std::floor(v);
    const Value x = checks.Input(Make(DType::kF32, s.input, values));
    const Value y = ReduceWindow(x, WindowReducer::kMax, s.options);
    const Array weights = RandomArray(y.shape(), 6, 1, 2, DType::kF32);
    const Value got = Gradients(ReduceSum(y * checks.Input(weights)), {x})[0];
    std::vector<int64_t> winner(y.shape().num_elements(), -1);
    VisitWindows(s, y.shape(), [&](int64_t window, int64_t element) {
      int64_t& best = winner[window];
      if (best < 0 || values[element] > values[best]) best = element;
    });
    std::vector<double> want(s.input.num_elements());
    for (size_t w = 0; w < winner.size(); ++w) {
      if (winner[w] >= 0) want[winner[w]] += weights.data<float>()[w];
    }
    checks.Expect(s.name, got, Make(DType::kF32, s.input, want), 1e-6);
  }
  checks.Run();
}

TEST(Window, ErrorsStateActualAndExpected) {
  struct Wrong {
    WindowOptions options;
    const char* message;
  };
  const Wrong wrongs[] = {
      {{.size = {2, 2}},
       "reduce_window: expects a window, strides and padding for each axis of f32[1,4,4]"},
      {{.size = {1, 2, 0}}, "reduce_window: window, strides and dilation must be above 0"},
  };
  for (const Wrong& wrong : wrongs) {
    Graph graph("wrong");
    const Value x = graph.Parameter({DType::kF32, {1, 4, 4}}, "x");
    EXPECT_FALSE(ReduceWindow(x, WindowReducer::kMax, wrong.options).valid()) << wrong.message;
    EXPECT_THAT(ErrorOf(graph), HasSubstr(wrong.message));
  }
}

}  // namespace window_test
}  // namespace penstock::ir
