"""Shared by the families of random operations: the definition of a case, and random shapes and values."""

import dataclasses
from typing import Callable

import jax.numpy as jnp
import ml_dtypes
import numpy as np

FLOATS = ["float32", "float64", "bfloat16", "float16"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED

# How the results of a case are compared with JAX's (see expect.py).
SMOOTH = "smooth"  # continuous: compared with float64, within the effect of rounding inputs and cotangents
SELECTS = "selects"  # values are selected, not computed, so they are equal; gradients are sums of cotangents
SAME_TYPE = "same type"  # defined by the type itself: compared with JAX in the same type


@dataclasses.dataclass
class Case:
    """One call of an operation.

    function    the JAX equivalent: takes the inputs, returns an array or a sequence of them; for SMOOTH and SELECTS it
                must work in whatever float type it is given
    options     the operation's parameters other than values (JSON)
    order       2: gradients of gradients as well; 1: gradients; 0: values only
    saturates   gradients are computed from results that are rounded near 1, or cotangents that cancel: they may be
                off by roundings of the cotangents' size
    magnitude   SAME_TYPE: size of the terms that the result is the sum of, where that may be small
    computes_in SAME_TYPE: the narrower type whose rounding counts
    """

    inputs: list
    function: Callable
    options: dict = dataclasses.field(default_factory=dict)
    order: int = 0
    compare: str = SMOOTH
    saturates: bool = False
    magnitude: float = 0.0
    computes_in: str = ""


def numpy_type(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def is_float(dtype):
    return jnp.issubdtype(dtype, jnp.floating)


def edges(dtype):
    """Special values of a float type: zeros, infinities, NaN, the limits of its range, denormals."""
    info = ml_dtypes.finfo(numpy_type(dtype))
    smallest, largest, denormal = float(info.tiny), float(info.max), float(info.smallest_subnormal)
    ends = [0.0, smallest, denormal, 37 * denormal, largest, np.inf]
    inside = [1e-6, 1e-3, 0.5, 0.9999, 1, 1.0001, 1.5, 2, 3, 3.14159, 10, 30, 88, 100, 1000, 6e4]
    values = np.array([np.nan] + ends + inside, np.float64)
    return np.concatenate([values, -values[1:]]).astype(numpy_type(dtype))


def without_overflow(x):
    """Those special values at which gradient formulas do not overflow in intermediate results."""
    size = np.abs(x.astype(np.float64))
    return x[(size == 0) | ((size >= 1e-3) & (size <= 100))]


class Draw:
    """Random choices for one case."""

    def __init__(self, seed):
        self.random = np.random.default_rng(list(seed.encode()))

    def number(self, low, high):
        """An integer in [low, high]."""
        return int(self.random.integers(low, high + 1))

    def one_in(self, n):
        return self.number(1, n) == 1

    def flip(self):
        return self.one_in(2)

    def pick(self, *values):
        return values[self.number(0, len(values) - 1)]

    def order(self, *dtypes):
        """How many times to differentiate an operation on these types."""
        return self.pick(0, 1, 1, 2) if all(dtype in FLOATS for dtype in dtypes) else 0

    # ---- Shapes and axes ----

    def extent(self, high=5):
        return 0 if self.one_in(30) else self.number(1, high)

    def shape(self, min_rank=0, max_rank=4, high=5):
        return [self.extent(high) for _ in range(self.number(min_rank, max_rank))]

    def full_shape(self, min_rank=0, max_rank=4, high=5):
        """Without empty axes."""
        return [self.number(1, high) for _ in range(self.number(min_rank, max_rank))]

    def broadcasting(self, count):
        """Shapes that can be broadcast to a common shape."""
        whole = self.shape()
        shapes = [[1 if self.one_in(5) else extent for extent in whole] for _ in range(count)]
        return [shape[self.number(0, len(shape)):] if self.one_in(3) else shape for shape in shapes]

    def axis(self, rank):
        return self.number(-rank, rank - 1)

    def permutation(self, count):
        return [int(i) for i in self.random.permutation(count)]

    def axes(self, rank, min_count=0):
        """A random subset of the axes in random order, some of them negative."""
        some = self.permutation(rank)[:self.number(min(min_count, rank), rank)]
        return [axis - rank if self.one_in(3) else axis for axis in some]

    # ---- Numbers ----

    def normal(self, shape, dtype="float32", scale=1.0):
        return np.asarray(self.random.normal(size=shape) * scale).astype(numpy_type(dtype))

    def integers(self, shape, dtype):
        """Values from the entire range, or small ones and the limits of the range."""
        info = np.iinfo(dtype)
        if self.flip():
            return np.asarray(self.random.integers(info.min, info.max, shape, dtype, endpoint=True))
        few = np.array([0, 1, 2, 3, 5, 7, info.min, info.max, info.min + 1, info.max - 1], dtype)
        return np.asarray(few[self.random.integers(0, len(few), shape)])

    def small_integers(self, shape, dtype, low=-3, high=3):
        """Few distinct values, so that many are equal."""
        low = low if is_float(numpy_type(dtype)) or dtype in SIGNED else 0
        return np.asarray(self.random.integers(low, high + 1, shape)).astype(numpy_type(dtype))

    def bools(self, shape):
        return np.asarray(self.random.integers(0, 2, shape)).astype(bool)

    def values(self, shape, dtype, special=4, scale=1.0):
        """Any values of a type; in one of `special` float cases, some are NaN, infinite, or limits of the range."""
        if dtype == "bool":
            return self.bools(shape)
        if dtype in INTEGERS:
            return self.integers(shape, dtype)
        x = self.small_integers(shape, dtype) if self.one_in(4) else self.normal(shape, dtype, scale)
        if special and self.one_in(special):
            at = self.random.uniform(size=shape) < 0.3
            x = np.where(at, edges(dtype)[self.random.integers(0, len(edges(dtype)), shape)], x)
        return np.asarray(x).astype(numpy_type(dtype))
