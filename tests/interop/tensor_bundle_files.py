"""Writes and reads TensorFlow's checkpoints with TensorFlow.

Usage: tensor_bundle_files.py write FOLDER    writes types, objects, keras, sharded and slices (one checkpoint each)
       tensor_bundle_files.py check FOLDER    reads what tensor_bundle_test.cc writes; exits with 1 where it differs

A tensor's bytes are computed from its name by a formula that tensor_bundle_test.cc has as well.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf

TYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
         "uint8", "bool", "complex64", "float8_e4m3fn", "float8_e5m2"]
SHAPES = {"vector": [7], "scalar": [], "cube": [3, 1, 4], "empty": [2, 0]}
SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


def tensors():
    for kind in TYPES:
        dtype = tf.as_dtype(kind).as_numpy_dtype
        for shape_name, shape in SHAPES.items():
            name = f"{kind}/{shape_name}"
            count = int(np.prod(shape)) * np.dtype(dtype).itemsize
            values = [(len(name) * 31 + k * 7) % 256 for k in range(count)]
            data = bytes(v % 2 for v in values) if kind == "bool" else bytes(values)
            yield name, np.frombuffer(data, dtype).reshape(shape)


def arange(dtype, *shape):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def save(prefix, names, values, slices=None):
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=slices or [""] * len(names),
                      tensors=values)


def network():
    """Objects with values, and an optimizer that has made its slots."""
    net = tf.Module()
    net.kernel = tf.Variable(arange(np.float32, 2, 3), name="conv/kernel")
    net.sub = tf.Module()
    setattr(net.sub, "bias.x", tf.Variable([1, 2]))
    optimizer = tf.compat.v1.train.MomentumOptimizer(0.0, 0.9)
    optimizer.minimize(lambda: tf.reduce_sum(net.kernel**2))
    return net, optimizer


MOMENTUM = arange(np.float32, 2, 3) + 10


def slots(net, optimizer):
    return optimizer.get_slot(net.kernel, "momentum")


def write(folder):
    names, values = zip(*tensors())
    words = tf.constant(["", "a", "x" * 300])
    save(folder / "types", [*names, "words"], [*(tf.constant(v) for v in values), words])

    net, optimizer = network()
    slots(net, optimizer).assign(MOMENTUM)
    net.by_name = {"a/b": tf.Variable(8.0)}
    iterator = iter(tf.data.Dataset.range(3))
    tf.train.Checkpoint(net=net, optimizer=optimizer, step=tf.Variable(5, dtype=tf.int64), iterator=iterator).write(
        folder / "objects")

    import keras
    model = keras.Sequential([keras.layers.Input((4, 4, 1)), keras.layers.Conv2D(2, 3, name="conv"),
                              keras.layers.BatchNormalization(name="norm")], name="net")
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    for variable in model.variables:
        variable.assign(arange(np.float32, *variable.shape))
    tf.train.Checkpoint(model=model).write(folder / "keras")

    for i in range(2):
        save(folder / f"part{i}", [f"a{i}"], [tf.constant([i, 10 + i])])
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[str(folder / "part0"), str(folder / "part1")],
                                  destination_prefix=str(folder / "sharded"))

    table, columns = arange(np.int32, 200, 3), arange(np.float32, 2, 300, 2)
    save(folder / "slices", ["table", "table", "columns", "columns", "columns"],
         [table[:70], table[70:], columns[:, :64], columns[:, 64:255], columns[:, 255:]],
         ["200 3 0,70:-", "200 3 70,130:-", "2 300 2 -:0,64:-", "2 300 2 -:64,191:-", "2 300 2 -:255,45:-"])


def check(folder):
    for prefix in ["ours", "ours_sharded", "snappy"]:
        reader = tf.train.load_checkpoint(folder / prefix)
        assert len(reader.get_variable_to_dtype_map()) == len(list(tensors())) + 1
        for name, want in tensors():
            got = reader.get_tensor(name + SUFFIX)
            assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes(), name

    def restored(method, prefix):
        net, optimizer = network()
        step = tf.Variable(0, dtype=tf.int64)
        for variable in [net.kernel, getattr(net.sub, "bias.x"), slots(net, optimizer)]:
            variable.assign(tf.zeros_like(variable) + 99)
        checkpoint = tf.train.Checkpoint(net=net, optimizer=optimizer, step=step)
        status = getattr(checkpoint, method)(str(folder / prefix))
        # restore looks for a counter of saves, too, which checkpoints by Checkpoint.write do not have either.
        status.assert_existing_objects_matched() if method == "read" else status.assert_nontrivial_match()
        assert net.kernel.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
        assert getattr(net.sub, "bias.x").numpy().tolist() == [1, 2]
        assert step.numpy() == 5
        return net, optimizer

    for method in ["read", "restore"]:
        net, optimizer = restored(method, "objects.ckpt")
        assert slots(net, optimizer).numpy().tolist() == MOMENTUM.tolist()
    reader = tf.train.load_checkpoint(folder / "slices.ckpt")
    assert np.array_equal(reader.get_tensor("columns" + SUFFIX), arange(np.float32, 2, 300, 2))


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
