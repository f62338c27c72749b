from layer_row import IMAGE, SEQUENCE, layer, mixed

PENALTIES = {"gamma_regularizer": "l2(0.1)", "beta_regularizer": "l1(0.1)", "gamma_constraint": "non_neg",
             "beta_constraint": "max_norm(1)"}

ROWS = [
    layer("BatchNormalization", {}, (6, 4)),
    layer("BatchNormalization", {}, IMAGE),
    layer("BatchNormalization", {"axis": 1}, IMAGE),
    layer("BatchNormalization", {"axis": 2}, (3, 5, 4)),
    layer("BatchNormalization", {"momentum": 0.5, "epsilon": 0.1}, IMAGE),
    layer("BatchNormalization", {"center": False}, IMAGE),
    layer("BatchNormalization", {"scale": False}, IMAGE),
    layer("BatchNormalization", {"center": False, "scale": False}, (6, 4)),
    layer("BatchNormalization", {}, (1, 4, 3, 2), why="one example"),
    layer("BatchNormalization", {"axis": -2, **PENALTIES}, (6, 4, 3)),
    mixed("BatchNormalization", {}, IMAGE),
    mixed("BatchNormalization", {"scale": False}, (6, 4)),

    layer("LayerNormalization", {}, (6, 4)),
    layer("LayerNormalization", {}, IMAGE),
    layer("LayerNormalization", {"axis": 1}, IMAGE),
    layer("LayerNormalization", {"axis": [1, 2]}, SEQUENCE),
    layer("LayerNormalization", {"axis": [-1, 1]}, IMAGE),
    layer("LayerNormalization", {"axis": [1, 2, 3], "epsilon": 0.1}, IMAGE),
    layer("LayerNormalization", {"center": False}, SEQUENCE),
    layer("LayerNormalization", {"scale": False}, SEQUENCE),
    layer("LayerNormalization", {"center": False, "scale": False}, (1, 4), why="one example"),
    layer("LayerNormalization", PENALTIES, SEQUENCE),
    mixed("LayerNormalization", {}, SEQUENCE),
    mixed("LayerNormalization", {"axis": 1}, IMAGE),

    layer("GroupNormalization", {"groups": 2}, IMAGE),
    layer("GroupNormalization", {"groups": 1}, IMAGE, why="layer normalisation"),
    layer("GroupNormalization", {"groups": -1}, IMAGE, why="instance normalisation"),
    layer("GroupNormalization", {"groups": 4}, IMAGE),
    layer("GroupNormalization", {"groups": 4, "axis": 1}, IMAGE),
    layer("GroupNormalization", {"groups": 2, "axis": 1, "epsilon": 0.1}, (3, 4, 5)),
    layer("GroupNormalization", {"groups": 2, "center": False}, (3, 4), why="no axis but the channels"),
    layer("GroupNormalization", {"groups": 2, "scale": False}, SEQUENCE),
    layer("GroupNormalization", {"groups": 2, **PENALTIES}, SEQUENCE),
    mixed("GroupNormalization", {"groups": 2}, IMAGE),

    layer("RMSNormalization", {}, (6, 4)),
    layer("RMSNormalization", {"epsilon": 0.1}, SEQUENCE),
    layer("RMSNormalization", {"axis": [1, 2]}, SEQUENCE),
    mixed("RMSNormalization", {}, SEQUENCE),

    layer("UnitNormalization", {}, (6, 4)),
    layer("UnitNormalization", {"axis": 1}, IMAGE),
    layer("UnitNormalization", {"axis": [1, 2]}, SEQUENCE),
    mixed("UnitNormalization", {}, SEQUENCE),
]
