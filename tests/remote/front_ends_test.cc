// Front ends on a worker's devices compute the same bits as on this machine's.
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/array.h"
#include "penstock/estimator/estimator.h"
#include "penstock/estimator/testing/small_model.h"
#include "penstock/keras/keras.h"
#include "penstock/lazy/functional.h"
#include "penstock/lazy/nn/containers.h"
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/optim/optimizers.h"
#include "penstock/lazy/random.h"
#include "penstock/lazy/xm.h"
#include "penstock/remote/worker/worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/session.h"
#include "penstock/session/tpu.h"
#include "penstock/session/train/optimizer.h"
#include "penstock/session/train/saver.h"

namespace penstock::tests {
namespace {

using base::Array;
using base::DType;

class FrontEndsTest : public testing::Test {
 protected:
  FrontEndsTest() {
    auto worker = remote::Worker::Start({.listen = "127.0.0.1:0",
                                         .client = runtime::TestClient(1),
                                         .log_to_stderr = false,
                                         .metadata_host = "off"});
    EXPECT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    address_ = absl::StrCat("grpc://", worker_->address());
  }

  static Array Numbers(base::Shape shape, float factor) {
    Array array = Array::Uninitialized(DType::kF32, shape);
    for (int64_t i = 0; i < array.num_elements(); ++i) {
      array.mutable_data<float>()[i] = static_cast<float>(i % 17) * factor - 1;
    }
    return array;
  }

  static void ExpectSame(const base::NamedArrays& a, const base::NamedArrays& b) {
    ASSERT_GT(a.size(), 0u);
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, value] : a) {
      ASSERT_NE(b.Find(name), nullptr) << name;
      EXPECT_TRUE(base::BitwiseEqual(value, *b.Find(name))) << name;
    }
  }

  std::unique_ptr<remote::Worker> worker_;
  std::string address_;
};

TEST_F(FrontEndsTest, SessionsTakeTheAddressOfAClusterResolver) {
  namespace tf = session;
  const auto train = [&](const std::string& target) {
    tf::Graph graph;
    const auto scope = graph.AsDefault();
    graph.SetRandomSeed(1);
    const tf::Tensor x = tf::Placeholder(DType::kF32, {-1, 3}, "x");
    const tf::Variable w = tf::GetVariable("w", {3, 2});
    const tf::Tensor loss = tf::ReduceMean(tf::Square(tf::MatMul(x, w)));
    const tf::Operation step = tf::train::GradientDescentOptimizer(0.1).Minimize(loss);
    tf::Session session(target);
    EXPECT_EQ(session.status(), absl::OkStatus());
    EXPECT_EQ(session.Run(tf::tpu::InitializeSystem()).status(), absl::OkStatus());
    EXPECT_EQ(session.Run(tf::GlobalVariablesInitializer()), absl::OkStatus());
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(session.Run(step, {{x, Numbers({4, 3}, 0.1f)}}), absl::OkStatus());
    }
    return session.Run(w).value();
  };
  const tf::tpu::TPUClusterResolver resolver(address_);
  EXPECT_TRUE(base::BitwiseEqual(train(resolver.Master()), train("cpu")));
  EXPECT_EQ(resolver.NumAccelerators()->begin()->second, 1);
}

TEST_F(FrontEndsTest, KerasFits) {
  const auto fit = [&](const std::string& device) {
    base::NamedArrays weights;
    const nn::Symbol x = keras::Input({.shape = {4}, .name = "in"});
    keras::Model model({x}, {keras::Dense({.units = 2})(keras::Dense({.units = 8})(x))});
    auto client = runtime::OpenClient({.device = device});
    EXPECT_TRUE(client.ok()) << client.status();
    if (!client.ok()) return weights;
    EXPECT_EQ(model.Compile({.optimizer = keras::SGD({.learning_rate = 0.1}),
                             .loss = "mse",
                             .client = *client,
                             .seed = 3}),
              absl::OkStatus());
    EXPECT_EQ(model
                  .Fit(Numbers({20, 4}, 0.1f), Numbers({20, 2}, 0.05f),
                       {.batch_size = 6, .epochs = 3, .verbose = 0})
                  .status(),
              absl::OkStatus());
    return model.GetWeights().value_or(weights);
  };
  ExpectSame(fit(address_), fit("cpu"));
}

TEST_F(FrontEndsTest, LazyDevicesFollowPenstockDevice) {
  namespace torch = lazy;
  const auto train = [&](const std::string& device) {
    ::setenv("PENSTOCK_DEVICE", device.c_str(), 1);
    auto client = runtime::OpenClient();
    ::unsetenv("PENSTOCK_DEVICE");
    EXPECT_TRUE(client.ok()) << client.status();
    const auto xla = torch::xm::xla_device({}, {.client = client.value_or(nullptr)});
    EXPECT_TRUE(xla.ok()) << xla.status();
    torch::manual_seed(1);
    torch::nn::Sequential model(
        {torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 1)});
    model->to(*xla);
    torch::optim::SGD optimizer(model->parameters(), {.lr = 0.1});
    const auto x = torch::tensor(Numbers({4, 3}, 0.1f), *xla);
    const auto y = torch::tensor(Numbers({4, 1}, 0.2f), *xla);
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      torch::nn::functional::mse_loss(model(x), y).backward();
      EXPECT_EQ(torch::xm::optimizer_step(optimizer, true), absl::OkStatus());
    }
    return model->state_arrays().value_or(base::NamedArrays());
  };
  ExpectSame(train(address_), train("cpu"));
}

TEST_F(FrontEndsTest, EstimatorsTakeAMaster) {
  const auto train = [&](const std::string& master, const std::string& folder) {
    estimator::RunConfig config = estimator::testing::QuietConfig();
    config.master = master;
    estimator::Estimator trained({.model_fn = estimator::testing::SmallModelFn,
                                  .model_dir = folder,
                                  .config = config,
                                  .params = {}});
    EXPECT_EQ(trained.Train(estimator::testing::TrainBatches(), {.max_steps = 5}),
              absl::OkStatus());
    const auto arrays = session::train::LoadCheckpoint(*trained.LatestCheckpoint());
    return arrays.ok() ? *arrays : base::NamedArrays();
  };
  const estimator::testing::TemporaryFolder here, there;
  ExpectSame(train(address_, there.path()), train("cpu", here.path()));
}

}  // namespace
}  // namespace penstock::tests
