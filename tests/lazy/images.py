"""Padding, resizing and rearranging of images."""

import torch
import torch.nn.functional as F

from row import Row, normal

X = normal(2, 3, 5, 4)
ROWS = {
    "pad": Row([X], lambda x: F.pad(x, (1, 2, 0, 1), value=0.5)),
    "pad that crops": Row([X], lambda x: F.pad(x, (-1, 1))),
    "pad reflect": Row([X], lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect")),
    "pad replicate": Row([X], lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate")),
    "pad circular": Row([X], lambda x: F.pad(x, (1, 2, 3, 0), mode="circular")),
    "pad of a sequence": Row([normal(2, 3, 5)], lambda x: F.pad(x, (2, 1), mode="reflect")),
    "interpolate": Row([X], lambda x: F.interpolate(x, scale_factor=2)),
    "interpolate to a size": Row([X], lambda x: F.interpolate(x, size=(7, 3))),
    "interpolate by a fraction": Row([X], lambda x: F.interpolate(x, scale_factor=(1.6, 0.7))),
    "interpolate bilinear": Row([X], lambda x: F.interpolate(x, size=(8, 9), mode="bilinear", align_corners=False)),
    "interpolate bilinear to less": Row([X], lambda x: F.interpolate(x, scale_factor=0.6, mode="bilinear", align_corners=False)),
    "interpolate bilinear aligned": Row([X], lambda x: F.interpolate(x, size=(9, 2), mode="bilinear", align_corners=True)),
    "interpolate linear": Row([normal(2, 3, 5)], lambda x: F.interpolate(x, size=8, mode="linear", align_corners=False)),
    "interpolate nearest of a sequence": Row([normal(2, 3, 5)], lambda x: F.interpolate(x, size=8)),
    "pixel_shuffle": Row([normal(2, 8, 3, 2)], lambda x: F.pixel_shuffle(x, 2)),
    "pixel_unshuffle": Row([normal(2, 2, 6, 4)], lambda x: F.pixel_unshuffle(x, 2)),
    "unfold": Row([X], lambda x: F.unfold(x, (2, 3))),
    "unfold with options": Row([X], lambda x: F.unfold(x, 2, dilation=(2, 1), padding=1, stride=2)),
}
