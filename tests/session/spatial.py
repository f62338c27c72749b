"""Rows of convolutions and pooling."""

from rows import MORE, b, f, row, steps, tf

ROWS = {
    "nn::Conv2D/same": row(lambda a, b: tf.nn.conv2d(a, b, 1, "SAME"), f(2, 5, 7, 3), f(3, 3, 3, 4)),
    "nn::Conv2D/same strided": row(
        lambda a, b: tf.nn.conv2d(a, b, [1, 2, 2, 1], "SAME"), f(2, 5, 6, 3), f(3, 2, 3, 4)),
    "nn::Conv2D/valid two strides": row(
        lambda a, b: tf.nn.conv2d(a, b, [2, 3], "VALID"), f(2, 7, 8, 3), f(3, 2, 3, 4)),
    "nn::Conv2D/explicit": row(
        lambda a, b: tf.nn.conv2d(a, b, 1, [[0, 0], [1, 2], [0, 3], [0, 0]]), f(2, 5, 6, 3), f(3, 3, 3, 4)),
    "nn::Conv2D/dilated": row(
        lambda a, b: tf.nn.conv2d(a, b, 1, "SAME", dilations=[1, 2, 3, 1]),
        f(2, 7, 8, 3), f(3, 3, 3, 4), gradient=False),
    "nn::Conv2D/1x1 double": row(
        lambda a, b: tf.nn.conv2d(a, b, 1, "VALID"), f(2, 3, 4, 3, dtype="float64"), f(1, 1, 3, 4, dtype="float64")),
    "nn::Conv2D/empty batch": row(
        lambda a, b: tf.nn.conv2d(a, b, 1, "SAME"), f(0, 5, 7, 3), f(3, 3, 3, 4), gradient=False),
    "nn::Conv2D/nchw": row(
        lambda a, b: tf.transpose(tf.nn.conv2d(tf.transpose(a, [0, 2, 3, 1]), b, [1, 2, 1, 1], "SAME"), [0, 3, 1, 2]),
        f(2, 3, 5, 6), f(3, 3, 3, 4)),
    "nn::Conv1D/same": row(lambda a, b: tf.nn.conv1d(a, b, 1, "SAME"), f(2, 7, 3), f(3, 3, 4)),
    "nn::Conv1D/valid strided": row(lambda a, b: tf.nn.conv1d(a, b, 2, "VALID"), f(2, 7, 3), f(3, 3, 4)),
    "nn::Conv3D/same": row(
        lambda a, b: tf.nn.conv3d(a, b, [1, 1, 1, 1, 1], "SAME"), f(1, 3, 4, 5, 2), f(2, 3, 2, 2, 3)),
    "nn::Conv3D/strided": row(
        lambda a, b: tf.nn.conv3d(a, b, [1, 2, 1, 2, 1], "VALID"), f(1, 4, 4, 5, 2), f(2, 2, 2, 2, 3)),
    "nn::DepthwiseConv2D/same": row(
        lambda a, b: tf.nn.depthwise_conv2d(a, b, [1, 1, 1, 1], "SAME"), f(2, 5, 6, 3), f(3, 3, 3, 2)),
    "nn::DepthwiseConv2D/strided": row(
        lambda a, b: tf.nn.depthwise_conv2d(a, b, [1, 2, 2, 1], "VALID"), f(2, 6, 6, 3), f(3, 3, 3, 1)),
    "nn::DepthwiseConv2D/dilated": row(
        lambda a, b: tf.nn.depthwise_conv2d(a, b, [1, 1, 1, 1], "SAME", rate=[2, 2]), f(2, 6, 6, 2), f(3, 3, 2, 1)),
    "nn::SeparableConv2D/same": row(
        lambda a, b, c: tf.nn.separable_conv2d(a, b, c, [1, 1, 1, 1], "SAME"),
        f(2, 5, 6, 3), f(3, 3, 3, 2), f(1, 1, 6, 4)),
    "nn::AtrousConv2D/valid": row(lambda a, b: tf.nn.atrous_conv2d(a, b, 2, "VALID"), f(2, 8, 8, 2), f(3, 3, 2, 3)),
    "nn::Conv2DTranspose/same": row(
        lambda a, b: tf.nn.conv2d_transpose(a, b, [2, 6, 8, 2], [1, 2, 2, 1]),
        f(2, 3, 4, 3), f(3, 3, 2, 3), shape=MORE),
    "nn::Conv2DTranspose/odd size": row(
        lambda a, b: tf.nn.conv2d_transpose(a, b, [2, 5, 7, 2], 2), f(2, 3, 4, 3), f(3, 3, 2, 3), shape=MORE),
    "nn::Conv2DTranspose/valid": row(
        lambda a, b: tf.nn.conv2d_transpose(a, b, [2, 7, 8, 2], 2, "VALID"), f(2, 3, 4, 3), f(3, 2, 2, 3), shape=MORE),
    "nn::Conv2DTranspose/batch of the input": row(
        lambda a, b: tf.nn.conv2d_transpose(a, b, tf.stack([tf.shape(a)[0], 6, 8, 2]), 2),
        f(2, 3, 4, 3), f(3, 3, 2, 3)),
    "nn::Conv1DTranspose/same": row(
        lambda a, b: tf.nn.conv1d_transpose(a, b, [2, 6, 2], 2), f(2, 3, 3), f(3, 2, 3), shape=MORE),
    "nn::Conv3DTranspose/same": row(
        lambda a, b: tf.nn.conv3d_transpose(a, b, [1, 4, 6, 4, 3], [1, 2, 2, 2, 1]),
        f(1, 2, 3, 2, 2), f(2, 2, 2, 3, 2)),
    "nn::MaxPool/same": row(lambda a: tf.nn.max_pool(a, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), f(2, 5, 7, 3)),
    "nn::MaxPool/valid overlapping": row(lambda a: tf.nn.max_pool(a, 3, 1, "VALID"), f(2, 5, 7, 3)),
    "nn::MaxPool/ties": row(lambda a: tf.nn.max_pool(a, 3, 2, "SAME"), steps(2, 6, 6, 2)),
    "nn::MaxPool/nchw": row(
        lambda a: tf.transpose(tf.nn.max_pool(tf.transpose(a, [0, 2, 3, 1]), 2, 2, "SAME"), [0, 3, 1, 2]),
        f(2, 3, 5, 7)),
    "nn::AvgPool/same": row(lambda a: tf.nn.avg_pool(a, [1, 3, 3, 1], [1, 2, 2, 1], "SAME"), f(2, 5, 7, 3)),
    "nn::AvgPool/valid": row(lambda a: tf.nn.avg_pool(a, 2, 2, "VALID"), f(2, 5, 7, 3)),
    "nn::MaxPool1D/same": row(lambda a: tf.nn.max_pool1d(a, 2, 2, "SAME"), f(2, 7, 3)),
    "nn::AvgPool1D/valid": row(lambda a: tf.nn.avg_pool1d(a, 3, 2, "VALID"), f(2, 7, 3)),
    "nn::MaxPool3D/same": row(lambda a: tf.nn.max_pool3d(a, 2, 2, "SAME"), f(1, 3, 4, 5, 2)),
    "nn::AvgPool3D/same": row(lambda a: tf.nn.avg_pool3d(a, 2, 2, "SAME"), f(1, 3, 4, 5, 2)),
}
