"""Modules, with PyTorch's weights."""

import torch
from torch import nn

from row import Row, distinct, fixed, integers, normal, positive, within

X, IMAGE = normal(4, 6), normal(2, 4, 6, 6)


def of(module, *inputs, **options):
    return Row(list(inputs), lambda m, *x: m(*x), module=module, **options)


def evaluated(module):
    return lambda: module().eval()


class RMSNorm(nn.Module):
    """torch.nn.RMSNorm, which this version of PyTorch lacks."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def vector_to_parameters(vec):
    made = [torch.zeros(2, 3), torch.zeros(4)]
    nn.utils.vector_to_parameters(vec, made)
    return made


def twice(m, x, y):
    """Running statistics of two batches, then inference."""
    a, b = m(x), m(y)
    m.eval()
    return a, b, m(x)


MODULES = {"ReLU": nn.ReLU, "ReLU6": nn.ReLU6, "LeakyReLU": nn.LeakyReLU, "ELU": nn.ELU, "SELU": nn.SELU, "CELU": nn.CELU,
           "GELU": nn.GELU, "SiLU": nn.SiLU, "Mish": nn.Mish, "Hardswish": nn.Hardswish, "Hardsigmoid": nn.Hardsigmoid,
           "Hardtanh": nn.Hardtanh, "Softplus": nn.Softplus, "Softsign": nn.Softsign, "LogSigmoid": nn.LogSigmoid,
           "Tanhshrink": nn.Tanhshrink, "Softshrink": nn.Softshrink, "Hardshrink": nn.Hardshrink, "Sigmoid": nn.Sigmoid,
           "Tanh": nn.Tanh, "GLU": nn.GLU, "Identity": nn.Identity, "Flatten": nn.Flatten}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.heads = nn.ModuleDict({"a": nn.Linear(6, 2), "b": nn.Linear(6, 3)})

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.heads["a"](x), self.heads["b"](x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(6, 4)
        self.decoder = nn.Linear(4, 6, bias=False)
        self.decoder.weight = self.embedding.weight

    def forward(self, i):
        return self.decoder(self.embedding(i))


ROWS = {name: of(module, X) for name, module in MODULES.items()} | {
    "GELU tanh": of(lambda: nn.GELU(approximate="tanh"), X),
    "Threshold": of(lambda: nn.Threshold(0.2, 3.0), X),
    "Softmax": of(lambda: nn.Softmax(1), X),
    "LogSoftmax": of(lambda: nn.LogSoftmax(0), X),
    "Softmin": of(lambda: nn.Softmin(1), X),
    "Unflatten": of(lambda: nn.Unflatten(1, (2, 3)), X),
    "PReLU": of(lambda: nn.PReLU(6), X),
    "Linear": of(lambda: nn.Linear(6, 3), X),
    "Linear without a bias": of(lambda: nn.Linear(6, 3, bias=False), normal(2, 4, 6)),
    "Embedding": of(lambda: nn.Embedding(7, 4, padding_idx=2), integers(0, 7, 3, 5)),
    "Conv1d": of(lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), normal(2, 4, 9)),
    "Conv2d": of(lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), IMAGE),
    "Conv2d in groups": of(lambda: nn.Conv2d(4, 8, (3, 1), padding="same", groups=4), IMAGE),
    "Conv2d reflect": of(lambda: nn.Conv2d(4, 3, 3, padding=(1, 2), padding_mode="reflect"), IMAGE),
    "Conv2d circular": of(lambda: nn.Conv2d(4, 3, 3, padding="same", padding_mode="circular"), IMAGE),
    "Conv3d": of(lambda: nn.Conv3d(2, 3, 2), normal(1, 2, 3, 4, 4)),
    "ConvTranspose1d": of(lambda: nn.ConvTranspose1d(4, 6, 3, stride=2), normal(2, 4, 5)),
    "ConvTranspose2d": of(lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), IMAGE),
    "BatchNorm1d": Row([normal(5, 3), normal(5, 3)], twice, module=lambda: nn.BatchNorm1d(3)),
    "BatchNorm1d of sequences": of(lambda: nn.BatchNorm1d(3, affine=False), normal(5, 3, 4)),
    "BatchNorm2d": Row([normal(3, 4, 5, 2), normal(3, 4, 5, 2)], twice, module=lambda: nn.BatchNorm2d(4, eps=1e-3, momentum=0.3)),
    "BatchNorm2d cumulative": Row([normal(3, 4, 5, 2), normal(3, 4, 5, 2)], twice,
                                  module=lambda: nn.BatchNorm2d(4, momentum=None)),
    "BatchNorm2d without statistics": Row([normal(3, 4, 5, 2), normal(3, 4, 5, 2)], twice,
                                          module=lambda: nn.BatchNorm2d(4, track_running_stats=False)),
    "BatchNorm3d": of(evaluated(lambda: nn.BatchNorm3d(2)), normal(1, 2, 3, 2, 2)),
    "LayerNorm": of(lambda: nn.LayerNorm(6), X),
    "LayerNorm over two dims": of(lambda: nn.LayerNorm((6, 6), eps=1e-3, elementwise_affine=False), IMAGE),
    "GroupNorm": of(lambda: nn.GroupNorm(2, 4), IMAGE),
    "InstanceNorm1d": of(lambda: nn.InstanceNorm1d(4), normal(2, 4, 6)),
    "InstanceNorm2d": of(lambda: nn.InstanceNorm2d(4, affine=True), IMAGE),
    "LocalResponseNorm": of(lambda: nn.LocalResponseNorm(2, alpha=0.1), IMAGE),
    "MaxPool1d": of(lambda: nn.MaxPool1d(2), distinct(2, 3, 8)),
    "MaxPool2d": of(lambda: nn.MaxPool2d(3, stride=2, padding=1), distinct(2, 3, 7, 7)),
    "AvgPool1d": of(lambda: nn.AvgPool1d(2), normal(2, 3, 8)),
    "AvgPool2d": of(lambda: nn.AvgPool2d((2, 3), padding=1, count_include_pad=False), IMAGE),
    "AdaptiveAvgPool1d": of(lambda: nn.AdaptiveAvgPool1d(3), normal(2, 3, 8)),
    "AdaptiveAvgPool2d": of(lambda: nn.AdaptiveAvgPool2d((1, 4)), IMAGE),
    "AdaptiveMaxPool1d": of(lambda: nn.AdaptiveMaxPool1d(3), distinct(2, 3, 8)),
    "AdaptiveMaxPool2d": of(lambda: nn.AdaptiveMaxPool2d(2), distinct(2, 3, 5, 5)),
    "ZeroPad2d": of(lambda: nn.ZeroPad2d((1, 0, 2, 1)), IMAGE),
    "ConstantPad2d": of(lambda: nn.ConstantPad2d(1, 3.5), IMAGE),
    "ReflectionPad2d": of(lambda: nn.ReflectionPad2d(2), IMAGE),
    "ReplicationPad2d": of(lambda: nn.ReplicationPad2d((1, 2, 0, 3)), IMAGE),
    "PixelShuffle": of(lambda: nn.PixelShuffle(2), IMAGE),
    "PixelUnshuffle": of(lambda: nn.PixelUnshuffle(3), IMAGE),
    "Upsample": of(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "Unfold": of(lambda: nn.Unfold(3, stride=2), IMAGE),
    "Sequential": of(lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.0), nn.Linear(8, 2)), X),
    "Sequential with names": of(lambda: nn.Sequential(__import__("collections").OrderedDict(
        [("hidden", nn.Linear(6, 8)), ("act", nn.GELU()), ("out", nn.Linear(8, 2))])), X),
    "ModuleList and ModuleDict": of(Block, X),
    "ModuleDict of heads": of(Block, X),
    "Embedding tied to a decoder": of(Tied, integers(0, 6, 2, 3)),
    "CrossEntropyLoss": of(lambda: nn.CrossEntropyLoss(label_smoothing=0.1, reduction="sum"), X, integers(0, 6, 4)),
    "NLLLoss": of(lambda: nn.NLLLoss(ignore_index=3), X, integers(0, 6, 4)),
    "MSELoss": of(nn.MSELoss, X, normal(4, 6)),
    "L1Loss": of(lambda: nn.L1Loss(reduction="none"), X, normal(4, 6)),
    "SmoothL1Loss": of(lambda: nn.SmoothL1Loss(beta=0.5), X, normal(4, 6)),
    "HuberLoss": of(lambda: nn.HuberLoss(delta=0.5), X, normal(4, 6)),
    "BCELoss": Row([within(0.1, 0.9, 4, 6), within(0, 1, 4, 6)], lambda m, x, y: m(x, y.detach()), module=nn.BCELoss),
    "BCEWithLogitsLoss": of(nn.BCEWithLogitsLoss, X, within(0, 1, 4, 6)),
    "KLDivLoss": of(lambda: nn.KLDivLoss(reduction="batchmean", log_target=True), X, normal(4, 6)),
    "SoftMarginLoss": Row([X, normal(4, 6)], lambda m, x, y: m(x, y.detach()), module=nn.SoftMarginLoss),
    "HingeEmbeddingLoss": Row([X, lambda random: torch.tensor([[1.0, -1, 1, -1, 1, -1]] * 4)],
                              lambda m, x, y: m(x, y.detach()), module=nn.HingeEmbeddingLoss),
    "CosineSimilarity": of(nn.CosineSimilarity, X, normal(4, 6)),
    "MaxPool3d": of(lambda: nn.MaxPool3d(2), distinct(1, 2, 4, 6, 5)),
    "AvgPool3d": of(lambda: nn.AvgPool3d(2), normal(1, 2, 4, 6, 5)),
    "AdaptiveAvgPool3d": of(lambda: nn.AdaptiveAvgPool3d(1), normal(1, 2, 4, 6, 5)),
    "ConstantPad1d": of(lambda: nn.ConstantPad1d(2, 3.5), normal(2, 3, 5)),
    "ReflectionPad1d": of(lambda: nn.ReflectionPad1d((1, 2)), normal(2, 3, 5)),
    "Fold": of(lambda: nn.Fold((4, 5), 2), normal(2, 8, 12)),
    "EmbeddingBag of bags": of(lambda: nn.EmbeddingBag(7, 4), integers(0, 7, 3, 5)),
    "ChannelShuffle": of(lambda: nn.ChannelShuffle(2), IMAGE, grad=False),
    "EmbeddingBag": of(lambda: nn.EmbeddingBag(7, 4, mode="sum", padding_idx=2), integers(0, 7, 8), fixed([0, 3, 3])),
    "Bilinear": of(lambda: nn.Bilinear(6, 5, 3), X, normal(4, 5)),
    "SyncBatchNorm": of(lambda: nn.BatchNorm2d(4), IMAGE),
    "RMSNorm": of(lambda: RMSNorm(6, 1e-3), X),
    "ParameterList": Row([X], lambda m, x: x @ m[0] + m[1], module=lambda: nn.ParameterList([torch.zeros(6, 3), torch.zeros(3)])),
    "PairwiseDistance": of(lambda: nn.PairwiseDistance(1), X, normal(4, 6)),
    "MultiMarginLoss": of(lambda: nn.MultiMarginLoss(p=2), X, integers(0, 6, 4)),
    "MultiLabelSoftMarginLoss": Row([X, within(0, 1, 4, 6)], lambda m, x, y: m(x, y.detach()), module=nn.MultiLabelSoftMarginLoss),
    "PoissonNLLLoss": Row([X, within(0, 5, 4, 6)], lambda m, x, y: m(x, y.detach()), module=nn.PoissonNLLLoss),
    "MarginRankingLoss": Row([normal(4), normal(4), lambda random: torch.tensor([1.0, -1, 1, -1])], lambda m, a, b, y: m(a, b, y.detach()), module=lambda: nn.MarginRankingLoss(0.3)),
    "CosineEmbeddingLoss": Row([X, normal(4, 6), lambda random: torch.tensor([1.0, -1, 1, -1])], lambda m, a, b, y: m(a, b, y.detach()), module=lambda: nn.CosineEmbeddingLoss(0.1)),
    "TripletMarginLoss": of(lambda: nn.TripletMarginLoss(2.0), X, normal(4, 6), normal(4, 6)),
    "GaussianNLLLoss": of(nn.GaussianNLLLoss, X, normal(4, 6), positive(4, 6)),
    "CTCLoss": Row([normal(9, 2, 5), integers(1, 5, 2, 3), fixed([9, 7]), fixed([3, 2])],
        lambda m, x, y, a, b: m(x.log_softmax(2), y, a, b), module=nn.CTCLoss, tolerance=2e-5),
    "parameters_to_vector": Row([normal(2, 3), normal(4)], lambda *x: nn.utils.parameters_to_vector(x)),
    "vector_to_parameters": Row([normal(10)], vector_to_parameters, grad=False),
}
