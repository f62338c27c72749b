"""Rows of functions over the rows of tensors."""

from rows import f, i, row, tf


def affine(w):
    return lambda a, x: tf.tanh(tf.matmul(a, w) + x)


def pair(a, x):
    return a[0] * x[0] + a[1], a[1] * x[1]


def branch(x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x * x, lambda: -3.0 * x)


ROWS = {
    "MapFn/one": row(lambda a: tf.map_fn(lambda x: x * x + tf.reduce_sum(x), a), f(4, 3)),
    "MapFn/scalars": row(lambda a: tf.map_fn(tf.sin, a), f(5)),
    "MapFn/from outside": row(lambda a, w: tf.map_fn(lambda x: tf.tensordot(x, w, 1), a), f(4, 3), f(3, 2)),
    "MapFn/several": row(
        lambda a, b: tf.map_fn(lambda x: (x[0] * x[1], tf.exp(x[1])), (a, b), dtype=(tf.float32, tf.float32)),
        f(4, 3), f(4)),
    "MapFn/other type": row(
        lambda a: tf.map_fn(lambda x: tf.argmax(x, output_type=tf.int32), a, dtype=tf.int32), f(4, 3)),
    "MapFn/int": row(lambda a: tf.map_fn(lambda x: x + 1, a), i(4, 3)),
    "MapFn/nested": row(lambda a: tf.map_fn(lambda x: tf.map_fn(lambda y: y * tf.reduce_sum(x), x), a), f(3, 4)),
    "MapFn/branches": row(lambda a: tf.map_fn(branch, a), f(5, 2)),
    "MapFn/of a matrix each": row(lambda a: tf.map_fn(lambda x: tf.matmul(x, x, transpose_b=True), a), f(3, 2, 4)),
    "Scan/first row": row(lambda a: tf.scan(lambda a, x: a * 0.5 + tf.sin(x), a), f(5, 3)),
    "Scan/one row": row(lambda a: tf.scan(lambda a, x: a * x, a), f(1, 3)),
    "Scan/first row in reverse": row(lambda a: tf.scan(lambda a, x: a * 0.5 + tf.sin(x), a, reverse=True), f(5, 3)),
    "Scan/initializer": row(lambda a, h, w: tf.scan(affine(w), a, h), f(5, 2, 3), f(2, 3), f(3, 3)),
    "Scan/reverse": row(lambda a, h, w: tf.scan(affine(w), a, h, reverse=True), f(5, 2, 3), f(2, 3), f(3, 3)),
    "Scan/several": row(lambda a, b, s, t: tf.scan(pair, (a, b), (s, t)), f(4, 3), f(4), f(3), f()),
    "Scan/fibonacci": row(
        lambda a, s, t: tf.scan(lambda a, x: (a[1], a[0] + a[1]), a, (s, t)), f(6), i(), i()),
    "Scan/int": row(lambda a: tf.scan(lambda a, x: a + x, a), i(5)),
    "Foldl/first row": row(lambda a: tf.foldl(lambda a, x: a * 0.5 + tf.sin(x), a), f(5, 3)),
    "Foldl/initializer": row(lambda a, h, w: tf.foldl(affine(w), a, h), f(5, 2, 3), f(2, 3), f(3, 3)),
    "Foldl/several": row(lambda a, b, s, t: tf.foldl(pair, (a, b), (s, t)), f(4, 3), f(4), f(3), f()),
    "Foldr/first row": row(lambda a: tf.foldr(lambda a, x: a * 0.5 + tf.sin(x), a), f(5, 3)),
    "Foldr/initializer": row(lambda a, h, w: tf.foldr(affine(w), a, h), f(5, 2, 3), f(2, 3), f(3, 3)),
}
