// The same network, weights and batches in all four idioms: ten steps of gradient descent give the
// same weights, bit for bit on one device.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/estimator/estimator.h"
#include "penstock/keras/keras.h"
#include "penstock/lazy/torch.h"
#include "penstock/runtime/client.h"
#include "penstock/session/tensorflow.h"

namespace penstock::idioms_test {
namespace {

using base::Array;
using base::DType;
using base::NamedArrays;

constexpr int64_t kSteps = 10, kBatch = 16;
constexpr double kRate = 0.1;

std::shared_ptr<runtime::Client> Cpu() {
  static const auto client = runtime::OpenClient({.device = "cpu"}).value();
  return client;
}

Array Noise(base::Shape shape, uint64_t seed, double scale = 1) {
  Array out = Array::Uninitialized(DType::kF32, shape);
  base::Random random(seed);
  float* values = out.mutable_data<float>();
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    values[i] = static_cast<float>(scale * (2 * random.Uniform() - 1));
  }
  return out;
}

Array Labels(int64_t classes) {
  Array out = Array::Uninitialized(DType::kI64, {kSteps * kBatch});
  base::Random random(3);
  for (int64_t i = 0; i < out.dim(0); ++i) {
    out.mutable_data<int64_t>()[i] =
        static_cast<int64_t>(random.Next() % static_cast<uint64_t>(classes));
  }
  return out;
}

// The transpose of a matrix, or of a kernel HWIO to OIHW: PyTorch's weights.
Array ToTorch(const Array& weight) {
  const auto extent = [&](int i) { return weight.dim(i); };
  if (weight.rank() == 2) {
    Array out = Array::Uninitialized(DType::kF32, {extent(1), extent(0)});
    for (int64_t i = 0; i < extent(0); ++i) {
      for (int64_t j = 0; j < extent(1); ++j) {
        out.mutable_data<float>()[j * extent(0) + i] = weight.data<float>()[i * extent(1) + j];
      }
    }
    return out;
  }
  if (weight.rank() != 4) return weight;
  const int64_t h = extent(0), w = extent(1), in = extent(2), o = extent(3);
  Array out = Array::Uninitialized(DType::kF32, {o, in, h, w});
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x)
      for (int64_t i = 0; i < in; ++i)
        for (int64_t k = 0; k < o; ++k)
          out.mutable_data<float>()[((k * in + i) * h + y) * w + x] =
              weight.data<float>()[((y * w + x) * in + i) * o + k];
  return out;
}

// A training in one idiom: from the initial weights, by Keras's names and shapes, to those after
// ten steps.
struct Task {
  Array x, y;
  NamedArrays weights;
};

void ExpectSame(const NamedArrays& expected, const NamedArrays& got) {
  for (const auto& [name, array] : expected) {
    const Array* other = got.Find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_TRUE(base::BitwiseEqual(array, *other)) << name << "\n"
                                                   << array.ToString() << "\n"
                                                   << other->ToString();
  }
}

// ---- A network of two dense layers ----

Task DenseTask() {
  return {.x = Noise({kSteps * kBatch, 4}, 1),
          .y = Labels(3),
          .weights = {{"h/kernel", Noise({4, 10}, 10)},
                      {"h/bias", Noise({10}, 11)},
                      {"out/kernel", Noise({10, 3}, 12)},
                      {"out/bias", Noise({3}, 13)}}};
}

absl::StatusOr<NamedArrays> DenseInKeras(const Task& task) {
  keras::Model model =
      keras::Sequential({keras::Input({.shape = {4}}),
                         keras::Dense({.units = 10, .activation = "sigmoid", .name = "h"}),
                         keras::Dense({.units = 3, .name = "out"})});
  PENSTOCK_RETURN_IF_ERROR(
      model.Compile({.optimizer = keras::SGD({.learning_rate = kRate}),
                     .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                     .client = Cpu()}));
  PENSTOCK_RETURN_IF_ERROR(model.SetWeights(task.weights));
  PENSTOCK_RETURN_IF_ERROR(
      model.Fit(task.x, task.y, {.batch_size = kBatch, .verbose = 0, .shuffle = false}).status());
  return model.GetWeights();
}

session::Tensor DenseGraph(const session::Tensor& x) {
  namespace tf = session;
  const tf::Tensor h = tf::layers::Dense(x, 10, {.activation = "sigmoid", .name = "h"});
  return tf::layers::Dense(h, 3, {.name = "out"});
}

absl::StatusOr<NamedArrays> InSession(
    const Task& task, const std::function<session::Tensor(const session::Tensor&)>& net,
    base::Shape row) {
  namespace tf = session;
  tf::Graph graph;
  const auto scope = graph.AsDefault();
  const tf::Tensor x = tf::Placeholder(DType::kF32, row.Prepend(-1), "x");
  const tf::Tensor y = tf::Placeholder(DType::kI64, {-1}, "y");
  const tf::Tensor loss = tf::losses::SparseSoftmaxCrossEntropy(y, net(x));
  const tf::Operation step = tf::train::GradientDescentOptimizer(kRate).Minimize(loss);
  const tf::Operations updates = graph.GetCollectionOperations(tf::graph_keys::kUpdateOps);
  tf::Session sess("", {.client = Cpu()});
  PENSTOCK_RETURN_IF_ERROR(sess.Run(tf::GlobalVariablesInitializer()));
  for (const auto& [name, array] : task.weights) {
    PENSTOCK_RETURN_IF_ERROR(sess.SetVariableValue(name, array));
  }
  tf::Fetches fetches{step, loss};
  for (const tf::Operation& update : updates) fetches.push_back(update);
  for (int64_t i = 0; i < kSteps; ++i) {
    PENSTOCK_RETURN_IF_ERROR(sess.Run(fetches, {{x, task.x.Slice(i * kBatch, (i + 1) * kBatch)},
                                                {y, task.y.Slice(i * kBatch, (i + 1) * kBatch)}})
                                 .status());
  }
  NamedArrays weights;
  for (const auto& [name, unused] : task.weights) {
    PENSTOCK_ASSIGN_OR_RETURN(Array value, sess.GetVariableValue(name));
    weights.Set(name, value);
  }
  return weights;
}

absl::StatusOr<NamedArrays> InEstimator(
    const Task& task, const std::function<session::Tensor(const session::Tensor&)>& net) {
  namespace tf = session;
  const auto model_fn = [&](const estimator::NamedTensors& features,
                            const estimator::NamedTensors& labels,
                            estimator::ModeKeys mode) -> estimator::EstimatorSpec {
    const tf::Tensor loss = tf::losses::SparseSoftmaxCrossEntropy(labels, net(features));
    const tf::ControlDependencies updates(
        tf::Graph::Default()->GetCollectionOperations(tf::graph_keys::kUpdateOps));
    return {.mode = mode,
            .loss = loss,
            .train_op = tf::train::GradientDescentOptimizer(kRate).Minimize(
                loss, tf::train::GetOrCreateGlobalStep())};
  };
  estimator::Estimator trained({.model_fn = model_fn,
                                .config = {.session_config = {.client = Cpu()}, .log = nullptr},
                                .initial_values = task.weights});
  const data::Dataset input =
      data::Dataset::FromArrays({{"x", task.x}, {"label", task.y}}).Batch(kBatch);
  PENSTOCK_RETURN_IF_ERROR(trained.Train(input, {.steps = kSteps}));
  NamedArrays weights;
  for (const auto& [name, unused] : task.weights) {
    PENSTOCK_ASSIGN_OR_RETURN(Array value, trained.GetVariableValue(name));
    weights.Set(name, value);
  }
  return weights;
}

// Module whose state_dict has PyTorch's names; `names` maps Keras's to them.
absl::StatusOr<NamedArrays> InLazy(
    const Task& task, const std::map<std::string, std::string>& names,
    const std::function<std::shared_ptr<lazy::nn::Module>()>& make,
    const std::function<lazy::Tensor(lazy::nn::Module&, const lazy::Tensor&)>& forward,
    const Array& x) {
  PENSTOCK_ASSIGN_OR_RETURN(const lazy::Device device, lazy::xm::xla_device(0, {.client = Cpu()}));
  const std::shared_ptr<lazy::nn::Module> net = make();
  NamedArrays state;
  for (const auto& [keras_name, torch_name] : names) {
    state.Set(torch_name, ToTorch(*task.weights.Find(keras_name)));
  }
  PENSTOCK_RETURN_IF_ERROR(net->load_state_dict(state, /*strict=*/false));
  net->to(device);
  lazy::optim::SGD optimizer(net->parameters(), {.lr = kRate});
  for (int64_t i = 0; i < kSteps; ++i) {
    const lazy::Tensor rows = lazy::tensor(x.Slice(i * kBatch, (i + 1) * kBatch), device);
    const lazy::Tensor labels = lazy::tensor(task.y.Slice(i * kBatch, (i + 1) * kBatch), device);
    optimizer.zero_grad();
    const lazy::Tensor loss = lazy::nn::functional::cross_entropy(forward(*net, rows), labels);
    loss.backward();
    optimizer.step();
    PENSTOCK_RETURN_IF_ERROR(lazy::xm::mark_step());
  }
  return net->state_arrays();
}

// Expected values in PyTorch's names and layout.
NamedArrays InTorchNames(const NamedArrays& weights,
                         const std::map<std::string, std::string>& names) {
  NamedArrays out;
  for (const auto& [keras_name, torch_name] : names) {
    out.Set(torch_name, ToTorch(*weights.Find(keras_name)));
  }
  return out;
}

TEST(IdiomsTest, DenseNetworkTrainsToTheSameBits) {
  const Task task = DenseTask();
  const absl::StatusOr<NamedArrays> expected = DenseInKeras(task);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_FALSE(base::BitwiseEqual(*expected->Find("h/kernel"), *task.weights.Find("h/kernel")));

  const absl::StatusOr<NamedArrays> in_session = InSession(task, DenseGraph, {4});
  ASSERT_TRUE(in_session.ok()) << in_session.status();
  ExpectSame(*expected, *in_session);

  const absl::StatusOr<NamedArrays> in_estimator = InEstimator(task, DenseGraph);
  ASSERT_TRUE(in_estimator.ok()) << in_estimator.status();
  ExpectSame(*expected, *in_estimator);

  struct Net : lazy::nn::Module {
    lazy::nn::Linear h = register_module("h", lazy::nn::Linear(4, 10));
    lazy::nn::Linear out = register_module("out", lazy::nn::Linear(10, 3));
  };
  const std::map<std::string, std::string> names = {{"h/kernel", "h.weight"},
                                                    {"h/bias", "h.bias"},
                                                    {"out/kernel", "out.weight"},
                                                    {"out/bias", "out.bias"}};
  const absl::StatusOr<NamedArrays> in_lazy = InLazy(
      task, names, [] { return std::make_shared<Net>(); },
      [](lazy::nn::Module& module, const lazy::Tensor& x) {
        auto& net = static_cast<Net&>(module);
        return net.out(lazy::sigmoid(net.h(x)));
      },
      task.x);
  ASSERT_TRUE(in_lazy.ok()) << in_lazy.status();
  ExpectSame(InTorchNames(*expected, names), *in_lazy);
}

// ---- A convolution, batch normalization, pooling and a dense layer ----

Task ConvTask() {
  return {.x = Noise({kSteps * kBatch, 8, 8, 3}, 1),
          .y = Labels(5),
          .weights = {{"conv/kernel", Noise({3, 3, 3, 8}, 20, 0.3)},
                      {"conv/bias", Noise({8}, 21, 0.1)},
                      {"bn/gamma", Noise({8}, 22)},
                      {"bn/beta", Noise({8}, 23)},
                      {"out/kernel", Noise({8, 5}, 24)},
                      {"out/bias", Noise({5}, 25)}}};
}

constexpr double kEpsilon = 1e-3;

absl::StatusOr<NamedArrays> ConvInKeras(const Task& task) {
  keras::Model model = keras::Sequential(
      {keras::Input({.shape = {8, 8, 3}}),
       keras::Conv2D({.filters = 8, .kernel_size = 3, .padding = "same", .name = "conv"}),
       keras::BatchNormalization({.epsilon = kEpsilon, .name = "bn"}), keras::ReLU(),
       keras::GlobalAveragePooling2D(), keras::Dense({.units = 5, .name = "out"})});
  PENSTOCK_RETURN_IF_ERROR(
      model.Compile({.optimizer = keras::SGD({.learning_rate = kRate}),
                     .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                     .client = Cpu()}));
  PENSTOCK_RETURN_IF_ERROR(model.SetWeights(task.weights, {.by_name = true}).status());
  PENSTOCK_RETURN_IF_ERROR(
      model.Fit(task.x, task.y, {.batch_size = kBatch, .verbose = 0, .shuffle = false}).status());
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays all, model.GetWeights());
  NamedArrays weights;
  for (const auto& [name, unused] : task.weights) weights.Set(name, *all.Find(name));
  return weights;
}

session::Tensor ConvGraph(const session::Tensor& x) {
  namespace tf = session;
  tf::Tensor h = tf::layers::Conv2D(x, 8, 3, {.padding = "same", .name = "conv"});
  h = tf::layers::BatchNormalization(h, {.epsilon = kEpsilon, .training = true, .name = "bn"});
  h = tf::nn::Relu(h);
  return tf::layers::Dense(tf::ReduceMean(h, {.axis = {1, 2}}), 5, {.name = "out"});
}

// [n, h, w, c] to [n, c, h, w].
Array ToNchw(const Array& x) {
  const int64_t n = x.dim(0), h = x.dim(1), w = x.dim(2), c = x.dim(3);
  Array out = Array::Uninitialized(DType::kF32, {n, c, h, w});
  for (int64_t i = 0; i < n * h * w; ++i) {
    for (int64_t k = 0; k < c; ++k) {
      out.mutable_data<float>()[(i / (h * w) * c + k) * h * w + i % (h * w)] =
          x.data<float>()[i * c + k];
    }
  }
  return out;
}

TEST(IdiomsTest, ConvolutionAndBatchNormTrainToTheSameBits) {
  const Task task = ConvTask();
  const absl::StatusOr<NamedArrays> expected = ConvInKeras(task);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const absl::StatusOr<NamedArrays> in_session = InSession(task, ConvGraph, {8, 8, 3});
  ASSERT_TRUE(in_session.ok()) << in_session.status();
  ExpectSame(*expected, *in_session);
  const absl::StatusOr<NamedArrays> in_estimator = InEstimator(task, ConvGraph);
  ASSERT_TRUE(in_estimator.ok()) << in_estimator.status();
  ExpectSame(*expected, *in_estimator);

  struct Net : lazy::nn::Module {
    lazy::nn::Conv2d conv = register_module("conv", lazy::nn::Conv2d(3, 8, 3, {.padding = 1}));
    lazy::nn::BatchNorm2d bn = register_module("bn", lazy::nn::BatchNorm2d(8, {.eps = kEpsilon}));
    lazy::nn::Linear out = register_module("out", lazy::nn::Linear(8, 5));
  };
  const std::map<std::string, std::string> names = {
      {"conv/kernel", "conv.weight"}, {"conv/bias", "conv.bias"},   {"bn/gamma", "bn.weight"},
      {"bn/beta", "bn.bias"},         {"out/kernel", "out.weight"}, {"out/bias", "out.bias"}};
  const absl::StatusOr<NamedArrays> in_lazy = InLazy(
      task, names, [] { return std::make_shared<Net>(); },
      [](lazy::nn::Module& module, const lazy::Tensor& x) {
        auto& net = static_cast<Net&>(module);
        const lazy::Tensor h = lazy::relu(net.bn(net.conv(x)));
        return net.out(lazy::mean(h, {2, 3}));
      },
      ToNchw(task.x));
  ASSERT_TRUE(in_lazy.ok()) << in_lazy.status();
  ExpectSame(InTorchNames(*expected, names), *in_lazy);
}

}  // namespace
}  // namespace penstock::idioms_test
