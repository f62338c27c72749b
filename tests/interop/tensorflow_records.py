"""Writes and reads TFRecord files of tf.train.Example with TensorFlow.

Usage: tensorflow_records.py write FOLDER    writes FOLDER/{none,gzip,zlib}.tfrecord
       tensorflow_records.py check FOLDER    reads such files and compares; exits with 1 where they differ
       snapshot FOLDER counts the elements in the shards of a Snapshot; each record begins with
                                             the number of elements that they hold (data/cache/rows_format.h)

Record i is computed by a formula that records_test.cc has as well.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

COUNT = 300
KINDS = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}


def features(i):
    return {
        "image": bytes((i + k) % 256 for k in range(i * 37 % 1000)),  # empty in record 0, with zero bytes
        "names": [b"n%d" % k for k in range(i % 3)],
        "box": [i * 0.5, -i, 1e-30],
        "tags": [(i - k) << 40 for k in range(i % 4)],  # negative and large numbers, and empty lists
        "class": i % 10,
    }


def example(i):
    f = features(i)
    return tf.train.Example(features=tf.train.Features(feature={
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[f["image"]])),
        "names": tf.train.Feature(bytes_list=tf.train.BytesList(value=f["names"])),
        "box": tf.train.Feature(float_list=tf.train.FloatList(value=f["box"])),
        "tags": tf.train.Feature(int64_list=tf.train.Int64List(value=f["tags"])),
        "class": tf.train.Feature(int64_list=tf.train.Int64List(value=[f["class"]])),
    }))


def write(folder):
    for name, kind in KINDS.items():
        with tf.io.TFRecordWriter(f"{folder}/{name}.tfrecord", options=kind) as writer:
            for i in range(COUNT):
                writer.write(example(i).SerializeToString())


def check(folder):
    schema = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "names": tf.io.VarLenFeature(tf.string),
        "box": tf.io.FixedLenFeature([3], tf.float32),
        "tags": tf.io.VarLenFeature(tf.int64),
        "class": tf.io.FixedLenFeature([], tf.int64),
    }
    for name, kind in KINDS.items():
        records = list(tf.data.TFRecordDataset(f"{folder}/{name}.tfrecord", compression_type=kind))
        assert len(records) == COUNT, f"{name}: {len(records)} records, expected {COUNT}"
        for i, record in enumerate(records):
            got, want = tf.io.parse_single_example(record, schema), features(i)
            assert got["image"].numpy() == want["image"], f"{name}, record {i}: image"
            assert list(tf.sparse.to_dense(got["names"]).numpy()) == want["names"], f"{name}, record {i}: names"
            assert got["box"].numpy().tolist() == tf.constant(want["box"]).numpy().tolist(), f"{name}, record {i}: box"
            assert tf.sparse.to_dense(got["tags"]).numpy().tolist() == want["tags"], f"{name}, record {i}: tags"
            assert got["class"].numpy() == want["class"], f"{name}, record {i}: class"
            # TensorFlow packs lists; Penstock writes the same bytes.
            assert tf.train.Example.FromString(record.numpy()) == example(i), f"{name}, record {i}: as a message"


def varint(record):
    number = 0
    for shift, byte in enumerate(record):
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return number
    raise ValueError("a number without end")


def snapshot(folder):
    shards = sorted(tf.io.gfile.glob(f"{folder}/snapshot-*.tfrec"))
    assert len(shards) > 1, shards
    elements = sum(varint(record.numpy()) for record in tf.data.TFRecordDataset(shards))
    assert elements == COUNT, f"{elements} elements in {len(shards)} shards, expected {COUNT}"


if __name__ == "__main__":
    {"write": write, "check": check, "snapshot": snapshot}[sys.argv[1]](sys.argv[2])
