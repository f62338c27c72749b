"""Trains the head of a network on a frozen base, then the whole network, then a part of the base.

Usage: keras_freezing.py FOLDER. Writes freezing.safetensors: "x", "y", the initial weights "start/<variable>", and the
weights after each stage of each optimizer, "<optimizer>/<stage>/<variable>"; and freezing.json, a list with an entry
for each stage: optimizer, summary before the first step, counts of parameters, loss.
"""

import io
import json
import os
import pathlib
import sys

os.environ["COLUMNS"] = "200"  # a wide terminal, so that Keras prints wide summaries
os.environ["KERAS_BACKEND"] = "jax"
sys.modules["tensorflow"] = None  # Keras would import it, to recognize its objects, for four seconds
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["XLA_FLAGS"] = ("--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
                           "--xla_cpu_use_fusion_emitters=false")

import keras
import numpy as np
import safetensors.numpy
from keras import layers

ROWS, BATCH = 32, 8
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    # A larger epsilon than the default: Adam amplifies the rounding of gradients that are almost zero.
    "adam": lambda: keras.optimizers.Adam(0.005, epsilon=1e-3),
}


def make_model():
    """The model and its base."""
    image = keras.Input((8, 8, 2), name="pixels")
    penalty = keras.regularizers.L2(0.01)
    y = layers.Conv2D(4, 3, padding="same", use_bias=False, kernel_regularizer=penalty, name="conv1")(image)
    y = layers.BatchNormalization(momentum=0.8, name="norm1")(y)
    y = layers.ReLU(name="relu1")(y)
    y = layers.Conv2D(6, 3, strides=2, use_bias=False, name="conv2")(y)
    y = layers.BatchNormalization(momentum=0.8, name="norm2")(y)
    y = layers.ReLU(name="relu2")(y)
    y = layers.GlobalAveragePooling2D(name="pool")(y)
    base = keras.Model(image, y, name="base")
    x = keras.Input((8, 8, 2), name="image")
    y = layers.BatchNormalization(momentum=0.8, name="norm")(base(x))
    return keras.Model(x, layers.Dense(3, name="head")(y), name="transfer"), base


def variables_of(model, prefix=""):
    """The variables by their names in Penstock, "<layer>/<layer>/<variable>"."""
    found = {}
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            found.update(variables_of(layer, f"{prefix}{layer.name}/"))
        else:
            found.update({f"{prefix}{layer.name}/{v.name}": v for v in layer.weights})
    return found


def initial_value(rng, name, variable):
    if name.endswith("variance"):
        return rng.uniform(0.5, 2, size=variable.shape).astype(np.float32)
    scale = np.sqrt(2 / np.prod(variable.shape[:-1])) if len(variable.shape) > 1 else 0.2
    value = rng.normal(size=variable.shape) * scale
    return (value + name.endswith("gamma")).astype(np.float32)


def freeze_all_but_end(base):
    """Part of a frozen network is unfrozen: the last assignment that reaches a layer decides."""
    base.trainable = False
    base.get_layer("conv2").trainable = True
    base.get_layer("norm2").trainable = True


STAGES = {
    "head": lambda base: setattr(base, "trainable", False),
    "all": lambda base: setattr(base, "trainable", True),
    "end": freeze_all_but_end,
}


def summary_of(model):
    text = io.StringIO()
    model.summary(print_fn=lambda line: text.write(line + "\n"), expand_nested=True, show_trainable=True)
    return text.getvalue()


def count(variables):
    return int(sum(np.prod(v.shape) for v in variables))


def main():
    folder, stages = pathlib.Path(sys.argv[1]), []
    rng = np.random.default_rng(19)
    x = rng.normal(size=(ROWS, 8, 8, 2)).astype(np.float32)
    y = rng.integers(0, 3, size=ROWS)
    tensors, start = {"x": x, "y": y}, None
    for optimizer, make_optimizer in OPTIMIZERS.items():
        keras.backend.clear_session(free_memory=False)
        model, base = make_model()
        variables = variables_of(model)
        if start is None:
            start = {name: initial_value(rng, name, v) for name, v in variables.items()}
            tensors.update({f"start/{name}": value for name, value in start.items()})
        for name, variable in variables.items():
            variable.assign(start[name])
        for stage, freeze in STAGES.items():
            freeze(base)
            model.compile(make_optimizer(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            summary = summary_of(model)
            history = model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
            tensors.update({f"{optimizer}/{stage}/{name}": np.asarray(v) for name, v in variables.items()})
            stages.append({
                "optimizer": optimizer,
                "stage": stage,
                "summary": summary,
                "trainable": count(model.trainable_weights),
                "non_trainable": count(model.non_trainable_weights),
                # Without the iteration and the learning rate.
                "slots": count(model.optimizer.variables) - 2,
                "loss": history.history["loss"][0],
            })
    (folder / "freezing.json").write_text(json.dumps(stages, indent=1))
    safetensors.numpy.save_file(tensors, folder / "freezing.safetensors")


if __name__ == "__main__":
    main()
