"""Compares an input layer with tf.compat.v1.feature_column.input_layer of the same columns and rows.

Usage: feature_columns.py LAYER.npz; the file has `layer` and the embedding's `table`.
"""
import sys

import numpy as np
import tensorflow as tf

ours = np.load(sys.argv[1])
fc = tf.feature_column
age = fc.numeric_column("age")
city = fc.categorical_column_with_vocabulary_list("city", ["Bern", "Graz", "Lyon"], num_oov_buckets=2)
street = fc.categorical_column_with_hash_bucket("street", 7)
columns = [
    age,
    fc.numeric_column("size", shape=2),
    fc.bucketized_column(age, [18, 30, 65]),
    fc.indicator_column(city),
    fc.indicator_column(street),
    fc.embedding_column(street, 3, combiner="sqrtn", initializer=tf.constant_initializer(ours["table"])),
    fc.indicator_column(fc.categorical_column_with_identity("id", 4, default_value=0)),
]
features = {
    "age": [[3.0], [18], [29.5], [30], [80]],
    "size": [[1.0, 2], [3, 4], [5, 6], [7, 8], [9, 10]],
    "city": [["Graz"], ["Rome"], ["Bern"], ["Oslo"], ["Lyon"]],
    "street": [["Main", "Oak"], ["Elm", ""], ["Main", "Main"], ["", ""], ["a much longer name of a street", "Oak"]],
    "id": [[0], [3], [1], [9], [2]],
}
with tf.Graph().as_default():
    layer = tf.compat.v1.feature_column.input_layer({k: tf.constant(v) for k, v in features.items()}, columns)
    init = [tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()]
    with tf.compat.v1.Session() as session:
        session.run(init)
        np.testing.assert_allclose(ours["layer"], session.run(layer), rtol=1e-6, atol=1e-7)
