"""Computes every row of table.py with Keras on JAX.

Usage: expect.py FOLDER [PART PARTS]. Of PARTS parts, which may run concurrently, PART (from 0) takes every PARTS-th row.
With PENSTOCK_PARITY_ONLY=TEXT in the environment: only layers, and only those with TEXT in their title. With
PENSTOCK_PARITY_RANDOM=SEED,COUNT: COUNT random rows (random_rows.py) instead of the table's and a few. Writes
rows.json, a list of rows, and expected.safetensors, whose tensors are named "<index of the row>/<what>": inputs and
initial weights, outputs, expected gradients and new values.
"""

import contextlib
import copy
import functools
import inspect
import os
import pathlib
import sys

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
# Hundreds of small programs run once each, so optimize for compile time.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false"

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras.src.applications import convnext, inception_resnet_v2

import expect_optimizers
import random_rows
import table
from expect_optimizers import described, keras_optimizer
from expected import Expected, numbers, seeded, title


# Every weight is set below; drawing initial values would compile a program for each shape.
for initializer in (keras.initializers.GlorotUniform, keras.initializers.Orthogonal, keras.initializers.RandomUniform):
    initializer.__call__ = lambda self, shape, dtype=None: jnp.zeros(shape, dtype)


ONLY = os.environ.get("PENSTOCK_PARITY_ONLY", "")
RANDOM, A_FEW = os.environ.get("PENSTOCK_PARITY_RANDOM", ""), "1,30"


# ---- Layers ----


def weight_value(rng, variable):
    """Random values suitable for a weight: variances are positive, and no value equals its initial one."""
    if "variance" in variable.name:
        return rng.uniform(0.5, 2, size=variable.shape).astype(np.float32)
    scale = 1 / np.sqrt(max(1, np.prod(variable.shape[:-1])))
    return (scale * rng.normal(size=variable.shape) + ("gamma" in variable.name)).astype(np.float32)


def sparsemax(options, x):
    """The paper's formula: Keras 3.15 adds the sums over the support instead of taking the last one."""
    descending = -jnp.sort(-x)
    support = descending - (jnp.cumsum(descending, -1) - 1) / jnp.arange(1, x.shape[-1] + 1) > 0
    total = jnp.sum(jnp.where(support, descending, 0), -1, keepdims=True)
    return jnp.maximum(x - (total - 1) / jnp.sum(support, -1, keepdims=True), 0)


# References used instead of the layer's own call; the table explains why.
REFERENCES = {
    "smart_resize": lambda options, images: keras.preprocessing.image.smart_resize(
        images, (options["height"], options["width"])),
    "sparsemax": sparsemax,
    "sparsemax along 1": lambda options, x: jnp.swapaxes(sparsemax(options, jnp.swapaxes(x, 1, -1)), 1, -1),
}


class PositionEmbedding(keras.layers.Layer):
    """As documented by KerasHub."""

    def __init__(self, sequence_length, initializer="glorot_uniform", **more):
        super().__init__(**more)
        self.sequence_length, self.initializer, self.supports_masking = sequence_length, initializer, True

    def build(self, shape):
        self.embeddings = self.add_weight(name="embeddings", shape=(self.sequence_length, shape[-1]),
                                          initializer=self.initializer)

    def call(self, x):
        return jnp.broadcast_to(keras.ops.convert_to_tensor(self.embeddings)[:x.shape[-2]], x.shape)


class RMSNormalization(keras.layers.RMSNormalization):
    """Keras 3.15 has a scale per element of the normalized axes, but multiplies along the last axis."""

    def call(self, x):
        axes = [axis % x.ndim for axis in self.axis]
        if axes == list(range(x.ndim - len(axes), x.ndim)):
            return super().call(x)
        wide, along = x.astype("float32"), [n if i in axes else 1 for i, n in enumerate(x.shape)]
        normalized = wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), axes, keepdims=True) + self.epsilon)
        return (normalized * jnp.reshape(self.scale, along)).astype(x.dtype)


class LayerScale(convnext.LayerScale):
    """Names its variable by the attribute; Keras numbers it ("variable_3")."""

    def build(self, _):
        self.gamma = self.add_weight(name="gamma", shape=(self.projection_dim,), initializer="ones")


def operation(class_name, constant):
    """A layer of this name that merges its inputs and then a constant by Keras's operation."""
    apply = getattr(keras.ops, class_name.lower())

    def call(self, x):
        return apply(functools.reduce(apply, x) if isinstance(x, list) else x, constant)

    return type(class_name, (keras.layers.Layer,), {"call": call})


class Flip(keras.layers.Layer):
    def __init__(self, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, x):
        return keras.ops.flip(x, axis=self.axis)


# Layers that Keras does not have, does not export, or that do not follow its documentation.
OWN = {"CustomScaleLayer": inception_resnet_v2.CustomScaleLayer, "Flip": Flip, "LayerScale": LayerScale,
       "PositionEmbedding": PositionEmbedding, "RMSNormalization": RMSNormalization, "StochasticDepth": convnext.StochasticDepth}


def keras_option(key, value):
    """Converts an option that Penstock writes as text, "elu(0.5)" or "l2(0.01)", to Keras's form."""
    if not isinstance(value, str) or "(" not in value:
        return value
    name, arguments = value[:-1].split("(")
    if key == "activation":
        words = {"true": True, "false": False, "apply": getattr(keras.activations, name)}
        return lambda x: eval(f"apply(x, {arguments})", {**words, "x": x})
    made = {"l1": keras.regularizers.L1, "l2": keras.regularizers.L2, "l1_l2": keras.regularizers.L1L2,
            "max_norm": keras.constraints.MaxNorm, "unit_norm": keras.constraints.UnitNorm}[name]
    return eval(f"made({arguments})", {"made": made})


def make_layer(class_name, config):
    """Options that are layers are described by {"class_name", "config"}."""
    is_layer = lambda value: isinstance(value, dict) and "class_name" in value
    options = {k: make_layer(**v) if is_layer(v) else keras_option(k, v) for k, v in config.items()}
    if "constant" in options:
        return operation(class_name, options.pop("constant"))(**options)
    return (OWN.get(class_name) or getattr(keras.layers, class_name))(**options)


def step_mask(rng, kind, shape):
    """Which steps of a sequence are real. If there are several examples, the last one has none."""
    batch, steps = shape[:2]
    lengths = rng.integers(1, steps + 1, size=(batch, 1))
    mask = {
        "right": np.arange(steps) < lengths,
        "left": np.arange(steps) >= steps - lengths,
        "holes": rng.uniform(size=(batch, steps)) < 0.6,
        "none": np.zeros((batch, steps), bool),
    }[kind]
    if batch > 1:
        mask[-1] = False
    return mask


def layer_arguments(spec, inputs):
    """The arguments with which Keras's layer is called."""
    inputs, named = list(inputs), {**spec.get("call", {}), **spec.get("inferred", {})}
    if spec.get("attention_mask"):
        named["attention_mask"] = inputs.pop()
    if spec.get("arguments"):
        return inputs, named
    if spec.get("states"):
        # Set explicitly: with two arguments Keras ignores the mask of the first.
        mask = keras.src.backend.get_keras_mask(inputs[0])
        return inputs[:1], {**named, "initial_state": inputs[1:], **({} if mask is None else {"mask": mask})}
    return [inputs[0] if len(inputs) == 1 else inputs], named


def call_layer(layer, spec, training, trainable, others, inputs, masks):
    """Outputs, their masks, new values of non-trainable variables, and penalties of a call within a model (layer.call
    alone would not convert to the policy's type)."""
    backend = keras.src.backend
    for x, mask in zip(inputs, masks):
        if mask is not None:
            backend.set_keras_mask(x, mask)
    variables = layer.trainable_variables + layer.non_trainable_variables
    with keras.StatelessScope(state_mapping=list(zip(variables, trainable + others)), collect_losses=True) as scope:
        arguments, named = layer_arguments(spec, inputs)
        if layer._call_has_training_arg:
            named["training"] = training
        outputs = keras.tree.flatten(layer(*arguments, **named))
        penalty = sum(layer.losses, jnp.float32(0))
    new = [scope.get_current_value(v) for v in layer.non_trainable_variables]
    # Keras attaches the softmax's mask to the attention scores; it does not mask their steps.
    scores = len(outputs) > 1 and "Attention" in spec["class"]
    output_masks = [None if m is None or m.shape != y.shape[:m.ndim] or (scores and i > 0) else m
                    for i, (y, m) in enumerate(zip(outputs, map(backend.get_keras_mask, outputs)))]
    return outputs, output_masks, new, penalty


def numbered(name, index):
    return name if index == 0 else f"{name}/{index}"


# State that is compared; the states of random generators (uint32) differ between both sides.
KEPT = ("float32", "int32")


def add_layer(expected, spec, training):
    name = title(spec["class"], spec["config"], *spec["shapes"], spec.get("dtype"), spec.get("why"),
                 *(f"mask={mask}" for mask in spec.get("masks", [])), *spec.get("call", {}),
                 "training" if training else "")
    if ONLY not in name:
        return
    rng = seeded(name)
    layer = make_layer(spec["class"], spec["config"])
    if training and "training" not in spec and not layer._call_has_training_arg:
        return  # same as without training
    dtype = spec.get("dtype", "float32")
    dtypes = dtype if isinstance(dtype, list) else [dtype] * len(spec["shapes"])
    inputs = [jnp.asarray(numbers(rng, shape, dtype, spec.get("high", 200)))
              for shape, dtype in zip(spec["shapes"], dtypes)]
    masks = [None if kind is None else jnp.asarray(step_mask(rng, kind, shape))
             for kind, shape in zip(spec.get("masks", []), spec["shapes"])]
    # Built with symbols, as within a model; a layer may be built by its first call only.
    arguments, named = layer_arguments(spec, [keras.Input(batch_shape=x.shape, dtype=str(x.dtype)) for x in inputs])
    layer(*arguments, **named)
    path = lambda variable: variable.path.removeprefix(layer.name + "/")
    for variable in layer.weights:
        if variable.dtype == "float32":
            variable.assign(weight_value(rng, variable))
    trainable = [v.value for v in layer.trainable_variables]
    others = [v.value for v in layer.non_trainable_variables]
    floats = [i for i, x in enumerate(inputs) if x.dtype == jnp.float32]

    def call(trainable, by):
        given = list(inputs)
        for i, x in zip(floats, by):
            given[i] = x
        results = call_layer(layer, spec, training, trainable, others, given, masks)
        if "reference" in spec:
            results = ([REFERENCES[spec["reference"]](spec["config"], given[0])], *results[1:])
        return results

    has_gradient = spec.get("gradient", True) and bool(trainable or floats)
    cotangents = []

    def weighed(trainable, by):
        results = call(trainable, by)
        if not has_gradient:
            return 0, results
        drawn = copy.deepcopy(rng)  # the same random values on every call
        cotangents[:] = [numbers(drawn, y.shape) for y in results[0]]
        return sum(jnp.sum(y * c) for y, c in zip(results[0], cotangents)), results

    by = [inputs[i] for i in floats]
    if has_gradient:
        gradients, results = yield jax.grad(weighed, (0, 1), has_aux=True), (trainable, by)
    else:
        gradients, (_, results) = ((), ()), (yield weighed, (trainable, by))
    outputs, output_masks, new, penalty = results
    tensors = {f"input/{i}": x for i, x in enumerate(inputs)}
    tensors.update({f"mask/{i}": np.asarray(m, np.uint8) for i, m in enumerate(masks) if m is not None})
    for variable, value in zip(layer.trainable_variables + layer.non_trainable_variables, trainable + others):
        if variable.dtype in KEPT:
            tensors[f"weight/{path(variable)}"] = value
    tensors.update({numbered("output", i): y for i, y in enumerate(outputs)})
    tensors.update({f"output_mask/{i}": np.asarray(m, np.uint8) for i, m in enumerate(output_masks) if m is not None})
    tensors["penalty"] = penalty
    for variable, value in zip(layer.non_trainable_variables, new):
        if variable.dtype in KEPT:
            tensors[f"new/{path(variable)}"] = value
    if has_gradient:
        tensors.update({numbered("cotangent", i): c for i, c in enumerate(cotangents)})
    for variable, value in zip(layer.trainable_variables, gradients[0]):
        tensors[f"gradient/weight/{path(variable)}"] = value
    tensors.update({f"gradient/input/{i}": value for i, value in zip(floats, gradients[1])})
    more = {key: spec[key] for key in ("tolerance", "min_scale") if key in spec}
    expected.add("layer", name, tensors, **{"class": type(layer).__name__, "training": training,
                                            "config": {**spec["config"], **spec.get("call", {})}}, **more)


# ---- Losses and metrics ----


def with_some(rng, values, other):
    """Replaces about a third of the values, always including the second."""
    where = rng.uniform(size=values.shape) < 0.3
    where.flat[1 % where.size] = True
    return np.where(where, other, values)


def labels_and_scores(rng, shape, labels, scores, axis=-1):
    """`axis`: the axis of classes."""
    rest = list(shape[:-1]) if axis == -1 else [n for i, n in enumerate(shape) if i != axis % len(shape)]
    classes = rng.integers(0, shape[axis], size=rest).astype(np.int32)
    logits = rng.normal(size=shape) * 2
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    y_true = {
        "classes": lambda: classes,
        "column": lambda: classes[..., None],
        "ignored": lambda: with_some(rng, classes, 255).astype(np.int32),
        "groups": lambda: rng.integers(0, 3, size=shape[:1]).astype(np.int32),
        "sequences": lambda: (rng.integers(1, min(shape[-1], 3), size=(shape[0], 3))
                              * (np.arange(3) < rng.integers(1, 4, size=(shape[0], 1)))).astype(np.int32),
        "one_hot": lambda: np.eye(shape[-1])[classes],
        "soft": lambda: rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]),
        "real": lambda: rng.normal(size=shape),
        "positive": lambda: rng.uniform(0.1, 3, size=shape),
        "counts": lambda: rng.poisson(2, size=shape),
        "binary": lambda: rng.integers(0, 2, size=shape),
        "flat": lambda: rng.integers(0, 2, size=shape[:-1]),
        "ones": lambda: np.ones(shape),
        "numbers": lambda: rng.integers(0, 4, size=shape).astype(np.int32),
        "two_classes": lambda: np.eye(shape[-1])[classes % 2],
        "signs": lambda: rng.integers(0, 2, size=shape) * 2 - 1,
        "zeros": lambda: np.zeros(shape),
    }[labels]()
    y_pred = {
        "logits": lambda: logits,
        "huge": lambda: logits * 1e4,
        "probabilities": lambda: probabilities,
        "unnormalized": lambda: probabilities * 1.3,
        "certain": lambda: np.eye(shape[-1])[logits.argmax(-1)],
        "real": lambda: rng.normal(size=shape),
        "positive": lambda: rng.uniform(0.1, 3, size=shape),
        "unit": lambda: rng.uniform(size=shape),
        "saturated": lambda: rng.choice([0, 1e-8, 1e-7, 0.5, np.float32(1) - np.float32(2**-24), 1], size=shape),
        "zeros": lambda: np.zeros(shape),
        "steps": lambda: rng.integers(0, 11, size=shape) / 10,
        "numbers": lambda: rng.integers(0, 4, size=shape),
        "ids": lambda: rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1),
        "directions": lambda: (lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True))(rng.normal(size=shape)),
    }[scores]()
    return y_true if y_true.dtype == np.int32 else y_true.astype(np.float32), y_pred.astype(np.float32)


def sample_weights(rng, kind, shape):
    """Random weights, some of them 0."""
    if kind is None:
        return None
    shape = {"examples": shape[:1], "column": [shape[0], 1], "steps": shape[:-1]}[kind]
    return with_some(rng, rng.integers(1, 9, size=shape) / 4, 0).astype(np.float32)


def add_loss(expected, spec):
    name = title(spec["class"], spec["config"], spec["shape"], spec["labels"], spec["scores"], spec.get("weights"),
                 "masked" if spec.get("mask") else "", spec.get("dtype"), spec.get("label_dtype"), spec.get("ours"),
                 spec.get("why"))
    rng = seeded(name)
    config = dict(spec["config"])
    sparse_axis = config.pop("axis", -1) if spec["class"].startswith("Sparse") else -1
    y_true, y_pred = labels_and_scores(rng, spec["shape"], spec["labels"], spec["scores"], sparse_axis)
    y_true = y_true.astype(spec.get("label_dtype", y_true.dtype))
    weights = sample_weights(rng, spec.get("weights"), spec["shape"])
    mask = with_some(rng, np.ones(spec["shape"][:-1]), 0) > 0 if spec.get("mask") else None
    y_pred = jnp.asarray(y_pred).astype(spec.get("dtype", "float32"))
    loss = getattr(keras.losses, spec["class"])(**config)

    def reduced(y_pred):
        y_pred = jnp.moveaxis(y_pred, sparse_axis, -1)
        if mask is not None:
            keras.src.backend.set_keras_mask(y_pred, mask)
        return loss(y_true, y_pred, sample_weight=weights)

    def unreduced(y_pred):
        y_pred = jnp.moveaxis(y_pred, sparse_axis, -1).astype("float32")
        values = loss.call(jnp.asarray(y_true, "float32"), y_pred)
        counted = keras.src.backend.get_keras_mask(values)
        if mask is not None:
            counted = mask if counted is None else counted & mask
        if counted is not None:
            values = jnp.where(counted, values, 0) * (values.size / jnp.maximum(jnp.sum(counted), 1))
        first = values.shape[0] if values.ndim and values.shape[0] == len(y_pred) else 0
        return values.reshape(first, -1).mean(1) if first else jnp.full(len(y_pred), values.mean())

    total, each, gradient = yield (
        lambda p: (reduced(p), unreduced(p), jax.grad(lambda p: jnp.sum(reduced(p)))(p))), (y_pred,)
    tensors = {"y_true": y_true, "y_pred": y_pred, "each": each, "loss": total}
    if spec.get("gradient", True) and spec.get("dtype") != "bfloat16":  # rounded to 8 bits
        tensors["gradient"] = gradient
    if weights is not None:
        tensors["sample_weight"] = weights
    if mask is not None:
        tensors["mask"] = mask
    more = {"tolerance": spec["tolerance"]} if "tolerance" in spec else {}
    expected.add("loss", name, tensors, loss=spec.get("ours", spec["class"]), config=spec["config"],
                 dtype=spec.get("dtype", "float32"), **more)


def add_metric(expected, spec):
    name = title(spec["class"], spec["config"], spec["shape"], spec["labels"], spec["scores"],
                 spec.get("weights"), spec.get("dtype"), spec.get("ours"), spec.get("why"))
    rng = seeded(name)
    config = {**spec["config"], **spec.get("keras", {})}
    iou_axis = config.pop("axis", -1) if "IoU" in spec["class"] else -1
    metric = getattr(keras.metrics, spec["class"])(**config)
    dtype, tensors, batches = spec.get("dtype", "float32"), {}, []
    for batch in range(spec["batches"]):
        y_true, y_pred = labels_and_scores(rng, spec["shape"], spec["labels"], spec["scores"])
        y_pred = np.asarray(y_pred.astype(jnp.dtype(dtype)).astype("float32"))
        weights = sample_weights(rng, spec.get("weights"), spec["shape"])
        last = lambda x: np.moveaxis(x, iou_axis, -1)
        given = (y_pred,) if spec["class"] in ("Mean", "Sum") else (last(y_true), last(y_pred))
        batches.append((given, weights))
        tensors.update({f"y_true/{batch}": y_true, f"y_pred/{batch}": y_pred})
        if weights is not None:
            tensors[f"weights/{batch}"] = weights
    if not getattr(metric, "_built", True):  # its variables have the shape of its first input
        metric.update_state(*batches[0][0])
        metric.reset_state()

    def updated(variables, batches):
        for given, weights in batches:
            variables = metric.stateless_update_state(variables, *given, sample_weight=weights)
        return variables

    variables = yield updated, ([v.value for v in metric.variables], batches)
    tensors["result"] = np.float32(metric.stateless_result(variables))
    described = {"class_name": spec.get("ours", spec["class"]), "config": spec["config"]}
    expected.add("metric", name, tensors, metric=described, dtype=dtype)


# ---- Training ----

ROWS, BATCH = 75, 8  # ten steps, the last with three rows


def build_model(layers, name=None, shared=None):
    """`shared`: all layers by name, including those of nested models, for "Again" to call."""
    made, inputs, shared = {}, [], {} if shared is None else shared
    for layer_name, class_name, options, of in layers:
        if class_name == "Input":
            made[layer_name] = keras.Input(**options, name=layer_name)
            inputs.append(made[layer_name])
            continue
        if class_name == "Again":
            layer = shared[options["layer"]]
        elif class_name == "Model":
            layer = shared[layer_name] = build_model(options["layers"], layer_name, shared)
        else:
            layer = shared[layer_name] = make_layer(class_name, {**options, "name": layer_name})
        if "frozen" in options:
            layer.trainable = False
        of = [made[o] for o in of]
        made[layer_name] = layer(*of) if len(of) == 1 or "Attention" in class_name else layer(of)
    return keras.Model(inputs[0] if len(inputs) == 1 else inputs, made[layers[-1][0]], name=name)


def add_training(expected, spec):
    rng = seeded(spec["name"])
    model = build_model(spec["layers"])
    shape = (ROWS, *spec["layers"][0][2]["shape"])
    x = numbers(rng, shape) if spec.get("dtype") is None else \
        rng.integers(0, spec.get("high", 256), shape).astype(spec["dtype"])
    y, _ = labels_and_scores(rng, (ROWS, model.output.shape[-1]), spec["labels"], "real")
    for variable in model.weights:
        variable.assign(weight_value(rng, variable))
    tensors = {"x": x, "y": y, **{f"weight/{v.path}": v.numpy() for v in model.weights}}
    model.compile(keras_optimizer(*spec["optimizer"]),
                  getattr(keras.losses, spec["loss"][0])(**spec["loss"][1]), metrics=spec["metrics"])
    given = {}
    if "weights" in spec:
        given["sample_weight"] = tensors["sample_weight"] = sample_weights(rng, spec["weights"], (ROWS,))
    if "class_weight" in spec:
        given["class_weight"] = {int(number): weight for number, weight in spec["class_weight"].items()}
    history = model.fit(x, y, batch_size=BATCH, epochs=1, shuffle=False, verbose=0, **given).history
    if not all(np.isfinite(value[0]) for value in history.values()):
        raise FloatingPointError(f"Keras trains to NaN: {spec['name']}")
    tensors.update({f"history/{key}": value[0] for key, value in history.items()})
    tensors.update({f"new/{v.path}": v.numpy() for v in model.weights})
    tensors["predictions"] = model.predict(x, batch_size=BATCH, verbose=0)
    evaluated = model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True)
    tensors.update({f"evaluated/{key}": value for key, value in evaluated.items()})
    loss = getattr(keras.losses, spec["loss"][0])(**spec["loss"][1])
    expected.add("training", spec["name"], tensors, layers=spec["layers"], batch=BATCH, metrics=spec["metrics"],
                 class_weight=spec.get("class_weight", {}), input_dtype=spec.get("dtype", "float32"),
                 optimizer=described(*spec["optimizer"]),
                 loss={"name": loss.name, "config": spec["loss"][1]},
                 **({"tolerance": spec["tolerance"]} if "tolerance" in spec else {}))


# ---- Main ----

ROWS_PER_PROGRAM = 16  # compilation takes most of the time


def run_together(functions, arguments, refused):
    """Computes all functions with one program. If that fails, computes each alone, with None where `refused` accepts the
    error."""
    try:
        return jax.jit(lambda arguments: [f(*a) for f, a in zip(functions, arguments)])(arguments)
    except Exception as error:
        if len(functions) == 1:
            return [refused(error)]
        return [run_together([f], [a], refused)[0] for f, a in zip(functions, arguments)]


def refuse_none(error):
    raise error


def leave_out(error):
    """Skips random rows that Keras itself cannot compute."""
    print("Keras:", str(error).strip().split("\n")[0][:160])


def compute(rows, refused=refuse_none):
    """Calls each of `rows`. Those that are generators yield a function and its arguments, and receive its result from
    a program that they share."""
    waiting = []

    def run():
        results = run_together([function for _, function, _ in waiting], [arguments for *_, arguments in waiting],
                               refused)
        for (row, *_), result in zip(waiting, results):
            if result is None:
                row.close()
                continue
            with contextlib.suppress(StopIteration):
                row.send(result)
        waiting.clear()

    for add in rows:
        try:
            row = add()
            if inspect.isgenerator(row):
                for function, arguments in row:
                    waiting.append((row, function, arguments))
                    break
        except Exception as error:
            refused(error)
        if len(waiting) == ROWS_PER_PROGRAM:
            run()
    if waiting:
        run()


def rows_of_table(expected):
    rows = [lambda spec=spec, training=training: add_layer(expected, spec, training)
            for spec in table.LAYERS
            for training in ([spec["training"]] if "training" in spec else [False, True])]
    if not ONLY:
        rows += [lambda spec=spec: add_loss(expected, spec) for spec in table.LOSSES]
        rows += [lambda spec=spec: add_metric(expected, spec) for spec in table.METRICS]
        rows += expect_optimizers.rows_of(expected)
        rows += [lambda spec=spec: add_training(expected, spec) for spec in table.TRAINING]
    return rows


def rows_at_random(expected):
    seed, count = map(int, (RANDOM or A_FEW).split(","))
    add = {"layer": lambda spec: add_layer(expected, spec, spec["training"]),
           "loss": lambda spec: add_loss(expected, spec), "metric": lambda spec: add_metric(expected, spec),
           "optimizer": lambda spec: expect_optimizers.add_optimizer(expected, spec),
           "training": lambda spec: add_training(expected, spec)}
    return [lambda kind=kind, spec=spec: add[kind](spec) for kind, spec in random_rows.make(seed, count)]


def main():
    expected = Expected()
    folder, part, parts = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:4] or (0, 1))
    if not RANDOM:
        compute(rows_of_table(expected)[part::parts])
    if not ONLY:
        compute(rows_at_random(expected)[part::parts], leave_out)
    folder.mkdir(parents=True, exist_ok=True)
    expected.write(folder)
    print(f"{len(expected.rows)} rows")


if __name__ == "__main__":
    main()
