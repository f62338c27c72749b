"""Rows of reductions, cumulative and segment operations, norms."""

import numpy as np

from rows import MORE, b, f, given, i, row, steps, tf

ROWS = {
    "ReduceSum/all": row(lambda a: tf.reduce_sum(a), f(3, 4)),
    "ReduceSum/axis": row(lambda a: tf.reduce_sum(a, 1), f(3, 4, 2)),
    "ReduceSum/negative axes": row(lambda a: tf.reduce_sum(a, [0, -1]), f(3, 4, 2)),
    "ReduceSum/keepdims": row(lambda a: tf.reduce_sum(a, [1], keepdims=True), f(3, 4, 2)),
    "ReduceSum/no axes": row(lambda a: tf.reduce_sum(a, []), f(3, 4)),
    "ReduceSum/int32": row(lambda a: tf.reduce_sum(a, 0), i(3, 4)),
    "ReduceSum/empty axis": row(lambda a: tf.reduce_sum(a, 1), f(3, 0)),
    "ReduceSum/double": row(lambda a: tf.reduce_sum(a, 0), f(3, 4, dtype="float64")),
    "ReduceMean/all": row(lambda a: tf.reduce_mean(a), f(3, 4)),
    "ReduceMean/keepdims all": row(lambda a: tf.reduce_mean(a, keepdims=True), f(3, 4)),
    "ReduceMean/axes": row(lambda a: tf.reduce_mean(a, [1, 2]), f(3, 4, 2)),
    "ReduceMean/uint8": row(lambda a: tf.reduce_mean(a, 1), i(3, 300, low=0, high=256, dtype="uint8")),
    "ReduceMean/large int": row(lambda a: tf.reduce_mean(a, 0), given([2000000000, 2000000000], "int32")),
    "ReduceMean/int": row(lambda a: tf.reduce_mean(a, 0), i(7, 3)),
    "ReduceMean/half": row(lambda a: tf.reduce_mean(a, 1), f(3, 40, dtype="float16"), tolerance=2e-3),
    "ReduceMax/empty": row(lambda a: tf.reduce_max(a, 0), f(0, 3), gradient=False),
    "ReduceMin/empty int": row(lambda a: tf.reduce_min(a, 0), i(0, 3)),
    "ReduceMean/empty": row(lambda a: tf.reduce_mean(a, 0), f(0, 3), gradient=False),
    "ReduceSum/no rows": row(lambda a: tf.reduce_sum(a, 0), f(0, 3)),
    "ReduceLogsumexp/infinite": row(
        lambda a: tf.reduce_logsumexp(a, 1),
        given([[-float("inf"), -float("inf")], [0, float("inf")]]), gradient=False),
    "ReduceMean/scalar": row(lambda a: tf.reduce_mean(a), f()),
    "ReduceProd/axis": row(lambda a: tf.reduce_prod(a, -1), f(3, 4)),
    "ReduceProd/zeros": row(lambda a: tf.reduce_prod(a, 1), steps(3, 4)),
    "ReduceProd/empty": row(lambda a: tf.reduce_prod(a, 0), f(0, 4)),
    "ReduceMax/ties": row(lambda a: tf.reduce_max(a, 1), steps(3, 8)),
    "ReduceMax/int": row(lambda a: tf.reduce_max(a, 0, keepdims=True), i(3, 8)),
    "ReduceMin/all": row(lambda a: tf.reduce_min(a), f(3, 8)),
    "ReduceMin/uint8": row(lambda a: tf.reduce_min(a, 1), i(3, 8, low=0, high=200, dtype="uint8")),
    "ReduceAll/axis": row(lambda a: tf.reduce_all(a, 1), b(6, 2)),
    "ReduceAny/all": row(lambda a: tf.reduce_any(a), b(6, 2)),
    "ReduceAny/keepdims": row(lambda a: tf.reduce_any(a, -1, keepdims=True), b(6, 2)),
    "ReduceLogsumexp/axis": row(lambda a: tf.reduce_logsumexp(a, 1), f(3, 4, low=-50, high=90)),
    "ReduceLogsumexp/all": row(lambda a: tf.reduce_logsumexp(a), f(3, 4)),
    "ReduceLogsumexp/keepdims": row(lambda a: tf.reduce_logsumexp(a, [0], keepdims=True), f(3, 4)),
    "ReduceEuclideanNorm/axis": row(lambda a: tf.math.reduce_euclidean_norm(a, 1), f(3, 4)),
    "ReduceVariance/axis": row(lambda a: tf.math.reduce_variance(a, 1), f(3, 4)),
    "ReduceStd/keepdims": row(lambda a: tf.math.reduce_std(a, 0, keepdims=True), f(3, 4)),
    "CountNonzero/axis": row(lambda a: tf.count_nonzero(a, 1), steps(3, 9)),
    "CountNonzero/bool int32": row(lambda a: tf.count_nonzero(a, dtype=tf.int32), b(3, 9)),
    "ArgMax/default axis": row(lambda a: tf.argmax(a), steps(4, 3)),
    "ArgMax/negative axis": row(lambda a: tf.argmax(a, -1), f(4, 3)),
    "ArgMax/int32 output": row(lambda a: tf.argmax(a, 1, output_type=tf.int32), f(4, 3, 2)),
    "ArgMin/float": row(lambda a: tf.argmin(a, 1), steps(4, 3)),
    "ArgMin/int": row(lambda a: tf.argmin(a, 0), i(4, 3)),
    "ArgMin/uint8": row(lambda a: tf.argmin(a, 1), i(4, 3, low=0, high=200, dtype="uint8")),
    "Cumsum/default": row(lambda a: tf.cumsum(a), f(4, 3)),
    "Cumsum/exclusive": row(lambda a: tf.cumsum(a, 1, exclusive=True), f(4, 3)),
    "Cumsum/reverse": row(lambda a: tf.cumsum(a, -1, reverse=True), f(4, 3)),
    "Cumsum/exclusive reverse": row(lambda a: tf.cumsum(a, 1, exclusive=True, reverse=True), i(4, 5)),
    "Cumprod/default": row(lambda a: tf.cumprod(a, 1), f(4, 3)),
    "Cumprod/exclusive reverse": row(
        lambda a: tf.cumprod(a, 1, exclusive=True, reverse=True), f(4, 3, low=0.5, high=2)),
    "CumulativeLogsumexp/default": row(lambda a: tf.math.cumulative_logsumexp(a, 1), f(4, 5)),
    "CumulativeLogsumexp/infinite": row(lambda a: tf.math.cumulative_logsumexp(a, 1),
                                        given([[-float("inf"), -float("inf"), 0, 1]]), gradient=False),
    "CumulativeLogsumexp/reverse": row(lambda a: tf.math.cumulative_logsumexp(a, 1, reverse=True), f(4, 5)),
    "CumulativeLogsumexp/exclusive": row(
        lambda a: tf.math.cumulative_logsumexp(a, 1, exclusive=True), f(4, 5), gradient=False),
    "Norm/all": row(lambda a: tf.norm(a), f(3, 4)),
    "Norm/axis": row(lambda a: tf.norm(a, axis=1), f(3, 4)),
    "Norm/one": row(lambda a: tf.norm(a, 1, axis=1, keepdims=True), f(3, 4)),
    "Norm/inf": row(lambda a: tf.norm(a, np.inf, axis=0), f(3, 4)),
    "Norm/three": row(lambda a: tf.norm(a, 3, axis=1), f(3, 4)),
    "Norm/fro": row(lambda a: tf.norm(a, "fro", axis=[-2, -1]), f(2, 3, 4)),
    "Norm/matrix one": row(lambda a: tf.norm(a, 1, axis=[1, 2]), f(2, 3, 4)),
    "Norm/matrix inf": row(lambda a: tf.norm(a, np.inf, axis=[1, 2], keepdims=True), f(2, 3, 4)),
    "ClipByNorm/clipped": row(lambda a: tf.clip_by_norm(a, 1.5), f(3, 4)),
    "ClipByNorm/not clipped": row(lambda a: tf.clip_by_norm(a, 50.0), f(3, 4)),
    "ClipByNorm/axes": row(lambda a: tf.clip_by_norm(a, 1.5, [1]), f(3, 4)),
    "ClipByNorm/zeros": row(lambda a: tf.clip_by_norm(a, 1.5), given([0, 0, 0])),
    "ClipByAverageNorm/clipped": row(lambda a: tf.clip_by_average_norm(a, 0.1), f(3, 4)),
    "GlobalNorm/three": row(lambda a, b, c: tf.global_norm([a, b, c]), f(3, 4), f(5), f()),
    "ClipByGlobalNorm/clipped": row(
        lambda a, b: (lambda t, n: [*t, n])(*tf.clip_by_global_norm([a, b], 1.0)), f(3, 4), f(5)),
    "ClipByGlobalNorm/not clipped": row(lambda a, b: tf.clip_by_global_norm([a, b], 100.0)[0], f(3, 4), f(5)),
    "UnsortedSegmentSum/rows": row(
        lambda a, b: tf.unsorted_segment_sum(a, b, 5), f(6, 2), given([0, 2, 0, -1, 2, 3], "int32")),
    "UnsortedSegmentSum/two axes": row(
        lambda a, b: tf.unsorted_segment_sum(a, b, 3), i(2, 3, 2), given([[0, 2, 0], [1, 2, 1]], "int64")),
    "UnsortedSegmentMean/rows": row(
        lambda a, b: tf.unsorted_segment_mean(a, b, 4), f(6, 2), given([0, 2, 0, 1, 2, 2], "int32")),
    "UnsortedSegmentMean/int": row(
        lambda a, b: tf.unsorted_segment_mean(a, b, 4), i(6, 2), given([0, 2, 0, 1, 2, 2], "int32")),
    "UnsortedSegmentMean/int16": row(
        lambda a, b: tf.unsorted_segment_mean(a, b, 4),
        i(6, 2, dtype="int16"), given([0, 2, 0, 1, 2, 2], "int32")),
    "UnsortedSegmentProd/rows": row(
        lambda a, b: tf.unsorted_segment_prod(a, b, 4), f(6, 2), given([0, 2, 0, 1, 2, 2], "int32")),
    "UnsortedSegmentMax/rows": row(
        lambda a, b: tf.unsorted_segment_max(a, b, 4), f(6, 2), given([0, 2, 0, 1, 2, 2], "int32")),
    "UnsortedSegmentMin/int": row(
        lambda a, b: tf.unsorted_segment_min(a, b, 4), i(6, 2), given([0, 2, 0, 1, 2, 2], "int32")),
    "UnsortedSegmentSqrtN/rows": row(
        lambda a, b: tf.unsorted_segment_sqrt_n(a, b, 4), f(6, 2), given([0, 2, 0, 1, 2, 2], "int32")),
    "SegmentSum/rows": row(
        lambda a, b: tf.segment_sum(a, b), f(6, 2), given([0, 0, 1, 1, 1, 3], "int32"), shape=MORE),
    "SegmentMean/rows": row(
        lambda a, b: tf.segment_mean(a, b), f(6, 2), given([0, 0, 1, 1, 1, 3], "int32"), shape=MORE),
    "SegmentMean/int": row(
        lambda a, b: tf.segment_mean(a, b),
        given([7, -2, -5, 3, 3, 5], "int32"), given([0, 0, 1, 1, 1, 3], "int32"), shape=MORE),
    "SegmentProd/rows": row(
        lambda a, b: tf.segment_prod(a, b), f(6), given([0, 0, 1, 1, 1, 3], "int32"), shape=MORE, gradient=False),
    "SegmentMax/rows": row(
        lambda a, b: tf.segment_max(a, b), f(6, 2), given([0, 0, 1, 1, 1, 3], "int32"), shape=MORE),
    "SegmentMax/256 rows of uint8": row(
        lambda a, b: tf.segment_max(a, b),
        i(256, low=1, high=200, dtype="uint8"), given([0] * 256, "int32"), shape=MORE),
    "SegmentMin/rows": row(
        lambda a, b: tf.segment_min(a, b), f(6, 2), given([0, 0, 1, 1, 1, 3], "int32"), shape=MORE),
    "ConfusionMatrix/int32": row(
        lambda a, b: tf.math.confusion_matrix(a, b, 4),
        given([0, 1, 1, 2, 3], "int32"), given([0, 1, 2, 2, 0], "int32")),
    "ConfusionMatrix/weights": row(
        lambda a, b, c: tf.math.confusion_matrix(a, b, 4, weights=c, dtype=tf.float32),
        given([0, 1, 1, 2, 3], "int64"), given([0, 1, 2, 2, 0], "int64"), f(5), gradient=False),
}
