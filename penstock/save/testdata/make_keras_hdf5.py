"""Writes the files in keras_hdf5/ as Keras 1, 2 and 3 lay them out: pip install h5py==3.14.0.

Array k of a file has the values 100 k, 100 k + 1, ...
"""

import io
import json
import pathlib
import zipfile

import h5py
import numpy as np

FOLDER = pathlib.Path(__file__).parent / "keras_hdf5"
FOLDER.mkdir(exist_ok=True)
count = 0


def values(dtype, *shape):
    global count
    count += 1
    return (np.arange(np.prod(shape, dtype=int)) + 100 * (count - 1)).astype(dtype).reshape(shape)


def start():
    global count
    count = 0


def layer(group, name, weights, **options):
    inside = group.create_group(name)
    inside.attrs["weight_names"] = [weight.encode() for weight in weights]
    for weight, array in weights.items():
        inside.create_dataset(weight, data=array, **options)


# Keras 1: fixed-length strings, weights without the name of the layer as a folder.
start()
with h5py.File(FOLDER / "keras1.h5", "w") as file:
    file.attrs["layer_names"] = np.array([b"input_1", b"convolution2d_1"])
    file.create_group("input_1").attrs["weight_names"] = []  # float64, of no elements
    layer(file, "convolution2d_1", {"convolution2d_1_W:0": values("f4", 3, 3, 1, 2),
                                    "convolution2d_1_b:0": values("f4", 2)})

# Keras 2: a whole model, in which a model is a layer; a long attribute in parts.
start()
with h5py.File(FOLDER / "keras2.h5", "w") as file:
    file.attrs["keras_version"] = "2.15.0"
    file.attrs["model_config"] = json.dumps({"class_name": "Sequential"})
    group = file.create_group("model_weights")
    group.attrs["layer_names0"] = [b"inner", b"norm"]
    group.attrs["layer_names1"] = [b"dense"]
    group.attrs["backend"] = "tensorflow"
    layer(group, "inner", {"conv/kernel:0": values(">f4", 1, 1, 2, 2), "conv/bias:0": values("f2", 2)})
    layer(group, "norm", {"net/norm/gamma:0": values("f8", 3), "net/norm/count:0": values("i8")}, )
    layer(group, "dense", {"dense/kernel:0": values("f4", 40, 50)}, compression="gzip", shuffle=True, fletcher32=True)
    layer(group, "top_level_model_weights", {})
    layer(file, "optimizer_weights", {"Adam/iter:0": values("i8"), "Adam/dense/kernel/m:0": values("f4", 2)})

# Keras 3, in an archive.
start()
memory = io.BytesIO()
with h5py.File(memory, "w") as file:
    conv = file.create_group("layers/conv2d/vars")
    conv.attrs["name"] = "block1_conv1"
    conv["0"] = values("f4", 1, 1, 1, 2)
    conv["1"] = values("f4", 2)
    half = file.create_group("layers/dense/vars")
    half.create_dataset("0", data=values("u2", 3).view("V2")).attrs["dtype"] = "bfloat16"
    half["1"] = np.array([True, False])
    half["2"] = ["cat", "dog"]
    file.create_group("optimizer/vars")["0"] = values("i8")
(FOLDER / "keras3.weights.h5").write_bytes(memory.getvalue())
with zipfile.ZipFile(FOLDER / "keras3.keras", "w") as archive:
    for name, data in {"metadata.json": b'{"keras_version": "3.15.1"}', "config.json": b'{"class_name": "Functional"}',
                       "model.weights.h5": memory.getvalue()}.items():
        archive.writestr(zipfile.ZipInfo(name), data)

# Files that Keras does not write and that Penstock rejects or reads in part; keras_hdf5_test.cc has the error of each.
HOSTILE = pathlib.Path(__file__).parent / "keras_hdf5_hostile"
HOSTILE.mkdir(exist_ok=True)
ONE = np.ones(4, "f4")


def hostile(name, make, **options):
    with h5py.File(HOSTILE / f"{name}.h5", "w", **options) as file:
        make(file, file.create_group("layers/dense/vars"))


def cycle(file, group):
    group["0"] = ONE
    group["loop"] = file["layers"]


def named_type(file, group):
    file["type"] = np.dtype("f4")
    group.create_dataset("0", data=ONE, dtype=file["type"])


def shape_bomb(file, group):
    group.create_dataset("0", shape=(1 << 20, 1 << 20), dtype="f8", chunks=(1 << 10, 1 << 10), compression="gzip")


def soft_legacy(file, group):
    file.attrs["layer_names"] = [b"dense"]
    file["dense"] = h5py.SoftLink("/layers/dense/vars")


def shared_elements(file, group):
    group["0"] = np.arange(600, dtype="f4")
    for i in range(1, 4):
        group[str(i)] = group["0"]


hostile("cycle", cycle)
hostile("named_type", named_type)
hostile("shape_bomb", shape_bomb)
hostile("soft_legacy", soft_legacy)
hostile("shared_elements", shared_elements)
hostile("soft_link", lambda file, group: group.__setitem__("0", h5py.SoftLink("/etc")))
hostile("external_link", lambda file, group: group.__setitem__("0", h5py.ExternalLink("/etc/passwd", "/")))
hostile("external_elements", lambda file, group: group.create_dataset("0", data=ONE, external=[("/dev/null", 0, 16)]))
hostile("lzf", lambda file, group: group.create_dataset("0", data=ONE, compression="lzf"))
hostile("rank", lambda file, group: group.create_dataset("0", data=np.ones((1,) * 9)))
hostile("compound", lambda file, group: group.create_dataset("0", data=np.ones(2, "c8")))
hostile("unwritten", lambda file, group: group.create_dataset("0", shape=(4,), dtype="f4"))
hostile("user_block", lambda file, group: None, userblock_size=512)
hostile("latest", lambda file, group: [group.__setitem__(str(i), ONE) for i in range(20)], libver="latest")
