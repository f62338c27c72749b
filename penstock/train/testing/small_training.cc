#include "penstock/train/testing/small_training.h"

#include <cmath>

#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/nn/layers.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::train::testing {

base::NamedArrays Points(int64_t rows, uint64_t seed) {
  constexpr double kDirections[3][4] = {{1, 0, 1, -1}, {-1, 1, 0, 1}, {0, -1, -1, 0}};
  base::Random random(seed);
  Array x = Array::Uninitialized(DType::kF32, {rows, 4}),
        y = Array::Uninitialized(DType::kI64, {rows});
  for (int64_t i = 0; i < rows; ++i) {
    double best = -1e9;
    float* point = x.mutable_data<float>() + 4 * i;
    for (int j = 0; j < 4; ++j) point[j] = static_cast<float>(2 * random.Uniform() - 1);
    for (int c = 0; c < 3; ++c) {
      double along = 0;
      for (int j = 0; j < 4; ++j) along += kDirections[c][j] * point[j];
      if (along > best) {
        best = along;
        y.mutable_data<int64_t>()[i] = c;
      }
    }
  }
  return {{"x", x}, {"y", y}};
}

absl::Status NegateX(const base::NamedArrays& in, base::NamedArrays* out) {
  base::Array negated = in.Find("x")->Clone();
  for (int64_t i = 0; i < negated.num_elements(); ++i) negated.mutable_data<float>()[i] *= -1;
  out->Set("x", negated);
  return absl::OkStatus();
}

data::Dataset CachedPoints(const std::string& where, int64_t rows, std::atomic<int>* calls) {
  const auto negate = [calls](const base::NamedArrays& in, base::NamedArrays* out) {
    if (calls != nullptr) ++*calls;
    return NegateX(in, out);
  };
  return data::Dataset::FromArrays(Points(rows))
      .Shuffle(16)
      .Map(negate, {.name = "negate", .reads = {"x"}})
      .Cache(where)
      .Shuffle(32)
      .Batch(8);
}

nn::Network SmallNet(double dropout, bool batch_norm) {
  const nn::Symbol x = nn::Input({.shape = {4}, .name = "x"});
  nn::Symbol h = nn::Dense({.units = 8, .activation = "tanh", .name = "hidden"})(x);
  if (batch_norm) h = nn::BatchNormalization({.momentum = 0.9, .name = "norm"})(h);
  if (dropout > 0) h = nn::Dropout({.rate = dropout})(h);
  return nn::Network({x}, {nn::Dense({.units = 3, .name = "logits"})(h)});
}

absl::StatusOr<std::unique_ptr<Trainer>> SmallTrainer(const SmallOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(
      Strategy strategy,
      Strategy::Create(options.client ? options.client : runtime::TestClient(options.replicas),
                       {.replicas = options.replicas}));
  return Trainer::Create(
      {.objective = {.network = options.network,
                     .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true}),
                                  .metrics = {nn::Accuracy()}}},
                     .optimizer = options.optimizer},
       .strategy = std::move(strategy),
       .columns = {.inputs = {"x"}, .labels = {"y"}},
       .steps_per_execution = options.steps_per_execution,
       .seed = options.seed,
       .clock = options.clock});
}

absl::Status FitError(std::vector<std::shared_ptr<Callback>> callbacks, FitOptions options,
                      nn::Optimizer optimizer) {
  auto trainer = Trainer::Create(
      {.objective = {.network = SmallNet(),
                     .targets = {{.loss = nn::SparseCategoricalCrossentropy({.from_logits = true}),
                                  .metrics = {nn::Accuracy().Named("loss_like"), nn::Mean()}}},
                     .optimizer = std::move(optimizer)},
       .strategy = *Strategy::Create(runtime::TestClient(1), {})});
  if (!trainer.ok()) return trainer.status();
  options.callbacks = std::move(callbacks);
  return (*trainer)->Fit(data::Dataset::FromArrays(Points(16)).Batch(8), options).status();
}

int64_t ChangingBytes(const StateLayout& layout, bool halt_on_nan) {
  int64_t bytes = 0;
  for (int i = 0; i < layout.size(); ++i) {
    if (i == layout.learning_rate || i == layout.key) continue;
    if (i == layout.halted && !halt_on_nan) continue;
    const ir::TensorType& type = layout.entries[i].type;
    bytes += type.shape.num_elements() * base::ByteWidth(type.dtype);
  }
  return bytes;
}

double LargestDifference(const base::NamedArrays& a, const base::NamedArrays& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (const auto& [name, array] : a) {
    const Array* other = b.Find(name);
    if (other == nullptr || !(other->shape() == array.shape())) {
      ADD_FAILURE() << name << " is missing or has another shape";
      continue;
    }
    double largest = 1e-12, difference = 0;
    for (int64_t i = 0; i < array.num_elements(); ++i) {
      const double x = array.data<float>()[i], y = other->data<float>()[i];
      largest = std::max(largest, std::abs(x));
      difference = std::max(difference, std::abs(x - y));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

}  // namespace penstock::train::testing
