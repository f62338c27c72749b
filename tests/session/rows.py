"""Shared by the families of rows: the definition of a row, and its random inputs."""

import dataclasses
import os
from typing import Callable

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

# Why the static shape of a row may differ from TensorFlow's when the batch is unknown.
LESS = "ours knows less"
MORE = "ours knows more"
NOT_HERE = "ours needs a known shape"


@dataclasses.dataclass
class Row:
    """function(*inputs) returns a tensor or a sequence of them."""

    function: Callable
    inputs: list  # functions of a random generator
    gradient: bool = True
    tolerance: float = 1e-5  # relative, of float32
    shape: str = ""  # one of the reasons above


def row(function, *inputs, **options):
    return Row(function, list(inputs), **options)


def f(*shape, low=-2.0, high=2.0, dtype="float32"):
    return lambda random: random.uniform(low, high, shape).astype(dtype)


def i(*shape, low=-9, high=10, dtype="int32"):
    return lambda random: random.integers(low, high, shape).astype(dtype)


def b(*shape):
    return lambda random: random.integers(0, 2, shape).astype(bool)


def steps(*shape, dtype="float32", step=1.0):
    """Few distinct values, so that many are equal."""
    return lambda random: (random.integers(-3, 4, shape) * step).astype(dtype)


def given(values, dtype="float32"):
    return lambda random: np.array(values, dtype)


def positive_definite(*shape, dtype="float32"):
    def draw(random):
        a = random.normal(size=shape)
        return (a @ np.swapaxes(a, -1, -2) + 3 * np.eye(shape[-1])).astype(dtype)

    return draw


def as_list(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def parts(x):
    """The real and the imaginary part of a complex tensor."""
    return [tf.real(x), tf.imag(x)]
