"""Random rows of layers, losses, metrics, optimizers, and trainings: cases beyond those of table.py.

make(seed, count) returns `count` rows, the same for the same seed; each is [kind, row], a row as in table.py. A row is
made by the function of one family, which draws options from their full range and matching shapes; rows that Keras
itself rejects are skipped when they are computed.
"""

import math
import random

from layer_row import BFLOAT16, FLOAT16

MASKS = ["right", "left", "holes", "none"]


class Draw:
    """Random numbers with short names."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self, low, high):
        return self.random.randint(low, high)

    def one_in(self, n):
        return self.number(1, n) == 1

    def flip(self):
        return self.one_in(2)

    def pick(self, *values):
        return self.random.choice(values)

    def dims(self, count, high):
        return [self.number(1, high) for _ in range(count)]

    def size(self, count, high):
        """For `count` axes: one number per axis, or a single one."""
        return self.dims(count, high) if self.flip() else self.number(1, high)

    def masks(self, count):
        return [self.pick(None, *MASKS) for _ in range(count)]

    def mask_of(self, shape):
        """The mask of a sequence, or None."""
        return {"masks": [self.pick(*MASKS)]} if len(shape) == 3 and self.flip() else {}

    def some(self, **options):
        """A random subset of the options."""
        return {key: value for key, value in options.items() if self.flip()}

    def layer(self, class_name, config, *shapes, policies=True, **more):
        config = dict(config)
        if policies and self.one_in(5):
            config["dtype"], tolerance = self.pick(("mixed_bfloat16", 2 * BFLOAT16), ("mixed_float16", 2 * FLOAT16))
            more.setdefault("tolerance", tolerance)
        return {"class": class_name, "config": config, "shapes": [list(shape) for shape in shapes],
                "training": self.flip(), **more}


def each(value, count):
    """Expands a size to one number per axis."""
    return value if isinstance(value, list) else [value] * count


# ---- Layers ----


def convolution(draw):
    kind = draw.pick("Conv", "Conv", "ConvTranspose", "DepthwiseConv", "SeparableConv")
    depthwise = kind in ("DepthwiseConv", "SeparableConv")
    axes = draw.number(1, 2 if depthwise else 3)
    channels = draw.pick(1, 2, 3, 4, 16)
    config = {"kernel_size": draw.size(axes, 5), "padding": draw.pick("same", "same", "valid"),
              "use_bias": not draw.one_in(3)}
    if kind == "Conv" and axes == 1 and draw.one_in(4):
        config["padding"] = "causal"
    if draw.flip():
        config["strides"] = [draw.number(1, 4)] * axes if depthwise else draw.size(axes, 4)
    elif draw.flip() and kind != "ConvTranspose":
        config["dilation_rate"] = draw.size(axes, 4)
    if kind != "DepthwiseConv":
        config["filters"] = draw.number(1, 6)
    if kind == "Conv" and draw.one_in(3):
        config["groups"] = draw.number(2, 3)
        channels *= config["groups"]
        config["filters"] = config["groups"] * draw.number(1, 3)
    if depthwise and draw.flip():
        config["depth_multiplier"] = draw.number(1, 3)
    if kind == "ConvTranspose" and "strides" in config and draw.one_in(3):
        config["output_padding"] = [draw.number(0, stride - 1) for stride in each(config["strides"], axes)]
    if draw.one_in(4):
        config["activation"] = draw.pick("relu", "gelu", "tanh")
    extents = draw.dims(axes, 9)
    if config["padding"] == "valid" and kind != "ConvTranspose":
        reach = [(k - 1) * d + 1 for k, d in zip(each(config["kernel_size"], axes),
                                                 each(config.get("dilation_rate", 1), axes))]
        extents = [max(extent, minimum) for extent, minimum in zip(extents, reach)]
    name = f"Conv{axes}DTranspose" if kind == "ConvTranspose" else f"{kind}{axes}D"
    return draw.layer(name, config, [draw.number(1, 3), *extents, channels])


def pooling(draw):
    axes = draw.number(1, 3)
    kind = draw.pick("MaxPooling", "AveragePooling", "GlobalMaxPooling", "GlobalAveragePooling",
                     "AdaptiveMaxPooling", "AdaptiveAveragePooling")
    extents = draw.dims(axes, 8)
    config = {}
    if kind.startswith("Global"):
        config = {"keepdims": draw.flip()}
    elif kind.startswith("Adaptive"):
        # Keras computes windows by a division in float32, which XLA may replace by a product: with 7 windows over 7
        # steps the
        # quotient exceeds 7, and the last window is out of bounds (NaN). At the other extents the quotients are exact.
        size = [min(draw.number(1, extent), 6) for extent in extents]
        config = {"output_size": size if axes > 1 else size[0]}
    else:
        config = {"pool_size": draw.size(axes, 5), "padding": draw.pick("same", "valid"),
                  **draw.some(strides=draw.size(axes, 5))}
        if config["padding"] == "valid":
            extents = [max(extent, minimum) for extent, minimum in zip(extents, each(config["pool_size"], axes))]
    masks = {"masks": [draw.pick(*MASKS[:3])]} if kind == "GlobalAveragePooling" and axes == 1 and draw.flip() else {}
    shape = [draw.number(1, 3), *extents, draw.number(1, 5)]
    if masks:  # Keras returns NaN for an example without steps
        shape[0] = 1
    # Keras 3.15's adaptive pooling in float16 returns NaN.
    return draw.layer(f"{kind}{axes}D", config, shape, policies=not kind.startswith("Adaptive"), **masks)


def normalization(draw):
    kind = draw.pick("BatchNormalization", "BatchNormalization", "LayerNormalization", "GroupNormalization",
                     "RMSNormalization", "UnitNormalization")
    axes = draw.number(1, 4)
    shape = [draw.number(1, 4), *draw.dims(axes, 5)]
    learned = {"center": draw.flip(), "scale": draw.flip()}
    # Statistics of few values suffer from cancellation.
    if kind == "BatchNormalization":
        masks = {"masks": [draw.pick(*MASKS)]} if axes == 2 and draw.flip() else {}
        axis = -1 if masks else draw.pick(-1, draw.number(1, axes))
        # The variance is E[x^2] - E[x]^2. For few values it may be small, and its rounding error, 2^-24 / epsilon,
        # affects all gradients (Keras's own differ by 4e-4 from float64 with an epsilon of 1e-5 and two rows).
        few = bool(masks) or math.prod(shape) // shape[axis] < 8
        epsilon = draw.pick(1e-3, 1e-2 if few else 1e-5)
        config = {"axis": axis, "momentum": draw.pick(0.99, 0.0, 1.0, 0.5), "epsilon": epsilon, **learned}
        row = draw.layer(kind, config, shape, min_scale=1, **masks)
        if few:
            row["tolerance"] = max(row.get("tolerance", 0), 8 * 2**-24 / epsilon)
        return row
    if kind == "GroupNormalization":
        axis = draw.pick(-1, draw.number(1, axes))
        groups = draw.pick(-1, *[n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0])
        # A smaller epsilon amplifies rounding errors in groups of one element.
        config = {"groups": groups, "axis": axis, "epsilon": draw.pick(1e-3, 1e-2), **learned}
        return draw.layer(kind, config, shape, min_scale=1)
    several = sorted(draw.random.sample(range(1, axes + 1), draw.number(1, axes)))
    several = [axis - axes - 1 if draw.flip() else axis for axis in several]
    if kind == "RMSNormalization":
        return draw.layer(kind, {"axis": draw.pick(-1, several[0])}, shape, min_scale=1)
    config = {"axis": draw.pick(-1, several)}
    if kind == "LayerNormalization":
        config.update(learned, epsilon=draw.pick(1e-3, 1e-6))
    row = draw.layer(kind, config, shape, min_scale=1)
    if kind == "UnitNormalization" and row["config"].get("dtype") == "mixed_float16":
        # Keras squares in float16, and the gradient of the square root of a small square overflows: -inf instead of 0.
        row["config"]["dtype"], row["tolerance"] = "mixed_bfloat16", 2 * BFLOAT16
    return row


def merging(draw):
    kind = draw.pick("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot")
    batch = draw.number(1, 3)
    if kind == "Dot":
        a, b = ([batch, *draw.dims(draw.number(1, 2), 4)] for _ in range(2))
        i, j = draw.number(1, len(a) - 1), draw.number(1, len(b) - 1)
        b[j] = a[i]
        return draw.layer(kind, {"axes": [i, j], "normalize": draw.flip()}, a, b, min_scale=1)
    axes = draw.number(1, 3)
    count = 2 if kind == "Subtract" else draw.number(2, 4)
    shape = [batch, *draw.dims(axes, 4)]
    config, shapes = {}, []
    if kind == "Concatenate":
        axis = draw.pick(-1, draw.number(1, axes))
        config = {"axis": axis}
        for _ in range(count):
            shapes.append(list(shape))
            shapes[-1][axis] = draw.number(1, 4)
    else:
        shapes = [[batch, *(1 if draw.one_in(5) else extent for extent in shape[1:])] for _ in range(count)]
    steps = {tuple(s[:2]) for s in shapes}
    masked = axes == 2 and (len(steps) == 1 or kind == "Concatenate") and draw.flip()
    return draw.layer(kind, config, *shapes, **({"masks": draw.masks(count)} if masked else {}))


def reshaping(draw):
    kind = draw.pick("Flatten", "Permute", "RepeatVector", *(f"{name}{axes}D" for axes in (1, 2, 3)
                                                             for name in ("ZeroPadding", "Cropping", "UpSampling")))
    axes = int(kind[-2]) if kind[-1] == "D" else draw.number(1, 4)
    shape = [draw.number(1, 3), *draw.dims(axes, 6), draw.number(1, 3)]
    if kind == "Flatten":
        return draw.layer(kind, {}, shape, **draw.mask_of(shape))
    if kind == "Permute":
        order = list(range(1, axes + 2))
        draw.random.shuffle(order)
        return draw.layer(kind, {"dims": order}, shape, **draw.mask_of(shape))
    if kind == "RepeatVector":
        return draw.layer(kind, {"n": draw.number(1, 4)}, shape[:1] + shape[-1:])
    if kind == "UpSampling2D":
        how = draw.pick("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5")
        return draw.layer(kind, {"size": draw.dims(2, 4), "interpolation": how}, shape, policies=False, tolerance=1e-4)
    if kind.startswith("UpSampling"):
        return draw.layer(kind, {"size": draw.number(1, 4) if axes == 1 else draw.dims(axes, 3)}, shape)
    ends = [[draw.number(0, 2), draw.number(0, 2)] for _ in range(axes)]
    if kind.startswith("Cropping"):
        shape[1:-1] = [max(extent, sum(end) + 1) for extent, end in zip(shape[1:], ends)]
    key = "padding" if kind.startswith("Zero") else "cropping"
    return draw.layer(kind, {key: ends if axes > 1 else ends[0]}, shape, **draw.mask_of(shape))


def resizing(draw):
    shape = [draw.number(1, 3), *draw.dims(2, 9), draw.number(1, 3)]
    size = {"height": draw.number(1, 9), "width": draw.number(1, 9)}
    common = {"policies": False, "tolerance": 1e-4}
    if draw.one_in(4):
        return draw.layer("CenterCrop", size, shape, **common)
    keep = draw.pick({}, {}, {"crop_to_aspect_ratio": True}, {"pad_to_aspect_ratio": True, "fill_value": 3.0})
    how = draw.pick("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5")
    config = {**size, "interpolation": how, **keep, "antialias": draw.one_in(4)}
    return {**draw.layer("Resizing", config, shape, **common), "training": False}


def recurrent(draw):
    kind = draw.pick("SimpleRNN", "GRU", "LSTM")
    config = {"units": draw.number(1, 4), "return_sequences": draw.flip(), "return_state": draw.one_in(3),
              "go_backwards": draw.one_in(3), "use_bias": not draw.one_in(3),
              **draw.some(zero_output_for_mask=draw.flip(), activation=draw.pick("relu", "sigmoid", "linear", "tanh"))}
    if kind == "GRU":
        config["reset_after"] = draw.flip()
    shapes = [[draw.number(1, 4), draw.number(1, 6), draw.number(1, 4)]]
    more = draw.some(masks=[draw.pick(*MASKS)])
    if draw.one_in(4):
        states = 2 if kind == "LSTM" else 1
        shapes += [[shapes[0][0], config["units"]]] * states
        more["states"] = True
        if "masks" in more:
            more["masks"] += [None] * states
    return draw.layer(kind, config, *shapes, min_scale=0.1, **more)


def bidirectional(draw):
    kind = draw.pick("SimpleRNN", "GRU", "LSTM")
    inner = {"name": kind.lower(), "units": draw.number(1, 3), "return_sequences": draw.flip(),
             "return_state": draw.one_in(4)}
    merge_mode = draw.pick("concat", "sum", "mul", "ave", None)
    config = {"layer": {"class_name": kind, "config": inner}, "merge_mode": merge_mode}
    shape = [draw.number(1, 4), draw.number(1, 6), draw.number(1, 4)]
    return draw.layer("Bidirectional", config, shape, min_scale=0.1, **draw.some(masks=[draw.pick(*MASKS)]))


def time_distributed(draw):
    inside = lambda class_name, shape, **config: ({"class_name": class_name, "config": {"name": "i", **config}}, shape)
    layer, shape = draw.pick(
        inside("Dense", draw.dims(1, 3), units=draw.number(1, 3), activation="tanh"),
        inside("Conv1D", draw.dims(2, 4), filters=2, kernel_size=draw.number(1, 3), padding="same"),
        inside("LSTM", draw.dims(2, 3), units=2),
        inside("LayerNormalization", [draw.number(2, 4)]),
        inside("BatchNormalization", draw.dims(1, 4)),
        inside("MaxPooling2D", [*draw.dims(2, 4), 2], padding="same"),
        inside("Flatten", [*draw.dims(2, 4), 2]),
        inside("TimeDistributed", draw.dims(2, 3), layer={"class_name": "Dense", "config": {"name": "d", "units": 2}}))
    masks = draw.some(masks=[draw.pick(*MASKS)]) if len(shape) == 1 and layer["class_name"] == "Dense" else {}
    shape = [draw.number(1, 3), draw.number(1, 4), *shape]
    row = draw.layer("TimeDistributed", {"layer": layer}, shape, policies=False, min_scale=1, **masks)
    # docs/design/nn.md explains how training differs for layers that mix examples.
    return {**row, "training": False} if layer["class_name"] == "BatchNormalization" else row


def attention(draw):
    batch, queries, steps, features = draw.number(1, 3), draw.number(1, 5), draw.number(1, 5), draw.number(1, 4)
    query, value = [batch, queries, features], [batch, steps, draw.number(1, 4)]
    call = {"call": draw.some(use_causal_mask=True, return_attention_scores=True)}
    if draw.flip():
        kind = draw.pick("Attention", "AdditiveAttention")
        shapes = [query, value, [batch, steps, features]] if draw.flip() else [query, [batch, steps, features]]
        config = {"use_scale": draw.flip()}
        if kind == "Attention":
            config["score_mode"] = draw.pick("dot", "concat")
        return draw.layer(kind, config, *shapes, min_scale=1, **call, **draw.some(masks=draw.masks(len(shapes))))
    shapes = draw.pick([query, query], [query, value], [query, value, [batch, steps, draw.number(1, 4)]])
    kind, config = draw.pick(
        ("MultiHeadAttention", {"num_heads": draw.number(1, 3), "key_dim": draw.number(1, 4)}),
        ("GroupQueryAttention", {"head_dim": draw.number(1, 3), "num_query_heads": 4,
                                 "num_key_value_heads": draw.pick(1, 2, 4)}))
    return draw.layer(kind, {**config, "use_bias": draw.flip()}, *shapes, min_scale=1, arguments=True, **call,
                      **draw.some(masks=draw.masks(len(shapes))))


def core(draw):
    axes = draw.number(1, 3)
    shape = [draw.number(1, 4), *draw.dims(axes, 5)]
    kind = draw.pick("Dense", "Embedding", "Softmax", "PReLU", "ReLU", "LeakyReLU", "ELU", "Activation")
    if kind == "Embedding":
        count = draw.number(1, 6)
        config = {"input_dim": count, "output_dim": draw.number(1, 4), "mask_zero": draw.flip()}
        return {**draw.layer(kind, config, draw.dims(2, 5), dtype=draw.pick("int32", "uint8", "int8"), high=count),
                "training": True}
    if kind == "Activation":
        name = draw.pick("softplus", "softsign", "log_softmax", "sparse_plus", "squareplus", "hard_tanh", "celu", "glu",
                         "tanh_shrink", "threshold(0.2, 0.5)", "soft_shrink", "hard_shrink", "relu6", "exponential",
                         "log_sigmoid", "sparse_sigmoid", "silu")
        return draw.layer(kind, {"activation": name}, [shape[0], 2 * shape[-1]])
    config = {
        "Dense": {"units": draw.number(1, 5), "activation": draw.pick(None, "softmax", "gelu", "selu", "mish")},
        "Softmax": {"axis": draw.pick(-1, draw.number(1, axes), [-1] if axes == 1 else [-1, -2])},
        "PReLU": {"shared_axes": sorted(draw.random.sample(range(1, axes + 1), draw.number(0, axes))) or None},
        "ReLU": {"max_value": draw.pick(None, 0.5, 0.0), "negative_slope": draw.pick(0.0, 0.1),
                 "threshold": draw.pick(0.0, 0.3)},
        "LeakyReLU": {"negative_slope": 0.2},
        "ELU": {"alpha": 0.7},
    }[kind]
    return draw.layer(kind, config, shape, **draw.mask_of(shape))


# ---- Losses, metrics, optimizers ----


def loss(draw):
    axes = draw.number(1, 3)
    shape = [*draw.dims(axes, 6), draw.number(2, 6)]
    logits = draw.flip()
    smooth = {"label_smoothing": draw.pick(0.0, 0.0, 0.1, 1.0)}
    real = (["real", "positive", "zeros"], ["real", "positive", "zeros", "huge"])
    probabilities = ["probabilities", "unnormalized", "certain"]
    kinds = {
        "SparseCategoricalCrossentropy": (["classes", "column"], ["logits", "huge"] if logits else
                                          [*probabilities, "saturated"], {"from_logits": logits}),
        "CategoricalCrossentropy": (["one_hot", "soft", "zeros"],
                                    ["logits"] if logits else [*probabilities, "positive"],
                                    {"from_logits": logits, **smooth}),
        "CategoricalFocalCrossentropy": (["one_hot", "soft"], ["logits"] if logits else probabilities,
                                         {"from_logits": logits, "gamma": draw.pick(0.0, 1.0, 2.0, 5.0), **smooth}),
        "BinaryCrossentropy": (["binary", "soft", "zeros", "ones"], ["logits", "huge"] if logits else
                               ["unit", "saturated", "zeros"], {"from_logits": logits, **smooth}),
        "BinaryFocalCrossentropy": (["binary", "zeros"], ["logits"] if logits else ["unit", "saturated"],
                                    {"from_logits": logits, "gamma": draw.pick(0.0, 1.0, 2.5),
                                     "alpha": draw.pick(0.25, 1.0), "apply_class_balancing": draw.flip()}),
        **{kind: (["signs", "binary", "zeros", "ones"], ["real", "zeros", "huge"], {})
           for kind in ("Hinge", "SquaredHinge", "CategoricalHinge")},
        **{kind: (*real, {}) for kind in ("MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError",
                                          "LogCosh")},
        "MeanSquaredLogarithmicError": (["positive", "zeros"], ["positive", "zeros"], {}),
        "Huber": (*real, {"delta": draw.pick(0.1, 1.0, 3.0)}),
        "Poisson": (["counts", "zeros"], ["positive", "unit"], {}),
        "KLDivergence": (["soft", "one_hot", "zeros"], ["probabilities", "certain"], {}),
        "CosineSimilarity": (["real"], ["real"], {"axis": draw.pick(-1, draw.number(1, axes))}),
        "Dice": (["binary", "zeros", "soft"], ["unit", "zeros", "certain"], {}),
        "Tversky": (["binary", "zeros", "soft"], ["unit", "zeros", "certain"], {}),
        "CategoricalGeneralizedCrossEntropy": (["classes"], ["probabilities", "certain"], {"q": draw.pick(0.1, 0.9)}),
    }
    kind = draw.pick(*kinds)
    labels, scores, config = kinds[kind]
    if kind in ("MeanAbsoluteError", "MeanAbsolutePercentageError"):
        # Where prediction and label are equal, the gradient of |x| is 0, as in TensorFlow; in JAX it is 1, which a
        # percentage scales to 1e9.
        scores = [name for name in scores if name != "zeros"]
    if kind == "BinaryFocalCrossentropy" and config["gamma"] == 0 and not logits:
        # Where a prediction is exactly right, the loss contains 0^0, whose gradient is 0, but NaN in JAX.
        scores = ["unit"]
    config = {**config, "reduction": draw.pick("sum_over_batch_size", "mean", "sum", "mean_with_sample_weight", "none")}
    # Keras aligns example weights with the last axis of losses that have more than one axis.
    whole = kind in ("Dice", "Tversky")  # one value for all steps
    more = {} if whole else draw.some(weights="steps" if axes > 1 else "examples")
    if axes > 1 and draw.one_in(4) and not whole:
        more["mask"] = True
    if draw.one_in(5):
        more["dtype"] = "bfloat16"
    return {"class": kind, "config": config, "shape": shape, "labels": draw.pick(*labels), "scores": draw.pick(*scores),
            "tolerance": 2e-5, **more}


def metric(draw):
    classes = draw.number(2, 5)
    shape = [draw.number(2, 9), classes]
    thresholds = {"num_thresholds": draw.pick(200, 5, 2)}
    share = draw.pick(0.0, 0.5, 1.0, 0.3)
    decided = (["binary", "zeros", "ones"], ["steps", "unit", "zeros"])
    kinds = {
        "SparseCategoricalAccuracy": (["classes", "column"], ["logits", "zeros", "steps"], {}),
        "CategoricalAccuracy": (["one_hot", "soft", "zeros"], ["logits", "zeros", "steps"], {}),
        "TopKCategoricalAccuracy": (["one_hot", "soft"], ["logits", "steps", "zeros"], {"k": draw.number(1, 6)}),
        "SparseTopKCategoricalAccuracy": (["classes"], ["logits", "steps", "zeros"], {"k": draw.number(1, 6)}),
        "BinaryAccuracy": (*decided, {"threshold": draw.pick(0.0, 0.3, 0.5, 1.0)}),
        "TruePositives": (*decided, {"thresholds": draw.pick(0.0, 0.3, 0.5, 1.0)}),
        "FalseNegatives": (*decided, {"thresholds": draw.pick(0.0, 0.3, 0.5, 1.0)}),
        **{kind: (*decided, draw.some(thresholds=draw.pick(0.0, 0.5, 0.7), top_k=draw.number(1, classes),
                                      class_id=draw.number(0, classes - 1))) for kind in ("Precision", "Recall")},
        "F1Score": (["one_hot", "binary"], ["steps", "unit"],
                    {"average": draw.pick("micro", "macro", "weighted"), "threshold": draw.pick(0.1, 0.5)}),
        "FBetaScore": (["one_hot", "binary"], ["steps", "unit"],
                       {"average": draw.pick("micro", "macro", "weighted"), "threshold": draw.pick(0.1, 0.5),
                        "beta": draw.pick(0.5, 2.0)}),
        "AUC": (*decided, {"curve": draw.pick("ROC", "PR"), **thresholds,
                           "summation_method": draw.pick("interpolation", "minoring", "majoring")}),
        "SensitivityAtSpecificity": (*decided, {"specificity": share, **thresholds}),
        "SpecificityAtSensitivity": (*decided, {"sensitivity": share, **thresholds}),
        "PrecisionAtRecall": (*decided, {"recall": share, **thresholds}),
        "RecallAtPrecision": (*decided, {"precision": share, **thresholds}),
        **{kind: (["real", "zeros", "positive"], ["real", "zeros"], {})
           for kind in ("MeanSquaredError", "RootMeanSquaredError", "MeanAbsoluteError", "CosineSimilarity",
                        "PearsonCorrelation", "R2Score")},
        "BinaryCrossentropy": (["binary"], ["unit", "saturated"], {}),
        "KLDivergence": (["soft"], ["probabilities"], {}),
    }
    kind = draw.pick(*kinds)
    labels, scores, config = kinds[kind]
    return {"class": kind, "config": config, "shape": shape, "labels": draw.pick(*labels), "scores": draw.pick(*scores),
            "weights": draw.pick("examples", None), "batches": draw.number(1, 3)}


def optimizer_options(draw, kind):
    config = {"learning_rate": draw.pick(0.1, 0.01, 0.5)}
    if kind == "SGD":
        config["momentum"] = draw.pick(0.0, 0.5, 0.9)
        config["nesterov"] = config["momentum"] > 0 and draw.flip()
    if kind in ("Adam", "AdamW"):
        config.update(amsgrad=draw.flip(), beta_2=draw.pick(0.999, 0.5), epsilon=draw.pick(1e-7, 1e-3, 1.0))
    if kind == "RMSprop":
        config.update(momentum=draw.pick(0.0, 0.9), centered=draw.one_in(4), epsilon=draw.pick(1e-7, 1e-2))
    config.update(draw.some(weight_decay=draw.pick(0.01, 0.3)))
    if draw.one_in(3):
        config[draw.pick("clipnorm", "clipvalue", "global_clipnorm")] = draw.pick(0.01, 0.5, 100.0)
    if draw.one_in(3):
        config.update(use_ema=True, ema_momentum=draw.pick(0.5, 0.99))
        config.update(draw.some(ema_overwrite_frequency=draw.number(1, 4)))
    if draw.one_in(3):
        config["gradient_accumulation_steps"] = draw.number(2, 4)
    if draw.one_in(4):
        config["loss_scale_factor"] = draw.pick(2.0, 0.25, 1024.0)
    return config


def optimizer(draw):
    kind = draw.pick("SGD", "Adam", "AdamW", "Adamax", "Nadam", "Lamb", "RMSprop", "Adagrad", "Adadelta", "Adafactor",
                     "Ftrl", "Lion", "Muon")
    return {"class": kind, "config": optimizer_options(draw, kind), "gradients": draw.pick("dense", "sparse"),
            "tolerance": 1e-4}


# ---- Trainings ----


def image_layers(draw):
    extent = draw.number(4, 8)
    layers, last = [["x", "Input", {"shape": [extent, draw.number(4, 8), draw.pick(1, 2, 16)]}, []]], "x"
    for number in range(draw.number(1, 4)):
        name = f"l{number}"
        kind, options = draw.pick(
            ("Conv2D", {"filters": draw.pick(3, 16), "kernel_size": draw.number(1, 3), "padding": "same",
                        "strides": draw.pick(1, 1, 2), "activation": draw.pick("relu", "gelu"),
                        **draw.some(kernel_regularizer="l2(0.01)")}),
            ("DepthwiseConv2D", {"kernel_size": 3, "padding": "same", "depth_multiplier": draw.number(1, 2)}),
            ("SeparableConv2D", {"filters": 4, "kernel_size": 3, "padding": "same"}),
            ("MaxPooling2D", {"pool_size": 2, "strides": draw.pick(1, 2), "padding": "same"}),
            ("AveragePooling2D", {"pool_size": 2, "strides": draw.pick(1, 2), "padding": "same"}),
            ("BatchNormalization", {"momentum": 0.7}), ("LayerNormalization", {}), ("ReLU", {}))
        layers.append([name, kind, options, [last]])
        last = name
    return [*layers, ["f", draw.pick("Flatten", "GlobalAveragePooling2D"), {}, [last]],
            ["d", "Dense", {"units": 3, **draw.some(kernel_constraint="max_norm(0.5)")}, ["f"]]]


def token_layers(draw):
    layers = [["x", "Input", {"shape": [draw.number(2, 7)], "dtype": "int32"}, []],
              ["e", "Embedding", {"input_dim": 9, "output_dim": draw.number(2, 6), "mask_zero": True}, ["x"]]]
    last = "e"
    for number in range(draw.number(1, 2)):
        name = f"s{number}"
        gru = {"layer": {"class_name": "GRU", "config": {"name": "g", "units": 3, "return_sequences": True}}}
        dense = {"layer": {"class_name": "Dense", "config": {"name": "dd", "units": 4, "activation": "tanh"}}}
        units = {"units": draw.number(2, 5), "return_sequences": True}
        kind, options, inputs = draw.pick(
            ("Bidirectional", {**gru, "merge_mode": draw.pick("concat", "sum", "ave")}, 1),
            ("TimeDistributed", dense, 1),
            ("LayerNormalization", {}, 1), ("BatchNormalization", {"momentum": 0.5}, 1),
            ("MultiHeadAttention", {"num_heads": 2, "key_dim": 3}, 2), ("LSTM", units, 1), ("GRU", units, 1))
        layers.append([name, kind, options, [last] * inputs])
        last = name
    end, options = draw.pick(("GlobalMaxPooling1D", {}), ("LSTM", {"units": 4}))
    return [*layers, ["g", end, options, [last]], ["d", "Dense", {"units": 3}, ["g"]]]


def training(draw):
    logits = {"labels": "classes", "loss": ["SparseCategoricalCrossentropy", {"from_logits": True}],
              "metrics": ["accuracy"]}
    if draw.one_in(3):
        row = {"layers": token_layers(draw), **logits, "dtype": "int32", "high": 9}
    else:
        smoothed = ["CategoricalCrossentropy", {"from_logits": True, "label_smoothing": 0.1}]
        row = {"layers": image_layers(draw), **draw.pick(
            logits,
            {"labels": "one_hot", "loss": smoothed, "metrics": ["accuracy"]},
            {"labels": "real", "loss": [draw.pick("MeanSquaredError", "Huber", "LogCosh"), {}], "metrics": ["mae"]},
            {"labels": "binary", "loss": ["BinaryCrossentropy", {"from_logits": True}], "metrics": ["mse"]})}
    # Only optimizers that do not divide by values near 0, which would amplify rounding errors without bound.
    kind = draw.pick("SGD", "SGD", "Adam", "AdamW", "RMSprop")
    options = {**optimizer_options(draw, kind), "learning_rate": draw.pick(0.005, 0.02)}
    options.pop("centered", None)
    if kind != "SGD":
        options["epsilon"] = 1e-2
    if options.get("use_ema"):
        options["ema_overwrite_frequency"] = 4
    row["optimizer"] = [kind, options]
    if draw.one_in(4):
        row["weights"] = "examples"
    elif draw.one_in(4) and row["labels"] == "classes":
        row["class_weight"] = {"0": 0.5, "2": 3.0}
    words = [f"{layer[1]}{layer[2]}" for layer in row["layers"]] + [kind, str(options)]
    # Rounding errors grow over ten steps.
    return {"name": "random " + " ".join(words), "tolerance": 1e-4, **row}


LAYERS = [convolution, pooling, normalization, merging, reshaping, resizing, recurrent, bidirectional, time_distributed,
          attention, core]
KINDS = [("layer", family) for family in LAYERS] + \
        [("loss", loss), ("metric", metric), ("optimizer", optimizer), ("training", training)]


def make(seed, count):
    # A separate generator for each row: draws of one family do not affect rows of others.
    chosen = (KINDS[i % len(KINDS)] for i in range(count))
    return [[kind, family(Draw(f"{seed}/{i}"))] for i, (kind, family) in enumerate(chosen)]
