"""Makes the files of this folder: small images of every kind, and what they decode and resize to.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tensorflow-cpu==2.21.0 pillow==13.0.0
    /tmp/venv/bin/python make_testdata.py

X.png / X.jpg    the image
X.rgb, X.gray    its pixels as TensorFlow decodes them with channels=3 or 1 (Pillow agrees where it
                 has the same rule); raw bytes, row by row
rgb.luma         rgb.png turned gray by Pillow
resize_*.u8      photo.png resized by tf.image.resize, rounded
"""

import io
import os
import struct
import zlib

import numpy as np
import tensorflow as tf
from PIL import Image, ImageOps

HEIGHT, WIDTH = 29, 37
here = os.path.dirname(os.path.abspath(__file__))


def save(name, data):
    with open(os.path.join(here, name), "wb") as f:
        f.write(data)


def photo(height=HEIGHT, width=WIDTH):
    """Something with gradients, an edge, and a little texture."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    r = 255 * x / width
    g = 255 * y / height
    b = 127 + 120 * np.sin(x / 3) * np.cos(y / 4)
    image = np.stack([r, g, b], -1)
    inside = (x - width * 0.6) ** 2 + (y - height * 0.4) ** 2 < (height / 4) ** 2
    image[inside] = 255 - image[inside]
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


# PNG, written here because Pillow interlaces nothing and knows few bit depths.


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_rows(samples, depth):
    """[H,W,C] samples as PNG rows, each with filter 0."""
    out = b""
    for row in samples:
        flat = row.reshape(-1)
        if depth == 16:
            data = flat.astype(">u2").tobytes()
        else:
            bits = np.unpackbits(flat.astype(np.uint8)[:, None], axis=1)[:, 8 - depth:]
            data = np.packbits(bits.reshape(-1)).tobytes()
        out += b"\0" + data
    return out


ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def png(samples, colour_type, depth, interlaced=False, extra=b""):
    height, width = samples.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, int(interlaced))
    if interlaced:
        raw = b"".join(
            pack_rows(samples[y0::dy, x0::dx], depth)
            for y0, x0, dy, dx in ADAM7
            if samples[y0::dy, x0::dx].size
        )
    else:
        raw = pack_rows(samples, depth)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra
            + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def save_png(name, samples, colour_type, depth, golden=("rgb",), **more):
    data = png(samples, colour_type, depth, **more)
    save(name + ".png", data)
    for kind in golden:
        pixels = tf.io.decode_png(data, channels={"rgb": 3, "gray": 1}[kind]).numpy()
        save(f"{name}.{kind}", pixels.tobytes())
    Image.open(io.BytesIO(data)).load()


def save_jpeg(name, data, golden=("rgb",), against=None):
    save(name + ".jpg", data)
    for kind in golden:
        pixels = tf.io.decode_jpeg(
            data, channels={"rgb": 3, "gray": 1}[kind], dct_method="INTEGER_ACCURATE").numpy()
        save(f"{name}.{kind}", pixels.tobytes())
        if against is not None:
            assert np.abs(pixels.astype(int) - np.asarray(against, int).reshape(pixels.shape)).max() <= 2


def jpeg(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


rgb = photo()
gray = rgb[..., :1] // 2 + rgb[..., 1:2] // 2
alpha = (np.mgrid[0:HEIGHT, 0:WIDTH].sum(0) * 3 % 256).astype(np.uint8)[..., None]
deep = rgb.astype(np.uint16) * 256 + rgb[::-1, ::-1]

for interlaced in (False, True):
    suffix = "_interlaced" if interlaced else ""
    save_png("rgb" + suffix, rgb, 2, 8, interlaced=interlaced)
    save_png("rgba" + suffix, np.concatenate([rgb, alpha], -1), 6, 8, interlaced=interlaced)
    save_png("gray" + suffix, gray, 0, 8, ("rgb", "gray"), interlaced=interlaced)
    save_png("gray_alpha" + suffix, np.concatenate([gray, alpha], -1), 4, 8, ("rgb", "gray"), interlaced=interlaced)
    save_png("gray1" + suffix, gray >> 7, 0, 1, ("rgb", "gray"), interlaced=interlaced)
    save_png("gray4" + suffix, gray >> 4, 0, 4, ("rgb", "gray"), interlaced=interlaced)
save_png("gray2", gray >> 6, 0, 2, ("rgb", "gray"))
save_png("rgb16", deep, 2, 16)
save_png("rgba16", np.concatenate([deep, deep[..., :1]], -1), 6, 16)
save_png("gray16", deep[..., :1], 0, 16, ("rgb", "gray"))
save_png("gray16_interlaced", deep[..., :1], 0, 16, ("rgb", "gray"), interlaced=True)
colours = np.array([[i * 17, 255 - i * 17, i * 40 % 256] for i in range(16)], np.uint8)
palette = chunk(b"PLTE", colours.tobytes())
clear = chunk(b"tRNS", bytes(range(0, 256, 16)))
save_png("palette4", gray >> 4, 3, 4, extra=palette)
save_png("palette4_interlaced", gray >> 4, 3, 4, extra=palette, interlaced=True)
save_png("palette8_transparent", gray >> 4, 3, 8, extra=palette + clear)
save_png("rgb_transparent", rgb, 2, 8, extra=chunk(b"tRNS", struct.pack(">HHH", *map(int, rgb[3, 5]))))
exif = Image.Exif()
exif[274] = 6
save_png("exif_turned", rgb, 2, 8, extra=chunk(b"eXIf", exif.tobytes()[6:]))
# Filters other than 0, which the writer above does not use.
out = io.BytesIO()
Image.fromarray(rgb).save(out, "PNG")
save("photo.png", out.getvalue())
assert (np.asarray(Image.open(io.BytesIO(out.getvalue()))) == rgb).all()
save("rgb.luma", np.asarray(Image.fromarray(rgb).convert("L")).tobytes())

image = Image.fromarray(rgb)
for name, options in {
    "baseline420": dict(quality=90, subsampling="4:2:0"),
    "baseline422": dict(quality=90, subsampling="4:2:2"),
    "baseline444": dict(quality=90, subsampling="4:4:4"),
    "progressive": dict(quality=85, progressive=True),
    "restart": dict(quality=90, restart_marker_blocks=2),
    "adobe_rgb": dict(quality=90, keep_rgb=True),
}.items():
    data = jpeg(image, **options)
    save_jpeg(name, data, ("rgb", "gray") if name != "adobe_rgb" else ("rgb",),
              None if name != "adobe_rgb" else np.asarray(Image.open(io.BytesIO(data))))
save_jpeg("gray_baseline", jpeg(Image.fromarray(gray[..., 0]), quality=90), ("rgb", "gray"))

ink = Image.fromarray(np.concatenate([255 - rgb, alpha // 2], -1), "CMYK")
cmyk = jpeg(ink, quality=95)
save_jpeg("cmyk_adobe", cmyk)
# The same samples called YCCK: byte 15 of the Adobe segment is the transform.
at = cmyk.index(b"\xff\xee")
assert cmyk[at + 4:at + 9] == b"Adobe" and cmyk[at + 15] == 0
save_jpeg("ycck_adobe", cmyk[:at + 15] + b"\x02" + cmyk[at + 16:])
length = struct.unpack(">H", cmyk[at + 2:at + 4])[0]
save_jpeg("cmyk_plain", cmyk[:at] + cmyk[at + 2 + length:])

# Eight cameras held eight ways: every file shows the same upright picture.
upright = Image.fromarray(photo(16, 24))
ways = {1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270}
for way, transpose in ways.items():
    exif = Image.Exif()
    if way % 2 == 0:
        exif.endian = "<"
    exif[271] = "Penstock"
    exif[274] = way
    stored = upright if transpose is None else upright.transpose(transpose)
    data = jpeg(stored, quality=95, subsampling="4:4:4", exif=exif)
    save(f"exif{way}.jpg", data)
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    assert turned.size == upright.size
    save(f"exif{way}.rgb", np.asarray(turned).tobytes())

data = png(rgb, 2, 8)
save("png_named.jpg", data)

for method in ("area", "bilinear", "bicubic"):
    for size in ((11, 13), (29, 64), (50, 20)):
        for antialias in (False, True):
            if method == "area" and antialias:
                continue
            resized = tf.image.resize(rgb, size, method=method, antialias=antialias).numpy()
            tail = "_antialias" if antialias else ""
            save(f"resize_{method}_{size[0]}x{size[1]}{tail}.u8",
                 np.clip(np.floor(resized + 0.5), 0, 255).astype(np.uint8).tobytes())
