"""What is compared with Keras, row by row: also the list of what Penstock has of it, and with which settings.

To add a layer (or a loss...), add its rows here, unusual settings among them; expect.py computes what Keras makes
of a row and parity_test what Penstock does. Names and options are Keras's.
"""

import rows_layers_activation
import rows_layers_augmentation
import rows_layers_convolution
import rows_layers_core
import rows_layers_merge
import rows_layers_normalization
import rows_layers_pooling
import rows_layers_preprocessing
import rows_layers_regularization
import rows_layers_reshaping
import rows_layers_resizing
from rows_losses import LOSSES  # noqa: F401
from rows_metrics import METRICS  # noqa: F401

# ---- Layers (layer_row.py says what a row is) ----
LAYERS = [
    *rows_layers_core.ROWS,
    *rows_layers_activation.ROWS,
    *rows_layers_merge.ROWS,
    *rows_layers_reshaping.ROWS,
    *rows_layers_convolution.ROWS,
    *rows_layers_pooling.ROWS,
    *rows_layers_normalization.ROWS,
    *rows_layers_regularization.ROWS,
    *rows_layers_resizing.ROWS,
    *rows_layers_augmentation.ROWS,
    *rows_layers_preprocessing.ROWS,
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
