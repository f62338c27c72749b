"""Loads a SavedModel and a checkpoint of an estimator, and compares them with what the estimator predicted.

Usage: check_export.py EXPORT CHECKPOINT EXPECTED.npz
"""
import sys

import numpy as np
import tensorflow as tf

export, checkpoint, expected = sys.argv[1:]
expected = np.load(expected)
serve = tf.saved_model.load(export).signatures["serving_default"]
for rows in (10, 1):  # any batch size
    x = expected["x"][:rows]
    got = serve(x=tf.constant(x))
    assert sorted(got) == ["class_ids", "logits", "probabilities"], sorted(got)
    np.testing.assert_allclose(got["probabilities"], expected["probabilities"][:rows], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(got["class_ids"], expected["class_ids"][:rows])

reader = tf.train.load_checkpoint(checkpoint)
names = reader.get_variable_to_shape_map()
for name in ("global_step", "dnn/hiddenlayer_0/kernel", "dnn/hiddenlayer_0/kernel/Adagrad", "dnn/logits/bias"):
    assert name in names, (name, sorted(names))
assert reader.get_tensor("global_step") == 3
np.testing.assert_array_equal(reader.get_tensor("dnn/logits/kernel"), expected["dnn/logits/kernel"])
