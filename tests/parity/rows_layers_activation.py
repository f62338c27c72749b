from layer_row import IMAGE, SEQUENCE, layer, mixed, mixed_half

ACTIVATIONS = (
    "linear", "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign",
    "squareplus", "sparse_plus", "sigmoid", "log_sigmoid", "hard_sigmoid", "hard_silu", "sparse_sigmoid", "tanh",
    "hard_tanh", "tanh_shrink", "hard_shrink", "soft_shrink", "exponential", "softmax", "log_softmax", "glu",
    "threshold(0.3, -0.5)",
)

ROWS = [
    *[layer("Activation", {"activation": name}, (3, 5, 4)) for name in ACTIVATIONS],
    *[layer("Activation", {"activation": name}, (3, 5, 4), why="with arguments")
      for name in ("leaky_relu(0.05)", "leaky_relu(negative_slope=0.5)", "elu(0.5)", "celu(2)", "gelu(true)",
                   "gelu(approximate=true)", "squareplus(1.5)", "hard_shrink(1)", "soft_shrink(0.25)",
                   "threshold(threshold=-0.5, default_value=2)", "softmax(1)", "log_softmax(axis=1)", "glu(axis=2)")],
    # Keras 3.15's output does not sum to 1 if more than one element remains: compared with the paper's formula.
    layer("Activation", {"activation": "sparsemax"}, (3, 5, 4), reference="sparsemax"),
    layer("Activation", {"activation": "sparsemax"}, (7, 9), reference="sparsemax"),
    layer("Activation", {"activation": "sparsemax(axis=1)"}, (3, 5, 4), reference="sparsemax along 1"),
    *[layer("Activation", {"activation": name}, (3, 4), why="Keras's other name") for name in ("swish", "hard_swish")],
    *[mixed("Activation", {"activation": name}, (3, 4)) for name in ACTIVATIONS],
    layer("Dense", {"units": 4, "activation": "elu(0.3)"}, (3, 5)),

    layer("ReLU", {}, (3, 5)),
    layer("ReLU", {}, IMAGE),
    layer("ReLU", {"max_value": 1.0}, IMAGE),
    layer("ReLU", {"max_value": 6.0}, IMAGE),
    layer("ReLU", {"negative_slope": 0.3}, IMAGE),
    layer("ReLU", {"threshold": 0.5}, IMAGE),
    layer("ReLU", {"max_value": 1.5, "negative_slope": 0.1, "threshold": 0.25}, IMAGE),
    mixed("ReLU", {"max_value": 1.0}, IMAGE),
    layer("LeakyReLU", {}, (3, 5)),
    layer("LeakyReLU", {"negative_slope": 0.0}, (3, 5)),
    layer("LeakyReLU", {"negative_slope": 1.5}, IMAGE),
    mixed("LeakyReLU", {"negative_slope": 0.25}, IMAGE),
    layer("PReLU", {}, (3, 5)),
    layer("PReLU", {}, IMAGE),
    layer("PReLU", {"shared_axes": [1, 2]}, IMAGE),
    layer("PReLU", {"shared_axes": [1]}, SEQUENCE),
    layer("PReLU", {"shared_axes": [1, 2, 3], "alpha_regularizer": "l2(0.1)", "alpha_constraint": "non_neg"}, IMAGE),
    mixed("PReLU", {"shared_axes": [2]}, IMAGE),
    layer("ELU", {}, (3, 5)),
    layer("ELU", {"alpha": 0.5}, IMAGE),
    mixed("ELU", {"alpha": 2.0}, IMAGE),
    layer("Softmax", {}, (4, 6), masks=["right"]),
    layer("Softmax", {"axis": 1}, (4, 6), masks=["none"], why="fully masked"),
    mixed_half("Softmax", {}, (4, 6), masks=["holes"]),
    layer("Softmax", {}, (3, 5)),
    layer("Softmax", {"axis": 1}, (3, 5, 2)),
    layer("Softmax", {"axis": -2}, (3, 2, 5, 4)),
    layer("Softmax", {"axis": [1, 2]}, (3, 2, 5, 4)),
    layer("Softmax", {"axis": [-1, 1]}, (3, 2, 5), why="everything"),
]
