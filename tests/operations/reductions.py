"""Random cases of reductions, cumulative operations, sorting, softmax, and normalization."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from draw import FLOATS, INTEGERS, SELECTS, SMOOTH, Case, numpy_type

ARITHMETIC = [*FLOATS, *INTEGERS]
part = functools.partial


# ---- Reductions ----


def reduction(function, dtypes, compare, draw):
    dtype, shape = draw.pick(*dtypes), draw.shape()
    axes, keep = draw.axes(len(shape)), draw.flip()
    x = draw.values(shape, dtype, special=5)
    reduced = tuple(axes) or None  # no axes: reduce all
    return Case([x], lambda a: function(a, reduced, keep), {"axes": axes, "keep_dims": keep}, draw.order(dtype),
                compare if dtype in FLOATS else SELECTS)


def total(x, axes, keep):
    return jnp.sum(x, axes, keepdims=keep, dtype=x.dtype)


def product(x, axes, keep):
    return jnp.prod(x, axes, keepdims=keep, dtype=x.dtype)


def extreme(function, end):
    """The result over no elements is a limit of the type's range."""
    def reduce(x, axes, keep):
        if x.dtype == bool:
            initial = end < 0
        elif jnp.issubdtype(x.dtype, jnp.floating):
            initial = -end * np.inf
        else:
            initial = jnp.iinfo(x.dtype).min if end > 0 else jnp.iinfo(x.dtype).max
        return function(x, axes, keepdims=keep, **({"initial": initial} if x.size == 0 else {}))
    return reduce


def all_finite(draw):
    xs = [draw.values(draw.shape(), draw.pick(*FLOATS)) for _ in range(draw.number(1, 3))]
    return Case(xs, lambda *xs: jnp.all(jnp.asarray([jnp.all(jnp.isfinite(x)) for x in xs])), {}, 0, SELECTS)


def arg_max(draw):
    dtype, to, shape = draw.pick(*ARITHMETIC), draw.pick("int32", "int64", "uint8"), draw.full_shape(1, 4, 7)
    axis = draw.axis(len(shape))
    return Case([draw.values(shape, dtype)], lambda x: lax.argmax(x, axis % x.ndim, numpy_type(to)),
                {"axis": axis, "dtype": to}, 0, SELECTS)


# ---- Cumulative operations ----


def running(function, draw):
    dtype, shape, reverse = draw.pick(*ARITHMETIC), draw.shape(1, 3, 9), draw.flip()
    axis = draw.axis(len(shape))
    return Case([draw.values(shape, dtype, special=8)], lambda x: function(x, axis=axis % x.ndim, reverse=reverse),
                {"axis": axis, "reverse": reverse}, draw.order(dtype), SMOOTH if dtype in FLOATS else SELECTS)


def running_extreme(sign, draw):
    """The gradient goes to the first of equal elements; JAX halves it at each step, so selects positions first."""
    dtype, shape, reverse = draw.pick(*ARITHMETIC), draw.full_shape(1, 3, 9), draw.flip()
    axis = draw.axis(len(shape)) % len(shape)

    def function(x):
        x = jnp.flip(x, axis) if reverse else x
        best = (lax.cummax if sign > 0 else lax.cummin)(lax.stop_gradient(x), axis=axis)
        before = jnp.roll(best, 1, axis)
        place = lax.broadcasted_iota(np.int32, x.shape, axis)
        is_new = (place == 0) | ((best != before) & ~(jnp.isnan(best) & jnp.isnan(before)))
        chosen = jnp.take_along_axis(x, lax.cummax(jnp.where(is_new, place, 0), axis=axis), axis)
        return jnp.flip(chosen, axis) if reverse else chosen

    return Case([draw.values(shape, dtype, special=8)], function, {"axis": axis, "reverse": reverse},
                draw.order(dtype), SELECTS)


# ---- Sorting ----


def places(x, axis, descending):
    """Stable, with NaNs last in ascending order, which JAX's own `descending` does not guarantee."""
    if not descending:
        return jnp.argsort(x, axis, stable=True)
    ascending = jnp.argsort(jnp.flip(x, axis), axis, stable=True)
    return jnp.flip(x.shape[axis] - 1 - ascending, axis)


def ordered(draw):
    dtype, shape = draw.pick(*ARITHMETIC, "bool"), draw.full_shape(1, 3, 9)
    x = draw.small_integers(shape, dtype) if draw.one_in(3) and dtype != "bool" else draw.values(shape, dtype, special=3)
    return x, dtype, draw.axis(len(shape)), draw.flip()


def sort(draw):
    x, dtype, axis, descending = ordered(draw)
    others = [draw.pick("float32", "int16", "float64") for _ in range(draw.number(0, 2))]

    def function(*xs):
        order = places(lax.stop_gradient(xs[0]), axis, descending)
        return [jnp.take_along_axis(x, order, axis) for x in xs]

    return Case([x, *(draw.values(x.shape, other) for other in others)], function,
                {"axis": axis, "descending": descending}, draw.order(dtype), SELECTS)


def arg_sort(draw):
    x, _, axis, descending = ordered(draw)
    return Case([x], lambda a: places(a, axis, descending).astype(np.int32), {"axis": axis, "descending": descending},
                0, SELECTS)


def top_k(draw):
    x, dtype, axis, _ = ordered(draw)
    k = draw.number(1, x.shape[axis])

    def function(a):
        best = lax.slice_in_dim(places(lax.stop_gradient(a), axis, True), 0, k, axis=axis)
        return [jnp.take_along_axis(a, best, axis), best.astype(np.int32)]

    return Case([x], function, {"k": k, "axis": axis}, draw.order(dtype), SELECTS)


# ---- Softmax and normalization ----


def spread(draw):
    """Values whose exponentials overflow, and rows of -inf."""
    dtype, shape = draw.pick(*FLOATS), draw.full_shape(1, 4, 6)
    x = draw.normal(shape, dtype, draw.pick(1.0, 20.0, 500.0))
    if draw.one_in(4):
        x[draw.random.uniform(size=shape) < 0.2] = -np.inf
    return x, dtype, len(shape)


def soft(function, draw):
    x, dtype, rank = spread(draw)
    axis = draw.axis(rank)
    return Case([x], lambda a: function(a, axis), {"axis": axis}, draw.order(dtype), saturates=True)


def log_sum_exp(draw):
    x, dtype, rank = spread(draw)
    axes, keep = draw.axes(rank), draw.flip()
    return Case([x], lambda a: jax.scipy.special.logsumexp(a, tuple(axes) or None, keepdims=keep),
                {"axes": axes, "keep_dims": keep}, draw.order(dtype), saturates=True)


def batch_norm(draw):
    """At least eight values per feature: statistics of fewer would suffer from cancellation."""
    dtype, shape = draw.pick(*FLOATS), [draw.number(8, 12), *draw.full_shape(1, 3, 4)]
    axis, epsilon = draw.number(1, len(shape) - 1), draw.pick(1e-3, 1e-5)
    wide, features = "float64" if dtype == "float64" else "float32", shape[axis]
    others = tuple(i for i in range(len(shape)) if i != axis)
    along = [features if i == axis else 1 for i in range(len(shape))]
    masked = draw.one_in(3)
    mask = np.concatenate([np.ones(6), draw.bools([shape[0] - 6])]).astype(wide)

    def function(x, scale, offset, mask=None):
        wider = x.astype(jnp.promote_types(x.dtype, np.float32))
        weight = 1 if mask is None else lax.stop_gradient(mask).reshape([-1] + [1] * (x.ndim - 1))
        count = jnp.sum(jnp.broadcast_to(weight, x.shape), others)
        mean = jnp.sum(wider * weight, others) / count
        variance = jnp.sum(weight * jnp.square(wider - mean.reshape(along)), others) / count
        y = (wider - mean.reshape(along)) * lax.rsqrt(variance.reshape(along) + epsilon)
        return [(y * scale.reshape(along) + offset.reshape(along)).astype(x.dtype), mean, variance]

    inputs = [draw.normal(shape, dtype), draw.normal([features], wide), draw.normal([features], wide)]
    return Case([*inputs, *([mask] if masked else [])], function, {"axis": axis, "epsilon": epsilon},
                draw.pick(0, 1), saturates=True)


OPERATIONS = {
    "ReduceSum": part(reduction, total, ARITHMETIC, SMOOTH), "ReduceProduct": part(reduction, product, ARITHMETIC, SMOOTH),
    "ReduceMean": part(reduction, lambda x, axes, keep: jnp.mean(x, axes, keepdims=keep), FLOATS, SMOOTH),
    "ReduceMax": part(reduction, extreme(jnp.max, 1), ARITHMETIC, SELECTS),
    "ReduceMin": part(reduction, extreme(jnp.min, -1), ARITHMETIC, SELECTS),
    "ReduceAnd": part(reduction, lambda x, axes, keep: jnp.all(x, axes, keepdims=keep), ["bool"], SELECTS),
    "ReduceOr": part(reduction, lambda x, axes, keep: jnp.any(x, axes, keepdims=keep), ["bool"], SELECTS),
    "ArgMax": arg_max, "AllFinite": all_finite, "CumSum": part(running, lax.cumsum), "CumProd": part(running, lax.cumprod),
    "CumMax": part(running_extreme, 1), "CumMin": part(running_extreme, -1), "Sort": sort, "ArgSort": arg_sort,
    "TopK": top_k, "Softmax": part(soft, jax.nn.softmax), "LogSoftmax": part(soft, jax.nn.log_softmax),
    "LogSumExp": log_sum_exp, "BatchNormTraining": batch_norm,
}
