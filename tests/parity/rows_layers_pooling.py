from layer_row import IMAGE, SEQUENCE, VOLUME, layer, mixed

ROWS = [
    *[layer(kind + "Pooling1D", options, SEQUENCE, why=why)
      for kind in ("Max", "Average")
      for options, why in (
          ({"pool_size": 2}, ""),
          ({"pool_size": 3, "strides": 2, "padding": "same"}, "overlap"),
          ({"pool_size": 4, "strides": 3, "padding": "same"}, "even window"),
          ({"pool_size": 3, "strides": 1}, ""),
          ({"pool_size": 9}, "the whole sequence"))],
    *[layer(kind + "Pooling2D", options, IMAGE, why=why)
      for kind in ("Max", "Average")
      for options, why in (
          ({"pool_size": 2}, ""),
          ({"pool_size": 3, "strides": 2, "padding": "same"}, "overlap"),
          ({"pool_size": [2, 3], "padding": "same"}, "padding that is not counted"),
          ({"pool_size": 3, "strides": 1, "padding": "valid"}, ""),
          ({"pool_size": 2, "strides": [3, 1]}, "pixels that no window reads"),
          ({"pool_size": 4, "strides": 3, "padding": "same"}, "even window"),
          ({"pool_size": [8, 7]}, "the whole image"))],
    *[layer(kind + "Pooling3D", options, VOLUME, why=why)
      for kind in ("Max", "Average")
      for options, why in (
          ({"pool_size": 2}, ""),
          ({"pool_size": [2, 3, 1], "strides": [1, 2, 3], "padding": "same"}, ""),
          ({"pool_size": 3, "strides": 2, "padding": "same"}, "overlap"))],
    mixed("MaxPooling2D", {"pool_size": 3, "strides": 2, "padding": "same"}, IMAGE),
    mixed("AveragePooling2D", {"pool_size": 3, "strides": 2, "padding": "same"}, IMAGE),
    mixed("AveragePooling1D", {"pool_size": 3, "strides": 2, "padding": "same"}, SEQUENCE),
    mixed("MaxPooling3D", {"pool_size": 2}, VOLUME),

    *[layer(f"Global{kind}Pooling{axes}D", options, shape)
      for axes, shape in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME))
      for kind in ("Max", "Average")
      for options in ({}, {"keepdims": True})],
    mixed("GlobalAveragePooling2D", {}, (2, 32, 32, 3)),
    mixed("GlobalMaxPooling1D", {}, SEQUENCE),

    *[layer(f"Adaptive{kind}Pooling1D", {"output_size": size}, SEQUENCE)
      for kind in ("Max", "Average") for size in (1, 3, 4, 7, 9)],
    *[layer(f"Adaptive{kind}Pooling2D", {"output_size": size}, IMAGE)
      for kind in ("Max", "Average") for size in (1, [3, 6], [5, 2], [4, 3])],
    # As many windows as pixels: for 7 of 7, Keras 3.15 returns NaN, because it computes indices in float32.
    *[layer(f"Adaptive{kind}Pooling3D", {"output_size": size}, VOLUME)
      for kind in ("Max", "Average") for size in (2, [5, 4, 1])],
    layer("AdaptiveAveragePooling1D", {"output_size": 5}, (2, 3, 1), why="more windows than steps"),
    mixed("AdaptiveAveragePooling2D", {"output_size": [3, 3]}, IMAGE),
]
