"""Writes and reads safetensors files with the format's own library.

Usage: safetensors_files.py write FILE    writes a tensor of every type the library has, and metadata
       safetensors_files.py check FILE    reads such a file and compares; exits with 1 where it differs
       safetensors_files.py index FILE    the same for the index of several files

A tensor's bytes are computed from its name by a formula that safetensors_test.cc has as well.
"""

import json
import pathlib
import sys

import numpy as np
import safetensors
import safetensors.numpy

# For each type: the library's name, the format's name, and the bits of an element.
TYPES = [
    ("float64", "F64", 64), ("float32", "F32", 32), ("float16", "F16", 16), ("bfloat16", "BF16", 16),
    ("int64", "I64", 64), ("int32", "I32", 32), ("int16", "I16", 16), ("int8", "I8", 8),
    ("uint64", "U64", 64), ("uint32", "U32", 32), ("uint16", "U16", 16), ("uint8", "U8", 8),
    ("bool", "BOOL", 8), ("complex64", "C64", 64), ("float8_e4m3fn", "F8_E4M3", 8), ("float8_e5m2", "F8_E5M2", 8),
    ("float8_e8m0fnu", "F8_E8M0", 8), ("float8_e4m3fnuz", "F8_E4M3FNUZ", 8), ("float8_e5m2fnuz", "F8_E5M2FNUZ", 8),
]
SHAPES = {"vector": [7], "scalar": [], "cube": [3, 1, 4], "empty": [2, 0]}
METADATA = {"format": "pt", "naïve": "ünï\ncode \"quoted\""}


def tensor_bytes(name, kind, shape, bits):
    count = int(np.prod(shape)) * bits // 8
    values = [(len(name) * 31 + k * 7) % 256 for k in range(count)]
    return bytes(v % 2 for v in values) if kind == "BOOL" else bytes(values)


def tensors():
    for word, kind, bits in TYPES:
        for shape_name, shape in SHAPES.items():
            name = f"{kind}/{shape_name}"
            yield name, word, kind, shape, tensor_bytes(name, kind, shape, bits)


def write(path):
    specs, keep = {}, []
    for name, word, _, shape, data in tensors():
        buffer = np.frombuffer(data + b"\0", np.uint8).copy()
        keep.append(buffer)
        specs[name] = safetensors.TensorSpec(dtype=word, shape=shape, data_ptr=buffer.ctypes.data, data_len=len(data))
    safetensors.serialize_file(specs, path, METADATA)


def check(path):
    with open(path, "rb") as file:
        found = {name: (t["dtype"], list(t["shape"]), bytes(t["data"]))
                 for name, t in safetensors.deserialize(file.read())}
    expected = {name: (kind, shape, data) for name, _, kind, shape, data in tensors()}
    assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())
    for name, want in expected.items():
        assert found[name] == want, f"{name}: {found[name]}, expected {want}"
    with safetensors.safe_open(path, "numpy") as opened:
        assert opened.metadata() == METADATA, opened.metadata()
        assert opened.get_tensor("F32/cube").tobytes() == expected["F32/cube"][2]


def index(path):
    with open(path) as file:
        shown = json.load(file)
    wanted = {name: (kind, shape, data) for name, _, kind, shape, data in tensors()}
    found = {}
    for shard in set(shown["weight_map"].values()):
        found |= {name: (t["dtype"], list(t["shape"]), bytes(t["data"]))
                  for name, t in safetensors.deserialize((pathlib.Path(path).parent / shard).read_bytes())
                  if shown["weight_map"][name] == shard}
    assert found == wanted, sorted(found.keys() ^ wanted.keys())
    assert len(set(shown["weight_map"].values())) > 3
    assert shown["metadata"] == METADATA | {"total_size": sum(len(w[2]) for w in wanted.values())}, shown["metadata"]


if __name__ == "__main__":
    {"write": write, "check": check, "index": index}[sys.argv[1]](sys.argv[2])
