from layer_row import IMAGE, layer, mixed

ROWS = [
    *[layer("Resizing", {"height": height, "width": width, "interpolation": interpolation}, IMAGE)
      for interpolation in ("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5")
      for height, width in ((16, 21), (5, 3), (8, 10))],
    *[layer("Resizing", {"height": 3, "width": 4, "interpolation": interpolation, "antialias": True}, IMAGE)
      for interpolation in ("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5")],
    layer("Resizing", {"height": 20, "width": 3, "antialias": True}, IMAGE, why="larger and smaller"),
    *[layer("Resizing", {"height": height, "width": width, "crop_to_aspect_ratio": True}, IMAGE)
      for height, width in ((4, 4), (3, 6), (12, 2))],
    *[layer("Resizing", {"height": height, "width": width, "pad_to_aspect_ratio": True, "fill_value": 0.5}, IMAGE)
      for height, width in ((4, 8), (12, 4), (8, 7))],
    layer("Resizing", {"height": 5, "width": 10, "pad_to_aspect_ratio": True, "interpolation": "nearest"}, IMAGE),
    # Factors of 1/2 and 2 have exact weights, so that both sides round the same ties.
    *[layer("Resizing", {"height": 4, "width": 14, "interpolation": interpolation}, IMAGE, dtype="uint8",
            gradient=False)
      for interpolation in ("nearest", "bilinear", "bicubic")],
    layer("Resizing", {"height": 4, "width": 5}, (1, 1, 1, 2), why="of one pixel"),
    mixed("Resizing", {"height": 5, "width": 9}, IMAGE),

    layer("CenterCrop", {"height": 4, "width": 5}, IMAGE),
    layer("CenterCrop", {"height": 5, "width": 4}, IMAGE, why="odd borders"),
    layer("CenterCrop", {"height": 8, "width": 7}, IMAGE, why="the whole image"),
    layer("CenterCrop", {"height": 12, "width": 5}, IMAGE, why="taller than the image"),
    layer("CenterCrop", {"height": 10, "width": 10}, IMAGE),
    layer("CenterCrop", {"height": 4, "width": 5}, IMAGE, dtype="uint8", gradient=False),
    mixed("CenterCrop", {"height": 4, "width": 5}, IMAGE),
]
