"""Describes networks of keras.applications and computes outputs of some of them.

Usage: keras_models.py FOLDER. Reads requests.json, a list of {"keras": function, "arguments": {...}, "run": bool}.
Writes models.json, the networks with their layers in the same order, and outputs.safetensors:
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
os.environ["XLA_FLAGS"] = ("--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
                           "--xla_cpu_use_fusion_emitters=false")

import keras
import numpy as np
import safetensors.numpy
from keras.src.utils import file_utils

# Initial values are not needed: drawing them would compile a program for each shape, and the largest networks have
# gigabytes of them. All elements of such a zero are the same four bytes.
keras.src.backend.Variable._initialize_with_initializer = lambda self, initializer: self._initialize(
    np.broadcast_to(np.zeros((), self.dtype), self.shape))

# With weights="imagenet" networks have other layers; the weights are not needed.
file_utils.get_file = lambda name, *arguments, **options: name
keras.Model.load_weights = lambda self, *arguments, **options: None

# Options that Penstock does not have, writes in another way, or that do not change what a layer computes: axis is 3 in
# some networks and -1 in others.
NOT_COMPARED = {"name", "dtype", "trainable", "data_format", "axis", "renorm", "renorm_momentum",
                "rms_scaling", "seed"}
PIXEL = [10, 100, 200]  # red, green, blue


def variable_path(layer, variable):
    """The variable's name within its layer. Keras numbers the one of LayerScale, which has no name."""
    path = f"/{variable.path}".rsplit(f"/{layer.name}/", 1)[-1]
    return "gamma" if type(layer).__name__ == "LayerScale" else path


def shape_text(shape):
    return "[" + ",".join("?" if extent is None else str(extent) for extent in shape) + "]"


def layer_text(layer):
    """One line per layer or operation: name, class, type of the output, variables."""
    variables = [f"{variable_path(layer, v)}{shape_text(v.shape)}" for v in getattr(layer, "weights", [])]
    return " ".join([layer.name, type(layer).__name__, "f32" + shape_text(layer.output.shape), *variables])


def plain_config(layer):
    """The layer's options; those that are objects (initializers) are represented by their class. Operations and
    networks within networks have none."""
    if isinstance(layer, keras.Model) or not isinstance(layer, keras.layers.Layer):
        return {}
    config = {key: value for key, value in layer.get_config().items() if value is not None and key not in NOT_COMPARED}
    return {key: value["class_name"] if isinstance(value, dict) else value for key, value in config.items()}


def summary_of(model):
    text = io.StringIO()
    model.summary(print_fn=lambda line: text.write(line + "\n"))
    return text.getvalue()


def preprocess(function):
    """The pixel that preprocess_input of the network's module makes of PIXEL."""
    pixel = np.array(PIXEL, np.float32).reshape(1, 1, 1, 3)
    return sys.modules[function.__module__].preprocess_input(pixel).ravel().tolist()


def weight_value(rng, variable):
    if "variance" in variable.name:
        return rng.uniform(0.5, 2, size=variable.shape).astype(np.float32)
    fan_in = max(1, np.prod(variable.shape[:-1]))
    if "depthwise" in variable.path:
        fan_in = np.prod(variable.shape[:2])
    value = rng.normal(size=variable.shape) * (np.sqrt(2 / fan_in) if len(variable.shape) > 1 else 0.1)
    return (value + ("gamma" in variable.name)).astype(np.float32)


def input_range(model):
    """The least and largest number of the images: bytes, if the network preprocesses them itself."""
    inside = isinstance(model.layers[1], (keras.layers.Rescaling, keras.layers.Normalization))
    return (0, 255) if inside else (-1, 1)


def main():
    folder, models, tensors = pathlib.Path(sys.argv[1]), [], {}
    for index, request in enumerate(json.loads((folder / "requests.json").read_text())):
        keras.backend.clear_session(free_memory=False)  # automatic names restart at 0 in each network
        arguments = {"weights": None, **request["arguments"]}
        arguments["input_shape"] = tuple(arguments["input_shape"])
        image = keras.Input(arguments["input_shape"], name="image")
        function = getattr(keras.applications, request["keras"])
        model = function(classifier_activation=None, input_tensor=image, **arguments)
        operations = [o for o in model.operations if not isinstance(o, keras.layers.InputLayer)]
        models.append({"name": model.name, "parameters": model.count_params(),
                       "layers": [layer_text(o) for o in operations], "configs": [plain_config(o) for o in operations],
                       "summary": summary_of(model) if request["run"] else None,  # half a second for a large network
                       "preprocessed": preprocess(function)})
        if not request["run"]:
            continue
        rng = np.random.default_rng(index)
        for layer in model.layers:
            for variable in layer.weights:
                value = np.asarray(weight_value(rng, variable), variable.dtype)
                variable.assign(value)
                tensors[f"{index}/weight/{layer.name}/{variable_path(layer, variable)}"] = value
            if isinstance(layer, keras.layers.Normalization):
                layer.finalize_state()  # it computes with copies of its weights, made when they are loaded
        x = rng.uniform(*input_range(model), size=(2, *model.inputs[0].shape[1:])).astype(np.float32)
        tensors[f"{index}/x"] = x
        tensors[f"{index}/y"] = np.asarray(model.predict(x, verbose=0))
    (folder / "models.json").write_text(json.dumps(models, indent=1))
    safetensors.numpy.save_file(tensors, folder / "outputs.safetensors")


if __name__ == "__main__":
    main()
