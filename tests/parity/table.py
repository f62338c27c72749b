"""What is compared with Keras, row by row; also the list of what Penstock implements, and with which settings.

To add a layer (or a loss, ...), add its rows here, including unusual settings; expect.py computes a row with Keras,
and parity_test computes it with Penstock. Names and options are Keras's.
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

# ---- Layers (see layer_row.py) ----
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
#   layers        [name, class, options, names of the inputs]; the first is the input, the last the output. Two more
#                 classes: "Model" (a model as a layer, whose "layers" have the same form), "Again" (calls the "layer"
# of
#                 that name once more, wherever it was made)
#   dtype, high   of integer inputs: 0 to below high, 256 by default
#   weights       "examples": a weight per example
#   class_weight  as in Fit


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
TOKENS = {"dtype": "int32", "high": 9}


def sequence_net(*layers):
    return [["x", "Input", {"shape": [7], "dtype": "int32"}, []],
            ["e", "Embedding", {"input_dim": 9, "output_dim": 6, "mask_zero": True}, ["x"]],
            *layers,
            ["d", "Dense", {"units": 3}, [layers[-1][0]]]]


TRANSFORMER = [
    ["x", "Input", {"shape": [5, 6]}, []],
    ["n1", "LayerNormalization", {}, ["x"]],
    ["m", "MultiHeadAttention", {"num_heads": 2, "key_dim": 3, "use_bias": False}, ["n1", "n1"]],
    ["a1", "Add", {}, ["x", "m"]],
    ["n2", "LayerNormalization", {}, ["a1"]],
    ["f1", "Dense", {"units": 12, "activation": "gelu"}, ["n2"]],
    ["f2", "Dense", {"units": 6}, ["f1"]],
    ["a2", "Add", {}, ["a1", "f2"]],
    ["p", "GlobalAveragePooling1D", {}, ["a2"]],
    ["d", "Dense", {"units": 3}, ["p"]],
]
# A layer used inside a model and next to it, and a model used twice, once within another. No activity regularizers: in
# fit, Keras 3.15 on JAX drops those of all but the last call of a layer that is called more than once, though not in a
# plain call.
SHARED = [
    ["x", "Input", {"shape": [6]}, []],
    ["d", "Dense", {"units": 6, "activation": "tanh", "kernel_regularizer": "l2(0.05)"}, ["x"]],
    ["m", "Model", {"layers": [["i", "Input", {"shape": [6]}, []],
                               ["again", "Again", {"layer": "d"}, ["i"]],
                               ["n", "BatchNormalization", {"momentum": 0.5}, ["again"]]]}, ["d"]],
    ["o", "Model", {"layers": [["j", "Input", {"shape": [6]}, []],
                               ["m1", "Again", {"layer": "m"}, ["j"]],
                               ["m2", "Again", {"layer": "m"}, ["m1"]],
                               ["z", "Add", {}, ["j", "m2"]]]}, ["x"]],
    ["n1", "Again", {"layer": "n"}, ["o"]],
    ["s", "Add", {}, ["m", "n1"]],
    ["e", "Dense", {"units": 3}, ["s"]],
]
LOGITS = {"labels": "classes", "loss": ["SparseCategoricalCrossentropy", {"from_logits": True}],
          "metrics": ["accuracy"]}
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
    {"name": "lstm over masked steps, rmsprop, clip by norm", **TOKENS, **LOGITS,
     "layers": sequence_net(["l", "LSTM", {"units": 5}, ["e"]]),
     "optimizer": ["RMSprop", {"learning_rate": 0.01, "momentum": 0.5, "clipnorm": 0.1}]},
    {"name": "two grus, one of them backwards, adagrad", **TOKENS, **LOGITS,
     "layers": sequence_net(["g1", "GRU", {"units": 5, "return_sequences": True, "go_backwards": True}, ["e"]],
                            ["g2", "GRU", {"units": 4, "reset_after": False}, ["g1"]]),
     "optimizer": ["Adagrad", {"learning_rate": 0.05}]},
    {"name": "transformer block, adamw, global norm, averaged weights", **LOGITS, "layers": TRANSFORMER,
     "optimizer": ["AdamW", {"learning_rate": 0.01, "weight_decay": 0.1, "global_clipnorm": 0.5, "use_ema": True,
                             "ema_momentum": 0.8}]},
    {"name": "separable net with group norm, lion", **LOGITS,
     "layers": [["x", "Input", {"shape": [6, 6, 4]}, []],
                ["s", "SeparableConv2D", {"filters": 6, "kernel_size": 3, "padding": "same"}, ["x"]],
                ["g", "GroupNormalization", {"groups": 3}, ["s"]],
                ["a", "PReLU", {"shared_axes": [1, 2]}, ["g"]],
                ["w", "DepthwiseConv2D", {"kernel_size": 3, "strides": 2}, ["a"]],
                ["t", "Conv2DTranspose", {"filters": 3, "kernel_size": 2, "strides": 2}, ["w"]],
                ["p", "GlobalMaxPooling2D", {}, ["t"]],
                ["d", "Dense", {"units": 3}, ["p"]]],
     "optimizer": ["Lion", {"learning_rate": 0.003, "weight_decay": 0.05}]},
    {"name": "regularised and constrained mlp, nadam, accumulated gradients", **LOGITS,
     "layers": [["x", "Input", {"shape": [6]}, []],
                ["d1", "Dense", {"units": 8, "activation": "silu", "kernel_regularizer": "l2(0.02)",
                                 "kernel_constraint": "max_norm(0.9)", "activity_regularizer": "l1(0.01)"}, ["x"]],
                ["d2", "Dense", {"units": 3, "bias_regularizer": "l1_l2(0.01, 0.02)"}, ["d1"]]],
     "optimizer": ["Nadam", {"learning_rate": 0.02, "gradient_accumulation_steps": 3}]},
    {"name": "mlp, examples that weigh differently, adamax", "layers": MLP, **LOGITS,
     "weights": "examples", "optimizer": ["Adamax", {"learning_rate": 0.02}]},
    {"name": "mlp, sum of the losses, examples that weigh differently", "layers": MLP, **LOGITS,
     "loss": ["SparseCategoricalCrossentropy", {"from_logits": True, "reduction": "sum"}],
     "weights": "examples", "optimizer": ["SGD", {"learning_rate": 0.005}]},
    {"name": "mlp, mean by sample weights, examples that weigh differently", "layers": MLP, "labels": "real",
     "loss": ["Huber", {"delta": 0.5, "reduction": "mean_with_sample_weight"}], "metrics": [],
     "weights": "examples", "optimizer": ["SGD", {"learning_rate": 0.05}]},
    {"name": "mlp, classes that weigh differently, ftrl", "layers": MLP, **LOGITS,
     "class_weight": {"0": 0.5, "2": 3.0}, "optimizer": ["Ftrl", {"learning_rate": 0.1, "l2_regularization_strength": 0.01}]},
    {"name": "shared layers, momentum", "layers": SHARED, **LOGITS,
     "optimizer": ["SGD", {"learning_rate": 0.05, "momentum": 0.9}]},
    {"name": "shared layers with weights, adam", "layers": SHARED, **LOGITS, "weights": "examples",
     "optimizer": ["Adam", {"learning_rate": 0.01, "epsilon": 1e-2}]},
    {"name": "batch normalization of masked steps", **TOKENS, **LOGITS,
     "layers": sequence_net(["b", "BatchNormalization", {"momentum": 0.5}, ["e"]],
                            ["p", "GlobalAveragePooling1D", {}, ["b"]]),
     "optimizer": ["SGD", {"learning_rate": 0.05}]},
]
