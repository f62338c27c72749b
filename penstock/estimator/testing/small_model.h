// A small classifier and its data, for tests of estimators.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/estimator/estimator.h"
#include "penstock/session/layers.h"
#include "penstock/session/losses.h"
#include "penstock/session/metrics.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/train/optimizer.h"

namespace penstock::estimator::testing {

// A temporary folder, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "estimator-XXXXXX").string();
    path_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// `count` rows of iris-like data: x f32[4], three classes around three centers.
inline base::NamedArrays Flowers(int64_t count) {
  const float centers[3][4] = {{-2, 1, 0, 2}, {1, -1, 2, 0}, {0, 2, -2, -1}};
  base::Array x = base::Array::Zeros(base::DType::kF32, {count, 4});
  base::Array label = base::Array::Zeros(base::DType::kI64, {count});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = i * 7 % 3;
    label.mutable_data<int64_t>()[i] = c;
    for (int64_t j = 0; j < 4; ++j) {
      const double noise = std::sin(static_cast<double>(i * 4 + j) * 12.9898) * 0.7;
      x.mutable_data<float>()[i * 4 + j] = centers[c][j] + static_cast<float>(noise);
    }
  }
  return {{"x", x}, {"label", label}};
}

// Shuffled batches, without end.
inline data::Dataset TrainBatches(int64_t count = 96, int64_t batch = 8) {
  return data::Dataset::FromArrays(Flowers(count)).Shuffle(count).Repeat().Batch(batch);
}
// One pass.
inline data::Dataset TestBatches(int64_t count = 30, int64_t batch = 8) {
  return data::Dataset::FromArrays(Flowers(count)).Batch(batch);
}

// A hidden layer of params["units"] (default 8), and a softmax. With params["dropout"], dropout.
inline EstimatorSpec SmallModelFn(const NamedTensors& features, const NamedTensors& labels,
                                  ModeKeys mode, const Params& params) {
  namespace tf = session;
  tf::Tensor net = tf::layers::Dense(features["x"], params.Get<int64_t>("units", 8),
                                     {.activation = tf::nn::Relu, .name = "hidden"});
  if (const double rate = params.Get("dropout", 0.0); rate > 0) {
    net = tf::layers::Dropout(net, rate, {.training = mode == ModeKeys::kTrain});
  }
  const tf::Tensor logits = tf::layers::Dense(net, 3, {.name = "logits"});
  EstimatorSpec spec{.mode = mode,
                     .predictions = {{"class", tf::ArgMax(logits, 1)},
                                     {"probabilities", tf::nn::Softmax(logits)}}};
  if (mode == ModeKeys::kPredict) return spec;
  spec.loss = tf::losses::SparseSoftmaxCrossEntropy(labels, logits);
  if (mode == ModeKeys::kEval) {
    spec.eval_metric_ops = {{"accuracy", tf::metrics::Accuracy(labels, spec.predictions["class"])}};
    return spec;
  }
  tf::train::AdamOptimizer optimizer(params.Get("rate", 0.05));
  spec.train_op = optimizer.Minimize(spec.loss, tf::GetGlobalStep());
  return spec;
}

// A configuration that is silent and has a seed.
inline RunConfig QuietConfig() {
  RunConfig config;
  config.tf_random_seed = 7;
  config.log = nullptr;
  config.save_summary_steps = 0;
  return config;
}

}  // namespace penstock::estimator::testing
