"""Thirty rates of learning-rate schedulers, and the momentum that some change."""

import math
import warnings

import torch
from torch import optim
from torch.optim import lr_scheduler

EPOCHS = 30
METRICS = [math.sin(i) + (1.0 if i < 8 else 0.0) for i in range(EPOCHS)]


def plateau(**options):
    def make(optimizer):
        scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        return lambda epoch: scheduler.step(METRICS[epoch])
    return make


def of(make):
    def wrapped(optimizer):
        scheduler = make(optimizer)
        return lambda epoch: scheduler.step()
    return wrapped


def sequential(optimizer):
    return lr_scheduler.SequentialLR(optimizer, [lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5),
                                                 lr_scheduler.CosineAnnealingLR(optimizer, 20, 0.01)], [5])


def sequential_of_multiplicative(optimizer):
    return lr_scheduler.SequentialLR(optimizer, [lr_scheduler.ConstantLR(optimizer, 0.1, 100),
                                                 lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.9)], [3])


def sequential_of_three(optimizer):
    return lr_scheduler.SequentialLR(optimizer, [lr_scheduler.ConstantLR(optimizer, 0.5, 3),
                                                 lr_scheduler.ExponentialLR(optimizer, 0.8),
                                                 lr_scheduler.StepLR(optimizer, 4, 0.5)], [4, 12])


def resumed(make):
    """After 11 steps another optimizer and another scheduler go on."""
    def wrapped(optimizer):
        held = [make(optimizer)]
        def step(epoch):
            if epoch == 11:
                state, rates = held[0].state_dict(), [(g["lr"], g["momentum"]) for g in optimizer.param_groups]
                for group in optimizer.param_groups:
                    group["lr"] = 0.3
                    group.pop("initial_lr", None)
                held[0] = make(optimizer)
                held[0].load_state_dict(state)
                for group, (lr, momentum) in zip(optimizer.param_groups, rates):
                    group["lr"], group["momentum"] = lr, momentum
            if isinstance(held[0], lr_scheduler.ReduceLROnPlateau):
                held[0].step(METRICS[epoch])
            else:
                held[0].step()
        return step
    return wrapped


def two(optimizer):
    a, b = lr_scheduler.StepLR(optimizer, 5, 0.5), lr_scheduler.ExponentialLR(optimizer, 0.97)
    class Both:
        def step(self):
            a.step()
            b.step()
    return Both()


ROWS = {
    "StepLR": of(lambda o: lr_scheduler.StepLR(o, 7)),
    "StepLR gamma": of(lambda o: lr_scheduler.StepLR(o, 3, 0.5)),
    "MultiStepLR": of(lambda o: lr_scheduler.MultiStepLR(o, [4, 9, 9, 20], 0.3)),
    "ExponentialLR": of(lambda o: lr_scheduler.ExponentialLR(o, 0.9)),
    "ConstantLR": of(lambda o: lr_scheduler.ConstantLR(o)),
    "LinearLR": of(lambda o: lr_scheduler.LinearLR(o)),
    "LinearLR options": of(lambda o: lr_scheduler.LinearLR(o, 0.1, 0.7, 12)),
    "PolynomialLR": of(lambda o: lr_scheduler.PolynomialLR(o, 10, 2.0)),
    "LambdaLR": of(lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.95 ** epoch / (1 + epoch))),
    "CosineAnnealingLR": of(lambda o: lr_scheduler.CosineAnnealingLR(o, 30)),
    "CosineAnnealingLR repeated": of(lambda o: lr_scheduler.CosineAnnealingLR(o, 7, 0.005)),
    "CosineAnnealingWarmRestarts": of(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5)),
    "CosineAnnealingWarmRestarts longer": of(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4, 2, 0.001)),
    "OneCycleLR": of(lambda o: lr_scheduler.OneCycleLR(o, 0.8, total_steps=31)),
    "OneCycleLR to its last step": of(lambda o: lr_scheduler.OneCycleLR(o, 0.8, total_steps=30)),
    "OneCycleLR linear": of(lambda o: lr_scheduler.OneCycleLR(
        o, 0.8, epochs=8, steps_per_epoch=4, pct_start=0.4, anneal_strategy="linear", div_factor=10, final_div_factor=100)),
    "OneCycleLR of three phases": of(lambda o: lr_scheduler.OneCycleLR(o, 0.8, total_steps=40, three_phase=True)),
    "OneCycleLR without momentum": of(lambda o: lr_scheduler.OneCycleLR(o, 0.8, total_steps=35, cycle_momentum=False)),
    "ReduceLROnPlateau": plateau(patience=2),
    "ReduceLROnPlateau max": plateau(mode="max", factor=0.5, patience=1, cooldown=3, min_lr=0.01),
    "ReduceLROnPlateau abs": plateau(threshold=0.2, threshold_mode="abs", patience=0, factor=0.7),
    "SequentialLR": of(sequential),
    "SequentialLR of MultiplicativeLR": of(sequential_of_multiplicative),
    "SequentialLR of three": of(sequential_of_three),
    "StepLR and ExponentialLR": of(two),
    "StepLR resumed": resumed(lambda o: lr_scheduler.StepLR(o, 7)),
    "LambdaLR resumed": resumed(lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch))),
    "CosineAnnealingLR resumed": resumed(lambda o: lr_scheduler.CosineAnnealingLR(o, 7, 0.005)),
    "CosineAnnealingWarmRestarts resumed": resumed(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4, 2, 0.001)),
    "OneCycleLR resumed": resumed(lambda o: lr_scheduler.OneCycleLR(o, 0.8, total_steps=31)),
    "ReduceLROnPlateau resumed": resumed(lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=2, cooldown=1)),
    "SequentialLR resumed": resumed(sequential_of_three),
    "MultiStepLR unsorted": of(lambda o: lr_scheduler.MultiStepLR(o, [9, 4, 0, 100], 0.3)),
    "ConstantLR of no steps": of(lambda o: lr_scheduler.ConstantLR(o, 0.5, 0)),
    "CosineAnnealingWarmRestarts of one step": of(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 1)),
    "OneCycleLR that only warms up": of(lambda o: lr_scheduler.OneCycleLR(o, 0.8, total_steps=31, pct_start=1.0)),
    "OneCycleLR without warmup": of(lambda o: lr_scheduler.OneCycleLR(o, 0.8, total_steps=31, pct_start=0.0)),
    "ReduceLROnPlateau of NaN": lambda o: (lambda s: lambda epoch: s.step(float("nan")))(lr_scheduler.ReduceLROnPlateau(o, patience=3)),
    "MultiplicativeLR": of(lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.9 if epoch % 2 == 0 else 0.95)),
    "CyclicLR": of(lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=4)),
    "CyclicLR triangular2": of(lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 3, 5, "triangular2")),
    "CyclicLR exp_range": of(lambda o: lr_scheduler.CyclicLR(
        o, 0.01, 0.1, 4, mode="exp_range", gamma=0.95, cycle_momentum=False)),
    "ChainedScheduler": of(lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o, 0.1, 4), lr_scheduler.ExponentialLR(o, 0.9)])),
}


def compute():
    warnings.simplefilter("ignore")
    out = {}
    for name, make in ROWS.items():
        optimizer = optim.SGD([{"params": [torch.ones(1, requires_grad=True)]},
                               {"params": [torch.ones(1, requires_grad=True)], "lr": 0.02}], lr=0.5, momentum=0.9)
        step = make(optimizer)
        rates = []
        for epoch in range(EPOCHS):
            groups = optimizer.param_groups
            rates.append([g["lr"] for g in groups] + [g["momentum"] for g in groups])
            step(epoch)
        out[f"{name}|output|0"] = torch.tensor(rates, dtype=torch.float64)
    return out
