"""PyTorch's peer of `bench/run train`: resnet20, resnet50 or mobilenet_v2, in fp32, or in bf16 by autocast (PyTorch 1.13 has
no ReLU6 in bf16, so mobilenet_v2 is fp32 only).

    torch_peer.py --work resnet20 --batch 128 --side 32 [--bf16] [--device cuda]

Uses channels_last, one thread per core, gradients set to None, flushed denormals, and one batch in memory repeatedly.
"""
import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn

import rounds


class Normed(nn.Sequential):
    """Convolution, batch norm and an optional in-place activation."""

    def __init__(self, inputs, outputs, kernel, stride=1, groups=1, bias=False, activation=None):
        super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=bias),
                         nn.BatchNorm2d(outputs), *([activation(inplace=True)] if activation else []))


class Residual(nn.Module):
    """x + branch(x), followed by a ReLU if `activation`; the shortcut is a 1x1 convolution if the shapes differ."""

    def __init__(self, branch, shortcut=None, activation=True):
        super().__init__()
        self.branch, self.shortcut, self.activation = branch, shortcut, activation

    def forward(self, x):
        y = self.branch(x)
        y += x if self.shortcut is None else self.shortcut(x)
        return F.relu_(y) if self.activation else y


def head(channels, classes):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def resnet20(classes=10):
    layers, inputs = [Normed(3, 16, 3, activation=nn.ReLU)], 16
    for outputs, first_stride in ((16, 1), (32, 2), (64, 2)):
        for stride in (first_stride, 1, 1):
            branch = nn.Sequential(Normed(inputs, outputs, 3, stride, activation=nn.ReLU), Normed(outputs, outputs, 3))
            layers.append(Residual(branch, Normed(inputs, outputs, 1, stride) if inputs != outputs else None))
            inputs = outputs
    return nn.Sequential(*layers, *head(64, classes))


def resnet50(classes=1000):
    """ResNet-50 like that of keras.applications: with biases, and with the stride in a block's first convolution."""
    def normed(*sizes, activation=None):
        return Normed(*sizes, bias=True, activation=activation)

    layers, inputs = [normed(3, 64, 7, 2, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            branch = nn.Sequential(normed(inputs, width, 1, stride, activation=nn.ReLU),
                                   normed(width, width, 3, activation=nn.ReLU), normed(width, 4 * width, 1))
            layers.append(Residual(branch, normed(inputs, 4 * width, 1, stride) if block == 0 else None))
            inputs = 4 * width
    return nn.Sequential(*layers, *head(2048, classes))


def mobilenet_v2(classes=1000):
    layers, inputs = [Normed(3, 32, 3, 2, activation=nn.ReLU6)], 32
    for expansion, outputs, blocks, first_stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                                     (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            stride, hidden = first_stride if block == 0 else 1, expansion * inputs
            branch = nn.Sequential(*([Normed(inputs, hidden, 1, activation=nn.ReLU6)] if expansion > 1 else []),
                                   Normed(hidden, hidden, 3, stride, groups=hidden, activation=nn.ReLU6),
                                   Normed(hidden, outputs, 1))
            layers.append(Residual(branch, activation=False) if stride == 1 and inputs == outputs else branch)
            inputs = outputs
    return nn.Sequential(*layers, Normed(320, 1280, 1, activation=nn.ReLU6), *head(1280, classes))


NETS = {'resnet20': resnet20, 'resnet50': resnet50, 'mobilenet_v2': mobilenet_v2}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--work', choices=sorted(NETS), required=True)
    parser.add_argument('--batch', type=int, required=True)
    parser.add_argument('--side', type=int, required=True, help='height and width of the images')
    parser.add_argument('--bf16', action='store_true')
    parser.add_argument('--device', choices=['cpu', 'cuda'], default='cpu')
    parser.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True  # on a GPU: selects the fastest convolutions
    net = NETS[args.work]().to(args.device, memory_format=torch.channels_last)
    x = torch.rand(args.batch, 3, args.side, args.side).to(args.device).contiguous(memory_format=torch.channels_last)
    y = torch.arange(args.batch, device=args.device) % 10
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def train(steps):
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.bf16):
                logits = net(x)
            loss = F.cross_entropy(logits.float(), y)
            loss.backward()
            optimizer.step()
        loss.item()

    rounds.serve(train, args.batch)


if __name__ == '__main__':
    main()
