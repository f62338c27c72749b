"""Rows of gathers, scatters, selections and sorting."""

from rows import b, f, given, i, row, steps, tf

ROWS = {
    "Gather/rows": row(lambda a, b: tf.gather(a, b), f(5, 3), given([0, 4, 2], "int32")),
    "Gather/axis": row(lambda a, b: tf.gather(a, b, axis=1), f(4, 5, 3), given([[0, 4], [2, 2]], "int64")),
    "Gather/negative axis": row(lambda a, b: tf.gather(a, b, axis=-1), f(4, 5), given(3, "int32")),
    "Gather/batch dims": row(
        lambda a, b: tf.gather(a, b, axis=1, batch_dims=1), f(3, 5, 2), given([[0, 4], [2, 2], [1, 3]], "int32")),
    "Gather/batch dims, later axis": row(
        lambda a, b: tf.gather(a, b, axis=2, batch_dims=1), f(3, 2, 5), given([[0, 4], [2, 2], [1, 3]], "int32")),
    "Gather/no indices": row(lambda a, b: tf.gather(a, b), f(5, 3), given([], "int32")),
    "Gather/int": row(lambda a, b: tf.gather(a, b), i(5, 3), given([0, 4, 2], "int32")),
    "GatherNd/elements": row(lambda a, b: tf.gather_nd(a, b), f(4, 3), given([[0, 1], [3, 2]], "int32")),
    "GatherNd/rows": row(lambda a, b: tf.gather_nd(a, b), f(4, 3, 2), given([[[0], [3]], [[1], [1]]], "int32")),
    "GatherNd/batch dims": row(
        lambda a, b: tf.gather_nd(a, b, batch_dims=1), f(3, 4, 2), given([[1], [3], [0]], "int32")),
    "BatchGather/rows": row(lambda a, b: tf.batch_gather(a, b), f(3, 4, 2), given([[1, 0], [3, 3], [0, 2]], "int32")),
    "ScatterNd/rows": row(lambda a, b: tf.scatter_nd(a, b, [5, 2]), given([[1], [3], [1]], "int32"), f(3, 2)),
    "ScatterNd/elements": row(
        lambda a, b: tf.scatter_nd(a, b, tf.constant([4, 2], tf.int64)), given([[1, 0], [3, 1]], "int64"), f(2)),
    "ScatterNd/shape of another": row(
        lambda a, b, c: tf.scatter_nd(a, b, tf.shape(c)), given([[1], [3], [1]], "int32"), f(3, 2), f(5, 2)),
    "TensorScatterUpdate/rows": row(
        lambda a, b, c: tf.tensor_scatter_update(a, b, c), f(5, 2), given([[1], [3]], "int32"), f(2, 2)),
    "TensorScatterAdd/twice": row(
        lambda a, b, c: tf.tensor_scatter_add(a, b, c), f(5), given([[1], [3], [1]], "int32"), f(3)),
    "TensorScatterSub/twice": row(
        lambda a, b, c: tf.tensor_scatter_sub(a, b, c), f(5), given([[1], [3], [1]], "int32"), f(3)),
    "TensorScatterMax/rows": row(
        lambda a, b, c: tf.tensor_scatter_nd_max(a, b, c), f(5, 2), given([[1], [3]], "int32"), f(2, 2)),
    "TensorScatterMin/rows": row(
        lambda a, b, c: tf.tensor_scatter_nd_min(a, b, c), f(5, 2), given([[1], [3]], "int32"), f(2, 2)),
    "Where/same shape": row(lambda a, b, c: tf.where(a, b, c), b(4, 3), f(4, 3), f(4, 3)),
    "Where/rows": row(lambda a, b, c: tf.where(a, b, c), b(4), f(4, 3), f(4, 3)),
    "Where/square rows": row(lambda a, b, c: tf.where(a, b, c), b(3), f(3, 3), f(3, 3)),
    "WhereV2/broadcast": row(lambda a, b, c: tf.where_v2(a, b, c), b(4, 1), f(3), f(4, 3)),
    "WhereV2/number": row(lambda a, b: tf.where_v2(a, b, 0.5), b(4, 3), f(4, 3)),
    "InvertPermutation/int32": row(lambda a: tf.invert_permutation(a), given([3, 4, 0, 2, 1], "int32")),
    "Searchsorted/left": row(
        lambda a, b: tf.searchsorted(a, b), given([[1, 3, 5, 9], [0, 0, 2, 4]]), given([[3, 6, 0], [0, 4, 9]])),
    "Searchsorted/right int64": row(
        lambda a, b: tf.searchsorted(a, b, "right", tf.int64),
        given([[1, 3, 5, 9], [0, 0, 2, 4]]), given([[3, 6, 0], [0, 4, 9]])),
    "Sort/ascending": row(lambda a: tf.sort(a), f(4, 6)),
    "Sort/descending first axis": row(lambda a: tf.sort(a, 0, "DESCENDING"), f(4, 6)),
    "Sort/int": row(lambda a: tf.sort(a, -1), i(4, 6)),
    "Argsort/ascending": row(lambda a: tf.argsort(a), f(4, 6)),
    "Argsort/descending": row(lambda a: tf.argsort(a, 1, "DESCENDING"), f(4, 6)),
    "Argsort/stable": row(lambda a: tf.argsort(a, stable=True), steps(4, 9)),
    "nn::EmbeddingLookup/one table": row(
        lambda a, b: tf.nn.embedding_lookup(a, b), f(5, 3), given([[0, 4], [2, 2]], "int32")),
    "nn::EmbeddingLookup/max norm": row(
        lambda a, b: tf.nn.embedding_lookup(a, b, max_norm=1.0), f(5, 3), given([0, 4, 2, 2], "int32")),
    "nn::EmbeddingLookup/mod": row(
        lambda a, b, c: tf.nn.embedding_lookup([a, b], c), f(3, 2), f(2, 2), given([0, 4, 2, 3], "int64")),
    "nn::EmbeddingLookup/div": row(
        lambda a, b, c: tf.nn.embedding_lookup([a, b], c, "div"), f(3, 2), f(2, 2), given([0, 4, 2, 3], "int64")),
    "nn::TopK/three": row(lambda a: tf.nn.top_k(a, 3), f(4, 6)),
    "nn::TopK/ties": row(lambda a: tf.nn.top_k(a, 5), steps(4, 9)),
    "nn::TopK/int": row(lambda a: tf.nn.top_k(a, 2)[0], i(9)),
    "nn::InTopK/two": row(lambda a, b: tf.nn.in_top_k(a, b, 2), f(6, 4), given([0, 1, 2, 3, 0, 1], "int32")),
    "nn::InTopK/special": row(
        lambda a, b: tf.nn.in_top_k(a, b, 1),
        given([[1, 2, float("inf")], [float("nan"), 1, 0], [1, 1, 0]]), given([1, 1, 1], "int64")),
}
