"""Random layers, with ranges of a single value so that the result is deterministic. For their statistics see
penstock/nn/layers/layers_random_test.cc."""

from layer_row import IMAGE, layer

FILLS = ("reflect", "wrap", "nearest", "constant")

ROWS = [
    # Outside training, and for an image smaller than the window, Keras's documentation specifies smart_resize, but
    # Keras 3.15 returns the image unchanged or stretches it. Penstock follows the documentation.
    *[layer("RandomCrop", {"height": height, "width": width}, IMAGE, training=False, gradient=False,
            reference="smart_resize")
      for height, width in ((4, 5), (5, 2), (12, 9), (3, 12))],
    *[layer("RandomCrop", {"height": height, "width": width}, IMAGE, training=True, gradient=False,
            reference="smart_resize")
      for height, width in ((12, 9), (4, 9))],
    layer("RandomCrop", {"height": 8, "width": 7}, IMAGE, gradient=False, why="the whole image"),

    *[layer("RandomTranslation",
            {"height_factor": [y, y], "width_factor": [x, x], "fill_mode": fill, "interpolation": interpolation,
             "fill_value": 0.5}, IMAGE, training=True, gradient=False)
      for fill in FILLS
      for interpolation in ("bilinear", "nearest")
      for y, x in ((0.25, -0.4), (-0.9, 0.1))],
    layer("RandomTranslation", {"height_factor": 0.3, "width_factor": 0.3}, IMAGE, training=False, gradient=False),

    *[layer("RandomZoom",
            {"height_factor": [y, y], "width_factor": [x, x], "fill_mode": fill, "interpolation": interpolation,
             "fill_value": 0.5}, IMAGE, training=True, gradient=False)
      for fill in FILLS
      for interpolation, y, x in (("bilinear", 0.33, -0.4), ("nearest", -0.47, 0.73))],
    layer("RandomZoom", {"height_factor": [0.4, 0.4]}, IMAGE, training=True, gradient=False),
    layer("RandomZoom", {"height_factor": 0.3, "width_factor": 0.3}, IMAGE, training=False, gradient=False),

    *[layer("RandomRotation",
            {"factor": [by, by], "fill_mode": fill, "interpolation": interpolation, "fill_value": 0.5}, IMAGE,
            training=True, gradient=False)
      for fill in FILLS
      for interpolation, by in (("bilinear", 0.1), ("bilinear", -0.37), ("nearest", 0.21))],
    layer("RandomRotation", {"factor": 0.3}, IMAGE, training=False, gradient=False),

    *[layer("RandomBrightness", {"factor": [by, by], **options}, IMAGE, training=True, gradient=False)
      for by, options in ((0.002, {"value_range": [-1.0, 1.0]}), (-0.3, {"value_range": [-1.0, 1.0]}),
                          (0.004, {}), (-0.001, {}))],
    layer("RandomBrightness", {"factor": 0.3}, IMAGE, training=False, gradient=False),
    layer("RandomContrast", {"factor": [0.0, 0.0], "value_range": [-1.0, 1.0]}, IMAGE, training=True, gradient=False,
          why="no change but the range"),
    layer("RandomContrast", {"factor": 0.3}, IMAGE, training=False, gradient=False),
    *[layer("RandomFlip", {"mode": mode}, IMAGE, training=False, gradient=False)
      for mode in ("horizontal", "vertical", "horizontal_and_vertical")],
    *[layer("RandomFlip", {"mode": mode}, (3, *size, 2), training=True, gradient=False, why="nothing to flip")
      for mode, size in (("horizontal", (4, 1)), ("vertical", (1, 4)))],
]
