"""Random cases of elementwise operations and of constants."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from draw import FLOATS, INTEGERS, SAME_TYPE, SELECTS, SIGNED, SMOOTH, Case, edges, is_float, numpy_type, without_overflow

ANY = FLOATS + INTEGERS
# Intermediate results of second derivatives overflow for values at the limits of the range.
MOST_AT_EDGES = 1


def unary(function, dtypes=FLOATS, compare=SMOOTH, draw=None, saturates=False):
    """All special values, or random values of one magnitude."""
    dtype = draw.pick(*dtypes)
    order = draw.order(dtype)
    if dtype in FLOATS and draw.one_in(3):
        x, order = edges(dtype), min(order, MOST_AT_EDGES)
        if order > 0:  # the maximum overflows in gradient formulas
            x = x[np.abs(x) != ml_dtypes.finfo(x.dtype).max]
    else:
        x = draw.values(draw.shape(high=7), dtype, special=0, scale=draw.pick(0.3, 1.0, 5.0, 50.0))
    return Case([x], function, {}, order, compare, saturates)


def of(function, *options, **more):
    return functools.partial(unary, function, *options, **more)


SMOOTH_FUNCTIONS = {
    "Exp": lax.exp, "Expm1": lax.expm1, "Log": lax.log, "Log1p": lax.log1p, "Sqrt": lax.sqrt, "Cbrt": lax.cbrt,
    "Rsqrt": lax.rsqrt, "Sin": lax.sin, "Cos": lax.cos, "Tan": lax.tan, "Atan": lax.atan,
    "Sinh": lax.sinh, "Cosh": lax.cosh, "Asinh": lax.asinh, "Erf": lax.erf, "Erfc": lax.erfc, "ErfInv": lax.erf_inv,
}
WITH_POLES = {"Asin": lax.asin, "Acos": lax.acos, "Acosh": lax.acosh, "Atanh": lax.atanh}
SATURATING = {"Sigmoid": lax.logistic, "Tanh": lax.tanh, "Softplus": jax.nn.softplus, "LogSigmoid": jax.nn.log_sigmoid}
# At NaN, Relu passes the incoming gradient, where JAX's gradient is 0: NaNs propagate until they are detected.
STEPS = {
    "Floor": lax.floor, "Ceil": lax.ceil, "Round": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "Relu": lambda x: jnp.where(x <= 0, 0, x).astype(x.dtype), "StopGradient": lax.stop_gradient,
}


def with_poles(function, draw):
    """Omits second derivatives at the poles -1 and 1, where they are differences of infinities, and the first one of
    acosh at -1, outside its domain, whose sign is unspecified."""
    case = unary(function, draw=draw)
    if case.order > 1 or function is lax.acosh:
        x = case.inputs[0]
        case.inputs[0] = np.where(np.abs(x) == 1, 1.5 * np.ones_like(x), x)
    return case


def predicate(function, draw):
    return Case(unary(function, draw=draw).inputs, function, {}, 0, SELECTS)


def absolute(x):
    """The gradient is 0 at 0 and NaN at NaN, where JAX's is 1."""
    return x * lax.stop_gradient(lax.sign(x)) if is_float(x.dtype) else lax.abs(x)


# ---- Two operands ----


def binary(function, dtypes=ANY, compare=SMOOTH, draw=None):
    dtype = draw.pick(*dtypes)
    order = draw.order(dtype)
    if dtype in FLOATS and draw.one_in(6):
        order = min(order, MOST_AT_EDGES)
        few = without_overflow(edges(dtype)) if order > 0 else edges(dtype)
        a, b = (x.ravel() for x in np.meshgrid(few, few))
    else:
        a, b = (draw.values(shape, dtype, special=0) for shape in draw.broadcasting(2))
    return Case([a, b], function, {}, order, compare if dtype in FLOATS else SELECTS)


def log_add_exp(draw):
    return dataclasses.replace(binary(jnp.logaddexp, FLOATS, draw=draw), saturates=True)


def on_both(function):
    """lax's functions do not broadcast."""
    return lambda a, b: function(*jnp.broadcast_arrays(a, b))


def defined_quotient(a, b):
    """Integer divisors for which the quotient is defined: not 0, and not -1 for the minimum integer."""
    if is_float(b.dtype):
        return b
    b = np.where(b == 0, 3, b)
    return (b if np.iinfo(b.dtype).min == 0 else np.where(b == -1, 5, b)).astype(a.dtype)


def quotient(function, draw):
    case = binary(function, draw=draw)
    case.inputs[1] = np.asarray(defined_quotient(*case.inputs))
    if function is REMAINDER:
        case.compare = SELECTS
        a, b = case.inputs
        if case.order > 0:  # the remainder of infinity or by 0 has no value and no gradient
            case.inputs = [np.where(np.isinf(a), np.ones_like(a), a), np.where(b == 0, np.ones_like(b), b)]
    return case


REMAINDER = on_both(lax.rem)


def raised(x, y):
    """The gradient of x^0 is 0 at x = 0, too, where JAX computes 0 times infinity (NaN)."""
    x, y = jnp.broadcast_arrays(x, y)
    return lax.pow(jnp.where((x == 0) & (y == 0), lax.stop_gradient(x), x), y)


def power(draw):
    if draw.one_in(4):
        dtype = draw.pick(*INTEGERS)
        a, b = draw.broadcasting(2)
        return Case([draw.integers(a, dtype), draw.small_integers(b, dtype, 0, 7)], jnp.power, {}, 0, SELECTS)
    return binary(raised, FLOATS, draw=draw)


def bits(function, draw, dtypes=[*INTEGERS, "bool"]):
    dtype = draw.pick(*dtypes)
    return Case([draw.values(shape, dtype) for shape in draw.broadcasting(2)], on_both(function), {}, 0, SELECTS)


def shift(function, draw):
    dtype = draw.pick(*INTEGERS)
    a, b = draw.broadcasting(2)
    amount = draw.random.integers(0, np.iinfo(dtype).bits, b)
    return Case([draw.integers(a, dtype), np.asarray(amount).astype(dtype)], on_both(function), {}, 0, SELECTS)


COMPARISONS = {"eq": jnp.equal, "ne": jnp.not_equal, "lt": jnp.less, "le": jnp.less_equal, "gt": jnp.greater,
               "ge": jnp.greater_equal}


def compare(how, draw):
    dtype = draw.pick(*ANY, "bool")
    how = how or draw.pick(*COMPARISONS)
    a, b = draw.broadcasting(2)
    few = draw.flip() and dtype != "bool"  # few distinct values, so that many are equal
    values = [draw.small_integers(s, dtype) if few else draw.values(s, dtype) for s in (a, b)]
    return Case(values, COMPARISONS[how], {"how": how}, 0, SELECTS)


def extreme(function, draw):
    return binary(function, [*ANY, "bool"], SELECTS, draw=draw)


def operator(symbol, function, draw):
    """A C++ operator on two values, or on a value and a number on either side."""
    dtype = draw.pick(*FLOATS) if symbol == "/" else draw.pick(*ANY)
    number = draw.pick(2.0, 3.0, 0.5 if dtype in FLOATS else 1.0)
    form = draw.pick("values", "left", "right", *(["negate"] if symbol == "-" else []))
    x, y = (draw.values(shape, dtype, special=0) for shape in draw.broadcasting(2))
    typed = lambda v: jnp.asarray(number, v.dtype)
    functions = {"values": function, "left": lambda v: function(typed(v), v), "right": lambda v: function(v, typed(v)),
                 "negate": lambda v: -v}
    return Case([x, y] if form == "values" else [x], functions[form], {"form": form, "number": number},
                draw.order(dtype), SMOOTH if dtype in FLOATS else SELECTS)


def select(draw):
    dtype = draw.pick(*ANY, "bool")
    condition, a, b = draw.broadcasting(3)
    return Case([draw.bools(condition), draw.values(a, dtype), draw.values(b, dtype)], jnp.where, {},
                draw.order(dtype), SELECTS)


def clamp(draw):
    dtype = draw.pick(*ANY)
    values = [draw.values(shape, dtype, special=8) for shape in draw.broadcasting(3)]
    # Includes low > high; at a tie the gradient is halved, as in jnp.clip.
    return Case(values, lambda low, x, high: jnp.minimum(jnp.maximum(x, low), high), {}, draw.order(dtype), SELECTS)


def gelu(draw):
    approximate = draw.flip()
    case = unary(lambda x: jax.nn.gelu(x, approximate=approximate), draw=draw, saturates=True)
    case.options = {"approximate": approximate}
    return case


# ---- Types ----


def in_range(draw, x, to):
    """Values that fit into the integer type `to`; the result for others is unspecified."""
    info = np.iinfo(to)
    low, high = max(info.min, -2.0**31), min(info.max, 2.0**31)
    x = draw.random.uniform(low, high, x.shape) if draw.flip() else draw.random.uniform(max(low, -100), 100, x.shape)
    return x


def convert(draw):
    source, to = draw.pick(*ANY, "bool"), draw.pick(*ANY, "bool")
    x = draw.values(draw.shape(), source, special=2, scale=draw.pick(1.0, 300.0))
    if source in FLOATS and to in INTEGERS:
        x = in_range(draw, x, to)
        dtype = numpy_type(source)
        largest = float(np.iinfo(to).max)
        x = np.asarray(x).astype(dtype)
        x = np.where(x.astype(np.float64) >= min(largest, float(jnp.finfo(dtype).max)), np.zeros_like(x), x)
        x = np.where(x.astype(np.float64) < float(np.iinfo(to).min), np.zeros_like(x), x)
    both = source in FLOATS and to in FLOATS
    return Case([x], lambda a: lax.convert_element_type(a, numpy_type(to)), {"to": to}, draw.pick(0, 1) if both else 0,
                SAME_TYPE)


WIDTHS = [["int8", "uint8"], ["int16", "uint16", "float16", "bfloat16"], ["int32", "uint32", "float32"],
          ["int64", "uint64", "float64"]]


def bitcast(draw):
    same = draw.pick(*WIDTHS)
    source, to = draw.pick(*same), draw.pick(*same)
    x = draw.values(draw.shape(), source)
    return Case([x], lambda a: lax.bitcast_convert_type(a, numpy_type(to)), {"to": to}, 0, SAME_TYPE)


def reduce_precision(draw):
    exponent, mantissa = draw.pick((5, 2), (4, 3), (8, 7), (5, 10), (8, 0), (3, 4))
    case = unary(lambda x: lax.reduce_precision(x, exponent, mantissa), compare=SAME_TYPE, draw=draw)
    case.options = {"exponent": exponent, "mantissa": mantissa}
    return case


# ---- Constants ----


def constant(draw):
    dtype = draw.pick(*ANY, "bool")
    return Case([draw.values(draw.shape(), dtype)], lambda x: x, {}, 0, SELECTS)


def splat_value(draw, dtype):
    return draw.number(0, 1) if dtype == "bool" else draw.number(0, 100) if dtype in INTEGERS else draw.pick(
        0.0, -1.5, 1e30, float(draw.random.normal()))


def splat(draw):
    dtype, shape = draw.pick(*ANY, "bool"), draw.shape()
    value = splat_value(draw, dtype)
    return Case([], lambda: jnp.full(shape, value, numpy_type(dtype)),
                {"dtype": dtype, "shape": shape, "value": float(value)}, 0, SAME_TYPE)


def splat_like(draw):
    dtype = draw.pick(*ANY, "bool")
    value = splat_value(draw, dtype)
    return Case([draw.values(draw.shape(), dtype)], lambda x: jnp.full(x.shape, value, numpy_type(dtype)),
                {"value": float(value)}, 0, SAME_TYPE)


def iota(draw):
    dtype, shape = draw.pick(*ANY), draw.shape(1)
    axis = draw.number(0, len(shape) - 1)
    return Case([], lambda: lax.broadcasted_iota(numpy_type(dtype), shape, axis),
                {"dtype": dtype, "shape": shape, "axis": axis}, 0, SAME_TYPE)


# Maps names to functions that draw a case.
part = functools.partial
OPERATIONS = {
    **{name: of(function) for name, function in SMOOTH_FUNCTIONS.items()},
    **{name: of(function, saturates=True) for name, function in SATURATING.items()},
    **{name: of(function, compare=SELECTS) for name, function in STEPS.items()},
    "Negate": of(lax.neg, [*FLOATS, *SIGNED]), "Abs": of(absolute, [*FLOATS, *SIGNED]),
    "Sign": of(lax.sign, [*FLOATS, *SIGNED], SELECTS), "Square": of(lambda x: x * x, ANY),
    "Not": of(lax.bitwise_not, [*INTEGERS, "bool"], SELECTS), "PopulationCount": of(lax.population_count, INTEGERS, SELECTS),
    "IsFinite": part(predicate, lax.is_finite), "IsNan": part(predicate, jnp.isnan), "Gelu": gelu,
    **{name: part(with_poles, function) for name, function in WITH_POLES.items()},
    "Add": part(binary, jnp.add), "Subtract": part(binary, jnp.subtract), "Multiply": part(binary, jnp.multiply),
    "Divide": part(quotient, on_both(lax.div)), "Remainder": part(quotient, REMAINDER), "Power": power,
    "Maximum": part(extreme, on_both(lax.max)), "Minimum": part(extreme, on_both(lax.min)),
    "Atan2": part(binary, on_both(lax.atan2), FLOATS), "LogAddExp": log_add_exp,
    "And": part(bits, lax.bitwise_and), "Or": part(bits, lax.bitwise_or), "Xor": part(bits, lax.bitwise_xor),
    "ShiftLeft": part(shift, lax.shift_left), "ShiftRightLogical": part(shift, lax.shift_right_logical),
    "ShiftRightArithmetic": part(shift, lax.shift_right_arithmetic),
    "Compare": part(compare, None), "Equal": part(compare, "eq"), "Less": part(compare, "lt"),
    "LessEqual": part(compare, "le"), "Greater": part(compare, "gt"), "GreaterEqual": part(compare, "ge"),
    "operator+": part(operator, "+", jnp.add), "operator-": part(operator, "-", jnp.subtract),
    "operator*": part(operator, "*", jnp.multiply), "operator/": part(operator, "/", jnp.divide),
    "Select": select, "Clamp": clamp, "Convert": convert, "BitcastConvert": bitcast,
    "ReducePrecision": reduce_precision, "Constant": constant, "Splat": splat, "SplatLike": splat_like, "Iota": iota,
}
