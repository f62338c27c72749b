// Variables that layers assign on several replicas: after a step all replicas hold the same value,
// determined by nn::Aggregation, for every type.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace aggregation_test {

using base::DType;
using ir::Value;

// A layer with three counters of one type: steps, which are equal on all replicas; examples, of
// which each replica counts its own; and the first replica's number of examples in the last step.
struct Counting : nn::LayerBody {
  explicit Counting(DType d) : dtype(d) {}
  absl::string_view class_name() const override { return "Counting"; }
  void Fields(nn::Config&) override {}
  nn::Outputs Call(nn::CallContext& ctx, const ir::Values& in) const override {
    const auto variable = [&](const char* name, nn::Aggregation aggregation) {
      return ctx.Variable(
          name, {}, "zeros",
          {.trainable = false, .dtype = dtype, .autocast = false, .aggregation = aggregation});
    };
    const Value steps = variable("steps", nn::Aggregation::kAuto);
    const Value mask = ctx.sample_mask();
    const Value examples =
        mask.valid() ? ir::ReduceSum(mask) : ir::Splat(ctx.graph(), {DType::kF32, {}}, 2);
    if (dtype == DType::kBool) {
      if (ctx.training()) ctx.Assign("steps", ir::Not(steps));
      return in[0];
    }
    const Value seen = variable("seen", nn::Aggregation::kSum);
    variable("first", nn::Aggregation::kOnlyFirstReplica);
    if (!ctx.training()) return in[0];
    ctx.Assign("steps", steps + 1.0);
    ctx.Assign("seen", seen + ir::Convert(examples, dtype));
    ctx.Assign("first", ir::Convert(examples, dtype));
    return in[0];
  }
  DType dtype;
};

nn::Network Net(DType dtype) {
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  const nn::Symbol y = nn::CustomLayer(std::make_shared<Counting>(dtype), {.name = "count"})(x);
  return nn::Network({x}, {nn::Dense({.units = 3})(y)});
}

// Weights after 5 steps of 8 examples, the last one of 4 examples.
absl::StatusOr<NamedArrays> Counted(DType dtype, int replicas) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto trainer,
                            testing::SmallTrainer({.network = Net(dtype), .replicas = replicas}));
  const data::Dataset points = data::Dataset::FromArrays(testing::Points(36)).Batch(8);
  PENSTOCK_RETURN_IF_ERROR(trainer->Fit(points, {.epochs = 1}).status());
  return trainer->Weights();
}

double Number(const NamedArrays& weights, const std::string& name) {
  const Array* array = weights.Find("count/" + name);
  if (array == nullptr) return -1;
  return array->Cast(DType::kF64)->data<double>()[0];
}

class AggregationOf : public ::testing::TestWithParam<DType> {};

TEST_P(AggregationOf, IsEqualOnOneAndFourReplicas) {
  for (const int replicas : {1, 4}) {
    const auto weights = Counted(GetParam(), replicas);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(Number(*weights, "steps"), GetParam() == DType::kBool ? 1 : 5) << replicas;
    if (GetParam() == DType::kBool) continue;
    EXPECT_EQ(Number(*weights, "seen"), 36) << replicas;
    // The last batch has four examples and four rows of padding; the first of four replicas gets
    // two examples.
    EXPECT_EQ(Number(*weights, "first"), replicas == 1 ? 4 : 2) << replicas;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryType, AggregationOf,
                         ::testing::Values(DType::kBool, DType::kI8, DType::kI16, DType::kI32,
                                           DType::kI64, DType::kU8, DType::kU16, DType::kU32,
                                           DType::kU64, DType::kF16, DType::kBF16, DType::kF32,
                                           DType::kF64),
                         [](const auto& info) { return std::string(base::DTypeName(info.param)); });

}  // namespace aggregation_test
}  // namespace penstock::train
