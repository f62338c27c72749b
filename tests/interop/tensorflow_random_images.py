"""Writes random PNGs and the pixels that TensorFlow decodes from them and from given JPEGs.

Usage: tensorflow_random_images.py FOLDER SEED PNGS

It writes FOLDER/N.png for N below PNGS, and FOLDER/N.png.how: how it was made, and what is wrong with it. For each of
these and each *.jpg in FOLDER it writes FILE.1 and FILE.3: "HEIGHT WIDTH CHANNELS\\n" and the bytes that TensorFlow
decodes to 1 and 3 channels; nothing if it rejects the file.
"""

import glob
import os
import random
import struct
import sys
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tensorflow as tf

# Color type: samples per pixel, bit depths (PNG specification, 11.2.2).
COLORS = {0: (1, (1, 2, 4, 8, 16)), 2: (3, (8, 16)), 3: (1, (1, 2, 4, 8)), 4: (2, (8, 16)), 6: (4, (8, 16))}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind, body, bad_checksum=False):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body) ^ bad_checksum)


def paeth(a, b, c):
    da, db, dc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    return a if da <= db and da <= dc else b if db <= dc else c


def filtered(rng, rows, step):
    """The rows, each with a random filter (PNG specification, 9)."""
    out, before = b"", bytes(len(rows[0]))
    for row in rows:
        kind = rng.randint(0, 4)
        line = bytearray()
        for k, x in enumerate(row):
            a, b, c = (row[k - step] if k >= step else 0), before[k], (before[k - step] if k >= step else 0)
            line.append((x - (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) & 255)
        out += bytes([kind]) + line
        before = row
    return out


def png(rng):
    color = rng.choice(list(COLORS))
    samples, depths = COLORS[color]
    depth = rng.choice(depths)
    width, height = rng.choice([(1, 1), (1, rng.randint(1, 20)), (rng.randint(1, 20), 1),
                                (rng.randint(1, 40), rng.randint(1, 40)), (rng.randint(1, 8), rng.randint(1, 8))])
    interlaced = rng.random() < 0.4
    palette = rng.randint(1, 1 << depth) if color == 3 else 0
    how, wrong = [f"{width}x{height}", f"color {color}", f"depth {depth}"] + ["interlaced"] * interlaced, []

    def row(pixels):
        bits = "".join(format(rng.randrange(palette or 1 << depth), f"0{depth}b") for _ in range(pixels * samples))
        bits += "0" * (-len(bits) % 8)
        return bytes(int(bits[k:k + 8], 2) for k in range(0, len(bits), 8))

    step = max(1, samples * depth // 8)
    raw = b""
    for x, y, dx, dy in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        columns, lines = (width - x + dx - 1) // dx, (height - y + dy - 1) // dy
        if columns > 0 and lines > 0:
            raw += filtered(rng, [row(columns) for _ in range(lines)], step)

    def chance(share, what):
        happens = rng.random() < share
        if happens:
            wrong.append(what)
        return happens

    if chance(0.03, "a byte too many"):
        raw += b"x"
    elif chance(0.03, "a byte missing"):
        raw = raw[:-1]
    data = zlib.compress(raw, rng.choice([0, 1, 6, 9]))
    if chance(0.03, "bad adler"):
        data = data[:-1] + bytes([data[-1] ^ 1])
    elif chance(0.03, "cut stream"):
        data = data[:-rng.randint(1, 6)]
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced))
    if color == 3:
        out += chunk(b"PLTE", rng.randbytes(3 * palette))
        if rng.random() < 0.3:
            out += chunk(b"tRNS", rng.randbytes(rng.randint(1, palette)))
    elif color in (0, 2) and rng.random() < 0.3:
        out += chunk(b"tRNS", struct.pack(">H", rng.randrange(1 << depth)) * (1 if color == 0 else 3))
    if rng.random() < 0.1:
        out += chunk(b"tEXt", b"key\0value")
    pieces = [data]
    if rng.random() < 0.3:
        pieces = []
        while data:
            size = rng.choice([0, 1, 2, 5, 100])
            pieces.append(data[:size])
            data = data[size:]
        how.append(f"{len(pieces)} pieces")
    for piece in pieces:
        out += chunk(b"IDAT", piece, chance(0.02 / len(pieces), "bad checksum"))
    if not chance(0.02, "no end"):
        out += chunk(b"IEND", b"")
    return out, ", ".join(how) + ": " + (", ".join(wrong) or "whole")


def decode(path):
    with open(path, "rb") as f:
        data = f.read()
    for channels in (1, 3):
        try:
            if path.endswith(".png"):
                pixels = tf.io.decode_png(data, channels=channels).numpy()
            else:
                pixels = tf.io.decode_jpeg(data, channels=channels, dct_method="INTEGER_ACCURATE").numpy()
        except tf.errors.InvalidArgumentError:
            continue
        with open(f"{path}.{channels}", "wb") as f:
            f.write("{} {} {}\n".format(*pixels.shape).encode() + pixels.tobytes())


def main(folder, seed, pngs):
    rng = random.Random(int(seed))
    for i in range(int(pngs)):
        data, how = png(rng)
        with open(f"{folder}/{i}.png", "wb") as f:
            f.write(data)
        with open(f"{folder}/{i}.png.how", "w") as f:
            f.write(how)
    for path in glob.glob(f"{folder}/*.png") + glob.glob(f"{folder}/*.jpg"):
        decode(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
