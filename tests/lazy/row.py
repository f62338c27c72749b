"""Rows of the comparison with PyTorch: inputs drawn by the row's name, and a function of them."""

import dataclasses
import zlib

import numpy as np
import torch


def normal(*shape, dtype=torch.float32, scale=1.0):
    return lambda random: torch.tensor(random.standard_normal(shape) * scale).to(dtype)


def positive(*shape, dtype=torch.float32, low=0.2, high=3.0):
    return lambda random: torch.tensor(random.uniform(low, high, shape)).to(dtype)


def within(low, high, *shape, dtype=torch.float32):
    return lambda random: torch.tensor(random.uniform(low, high, shape)).to(dtype)


def integers(low, high, *shape, dtype=torch.int64):
    return lambda random: torch.tensor(random.integers(low, high, shape)).to(dtype)


def bools(*shape):
    return lambda random: torch.tensor(random.integers(0, 2, shape) == 1)


def distinct(*shape, dtype=torch.float32):
    """Values without ties, for sorts and maxima."""
    def draw(random):
        count = int(np.prod(shape))
        return torch.tensor((random.permutation(count) - count / 2.0 + 0.25) / count).reshape(shape).to(dtype)
    return draw


def fixed(values, dtype=None):
    return lambda random: torch.tensor(values, dtype=dtype)


@dataclasses.dataclass
class Row:
    inputs: list  # functions of a generator
    function: object  # of the inputs, and of the module if there is one
    grad: bool = True
    tolerance: float = 1e-5
    module: object = None  # makes a torch.nn.Module, whose state_dict both sides have


def generator(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def draw_state(module, random):
    """Replaces all values of a module, so that nothing is at its initial zero or one."""
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if not value.is_floating_point():
                continue
            drawn = torch.tensor(random.standard_normal(tuple(value.shape)) * 0.3).to(value.dtype)
            if name.endswith("running_var"):
                drawn = drawn.abs() + 0.5
            elif value.ndim == 1 and name.endswith("weight"):
                drawn = drawn + 1
            value.copy_(drawn)


def run(name, row):
    """The arrays of a row by kind and index."""
    out = {}
    random = generator(name)
    inputs = [draw(random) for draw in row.inputs]
    arguments = [x.clone().requires_grad_(row.grad and x.is_floating_point()) for x in inputs]
    module = None
    if row.module is not None:
        torch.manual_seed(0)
        module = row.module()
        draw_state(module, random)
        for key, value in module.state_dict().items():
            out[f"state|{key}"] = value.clone()
    results = row.function(*arguments) if module is None else row.function(module, *arguments)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    for i, x in enumerate(inputs):
        out[f"input|{i}"] = x
    total = 0
    for i, result in enumerate(results):
        out[f"output|{i}"] = result.detach()
        if row.grad and result.requires_grad:
            cotangent = torch.tensor(random.standard_normal(tuple(result.shape))).to(result.dtype)
            out[f"cotangent|{i}"] = cotangent
            total = total + (result * cotangent).sum()
    if torch.is_tensor(total) and total.requires_grad:
        total.backward()
        for i, x in enumerate(arguments):
            if x.grad is not None:
                out[f"grad|{i}"] = x.grad
    if module is not None:
        for key, parameter in module.named_parameters():
            if parameter.grad is not None:
                out[f"param_grad|{key}"] = parameter.grad
        for key, value in module.named_buffers():
            out[f"buffer|{key}"] = value.clone()
    if row.tolerance != 1e-5:
        out["tolerance|0"] = torch.tensor(row.tolerance, dtype=torch.float64)
    return {f"{name}|{key}": value.contiguous().clone() for key, value in out.items()}
