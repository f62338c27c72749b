// Networks in PyTorch's NCHW are computed channels-last, without transposing activations.
#include "penstock/ir/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ir/rewrite.h"
#include "penstock/lazy/functional.h"
#include "penstock/lazy/ops.h"
#include "penstock/lazy/testing/tensors.h"
#include "penstock/lazy/trace.h"

namespace penstock::lazy::layout_test {

namespace F = nn::functional;
using ::testing::ElementsAre;

Tensor Normal(const Shape& shape, uint64_t seed, bool requires_grad) {
  std::vector<float> values(static_cast<size_t>(shape.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    values[i] = static_cast<float>(seed >> 40) / (1 << 24) - 0.5f;
  }
  return test::Make(shape, values, requires_grad);
}

// Transposes in the program of these tensors, of activations: more than 2000 elements.
std::vector<std::string> TransposedActivations(const Tensors& results) {
  Trace& trace = Recorder::OfThread().TraceOf(test::TestDevice());
  ir::Values values;
  for (const Tensor& result : results) values.push_back(trace.Plain(*result.impl()));
  trace.graph().SetResults(values);
  const auto graph = ir::ChannelsLast(trace.graph());
  EXPECT_TRUE(graph->status().ok()) << graph->status();
  std::vector<std::string> found;
  for (int id = 0; id < graph->num_nodes(); ++id) {
    const ir::Node& node = graph->node(id);
    if (ir::OpName(node) != "stablehlo.transpose") continue;
    if (node.results[0].shape.num_elements() > 2000) found.push_back(node.results[0].ToString());
  }
  return found;
}

TEST(LayoutTest, OnlyTheInputIsTransposed) {
  const Tensor x = Normal({4, 3, 16, 16}, 1, false);
  Tensors weights, running;
  const auto block = [&](const Tensor& in, int64_t channels) {
    const auto seed = weights.size() + 2;
    weights.push_back(Normal({channels, in.size(1), 3, 3}, seed, true));
    weights.push_back(Normal({channels}, seed + 1, true));
    weights.push_back(Normal({channels}, seed + 2, true));
    running.push_back(Normal({channels}, seed + 3, false));
    running.push_back(Normal({channels}, seed + 4, false));
    const size_t n = weights.size();
    return F::batch_norm(F::conv2d(in, weights[n - 3], Tensor(), {.padding = 1}),
                         running[running.size() - 2], running.back(),
                         {.weight = weights[n - 2], .bias = weights[n - 1], .training = true});
  };
  Tensor h = F::relu(block(x, 8));
  h = F::relu(block(F::relu(block(h, 8)), 8) + h);
  h = F::max_pool2d(h, 2, {});
  h = F::avg_pool2d(block(h, 16), 2, {});
  const Tensor logits = F::linear(flatten(mean(h, {2, 3}, true), 1), Normal({10, 16}, 77, true));
  sum(logits * logits).backward();
  Tensors results{logits};
  for (const Tensor& w : weights) results.push_back(w.grad());
  for (const Tensor& r : running) results.push_back(r);
  EXPECT_THAT(TransposedActivations(results), ElementsAre("f32[4,16,16,3]"));
}

}  // namespace penstock::lazy::layout_test
