"""Writes the checkpoint in tensor_bundle/ with Keras 2: pip install tensorflow-cpu==2.21.0 tf-keras==2.21.0."""

import pathlib

import numpy as np
import tensorflow as tf
import tf_keras

model = tf_keras.Sequential([
    tf_keras.layers.Conv2D(2, 3, input_shape=(4, 4, 1), name="conv"),
    tf_keras.layers.BatchNormalization(name="norm"),
], name="net")
model.compile("adam", "mse")
model.optimizer.build(model.trainable_variables)
for variable in [*model.variables, *model.optimizer.variables]:
    values = np.arange(np.prod(variable.shape)).reshape(variable.shape)
    variable.assign(tf.cast(values, variable.dtype))
model.words = tf.Variable(["cat", "dog"], trainable=False, name="words")
model.save_weights(pathlib.Path(__file__).parent / "tensor_bundle" / "keras.ckpt")
(pathlib.Path(__file__).parent / "tensor_bundle" / "checkpoint").unlink()
