"""Writes the order in which Keras calls the hooks of a callback.

Usage: keras_callbacks.py FILE. Writes {"fit": ["on_train_begin", ...], "evaluate": [...], "predict": [...]} to FILE: two
epochs of three batches with validation on two batches, an evaluation and a prediction of three batches.
"""

import json
import os
import sys

os.environ["KERAS_BACKEND"] = "jax"
sys.modules["tensorflow"] = None  # Keras would import it, to recognize its objects, for four seconds
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.hooks = []


def record(name):
    def hook(self, *arguments, **named):
        batch = f" {arguments[0]}" if "_batch_" in name else ""
        self.hooks.append(name + batch)

    return hook


for name in dir(keras.callbacks.Callback):
    if name.startswith("on_") and name not in ("on_batch_begin", "on_batch_end"):
        setattr(Recorder, name, record(name))


def main():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    x, y = np.zeros((24, 4), "float32"), np.zeros((24, 3), "float32")
    orders = {}
    recorder = Recorder()
    model.fit(x, y, batch_size=8, epochs=2, verbose=0, validation_data=(x[:16], y[:16]),
              validation_batch_size=8, callbacks=[recorder])
    orders["fit"] = recorder.hooks
    recorder = Recorder()
    model.evaluate(x, y, batch_size=8, verbose=0, callbacks=[recorder])
    orders["evaluate"] = recorder.hooks
    recorder = Recorder()
    model.predict(x, batch_size=8, verbose=0, callbacks=[recorder])
    orders["predict"] = recorder.hooks
    with open(sys.argv[1], "w") as file:
        json.dump(orders, file)


main()
