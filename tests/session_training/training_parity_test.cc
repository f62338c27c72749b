// Optimizers, schedules, losses, metrics and moving averages against tf.compat.v1, and layers
// against the operations that tf.layers consists of: the rows of expect.py.
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/session/gradients.h"
#include "penstock/session/losses.h"
#include "penstock/session/metrics.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/train/learning_rate.h"
#include "penstock/session/train/moving_average.h"
#include "penstock/session/train/optimizer.h"

#include "tests/session_training/expected.h"

namespace penstock::tests {
namespace {

using tf::train::LearningRate;

class Parity : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(expected_.status(), absl::OkStatus()); }
  const json& Rows(const char* kind) const { return expected_.rows()[kind]; }

  const Expected& expected_ = Expected::Get();
  tf::Graph graph_;
  tf::Graph::DefaultScope scope_ = graph_.AsDefault();
};

// ---- Optimizers ----

std::unique_ptr<tf::train::Optimizer> MakeOptimizer(const std::string& name, const json& row,
                                                    const LearningRate& rate) {
  namespace train = tf::train;
  const bool defaults = row["args"].size() <= 1;
  if (name == "GradientDescent") return std::make_unique<train::GradientDescentOptimizer>(rate);
  if (name == "Momentum") {
    return std::make_unique<train::MomentumOptimizer>(
        rate, Argument(row, "momentum", 0.0), "Momentum", Argument(row, "use_nesterov", false));
  }
  if (name == "Adam") {
    if (row["args"].empty()) return std::make_unique<train::AdamOptimizer>();
    if (defaults) return std::make_unique<train::AdamOptimizer>(rate);
    return std::make_unique<train::AdamOptimizer>(rate, Argument(row, "beta1", 0.9),
                                                  Argument(row, "beta2", 0.999),
                                                  Argument(row, "epsilon", 1e-8));
  }
  if (name == "Adagrad") {
    if (defaults) return std::make_unique<train::AdagradOptimizer>(rate);
    return std::make_unique<train::AdagradOptimizer>(
        rate, Argument(row, "initial_accumulator_value", 0.1));
  }
  if (name == "RMSProp") {
    if (defaults) return std::make_unique<train::RMSPropOptimizer>(rate);
    return std::make_unique<train::RMSPropOptimizer>(
        rate, Argument(row, "decay", 0.9), Argument(row, "momentum", 0.0),
        Argument(row, "epsilon", 1e-10), Argument(row, "centered", false));
  }
  if (name == "Adadelta") {
    if (row["args"].empty()) return std::make_unique<train::AdadeltaOptimizer>();
    if (defaults) return std::make_unique<train::AdadeltaOptimizer>(rate);
    return std::make_unique<train::AdadeltaOptimizer>(rate, Argument(row, "rho", 0.95),
                                                      Argument(row, "epsilon", 1e-8));
  }
  if (defaults) return std::make_unique<train::FtrlOptimizer>(rate);
  return std::make_unique<train::FtrlOptimizer>(
      rate, Argument(row, "learning_rate_power", -0.5),
      Argument(row, "initial_accumulator_value", 0.1),
      Argument(row, "l1_regularization_strength", 0.0),
      Argument(row, "l2_regularization_strength", 0.0),
      train::FtrlOptions{.accum_name = Argument(row, "accum_name", std::string()),
                         .linear_name = Argument(row, "linear_name", std::string()),
                         .l2_shrinkage_regularization_strength =
                             Argument(row, "l2_shrinkage_regularization_strength", 0.0)});
}

// The network of expect.py: tanh(x w1 + b1) w2 + b2.
tf::Tensor Logits(const Expected& expected, const tf::Tensor& x) {
  tf::Tensors inputs{x};
  for (const char* name : {"w1", "b1", "w2", "b2"}) {
    inputs.push_back(tf::Variable(expected.array(absl::StrCat("initial/", name)), name));
  }
  return tf::AddOp("Logits", inputs, "", tf::SourceLocation::Current(), [](const ir::Values& in) {
    return ir::MatMul(ir::Tanh(ir::MatMul(in[0], in[1]) + in[2]), in[3]) + in[4];
  });
}

TEST_F(Parity, OptimizersTakeTensorFlowsSteps) {
  const Array x = expected_.array("x"), y = expected_.array("y");
  for (const json& row : Rows("optimizers")) {
    const std::string name = row["name"], key = row["key"];
    const std::string what = absl::StrCat(name, " ", row["args"].dump());
    tf::Graph graph;
    const auto scope = graph.AsDefault();
    const tf::Tensor in = tf::Placeholder(DType::kF32, {-1, 3}, "x");
    const tf::Tensor labels = tf::Placeholder(DType::kI64, {-1}, "y");
    const tf::Tensor loss = tf::losses::SparseSoftmaxCrossEntropy(labels, Logits(expected_, in));
    const tf::Variable step = tf::GetOrCreateGlobalStep();
    const bool scheduled =
        row["args"].contains("learning_rate") && row["args"]["learning_rate"] == "scheduled";
    const LearningRate rate = scheduled
                                  ? LearningRate(tf::train::ExponentialDecay(0.1, step, 3, 0.5))
                                  : LearningRate(Argument(row, "learning_rate", 0.0));
    const tf::Operation train = MakeOptimizer(name, row, rate)->Minimize(loss, step);
    ASSERT_EQ(graph.status(), absl::OkStatus()) << what;
    tf::Session session = OpenSession();
    ASSERT_EQ(session.Run(tf::GlobalVariablesInitializer()), absl::OkStatus());
    Array losses = Array::Zeros(DType::kF32, {x.dim(0)});
    for (int64_t i = 0; i < x.dim(0); ++i) {
      const auto got = session.Run({train, loss}, {{in, x.Row(i)}, {labels, y.Row(i)}});
      ASSERT_TRUE(got.ok()) << what << ": " << got.status();
      losses.mutable_data<float>()[i] = (*got)[1].item<float>();
    }
    ExpectClose(losses, expected_.array(key + "losses"), 2e-5, what + ": losses");
    std::vector<std::string> names;
    for (const tf::Variable& v : tf::GlobalVariables()) names.push_back(v.def()->name);
    EXPECT_THAT(
        names, testing::UnorderedElementsAreArray(row["variables"].get<std::vector<std::string>>()))
        << what;
    for (const std::string variable : row["variables"]) {
      const auto value = session.GetVariableValue(variable);
      ASSERT_TRUE(value.ok()) << what << ": " << value.status();
      ExpectClose(*value, expected_.array(absl::StrCat(key, "variable/", variable)), 5e-5,
                  absl::StrCat(what, ": ", variable));
    }
  }
}

// ---- Schedules ----

tf::Tensor Schedule(const json& row, const tf::Tensor& step) {
  namespace train = tf::train;
  const std::string name = row["name"];
  const json& args = row["args"];
  constexpr double kRate = 0.8;
  const auto steps = [&](const char* key) { return args[key].get<int64_t>(); };
  const bool staircase = Argument(row, "staircase", false), defaults = args.size() == 1;
  if (name == "exponential_decay") {
    return train::ExponentialDecay(kRate, step, steps("decay_steps"), args["decay_rate"],
                                   staircase);
  }
  if (name == "piecewise_constant") {
    return train::PiecewiseConstant(step, args["boundaries"].get<std::vector<double>>(),
                                    args["values"].get<std::vector<double>>());
  }
  if (name == "polynomial_decay") {
    if (defaults) return train::PolynomialDecay(kRate, step, steps("decay_steps"));
    return train::PolynomialDecay(kRate, step, steps("decay_steps"),
                                  Argument(row, "end_learning_rate", 0.0001),
                                  Argument(row, "power", 1.0), Argument(row, "cycle", false));
  }
  if (name == "natural_exp_decay") {
    return train::NaturalExpDecay(kRate, step, steps("decay_steps"), args["decay_rate"], staircase);
  }
  if (name == "inverse_time_decay") {
    return train::InverseTimeDecay(kRate, step, steps("decay_steps"), args["decay_rate"],
                                   staircase);
  }
  if (name == "cosine_decay") {
    return train::CosineDecay(kRate, step, steps("decay_steps"), Argument(row, "alpha", 0.0));
  }
  if (name == "cosine_decay_restarts") {
    if (defaults) return train::CosineDecayRestarts(kRate, step, steps("first_decay_steps"));
    return train::CosineDecayRestarts(kRate, step, steps("first_decay_steps"), args["t_mul"],
                                      args["m_mul"], args["alpha"]);
  }
  if (defaults) return train::LinearCosineDecay(kRate, step, steps("decay_steps"));
  return train::LinearCosineDecay(kRate, step, steps("decay_steps"), args["num_periods"],
                                  args["alpha"], args["beta"]);
}

TEST_F(Parity, SchedulesHaveTensorFlowsValues) {
  const tf::Tensor step = tf::Placeholder(DType::kI64, tf::Shape(), "step");
  tf::Fetches rates;
  for (const json& row : Rows("schedules")) rates.emplace_back(Schedule(row, step));
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  tf::Session session = OpenSession();
  for (int64_t i = 0; i < 20; ++i) {
    const auto got = session.Run(rates, {{step, Array::Scalar(i)}});
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t r = 0; r < rates.size(); ++r) {
      const json& row = Rows("schedules")[r];
      ExpectClose((*got)[r], expected_.array(row["values"]).Row(i), 2e-6,
                  absl::StrCat(row["name"].get<std::string>(), " ", row["args"].dump(), " at ", i));
    }
  }
}

// ---- Losses ----

tf::Tensor Loss(const json& row, const tf::Tensor& y, const tf::Tensor& p,
                const tf::losses::Weights& weights, const tf::losses::LossOptions& options) {
  namespace losses = tf::losses;
  const std::string name = row["name"];
  if (name == "mean_squared_error") return losses::MeanSquaredError(y, p, weights, options);
  if (name == "absolute_difference") return losses::AbsoluteDifference(y, p, weights, options);
  if (name == "huber_loss") {
    return losses::HuberLoss(y, p, weights, Argument(row, "delta", 1.0), options);
  }
  if (name == "hinge_loss") return losses::HingeLoss(y, p, weights, options);
  if (name == "log_loss") {
    return losses::LogLoss(y, p, weights, Argument(row, "epsilon", 1e-7), options);
  }
  const double smoothing = Argument(row, "label_smoothing", 0.0);
  if (name == "sigmoid_cross_entropy") {
    return losses::SigmoidCrossEntropy(y, p, weights, smoothing, options);
  }
  if (name == "softmax_cross_entropy") {
    return losses::SoftmaxCrossEntropy(y, p, weights, smoothing, options);
  }
  if (name == "cosine_distance") {
    return losses::CosineDistance(y, p, row["args"]["axis"], weights, options);
  }
  if (name == "mean_pairwise_squared_error") {
    return losses::MeanPairwiseSquaredError(y, p, weights, options);
  }
  return losses::SparseSoftmaxCrossEntropy(y, p, weights, options);
}

TEST_F(Parity, LossesHaveTensorFlowsValuesAndGradients) {
  using tf::losses::Reduction;
  const std::map<std::string, Reduction> reductions{
      {"none", Reduction::kNone},
      {"weighted_sum", Reduction::kSum},
      {"weighted_mean", Reduction::kMean},
      {"weighted_sum_over_batch_size", Reduction::kSumOverBatchSize},
      {"weighted_sum_by_nonzero_weights", Reduction::kSumByNonzeroWeights}};
  tf::Fetches fetches;
  for (const json& row : Rows("losses")) {
    const tf::Tensor p = tf::Constant(expected_.array(row["predictions"]));
    const json& given = row["weights"];
    const tf::losses::Weights weights =
        given.is_null()     ? tf::losses::Weights(1.0)
        : given.is_number() ? tf::losses::Weights(given.get<double>())
                            : tf::losses::Weights(tf::Constant(expected_.array(given)));
    const tf::Tensor loss = Loss(row, tf::Constant(expected_.array(row["labels"])), p, weights,
                                 {.reduction = reductions.at(row["reduction"])});
    fetches.emplace_back(loss);
    fetches.emplace_back(tf::Gradients({loss}, {p})[0]);
  }
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  tf::Session session = OpenSession();
  const auto got = session.Run(fetches);
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t r = 0; r < Rows("losses").size(); ++r) {
    const json& row = Rows("losses")[r];
    ExpectClose((*got)[2 * r], expected_.array(row["loss"]), 5e-6, row.dump());
    ExpectClose((*got)[2 * r + 1], expected_.array(row["gradient"]), 5e-6,
                "gradient of " + row.dump());
  }
}

// ---- Metrics ----

tf::metrics::MetricResult Metric(const json& row, const tf::Tensor& y, const tf::Tensor& p,
                                 const tf::Tensor& weights) {
  namespace metrics = tf::metrics;
  const std::string name = row["name"];
  if (name == "accuracy") return metrics::Accuracy(y, p, weights);
  if (name == "mean") return metrics::Mean(p, weights);
  if (name == "mean_absolute_error") return metrics::MeanAbsoluteError(y, p, weights);
  if (name == "mean_squared_error") return metrics::MeanSquaredError(y, p, weights);
  if (name == "root_mean_squared_error") return metrics::RootMeanSquaredError(y, p, weights);
  if (name == "precision") return metrics::Precision(y, p, weights);
  if (name == "recall") return metrics::Recall(y, p, weights);
  if (name == "true_positives") return metrics::TruePositives(y, p, weights);
  if (name == "true_negatives") return metrics::TrueNegatives(y, p, weights);
  if (name == "false_positives") return metrics::FalsePositives(y, p, weights);
  if (name == "false_negatives") return metrics::FalseNegatives(y, p, weights);
  const metrics::AucOptions defaults;
  return metrics::Auc(
      y, p, weights,
      {.num_thresholds = Argument(row, "num_thresholds", defaults.num_thresholds),
       .curve = Argument(row, "curve", defaults.curve),
       .summation_method = Argument(row, "summation_method", defaults.summation_method),
       .thresholds = Argument(row, "thresholds", defaults.thresholds)});
}

TEST_F(Parity, MetricsHaveTensorFlowsValuesAndVariables) {
  std::map<std::string, tf::Tensor> places;
  const auto place = [&](const json& key) {
    if (key.is_null()) return tf::Tensor();
    const Array array = expected_.array(key);
    tf::Tensor& tensor = places[key];
    if (!tensor.valid()) tensor = tf::Placeholder(array.dtype(), {array.dim(1)});
    return tensor;
  };
  tf::Fetches updates, values;
  for (const json& row : Rows("metrics")) {
    const auto metric =
        Metric(row, place(row["labels"]), place(row["predictions"]), place(row["weights"]));
    updates.emplace_back(metric.update_op);
    values.emplace_back(metric.value);
  }
  ASSERT_EQ(graph_.status(), absl::OkStatus());
  std::vector<std::string> names;
  for (const tf::Variable& variable : tf::LocalVariables()) names.push_back(variable.def()->name);
  EXPECT_EQ(names, expected_.rows()["metric_variables"].get<std::vector<std::string>>());
  tf::Session session = OpenSession();
  ASSERT_EQ(session.Run(tf::LocalVariablesInitializer()), absl::OkStatus());
  for (int64_t i = 0; i < 4; ++i) {
    tf::FeedDict feeds;
    for (const auto& [key, tensor] : places) {
      if (i < 3) feeds.emplace_back(tensor, expected_.array(key).Row(i));
    }
    const auto got = session.Run(i < 3 ? updates : values, feeds);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t r = 0; r < updates.size(); ++r) {
      const json& row = Rows("metrics")[r];
      const Array want = *expected_.array(row["values"]).Row(i).Reshape({});
      ExpectClose((*got)[r], want, 2e-6, absl::StrCat(row.dump(), " after ", i + 1));
    }
  }
}

// ---- Moving averages ----

TEST_F(Parity, MovingAveragesHaveTensorFlowsValues) {
  for (const json& row : Rows("averages")) {
    tf::Graph graph;
    const auto scope = graph.AsDefault();
    const tf::Variable w(Array::Of<float>({2}, {1, 2}), "w");
    const tf::Variable step = tf::GetOrCreateGlobalStep();
    const bool counts = row["args"].contains("num_updates");
    tf::Operation update;
    const tf::Operations before{tf::AssignAdd(w, tf::Constant({1.0, -0.5})),
                                tf::AssignAdd(step, tf::Constant(Array::Scalar<int64_t>(1)))};
    const double decay = row["args"]["decay"];
    tf::train::ExponentialMovingAverage average =
        counts ? tf::train::ExponentialMovingAverage(decay, step)
               : tf::train::ExponentialMovingAverage(decay);
    {
      const tf::ControlDependencies after(before);
      update = average.Apply({w});
    }
    ASSERT_EQ(graph.status(), absl::OkStatus());
    EXPECT_EQ(average.AverageName(w), row["name"]);
    tf::Session session = OpenSession();
    ASSERT_EQ(session.Run(tf::GlobalVariablesInitializer()), absl::OkStatus());
    const Array want = expected_.array(row["values"]);
    for (int64_t i = 0; i < want.dim(0); ++i) {
      ASSERT_EQ(session.Run(update), absl::OkStatus());
      ExpectClose(*session.GetVariableValue(average.AverageName(w)), want.Row(i), 2e-6,
                  absl::StrCat(row["args"].dump(), " after ", i + 1));
    }
  }
}

}  // namespace
}  // namespace penstock::tests
