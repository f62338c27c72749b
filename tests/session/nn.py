"""Rows of activations, losses and normalization."""

from rows import b, f, given, i, row, steps, tf

from tensorflow.nn import gelu

ROWS = {
    "nn::Relu/float": row(lambda a: tf.nn.relu(a), f(4, 3)),
    "nn::Relu/at zero": row(lambda a: tf.nn.relu(a), steps(4, 5)),
    "nn::Relu/int": row(lambda a: tf.nn.relu(a), i(4, 5)),
    "nn::Relu6/float": row(lambda a: tf.nn.relu6(a), f(4, 5, low=-3, high=9)),
    "nn::Crelu/default": row(lambda a: tf.nn.crelu(a), f(4, 3)),
    "nn::Crelu/axis": row(lambda a: tf.nn.crelu(a, axis=0), f(4, 3)),
    "nn::Elu/float": row(lambda a: tf.nn.elu(a), f(4, 5)),
    "nn::Selu/float": row(lambda a: tf.nn.selu(a), f(4, 5)),
    "nn::LeakyRelu/default": row(lambda a: tf.nn.leaky_relu(a), f(4, 5)),
    "nn::LeakyRelu/alpha": row(lambda a: tf.nn.leaky_relu(a, 0.05), f(4, 5)),
    "nn::LeakyRelu/at zero": row(lambda a: tf.nn.leaky_relu(a, 0.25), steps(4, 5)),
    "nn::LeakyRelu/above one": row(lambda a: tf.nn.leaky_relu(a, 1.5), f(4, 5)),
    "nn::LeakyRelu/int": row(lambda a: tf.nn.leaky_relu(a), i(4, 5)),
    "nn::Softplus/float": row(lambda a: tf.nn.softplus(a), f(4, 5, low=-30, high=30)),
    "nn::Softsign/float": row(lambda a: tf.nn.softsign(a), f(4, 5)),
    "nn::Swish/float": row(lambda a: tf.nn.swish(a), f(4, 5, low=-9, high=9)),
    "nn::Gelu/exact": row(lambda a: gelu(a), f(4, 5)),
    "nn::Gelu/approximate": row(lambda a: gelu(a, True), f(4, 5)),
    "nn::Sigmoid/float": row(lambda a: tf.nn.sigmoid(a), f(4, 5)),
    "nn::Tanh/float": row(lambda a: tf.nn.tanh(a), f(4, 5)),
    "nn::Softmax/last": row(lambda a: tf.nn.softmax(a), f(4, 5, low=-50, high=50)),
    "nn::Softmax/half": row(lambda a: tf.nn.softmax(a), f(4, 5, dtype="float16"), tolerance=2e-3),
    "nn::Softmax/infinite": row(
        lambda a: tf.nn.softmax(a), given([[-float("inf"), 0, 1], [-float("inf"), -float("inf"), 2]]), gradient=False),
    "nn::Softmax/axis": row(lambda a: tf.nn.softmax(a, axis=1), f(4, 5, 3)),
    "nn::LogSoftmax/last": row(lambda a: tf.nn.log_softmax(a), f(4, 5, low=-50, high=50)),
    "nn::LogSoftmax/axis": row(lambda a: tf.nn.log_softmax(a, 0), f(4, 5)),
    "nn::SoftmaxCrossEntropyWithLogits/one hot": row(
        lambda a, b: tf.nn.softmax_cross_entropy_with_logits(labels=a, logits=b),
        given([[1, 0, 0], [0, 0, 1]]), f(2, 3)),
    "nn::SoftmaxCrossEntropyWithLogits/axis": row(
        lambda a, b: tf.nn.softmax_cross_entropy_with_logits(labels=a, logits=b, dim=0),
        given([[0.5, 1], [0.25, 0], [0.25, 0]]), f(3, 2)),
    "nn::SoftmaxCrossEntropyWithLogitsV2/probabilities": row(
        lambda a, b: tf.nn.softmax_cross_entropy_with_logits_v2(a, b),
        given([[0.5, 0.25, 0.25], [0, 0.9, 0.1]]), f(2, 3, low=-9, high=9)),
    "nn::SoftmaxCrossEntropyWithLogitsV2/three axes": row(
        lambda a, b: tf.nn.softmax_cross_entropy_with_logits_v2(a, b), given([[[1, 0], [0, 1]]]), f(1, 2, 2)),
    "nn::SparseSoftmaxCrossEntropyWithLogits/int32": row(
        lambda a, b: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=a, logits=b),
        given([0, 2, 1, 1], "int32"), f(4, 3)),
    "nn::SparseSoftmaxCrossEntropyWithLogits/steps": row(
        lambda a, b: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=a, logits=b),
        given([[0, 2], [1, 1]], "int64"), f(2, 2, 3, low=-20, high=20)),
    "nn::SparseSoftmaxCrossEntropyWithLogits/double": row(
        lambda a, b: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=a, logits=b),
        given([0, 2, 1, 1], "int32"), f(4, 3, dtype="float64")),
    "nn::SigmoidCrossEntropyWithLogits/float": row(
        lambda a, b: tf.nn.sigmoid_cross_entropy_with_logits(labels=a, logits=b),
        f(4, 3, low=0, high=1), f(4, 3, low=-20, high=20)),
    "nn::WeightedCrossEntropyWithLogits/number": row(
        lambda a, b: tf.nn.weighted_cross_entropy_with_logits(labels=a, logits=b, pos_weight=2.5),
        f(4, 3, low=0, high=1), f(4, 3)),
    "nn::LogPoissonLoss/short": row(lambda a, b: tf.nn.log_poisson_loss(a, b), f(4, low=0, high=9), f(4)),
    "nn::LogPoissonLoss/full": row(
        lambda a, b: tf.nn.log_poisson_loss(a, b, compute_full_loss=True),
        given([0, 0.5, 1, 7, 30]), f(5), gradient=False),
    "nn::L2Loss/float": row(lambda a: tf.nn.l2_loss(a), f(4, 3)),
    "nn::L2Normalize/axis": row(lambda a: tf.nn.l2_normalize(a, 1), f(4, 3)),
    "nn::L2Normalize/all": row(lambda a: tf.nn.l2_normalize(a), f(4, 3)),
    "nn::L2Normalize/zeros": row(
        lambda a: tf.nn.l2_normalize(a, -1, epsilon=1e-4), given([[0, 0], [3, 4]]), gradient=False),
    "nn::BiasAdd/last": row(lambda a, b: tf.nn.bias_add(a, b), f(2, 3, 4), f(4)),
    "nn::BiasAdd/nchw": row(lambda a, b: tf.nn.bias_add(a, b, "NCHW"), f(2, 3, 4, 5), f(3)),
    "nn::Moments/batch": row(lambda a: tf.nn.moments(a, [0]), f(5, 3)),
    "nn::Moments/keep dims": row(lambda a: tf.nn.moments(a, [0, 1, 2], keep_dims=True), f(2, 4, 4, 3)),
    "nn::WeightedMoments/rows": row(
        lambda a, b: tf.nn.weighted_moments(a, [0], b), f(5, 3), f(5, 1, low=0.5, high=2)),
    "nn::BatchNormalization/all": row(
        lambda a, b, c, d, e: tf.nn.batch_normalization(a, b, c, d, e, 1e-3),
        f(5, 3), f(3), f(3, low=0.5, high=2), f(3), f(3)),
    "nn::BatchNormalization/no scale": row(
        lambda a, b, c, d: tf.nn.batch_normalization(a, b, c, d, None, 1e-3),
        f(5, 3), f(3), f(3, low=0.5, high=2), f(3)),
    "nn::BatchNormalization/plain": row(
        lambda a, b, c: tf.nn.batch_normalization(a, b, c, None, None, 1e-3), f(5, 3), f(3), f(3, low=0.5, high=2)),
    "nn::FusedBatchNorm/training": row(
        lambda a, b, c: tf.nn.fused_batch_norm(a, b, c), f(2, 4, 4, 3), f(3), f(3), tolerance=1e-4),
    "nn::FusedBatchNorm/inference": row(
        lambda a, b, c, d, e: tf.nn.fused_batch_norm(a, b, c, d, e, is_training=False)[0],
        f(2, 4, 4, 3), f(3), f(3), f(3), f(3, low=0.5, high=2), tolerance=1e-4),
    "nn::FusedBatchNorm/averaged": row(
        lambda a, b, c, d, e: tf.nn.fused_batch_norm(a, b, c, d, e, exponential_avg_factor=0.25),
        f(2, 4, 4, 3), f(3), f(3), f(3), f(3, low=0.5, high=2), gradient=False),
    "nn::LocalResponseNormalization/default": row(lambda a: tf.nn.lrn(a), f(2, 3, 3, 7)),
    "nn::LocalResponseNormalization/radius": row(lambda a: tf.nn.lrn(a, 2, 2.0, 0.1, 0.75), f(2, 3, 3, 7)),
    "nn::ZeroFraction/steps": row(lambda a: tf.nn.zero_fraction(a), steps(4, 9)),
    "nn::XwPlusB/plain": row(lambda a, b, c: tf.nn.xw_plus_b(a, b, c), f(4, 3), f(3, 2), f(2)),
    "nn::ReluLayer/plain": row(lambda a, b, c: tf.nn.relu_layer(a, b, c), f(4, 3), f(3, 2), f(2)),
}
