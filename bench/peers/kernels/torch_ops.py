"""PyTorch's peer of bench_kernels: the same workloads, channels last, with --threads threads.

    torch_ops.py [--threads 2] [--rounds 15] [--only TEXT]

Prints a row for each workload with the median and the minimum time.
"""
import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional


def forward_and_backward(forward, shape, dtype, parameters=()):
    x = torch.rand(shape).to(dtype).to(memory_format=torch.channels_last).requires_grad_()
    cotangent = torch.rand_like(forward(x))

    def run():
        for leaf in (x, *parameters):
            leaf.grad = None
        forward(x).backward(cotangent)

    return run


def depthwise(size, channels, stride, dtype):
    layer = nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False)
    layer = layer.to(dtype).to(memory_format=torch.channels_last)
    return forward_and_backward(layer, (16, channels, size, size), dtype, list(layer.parameters()))


def max_pool(size, channels, dtype):
    return forward_and_backward(lambda x: functional.max_pool2d(x, 3, 2, 1), (16, channels, size, size), dtype)


class Block(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.inner = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.inner_norm = nn.BatchNorm2d(filters)
        self.outer = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.outer_norm = nn.BatchNorm2d(filters)
        self.shortcut = nn.Identity()
        if stride > 1:
            self.shortcut = nn.Conv2d(channels, filters, 1, stride, bias=False)

    def forward(self, x):
        inner = functional.relu(self.inner_norm(self.inner(x)))
        return functional.relu(self.outer_norm(self.outer(inner)) + self.shortcut(x))


def resnet20_step(dtype, batch=128):
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    channels = 16
    for filters in (16, 32, 64):
        for block in range(3):
            layers.append(Block(channels, filters, 2 if filters > 16 and block == 0 else 1))
            channels = filters
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    net = net.to(memory_format=torch.channels_last)
    x = torch.rand(batch, 3, 32, 32).to(memory_format=torch.channels_last)
    y = torch.zeros(batch, dtype=torch.long)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, 0.9)

    def run():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            scores = net(x)
        functional.cross_entropy(scores.float(), y).backward()
        optimizer.step()

    return run


def works():
    for dtype, name in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16")):
        for size, channels, stride in ((112, 32, 1), (112, 64, 2), (56, 128, 1), (56, 128, 2), (28, 256, 1),
                                       (28, 256, 2), (14, 512, 1), (14, 512, 2), (7, 512, 1)):
            half = " /2" if stride > 1 else ""
            yield (f"{name} depthwise {size}x{size}x{channels}{half} forward and backward, batch 16",
                   lambda: depthwise(size, channels, stride, dtype))
        yield f"{name} max pool 112x112x64 forward and backward, batch 16", lambda: max_pool(112, 64, dtype)
        yield f"{name} ResNet-20 training step", lambda: resnet20_step(dtype)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, make in works():
        if options.only not in name:
            continue
        run, seconds = make(), []
        for _ in range(2):
            run()
        for _ in range(options.rounds):
            begin = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - begin)
        print(f"{name:<56} {1e3 * statistics.median(seconds):8.2f} ms {1e3 * min(seconds):8.2f} ms minimum", flush=True)


if __name__ == "__main__":
    main()
