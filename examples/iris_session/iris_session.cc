// TensorFlow 1's session on the iris data: placeholders, variables and single-row steps, then the
// same step on eight shards.
//
//   iris_session iris.csv                                  on the CPU
//   iris_session iris.csv --target tpu
//   iris_session iris.csv --target grpc://10.0.0.2:8470    on another host
//
// iris.csv is scikit-learn's: a header, then four measurements and the class of each flower. Every
// third flower is held out; the program fails if fewer than 95 % of these are recognized.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "penstock/base/permutation.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/session/tensorflow.h"

namespace tf = penstock::session;
using penstock::base::Array;
using penstock::base::DType;

constexpr int kShards = 8;
constexpr int kEpochs = 60;

struct Iris {
  std::vector<Array> x, y;  // single rows: float32 [1,4] and int64 [1]
  Array test_x, test_y;
};

// FromCsv finds the types of the columns by what they contain.
absl::Status CheckColumns(const std::string& file, const penstock::data::ElementSpec& spec) {
  bool right = spec.size() == 5 && spec[4].dtype == DType::kI64;
  for (int c = 0; right && c < 4; ++c) right = spec[c].dtype == DType::kF32;
  if (right) return absl::OkStatus();
  return absl::InvalidArgumentError(
      file + " must have four measurements and the number of the class in each row, but has " +
      spec.ToString());
}

absl::StatusOr<Iris> ReadIris(const std::string& file) {
  using penstock::data::Dataset;
  // The header is "150,4,setosa,versicolor,virginica": columns are used by position here.
  const Dataset rows = Dataset::FromCsv({file});
  PENSTOCK_RETURN_IF_ERROR(rows.status());
  PENSTOCK_RETURN_IF_ERROR(CheckColumns(file, rows.spec()));
  PENSTOCK_ASSIGN_OR_RETURN(const auto iterator, rows.Batch(150).MakeIterator());
  penstock::base::NamedArrays all;
  PENSTOCK_ASSIGN_OR_RETURN(const bool any, iterator->Next(&all));
  if (!any) return absl::InvalidArgumentError(file + " is empty");
  std::vector<float> test_x;
  std::vector<int64_t> test_y;
  Iris iris;
  // Standardized: minus the mean, divided by the standard deviation.
  std::array<double, 4> mean{}, deviation{};
  const int64_t rows_read = all[0].second.dim(0);
  if (rows_read < 2 * kShards) {
    return absl::InvalidArgumentError(file + " has " + std::to_string(rows_read) +
                                      " flowers, too few to train on eight shards");
  }
  for (size_t c = 0; c < 4; ++c) {
    double squares = 0;
    for (const float value : all[c].second.values<float>()) {
      mean[c] += value / static_cast<double>(rows_read);
      squares += value * value / static_cast<double>(rows_read);
    }
    deviation[c] = std::sqrt(squares - mean[c] * mean[c]);
  }
  for (int64_t i = 0; i < rows_read; ++i) {
    std::vector<float> flower;
    for (size_t c = 0; c < 4; ++c) {
      const double value = all[c].second.data<float>()[i];
      flower.push_back(static_cast<float>((value - mean[c]) / deviation[c]));
    }
    const int64_t label = all[4].second.data<int64_t>()[i];
    if (i % 3 == 2) {
      test_x.insert(test_x.end(), flower.begin(), flower.end());
      test_y.push_back(label);
    } else {
      iris.x.push_back(Array::Of<float>({1, 4}, flower));
      iris.y.push_back(Array::Of<int64_t>({1}, {label}));
    }
  }
  const auto count = static_cast<int64_t>(test_y.size());
  iris.test_x = Array::Of<float>({count, 4}, test_x);
  iris.test_y = Array::Of<int64_t>({count}, test_y);
  return iris;
}

// A network of one hidden layer, its loss and a step, from the rows in `in`.
struct Net {
  tf::Tensor logits, loss;
  tf::Operation step;
};

Net Build(const tf::Tensor& x, const tf::Tensor& y, tf::train::Optimizer& optimizer) {
  const tf::VariableScope scope("net", tf::Reuse::kAuto);
  const tf::Variable w1 = tf::GetVariable("w1", {4, 10});
  const tf::Variable b1 = tf::GetVariable("b1", {10}, DType::kF32, tf::ZerosInitializer());
  const tf::Variable w2 = tf::GetVariable("w2", {10, 3});
  const tf::Variable b2 = tf::GetVariable("b2", {3}, DType::kF32, tf::ZerosInitializer());
  const tf::Tensor hidden = tf::Tanh(tf::MatMul(x, w1) + b1);
  const tf::Tensor logits = tf::MatMul(hidden, w2) + b2;
  const tf::Tensor loss = tf::ReduceMean(tf::nn::SparseSoftmaxCrossEntropyWithLogits(y, logits));
  return {logits, loss, optimizer.Minimize(loss)};
}

absl::StatusOr<double> Accuracy(tf::Session& session, const Net& net, const tf::Tensor& x,
                                const Iris& iris) {
  PENSTOCK_ASSIGN_OR_RETURN(const Array logits, session.Run(net.logits, {{x, iris.test_x}}));
  const Array predictions = logits.ArgMax(-1);
  int64_t right = 0;
  for (int64_t i = 0; i < iris.test_y.dim(0); ++i) {
    right += predictions.item<int64_t>({i}) == iris.test_y.item<int64_t>({i}) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(iris.test_y.dim(0));
}

// One flower a step, as in the program that this example follows.
absl::StatusOr<double> SingleRows(const std::string& target, const Iris& iris) {
  tf::Graph graph;
  const auto scope = graph.AsDefault();
  graph.SetRandomSeed(1);
  const tf::Tensor x = tf::Placeholder(DType::kF32, {-1, 4}, "x");
  const tf::Tensor y = tf::Placeholder(DType::kI64, {-1}, "y");
  tf::train::GradientDescentOptimizer optimizer(0.05);
  const Net net = Build(x, y, optimizer);
  tf::Session session(target);
  PENSTOCK_RETURN_IF_ERROR(session.Run(tf::GlobalVariablesInitializer()));
  PENSTOCK_ASSIGN_OR_RETURN(tf::Callable train, session.MakeCallable({net.step, net.loss}, {x, y}));
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const penstock::base::IndexPermutation order(iris.x.size(), static_cast<uint64_t>(epoch));
    for (size_t i = 0; i < iris.x.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(train({iris.x[order(i)], iris.y[order(i)]}).status());
    }
  }
  return Accuracy(session, net, x, iris);
}

// Rows [begin, begin + 8) of the shuffled flowers as one batch.
std::pair<Array, Array> EightRows(const Iris& iris, const penstock::base::IndexPermutation& order,
                                  size_t begin) {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (size_t i = begin; i < begin + kShards; ++i) {
    const auto row = iris.x[order(i)].values<float>();
    x.insert(x.end(), row.begin(), row.end());
    y.push_back(iris.y[order(i)].item<int64_t>());
  }
  return {Array::Of<float>({kShards, 4}, x), Array::Of<int64_t>({kShards}, y)};
}

// Eight flowers a step, one on each core; CrossShardOptimizer averages the gradients.
absl::StatusOr<double> EightShards(const std::string& target, const Iris& iris) {
  tf::Graph graph;
  const auto scope = graph.AsDefault();
  graph.SetRandomSeed(1);
  const tf::Tensor x = tf::Placeholder(DType::kF32, {-1, 4}, "x");
  const tf::Tensor y = tf::Placeholder(DType::kI64, {-1}, "y");
  const auto computation = [](const tf::Tensors& in) -> tf::Fetches {
    tf::tpu::CrossShardOptimizer optimizer(tf::train::GradientDescentOptimizer(0.2));
    const Net net = Build(in[0], in[1], optimizer);
    return {tf::Reshape(net.loss, {1}), net.step};
  };
  const tf::Tensors losses = tf::tpu::Shard(computation, {x, y}, kShards);
  tf::train::GradientDescentOptimizer unused(0);
  const Net net = Build(x, y, unused);  // the same variables, for the accuracy

  tf::Session session(target, {.cpu_devices = kShards});
  PENSTOCK_RETURN_IF_ERROR(session.Run(tf::tpu::InitializeSystem()).status());
  PENSTOCK_RETURN_IF_ERROR(session.Run(tf::GlobalVariablesInitializer()));
  for (int epoch = 0; epoch < 2 * kEpochs; ++epoch) {
    const penstock::base::IndexPermutation order(iris.x.size(), static_cast<uint64_t>(epoch));
    for (size_t i = 0; i + kShards <= iris.x.size(); i += kShards) {
      const auto [rows, labels] = EightRows(iris, order, i);
      PENSTOCK_RETURN_IF_ERROR(session.Run(losses[0], {{x, rows}, {y, labels}}).status());
    }
  }
  return Accuracy(session, net, x, iris);
}

absl::Status Run(const std::string& file, const std::string& target) {
  PENSTOCK_ASSIGN_OR_RETURN(const Iris iris, ReadIris(file));
  PENSTOCK_ASSIGN_OR_RETURN(const double rows, SingleRows(target, iris));
  std::printf("single rows: %.1f %% of the held-out flowers\n", 100 * rows);
  PENSTOCK_ASSIGN_OR_RETURN(const double shards, EightShards(target, iris));
  std::printf("eight shards: %.1f %% of the held-out flowers\n", 100 * shards);
  if (std::min(rows, shards) >= 0.95) return absl::OkStatus();
  return absl::InternalError("fewer than 95 % of the held-out flowers were recognized");
}

int main(int argc, char** argv) {
  const bool has_target = argc == 4 && std::string(argv[2]) == "--target";
  if (argc != 2 && !has_target) {
    std::fprintf(stderr, "usage: iris_session iris.csv [--target cpu|gpu|tpu|grpc://HOST:PORT]\n");
    return 2;
  }
  const absl::Status status = Run(argv[1], has_target ? argv[3] : "");
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
