"""Random cases of products, matrices, Fourier transforms, convolutions and windows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from draw import FLOATS, INTEGERS, SAME_TYPE, SELECTS, SMOOTH, Case, is_float, numpy_type

SINGLE_OR_DOUBLE = ["float32", "float64"]


def numbers(draw, shape, dtype):
    return draw.normal(shape, dtype) if dtype in FLOATS else draw.integers(shape, dtype)


def how(dtype):
    return SMOOTH if dtype in FLOATS else SELECTS


# ---- Products ----


def dot_general(draw):
    dtype = draw.pick(*FLOATS, "int32")
    groups = [[0 if draw.one_in(40) else draw.number(1, 6) for _ in range(draw.number(0, 2))] for _ in range(4)]
    batch, left, right, summed = groups
    orders = [draw.permutation(len(batch) + len(free) + len(summed)) for free in (left, right)]
    shapes = [[(batch + free + summed)[i] for i in order] for free, order in zip((left, right), orders)]
    # Positions of the batch and contracted axes.
    batch_axes = [[order.index(i) for i in range(len(batch))] for order in orders]
    summed_axes = [[order.index(len(order) - len(summed) + i) for i in range(len(summed))] for order in orders]
    return Case([numbers(draw, shape, dtype) for shape in shapes],
                lambda a, b: lax.dot_general(a, b, (summed_axes, batch_axes), precision="highest",
                                             preferred_element_type=a.dtype),
                {"lhs_contracting": summed_axes[0], "rhs_contracting": summed_axes[1], "lhs_batch": batch_axes[0],
                 "rhs_batch": batch_axes[1]}, draw.order(dtype), how(dtype))


def mat_mul(draw):
    dtype = draw.pick(*FLOATS, "int32")
    leading, m, k, n = draw.shape(0, 2), draw.extent(8), draw.extent(8), draw.extent(8)
    b = [*(leading if draw.flip() else []), k, n]
    return Case([numbers(draw, [*leading, m, k], dtype), numbers(draw, b, dtype)],
                functools.partial(jnp.matmul, precision="highest"), {}, draw.order(dtype), how(dtype))


# ---- Matrices ----


def cholesky(draw):
    dtype, leading, n = draw.pick(*SINGLE_OR_DOUBLE), draw.full_shape(0, 2, 3), draw.number(1, 8)
    a = draw.normal([*leading, n, n], "float64")
    a = a @ np.swapaxes(a, -1, -2) + n * np.eye(n)
    if draw.one_in(8):  # NaN in the triangle that is not read
        return Case([(-a).astype(dtype)], lax.linalg.cholesky, {}, 0)
    a = a + draw.normal([*leading, n, n], "float64", 0.01)  # slightly asymmetric
    return Case([a.astype(dtype)], lambda x: lax.linalg.cholesky(x, symmetrize_input=True), {}, draw.order(dtype))


def triangular_solve(draw):
    dtype, leading, n, m = draw.pick(*SINGLE_OR_DOUBLE), draw.full_shape(0, 2, 3), draw.number(1, 8), draw.number(1, 5)
    left, lower, transpose, unit = (draw.flip() for _ in range(4))
    a = draw.normal([*leading, n, n], "float64", 0.3) + 2 * np.eye(n)
    b = draw.normal([*leading, n, m] if left else [*leading, m, n], dtype)
    solve = lambda x, y: lax.linalg.triangular_solve(x, y, left_side=left, lower=lower, transpose_a=transpose,
                                                     unit_diagonal=unit)
    return Case([a.astype(dtype), b], solve,
                {"left_side": left, "lower": lower, "transpose": transpose, "unit_diagonal": unit}, draw.order(dtype))


# ---- Fourier transforms ----


def fft_shape(draw):
    shape = [draw.number(1, 5) for _ in range(draw.number(0, 2))] + [draw.pick(1, 2, 3, 4, 5, 7, 11, 13, 16, 31)]
    return shape, draw.number(1, len(shape))


def parts(z):
    return [jnp.real(z), jnp.imag(z)]


def last(axes):
    return tuple(range(-axes, 0))


def complex_fft(function, draw):
    dtype, (shape, axes) = draw.pick(*SINGLE_OR_DOUBLE), fft_shape(draw)
    return Case([draw.normal(shape, dtype), draw.normal(shape, dtype)],
                lambda real, imag: parts(function(lax.complex(real, imag), axes=last(axes))), {"axes": axes},
                draw.order(dtype))


def rfft(draw):
    dtype, (shape, axes) = draw.pick(*SINGLE_OR_DOUBLE), fft_shape(draw)
    return Case([draw.normal(shape, dtype)], lambda x: parts(jnp.fft.rfftn(x, axes=last(axes))), {"axes": axes},
                draw.order(dtype))


def irfft_by_definition(z, length, axes):
    """Like NumPy: inverse complex transforms along the other axes, then the last one, of the bins of real values."""
    for axis in range(2, axes + 1):
        z = jnp.fft.ifft(z, axis=-axis)
    bins = jnp.arange(z.shape[-1])
    alone = (bins == 0) | (2 * bins == length)  # bins that are their own mirror image are real
    z = lax.complex(jnp.real(z), jnp.where(alone, 0, jnp.imag(z)))
    mirrored = jnp.conj(jnp.flip(z[..., 1:(length + 1) // 2], -1))
    return jnp.real(jnp.fft.ifft(jnp.concatenate([z, mirrored], -1), axis=-1))


def irfft(draw):
    dtype, (shape, axes) = draw.pick(*SINGLE_OR_DOUBLE), fft_shape(draw)
    length, bins = shape[-1], [*shape[:-1], shape[-1] // 2 + 1]
    return Case([draw.normal(bins, dtype), draw.normal(bins, dtype)],
                lambda real, imag: irfft_by_definition(lax.complex(real, imag), length, axes),
                {"axes": axes, "length": length}, draw.order(dtype))


# ---- Convolutions ----


class Window:
    """A spatial axis of a convolution with nonempty output: extents, stride, dilations, (also negative) padding."""

    def __init__(self, draw, min_input=1):
        self.kernel, self.stride = draw.number(1, 4), draw.number(1, 3)
        self.lhs_dilation, self.rhs_dilation = draw.pick(1, 1, 2, 3), draw.pick(1, 1, 2, 3)
        self.reach = (self.kernel - 1) * self.rhs_dilation + 1
        self.input = draw.number(min_input, 8)
        self.low, self.high = draw.number(-2, self.reach), draw.number(-2, self.reach)
        spread = (self.input - 1) * self.lhs_dilation + 1
        if self.low < 0 and -self.low >= spread:
            self.low = 0
        if spread + self.low + self.high < self.reach:
            self.high = self.reach - spread - self.low
        self.output = (spread + self.low + self.high - self.reach) // self.stride + 1


def layout(draw, spatial, name):
    """Positions of the batch (or input feature), feature, and spatial axes, and the same for JAX."""
    order = draw.permutation(spatial + 2)
    return {f"{name[0]}": order[0], f"{name[1]}": order[1], f"{name[2]}": order[2:]}, tuple(order)


DIMENSIONS = [("input_batch", "input_feature", "input_spatial"),
              ("kernel_output_feature", "kernel_input_feature", "kernel_spatial"),
              ("output_batch", "output_feature", "output_spatial")]


def placed(canonical, order):
    """A shape (batch, feature, spatial...) permuted to `order`."""
    shape = [0] * len(order)
    for extent, axis in zip(canonical, order):
        shape[axis] = extent
    return shape


def convolution_parts(draw):
    """Options, JAX's function, shapes of input and kernel, and dtype."""
    spatial = draw.pick(0, 1, 1, 2, 2, 3)
    windows = [Window(draw) for _ in range(spatial)]
    batch, groups, batch_groups = draw.number(1, 3), draw.pick(1, 1, 2, 3), 1
    if groups == 1 and spatial > 0 and draw.one_in(5):
        batch_groups = 2
        batch *= 2
    channels, filters = groups * draw.number(1, 3), groups * batch_groups * draw.number(1, 3)
    if draw.one_in(2):
        options, orders = {}, [(0, spatial + 1, *range(1, spatial + 1)), (spatial + 1, spatial, *range(spatial)),
                               (0, spatial + 1, *range(1, spatial + 1))]
    else:
        chosen = [layout(draw, spatial, names) for names in DIMENSIONS]
        options = {"dimensions": {key: value for named, _ in chosen for key, value in named.items()}}
        orders = [order for _, order in chosen]
    same = spatial > 0 and draw.one_in(5)
    if same:
        for w in windows:
            w.lhs_dilation = 1
    options.update(strides=[w.stride for w in windows], rhs_dilation=[w.rhs_dilation for w in windows],
                   lhs_dilation=[w.lhs_dilation for w in windows], feature_group_count=groups,
                   batch_group_count=batch_groups,
                   **({"same": True} if same else {"padding": [[w.low, w.high] for w in windows]}))
    numbers_of_axes = lax.ConvDimensionNumbers(*orders)

    def convolve(x, kernel):
        padding = "SAME"
        if not same:  # pads explicitly, because XLA:CPU reads out of bounds with negative padding
            config = [(0, 0, 0)] * x.ndim
            for axis, w in zip(orders[0][2:], windows):
                config[axis] = (w.low, w.high, w.lhs_dilation - 1)
            x, padding = lax.pad(x, jnp.zeros((), x.dtype), config), [(0, 0)] * spatial
        return lax.conv_general_dilated(x, kernel, [w.stride for w in windows], padding, None,
                                        [w.rhs_dilation for w in windows], numbers_of_axes, groups, batch_groups,
                                        precision="highest", preferred_element_type=x.dtype)

    shape = placed([batch, channels, *(w.input for w in windows)], orders[0])
    kernel = placed([filters, channels // groups, *(w.kernel for w in windows)], orders[1])
    return options, convolve, shape, kernel, draw.pick(*FLOATS)


def convolution(draw):
    options, convolve, shape, kernel, dtype = convolution_parts(draw)
    return Case([draw.normal(shape, dtype), draw.normal(kernel, dtype)], convolve, options, draw.order(dtype))


def convolution_transpose(draw):
    options, convolve, shape, kernel, dtype = convolution_parts(draw)
    output = jax.eval_shape(convolve, jnp.zeros(shape), jnp.zeros(kernel)).shape

    def transposed(y, k):
        return jax.vjp(lambda x: convolve(x, k), jnp.zeros(shape, y.dtype))[1](y)[0]

    if options.pop("same", False):  # "same" refers to the convolution's input, which is the output here
        options["padding"] = [list(pair) for pair in same_padding(shape, kernel, options)]
    return Case([draw.normal(output, dtype), draw.normal(kernel, dtype)], transposed, {**options, "input": shape},
                draw.order(dtype))


def same_padding(shape, kernel, options):
    spatial = len(shape) - 2
    axes = options.get("dimensions", {"input_spatial": range(1, spatial + 1), "kernel_spatial": range(spatial)})
    size = [shape[axis] for axis in axes["input_spatial"]]
    reach = [(kernel[axis] - 1) * d + 1 for axis, d in zip(axes["kernel_spatial"], options["rhs_dilation"])]
    return lax.padtype_to_pads(size, reach, options["strides"], "SAME")


# ---- Windows ----


def patches(x, size, strides, dilation, padding, fill):
    """[position in the window in row-major order, *output]: one slice of x per position, covering all windows."""
    x = lax.pad(x, jnp.asarray(fill, x.dtype), [(low, high, 0) for low, high in padding])
    count = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape, size, dilation, strides)]
    at = lambda place: [i * d for i, d in zip(place, dilation)]
    end = lambda begin: [b + (n - 1) * s + 1 for b, n, s in zip(begin, count, strides)]
    return jnp.stack([lax.slice(x, at(place), end(at(place)), strides) for place in np.ndindex(*size)])


def reduce_window(draw):
    dtype, reducer = draw.pick(*FLOATS, *INTEGERS), draw.pick("sum", "max", "min")
    axes = [Window(draw) for _ in range(draw.number(1, 3))]
    for w in axes:  # without input dilation
        w.low, w.high = draw.number(-1 if w.input > 2 else 0, w.reach - 1), draw.number(0, w.reach - 1)
        w.high += max(0, w.reach - w.input - w.low - w.high)
    options = {"size": [w.kernel for w in axes], "strides": [w.stride for w in axes],
               "dilation": [w.rhs_dilation for w in axes], "padding": [[w.low, w.high] for w in axes]}

    def function(x):
        bound = jnp.finfo(x.dtype) if is_float(x.dtype) else jnp.iinfo(x.dtype)
        minimum, maximum = (-np.inf, np.inf) if is_float(x.dtype) else (bound.min, bound.max)
        p = patches(x, *options.values(), {"sum": 0, "max": minimum, "min": maximum}[reducer])
        if reducer == "sum":
            return jnp.sum(p, 0, dtype=x.dtype)
        first = lax.stop_gradient((jnp.argmax if reducer == "max" else jnp.argmin)(p, 0))
        return jnp.take_along_axis(p, first[None], 0)[0]

    x = draw.values([w.input for w in axes], dtype, special=0)
    return Case([x], function, {**options, "reducer": reducer}, draw.order(dtype),
                SMOOTH if reducer == "sum" and dtype in FLOATS else SELECTS)


OPERATIONS = {
    "DotGeneral": dot_general, "MatMul": mat_mul, "Cholesky": cholesky, "TriangularSolve": triangular_solve,
    "Fft": functools.partial(complex_fft, jnp.fft.fftn), "Ifft": functools.partial(complex_fft, jnp.fft.ifftn),
    "Rfft": rfft, "Irfft": irfft, "Convolution": convolution, "ConvolutionTranspose": convolution_transpose,
    "SamePadding": convolution, "ReduceWindow": reduce_window,
}
