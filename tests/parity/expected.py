"""What the files expect*.py share: where rows are collected, and how their names and numbers come about."""

import json

import jax.numpy as jnp
import numpy as np
import safetensors.numpy


class Expected:
    """Collects rows and their tensors."""

    def __init__(self):
        self.rows, self.tensors = [], {}

    def add(self, kind, name, tensors, **row):
        for key, value in tensors.items():
            value = np.asarray(value)
            if value.dtype == jnp.bfloat16:
                value = value.astype(np.float32)
            if value.dtype in (np.float64, np.int64, np.bool_):
                value = value.astype(np.int64 if value.dtype == np.int64 else np.float32)
            self.tensors[f"{len(self.rows)}/{key}"] = np.array(value, order="C")
        self.rows.append({"kind": kind, "name": name, **row})

    def write(self, folder):
        (folder / "rows.json").write_text(json.dumps(self.rows, indent=1))
        safetensors.numpy.save_file(self.tensors, folder / "expected.safetensors")


def title(class_name, options, *more):
    """A row's name, for people."""
    words = [f"{key}={json.dumps(value)}" for key, value in options.items()]
    return " ".join([class_name, *words, *(str(m) for m in more if m)])


def seeded(text):
    """Random numbers that depend on the row alone, not on the rows before it."""
    return np.random.default_rng(list(text.encode()))


def numbers(rng, shape, dtype="float32", high=200):
    if dtype == "float32":
        return rng.normal(size=shape).astype(np.float32)
    return rng.integers(0, high, size=shape).astype(dtype)
