"""Models of Keras as its files describe them, and Keras's view of the files that Penstock describes.

Usage: keras_config.py make FOLDER | check FOLDER.

make writes models.json, a list of models: name; config and legacy (the texts of config.json and of model_config),
training (of training_config), layer_names, summary, inputs, outputs; and models.safetensors: "<model>/keras/<path>" with
the arrays of Keras 3's file, "<model>/legacy/<name>" with those of the legacy file, "<model>/x/<i>" and "<model>/y/<i>".

check reads ours.json, a list: model, and config (the text of config.json); and ours.safetensors: "<model>/<path>". It opens
each as a file with load_model, predicts from the same inputs, and writes "<model>/y/<i>" to checked.safetensors.

Trainings begin in make (<optimizer>.keras), go on in Penstock (ours_<optimizer>.keras) and end in check;
"train/<optimizer>/end/<i>" has the weights at the end: in models.safetensors those of Keras alone, in checked.safetensors those of a training that went on in
Penstock for some steps. file.keras, file.h5 and file.weights.h5 hold one model, ours_file.* what Penstock writes of it.
"""

import functools
import io
import json
import os
import pathlib
import re
import sys
import zipfile

os.environ["COLUMNS"] = "200"
os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["XLA_FLAGS"] = ("--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
                           "--xla_cpu_use_fusion_emitters=false")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))

import h5py
import jax
import keras
import numpy as np
import safetensors.numpy
from keras import layers
from keras.src.applications import convnext, inception_resnet_v2
from keras.src.legacy.saving import json_utils, saving_options, saving_utils

import table

# Every weight is set below; drawing initial values would compile a program for each shape.
for initializer in (keras.initializers.VarianceScaling, keras.initializers.Orthogonal, keras.initializers.RandomUniform):
    initializer.__call__ = lambda self, shape, dtype=None: np.zeros(shape, "float32")

BATCH = 4
OTHER_MODULES = {
    "CustomScaleLayer": inception_resnet_v2.CustomScaleLayer,
    "LayerScale": convnext.LayerScale,
    "StochasticDepth": convnext.StochasticDepth,
}


# ---- Every layer of the parity tables ----


def is_saved(row):
    """Whether Keras can save the layer with these options, and computes what it documents."""
    text = json.dumps(row["config"])
    return (row["class"] != "PositionEmbedding" and "reference" not in row and "_bfloat16" not in text
            and "_float16" not in text and not re.search(r'activation": "[^"]*\(', text))


def option(value):
    """An option in Keras's form: "l2(0.01)" is a regularizer there."""
    if isinstance(value, dict) and "class_name" in value:
        return make_layer(value["class_name"], value["config"])
    if not isinstance(value, str) or "(" not in value:
        return value
    name, arguments = value[:-1].split("(")
    made = {"l1": keras.regularizers.L1, "l2": keras.regularizers.L2, "l1_l2": keras.regularizers.L1L2,
            "max_norm": keras.constraints.MaxNorm, "unit_norm": keras.constraints.UnitNorm}[name]
    return eval(f"made({arguments})", {"made": made})


def make_layer(class_name, config):
    options = {key: option(value) for key, value in config.items()}
    return (OTHER_MODULES.get(class_name) or getattr(keras.layers, class_name))(**options)


def call_row(row, inputs):
    named = {**row.get("call", {}), **row.get("inferred", {})}
    if "constant" in row["config"]:
        operation = getattr(keras.ops, row["class"].lower())
        return operation(functools.reduce(operation, inputs), row["config"]["constant"])
    if row["class"] == "Flip":
        return keras.ops.flip(inputs[0], axis=row["config"].get("axis", -1))
    layer, inputs = make_layer(row["class"], row["config"]), list(inputs)
    if row.get("attention_mask"):
        named["attention_mask"] = inputs.pop()
    if row.get("arguments"):
        return layer(*inputs, **named)
    if row.get("states"):
        return layer(inputs[0], initial_state=inputs[1:], **named)
    return layer(inputs[0] if len(inputs) == 1 else inputs, **named)


def features(row):
    """What a row tests in a file: its class, and each of its options, with the value if it is not a number."""
    options = {**row["config"], **row.get("call", {}), "inputs": str(len(row["shapes"]))}
    shown = {key: value if isinstance(value, (bool, str)) else type(value).__name__ for key, value in options.items()}
    return {(row["class"], key, value) for key, value in shown.items()}


def catalog():
    """One model with the layers that have all classes and options."""
    seen, inputs, outputs, high = set(), [], [], {}
    for row in sorted(table.LAYERS, key=lambda row: -len(row["config"])):
        if not is_saved(row) or features(row) <= seen:
            continue
        seen |= features(row)
        given = []
        for i, shape in enumerate(row["shapes"]):
            dtype = row.get("dtype", "float32")
            dtype = dtype[i] if isinstance(dtype, list) else dtype
            given.append(keras.Input(shape[1:], dtype=dtype, name=f"x{len(inputs) + i}"))
            high[given[-1].name] = row.get("high", 200)
        inputs += given
        outputs += keras.tree.flatten(call_row(row, given))
    return keras.Model(inputs, outputs, name="catalog"), high


# ---- Other models ----


def sequential():
    return keras.Sequential([
        keras.Input((8, 8, 3), name="image"),
        layers.Conv2D(4, 3, kernel_initializer=keras.initializers.HeNormal(3), kernel_regularizer="l2", name="first"),
        layers.BatchNormalization(momentum=0.7),
        layers.Activation(keras.activations.relu),
        layers.Dropout(0.3, seed=7),
        layers.Flatten(),
        layers.Dense(5, activation=layers.LeakyReLU(0.1), bias_constraint=keras.constraints.MaxNorm(1.5)),
        layers.Dense(3, activation="softmax", kernel_initializer=keras.initializers.VarianceScaling(2, "fan_out")),
    ], name="sequential")


def shared():
    """A layer, a functional and a sequential model that are called several times."""
    pixels = keras.Input((6,), name="pixels")
    tower = keras.Model(pixels, layers.Dense(4, name="inside")(layers.Dense(5)(pixels)), name="tower")
    chain = keras.Sequential([keras.Input((4,)), layers.Dense(4), layers.BatchNormalization()], name="chain")
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    dense = layers.Dense(4, name="shared")
    left, right = chain(dense(tower(a))), chain(chain(dense(tower(b))))
    outer = keras.Input((4,))
    nested = keras.Model(outer, [layers.ReLU()(outer), layers.Dense(2)(outer)], name="nested")
    first, second = nested(layers.Add()([left, right]))
    ends = [layers.Identity(name="first")(first), layers.Identity(name="second")(second)]
    return keras.Model({"b": b, "a": a}, [*ends, tower(a), left], name="shared")


def crossed():
    """A layer that two models share. Keras saves it, but counts its calls wrongly when it loads the file."""
    dense = layers.Dense(4, name="shared")
    inside = keras.Input((4,))
    nested = keras.Model(inside, layers.ReLU()(dense(inside)), name="nested")
    x = keras.Input((4,), name="x")
    return keras.Model(x, [nested(dense(x)), dense(dense(x))], name="crossed")


def sequences():
    tokens = keras.Input((7,), dtype="int32", name="tokens")
    embedding = layers.ReversibleEmbedding(9, 6, mask_zero=True)
    x = embedding(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True))
    y, state = layers.GRU(6, return_sequences=True, return_state=True)(x)
    y = layers.Bidirectional(layers.LSTM(3, return_sequences=True), merge_mode="sum")(y)
    y = layers.TimeDistributed(keras.Sequential([keras.Input((3,)), layers.Dense(6, activation="gelu")]))(y)
    z = layers.SimpleRNN(6)(y, initial_state=state)
    w, scores = layers.MultiHeadAttention(2, 4, use_gate=True)(y, x, key=y, return_attention_scores=True)
    return keras.Model(tokens, [embedding(w, reverse=True), z, scores], name="sequences")


def mixed():
    """Layers of three policies, a part of them frozen."""
    image = keras.Input((4, 4, 2), name="image")
    part = keras.Sequential([keras.Input((4, 4, 2)), layers.Conv2D(3, 2, dtype="mixed_bfloat16"),
                             layers.BatchNormalization(dtype="mixed_bfloat16")], name="part")
    part.trainable = False
    y = layers.Flatten(dtype="mixed_bfloat16")(part(image))
    y = layers.Dense(4, dtype="mixed_bfloat16", trainable=False)(y)
    return keras.Model(image, layers.Dense(2, dtype="float32")(y), name="mixed")


def application(function, **options):
    return lambda: function(weights=None, **options)


MODELS = {
    "catalog": catalog,
    "sequential": sequential,
    "shared": shared,
    "crossed": crossed,
    "sequences": sequences,
    "mixed": mixed,
    "mobilenet": application(keras.applications.MobileNetV3Small, input_shape=(32, 32, 3), classes=5),
    "convnext": application(keras.applications.ConvNeXtTiny, input_shape=(32, 32, 3), include_top=False),
}
NOT_RUN = {"convnext"}
# Keras cannot write operations (x + 1) to legacy files.
LEGACY = {"sequential", "shared", "mixed"}

COMPILED = {
    "sequential": {
        "optimizer": lambda: keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(0.1, 50), weight_decay=0.01),
        "loss": "sparse_categorical_crossentropy",
        "metrics": ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2")],
    },
    "shared": {
        "optimizer": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        "loss": ["mse", keras.losses.Huber(delta=2), "mae", "mse"],
        "loss_weights": [1, 0.5, 1, 2],
        "metrics": [["mae"], [], ["mse", "mae"], None],
    },
}


# ---- Trainings that begin here, continue in Penstock, and end here ----

ROWS, BATCH_OF_TRAINING = 32, 8  # 4 steps an epoch
EPOCHS = {"before": 2, "in_penstock": 1, "after": 2}
OPTIMIZERS = {
    # A larger epsilon than the default: Adam amplifies the rounding of gradients that are almost zero.
    "adam": lambda: keras.optimizers.Adam(0.02, epsilon=1e-3),
    "adam_more": lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.02, 3, 0.9), epsilon=1e-3,
                                               amsgrad=True),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True, epsilon=1e-3),
    "nadam": lambda: keras.optimizers.Nadam(0.02, epsilon=1e-3),
    "adafactor": lambda: keras.optimizers.Adafactor(0.05),
}


def trained_model(optimizer):
    part = keras.Sequential([keras.Input((4,)), layers.Dense(6, activation="tanh"), layers.BatchNormalization(momentum=0.8)])
    x = keras.Input((4,), name="x")
    model = keras.Model(x, layers.Dense(3, name="scores")(part(x)), name="trained")
    rng = np.random.default_rng(5)
    for variable in model.weights:
        variable.assign(weight_value(rng, variable))
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def data():
    rng = np.random.default_rng(6)
    return rng.normal(size=(ROWS, 4)).astype(np.float32), rng.integers(0, 3, size=ROWS)


def fit(model, epochs):
    x, y = data()
    model.fit(x, y, batch_size=BATCH_OF_TRAINING, epochs=epochs, shuffle=False, verbose=0)


def trainings(folder, tensors):
    """The beginning of each training, and the weights after the same training in Keras alone."""
    begun = []
    for name, optimizer in OPTIMIZERS.items():
        keras.backend.clear_session(free_memory=False)
        model = trained_model(optimizer())
        fit(model, EPOCHS["before"])
        model.save(folder / f"{name}.keras")
        begun.append(name)
        fit(model, EPOCHS["in_penstock"] + EPOCHS["after"])
        tensors.update({f"train/{name}/end/{i}": np.asarray(v) for i, v in enumerate(model.weights)})
    x, y = data()
    tensors.update({"train/x": x, "train/y": y})
    return begun


# ---- Files ----


def weight_value(rng, variable):
    if "int" in str(variable.dtype):
        return np.asarray(variable)
    if "variance" in variable.name:
        return rng.uniform(0.5, 2, size=variable.shape).astype(np.float32)
    scale = 1 / np.sqrt(max(1, np.prod(variable.shape[:-1])))
    return (scale * rng.normal(size=variable.shape) + ("gamma" in variable.name)).astype(np.float32)


def input_value(rng, tensor, high):
    shape = (BATCH, *tensor.shape[1:])
    if "float" in tensor.dtype:
        return rng.normal(size=shape).astype(tensor.dtype)
    return rng.integers(0, high, size=shape).astype(tensor.dtype)


def arrays_of(file, prefix=""):
    """The datasets of a Keras 3 file by their paths."""
    found = {}
    file.visititems(lambda name, item: found.update({prefix + name: np.asarray(item)})
                    if isinstance(item, h5py.Dataset) else None)
    return found


def save(model, folder):
    path = folder / "model.keras"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        config = archive.read("config.json").decode()
        with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as file:
            return config, arrays_of(file)


def as_saved(value):
    value = np.asarray(value)
    return value.astype({"bfloat16": np.float32, "int8": np.uint8, "bool": np.uint8}.get(value.dtype.name, value.dtype))


def legacy(model):
    """model_config and training_config as JSON, and the arrays in order, by "layer/weight"."""
    with saving_options.keras_option_scope(use_legacy_config=True):
        metadata = saving_utils.model_metadata(model)
    arrays = []
    for layer in model.layers:
        for weight in layer.trainable_weights + layer.non_trainable_weights:
            arrays.append((f"{layer.name}/{len(arrays)}", np.asarray(weight)))
    to_json = lambda value: json.dumps(value, default=json_utils.get_json_type)
    training = metadata.get("training_config")
    return to_json(metadata["model_config"]), to_json(training) if training else "", arrays


def predict(model, x):
    structure = model.inputs[0] if isinstance(model, keras.Sequential) else model._inputs_struct
    call = jax.jit(lambda x: keras.tree.flatten(model(keras.tree.pack_sequence_as(structure, x), training=False)))
    return [np.asarray(y) for y in call(x)]


def summary_of(model):
    text = io.StringIO()
    model.summary(print_fn=lambda line: text.write(line + "\n"))
    return text.getvalue()


def make(folder):
    models, tensors = [], {}
    for number, (name, build) in enumerate(MODELS.items()):
        keras.backend.clear_session(free_memory=False)
        rng = np.random.default_rng(number)
        built = build()
        model, high = built if isinstance(built, tuple) else (built, {})
        if name in COMPILED:
            model.compile(**{**COMPILED[name], "optimizer": COMPILED[name]["optimizer"]()})
            model.optimizer.build(model.trainable_variables)
        for variable in model.weights:
            variable.assign(weight_value(rng, variable))
        config, arrays = save(model, folder)
        tensors.update({f"{name}/keras/{path}": np.array(array, order="C") for path, array in arrays.items()})
        legacy_config, training, legacy_arrays = legacy(model) if name in LEGACY else ("", "", [])
        tensors.update({f"{name}/legacy/{weight}": array for weight, array in legacy_arrays})
        outputs = keras.tree.flatten(model.outputs)
        if name not in NOT_RUN:
            x = [input_value(rng, tensor, high.get(tensor.name, 9)) for tensor in model.inputs]
            y = predict(model, x)
            tensors.update({f"{name}/x/{i}": as_saved(value) for i, value in enumerate(x)})
            tensors.update({f"{name}/y/{i}": as_saved(value) for i, value in enumerate(y)})
        models.append({
            "name": name,
            "config": config,
            "legacy": legacy_config,
            "training": training,
            "layer_names": [layer.name for layer in model.layers],
            "legacy_weights": [weight for weight, _ in legacy_arrays],
            "summary": summary_of(model),
            "inputs": len(model.inputs) if name not in NOT_RUN else 0,
            "outputs": len(outputs) if name not in NOT_RUN else 0,
        })
    (folder / "trainings.json").write_text(json.dumps(trainings(folder, tensors)))
    write_files(folder, tensors)
    (folder / "models.json").write_text(json.dumps(models))
    safetensors.numpy.save_file(tensors, folder / "models.safetensors")


def file_model():
    model = sequential()
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def write_files(folder, tensors):
    """A model in each of Keras's formats."""
    keras.backend.clear_session(free_memory=False)
    rng, model = np.random.default_rng(9), file_model()
    for variable in model.weights:
        variable.assign(weight_value(rng, variable))
    x = rng.normal(size=(BATCH, 8, 8, 3)).astype(np.float32)
    model.fit(x, np.arange(BATCH) % 3, verbose=0)
    model.save(folder / "file.keras")
    model.save(folder / "file.h5")
    model.save_weights(folder / "file.weights.h5")
    tensors.update({"file/x": x, "file/y": predict(model, [x])[0]})


def check_files(folder, tensors, checked):
    """Reads the files that Penstock wrote of them."""
    x = tensors["file/x"]
    for name in ("ours_file.keras", "ours_file.h5"):
        model = keras.models.load_model(folder / name)
        assert model.optimizer.iterations == 1, name
        # From a legacy file, its own included, Keras reads only the iteration and the learning rate.
        assert len(model.optimizer.variables) == (2 if name.endswith(".h5") else 2 + 2 * 8), name
        checked[f"file/{name}"] = predict(model, [x])[0]
    keras.backend.clear_session(free_memory=False)
    model = file_model()
    model.load_weights(folder / "ours_file.weights.h5")
    checked["file/ours_file.weights.h5"] = predict(model, [x])[0]


def write_archive(path, config, arrays):
    data = io.BytesIO()
    with h5py.File(data, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": keras.__version__}))
        archive.writestr("config.json", config)
        archive.writestr("model.weights.h5", data.getvalue())


def check(folder):
    tensors = safetensors.numpy.load_file(folder / "models.safetensors")
    ours, checked = safetensors.numpy.load_file(folder / "ours.safetensors"), {}
    for entry in json.loads((folder / "ours.json").read_text()):
        keras.backend.clear_session(free_memory=False)
        name = entry["name"]
        prefix = f"{name}/"
        arrays = {path[len(prefix):]: array for path, array in ours.items() if path.startswith(prefix)}
        write_archive(folder / "ours.keras", entry["config"], arrays)
        model = keras.models.load_model(folder / "ours.keras")
        optimizer = getattr(model, "optimizer", None)
        assert len(optimizer.variables if optimizer else []) == entry["optimizer"], name
        x = [tensors[f"{name}/x/{i}"].astype(tensor.dtype) for i, tensor in enumerate(model.inputs)]
        y = predict(model, x)
        checked.update({f"{name}/y/{i}": as_saved(value) for i, value in enumerate(y)})
    for name in OPTIMIZERS:
        keras.backend.clear_session(free_memory=False)
        model = keras.models.load_model(folder / f"ours_{name}.keras")
        fit(model, EPOCHS["after"])
        checked.update({f"train/{name}/end/{i}": np.asarray(v) for i, v in enumerate(model.weights)})
    check_files(folder, tensors, checked)
    safetensors.numpy.save_file(checked, folder / "checked.safetensors")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
