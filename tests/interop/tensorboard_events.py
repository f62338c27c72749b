"""Reads event files with TensorFlow's summary_iterator and compares them with what TensorFlow writes of the same arrays.

    tensorboard_events.py FOLDER      FOLDER/events has the files, FOLDER/*.npy the arrays"""
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

folder = pathlib.Path(sys.argv[1])
values, graphs, last = {}, [], {}
for file in sorted((folder / "events").glob("*")):
    for event in tf.compat.v1.train.summary_iterator(str(file)):
        if event.HasField("graph_def"):
            graphs.append(tf.compat.v1.GraphDef.FromString(event.graph_def))
        for value in event.summary.value:
            values[value.tag] = value
            last[value.tag] = event.step


def parse(serialized):
    return tf.compat.v1.Summary.FromString(serialized.numpy()).value


def compare_histogram(name):
    array = np.load(folder / f"{name}.npy")
    finite = array[np.isfinite(array)].astype(np.float64)
    theirs = parse(tf.raw_ops.HistogramSummary(tag=name, values=tf.constant(finite)))[0].histo
    ours = values[name].histo
    # One ours may leave an empty bucket where they have none: what counts is where the elements are.
    def buckets(histogram):
        return [(limit, count) for limit, count in zip(histogram.bucket_limit, histogram.bucket) if count > 0]

    assert buckets(ours) == buckets(theirs), f"{name}: {buckets(ours)[:5]} and {buckets(theirs)[:5]}"
    assert list(ours.bucket_limit) == list(theirs.bucket_limit), name
    assert list(ours.bucket) == list(theirs.bucket), name
    for field in ("min", "max", "num"):
        assert getattr(ours, field) == getattr(theirs, field), f"{name}.{field}"
    np.testing.assert_allclose(ours.sum, theirs.sum, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(ours.sum_squares, theirs.sum_squares, rtol=1e-12)
    missing = array.size - finite.size
    assert (f"{name}/not_finite" in values) == (missing > 0), name
    if missing > 0:
        assert values[f"{name}/not_finite"].simple_value == missing


def compare_images(name):
    array = np.load(folder / f"{name}.npy")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        summary = session.run(tf.compat.v1.summary.image(name, tf.constant(array), max_outputs=3))
    theirs = tf.compat.v1.Summary.FromString(summary).value
    assert len(theirs) == 3
    for their in theirs:
        our = values[their.tag].image
        assert (our.height, our.width, our.colorspace) == (their.image.height, their.image.width, their.image.colorspace)
        ours = tf.io.decode_png(our.encoded_image_string).numpy().astype(int)
        want = tf.io.decode_png(their.image.encoded_image_string).numpy().astype(int)
        # A fused multiplication and addition rounds once: a pixel on the edge may be one apart.
        difference = np.abs(ours - want)
        assert difference.max() <= (0 if array.dtype == np.uint8 else 1), (name, difference.max())
        assert (difference > 0).mean() < 0.01, name


def compare_text():
    value = values["note"]
    assert value.metadata.plugin_data.plugin_name == "text"
    assert tf.make_ndarray(value.tensor).item() == "**ä** | b".encode()


def compare_graph():
    assert len(graphs) == 1
    nodes = {node.name: node for node in graphs[0].node}
    assert nodes["first/Dense"].op == "Dense"
    assert sorted(nodes["first/Dense"].input) == ["first/bias", "first/kernel", "x"], nodes["first/Dense"].input
    assert "first/Dense" in nodes["sum/Add"].input and "x" in nodes["sum/Add"].input
    shape = nodes["first/kernel"].attr["_output_shapes"].list.shape[0]
    assert [dim.size for dim in shape.dim] == [4, 4]
    assert nodes["first/kernel"].attr["dtype"].type == tf.float32.as_datatype_enum
    assert [dim.size for dim in nodes["first/Dense"].attr["_output_shapes"].list.shape[0].dim] == [-1, 4]
    for node in graphs[0].node:
        for name in node.input:
            assert name.split(":")[0] in nodes, f"{node.name} reads {name}, which is no node"


def compare_operations():
    value = values["train_step"]
    assert value.metadata.plugin_data.plugin_name == "graph_run_metadata_graph"
    assert value.metadata.plugin_data.content == b"1"
    run = tf.compat.v1.RunMetadata.FromString(tf.make_ndarray(value.tensor).item())
    assert len(run.function_graphs) == 1
    nodes = {node.name: node for node in run.function_graphs[0].pre_optimization_graph.node}
    assert sorted(nodes) == ["dense/dot_general", "dense/kernel", "dense/tanh", "x"], sorted(nodes)
    assert list(nodes["dense/dot_general"].input) == ["x", "dense/kernel"]
    assert list(nodes["dense/tanh"].input) == ["dense/dot_general"]
    assert [dim.size for dim in nodes["dense/tanh"].attr["_output_shapes"].list.shape[0].dim] == [2, 5]


def compare_confusion():
    labels, outputs = np.load(folder / "labels.npy"), np.load(folder / "outputs.npy")
    want = tf.math.confusion_matrix(labels, outputs.argmax(1), outputs.shape[1]).numpy()
    np.testing.assert_array_equal(np.load(folder / "counts.npy"), want)
    np.testing.assert_allclose(values["confusion/accuracy"].simple_value, np.trace(want) / want.sum(), rtol=1e-6)
    image = tf.io.decode_png(values["confusion/image"].image.encoded_image_string).numpy()[:, :, 0]
    side = image.shape[0] // len(want)
    parts = want / np.maximum(want.sum(1, keepdims=True), 1)  # two classes have no examples
    np.testing.assert_allclose(image[side // 2::side, side // 2::side], 255 * parts, atol=1)


for histogram in ("normal", "tiny", "zeros", "large", "integers", "holes"):
    compare_histogram(histogram)
for images in ("bytes", "positive", "signed", "color"):
    compare_images(images)
compare_text()
compare_graph()
compare_operations()
compare_confusion()
assert last["normal"] == 1 << 40
