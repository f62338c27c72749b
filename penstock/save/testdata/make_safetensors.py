"""Writes library.safetensors with the format's own library: pip install safetensors==0.8.0

Byte j of tensor i (in the order of TYPES) is (31 i + 7 j) mod 256, or mod 2 for bool. The library's
Python side cannot write the F6 types.
"""
import pathlib

import numpy as np
import safetensors

TYPES = {
    "bool": 1, "uint8": 1, "int8": 1, "float8_e5m2": 1, "float8_e4m3fn": 1, "float8_e8m0fnu": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "int16": 2, "uint16": 2, "float16": 2,
    "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4, "complex64": 8, "float64": 8, "int64": 8,
    "uint64": 8,
}
specs, kept = {}, []


def add(name, dtype, shape, size, i):
    data = (31 * i + 7 * np.arange(size)) % (2 if dtype == "bool" else 256)
    kept.append(data.astype(np.uint8))
    specs[name] = safetensors.TensorSpec(
        dtype=dtype, shape=shape, data_ptr=kept[-1].ctypes.data, data_len=size)


for i, (dtype, width) in enumerate(TYPES.items()):
    add(dtype, dtype, [2, 3], 6 * width, i)
add("float4_e2m1fn", "float4_e2m1fn_x2", [2, 2], 4, 19)  # the header says [2, 4]: it counts halves
add("scalar", "float32", [], 4, 20)
add("empty", "int16", [0, 5], 0, 21)
add('quote " slash \\ ümlaut \n', "int32", [1], 4, 22)

path = pathlib.Path(__file__).parent / "library.safetensors"
safetensors.serialize_file(specs, path, {"made by": "safetensors 0.8.0"})
