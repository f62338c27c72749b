"""Random cases of loops, branches, and custom gradients. The bodies are fixed: control_flow.cc has the same ones."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from draw import Case

TYPES = ["float32", "float64"]


def normal(draw, dtype, *shapes):
    return [draw.normal(shape, dtype) for shape in shapes]


def while_loop(draw):
    """Multiplies until the sum is large, and counts iterations. Has no gradient."""
    dtype = draw.pick(*TYPES)
    x = np.abs(draw.normal(draw.full_shape(0, 2), dtype)) + np.asarray(0.5, dtype)

    def function(x):
        return lax.while_loop(lambda state: jnp.sum(jnp.abs(state[0])) < 100,
                              lambda state: (state[0] * 1.5, state[1] + 1), (x, jnp.zeros((), np.int32)))

    return Case([np.asarray(x, dtype)], function, {}, 0)


def for_loop(draw):
    """Reads and writes rows of a state at the loop index, which exceeds the bounds in the last iterations."""
    dtype, count, width = draw.pick(*TYPES), draw.number(0, 6), draw.number(1, 4)
    rows = draw.number(1, 6)

    def function(x, a):
        for i in range(count):
            here, following = min(i, rows - 1), min(i + 1, rows - 1)
            row = x[here:here + 1]
            x = x.at[following].set((jnp.sin(row) * x[following:following + 1] + a)[0])
            a = a * jnp.mean(row)
        return [x, a]

    return Case(normal(draw, dtype, [rows, width], []), function, {"count": count}, draw.pick(0, 1, 2))


def recurrent(draw):
    """Shapes of x [steps, batch, features], the state, and the weights of a tanh RNN."""
    steps, batch, features, units = draw.number(0, 5), draw.number(1, 3), draw.number(1, 4), draw.number(1, 4)
    return [steps, batch, features], [batch, units], [units, units], [features, units], [units]


def scan(draw):
    dtype, reverse, rematerialize = draw.pick(*TYPES), draw.flip(), draw.one_in(3)

    def function(x, h0, w, u, b):
        def step(h, x):
            h = jnp.tanh(h @ w + x @ u + b)
            return h, (h * h, jnp.sum(h, 1))
        h, y = lax.scan(step, h0, x, reverse=reverse)
        return [h, *y]

    options = {"reverse": reverse, "save_products": draw.flip(), "rematerialize": rematerialize}
    return Case(normal(draw, dtype, *recurrent(draw)), function, options, draw.pick(0, 1, 2),
                saturates=True)


def branches(a, b):
    return [lambda: (jnp.sin(a) * b, a), lambda: (jnp.exp(b), b * b)]


def cond(draw):
    dtype, shape = draw.pick(*TYPES), draw.shape(0, 2)
    return Case([np.asarray(draw.flip()), *normal(draw, dtype, shape, shape)],
                lambda which, a, b: lax.cond(which, *branches(a, b)), {}, draw.pick(0, 1, 2))


def custom_gradient(draw):
    """Defines the gradient of a * b as (2 b, -result) times the cotangent. The result that the backward pass reads
    has this gradient as well, so JAX's forward pass calls the function itself."""
    dtype, shape = draw.pick(*TYPES), draw.shape(0, 2)

    @jax.custom_vjp
    def function(a, b):
        return a * b

    def forward(a, b):
        result = function(a, b)
        return result, (b, result)

    function.defvjp(forward, lambda kept, g: (2 * kept[0] * g, -kept[1] * g))
    return Case(normal(draw, dtype, shape, shape), function, {}, draw.pick(0, 1, 2))


def rematerialize(draw):
    dtype, m, k, n = draw.pick(*TYPES), draw.number(1, 4), draw.number(1, 4), draw.number(1, 4)
    return Case(normal(draw, dtype, [m, k], [k, n]), lambda x, w: jnp.tanh(jnp.matmul(jnp.sin(x), w)), {},
                draw.pick(0, 1, 2), saturates=True)


def barrier(draw):
    dtype = draw.pick(*TYPES)
    return Case(normal(draw, dtype, draw.shape(), draw.shape()), lambda a, b: [a * 3, jnp.sin(b)], {},
                draw.pick(0, 1, 2))


OPERATIONS = {
    "While": while_loop, "For": for_loop, "Scan": scan, "Cond": cond, "CustomGradient": custom_gradient,
    "Rematerialize": rematerialize, "OptimizationBarrier": barrier,
}
