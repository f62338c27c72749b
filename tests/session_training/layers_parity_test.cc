// Layers against the operations of TensorFlow that tf.layers consists of: the rows of layers.py.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/session/gradients.h"
#include "penstock/session/layers.h"
#include "penstock/session/ops/core_ops.h"

#include "tests/session_training/expected.h"

namespace penstock::tests {
namespace {

namespace layers = tf::layers;

template <int N>
layers::ConvOptions<N> ConvOptionsOf(const json& row) {
  return {.strides = Argument<int64_t>(row, "strides", 1),
          .padding = Argument<std::string>(row, "padding", "valid"),
          .dilation_rate = Argument<int64_t>(row, "dilation_rate", 1)};
}

tf::Tensor CallLayer(const json& row, const tf::Tensor& x) {
  const std::string name = row["name"];
  const auto number = [&](const char* key) { return Argument<int64_t>(row, key, 1); };
  const std::string padding = Argument<std::string>(row, "padding", "valid");
  const int64_t filters = number("filters"), kernel = number("kernel_size"),
                strides = number("strides"), pool = number("pool_size");
  if (name == "dense") {
    return layers::Dense(x, number("units"),
                         {.activation = Argument<std::string>(row, "activation", ""),
                          .use_bias = Argument(row, "use_bias", true)});
  }
  if (name == "conv1d") return layers::Conv1D(x, filters, kernel, ConvOptionsOf<1>(row));
  if (name == "conv2d") return layers::Conv2D(x, filters, kernel, ConvOptionsOf<2>(row));
  if (name == "conv3d") return layers::Conv3D(x, filters, kernel, ConvOptionsOf<3>(row));
  if (name == "separable_conv2d") {
    return layers::SeparableConv2D(
        x, filters, kernel,
        {.strides = strides, .padding = padding, .depth_multiplier = number("depth_multiplier")});
  }
  if (name == "conv2d_transpose") {
    return layers::Conv2DTranspose(x, filters, kernel, {.strides = strides, .padding = padding});
  }
  const layers::PoolingOptions pooling{.padding = padding};
  if (name == "max_pooling1d") return layers::MaxPooling1D(x, pool, strides, pooling);
  if (name == "max_pooling2d") return layers::MaxPooling2D(x, pool, strides, pooling);
  if (name == "max_pooling3d") return layers::MaxPooling3D(x, pool, strides, pooling);
  if (name == "average_pooling1d") return layers::AveragePooling1D(x, pool, strides, pooling);
  if (name == "average_pooling2d") return layers::AveragePooling2D(x, pool, strides, pooling);
  if (name == "average_pooling3d") return layers::AveragePooling3D(x, pool, strides, pooling);
  if (name == "flatten") return layers::Flatten(x);
  if (name == "dropout") return layers::Dropout(x, row["args"]["rate"]);
  return layers::BatchNormalization(x, {.momentum = row["args"]["momentum"],
                                        .epsilon = row["args"]["epsilon"],
                                        .training = row["args"]["training"].get<bool>()});
}

TEST(LayersParity, OutputsGradientsAndUpdatesAreTensorFlows) {
  const Expected& expected = Expected::Get();
  ASSERT_EQ(expected.status(), absl::OkStatus());
  for (const json& row : expected.rows()["layers"]) {
    const std::string name = row["name"], key = row["key"];
    const std::string what = absl::StrCat(name, " ", row["args"].dump());
    tf::Graph graph;
    const auto scope = graph.AsDefault();
    const Array input = expected.array(key + "x");
    const tf::Tensor x = tf::Constant(input);
    const tf::Tensor y = CallLayer(row, x);
    tf::Tensors xs{x};
    std::vector<std::string> names;
    for (const tf::Variable& variable : tf::GlobalVariables()) {
      names.push_back(variable.def()->name.substr(name.size() + 1));
    }
    EXPECT_EQ(names, row["variables"].get<std::vector<std::string>>()) << what;
    for (const tf::Variable& variable : tf::TrainableVariables()) xs.push_back(variable);
    const tf::Tensors gradients =
        tf::Gradients({y}, xs, {.grad_ys = {tf::Constant(expected.array(key + "cotangent"))}});
    ASSERT_EQ(graph.status(), absl::OkStatus()) << what;
    tf::Session session = OpenSession();
    for (const std::string& variable : names) {
      ASSERT_EQ(session.SetVariableValue(absl::StrCat(name, "/", variable),
                                         expected.array(absl::StrCat(key, "variable/", variable))),
                absl::OkStatus());
    }
    tf::Fetches fetches{y};
    for (const tf::Tensor& gradient : gradients) fetches.emplace_back(gradient);
    for (const tf::Operation& update : graph.GetCollectionOperations(tf::graph_keys::kUpdateOps)) {
      fetches.emplace_back(update);
    }
    const auto got = session.Run(fetches);
    ASSERT_TRUE(got.ok()) << what << ": " << got.status();
    ExpectClose((*got)[0], expected.array(key + "y"), 1e-5, what);
    ExpectClose((*got)[1], expected.array(key + "gradient x"), 1e-5, what + ": gradient of x");
    const auto trained = row["trained"].get<std::vector<std::string>>();
    for (size_t i = 0; i < trained.size(); ++i) {
      ExpectClose((*got)[2 + i], expected.array(absl::StrCat(key, "gradient ", trained[i])), 2e-5,
                  absl::StrCat(what, ": gradient of ", trained[i]));
    }
    for (const std::string result : row["results"]) {
      if (result.rfind("new ", 0) != 0) continue;
      const auto value = session.GetVariableValue(absl::StrCat(name, "/", result.substr(4)));
      ASSERT_TRUE(value.ok()) << value.status();
      ExpectClose(*value, expected.array(key + result), 1e-5, absl::StrCat(what, ": ", result));
    }
  }
}

}  // namespace
}  // namespace penstock::tests
