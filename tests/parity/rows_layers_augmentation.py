"""Random layers, with ranges of a single value so that the result is deterministic. For their statistics see
penstock/nn/layers/layers_random_test.cc."""

from layer_row import IMAGE, layer

RGB = (3, 6, 5, 3)
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

    *[layer("RandomErasing", {"factor": [1.0, 1.0], "scale": [1.0, 1.0], "value_range": [-1.0, 1.0], "fill_value": fill},
            IMAGE, training=True, gradient=False, why="the whole image")
      for fill in (0.25, -3.0)],
    layer("RandomErasing", {"factor": [0.0, 0.0], "fill_value": 0.0}, IMAGE, training=True, gradient=False),
    layer("RandomErasing", {}, IMAGE, training=False, gradient=False),
    *[layer("RandomShear", {"x_factor": [0.0, 0.0], "y_factor": [0.0, 0.0], "fill_mode": fill}, IMAGE, training=True,
            gradient=False, why="the sign is random")
      for fill in FILLS],
    layer("RandomShear", {"x_factor": 0.3, "y_factor": 0.3}, IMAGE, training=False, gradient=False),

    # Keras limits the saturation to value_range, Penstock to [0, 1].
    *[layer("RandomSaturation", {"factor": [by, by], "value_range": [0.0, 1.0]}, RGB, training=True, gradient=False)
      for by in (0.0, 0.3, 0.5, 0.8)],
    layer("RandomSaturation", {"factor": 0.3}, RGB, training=False, gradient=False),
    # Half a turn is the same with either sign.
    *[layer("RandomHue", {"factor": [by, by], "value_range": range_}, RGB, training=True, gradient=False)
      for by in (0.0, 1.0) for range_ in ([-1.0, 1.0], [0.0, 1.0])],
    layer("RandomHue", {"factor": 0.3}, RGB, training=False, gradient=False),
    layer("RandomColorJitter", {"value_range": [-1.0, 1.0], "brightness_factor": [0.1, 0.1],
                                "contrast_factor": [0.0, 0.0], "saturation_factor": [0.4, 0.4],
                                "hue_factor": [1.0, 1.0]}, RGB, training=True, gradient=False),
    layer("RandomColorJitter", {"value_range": [0.0, 1.0], "brightness_factor": [-0.2, -0.2]}, IMAGE, training=True,
          gradient=False),
    layer("RandomColorJitter", {"hue_factor": 0.5}, RGB, training=False, gradient=False),
    *[layer("RandomGrayscale", {"factor": by}, RGB, training=True, gradient=False) for by in (0.0, 1.0)],
    layer("RandomGrayscale", {"factor": 1.0}, (3, 4, 5, 1), training=True, gradient=False, why="gray already"),
    layer("RandomGrayscale", {}, RGB, training=False, gradient=False),
    *[layer("RandomColorDegeneration", {"factor": [by, by], "value_range": [-1.0, 1.0]}, RGB, training=True,
            gradient=False)
      for by in (0.0, 0.4, 1.0)],
    layer("RandomColorDegeneration", {"factor": 0.4}, RGB, training=False, gradient=False),
    *[layer("RandomSharpness", {"factor": [by, by], "value_range": [-1.0, 1.0]}, IMAGE, training=True, gradient=False)
      for by in (0.0, 0.5, 0.9)],
    layer("RandomSharpness", {"factor": 0.4}, IMAGE, training=False, gradient=False),
    *[layer("RandomGaussianBlur", {"factor": [1.0, 1.0], "kernel_size": size, "sigma": [sigma, sigma],
                                   "value_range": [-1.0, 1.0]}, IMAGE, training=True, gradient=False)
      for size, sigma in ((3, 1.0), ([5, 1], 0.6), ([3, 7], 0.9))],
    layer("RandomGaussianBlur", {"factor": [0.0, 0.0], "value_range": [-1.0, 1.0]}, IMAGE, training=True,
          gradient=False),
    layer("RandomGaussianBlur", {}, IMAGE, training=False, gradient=False),
    *[layer("RandomInvert", {"factor": [by, by], "value_range": [-1.0, 1.0]}, IMAGE, training=True, gradient=False)
      for by in (0.0, 1.0)],
    layer("RandomInvert", {}, IMAGE, training=False, gradient=False),
    *[layer("RandomPosterization", {"factor": [bits, bits], "value_range": [-8.0, 8.0]}, IMAGE, training=True,
            gradient=False)
      for bits in (1, 3, 8)],
    layer("RandomPosterization", {"factor": 4}, IMAGE, training=False, gradient=False),
    *[layer("Solarization", {"addition_factor": [0.0, 0.0], "threshold_factor": [0.0, 0.0], "value_range": range_},
            IMAGE, training=True, gradient=False)
      for range_ in ([-1.0, 1.0], [-4.0, 4.0])],
    layer("Solarization", {"addition_factor": 0.3}, IMAGE, training=False, gradient=False),
    *[layer("AutoContrast", {"value_range": range_}, IMAGE, gradient=False)
      for range_ in ([-4.0, 4.0], [-1.0, 1.0], [0.0, 255.0])],

    *[layer("RandomFlip", {"mode": mode}, IMAGE, training=False, gradient=False)
      for mode in ("horizontal", "vertical", "horizontal_and_vertical")],
    *[layer("RandomFlip", {"mode": mode}, (3, *size, 2), training=True, gradient=False, why="nothing to flip")
      for mode, size in (("horizontal", (4, 1)), ("vertical", (1, 4)))],
]
