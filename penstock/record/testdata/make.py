"""Writes the golden files of this folder with TensorFlow, for tfrecord_test.cc and example_test.cc.

    python3 -m venv venv && venv/bin/pip install tensorflow-cpu==2.21.0
    venv/bin/python penstock/record/testdata/make.py
"""

import os

import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))


def example(i):
    """Record i. The tests hold the same formulas."""
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes(range(10 * i))])),
        "class": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
        "box": tf.train.Feature(float_list=tf.train.FloatList(value=[i / 2, -i, 1e10, 0.1])),
        "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"tag%d" % k for k in range(i)])),
        "steps": tf.train.Feature(int64_list=tf.train.Int64List(value=[k**3 - 1000 * i for k in range(i)])),
        "größe": tf.train.Feature(float_list=tf.train.FloatList(value=[i] * (i % 2))),
        "nothing": tf.train.Feature(),
    }
    if i == 2:
        del feature["steps"]
    return tf.train.Example(features=tf.train.Features(feature=feature))


for name, compression in [("plain", ""), ("gzip", "GZIP"), ("zlib", "ZLIB")]:
    path = os.path.join(HERE, f"examples.{name}.tfrec")
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for i in range(5):
            writer.write(example(i).SerializeToString(deterministic=True))
with tf.io.TFRecordWriter(os.path.join(HERE, "empty.gzip.tfrec"), "GZIP"):
    pass
