#include "bench/idioms/tf1_resnet.h"

#include "penstock/session/control_flow.h"
#include "penstock/session/layers.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/train/optimizer.h"

#include "bench/idioms/idioms.h"

namespace penstock::idioms {
namespace {

namespace tf = penstock::session;

tf::Tensor ConvNorm(const tf::Tensor& x, int64_t filters, int64_t kernel, int64_t strides) {
  const tf::Tensor y = tf::layers::Conv2D(
      x, filters, kernel, {.strides = strides, .padding = "same", .use_bias = false});
  return tf::layers::BatchNormalization(y, {.training = true});
}

tf::Tensor Block(const tf::Tensor& x, int64_t filters, int64_t strides, bool project) {
  tf::Tensor y = tf::nn::Relu(ConvNorm(x, filters, 3, strides));
  y = ConvNorm(y, filters, 3, 1);
  return tf::nn::Relu(y + (project ? ConvNorm(x, filters, 1, strides) : x));
}

}  // namespace

tf::Tensor Tf1ResNet20(const tf::Tensor& images) {
  tf::Tensor x = tf::Cast(images, base::DType::kF32) * (1 / 255.0);
  x = tf::nn::Relu(ConvNorm(x, 16, 3, 1));
  for (const int64_t filters : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      const bool project = block == 0 && filters > 16;
      x = Block(x, filters, project ? 2 : 1, project);
    }
  }
  return tf::layers::Dense(tf::ReduceMean(x, {1, 2}), kClasses);
}

tf::Operation Tf1TrainOp(const tf::Tensor& loss, const tf::Variable& global_step) {
  const tf::ControlDependencies updates(
      loss.graph()->GetCollectionOperations(tf::graph_keys::kUpdateOps));
  return tf::train::MomentumOptimizer(kLearningRate, kMomentum).Minimize(loss, global_step);
}

}  // namespace penstock::idioms
