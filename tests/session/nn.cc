// Activations, losses and normalization.
#include "tests/session/rows.h"

namespace penstock::tests {

RowTable NnRows() {
  return {
      {"nn::Relu/float", [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Relu(x[0])}; }},
      {"nn::Relu/at zero",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Relu(x[0])}; }},
      {"nn::Relu/int", [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Relu(x[0])}; }},
      {"nn::Relu6/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Relu6(x[0])}; }},
      {"nn::Crelu/default",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Crelu(x[0])}; }},
      {"nn::Crelu/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Crelu(x[0], "", 0)}; }},
      {"nn::Elu/float", [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Elu(x[0])}; }},
      {"nn::Selu/float", [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Selu(x[0])}; }},
      {"nn::LeakyRelu/default",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::LeakyRelu(x[0])}; }},
      {"nn::LeakyRelu/alpha",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::LeakyRelu(x[0], 0.05)}; }},
      {"nn::LeakyRelu/at zero",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::LeakyRelu(x[0], 0.25)}; }},
      {"nn::LeakyRelu/above one",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::LeakyRelu(x[0], 1.5)}; }},
      {"nn::LeakyRelu/int",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::LeakyRelu(x[0])}; }},
      {"nn::Softplus/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Softplus(x[0])}; }},
      {"nn::Softsign/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Softsign(x[0])}; }},
      {"nn::Swish/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Swish(x[0])}; }},
      {"nn::Gelu/exact", [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Gelu(x[0])}; }},
      {"nn::Gelu/approximate",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Gelu(x[0], true)}; }},
      {"nn::Sigmoid/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Sigmoid(x[0])}; }},
      {"nn::Tanh/float", [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Tanh(x[0])}; }},
      {"nn::Softmax/last",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Softmax(x[0])}; }},
      {"nn::Softmax/half",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Softmax(x[0])}; }},
      {"nn::Softmax/infinite",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Softmax(x[0])}; }},
      {"nn::Softmax/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::Softmax(x[0], 1)}; }},
      {"nn::LogSoftmax/last",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::LogSoftmax(x[0])}; }},
      {"nn::LogSoftmax/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::LogSoftmax(x[0], 0)}; }},
      {"nn::SoftmaxCrossEntropyWithLogits/one hot",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::SoftmaxCrossEntropyWithLogits(x[0], x[1])};
       }},
      {"nn::SoftmaxCrossEntropyWithLogits/axis",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::SoftmaxCrossEntropyWithLogits(x[0], x[1], 0)};
       }},
      {"nn::SoftmaxCrossEntropyWithLogitsV2/probabilities",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::SoftmaxCrossEntropyWithLogitsV2(x[0], x[1])};
       }},
      {"nn::SoftmaxCrossEntropyWithLogitsV2/three axes",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::SoftmaxCrossEntropyWithLogitsV2(x[0], x[1])};
       }},
      {"nn::SparseSoftmaxCrossEntropyWithLogits/int32",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::SparseSoftmaxCrossEntropyWithLogits(x[0], x[1])};
       }},
      {"nn::SparseSoftmaxCrossEntropyWithLogits/steps",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::SparseSoftmaxCrossEntropyWithLogits(x[0], x[1])};
       }},
      {"nn::SparseSoftmaxCrossEntropyWithLogits/double",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::SparseSoftmaxCrossEntropyWithLogits(x[0], x[1])};
       }},
      {"nn::SigmoidCrossEntropyWithLogits/float",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::SigmoidCrossEntropyWithLogits(x[0], x[1])};
       }},
      {"nn::WeightedCrossEntropyWithLogits/number",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::WeightedCrossEntropyWithLogits(x[0], x[1], 2.5)};
       }},
      {"nn::LogPoissonLoss/short",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::LogPoissonLoss(x[0], x[1])}; }},
      {"nn::LogPoissonLoss/full",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::LogPoissonLoss(x[0], x[1], {.compute_full_loss = true})};
       }},
      {"nn::L2Loss/float",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::L2Loss(x[0])}; }},
      {"nn::L2Normalize/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::L2Normalize(x[0], 1)}; }},
      {"nn::L2Normalize/all",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::L2Normalize(x[0])}; }},
      {"nn::L2Normalize/zeros",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::L2Normalize(x[0], -1, 1e-4)}; }},
      {"nn::BiasAdd/last",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::BiasAdd(x[0], x[1])}; }},
      {"nn::BiasAdd/nchw",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::BiasAdd(x[0], x[1], "NCHW")}; }},
      {"nn::Moments/batch",
       [](const tf::Tensors& x) -> tf::Tensors { return Both(tf::nn::Moments(x[0], 0)); }},
      {"nn::Moments/keep dims",
       [](const tf::Tensors& x) -> tf::Tensors {
         return Both(tf::nn::Moments(x[0], {0, 1, 2}, {.keep_dims = true}));
       }},
      {"nn::WeightedMoments/rows",
       [](const tf::Tensors& x) -> tf::Tensors {
         return Both(tf::nn::WeightedMoments(x[0], 0, x[1]));
       }},
      {"nn::BatchNormalization/all",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::BatchNormalization(x[0], x[1], x[2], x[3], x[4], 1e-3)};
       }},
      {"nn::BatchNormalization/no scale",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::BatchNormalization(x[0], x[1], x[2], x[3], {}, 1e-3)};
       }},
      {"nn::BatchNormalization/plain",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::BatchNormalization(x[0], x[1], x[2], {}, {}, 1e-3)};
       }},
      {"nn::FusedBatchNorm/training",
       [](const tf::Tensors& x) -> tf::Tensors {
         return [&] {
           auto r = tf::nn::FusedBatchNorm(x[0], x[1], x[2]);
           return tf::Tensors{r.y, r.batch_mean, r.batch_var};
         }();
       }},
      {"nn::FusedBatchNorm/inference",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::FusedBatchNorm(x[0], x[1], x[2],
                                        {.mean = x[3], .variance = x[4], .is_training = false})
                     .y};
       }},
      {"nn::FusedBatchNorm/averaged",
       [](const tf::Tensors& x) -> tf::Tensors {
         return [&] {
           auto r = tf::nn::FusedBatchNorm(
               x[0], x[1], x[2], {.mean = x[3], .variance = x[4], .exponential_avg_factor = 0.25});
           return tf::Tensors{r.y, r.batch_mean, r.batch_var};
         }();
       }},
      {"nn::LocalResponseNormalization/default",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::LocalResponseNormalization(x[0])};
       }},
      {"nn::LocalResponseNormalization/radius",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::LocalResponseNormalization(
             x[0], {.depth_radius = 2, .bias = 2, .alpha = 0.1, .beta = 0.75})};
       }},
      {"nn::ZeroFraction/steps",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::ZeroFraction(x[0])}; }},
      {"nn::XwPlusB/plain",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::XwPlusB(x[0], x[1], x[2])}; }},
      {"nn::ReluLayer/plain",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::ReluLayer(x[0], x[1], x[2])}; }},
  };
}

}  // namespace penstock::tests
