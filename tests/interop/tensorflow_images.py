"""Processes JPEGs with TensorFlow: decodes, crops, resizes, flips, and normalizes them.

Usage: tensorflow_images.py FOLDER    writes FOLDER/*.jpg, and FOLDER/cases: a line for each case,
                                      FILE Y X HEIGHT WIDTH OUT_HEIGHT OUT_WIDTH FILTER ANTIALIAS FLIP
                                      and the result of line i as floats of FOLDER/i.f32 (unnormalized,
                                      0..255), FOLDER/i.normalized.f32 and FOLDER/i.normalized.bf16
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

MEAN = tf.constant([0.485, 0.456, 0.406])
STD = tf.constant([0.229, 0.224, 0.225])
BOXES = [(0, 0, 331, 331), (17, 40, 250, 201), (100, 3, 64, 90), (5, 200, 300, 111)]
SIZES = [(192, 192), (64, 50), (331, 200)]


def picture():
    y, x = np.mgrid[0:331, 0:331].astype(np.float64)
    waves = [127 + 80 * np.sin(x / (7 + 3 * c)) * np.cos(y / (11 - 2 * c)) for c in range(3)]
    noise = np.random.default_rng(0).integers(-25, 25, (331, 331, 1))
    return np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)


def main(folder):
    for name, chroma in (("fine", False), ("coarse", True)):
        jpeg = tf.io.encode_jpeg(picture(), quality=90, chroma_downsampling=chroma).numpy()
        with open(os.path.join(folder, name + ".jpg"), "wb") as f:
            f.write(jpeg)
    lines = []
    for name in ("fine", "coarse"):
        jpeg = tf.io.read_file(os.path.join(folder, name + ".jpg"))
        whole = tf.io.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE")
        for box in BOXES:
            y, x, height, width = box
            cropped = whole[y:y + height, x:x + width]
            for size in SIZES:
                for method, antialias in (("area", 0), ("bilinear", 0), ("bilinear", 1), ("bicubic", 1)):
                    flip = len(lines) % 2
                    out = tf.image.resize(cropped, size, method, antialias=bool(antialias))
                    # Bicubic interpolation overshoots; values are clipped to the range of bytes.
                    out = tf.clip_by_value(out, 0, 255)
                    if flip:
                        out = tf.image.flip_left_right(out)
                    normalized = (out / 255 - MEAN) / STD
                    stem = os.path.join(folder, str(len(lines)))
                    out.numpy().tofile(stem + ".f32")
                    normalized.numpy().tofile(stem + ".normalized.f32")
                    tf.cast(normalized, tf.bfloat16).numpy().tofile(stem + ".normalized.bf16")
                    lines.append(" ".join(map(str, (name + ".jpg", *box, *size, method, antialias, flip))))
    with open(os.path.join(folder, "cases"), "w") as f:
        f.write("\n".join(lines) + "\n")


main(sys.argv[1])
