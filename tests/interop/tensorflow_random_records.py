"""Writes random TFRecord files and tf.train.Examples, valid and corrupt, and what TensorFlow reads from them.

Usage: tensorflow_random_records.py FOLDER SEED EXAMPLES FILES

FOLDER/examples       uint32 length and bytes of each Example
FOLDER/examples.want  a line for each, with tabs: the result of protobuf, the result of tf.io.parse_single_example, and
                      whether the Example is "whole" or "damaged". "E" is an error; "K" is followed by NAME=VALUES; by
                      name, or by VALUES; in the schema's order. VALUES are b, f or i (bytes, floats, integers) and for
                      each value a comma and the hex digits, the bits, the number.
FOLDER/files/N        a TFRecord file; FOLDER/files/N.want: "K" or "E" for its end, and the number of records before it;
                      FOLDER/files/N.records: uint32 length and bytes of each record
"""

import gzip
import os
import random
import struct
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

# Name, kind (field of tf.train.Feature: 1 bytes, 2 floats, 3 integers), values (None: any number).
SCHEMA = [(b"b1", 1, 1), (b"i1", 3, 1), (b"f2", 2, 2), (b"iv", 3, None), (b"fv", 2, None), (b"bv", 1, None)]
SPEC = {
    "b1": tf.io.FixedLenFeature([], tf.string),
    "i1": tf.io.FixedLenFeature([], tf.int64),
    "f2": tf.io.FixedLenFeature([2], tf.float32),
    "iv": tf.io.VarLenFeature(tf.int64),
    "fv": tf.io.VarLenFeature(tf.float32),
    "bv": tf.io.VarLenFeature(tf.string),
}
LENGTH = 2  # wire type of a length-delimited field


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def tag(field, wire_type):
    return varint(field << 3 | wire_type)


def field(number, body):
    return tag(number, LENGTH) + varint(len(body)) + body


def integer(rng):
    return rng.choice([0, 1, -1, 127, 128, 2**31, -2**31, 2**63 - 1, -2**63, rng.getrandbits(64) - 2**63,
                       rng.randrange(1000)])


def unknown_field(rng, share=0.06, depth=0):
    """Nothing, or a field that is not defined for an Example."""
    if rng.random() >= share:
        return b""
    number = rng.choice([4, 5, 15, 16, 100, 2**29 - 1, 7, 19000])
    wire_type = rng.choice([0, 1, 2, 5, 3])
    if wire_type == 0:
        return tag(number, 0) + varint(integer(rng))
    if wire_type == 1:
        return tag(number, 1) + rng.randbytes(8)
    if wire_type == 5:
        return tag(number, 5) + rng.randbytes(4)
    if wire_type == LENGTH:
        return field(number, rng.randbytes(rng.randrange(5)))
    inside = b"".join(unknown_field(rng, 1, depth + 1) for _ in range(rng.randrange(3))) if depth < 5 else b""
    return tag(number, 3) + inside + tag(number, 4)


def values(rng, kind, count=None):
    """A BytesList, FloatList, or Int64List, with packed or unpacked numbers."""
    count = rng.choice([0, 1, 1, 1, 2, 2, 3, 5]) if count is None else count
    packed = rng.random() < 0.6
    out = b""
    if kind == 1:
        for _ in range(count):
            out += unknown_field(rng) + field(1, rng.randbytes(rng.randrange(4)))
    elif kind == 2:
        numbers = [rng.randbytes(4) for _ in range(count)]
        out += field(1, b"".join(numbers)) if packed else b"".join(tag(1, 5) + n for n in numbers)
        if rng.random() < 0.05:  # in two parts
            out += field(1, rng.randbytes(4 * rng.randrange(3)))
    else:
        numbers = [varint(integer(rng)) for _ in range(count)]
        out += field(1, b"".join(numbers)) if packed else b"".join(tag(1, 0) + n for n in numbers)
        if rng.random() < 0.05:
            out += tag(1, 0) + varint(integer(rng))
    return out + unknown_field(rng)


def feature(rng, kind, count):
    out = unknown_field(rng)
    if rng.random() < 0.03:
        return out
    return out + field(kind, values(rng, kind, count)) + unknown_field(rng)


def entry(rng, name, kind, count):
    """One entry of the map: name and feature in either order; occasionally one is missing."""
    key, value = field(1, name), field(2, feature(rng, kind, count))
    chance = rng.random()
    if chance < 0.02:
        return value + key
    if chance > 0.98:
        return value
    return key if chance > 0.97 else key + value


def damaged(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if not data:
            break
        at = rng.randrange(len(data))
        chance = rng.random()
        if chance < 0.4:
            data[at] ^= 1 << rng.randrange(8)
        elif chance < 0.6:
            data[at] = rng.randrange(256)
        elif chance < 0.75:
            del data[at:at + rng.randrange(1, 6)]
        elif chance < 0.9:
            data[at:at] = rng.randbytes(rng.randrange(1, 4))
        else:
            del data[at:]
    return bytes(data)


def example(rng):
    entries = [entry(rng, *row) for row in SCHEMA if rng.random() > 0.02]
    if rng.random() < 0.1:  # a duplicate name: the last entry wins
        entries.append(entry(rng, *rng.choice(SCHEMA)))
    if rng.random() < 0.05:
        name = rng.choice([b"zz", b"", b"\xc3\xa9"])
        entries.append(entry(rng, name, rng.choice([1, 2, 3]), None))
    rng.shuffle(entries)
    if rng.random() > 0.04:
        out = field(1, b"".join(unknown_field(rng) + field(1, e) for e in entries))
    else:  # Features in two parts
        out = b"".join(field(1, b"".join(field(1, e) for e in part)) for part in (entries[:3], entries[3:]))
    out = unknown_field(rng) + out + unknown_field(rng)
    return (damaged(rng, out), "damaged") if rng.random() < 0.25 else (out, "whole")


def show(kind, items):
    if kind == "b":
        return "b" + "".join("," + item.hex() for item in items)
    if kind == "f":
        return "f" + "".join("," + str(bits) for bits in np.array(items, np.float32).view(np.uint32))
    return "i" + "".join("," + str(item) for item in items)


def show_feature(message):
    kind = message.WhichOneof("kind")
    return "none" if kind is None else show(kind[0], getattr(message, kind).value)


def by_protobuf(record):
    try:
        features = tf.train.Example.FromString(record).features.feature
    except Exception:
        return "E"
    pairs = sorted((name.encode(), message) for name, message in features.items())
    return "K" + "".join(f"{name.hex()}={show_feature(message)};" for name, message in pairs)


@tf.function(input_signature=[tf.TensorSpec([], tf.string)])
def parse(record):
    parsed = tf.io.parse_single_example(record, SPEC)
    return [parsed[name].values if name.endswith("v") else parsed[name] for name in SPEC]


def by_parser(record):
    try:
        columns = parse(record)
    except Exception:
        return "E"
    kinds = {tf.string: "b", tf.float32: "f", tf.int64: "i"}
    # Not through numpy's strings, which drop trailing zeros.
    items = [[column.numpy()] if column.shape.rank == 0 else list(column.numpy()) for column in columns]
    return "K" + "".join(show(kinds[column.dtype], i) + ";" for column, i in zip(columns, items))


def write_records(path, records, kind):
    with tf.io.TFRecordWriter(path, options=kind) as writer:
        for record in records:
            writer.write(record)


def record_file(rng, path):
    kind = rng.choice(["", "", "GZIP", "ZLIB"])
    records = [rng.randbytes(rng.choice([0, 1, 7, 100, 100, 1000, 40000])) for _ in range(rng.randrange(12))]
    write_records(path, records, kind)
    with open(path, "rb") as f:
        data = f.read()
    chance = rng.random()
    if chance < 0.35:
        data = damaged(rng, data)
    elif chance < 0.45:
        data += rng.choice([b"x", bytes(1), bytes(12), bytes(16), bytes(4096), rng.randbytes(20)])
    elif chance < 0.5 and kind == "GZIP":  # several members
        data += gzip.compress(b"", mtime=0) + data
    with open(path, "wb") as f:
        f.write(data)
    return kind


def read_records(path, kind):
    records, end = [], "K"
    try:
        for record in tf.data.TFRecordDataset(path, compression_type=kind):
            records.append(record.numpy())
    except tf.errors.DataLossError:
        end = "E"
    return records, end


def with_lengths(items):
    return b"".join(struct.pack("<I", len(item)) + item for item in items)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def main(folder, seed, examples, files):
    rng = random.Random(int(seed))
    made = [example(rng) for _ in range(int(examples))]
    write(f"{folder}/examples", with_lengths([data for data, _ in made]))
    lines = [f"{by_protobuf(data)}\t{by_parser(data)}\t{state}\n" for data, state in made]
    write(f"{folder}/examples.want", "".join(lines).encode())
    os.mkdir(f"{folder}/files")
    for i in range(int(files)):
        path = f"{folder}/files/{i}"
        kind = record_file(rng, path)
        records, end = read_records(path, kind)
        write(f"{path}.want", f"{end} {len(records)} {kind or 'NONE'}\n".encode())
        write(f"{path}.records", with_lengths(records))


if __name__ == "__main__":
    main(*sys.argv[1:])
