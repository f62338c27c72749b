from layer_row import IMAGE, SEQUENCE, layer, mixed

ROWS = [
    *[row
      for kind in ("Add", "Multiply", "Average", "Maximum", "Minimum")
      for row in (
          layer(kind, {}, (3, 5), (3, 5)),
          layer(kind, {}, IMAGE, IMAGE, IMAGE),
          layer(kind, {}, (3, 1, 4), (3, 5, 4), why="broadcast"),
          layer(kind, {}, (3, 4), (3, 5, 4), (3, 5, 1), why="another rank, broadcast"),
          mixed(kind, {}, (3, 5), (3, 5)),  # few values, which remain distinct in bfloat16
          layer(kind, {}, SEQUENCE, SEQUENCE, masks=["right", "left"]),
          layer(kind, {}, SEQUENCE, SEQUENCE, SEQUENCE, masks=["holes", "right", "none"]),
          layer(kind, {}, SEQUENCE, SEQUENCE, SEQUENCE, masks=[None, "holes", "right"], why="the first has no mask"),
          layer(kind, {}, SEQUENCE, SEQUENCE, SEQUENCE, masks=["right", None, "holes"], why="one has no mask"),
          layer(kind, {}, (3, 9, 1), SEQUENCE, masks=["right", "holes"], why="broadcast features"),
          layer(kind, {}, (1, 4, 2), (1, 4, 2), masks=["none", "none"], why="only padding"),
          mixed(kind, {}, (2, 3, 4), (2, 3, 4), masks=["right", "left"]),
      )],
    layer("Add", {"constant": 3.0}, IMAGE),
    layer("Multiply", {"constant": 1 / 6}, IMAGE),
    layer("Subtract", {"constant": -0.7}, (3, 5)),
    layer("Maximum", {"constant": 0.1}, (3, 5), (3, 5)),
    mixed("Multiply", {"constant": 0.3}, (3, 5)),
    layer("Subtract", {}, SEQUENCE, SEQUENCE, masks=["right", "left"]),
    layer("Subtract", {}, SEQUENCE, SEQUENCE, masks=["right", None]),
    layer("Subtract", {}, (3, 5), (3, 5)),
    layer("Subtract", {}, IMAGE, IMAGE),
    layer("Subtract", {}, (3, 4), (3, 5, 4), why="another rank, broadcast"),
    layer("Subtract", {}, (1, 4), (1, 4), why="one example"),
    mixed("Subtract", {}, SEQUENCE, SEQUENCE),

    layer("CustomScaleLayer", {"scale": 0.17}, (3, 5), (3, 5)),
    layer("CustomScaleLayer", {"scale": -2}, IMAGE, IMAGE),
    layer("CustomScaleLayer", {"scale": 1}, (3, 4, 2), (3, 1, 2), why="broadcast"),
    mixed("CustomScaleLayer", {"scale": 0.5}, (3, 5), (3, 5)),

    layer("Concatenate", {}, (3, 5), (3, 2)),
    layer("Concatenate", {"axis": 1}, (3, 5, 2), (3, 1, 2), (3, 4, 2)),
    layer("Concatenate", {"axis": -2}, (3, 2, 5, 4), (3, 2, 1, 4)),
    layer("Concatenate", {"axis": 3}, IMAGE, IMAGE),
    layer("Concatenate", {}, SEQUENCE, SEQUENCE, masks=["right", "left"]),
    layer("Concatenate", {}, SEQUENCE, SEQUENCE, masks=["right", None]),
    layer("Concatenate", {"axis": 1}, SEQUENCE, SEQUENCE, masks=["holes", "left"]),
    layer("Concatenate", {"axis": 1}, SEQUENCE, SEQUENCE, SEQUENCE, masks=[None, "left", "none"]),
    mixed("Concatenate", {}, (3, 5), (3, 2)),

    layer("Dot", {"axes": 1}, (3, 5), (3, 5)),
    layer("Dot", {"axes": -1, "normalize": True}, (3, 5), (3, 5), why="cosine"),
    layer("Dot", {"axes": [2, 1]}, (3, 2, 5), (3, 5, 4)),
    layer("Dot", {"axes": [1, 2]}, (3, 5, 2), (3, 4, 5), why="transposed"),
    layer("Dot", {"axes": 2, "normalize": True}, (3, 2, 5), (3, 4, 5)),
    layer("Dot", {"axes": [1, 2]}, (3, 5), (3, 4, 5), why="a vector with rows"),
    layer("Dot", {"axes": [2, 1]}, (3, 4, 5), (3, 5), why="rows with a vector"),
    layer("Dot", {"axes": [-2, 1]}, (3, 2, 5, 4), (3, 5, 6), why="four axes"),
    layer("Dot", {"axes": 1}, (1, 5), (1, 5), why="one example"),
    layer("Dot", {"axes": 2}, (3, 2, 5), (3, 4, 5), masks=["right", "left"], why="its output has no mask"),
    mixed("Dot", {"axes": -1}, (3, 2, 5), (3, 4, 5)),
]
