"""What is compared with Keras, row by row: also the list of what Penstock has of it, and with which settings.

To add a layer (or a loss...), add its rows here, unusual settings among them; expect.py computes what Keras makes
of a row and parity_test what Penstock does. Names and options are Keras's.
"""

# ---- Layers: (class, options, shapes of the inputs with their batch, what differs from the defaults below) ----
#   training   False, True, or both when left out
#   dtype      of the inputs, float32 unless said
#   why        beside the options, where they do not speak for themselves
#   tolerance  where it is not the one of float32
IMAGE = (3, 8, 7, 4)  # neither square nor even


def layer(class_name, options, *shapes, **more):
    return {"class": class_name, "config": options, "shapes": [list(s) for s in shapes], **more}


# bfloat16 has 8 bits: the two sides may round differently where they add in another order.
BFLOAT16 = 1 / 64


def mixed(class_name, options, *shapes, **more):
    return layer(class_name, {**options, "dtype": "mixed_bfloat16"}, *shapes, **more, tolerance=BFLOAT16)


LAYERS = [
    layer("Dense", {"units": 5}, (4, 3)),
    layer("Dense", {"units": 1, "use_bias": False}, (4, 3)),
    layer("Dense", {"units": 6, "activation": "relu"}, (1, 3), why="one example"),
    layer("Dense", {"units": 4, "activation": "softmax"}, (2, 3, 5), why="three axes"),
    layer("Dense", {"units": 4, "activation": "tanh"}, (2, 3, 2, 5), why="four axes"),
    layer("Dense", {"units": 33, "activation": "sigmoid"}, (17, 129)),
    *[layer("Activation", {"activation": name}, (3, 5, 4))
      for name in ("linear", "relu", "softmax", "log_softmax", "sigmoid", "tanh", "softplus", "silu", "exponential",
                   "relu6")],
    layer("ReLU", {}, (3, 5)),
    layer("ReLU", {}, IMAGE),
    layer("ReLU", {"max_value": 1.0}, IMAGE),
    layer("ReLU", {"max_value": 6.0}, IMAGE),
    layer("ReLU", {"negative_slope": 0.3}, IMAGE),
    layer("ReLU", {"threshold": 0.5}, IMAGE),
    layer("ReLU", {"max_value": 1.5, "negative_slope": 0.1, "threshold": 0.25}, IMAGE),
    layer("Softmax", {}, (3, 5)),
    layer("Softmax", {"axis": 1}, (3, 5, 2)),
    layer("Softmax", {"axis": -2}, (3, 2, 5, 4)),
    layer("Dropout", {"rate": 0.4}, (3, 5), training=False),
    layer("Dropout", {"rate": 0.0}, (3, 5)),
    layer("Flatten", {}, (3, 5)),
    layer("Flatten", {}, IMAGE),
    layer("Flatten", {}, (5,), why="no axis but the batch"),
    layer("Add", {}, (3, 5), (3, 5)),
    layer("Add", {}, IMAGE, IMAGE, IMAGE),
    layer("Add", {}, (3, 1, 4), (3, 5, 4), why="broadcast"),
    layer("Add", {}, (3, 4), (3, 5, 4), (3, 5, 1), why="another rank, broadcast"),
    layer("Rescaling", {"scale": 1 / 255, "offset": -0.5}, IMAGE),
    layer("Rescaling", {"scale": 1 / 127.5, "offset": -1.0}, IMAGE, dtype="uint8"),
    layer("Rescaling", {"scale": 2.0}, (3, 4), dtype="int32"),

    layer("Conv2D", {"filters": 5, "kernel_size": 3}, IMAGE),
    layer("Conv2D", {"filters": 5, "kernel_size": [3, 2], "activation": "relu"}, IMAGE),
    layer("Conv2D", {"filters": 5, "kernel_size": 1, "use_bias": False}, IMAGE),
    layer("Conv2D", {"filters": 5, "kernel_size": 3, "padding": "same"}, IMAGE),
    layer("Conv2D", {"filters": 5, "kernel_size": 4, "padding": "same"}, IMAGE, why="even kernel: uneven padding"),
    layer("Conv2D", {"filters": 5, "kernel_size": [2, 5], "padding": "same"}, IMAGE),
    layer("Conv2D", {"filters": 5, "kernel_size": 3, "strides": 2, "padding": "same"}, IMAGE),
    layer("Conv2D", {"filters": 5, "kernel_size": 2, "strides": 2, "padding": "same"}, IMAGE),
    layer("Conv2D", {"filters": 5, "kernel_size": 4, "strides": 3, "padding": "same"}, IMAGE),
    layer("Conv2D", {"filters": 5, "kernel_size": 1, "strides": 2, "padding": "same"}, IMAGE, why="skips pixels"),
    layer("Conv2D", {"filters": 5, "kernel_size": 3, "strides": [2, 3], "padding": "valid"}, IMAGE),
    layer("Conv2D", {"filters": 5, "kernel_size": 2, "strides": 5, "padding": "valid"}, IMAGE,
          why="pixels that no window reads"),
    layer("Conv2D", {"filters": 5, "kernel_size": 7, "strides": 2, "padding": "same"}, (2, 3, 4, 3),
          why="kernel larger than the image"),
    layer("Conv2D", {"filters": 5, "kernel_size": 3, "dilation_rate": 2, "padding": "same"}, IMAGE),
    layer("Conv2D", {"filters": 5, "kernel_size": [2, 3], "dilation_rate": [3, 1], "padding": "valid"}, IMAGE),
    layer("Conv2D", {"filters": 6, "kernel_size": 3, "groups": 2, "padding": "same"}, IMAGE),
    layer("Conv2D", {"filters": 8, "kernel_size": 3, "groups": 4, "strides": 2, "padding": "same"}, IMAGE,
          why="depthwise"),
    layer("Conv2D", {"filters": 6, "kernel_size": 3, "groups": 2, "dilation_rate": 2, "padding": "same"}, IMAGE),
    layer("Conv2D", {"filters": 1, "kernel_size": 3, "padding": "same", "activation": "sigmoid"}, (1, 5, 5, 1)),
    layer("Conv2D", {"filters": 16, "kernel_size": 3, "padding": "same"}, (2, 16, 16, 16)),

    layer("DepthwiseConv2D", {"kernel_size": 3}, IMAGE),
    layer("DepthwiseConv2D", {"kernel_size": 3, "padding": "same", "use_bias": False}, IMAGE),
    layer("DepthwiseConv2D", {"kernel_size": 3, "strides": 2, "padding": "same", "activation": "relu"}, IMAGE),
    layer("DepthwiseConv2D", {"kernel_size": 3, "strides": 2}, IMAGE),
    layer("DepthwiseConv2D", {"kernel_size": [2, 3], "depth_multiplier": 3, "padding": "same"}, IMAGE),
    layer("DepthwiseConv2D", {"kernel_size": 3, "dilation_rate": 2, "depth_multiplier": 2}, IMAGE),
    layer("DepthwiseConv2D", {"kernel_size": 2}, (2, 4, 5, 1), why="one channel"),
    layer("SeparableConv2D", {"filters": 5, "kernel_size": 3}, IMAGE),
    layer("SeparableConv2D", {"filters": 6, "kernel_size": [3, 2], "strides": 2, "padding": "same",
                              "depth_multiplier": 2, "activation": "relu"}, IMAGE),
    layer("SeparableConv2D", {"filters": 3, "kernel_size": 3, "dilation_rate": 2, "use_bias": False}, IMAGE),
    layer("ZeroPadding2D", {}, IMAGE),
    layer("ZeroPadding2D", {"padding": 3}, IMAGE),
    layer("ZeroPadding2D", {"padding": [0, 2]}, IMAGE),
    layer("ZeroPadding2D", {"padding": [[0, 1], [2, 3]]}, IMAGE),

    *[layer(kind, options, IMAGE, why=why)
      for kind in ("MaxPooling2D", "AveragePooling2D")
      for options, why in (
          ({"pool_size": 2}, ""),
          ({"pool_size": 3, "strides": 2, "padding": "same"}, "overlap"),
          ({"pool_size": [2, 3], "padding": "same"}, "padding that is not counted"),
          ({"pool_size": 3, "strides": 1, "padding": "valid"}, ""),
          ({"pool_size": 2, "strides": [3, 1]}, "pixels that no window reads"),
          ({"pool_size": 4, "strides": 3, "padding": "same"}, "even window"),
          ({"pool_size": [8, 7]}, "the whole image"))],
    layer("GlobalAveragePooling2D", {}, IMAGE),
    layer("GlobalAveragePooling2D", {"keepdims": True}, IMAGE),
    layer("GlobalMaxPooling2D", {}, IMAGE),
    layer("GlobalMaxPooling2D", {"keepdims": True}, IMAGE),

    layer("BatchNormalization", {}, (6, 4)),
    layer("BatchNormalization", {}, IMAGE),
    layer("BatchNormalization", {"axis": 1}, IMAGE),
    layer("BatchNormalization", {"axis": 2}, (3, 5, 4)),
    layer("BatchNormalization", {"momentum": 0.5, "epsilon": 0.1}, IMAGE),
    layer("BatchNormalization", {"center": False}, IMAGE),
    layer("BatchNormalization", {"scale": False}, IMAGE),
    layer("BatchNormalization", {"center": False, "scale": False}, (6, 4)),
    layer("BatchNormalization", {}, (1, 4, 3, 2), why="one example"),

    # Mixed precision; "dtype" is the layer's policy.
    mixed("Dense", {"units": 33, "activation": "tanh"}, (17, 129)),
    mixed("Dense", {"units": 4, "activation": "softmax"}, (5, 3)),
    mixed("Conv2D", {"filters": 5, "kernel_size": 3, "padding": "same"}, IMAGE),
    mixed("Conv2D", {"filters": 6, "kernel_size": 3, "groups": 2, "strides": 2, "use_bias": False}, IMAGE),
    mixed("DepthwiseConv2D", {"kernel_size": 3, "padding": "same", "depth_multiplier": 2}, IMAGE),
    mixed("BatchNormalization", {}, IMAGE),
    mixed("BatchNormalization", {"scale": False}, (6, 4)),
    mixed("MaxPooling2D", {"pool_size": 3, "strides": 2, "padding": "same"}, IMAGE),
    mixed("AveragePooling2D", {"pool_size": 3, "strides": 2, "padding": "same"}, IMAGE),
    mixed("GlobalAveragePooling2D", {}, (2, 32, 32, 3)),
    mixed("ReLU", {"max_value": 1.0}, IMAGE),
    mixed("Add", {}, IMAGE, IMAGE),
    mixed("Rescaling", {"scale": 1 / 255}, IMAGE, dtype="uint8"),
    mixed("Rescaling", {"scale": 1 / 127.5, "offset": -1.0}, IMAGE, dtype="uint8"),
    layer("Dense", {"units": 5, "dtype": "float32"}, (4, 3)),

    # Outside training, and for an image smaller than the window, Keras's documentation promises smart_resize; what
    # Keras 3.15 does is to return the image as it is, or to stretch it. Penstock does what is promised.
    *[layer("RandomCrop", {"height": height, "width": width}, IMAGE, training=False, gradient=False,
            reference="smart_resize")
      for height, width in ((4, 5), (5, 2), (12, 9), (3, 12))],
    *[layer("RandomCrop", {"height": height, "width": width}, IMAGE, training=True, gradient=False,
            reference="smart_resize")
      for height, width in ((12, 9), (4, 9))],
    layer("RandomCrop", {"height": 8, "width": 7}, IMAGE, gradient=False, why="the whole image"),
    # Both ends of the range alike: the move is not random.
    *[layer("RandomTranslation",
            {"height_factor": [y, y], "width_factor": [x, x], "fill_mode": fill, "interpolation": interpolation,
             "fill_value": 0.5}, IMAGE, training=True, gradient=False)
      for fill in ("reflect", "wrap", "nearest", "constant")
      for interpolation in ("bilinear", "nearest")
      for y, x in ((0.25, -0.4), (-0.9, 0.1))],
    layer("RandomTranslation", {"height_factor": 0.3, "width_factor": 0.3}, IMAGE, training=False, gradient=False),
]

# ---- Losses: (class, options, shape of the predictions, what the labels are) ----
#   labels     classes: numbers [batch...]; column: [batch..., 1]; one_hot; soft (probabilities); real
#   scores     logits, probabilities (sum to 1), unnormalised (sum to more), certain (zeros and ones), real


def loss(class_name, options, shape, labels, scores):
    return {"class": class_name, "config": options, "shape": list(shape), "labels": labels, "scores": scores}


LOSSES = [
    *[loss(name, {"from_logits": logits}, shape, labels, scores)
      for name, kinds in (("SparseCategoricalCrossentropy", ("classes", "column")),
                          ("CategoricalCrossentropy", ("one_hot", "soft")))
      for labels in kinds
      for shape in ((5, 4), (1, 2), (3, 6, 5))
      for logits, scores in ((True, "logits"), (False, "probabilities"), (False, "unnormalised"))],
    loss("CategoricalCrossentropy", {"from_logits": True, "label_smoothing": 0.1}, (5, 4), "one_hot", "logits"),
    loss("CategoricalCrossentropy", {"label_smoothing": 0.3}, (5, 4), "one_hot", "probabilities"),
    loss("CategoricalCrossentropy", {"label_smoothing": 0.1}, (2, 3, 4), "soft", "probabilities"),
    loss("SparseCategoricalCrossentropy", {}, (5, 4), "classes", "certain"),
    loss("CategoricalCrossentropy", {}, (5, 4), "one_hot", "certain"),
    loss("SparseCategoricalCrossentropy", {"from_logits": True}, (5, 1000), "classes", "logits"),
    loss("MeanSquaredError", {}, (5, 4), "real", "real"),
    loss("MeanSquaredError", {}, (5, 1), "real", "real"),
    loss("MeanSquaredError", {}, (2, 3, 4, 5), "real", "real"),
]

# ---- Metrics: (our name, Keras's class, shape of the predictions, labels, scores); three weighted batches ----
METRICS = [
    ("sparse_categorical_accuracy", "SparseCategoricalAccuracy", (7, 4), "classes", "logits"),
    ("sparse_categorical_accuracy", "SparseCategoricalAccuracy", (7, 4), "column", "probabilities"),
    ("categorical_accuracy", "CategoricalAccuracy", (7, 4), "one_hot", "probabilities"),
    ("binary_accuracy", "BinaryAccuracy", (9, 1), "binary", "unit"),
    ("accuracy", "SparseCategoricalAccuracy", (7, 4), "classes", "probabilities"),
    ("accuracy", "CategoricalAccuracy", (7, 4), "one_hot", "probabilities"),
    ("accuracy", "BinaryAccuracy", (9, 1), "binary", "unit"),
    ("mean_squared_error", "MeanSquaredError", (7, 3), "real", "real"),
]

# ---- Schedules, and where they are asked ----
COSINE = ("CosineDecay", {"initial_learning_rate": 0.4, "decay_steps": 20})
SCHEDULES = [
    ("PiecewiseConstantDecay", {"boundaries": [3, 10], "values": [0.1, 0.01, 0.001]}),
    ("PiecewiseConstantDecay", {"boundaries": [0], "values": [1.0, 0.5]}),
    COSINE,
    ("CosineDecay", {"initial_learning_rate": 0.4, "decay_steps": 20, "alpha": 0.1}),
    ("CosineDecay", {"initial_learning_rate": 0.0, "decay_steps": 20, "warmup_target": 0.3, "warmup_steps": 5}),
    ("CosineDecay",
     {"initial_learning_rate": 0.05, "decay_steps": 7, "alpha": 0.2, "warmup_target": 0.3, "warmup_steps": 11}),
]
SCHEDULE_STEPS = [0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 17, 18, 19, 20, 21, 24, 25, 26, 100, 1000000]
# Ours alone: WarmUp before a constant and before cosine decay is cosine decay with Keras's own warm-up.
WARM_UPS = [
    {"config": {"steps": 5, "start": 0.0}, "then": ("CosineDecay", {"initial_learning_rate": 0.3, "decay_steps": 20}),
     "keras": ("CosineDecay", {"initial_learning_rate": 0.0, "decay_steps": 20, "warmup_target": 0.3,
                               "warmup_steps": 5})},
    {"config": {"steps": 4, "start": 0.25},
     "then": ("CosineDecay", {"initial_learning_rate": 0.2, "decay_steps": 10, "alpha": 0.5}),
     "keras": ("CosineDecay", {"initial_learning_rate": 0.05, "decay_steps": 10, "alpha": 0.5, "warmup_target": 0.2,
                               "warmup_steps": 4})},
]

# ---- Optimizers: (class, options); ten steps with given gradients ----
OPTIMIZERS = [
    ("SGD", {}),
    ("SGD", {"learning_rate": 0.1, "momentum": 0.9}),
    ("SGD", {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"learning_rate": 0.5, "momentum": 1.0}),
    ("SGD", {"learning_rate": {"class_name": COSINE[0], "config": COSINE[1]}, "momentum": 0.5, "nesterov": True}),
    ("SGD", {"learning_rate": {"class_name": SCHEDULES[0][0], "config": SCHEDULES[0][1]}}),
    ("Adam", {}),
    ("Adam", {"learning_rate": 0.1, "beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}),
    ("Adam", {"learning_rate": 0.01, "amsgrad": True}),
    ("Adam", {"learning_rate": 0.1, "beta_1": 0.0}),
    ("Adam", {"learning_rate": {"class_name": COSINE[0], "config": COSINE[1]}}),
]

# ---- Training: ten steps of Fit without shuffling, the last batch smaller ----
#   layers     [name, class, options, names of the inputs]; the first is the input, the last the output


def conv_net(first=(), last=()):
    return [
        ["x", "Input", {"shape": [8, 8, 1]}, []],
        *first,
        ["c1", "Conv2D", {"filters": 4, "kernel_size": 3, "padding": "same", "use_bias": False},
         [first[-1][0] if first else "x"]],
        ["b1", "BatchNormalization", {}, ["c1"]],
        ["r1", "ReLU", {}, ["b1"]],
        ["c2", "Conv2D", {"filters": 4, "kernel_size": 3, "padding": "same", "activation": "tanh"}, ["r1"]],
        ["a", "Add", {}, ["c2", "r1"]],
        ["p", "MaxPooling2D", {}, ["a"]],
        ["f", "Flatten", {}, ["p"]],
        *(last or [["d", "Dense", {"units": 10, "activation": "softmax"}, ["f"]]]),
    ]


MLP = [
    ["x", "Input", {"shape": [6]}, []],
    ["d1", "Dense", {"units": 16, "activation": "tanh"}, ["x"]],
    ["d2", "Dense", {"units": 3}, ["d1"]],
]
TRAINING = [
    {"name": "mlp, mse, sgd", "layers": MLP, "labels": "real", "loss": ["MeanSquaredError", {}],
     "optimizer": ["SGD", {"learning_rate": 0.05}], "metrics": []},
    {"name": "mlp, logits, adam", "layers": MLP, "labels": "classes",
     "loss": ["SparseCategoricalCrossentropy", {"from_logits": True}],
     "optimizer": ["Adam", {"learning_rate": 0.01}], "metrics": ["accuracy"]},
    {"name": "conv net, nesterov", "layers": conv_net(), "labels": "classes",
     "loss": ["SparseCategoricalCrossentropy", {}],
     "optimizer": ["SGD", {"learning_rate": 0.02, "momentum": 0.9, "nesterov": True}], "metrics": ["accuracy"]},
    {"name": "conv net from pixels, adam, cosine", "labels": "one_hot", "dtype": "uint8",
     "layers": conv_net(first=[["s", "Rescaling", {"scale": 1 / 255}, ["x"]]],
                        last=[["g", "Dense", {"units": 10}, ["f"]]]),
     "loss": ["CategoricalCrossentropy", {"from_logits": True, "label_smoothing": 0.1}],
     "optimizer": ["Adam", {"learning_rate": {"class_name": "CosineDecay", "config": {
         "initial_learning_rate": 0.01, "decay_steps": 8, "warmup_target": 0.02, "warmup_steps": 3}}}],
     "metrics": ["accuracy"]},
]
