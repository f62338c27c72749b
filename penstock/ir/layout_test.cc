#include "penstock/ir/layout.h"

#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <gtest/gtest.h>

#include "penstock/base/testing/small_stack.h"
#include "penstock/ir/gradients.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/testing/checks.h"
#include "penstock/ir/testing/run.h"

namespace penstock::ir::layout_test {

using testing::RandomArray;

ConvolutionOptions Nchw(int64_t stride, int64_t padding, int64_t groups = 1) {
  return {.strides = {stride, stride},
          .padding = {{padding, padding}, {padding, padding}},
          .feature_group_count = groups,
          .dimensions = {.input_batch = 0,
                         .input_feature = 1,
                         .input_spatial = {2, 3},
                         .kernel_input_feature = 1,
                         .kernel_output_feature = 0,
                         .kernel_spatial = {2, 3},
                         .output_batch = 0,
                         .output_feature = 1,
                         .output_spatial = {2, 3}}};
}

// A graph under test with its arguments.
class Program {
 public:
  Value Input(const Shape& shape, uint64_t seed) {
    arguments_.push_back(RandomArray(shape, seed, -2, 2, DType::kF32));
    return graph_.Parameter({DType::kF32, shape}, absl::StrCat("p", arguments_.size()));
  }

  Graph& graph() { return graph_; }
  const std::vector<Array>& arguments() const { return arguments_; }

  // Computes the results with and without the pass and compares them.
  void ExpectSame(const Values& results, double tolerance = 1e-4) {
    graph_.SetResults(results);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    const auto last = ChannelsLast(graph_);
    ASSERT_TRUE(last->status().ok()) << last->status();
    const auto want = testing::Run(graph_, arguments_), got = testing::Run(*last, arguments_);
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(want->size(), got->size());
    for (size_t i = 0; i < want->size(); ++i) {
      ASSERT_EQ((*want)[i].TypeString(), (*got)[i].TypeString());
      const auto a = testing::Doubles((*want)[i]), b = testing::Doubles((*got)[i]);
      for (size_t k = 0; k < a.size(); ++k) {
        ASSERT_NEAR(a[k], b[k], tolerance * std::max(1.0, std::abs(a[k])))
            << "result " << i << ", element " << k;
      }
    }
  }

  // Lines of the printed pass with stablehlo.transpose of values of at least `elements`.
  std::vector<std::string> Transposes(int64_t elements) {
    std::vector<std::string> lines;
    const auto last = ChannelsLast(graph_);
    for (int id = 0; id < last->num_nodes(); ++id) {
      const Node& node = last->node(id);
      if (absl::string_view(node.op->name) != "stablehlo.transpose") continue;
      if (node.results[0].shape.num_elements() < elements) continue;
      lines.push_back(node.results[0].ToString());
    }
    return lines;
  }

 private:
  Graph graph_{"test"};
  std::vector<Array> arguments_;
};

// Convolution, batch normalization, relu.
Value Block(Program& program, Value x, int64_t filters, int64_t stride, Values& weights) {
  const Value w = program.Input({filters, x.shape().dim(1), 3, 3}, weights.size() + 5),
              scale = program.Input({filters}, weights.size() + 6),
              offset = program.Input({filters}, weights.size() + 7);
  weights.insert(weights.end(), {w, scale, offset});
  const Value y = Convolution(x, w, Nchw(stride, 1));
  return BatchNormTraining(y, scale, offset, Value(), {.axis = 1}).y;
}

// A residual network in NCHW whose activations have at least 2048 elements, its weights fewer.
Value ResNet(Program& program, Value x, Values& weights) {
  Value h = Relu(Block(program, x, 8, 1, weights));
  h = Relu(Block(program, Relu(Block(program, h, 8, 1, weights)), 8, 1, weights) + h);
  h = ReduceWindow(
      h, WindowReducer::kMax,
      {.size = {1, 1, 3, 3}, .strides = {1, 1, 2, 2}, .padding = {{0, 0}, {0, 0}, {1, 1}, {1, 1}}});
  const Value bias = program.Input({16}, 99);
  weights.push_back(bias);
  h = Block(program, h, 16, 1, weights) + Reshape(bias, {1, 16, 1, 1});
  const Value pooled = ReduceMean(h * Sigmoid(h), {2, 3}, /*keep_dims=*/true);
  const Value head = program.Input({16, 3}, 98);
  weights.push_back(head);
  return MatMul(Reshape(pooled, {x.shape().dim(0), 16}), head);
}

TEST(LayoutTest, ResNetStepHasOneTransposeOfAnActivation) {
  Program program;
  const Value x = program.Input({4, 3, 16, 16}, 1);
  Values weights;
  const Value logits = ResNet(program, x, weights);
  const Value loss = ReduceMean(Square(LogSoftmax(logits)));
  Values results{loss};
  for (const Value& g : Gradients(loss, weights)) results.push_back(g);
  for (size_t i = 0; i < weights.size(); ++i) {
    results.push_back(weights[i] - 0.1 * results[i + 1]);  // as an optimizer
  }
  program.ExpectSame(results, 2e-3);
  // The input, 3072 elements. A kernel has at most 16 * 8 * 9 = 1152.
  EXPECT_EQ(program.Transposes(2000), std::vector<std::string>{"f32[4,16,16,3]"});
}

TEST(LayoutTest, FlattenTransposesOnce) {
  Program program;
  const Value x = program.Input({4, 3, 16, 16}, 1);
  Values weights;
  const Value h = Relu(Block(program, x, 8, 1, weights));
  const Value head = program.Input({8 * 16 * 16, 2}, 77);
  const Value loss = ReduceSum(Square(MatMul(Reshape(h, {4, -1}), head)));
  Values results{loss};
  for (const Value& g : Gradients(loss, {weights[0], weights[1], head})) results.push_back(g);
  program.ExpectSame(results, 1e-2);
  // The input, the flattened features, and their gradient.
  EXPECT_EQ(program.Transposes(3000).size(), 3u);
}

TEST(LayoutTest, EveryMovableOperation) {
  Program program;
  const Value x = program.Input({2, 3, 6, 5}, 1), w = program.Input({4, 3, 3, 3}, 2),
              y = Convolution(x, w, Nchw(1, 1)), v = program.Input({4}, 3);
  const Value per_channel = BroadcastInDim(v, y.shape(), {1});
  const Value mask = program.Input({2, 1, 6, 5}, 4), other = program.Input({2, 4, 6, 5}, 5);
  const Value positions = Iota(program.graph(), {DType::kF32, y.shape()}, 3);
  Values results;
  results.push_back(y + per_channel * positions);
  results.push_back(Select(Greater(y, SplatLike(y, 0.5)), y, other));
  results.push_back(y * mask);
  results.push_back(Pad(y, 7, {{0, 1}, {1, 0}, {-1, 2, 1}, {0, 0}}));
  results.push_back(Slice(y, {0, 1, 2, 0}, {2, 3, 6, 5}, {1, 1, 2, 3}));
  results.push_back(Reverse(y, {1, 3}));
  results.push_back(Concatenate({y, other, Exp(y)}, 1));
  results.push_back(Concatenate({y, y}, 3));
  results.push_back(ReduceMax(y, {1}));
  results.push_back(ReduceSum(y, {0, 3}, /*keep_dims=*/true));
  results.push_back(ReduceMean(y));
  results.push_back(ReduceWindow(y, WindowReducer::kSum, {.size = {1, 1, 2, 3}}));
  results.push_back(Transpose(Tanh(y), {3, 1, 0, 2}));
  results.push_back(Reshape(y, {2, 2, 2, 30}));
  results.push_back(Convert(Convert(y, DType::kF64), DType::kF32));
  results.push_back(StopGradient(y) * 2);
  results.push_back(CumSum(y, 2));
  results.push_back(OptimizationBarrier({y, v})[0]);
  results.push_back(BatchNormTraining(Transpose(y, {1, 0, 3, 2}), Value(), Value(), Value()).y);
  const Value deconvolution = ConvolutionTranspose(y, w, {2, 3, 6, 5}, Nchw(1, 1));
  results.push_back(deconvolution);
  const Value grouped = Convolution(y, program.Input({6, 2, 1, 2}, 8), Nchw(2, 0, 2));
  results.push_back(grouped);
  const Value loss = ReduceSum(Square(grouped)) + ReduceSum(Sin(deconvolution)) +
                     ReduceSum(ReduceWindow(y, WindowReducer::kMax, {.size = {1, 1, 2, 2}}));
  const Values gradients = Gradients(loss, {x, w});
  results.insert(results.end(), gradients.begin(), gradients.end());
  const Value again = ReduceSum(Square(gradients[1]));
  results.push_back(Gradients(again, {x})[0]);
  program.ExpectSame(results, 2e-3);
}

TEST(LayoutTest, LeavesOtherGraphsAlone) {
  Program program;
  const Value x = program.Input({4, 6}, 1), w = program.Input({6, 2}, 2);
  const Values loop = For(3, {x}, [](Graph&, Value, const Values& s) -> Values {
    return {Tanh(s[0]) + Transpose(Transpose(s[0], {1, 0}), {1, 0})};
  });
  program.ExpectSame({MatMul(Transpose(Transpose(loop[0], {1, 0}), {1, 0}), w), x, x});
  EXPECT_TRUE(program.Transposes(0).empty());
}

// Random chains of operations in random layouts.
TEST(LayoutTest, RandomGraphs) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % n); };
    Program program;
    Values values{program.Input({2, 4, 4, 4}, seed), program.Input({2, 4, 4, 4}, seed + 50)};
    for (int step = 0; step < 14; ++step) {
      const Value a = values[pick(static_cast<int>(values.size()))],
                  b = values[pick(static_cast<int>(values.size()))];
      Value next;
      const Shape& shape = a.shape();
      switch (pick(16)) {
        case 0: {
          next =
              Convolution(a, program.Input({4, a.shape().dim(1), 1, 1}, seed + step), Nchw(1, 0));
          break;
        }
        case 1: {
          Axes order{0, 1, 2, 3};
          std::shuffle(order.begin(), order.end(), random);
          next = Transpose(a, order);
          break;
        }
        case 2:
          next = a.shape() == b.shape() ? a * 0.5 + b : Tanh(a);
          break;
        case 3:
          next = a - ReduceMean(a, {pick(4)}, /*keep_dims=*/true);
          break;
        case 4:
          next = Relu(a) + BroadcastInDim(program.Input({a.shape().dim(2)}, step), a.shape(), {2});
          break;
        case 5:
          next = Pad(SliceAxis(a, pick(4), 0, 2), 0, {{0, 0}, {0, 0}, {0, 0}, {0, 0}});
          break;
        case 6:
          next = Concatenate({a, a}, pick(4));
          break;
        // Through other numbers of axes.
        case 7: {
          std::vector<int64_t> extents(shape.begin(), shape.end());
          const int axis = pick(5);
          extents.insert(extents.begin() + axis, 3);
          const Shape longer(extents);
          Axes kept;
          for (int i = 0; i < 5; ++i) {
            if (i != axis) kept.push_back(i);
          }
          const Value more = pick(2) == 0 ? program.Input(longer, seed + step)
                                          : Splat(program.graph(), {DType::kF32, longer}, 0.5);
          const Value sum = pick(2) == 0 ? BroadcastInDim(a, longer, kept) * more : more;
          next = pick(2) == 0 ? ReduceSum(sum, {pick(5)}) : ReduceMax(sum, {pick(5)});
          break;
        }
        case 8: {
          const int axis = pick(4);
          const Value row = ReduceSum(a, {axis});
          Axes kept;
          for (int i = 0; i < 4; ++i) {
            if (i != axis) kept.push_back(i);
          }
          next = BroadcastInDim(row, shape, kept) + a;
          break;
        }
        case 9:
          next = Reverse(a, {pick(4)});
          break;
        case 10:
          next = Softmax(a, pick(4));
          break;
        case 11:
          next = Select(Greater(a, SplatLike(a, 0.25)), a, SplatLike(a, 0.25));
          break;
        case 12:
          next = Reshape(Tanh(Reshape(a, {shape.dim(0) * shape.dim(1), -1})), shape);
          break;
        case 13: {
          const Value at = Splat(program.graph(), {DType::kI32, {}}, pick(2));
          std::vector<int64_t> sizes(shape.begin(), shape.end());
          sizes[pick(4)] = 1;
          next = DynamicUpdateSlice(a, Tanh(DynamicSlice(a, {at, at, at, at}, sizes)),
                                    {at, at, at, at});
          break;
        }
        case 14:
          next = ConvolutionTranspose(a, program.Input({shape.dim(1), 2, 1, 1}, seed + step),
                                      {shape.dim(0), 2, shape.dim(2), shape.dim(3)}, Nchw(1, 0));
          break;
        default:
          next = ReduceWindow(a, WindowReducer::kMax,
                              {.size = {1, 1, 2, 2}, .padding = {{0, 0}, {0, 0}, {1, 0}, {0, 1}}});
      }
      if (next.shape().num_elements() <= 4096) values.push_back(next);
    }
    Value loss = ReduceSum(Sin(values.back()));
    for (const Value& v : values) loss = loss + ReduceMean(Tanh(v));
    Values results = values;
    for (const Value& g : Gradients(loss, {values[0], values[1]})) results.push_back(g);
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    program.ExpectSame(results, 2e-3);
  }
}

// The optimizer computes in the order of the parameter, and a kernel may write the gradient in it.
TEST(LayoutTest, KernelGradientsHaveTheOrderOfTheKernel) {
  Program program;
  const Value x = program.Input({2, 16, 8, 8}, 1), w = program.Input({8, 16, 3, 3}, 2);
  const Value y = Convolution(x, w, Nchw(1, 1));
  const Value gradient = Gradients(y, {w}, program.Input(y.shape(), 3))[0];
  const Values results{ReduceSum(Square(gradient)), w - gradient * 0.1};
  program.ExpectSame(results);
  const auto last = ChannelsLast(program.graph());
  int transposed = 0;
  for (int id = 0; id < last->num_nodes(); ++id) {
    for (const Value& operand : last->node(id).operands) {
      if (OpName(operand.node()) != "penstock.convolution_kernel_gradient") continue;
      EXPECT_EQ(OpName(last->node(id)), "stablehlo.transpose");
      ++transposed;
    }
  }
  EXPECT_EQ(transposed, 1);
}

// Broadcasts are made where they are read: not by recursion over a chain of any length.
TEST(LayoutTest, TakesALongChainOfBroadcasts) {
  Graph graph("chain");
  Value x = graph.Parameter({DType::kF32, {2}}, "x");
  for (int i = 0; i < 20000; ++i) x = BroadcastInDim(x, {2}, {0});
  graph.SetResults({x + 1});
  base::OnSmallStack([&] {
    const auto last = ChannelsLast(graph);
    EXPECT_TRUE(last->status().ok()) << last->status();
    EXPECT_EQ(last->results()[0].type(), graph.results()[0].type());
  });
}

TEST(LayoutTest, ReducesABroadcastForAConvolution) {
  Program program;
  const Value x = program.Input({2, 3, 6, 5}, 1), w = program.Input({4, 3, 3, 3}, 2),
              z = program.Input({3, 2, 4, 6, 5}, 3), v = program.Input({3}, 4);
  // The gradient of the sum is a broadcast, and that of the convolution its sum over axis 0.
  const Value loss = ReduceSum(Convolution(x, w, Nchw(1, 1)) + z);
  Values results{loss};
  for (const Value& g : Gradients(loss, {x, w})) results.push_back(g);
  results.push_back(
      Convolution(ReduceSum(BroadcastInDim(v, {2, 3, 6, 5, 4}, {1}), {4}), w, Nchw(1, 1)));
  program.ExpectSame(results, 2e-3);
}

}  // namespace penstock::ir::layout_test
