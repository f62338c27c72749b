"""Random cases of operations that move elements: reshaping, slicing, padding."""

import jax.numpy as jnp
from jax import lax

from draw import FLOATS, INTEGERS, SELECTS, Case

ANY = [*FLOATS, *INTEGERS, "bool"]


def moved(draw, shape, function, options):
    dtype = draw.pick(*ANY)
    return Case([draw.values(shape, dtype)], function, options, draw.order(dtype), SELECTS)


def broadcast_in_dim(draw):
    target = draw.shape()
    axes = draw.permutation(len(target))[:draw.number(0, len(target))]
    axes = sorted(axes)  # StableHLO accepts any order, JAX requires sorted axes
    source = [1 if draw.one_in(3) else target[axis] for axis in axes]
    return moved(draw, source, lambda x: lax.broadcast_in_dim(x, target, axes), {"shape": target, "axes": axes})


def broadcast_to(draw):
    target = draw.shape()
    source = [1 if draw.one_in(3) else extent for extent in target][draw.number(0, len(target)):]
    return moved(draw, source, lambda x: jnp.broadcast_to(x, target), {"shape": target})


def reshape(draw):
    shape = draw.shape(0, 4, 4)
    target = [shape[i] for i in draw.permutation(len(shape))]
    if len(target) > 1 and draw.flip():
        target[:2] = [target[0] * target[1]]
    if draw.flip():
        target.insert(draw.number(0, len(target)), 1)
    given = list(target)
    if given and 0 not in given and draw.flip():
        given[draw.number(0, len(given) - 1)] = -1
    return moved(draw, shape, lambda x: jnp.reshape(x, target), {"shape": given})


def transpose(draw):
    shape = draw.shape()
    order = draw.permutation(len(shape))
    return moved(draw, shape, lambda x: lax.transpose(x, order), {"axes": order})


def expand_dims(draw):
    shape = draw.shape()
    axis = draw.axis(len(shape) + 1)
    return moved(draw, shape, lambda x: jnp.expand_dims(x, axis), {"axis": axis})


def squeeze(draw):
    shape = draw.shape(1)
    axes = draw.axes(len(shape), 1)
    for axis in axes:
        shape[axis] = 1
    return moved(draw, shape, lambda x: jnp.squeeze(x, tuple(axes)), {"axes": axes})


def reverse(draw):
    shape = draw.shape()
    axes = draw.axes(len(shape))
    return moved(draw, shape, lambda x: jnp.flip(x, tuple(axes)), {"axes": axes})


def concatenate(draw):
    shape, dtype = draw.shape(1), draw.pick(*ANY)
    axis = draw.axis(len(shape))
    shapes = []
    for _ in range(draw.number(1, 4)):
        shapes.append(list(shape))
        shapes[-1][axis] = draw.number(0, 4)
    return Case([draw.values(s, dtype) for s in shapes], lambda *xs: jnp.concatenate(xs, axis), {"axis": axis},
                draw.order(dtype), SELECTS)


def slice_(draw):
    shape = draw.shape()
    begin = [draw.number(0, extent) for extent in shape]
    end = [draw.number(low, extent) for low, extent in zip(begin, shape)]
    strides = [draw.number(1, 3) for _ in shape]
    unit = draw.one_in(3)
    return moved(draw, shape, lambda x: lax.slice(x, begin, end, None if unit else strides),
                 {"begin": begin, "end": end, "strides": [] if unit else strides})


def slice_axis(draw):
    shape = draw.shape(1)
    axis = draw.axis(len(shape))
    begin = draw.number(0, shape[axis])
    end, stride = draw.number(begin, shape[axis]), draw.number(1, 3)
    return moved(draw, shape, lambda x: lax.slice_in_dim(x, begin, end, stride, axis),
                 {"axis": axis, "begin": begin, "end": end, "stride": stride})


def split(draw):
    shape = draw.shape(1)
    axis = draw.axis(len(shape))
    if draw.flip():  # equal parts
        parts, size = draw.number(1, 3), draw.number(0, 2)
        sizes, options = [size] * parts, {"parts": parts, "axis": axis}
    else:
        sizes = [draw.number(0, 3) for _ in range(draw.number(1, 4))]
        options = {"sizes": sizes, "axis": axis}
    shape[axis] = sum(sizes)
    ends = [sum(sizes[:i]) for i in range(1, len(sizes))]
    return moved(draw, shape, lambda x: jnp.split(x, ends, axis), options)


def pad(draw):
    """Negative padding crops, down to an extent of 0."""
    shape = draw.shape()
    config = []
    for extent in shape:
        interior = draw.number(0, 2)
        spread = extent + max(extent - 1, 0) * interior
        low = draw.number(-min(2, spread), 3)
        config.append([low, draw.number(max(-2, -spread - low), 3), interior])
    return moved(draw, shape, lambda x: lax.pad(x, jnp.asarray(1, x.dtype), [tuple(c) for c in config]),
                 {"padding": config, "value": 1.0})


def starts(draw, shape, sizes):
    """Start indices of a slice, one integer per axis; some are out of bounds."""
    dtype = draw.pick("int32", "int64", "uint8", "int8", "uint32")
    low = 0 if dtype.startswith("u") else -3
    scalars = [draw.random.integers(low, extent + 3, ()).astype(dtype) for extent in shape]
    inside = lambda at: [jnp.clip(i.astype(jnp.int64), 0, extent - size) for i, extent, size in zip(at, shape, sizes)]
    return scalars, inside


def dynamic_slice(draw):
    shape, dtype = draw.full_shape(1), draw.pick(*ANY)
    sizes = [draw.number(0 if draw.one_in(10) else 1, extent) for extent in shape]
    begin, inside = starts(draw, shape, sizes)
    return Case([draw.values(shape, dtype), *begin], lambda x, *at: lax.dynamic_slice(x, inside(at), sizes),
                {"sizes": sizes}, draw.order(dtype), SELECTS)


def dynamic_update_slice(draw):
    shape, dtype = draw.full_shape(1), draw.pick(*ANY)
    sizes = [draw.number(1, extent) for extent in shape]
    begin, inside = starts(draw, shape, sizes)
    return Case([draw.values(shape, dtype), draw.values(sizes, dtype), *begin],
                lambda x, update, *at: lax.dynamic_update_slice(x, update, inside(at)), {}, draw.order(dtype), SELECTS)


OPERATIONS = {
    "BroadcastInDim": broadcast_in_dim, "BroadcastTo": broadcast_to, "Reshape": reshape, "Transpose": transpose,
    "ExpandDims": expand_dims, "Squeeze": squeeze, "Reverse": reverse, "Concatenate": concatenate, "Slice": slice_,
    "SliceAxis": slice_axis, "Split": split, "Pad": pad, "DynamicSlice": dynamic_slice,
    "DynamicUpdateSlice": dynamic_update_slice,
}
