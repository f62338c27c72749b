"""Writes the 1,797 handwritten digits of scikit-learn as image files, in one folder per label.

Usage: write_images.py DIGITS.CSV.GZ FOLDER
Writes FOLDER/train/LABEL/NNNN.png and FOLDER/test/LABEL/NNNN.png; every fifth digit is held out for testing.
Uses only Python's standard library. The digits have 8x8 pixels and 17 gray levels (E. Alpaydin and C. Kaynak, Optical
Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998).
"""

import csv
import gzip
import pathlib
import struct
import sys
import zlib

SIDE = 8


def png(pixels):
    """Returns an 8-bit grayscale PNG (https://www.w3.org/TR/png) of SIDE x SIDE pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(pixels[y * SIDE : (y + 1) * SIDE]) for y in range(SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def main():
    source, target = sys.argv[1], pathlib.Path(sys.argv[2])
    with gzip.open(source, "rt") as file:
        for index, row in enumerate(csv.reader(file)):
            values = [int(float(v)) for v in row]
            label = values[-1]
            folder = target / ("test" if index % 5 == 4 else "train") / str(label)
            folder.mkdir(parents=True, exist_ok=True)
            shades = [min(255, v * 255 // 16) for v in values[:-1]]
            (folder / f"{index:04}.png").write_bytes(png(shades))


if __name__ == "__main__":
    main()
