"""Writes Keras's files with Keras, and reads those that keras_files_test.cc wrote, with Keras and h5py.

Usage: keras_files.py run FOLDER      reads ours*.h5, ours.keras and types*.h5 in FOLDER, and exits with 1 where they
                                      differ; writes model.h5, weights.h5, net.weights.h5, net.keras, half.weights.h5,
                                      weights.npz, and ours saved again: back.h5, back.weights.h5, back.keras
       keras_files.py describe        writes the descriptions of small() to testdata/keras_files/

The weights of net are drawn by Keras; weights.npz has them under "LAYER/WEIGHT". Those of ours are computed by a
formula that keras_files_test.cc has as well, and so are the bytes of types*.h5.
"""

import json
import os
import pathlib
import sys
import zipfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import h5py
import keras
import numpy as np
from keras.src.legacy.saving import legacy_h5_format

TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
         "float32", "float64"]
SHAPES = {"vector": [7], "scalar": [], "cube": [3, 1, 4], "empty": [2, 0]}
TESTDATA = pathlib.Path(__file__).parent / "testdata" / "keras_files"


def network():
    inner = keras.Sequential([keras.layers.Input((6, 6, 2)), keras.layers.Conv2D(3, 2, name="inside")], name="inner")
    inputs = keras.layers.Input((6, 6, 2))
    x = inner(inputs)
    x = keras.layers.SeparableConv2D(4, 2, use_bias=False, name="separable")(x)
    x = keras.layers.BatchNormalization(name="norm")(x)
    x = keras.layers.ReLU()(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dense(5, name="first")(x)
    return keras.Model(inputs, keras.layers.Dense(2, name="second")(x), name="net")


def small():
    """The network of ours*: layers named out of the order of the alphabet, one without weights."""
    keras.utils.clear_session(free_memory=False)  # which numbers the optimizers' names
    inputs = keras.layers.Input((3,), name="input")
    x = keras.layers.Dense(4, name="hidden")(inputs)
    x = keras.layers.ReLU(name="relu")(x)
    model = keras.Model(inputs, keras.layers.Dense(2, name="first")(x), name="small")
    model.compile(keras.optimizers.Adam(0.5), keras.losses.MeanSquaredError())
    model.optimizer.build(model.trainable_variables)
    return model


def value(number, array):
    """The values of weight `number` of ours*."""
    count = np.arange(array.size).reshape(array.shape)
    return ((count % 7 + number + 1) / 16).astype(array.dtype)


def describe():
    TESTDATA.mkdir(exist_ok=True)
    model = small()
    model.save(TESTDATA / "small.keras")
    with zipfile.ZipFile(TESTDATA / "small.keras") as archive:
        (TESTDATA / "config.json").write_bytes(archive.read("config.json"))
    model.save(TESTDATA / "small.h5")
    with h5py.File(TESTDATA / "small.h5") as file:
        for key in ["model_config", "training_config"]:
            (TESTDATA / f"{key}.json").write_text(json.dumps(json.loads(file.attrs[key])))
    for name in ["small.keras", "small.h5"]:
        (TESTDATA / name).unlink()


def check(what, good):
    if not good:
        sys.exit(f"{what} differs")


def check_ours(what, model, optimizer=False):
    variables = list(model.weights) + (list(model.optimizer.variables) if optimizer else [])
    for number, variable in enumerate(variables):
        array = np.asarray(variable)
        check(f"{what}: {variable.path}", np.array_equal(array, value(number, array)))


def check_types(path, root, between):
    with h5py.File(path) as file:
        for kind in TYPES:
            for shape_name, shape in SHAPES.items():
                name = f"{kind}{between}{shape_name}"
                data = file[f"{root.format(kind)}{name}"]
                dtype = "V2" if kind == "bfloat16" else kind
                count = int(np.prod(shape)) * np.dtype(dtype).itemsize
                expected = bytes((len(name) * 31 + k * 7) % 256 % (2 if kind == "bool" else 256) for k in range(count))
                check(f"{path}: {name}", data.dtype == dtype and data.shape == tuple(shape))
                check(f"{path}: {name}", data.attrs.get("dtype") == ("bfloat16" if kind == "bfloat16" else None))
                check(f"{path}: {name}", data[()].tobytes() == expected and data.chunks is None)


def read_ours(folder):
    check_types(folder / "types.h5", "/{}/", "/")
    check_types(folder / "types.weights.h5", "/", "/vars/")
    for name in ["ours.h5", "ours.weights.h5"]:
        model = small()
        model.load_weights(folder / name)
        check_ours(name, model, optimizer=name == "ours.weights.h5")
        model.save_weights(folder / "back.weights.h5")
    # Keras 3 does not restore the optimizer of a legacy file itself: it builds it without variables.
    check_ours("ours_model.h5", keras.models.load_model(folder / "ours_model.h5", compile=False))
    model = small()
    model.load_weights(folder / "ours_model.h5")
    with h5py.File(folder / "ours_model.h5") as file:
        for variable, array in zip(model.optimizer.variables,
                                   legacy_h5_format.load_optimizer_weights_from_hdf5_group(file), strict=True):
            variable.assign(array[()])
    check_ours("ours_model.h5", model, optimizer=True)
    model.save(folder / "back.h5")

    keras.utils.clear_session(free_memory=False)
    model = keras.models.load_model(folder / "ours.keras")
    check_ours("ours.keras", model, optimizer=True)
    model.save(folder / "back.keras")
    before = int(model.optimizer.iterations)
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    check("ours.keras: training continues", int(model.optimizer.iterations) == before + 1)
    with h5py.File(folder / "many.h5") as file:
        names = legacy_h5_format.load_attributes_from_hdf5_group(file, "layer_names")
        check("many.h5", names == [f"a_layer_with_a_long_name_{i}" for i in range(3000)])


def write(folder):
    keras.utils.set_random_seed(7)
    model = network()
    model.compile("adam", "mse")
    model.fit(np.random.rand(8, 6, 6, 2), np.random.rand(8, 2), verbose=0)
    model.save(folder / "model.h5")
    model.save(folder / "net.keras")
    model.save_weights(folder / "net.weights.h5")
    # The layout of a legacy file of weights alone, which Keras 3 reads but no longer writes by a public function.
    with h5py.File(folder / "weights.h5", "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, model)
    names = {}
    for layer in model.layers:
        for inside in getattr(layer, "layers", [layer]):
            for weight in inside.weights:
                own = f"{inside.name}/{weight.name}"
                names[own if inside is layer else f"{layer.name}/{own}"] = weight.numpy()
    np.savez(folder / "weights.npz", **names)
    np.savez(folder / "optimizer.npz", **{str(i): v.numpy() for i, v in enumerate(model.optimizer.variables)})

    keras.config.set_dtype_policy("bfloat16")
    half = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3, name="half")])
    half.save_weights(folder / "half.weights.h5")
    np.savez(folder / "half.npz", kernel=np.asarray(half.layers[0].kernel).astype("float32"))


if __name__ == "__main__":
    if sys.argv[1] == "describe":
        describe()
    else:
        read_ours(pathlib.Path(sys.argv[2]))
        write(pathlib.Path(sys.argv[2]))
