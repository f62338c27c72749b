"""Activations of torch.nn.functional."""

import torch
import torch.nn.functional as F

from row import Row, fixed, normal

ENDS = fixed([-3.5, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 6.5, 25.0])
SMOOTH = ["selu", "celu", "elu", "gelu", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh", "softplus", "softsign",
          "logsigmoid", "tanhshrink", "softshrink", "hardshrink", "relu6", "leaky_relu"]
ROWS = {name: Row([normal(3, 4, scale=3)], getattr(F, name)) for name in SMOOTH}
# At the ends of pieces the derivative is a choice. hardswish of PyTorch differs between versions there.
ROWS |= {f"{name} at the ends": Row([ENDS], getattr(F, name))
         for name in ("elu", "selu", "hardsigmoid", "hardtanh", "softplus", "softshrink", "hardshrink", "relu6", "leaky_relu")}
ROWS |= {
    "gelu tanh": Row([normal(3, 4)], lambda x: F.gelu(x, approximate="tanh")),
    "gelu of large values": Row([fixed([-10.0, -5.0, 5.0, 10.0])], F.gelu),
    "leaky_relu with a slope": Row([normal(6)], lambda x: F.leaky_relu(x, 0.3)),
    "elu with alpha": Row([normal(6)], lambda x: F.elu(x, 0.5)),
    "celu with alpha": Row([normal(6)], lambda x: F.celu(x, 0.5)),
    "hardtanh with limits": Row([normal(6)], lambda x: F.hardtanh(x, -0.3, 0.6)),
    "softplus with beta": Row([normal(6, scale=3)], lambda x: F.softplus(x, 2.0, 1.5)),
    "softshrink with lambda": Row([normal(6)], lambda x: F.softshrink(x, 0.8)),
    "threshold": Row([normal(6)], lambda x: F.threshold(x, 0.1, -5.0)),
    "prelu": Row([normal(2, 3, 4), normal(3)], F.prelu),
    "prelu with one weight": Row([normal(2, 3), normal(1)], F.prelu),
    "glu": Row([normal(3, 4)], F.glu),
    "glu over a dim": Row([normal(4, 3)], lambda x: F.glu(x, 0)),
    "softmin": Row([normal(3, 4)], lambda x: F.softmin(x, 1)),
    "normalize": Row([normal(3, 4)], F.normalize),
    "normalize with p 1": Row([normal(3, 4)], lambda x: F.normalize(x, 1, 0)),
}
