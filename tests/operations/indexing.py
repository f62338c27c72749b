"""Random cases of gathers and scatters. Out-of-bounds indices are clamped by reads and dropped by writes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from draw import FLOATS, INTEGERS, SELECTS, SMOOTH, Case, numpy_type

ANY = [*FLOATS, *INTEGERS, "bool"]
INDICES = ["int32", "int64", "uint8", "int8", "uint32"]


def indices(draw, shape, extent, dtype):
    """Indices around [0, extent), and occasionally the limits of the type."""
    low = 0 if dtype.startswith("u") else -3
    out = np.asarray(draw.random.integers(low, extent + 3, shape)).astype(dtype)
    if out.size and draw.one_in(6):
        out.flat[0] = np.iinfo(dtype).max
    if out.size and draw.one_in(6):
        out.flat[-1] = np.iinfo(dtype).min
    return out


def clipped(at, extent):
    return jnp.clip(at.astype(jnp.int64), 0, extent - 1)


def take(draw):
    dtype, shape = draw.pick(*ANY), draw.full_shape(1, 3)
    axis = draw.axis(len(shape))
    at = indices(draw, draw.shape(0, 2), shape[axis], draw.pick(*INDICES))
    return Case([draw.values(shape, dtype), at], lambda x, at: jnp.take(x, clipped(at, x.shape[axis]), axis=axis),
                {"axis": axis}, draw.order(dtype), SELECTS)


def take_along_axis(draw):
    dtype, shape = draw.pick(*ANY), draw.full_shape(1, 4)
    axis = draw.axis(len(shape))
    of = [1 if draw.one_in(6) else extent for extent in shape]
    of[axis] = draw.number(1, 5)
    at = indices(draw, of, shape[axis], draw.pick(*INDICES))
    return Case([draw.values(shape, dtype), at],
                lambda x, at: jnp.take_along_axis(x, clipped(at, x.shape[axis]), axis=axis), {"axis": axis},
                draw.order(dtype), SELECTS)


def one_hot(draw):
    dtype, depth = draw.pick(*ANY), draw.number(0, 5)
    at = indices(draw, draw.shape(0, 3), depth, draw.pick(*INDICES))
    return Case([at], lambda at: jax.nn.one_hot(at.astype(jnp.int64), depth, dtype=numpy_type(dtype)),
                {"depth": depth, "dtype": dtype}, 0, SELECTS)


class Places:
    """Windows of x at indices, as in stablehlo.gather and scatter, with the axes in any allowed order."""

    def __init__(self, draw, shape):
        rank = len(shape)
        self.shape = shape
        self.mapped = draw.permutation(rank)[:draw.number(1, rank)]
        self.collapsed = sorted(draw.permutation(rank)[:draw.number(0, rank)])
        self.sizes = [1 if i in self.collapsed else draw.number(1, extent) for i, extent in enumerate(shape)]
        self.batch = draw.full_shape(0, 2, 4)
        inside = [size for i, size in enumerate(self.sizes) if i not in self.collapsed]
        rank_out = len(self.batch) + len(inside)
        self.window = sorted(draw.permutation(rank_out)[:len(inside)])
        self.vector = draw.number(0, len(self.batch))
        # An index with one component may omit the axis for components.
        self.alone = len(self.mapped) == 1 and draw.flip()
        if self.alone:
            self.vector = len(self.batch)
        of_window, of_batch = iter(inside), iter(self.batch)
        self.windows = [next(of_window) if i in self.window else next(of_batch) for i in range(rank_out)]

    def draw_indices(self, draw):
        dtype = draw.pick(*INDICES)
        each = [indices(draw, self.batch, self.shape[axis], dtype) for axis in self.mapped]
        return each[0] if self.alone else np.stack(each, self.vector)

    def for_jax(self, at):
        at = at.astype(jnp.int64)
        return at[..., None] if self.alone else jnp.moveaxis(at, self.vector, -1)


def gather(draw):
    dtype, shape = draw.pick(*ANY), draw.full_shape(1, 4)
    p = Places(draw, shape)
    numbers = lax.GatherDimensionNumbers(tuple(p.window), tuple(p.collapsed), tuple(p.mapped))
    return Case([draw.values(shape, dtype), p.draw_indices(draw)],
                lambda x, at: lax.gather(x, p.for_jax(at), numbers, tuple(p.sizes), mode="clip"),
                {"offset_dims": p.window, "collapsed_slice_dims": p.collapsed, "start_index_map": p.mapped,
                 "index_vector_dim": p.vector, "slice_sizes": p.sizes}, draw.order(dtype), SELECTS)


SCATTERS = {"replace": lax.scatter, "sum": lax.scatter_add, "product": lax.scatter_mul, "min": lax.scatter_min,
            "max": lax.scatter_max}


def scatter(draw):
    reducer = draw.pick(*SCATTERS, "sum")
    dtype, shape = draw.pick(*FLOATS, *INTEGERS), draw.full_shape(1, 4)
    p = Places(draw, shape)
    once = reducer == "replace" or (reducer == "product" and draw.flip())
    if once:  # single window: if two windows replace the same element, the result is unspecified
        p.batch = [1] * len(p.batch)
        p.windows = [n if i in p.window else 1 for i, n in enumerate(p.windows)]
    numbers = lax.ScatterDimensionNumbers(tuple(p.window), tuple(p.collapsed), tuple(p.mapped))
    function = lambda x, at, updates: SCATTERS[reducer](x, p.for_jax(at), updates, numbers, mode="drop",
                                                        unique_indices=once)
    # JAX has no gradient of minima and maxima, and one of products only for unique indices.
    order = draw.order(dtype) if reducer in ("replace", "sum") or once else 0
    exact = dtype not in FLOATS or reducer in ("replace", "min", "max")
    return Case([draw.values(shape, dtype, special=8), p.draw_indices(draw), draw.values(p.windows, dtype, special=8)],
                function, {"update_window_dims": p.window, "inserted_window_dims": p.collapsed,
                           "scatter_dims_to_operand_dims": p.mapped, "index_vector_dim": p.vector, "reducer": reducer,
                           "unique_indices": once}, order, SELECTS if exact else SMOOTH)


OPERATIONS = {"Take": take, "TakeAlongAxis": take_along_axis, "OneHot": one_hot, "Gather": gather, "Scatter": scatter}
