// The same network, weights and batches with Keras's API and PyTorch's: ten steps of SGD give the
// same weights, bit for bit. Both make the graph of the same operations. Rates are powers of two:
// Keras's momentum contains the rate, PyTorch's does not, and such factors are exact.
#include "gtest/gtest.h"

#include "penstock/keras/keras.h"
#include "penstock/lazy/xm.h"

#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

using base::Array;
using base::DType;
using base::Shape;

constexpr int64_t kBatch = 8, kSteps = 10;

// Made-up values: a fixed sequence within +-scale.
Array Values(const Shape& shape, double scale, uint64_t seed) {
  Array array = Array::Uninitialized(DType::kF32, shape);
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    array.mutable_data<float>()[i] =
        static_cast<float>(scale * (static_cast<double>(seed >> 40) / (1 << 23) - 1));
  }
  return array;
}

Array Labels(int64_t classes) {
  Array labels = Array::Uninitialized(DType::kI32, {kBatch * kSteps});
  for (int64_t i = 0; i < labels.num_elements(); ++i) {
    labels.mutable_data<int32_t>()[i] = static_cast<int32_t>(i * 7 % classes);
  }
  return labels;
}

// The array with axes in another order.
Array Permuted(const Array& x, const std::vector<int>& order) {
  Shape shape(std::vector<int64_t>(order.size(), 1));
  for (size_t i = 0; i < order.size(); ++i) shape.set_dim(static_cast<int>(i), x.dim(order[i]));
  Array y = Array::Uninitialized(x.dtype(), shape);
  std::vector<int64_t> at(order.size(), 0);
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    int64_t place = 0;
    for (int axis = 0; axis < x.rank(); ++axis) {
      int64_t index = 0;
      for (size_t k = 0; k < order.size(); ++k) {
        if (order[k] == axis) index = at[k];
      }
      place = place * x.dim(axis) + index;
    }
    y.mutable_data<float>()[i] = x.data<float>()[place];
    for (size_t k = order.size(); k-- > 0 && ++at[k] == shape.dim(static_cast<int>(k));) at[k] = 0;
  }
  return y;
}

// Keras's weights after training.
base::NamedArrays TrainKeras(keras::Model& model, const base::NamedArrays& weights, const Array& x,
                             const Array& y, double momentum, bool nesterov) {
  const absl::Status compiled =
      model.Compile({.optimizer = keras::SGD(
                         {.learning_rate = 0.125, .momentum = momentum, .nesterov = nesterov}),
                     .loss = keras::SparseCategoricalCrossentropy({.from_logits = true})});
  EXPECT_TRUE(compiled.ok()) << compiled;
  const absl::Status set = model.SetWeights(weights);
  EXPECT_TRUE(set.ok()) << set;
  const auto history =
      model.Fit(x, y, {.batch_size = kBatch, .epochs = 1, .verbose = 0, .shuffle = false});
  EXPECT_TRUE(history.ok()) << history.status();
  const auto trained = model.GetWeights();
  EXPECT_TRUE(trained.ok()) << trained.status();
  return trained.ok() ? *trained : base::NamedArrays();
}

// PyTorch's; x is NCHW or [rows, features].
template <typename M>
base::NamedArrays TrainLazy(M& model, const base::NamedArrays& weights, const Array& x,
                            const Array& y, double momentum, bool nesterov) {
  const absl::Status loaded = model->load_state_dict(weights, /*strict=*/false);
  EXPECT_TRUE(loaded.ok()) << loaded;
  const lazy::Device device = *lazy::xm::xla_device();
  optim::SGD optimizer(model->parameters(),
                       {.lr = 0.125, .momentum = momentum, .nesterov = nesterov});
  for (int64_t step = 0; step < kSteps; ++step) {
    const int64_t begin = step * kBatch, end = begin + kBatch;
    optimizer.zero_grad();
    const T logits = model(lazy::tensor(x.Slice(begin, end), device));
    F::cross_entropy(logits, lazy::tensor(y.Slice(begin, end), device)).backward();
    optimizer.step();
    const absl::Status ran = lazy::xm::mark_step();
    EXPECT_TRUE(ran.ok()) << ran;
  }
  const auto trained = model->state_arrays();
  EXPECT_TRUE(trained.ok()) << trained.status();
  return trained.ok() ? *trained : base::NamedArrays();
}

void ExpectEqual(const base::NamedArrays& keras, const std::string& keras_name,
                 const base::NamedArrays& lazy, const std::string& lazy_name,
                 const std::vector<int>& order) {
  const Array *a = keras.Find(keras_name), *b = lazy.Find(lazy_name);
  ASSERT_NE(a, nullptr) << keras.ToString();
  ASSERT_NE(b, nullptr) << lazy.ToString();
  const Array want = Permuted(*a, order);
  EXPECT_TRUE(base::BitwiseEqual(want, *b))
      << keras_name << ": " << want.ToString() << " and " << b->ToString();
}

TEST(KerasSteps, DenseNetwork) {
  const Array w1 = Values({6, 8}, 0.5, 1), b1 = Values({8}, 0.1, 2), w2 = Values({8, 3}, 0.5, 3),
              b2 = Values({3}, 0.1, 4), x = Values({kBatch * kSteps, 6}, 1, 5), y = Labels(3);
  for (const double momentum : {0.0, 0.5}) {
    keras::Model model =
        keras::Sequential({keras::Input({.shape = {6}}),
                           keras::Dense({.units = 8, .activation = "relu", .name = "a"}),
                           keras::Dense({.units = 3, .name = "b"})});
    const base::NamedArrays keras =
        TrainKeras(model, {{"a/kernel", w1}, {"a/bias", b1}, {"b/kernel", w2}, {"b/bias", b2}}, x,
                   y, momentum, momentum > 0);
    nn::Sequential net({nn::Linear(6, 8), nn::ReLU(), nn::Linear(8, 3)});
    const base::NamedArrays lazy = TrainLazy(net,
                                             {{"0.weight", Permuted(w1, {1, 0})},
                                              {"0.bias", b1},
                                              {"2.weight", Permuted(w2, {1, 0})},
                                              {"2.bias", b2}},
                                             x, y, momentum, momentum > 0);
    ExpectEqual(keras, "a/kernel", lazy, "0.weight", {1, 0});
    ExpectEqual(keras, "a/bias", lazy, "0.bias", {0});
    ExpectEqual(keras, "b/kernel", lazy, "2.weight", {1, 0});
    ExpectEqual(keras, "b/bias", lazy, "2.bias", {0});
  }
}

TEST(KerasSteps, ConvolutionsAndBatchNormalization) {
  const Array kernel = Values({3, 3, 3, 4}, 0.5, 1), w = Values({4, 3}, 0.5, 3),
              b = Values({3}, 0.1, 4), images = Values({kBatch * kSteps, 8, 8, 3}, 1, 5),
              ones = *Array::Of<float>({4}, {1, 1, 1, 1}).Reshape({4}),
              zeros = Array::Zeros(DType::kF32, {4}), y = Labels(3);
  keras::Model model = keras::Sequential(
      {keras::Input({.shape = {8, 8, 3}}),
       keras::Conv2D({.filters = 4,
                      .kernel_size = {3, 3},
                      .padding = "same",
                      .use_bias = false,
                      .name = "conv"}),
       keras::BatchNormalization({.epsilon = 1e-5, .name = "norm"}), keras::ReLU(),
       keras::GlobalAveragePooling2D(), keras::Dense({.units = 3, .name = "fc"})});
  const base::NamedArrays keras = TrainKeras(model,
                                             {{"conv/kernel", kernel},
                                              {"norm/gamma", ones},
                                              {"norm/beta", zeros},
                                              {"norm/moving_mean", zeros},
                                              {"norm/moving_variance", ones},
                                              {"fc/kernel", w},
                                              {"fc/bias", b}},
                                             images, y, 0.5, false);
  nn::Sequential net({nn::Conv2d(3, 4, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(4),
                      nn::ReLU(), nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(4, 3)});
  const base::NamedArrays lazy = TrainLazy(net,
                                           {{"0.weight", Permuted(kernel, {3, 2, 0, 1})},
                                            {"5.weight", Permuted(w, {1, 0})},
                                            {"5.bias", b}},
                                           Permuted(images, {0, 3, 1, 2}), y, 0.5, false);
  ExpectEqual(keras, "conv/kernel", lazy, "0.weight", {3, 2, 0, 1});
  ExpectEqual(keras, "norm/gamma", lazy, "1.weight", {0});
  ExpectEqual(keras, "norm/beta", lazy, "1.bias", {0});
  ExpectEqual(keras, "fc/kernel", lazy, "5.weight", {1, 0});
  ExpectEqual(keras, "fc/bias", lazy, "5.bias", {0});
}

}  // namespace
}  // namespace penstock::tests::lazy_rows
