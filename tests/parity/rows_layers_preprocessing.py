from layer_row import IMAGE, layer, mixed

ROWS = [
    layer("Rescaling", {"scale": 1 / 255, "offset": -0.5}, IMAGE),
    layer("Rescaling", {"scale": 1 / 127.5, "offset": -1.0}, IMAGE, dtype="uint8"),
    layer("Rescaling", {"scale": 2.0}, (3, 4), dtype="int32"),
    layer("Rescaling", {"scale": [0.1, 0.2, -3.0, 4.0], "offset": 1.0}, IMAGE, dtype="uint8"),
    layer("Rescaling", {"scale": 2.0, "offset": [0.1, 0.2, -3.0, 4.0]}, (3, 4)),
    mixed("Rescaling", {"scale": 1 / 255}, IMAGE, dtype="uint8"),
    mixed("Rescaling", {"scale": 1 / 127.5, "offset": -1.0}, IMAGE, dtype="uint8"),

    layer("Normalization", {"mean": 0.3, "variance": 2.0}, (3, 4)),
    layer("Normalization", {"mean": [0.1, 0.2, 0.3, 0.4], "variance": [1.0, 2.0, 0.5, 3.0]}, IMAGE),
    layer("Normalization", {"mean": [0.1, 0.2, 0.3, 0.4], "variance": [1.0, 2.0, 0.5, 3.0], "invert": True}, IMAGE),
    layer("Normalization", {"mean": 3.0, "variance": 4.0, "axis": []}, IMAGE, why="one for all"),
    layer("Normalization", {"mean": [1.0, 2.0, 3.0], "variance": [1.0, 2.0, 0.0], "axis": 1}, (2, 3, 4),
          why="no variance"),
    layer("Normalization", {"mean": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
                            "variance": [[1.0, 0.2], [0.3, 4.0], [5.0, 0.6]], "axis": [1, 2]}, (4, 3, 2)),
    layer("Normalization", {"mean": 100.0, "variance": 900.0}, IMAGE, dtype="uint8"),
    mixed("Normalization", {"mean": 0.3, "variance": 2.0}, (3, 4)),

    *[layer("CategoryEncoding", {"num_tokens": 6, "output_mode": mode}, shape, dtype="int32", high=6)
      for mode, shape in (("one_hot", (5,)), ("one_hot", (5, 1)), ("one_hot", (2, 3)), ("multi_hot", (4, 3)),
                          ("multi_hot", (4, 1)), ("count", (4, 5)))],
    layer("CategoryEncoding", {"num_tokens": 6}, (4, 3), dtype="int32", high=6),
    mixed("CategoryEncoding", {"num_tokens": 6, "output_mode": "one_hot"}, (4,), dtype="int32", high=6),

    layer("Discretization", {"bin_boundaries": [-1.0, 0.0, 0.5]}, (4, 5), gradient=False),
    layer("Discretization", {"bin_boundaries": [-0.5]}, (5,), gradient=False),
    layer("Discretization", {"bin_boundaries": [10.0, 50.0, 120.0]}, (4, 5), dtype="int32", gradient=False),
    *[layer("Discretization", {"bin_boundaries": [-1.0, 0.0, 0.5], "output_mode": mode}, (4, 5), gradient=False)
      for mode in ("one_hot", "multi_hot", "count")],
]
