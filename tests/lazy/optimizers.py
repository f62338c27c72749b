"""Ten steps of optimizers with given gradients."""

import torch
from torch import optim

from row import generator

STEPS = 10
ROWS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "SGD nesterov": lambda p: optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True),
    "SGD dampening": lambda p: optim.SGD(p, lr=0.05, momentum=0.8, dampening=0.3),
    "SGD weight_decay": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "SGD maximize": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
    "SGD nesterov and decay": lambda p: optim.SGD(p, lr=0.1, momentum=0.5, weight_decay=0.1, nesterov=True),
    "SGD groups": lambda p: optim.SGD([{"params": p[:1], "lr": 0.3}, {"params": p[1:], "momentum": 0.5, "weight_decay": 0.1}], lr=0.1),
    "Adam": lambda p: optim.Adam(p),
    "Adam lr": lambda p: optim.Adam(p, lr=0.1),
    "Adam betas": lambda p: optim.Adam(p, lr=0.05, betas=(0.8, 0.9)),
    "Adam eps": lambda p: optim.Adam(p, lr=0.05, eps=0.1),
    "Adam weight_decay": lambda p: optim.Adam(p, lr=0.05, weight_decay=0.1),
    "Adam amsgrad": lambda p: optim.Adam(p, lr=0.05, amsgrad=True),
    "Adam maximize": lambda p: optim.Adam(p, lr=0.05, weight_decay=0.1, maximize=True),
    "Adam without first moment": lambda p: optim.Adam(p, lr=0.05, betas=(0.0, 0.99)),
    "Adam groups": lambda p: optim.Adam([{"params": p[:1], "lr": 0.1, "betas": (0.5, 0.9)}, {"params": p[1:]}], lr=0.01),
    "AdamW": lambda p: optim.AdamW(p),
    "AdamW lr": lambda p: optim.AdamW(p, lr=0.1),
    "AdamW weight_decay": lambda p: optim.AdamW(p, lr=0.05, weight_decay=0.3),
    "AdamW amsgrad": lambda p: optim.AdamW(p, lr=0.05, amsgrad=True, eps=1e-3),
    "AdamW maximize": lambda p: optim.AdamW(p, lr=0.05, maximize=True),
    "AdamW groups": lambda p: optim.AdamW([{"params": p[:1], "weight_decay": 0.0}, {"params": p[1:]}], lr=0.05),
    "Adamax": lambda p: optim.Adamax(p),
    "Adamax betas": lambda p: optim.Adamax(p, lr=0.1, betas=(0.7, 0.8)),
    "Adamax weight_decay": lambda p: optim.Adamax(p, lr=0.1, weight_decay=0.1, maximize=True),
    # foreach: PyTorch 1.13's other implementation multiplies mu_product by mu twice.
    "NAdam": lambda p: optim.NAdam(p, foreach=True),
    "NAdam options": lambda p: optim.NAdam(p, lr=0.05, betas=(0.8, 0.95), weight_decay=0.1, momentum_decay=0.01,
                                         foreach=True),
    "RAdam": lambda p: optim.RAdam(p),
    "RAdam options": lambda p: optim.RAdam(p, lr=0.05, betas=(0.8, 0.9), weight_decay=0.1),
    "Adagrad": lambda p: optim.Adagrad(p),
    "Adagrad lr_decay": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "Adagrad initial": lambda p: optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.5, eps=1e-3),
    "Adagrad weight_decay": lambda p: optim.Adagrad(p, lr=0.1, weight_decay=0.1, maximize=True),
    "Adadelta": lambda p: optim.Adadelta(p),
    "Adadelta options": lambda p: optim.Adadelta(p, lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1),
    "RMSprop": lambda p: optim.RMSprop(p),
    "RMSprop alpha": lambda p: optim.RMSprop(p, lr=0.05, alpha=0.9, eps=1e-4),
    "RMSprop momentum": lambda p: optim.RMSprop(p, lr=0.05, momentum=0.9),
    "RMSprop centered": lambda p: optim.RMSprop(p, lr=0.05, alpha=0.8, centered=True, eps=1e-2),
    "RMSprop all": lambda p: optim.RMSprop(p, lr=0.02, momentum=0.5, centered=True, weight_decay=0.1, eps=1e-2),
    "RMSprop maximize": lambda p: optim.RMSprop(p, lr=0.05, maximize=True),
}


def continued(initial, gradients, path):
    """Half of the steps, a file of torch.save, the other half."""
    params = [x.clone().requires_grad_() for x in initial]
    optimizer = optim.Adam(params, lr=0.05, weight_decay=0.1, amsgrad=True)
    out = {}
    for step, pair in enumerate(gradients):
        if step == STEPS // 2:
            torch.save(optimizer.state_dict(), path)
            out = {f"shared|half|{i}": p.detach().clone() for i, p in enumerate(params)}
        for p, g in zip(params, pair):
            p.grad = g.clone()
        optimizer.step()
    return out | {f"shared|continued|{i}": p.detach() for i, p in enumerate(params)}


def compute(folder):
    random = generator("optimizers")
    draw = lambda *shape: torch.tensor(random.standard_normal(shape)).float()
    initial = [draw(3, 2), draw(4)]
    gradients = [[draw(3, 2), draw(4)] for _ in range(STEPS)]
    out = {f"shared|input|{i}": x for i, x in enumerate(initial)}
    out |= {f"shared|gradient|{2 * s + i}": x for s, pair in enumerate(gradients) for i, x in enumerate(pair)}
    out |= continued(initial, gradients, f"{folder}/adam.pth")
    for name, make in ROWS.items():
        params = [x.clone().requires_grad_() for x in initial]
        optimizer = make(params)
        for pair in gradients:
            for p, g in zip(params, pair):
                p.grad = g.clone()
            optimizer.step()
        out |= {f"{name}|output|{i}": p.detach() for i, p in enumerate(params)}
    return out
