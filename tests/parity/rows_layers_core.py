from layer_row import IMAGE, SEQUENCE, layer, mixed

ROWS = [
    layer("Dense", {"units": 5}, (4, 3)),
    layer("Dense", {"units": 1, "use_bias": False}, (4, 3)),
    layer("Dense", {"units": 6, "activation": "relu"}, (1, 3), why="one example"),
    layer("Dense", {"units": 4, "activation": "softmax"}, (2, 3, 5), why="three axes"),
    layer("Dense", {"units": 4, "activation": "tanh"}, (2, 3, 2, 5), why="four axes"),
    layer("Dense", {"units": 33, "activation": "sigmoid"}, (17, 129)),
    layer("Dense", {"units": 3, "kernel_regularizer": "l2(0.02)", "bias_regularizer": "l1(0.3)"}, (4, 5)),
    layer("Dense", {"units": 3, "activation": "relu", "activity_regularizer": "l1_l2(0.1, 0.2)"}, (4, 5)),
    layer("Dense", {"units": 3, "activity_regularizer": "l2(0.1)", "kernel_regularizer": "l1(0.1)"}, (4, 2, 5)),
    layer("Dense", {"units": 3, "kernel_constraint": "max_norm(2)", "bias_constraint": "non_neg"}, (4, 5)),
    layer("Dense", {"units": 5, "dtype": "float32"}, (4, 3)),
    mixed("Dense", {"units": 33, "activation": "tanh"}, (17, 129)),
    mixed("Dense", {"units": 4, "activation": "softmax"}, (5, 3)),
    mixed("Dense", {"units": 4, "kernel_regularizer": "l2(0.1)"}, (5, 3)),
    layer("LayerScale", {"init_values": 1e-6, "projection_dim": 4}, IMAGE),
    layer("LayerScale", {"init_values": 0.5, "projection_dim": 5}, (3, 5)),
    mixed("LayerScale", {"init_values": 0.5, "projection_dim": 4}, SEQUENCE),
    layer("Identity", {}, (3, 5)),
    layer("Identity", {}, SEQUENCE),
]
