// The same network, initial values and batches in a session and in Keras's front end: ten steps
// have equal results, bit for bit.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/layers.h"
#include "penstock/session/losses.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/train/optimizer.h"

namespace penstock::session {
namespace keras_steps_test {

// A batch that is no power of 2: its mean has no exact reciprocal.
constexpr int64_t kSteps = 10, kBatch = 10, kSize = 6, kClasses = 3;
constexpr uint64_t kSeed = 11;

Array RandomNumbers(const Shape& shape, uint64_t seed) {
  base::Random random(seed);
  Array out = Array::Uninitialized(DType::kF32, shape);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    out.mutable_data<float>()[i] = static_cast<float>(2 * random.Uniform() - 1);
  }
  return out;
}

Array RandomClasses(int64_t rows) {
  base::Random random(3);
  Array out = Array::Uninitialized(DType::kI64, {rows});
  for (int64_t i = 0; i < rows; ++i) {
    out.mutable_data<int64_t>()[i] = static_cast<int64_t>(random.Uniform() * kClasses);
  }
  return out;
}

// A training: what both front ends are given.
struct Training {
  std::string name;
  keras::Symbol (*network)(const keras::Symbol& x);
  bool regression = false;
  std::optional<::penstock::nn::Optimizer> optimizer = {};
  std::function<std::unique_ptr<train::Optimizer>()> session_optimizer = nullptr;
};

keras::Symbol Perceptron(const keras::Symbol& x) {
  return keras::Dense({.units = kClasses})(
      keras::Dense({.units = 7, .activation = "tanh"})(keras::Flatten()(x)));
}

keras::Symbol Convolutional(const keras::Symbol& x) {
  keras::Symbol h = keras::Conv2D({.filters = 4, .kernel_size = 3, .padding = "same"})(x);
  h = keras::Activation({.activation = "relu"})(keras::BatchNormalization()(h));
  return keras::Dense({.units = kClasses})(keras::Flatten()(keras::MaxPooling2D()(h)));
}

Array Images() { return RandomNumbers({kSteps * kBatch, kSize, kSize, 1}, 1); }
Array Targets(bool regression) {
  return regression ? RandomNumbers({kSteps * kBatch, kClasses}, 2)
                    : RandomClasses(kSteps * kBatch);
}

::penstock::nn::Network NetworkOf(const Training& training) {
  const keras::Symbol x = keras::Input({.shape = {kSize, kSize, 1}});
  return ::penstock::nn::Network({x}, {training.network(x)});
}

base::NamedArrays TrainWithKeras(const Training& training) {
  const keras::Symbol x = keras::Input({.shape = {kSize, kSize, 1}});
  keras::Model model({x}, {training.network(x)});
  const keras::Loss loss = training.regression
                               ? keras::MeanSquaredError()
                               : keras::SparseCategoricalCrossentropy({.from_logits = true});
  EXPECT_EQ(model.Compile(
                {.optimizer = *training.optimizer, .loss = loss, .client = runtime::TestClient(1)}),
            absl::OkStatus());
  EXPECT_EQ(model.SetWeights(*NetworkOf(training).Initialize(kSeed)), absl::OkStatus());
  const auto dataset =
      data::Dataset::FromArrays({{"x", Images()}, {"y", Targets(training.regression)}})
          .Batch(kBatch);
  const auto fitted = model.Fit(dataset, {.epochs = 1, .verbose = 0});
  EXPECT_TRUE(fitted.ok()) << fitted.status();
  return *model.GetWeights();
}

base::NamedArrays TrainInSession(const Training& training) {
  Graph graph;
  const auto scope = graph.AsDefault();
  graph.SetRandomSeed(kSeed);
  const Tensor x = Placeholder(DType::kF32, {-1, kSize, kSize, 1}, "x");
  const Tensor y = training.regression ? Placeholder(DType::kF32, {-1, kClasses}, "y")
                                       : Placeholder(DType::kI64, {-1}, "y");
  const ::penstock::nn::Network network = NetworkOf(training);
  const Tensor logits = layers::Apply(network, {x}, {.training = true})[0];
  const Tensor loss = training.regression ? losses::MeanSquaredError(y, logits)
                                          : losses::SparseSoftmaxCrossEntropy(y, logits);
  Operation step;
  {
    const ControlDependencies after(graph.GetCollectionOperations(graph_keys::kUpdateOps));
    const auto optimizer = training.session_optimizer != nullptr
                               ? training.session_optimizer()
                               : std::make_unique<train::Optimizer>(*training.optimizer);
    step = optimizer->Minimize(loss);
  }
  EXPECT_EQ(graph.status(), absl::OkStatus());
  Session session("", {.client = runtime::TestClient(1)});
  EXPECT_EQ(session.Run(GlobalVariablesInitializer()), absl::OkStatus());
  const Array images = Images(), targets = Targets(training.regression);
  for (int64_t i = 0; i < kSteps; ++i) {
    const auto rows = [&](const Array& all) { return all.Slice(i * kBatch, (i + 1) * kBatch); };
    const absl::Status ran = session.Run(step, {{x, rows(images)}, {y, rows(targets)}});
    EXPECT_EQ(ran, absl::OkStatus());
  }
  base::NamedArrays weights;
  for (const auto& variable : network.variables()) {
    weights.Set(variable.name, session.GetVariableValue(variable.name).value_or(Array()));
  }
  return weights;
}

std::vector<Training> Trainings() {
  namespace nn = ::penstock::nn;
  const auto descent = [] { return std::make_unique<train::GradientDescentOptimizer>(0.3); };
  return {
      {.name = "GradientDescent",
       .network = Perceptron,
       .optimizer = nn::SGD({.learning_rate = 0.3}),
       .session_optimizer = descent},
      {.name = "GradientDescentOfSquares",
       .network = Perceptron,
       .regression = true,
       .optimizer = nn::SGD({.learning_rate = 0.3}),
       .session_optimizer = descent},
      {.name = "Adam",
       .network = Perceptron,
       .optimizer = nn::Adam({.learning_rate = 0.01, .epsilon = 1e-8}),
       .session_optimizer = [] { return std::make_unique<train::AdamOptimizer>(0.01); }},
      {.name = "AdamWWithClippingAndAverages",
       .network = Perceptron,
       .optimizer = nn::AdamW({.learning_rate = 0.01, .weight_decay = 0.1, .global_clipnorm = 1})},
      {.name = "ConvolutionsWithBatchNormalization",
       .network = Convolutional,
       .optimizer = nn::SGD({.learning_rate = 0.1, .momentum = 0.9})},
  };
}

class KerasSteps : public testing::TestWithParam<Training> {};

TEST_P(KerasSteps, AreEqualBitForBit) {
  const base::NamedArrays keras = TrainWithKeras(GetParam()), session = TrainInSession(GetParam());
  ASSERT_EQ(keras.size(), session.size());
  const base::NamedArrays initial = *NetworkOf(GetParam()).Initialize(kSeed);
  for (const auto& [name, value] : session) {
    EXPECT_FALSE(BitwiseEqual(value, *initial.Find(name))) << name << " is not trained";
    EXPECT_TRUE(BitwiseEqual(value, *keras.Find(name)))
        << name << ": " << value.ToString() << "; Keras has " << keras.Find(name)->ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Trainings, KerasSteps, testing::ValuesIn(Trainings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace keras_steps_test
}  // namespace penstock::session
