// Batch normalization in training mode, as composites: CPUs have kernels for it.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {
namespace {

// Statistics of 16-bit floats are computed in float32.
DType StatisticType(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

// Operands in the type of the statistics, and values shared by both directions.
struct NormParts {
  NormParts(const Node& node, const Values& in)
      : axis(static_cast<int>(node.attributes.Get<int64_t>("axis"))),
        x(Convert(in[0], StatisticType(in[0].dtype()))),
        scale(in[1]),
        per_feature(std::vector<int64_t>(x.rank(), 1)) {
    per_feature.set_dim(axis, x.shape().dim(axis));
    count = 1;
    for (int i = 0; i < x.rank(); ++i) {
      if (i == axis) continue;
      others.push_back(i);
      if (i > 0) count *= static_cast<double>(x.shape().dim(i));
    }
  }

  Value Spread(Value vector) const { return Reshape(vector, per_feature); }
  Value Centered(Value mean) const { return x - Spread(mean); }
  // Values weighted for a mean: each example by 1 or its mask, divided by the number of elements
  // that count.
  Value Weighted(Value value, Value mask) const {
    if (!mask.valid()) return value / (count * static_cast<double>(x.shape().dim(0)));
    // Avoids a division by zero if no example counts.
    const Value sum = ReduceSum(mask);
    const Value weight = mask / (Maximum(sum, SplatLike(sum, 1)) * count);
    Shape per_example(std::vector<int64_t>(x.rank(), 1));
    per_example.set_dim(0, x.shape().dim(0));
    return value * Reshape(weight, per_example);
  }
  Value Sum(Value value) const { return ReduceSum(value, others); }

  int axis;
  Value x, scale;
  Shape per_feature;
  Axes others;
  double count;  // elements of one example per feature
};

double EpsilonOf(const Node& node) { return node.attributes.Get<double>("epsilon"); }

// Operands: x, scale, offset, and optionally a mask. Results: y, mean, variance.
Values DecomposeForward(Graph&, const Node& node, const Values& in) {
  const NormParts p(node, in);
  const Value mask = in.size() > 3 ? StopGradient(in[3]) : Value();
  const auto mean_of = [&](Value value) {
    // Without a mask, the sum is divided, which is cheaper than dividing every element.
    if (!mask.valid()) return ReduceMean(value, p.others);
    return p.Sum(p.Weighted(value, mask));
  };
  // The variance as in flax and Keras: both sums in one pass over x, which a compiler can fuse into
  // x's producer. Loses accuracy if the mean is far larger than the spread.
  const Value mean = mean_of(p.x), difference = mean_of(Square(p.x)) - Square(mean);
  const Value variance = Maximum(difference, SplatLike(difference, 0));
  // x * scale + shift: two operations per element, the rest is per feature.
  const Value scale = Rsqrt(variance + EpsilonOf(node)) * p.scale;
  const Value shift = in[2] - mean * scale;
  const Value y = p.x * p.Spread(scale) + p.Spread(shift);
  return {Convert(y, in[0].dtype()), mean, variance};
}

// Operands: x, scale, mean, variance, the cotangent of y, and optionally a mask. Results: the
// gradients of x, scale and offset, where mean and variance are those of x.
Values DecomposeBackward(Graph&, const Node& node, const Values& in) {
  const NormParts p(node, in);
  const Value mask = in.size() > 5 ? StopGradient(in[5]) : Value();
  const Value cotangent = Convert(in[4], p.x.dtype());
  const Value inverse = Rsqrt(in[3] + EpsilonOf(node));
  const Value normalized = p.Centered(in[2]) * p.Spread(inverse);
  const Value of_offset = p.Sum(cotangent), of_scale = p.Sum(cotangent * normalized);
  const Value common = p.Spread(of_offset) + normalized * p.Spread(of_scale);
  const Value of_x = (cotangent - p.Weighted(common, mask)) * p.Spread(inverse * p.scale);
  return {Convert(of_x, in[0].dtype()), of_scale, of_offset};
}

const OpDef kBatchNormGradient = {.name = "penstock.batch_norm_gradient",
                                  .infer = InferByDecomposing,
                                  .gradient = GradientByDecomposing,
                                  .decompose = DecomposeBackward};

Values BatchNormGradient(const GradientArgs& g) {
  const Value x = g.operand(0), scale = g.operand(1), mean = g.results[1], variance = g.results[2];
  const Value mask = g.node.operands.size() > 3 ? g.operand(3) : Value();
  const Value cotangent = g.cotangents[0].valid() ? g.cotangents[0] : SplatLike(x, 0);
  Values operands{x, scale, mean, variance, cotangent};
  if (mask.valid()) operands.push_back(mask);
  Values out = x.graph()->Emit(kBatchNormGradient, operands, g.node.attributes);
  if (out.empty()) return Values(g.node.operands.size());
  // Cotangents of the statistics, which are usually zero.
  const NormParts p(g.node, g.node.operands);
  const Value of_mean = g.cotangents[1], of_variance = g.cotangents[2];
  Value direct;
  if (of_mean.valid()) direct = BroadcastTo(p.Spread(of_mean), x.shape());
  if (of_variance.valid()) {
    const Value through = 2.0 * p.Centered(mean) * p.Spread(of_variance);
    direct = direct.valid() ? direct + through : through;
  }
  if (direct.valid()) out[0] = out[0] + Convert(p.Weighted(direct, mask), x.dtype());
  if (mask.valid()) out.push_back(Value());
  return out;
}

const OpDef kBatchNorm = {.name = "penstock.batch_norm_training",
                          .infer = InferByDecomposing,
                          .gradient = BatchNormGradient,
                          .decompose = DecomposeForward};

}  // namespace

BatchNormResult BatchNormTraining(Value x, Value scale, Value offset, Value mask,
                                  const BatchNormOptions& options) {
  if (!x.valid()) return {};
  int64_t axis = options.axis;
  if (!NormalizeAxis(x, axis, "batch_norm_training")) return {};
  Graph& graph = *x.graph();
  const DType type = StatisticType(x.dtype());
  const int64_t features = x.shape().dim(static_cast<int>(axis));
  const TensorType per_feature{type, {features}};
  const auto vector = [&](Value given, double otherwise) {
    return given.valid() ? Convert(given, type) : Splat(graph, per_feature, otherwise);
  };
  Values operands{x, vector(scale, 1), vector(offset, 0)};
  const auto wrong = [&](absl::string_view message) {
    graph.Fail(absl::InvalidArgumentError(
        absl::StrCat("batch_norm_training: ", message, "; x is ", x.type().ToString())));
    return BatchNormResult();
  };
  if (axis == 0 || !base::IsFloat(x.dtype()))
    return wrong("expects floats, and features on an axis after the first");
  for (int i : {1, 2}) {
    if (!operands[i].valid()) return {};
    if (!(operands[i].shape() == per_feature.shape))
      return wrong(absl::StrCat("scale and offset have one element per feature, got ",
                                operands[i].type().ToString()));
  }
  if (mask.valid()) {
    if (!(mask.shape() == Shape{x.shape().dim(0)}))
      return wrong(absl::StrCat("mask has one element per example, got ", mask.type().ToString()));
    operands.push_back(Convert(mask, type));
  }
  const Values out =
      graph.Emit(kBatchNorm, operands, {{"axis", axis}, {"epsilon", options.epsilon}});
  return out.empty() ? BatchNormResult() : BatchNormResult{out[0], out[1], out[2]};
}

OpList NormalizationOps() {
  static constexpr const OpDef* kOps[] = {&kBatchNorm, &kBatchNormGradient};
  return kOps;
}

}  // namespace penstock::ir
