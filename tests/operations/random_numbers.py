"""Random cases of random number generators, which equal JAX's bit for bit (normal ones up to rounding in erf_inv)."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

from draw import FLOATS, INTEGERS, SAME_TYPE, SELECTS, UNSIGNED, Case, numpy_type


def key_of(draw):
    return draw.random.integers(0, 2**32, 2, np.uint32)


def drawn(draw, function, dtype, **more):
    """Calls `function` with a key, shape, and type."""
    shape = draw.shape(0, 3, 17)
    options = {"dtype": dtype, "shape": shape, **more.pop("options", {})}
    return Case([key_of(draw)], lambda key: function(key, shape, numpy_type(dtype)), options, 0,
                more.pop("compare", SAME_TYPE), **more)


def random_key(draw):
    seed = draw.number(0, 2**62)
    return Case([], lambda: jax.random.PRNGKey(seed), {"seed": seed}, 0, SAME_TYPE)


def threefry(draw):
    shape = draw.full_shape(0, 2)
    counters = [draw.integers(shape, "uint32") for _ in range(2)]

    def function(key, x0, x1):
        bits = jax.extend.random.threefry_2x32(key, jnp.concatenate([x0.ravel(), x1.ravel()]))
        return [half.reshape(shape) for half in jnp.split(bits, 2)]

    return Case([key_of(draw), *counters], function, {}, 0, SAME_TYPE)


def fold_in(draw):
    if draw.flip():
        data = draw.number(0, 2**32 - 1)
        return Case([key_of(draw)], lambda key: jax.random.fold_in(key, np.uint32(data)), {"data": data}, 0, SAME_TYPE)
    data = draw.integers([], draw.pick("int32", "uint32", "uint8", "int64"))
    return Case([key_of(draw), data], lambda key, data: jax.random.fold_in(key, data.astype(np.uint32)), {}, 0, SAME_TYPE)


def split_key(draw):
    count = draw.number(1, 9)
    return Case([key_of(draw)], lambda key: list(jax.random.split(key, count)), {"count": count}, 0, SAME_TYPE)


def bits(draw):
    return drawn(draw, jax.random.bits, draw.pick(*UNSIGNED))


def uniform(draw):
    dtype = draw.pick(*FLOATS)
    low, high = sorted(float(x) for x in draw.normal([2], dtype))
    return drawn(draw, lambda key, shape, d: jax.random.uniform(key, shape, d, np.asarray(low, d), np.asarray(high, d)),
                 dtype, options={"low": low, "high": high}, magnitude=max(abs(low), abs(high)))


def normal_of(function, draw):
    dtype, mean, stddev = draw.pick(*FLOATS), draw.pick(0.0, -3.0), draw.pick(1.0, 0.25)
    single = lambda key, shape, d: function(key, shape).astype(d) * jnp.asarray(stddev, d) + jnp.asarray(mean, d)
    return drawn(draw, single, dtype, options={"mean": mean, "stddev": stddev}, magnitude=abs(mean) + stddev,
                 computes_in="float32")


def normal(draw):
    return normal_of(lambda key, shape: jax.random.normal(key, shape, np.float32), draw)


def truncated_normal(draw):
    return normal_of(lambda key, shape: jax.random.truncated_normal(key, -2.0, 2.0, shape, np.float32), draw)


def bernoulli(draw):
    shape, probability = draw.shape(0, 3, 17), float(draw.random.uniform())
    return Case([key_of(draw)], lambda key: jax.random.bernoulli(key, np.float32(probability), shape),
                {"shape": shape, "probability": probability}, 0, SAME_TYPE)


def integers(draw):
    dtype = draw.pick(*INTEGERS)
    info = np.iinfo(dtype)
    maximum = min(info.max, 2**62)
    low = draw.number(max(info.min, -2**62), maximum - 1) if draw.flip() else draw.number(0, 5)
    high = draw.number(low + 1, maximum) if draw.flip() else min(low + draw.number(1, 100), maximum)
    return drawn(draw, lambda key, shape, d: jax.random.randint(key, shape, np.asarray(low, d), np.asarray(high, d), d),
                 dtype, options={"low": low, "high": high})


OPERATIONS = {
    "RandomKey": random_key, "Threefry2x32": threefry, "FoldIn": fold_in, "SplitKey": split_key, "RandomBits": bits,
    "RandomUniform": uniform, "RandomNormal": normal, "RandomTruncatedNormal": truncated_normal,
    "RandomBernoulli": bernoulli, "RandomInt": integers,
}
