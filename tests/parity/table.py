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
import rows_layers_sequence
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
    *rows_layers_sequence.ROWS,
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
    {"name": "mlp, binary crossentropy, metrics over padded batches", "layers": MLP, "labels": "binary",
     "loss": ["BinaryCrossentropy", {"from_logits": True, "label_smoothing": 0.1}],
     "optimizer": ["SGD", {"learning_rate": 0.05}],
     "metrics": ["mse", "MeanAbsoluteError", "auc", "precision", "recall", "r2_score", "cosine_similarity"]},
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
