"""Describes networks of keras.applications and computes outputs of some of them.

Usage: keras_models.py FOLDER. Writes models.json, a list of networks with their layers, and outputs.safetensors:
"<index of the network>/weight/<layer>/<variable>", "<index>/x" and "<index>/y" of those that are run.
"""

import io
import json
import os
import pathlib
import sys

os.environ["COLUMNS"] = "200"  # a wide terminal, so that Keras prints wide summaries
os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

import keras
import numpy as np
import safetensors.numpy

# Initial values are not needed, and drawing them would compile a program for each shape.
keras.initializers.GlorotUniform.__call__ = lambda self, shape, dtype=None: np.zeros(shape, dtype)

# Our name and options, Keras's name and options, and whether to compute outputs.
MODELS = [
    ("resnet", {"depth": 50}, "ResNet50", {}, False),
    ("resnet", {"depth": 101}, "ResNet101", {}, False),
    ("resnet", {"depth": 152}, "ResNet152", {}, False),
    ("resnet", {"depth": 50, "input_shape": [97, 64, 3], "include_top": False}, "ResNet50",
     {"input_shape": (97, 64, 3), "include_top": False}, False),
    ("resnet_v2", {"depth": 50}, "ResNet50V2", {}, False),
    ("resnet_v2", {"depth": 101}, "ResNet101V2", {}, False),
    ("resnet_v2", {"depth": 152, "input_shape": [64, 97, 3], "include_top": False}, "ResNet152V2",
     {"input_shape": (64, 97, 3), "include_top": False}, False),
    ("vgg16", {}, "VGG16", {}, False),
    ("vgg16", {"input_shape": [65, 32, 3], "include_top": False}, "VGG16",
     {"input_shape": (65, 32, 3), "include_top": False}, False),
    ("mobilenet_v2", {}, "MobileNetV2", {}, False),
    ("mobilenet_v2", {"alpha": 0.35}, "MobileNetV2", {"alpha": 0.35}, False),
    ("mobilenet_v2", {"alpha": 1.4, "classes": 11}, "MobileNetV2", {"alpha": 1.4, "classes": 11}, False),
    ("mobilenet_v2", {"input_shape": [71, 54, 3], "include_top": False}, "MobileNetV2",
     {"input_shape": (71, 54, 3), "include_top": False}, False),
    ("resnet", {"depth": 50, "input_shape": [32, 45, 3], "classes": 7}, "ResNet50",
     {"input_shape": (32, 45, 3), "classes": 7}, True),
    ("mobilenet_v2", {"alpha": 0.5, "input_shape": [45, 32, 3], "classes": 5}, "MobileNetV2",
     {"alpha": 0.5, "input_shape": (45, 32, 3), "classes": 5}, True),
    ("resnet_v2", {"depth": 50, "input_shape": [45, 37, 3], "classes": 6}, "ResNet50V2",
     {"input_shape": (45, 37, 3), "classes": 6}, True),
    ("vgg16", {"input_shape": [32, 47, 3], "include_top": False}, "VGG16",
     {"input_shape": (32, 47, 3), "include_top": False}, True),
]


def shape_text(shape):
    return "[" + ",".join("?" if extent is None else str(extent) for extent in shape) + "]"


def layer_text(layer):
    """One line per layer: name, class, type of the output, variables."""
    variables = [f"{v.name}{shape_text(v.shape)}" for v in layer.weights]
    return " ".join([layer.name, type(layer).__name__, "f32" + shape_text(layer.output.shape), *variables])


def summary_of(model):
    text = io.StringIO()
    model.summary(print_fn=lambda line: text.write(line + "\n"))
    return text.getvalue()


def weight_value(rng, variable):
    if "variance" in variable.name:
        return rng.uniform(0.5, 2, size=variable.shape).astype(np.float32)
    fan_in = max(1, np.prod(variable.shape[:-1]))
    if "depthwise" in variable.path:
        fan_in = np.prod(variable.shape[:2])
    value = rng.normal(size=variable.shape) * (np.sqrt(2 / fan_in) if len(variable.shape) > 1 else 0.1)
    return (value + ("gamma" in variable.name)).astype(np.float32)


def main():
    folder, models, tensors = pathlib.Path(sys.argv[1]), [], {}
    for index, (ours, options, name, keras_options, run) in enumerate(MODELS):
        keras.backend.clear_session()  # automatic names restart at 0 in each network
        image = keras.Input(keras_options.get("input_shape", (224, 224, 3)), name="image")
        model = getattr(keras.applications, name)(weights=None, classifier_activation=None, input_tensor=image,
                                                  **keras_options)
        layers = [layer_text(layer) for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)]
        models.append({"model": ours, "options": options, "keras": f"{name} {keras_options}", "name": model.name,
                       "parameters": model.count_params(), "layers": layers, "run": run,
                       "summary": summary_of(model)})
        if not run:
            continue
        rng = np.random.default_rng(index)
        for layer in model.layers:
            for variable in layer.weights:
                value = weight_value(rng, variable)
                variable.assign(value)
                tensors[f"{index}/weight/{layer.name}/{variable.name}"] = value
        x = rng.uniform(-1, 1, size=(2, *model.inputs[0].shape[1:])).astype(np.float32)
        tensors[f"{index}/x"] = x
        tensors[f"{index}/y"] = np.asarray(model.predict(x, verbose=0))
    (folder / "models.json").write_text(json.dumps(models, indent=1))
    safetensors.numpy.save_file(tensors, folder / "outputs.safetensors")


if __name__ == "__main__":
    main()
