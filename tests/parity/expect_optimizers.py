"""Computes the rows of rows_optimizers.py with Keras on JAX."""

import math

import jax
import jax.numpy as jnp
import keras
import numpy as np

import rows_optimizers as rows
from expected import numbers, seeded, title


# A variable that comes close to zero is a sum of steps of about this size, which cancel.
MIN_SCALE = 0.1


def described(class_name, options):
    """An object in Keras's serialized form."""
    return {"class_name": class_name, "config": options}


def made(module, description):
    return getattr(module, description["class_name"])(**description["config"])


# ---- Schedules ----


def schedule(class_name, options):
    return getattr(keras.optimizers.schedules, class_name)(**options)


def add_schedule(expected, class_name, options, reference):
    rate = jax.jit(reference)
    rates = [float(rate(np.float32(step))) for step in rows.SCHEDULE_STEPS]
    tensors = {"steps": np.array(rows.SCHEDULE_STEPS, np.float32), "rates": np.array(rates)}
    expected.add("schedule", title(class_name, options), tensors, schedule=described(class_name, options))


def one_cycle(max_learning_rate, total_steps, pct_start=0.3, anneal_strategy="cos", div_factor=25.0,
              final_div_factor=1e4, three_phase=False):
    """Rate of torch.optim.lr_scheduler.OneCycleLR at a step; constant after the last step."""
    first = max_learning_rate / div_factor
    last = first / final_div_factor
    up = float(pct_start * total_steps) - 1
    if three_phase:
        phases = [(up, first, max_learning_rate), (2 * up, max_learning_rate, first), (total_steps - 1, first, last)]
    else:
        phases = [(up, first, max_learning_rate), (total_steps - 1, max_learning_rate, last)]

    def rate(step):
        begin = 0.0
        for end, at_begin, at_end in phases:
            if step <= end:
                part = (step - begin) / (end - begin)
                if anneal_strategy == "linear":
                    return (at_end - at_begin) * part + at_begin
                return at_end + (at_begin - at_end) / 2 * (1 + math.cos(math.pi * part))
            begin = end
        return last

    return rate


def add_one_cycle(expected, options):
    rate = one_cycle(**options)
    tensors = {"steps": np.array(rows.SCHEDULE_STEPS, np.float32),
               "rates": np.array([rate(step) for step in rows.SCHEDULE_STEPS])}
    expected.add("schedule", title("OneCycle", options), tensors, schedule=described("OneCycle", options))


# ---- Optimizers ----


def keras_optimizer(class_name, options):
    """Makes an optimizer from a description, in which schedules and inner optimizers are descriptions, too."""
    options = dict(options)
    if isinstance(options.get("learning_rate"), dict):
        options["learning_rate"] = made(keras.optimizers.schedules, options["learning_rate"])
    if "inner_optimizer" in options:
        inner = options.pop("inner_optimizer")
        return getattr(keras.optimizers, class_name)(keras_optimizer(inner["class_name"], inner["config"]), **options)
    return getattr(keras.optimizers, class_name)(**options)


class Lars:
    """You, Gitman, and Ginsburg: Large batch training of convolutional networks, 2017, in double."""

    def __init__(self, names, exclude, learning_rate=0.01, momentum=0.9, weight_decay_rate=0.0, eeta=0.001,
                 epsilon=0.0, nesterov=False, exclude_from_layer_adaptation=()):
        self.names, self.exclude, self.rate, self.momentum = names, exclude, learning_rate, momentum
        self.decay, self.eeta, self.epsilon, self.nesterov = weight_decay_rate, eeta, epsilon, nesterov
        self.alike = exclude_from_layer_adaptation
        self.velocities = [0.0] * len(names)

    def step(self, gradients, values):
        for i, (g, w) in enumerate(zip(gradients, values)):
            g, w = g.astype(np.float64), w.astype(np.float64)
            decay = 0.0 if any(part in self.names[i] for part in self.exclude) else self.decay
            rate, w_norm, g_norm = self.rate, np.sqrt((w * w).sum()), np.sqrt((g * g).sum())
            if not any(part in self.names[i] for part in self.alike) and w_norm > 0 and g_norm > 0:
                rate *= self.eeta * w_norm / (g_norm + decay * w_norm + self.epsilon)
            move = rate * (g + decay * w)
            self.velocities[i] = self.momentum * self.velocities[i] - move
            values[i] = w + (self.momentum * self.velocities[i] - move if self.nesterov else self.velocities[i])
        return values


NAMES, SHAPES = ("kernel", "bias", "scale"), ((3, 4), (5,), ())


def gradients_of(rng, kind):
    steps = [[numbers(rng, shape) * np.float32(10.0 ** rng.integers(-3, 2)) for shape in SHAPES] for _ in range(10)]
    steps[4] = [np.zeros(shape, np.float32) for shape in SHAPES]
    for t, gradients in enumerate(steps):
        if kind == "sparse":
            gradients[0][np.arange(3) != t % 3] = 0
            gradients[1][1:] = 0
        if kind == "infinite" and t in (1, 5, 6):
            gradients[t % 2].flat[t % 5] = (np.inf, -np.inf, np.nan)[t % 3]
    return steps


def add_optimizer(expected, spec):
    more = {key: spec[key] for key in ("constraint", "exclude", "gradients", "dtype") if key in spec}
    name = title(spec["class"], {**spec["config"], **more})
    rng = seeded(name)
    dtype, constraint, exclude = spec.get("dtype", "float32"), spec.get("constraint"), spec.get("exclude", [])
    variables = [keras.Variable(numbers(rng, shape), dtype=dtype, name=n) for n, shape in zip(NAMES, SHAPES)]
    if constraint:
        variables[0].constraint = made(keras.constraints, constraint)
    steps = gradients_of(rng, spec.get("gradients", "dense"))
    values = [v.value for v in variables]
    tensors = {f"start/{i}": value for i, value in enumerate(values)}
    if spec.get("reference") == "lars":
        lars = Lars(NAMES, exclude, **spec["config"])
        values = [np.asarray(value) for value in values]
        apply = lambda state, gradients, values: (lars.step(gradients, values), state)
        state, scale_at = None, None
    else:
        optimizer = keras_optimizer(spec["class"], spec["config"])
        if exclude:
            optimizer.exclude_from_weight_decay(var_names=exclude)
        optimizer.build(variables)
        apply = jax.jit(optimizer.stateless_apply)
        state = [v.value for v in optimizer.variables]
        scale_at = next((i for i, v in enumerate(optimizer.variables) if "dynamic_scale" in v.name), None)
    for step, gradients in enumerate(steps):
        values, state = apply(state, [g.astype(values[i].dtype) for i, g in enumerate(gradients)], values)
        for i, value in enumerate(values):
            tensors[f"gradient/{step}/{i}"] = gradients[i].astype(values[i].dtype)
            tensors[f"value/{step}/{i}"] = value
        if scale_at is not None:
            tensors[f"scale/{step}"] = state[scale_at]
    config = {**spec["config"], **({"exclude_from_weight_decay": exclude} if exclude else {})}
    tolerance = spec.get("tolerance", rows.BFLOAT16 if dtype == "bfloat16" else None)
    expected.add("optimizer", name, tensors, optimizer=described(spec["class"], config), dtype=dtype,
                 variables=[{"name": n, "constraint": constraint if n == "kernel" else None} for n in NAMES],
                 min_scale=MIN_SCALE, **({"tolerance": tolerance} if tolerance else {}))


# ---- Regularizers and constraints ----


def add_penalty(expected, class_name, options, shape):
    name = title(class_name, options, list(shape))
    x = numbers(seeded(name), shape)
    output, gradient = jax.jit(jax.value_and_grad(getattr(keras.regularizers, class_name)(**options)))(x)
    expected.add("regularizer", name, {"x": x, "output": output, "gradient": gradient},
                 regularizer=described(class_name, options))


def add_constraint(expected, class_name, options, shape):
    name = title(class_name, options, list(shape))
    rng = seeded(name)
    x, cotangent = numbers(rng, shape), numbers(rng, shape)
    constraint = getattr(keras.constraints, class_name)(**options)
    weighed = jax.jit(jax.grad(lambda x: jnp.sum(constraint(x) * cotangent)))
    expected.add("constraint", name, {"x": x, "cotangent": cotangent, "output": constraint(x), "gradient": weighed(x)},
                 constraint=described(class_name, options))


def rows_of(expected):
    """Adds each row."""
    return [
        *(lambda c=class_name, o=options: add_schedule(expected, c, o, schedule(c, o))
          for class_name, options in rows.SCHEDULES),
        *(lambda row=row: add_schedule(expected, "WarmUp", {**row["config"], "then": described(*row["then"])},
                                       schedule(*row["keras"])) for row in rows.WARM_UPS),
        *(lambda o=options: add_one_cycle(expected, o) for options in rows.ONE_CYCLES),
        *(lambda spec=spec: add_optimizer(expected, spec) for spec in rows.OPTIMIZERS),
        *(lambda row=row: add_penalty(expected, *row) for row in rows.REGULARIZERS),
        *(lambda row=row: add_constraint(expected, *row) for row in rows.CONSTRAINTS),
    ]
