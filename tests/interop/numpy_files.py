"""Writes and reads files with NumPy.

Usage: numpy_files.py write FOLDER    writes FOLDER/NAME.npy of many types and layouts, all.npz and packed.npz of
                                      the numbers among them, and refused_*.npy of kinds that are not read
       numpy_files.py check FOLDER    reads what numpy_test.cc wrote there, and compares; exits with 1 where it differs

Element i (row-major) of an array is computed by a formula that numpy_test.cc has as well.
"""

import io
import sys
import zipfile

import ml_dtypes  # installed with JAX
import numpy as np

SHAPES = {"scalar": (), "empty": (0, 3), "row": (7,), "cube": (2, 3, 4)}
TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "float16", "float32", "float64", "complex64"]
WORDS = ["", "a", "bc", "def\0ghi", "klm"]


def values(dtype, shape):
    i = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
    if dtype == "bool":
        return i % 3 == 0
    if dtype == "complex64":
        return (i / 4 - 1j * i).astype(dtype)
    if dtype.startswith("float"):
        return (i / 4 - 2).astype(dtype)
    # The minimum and the maximum come first.
    info = np.iinfo(dtype)
    flat = np.array([(info.min, info.max)[k] if k < 2 else k for k in range(i.size)], dtype=dtype)
    return flat.reshape(shape)


def arrays():
    return {f"{dtype}_{name}": values(dtype, shape) for dtype in TYPES for name, shape in SHAPES.items()}


def write(folder):
    numbers = arrays()
    for name, array in numbers.items():
        np.save(f"{folder}/{name}.npy", array)
        np.save(f"{folder}/{name}_columns.npy", np.array(array, order="F"))
        np.save(f"{folder}/{name}_big.npy", array.astype(array.dtype.newbyteorder(">")))
    np.savez(f"{folder}/all.npz", **numbers)
    np.savez_compressed(f"{folder}/packed.npz", **numbers)
    np.save(f"{folder}/bytes.npy", np.array([w.encode() for w in WORDS]))
    np.save(f"{folder}/text.npy", np.array(WORDS + ["\u00e4\u20ac\U0001f600"]))
    np.save(f"{folder}/refused_bfloat16.npy", values("float32", (7,)).astype(ml_dtypes.bfloat16))
    np.save(f"{folder}/refused_record.npy", np.zeros(3, dtype=[("x", "<f4"), ("y", "<i8")]))
    np.save(f"{folder}/refused_object.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    np.save(f"{folder}/refused_time.npy", np.array(["2026-01-01"], dtype="datetime64[D]"))


def expect(name, got, want):
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (
        f"{name}: {got.dtype}{got.shape}, expected {want.dtype}{want.shape}")
    assert got.tobytes() == want.tobytes(), f"{name}: {got}, expected {want}"


def check(folder):
    numbers = arrays()
    for name, array in numbers.items():
        expect(name, np.load(f"{folder}/{name}.npy"), array)
        saved = io.BytesIO()
        np.save(saved, array)
        with open(f"{folder}/{name}.npy", "rb") as file:
            assert file.read() == saved.getvalue(), f"{name}.npy: other bytes than NumPy's"
    words = np.load(f"{folder}/words.npy")
    assert words.tolist() == [w.encode() for w in WORDS], words
    for archive in ("all.npz", "packed.npz"):
        assert zipfile.ZipFile(f"{folder}/{archive}").testzip() is None, f"{archive} is corrupt"
        got = np.load(f"{folder}/{archive}")
        assert got.files == list(numbers), f"{archive}: {got.files}"
        for name, array in numbers.items():
            expect(f"{archive}/{name}", got[name], array)


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](sys.argv[2])
