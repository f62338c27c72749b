"""Rows of optimizers, schedules, regularizers and constraints."""

BFLOAT16 = 1 / 64  # as in table.py

# ---- Schedules: (class, options), and the steps at which they are evaluated ----
PIECEWISE = ("PiecewiseConstantDecay", {"boundaries": [3, 10], "values": [0.1, 0.01, 0.001]})
COSINE = ("CosineDecay", {"initial_learning_rate": 0.4, "decay_steps": 20})
SCHEDULES = [
    PIECEWISE,
    ("PiecewiseConstantDecay", {"boundaries": [0], "values": [1.0, 0.5]}),
    COSINE,
    ("CosineDecay", {"initial_learning_rate": 0.4, "decay_steps": 20, "alpha": 0.1}),
    ("CosineDecay", {"initial_learning_rate": 0.0, "decay_steps": 20, "warmup_target": 0.3, "warmup_steps": 5}),
    ("CosineDecay",
     {"initial_learning_rate": 0.05, "decay_steps": 7, "alpha": 0.2, "warmup_target": 0.3, "warmup_steps": 11}),
    # In Keras, a target without steps is the initial rate of the decay; steps without a target are ignored.
    ("CosineDecay", {"initial_learning_rate": 0.05, "decay_steps": 12, "warmup_target": 0.3}),
    ("CosineDecay", {"initial_learning_rate": 0.05, "decay_steps": 12, "warmup_steps": 5}),
    ("CosineDecayRestarts", {"initial_learning_rate": 0.4, "first_decay_steps": 4}),
    ("CosineDecayRestarts", {"initial_learning_rate": 0.4, "first_decay_steps": 5, "t_mul": 1.0, "m_mul": 0.5}),
    ("CosineDecayRestarts",
     {"initial_learning_rate": 0.1, "first_decay_steps": 3, "t_mul": 1.5, "m_mul": 0.8, "alpha": 0.1}),
    ("ExponentialDecay", {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.96}),
    ("ExponentialDecay", {"initial_learning_rate": 0.1, "decay_steps": 7, "decay_rate": 0.5, "staircase": True}),
    ("InverseTimeDecay", {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5}),
    ("InverseTimeDecay", {"initial_learning_rate": 0.1, "decay_steps": 4, "decay_rate": 2.0, "staircase": True}),
    ("PolynomialDecay", {"initial_learning_rate": 0.1, "decay_steps": 20}),
    ("PolynomialDecay", {"initial_learning_rate": 0.1, "decay_steps": 16, "end_learning_rate": 0.01, "power": 0.5}),
    ("PolynomialDecay", {"initial_learning_rate": 0.1, "decay_steps": 6, "power": 2.0, "cycle": True}),
    # The end exceeds the beginning: an increasing rate.
    ("PolynomialDecay", {"initial_learning_rate": 0.0, "decay_steps": 9, "end_learning_rate": 0.3}),
]
SCHEDULE_STEPS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 17, 18, 19, 20, 21, 24, 25, 26, 100, 1000000]
# Not in Keras: WarmUp before a constant and before cosine decay is compared with the warm-up of Keras's cosine decay.
WARM_UPS = [
    {"config": {"steps": 5, "start": 0.0}, "then": ("CosineDecay", {"initial_learning_rate": 0.3, "decay_steps": 20}),
     "keras": ("CosineDecay", {"initial_learning_rate": 0.0, "decay_steps": 20, "warmup_target": 0.3,
                               "warmup_steps": 5})},
    {"config": {"steps": 4, "start": 0.25},
     "then": ("CosineDecay", {"initial_learning_rate": 0.2, "decay_steps": 10, "alpha": 0.5}),
     "keras": ("CosineDecay", {"initial_learning_rate": 0.05, "decay_steps": 10, "alpha": 0.5, "warmup_target": 0.2,
                               "warmup_steps": 4})},
]
# Not in Keras: compared with the formula of PyTorch's OneCycleLR.
ONE_CYCLES = [
    {"max_learning_rate": 0.5, "total_steps": 25},
    {"max_learning_rate": 0.5, "total_steps": 20, "pct_start": 0.45, "anneal_strategy": "linear", "div_factor": 10.0,
     "final_div_factor": 100.0},
    {"max_learning_rate": 1.0, "total_steps": 24, "three_phase": True},
    {"max_learning_rate": 1.0, "total_steps": 21, "pct_start": 0.25, "anneal_strategy": "linear",
     "three_phase": True},
]

# ---- Optimizers: (class, options, overrides of the defaults below); ten steps with given gradients ----
#   gradients  "dense", the fifth all zero; "sparse", most rows zero, as of an embedding; "infinite", some of them
#   dtype      of the variables
#   constraint of the first variable, as Keras writes it
#   exclude    names of variables that do not decay


def scheduled(schedule):
    return {"class_name": schedule[0], "config": schedule[1]}


def optimizer(class_name, options=None, **more):
    return {"class": class_name, "config": options or {}, **more}


# What all optimizers have in common is checked with some of them; each formula is checked by itself.
MAX_NORM = {"class_name": "MaxNorm", "config": {"max_value": 1.5, "axis": 0}}
COMMON = [
    ({"weight_decay": 0.1}, {}),
    ({"weight_decay": 0.1}, {"exclude": ["bias"]}),
    ({"clipnorm": 0.5}, {}),
    ({"clipvalue": 0.02}, {}),
    ({"global_clipnorm": 0.3}, {}),
    ({"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 3}, {}),
    ({"gradient_accumulation_steps": 3}, {}),
    ({"loss_scale_factor": 128.0}, {}),
    ({}, {"constraint": MAX_NORM, "tolerance": 1e-4}),  # the scalar crosses zero under Adam
    ({"weight_decay": 0.05, "global_clipnorm": 0.3, "use_ema": True, "ema_momentum": 0.9,
      "ema_overwrite_frequency": 2, "gradient_accumulation_steps": 2, "loss_scale_factor": 8.0},
     {"constraint": MAX_NORM, "exclude": ["bias", "scale"]}),
]
OPTIMIZERS = [
    optimizer("SGD"),
    optimizer("SGD", {"learning_rate": 0.1, "momentum": 0.9}),
    optimizer("SGD", {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True}),
    optimizer("SGD", {"learning_rate": 0.5, "momentum": 1.0}),
    optimizer("SGD", {"learning_rate": scheduled(COSINE), "momentum": 0.5, "nesterov": True}),
    optimizer("SGD", {"learning_rate": scheduled(PIECEWISE)}),
    optimizer("SGD", {"learning_rate": 0.1, "momentum": 0.9}, gradients="sparse"),
    optimizer("SGD", {"learning_rate": 0.1}, dtype="bfloat16"),
    optimizer("SGD", {"learning_rate": 0.05, "momentum": 0.9, "global_clipnorm": 1.0}, dtype="bfloat16"),

    optimizer("Adam"),
    optimizer("Adam", {"learning_rate": 0.1, "beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}),
    optimizer("Adam", {"learning_rate": 0.01, "amsgrad": True}),
    optimizer("Adam", {"learning_rate": 0.1, "beta_1": 0.0}),
    optimizer("Adam", {"learning_rate": scheduled(COSINE)}),
    optimizer("Adam", {"learning_rate": 0.1}, gradients="sparse"),
    # The scalar crosses zero: the remainder is rounding error of larger values.
    optimizer("Adam", {"learning_rate": 0.1, "clipnorm": 1.0}, gradients="sparse", tolerance=1e-4),
    # Schedules count steps, bias correction counts updates.
    optimizer("Adam", {"learning_rate": scheduled(PIECEWISE), "gradient_accumulation_steps": 4}),

    optimizer("AdamW"),
    optimizer("AdamW", {"learning_rate": 0.05, "weight_decay": 0.2}, exclude=["bias"]),
    optimizer("AdamW", {"learning_rate": scheduled(COSINE), "weight_decay": 0.2, "amsgrad": True}),
    optimizer("AdamW", {"learning_rate": 0.05, "use_ema": True}),
    optimizer("Adamax"),
    optimizer("Adamax", {"learning_rate": 0.1, "beta_1": 0.5, "beta_2": 0.8, "epsilon": 1e-3}),
    optimizer("Adamax", {"learning_rate": scheduled(COSINE)}, gradients="sparse"),
    optimizer("Nadam"),
    optimizer("Nadam", {"learning_rate": 0.1, "beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}),
    optimizer("Nadam", {"learning_rate": scheduled(COSINE), "weight_decay": 0.01}),
    # The product of momenta does not change during gradient accumulation.
    optimizer("Nadam", {"learning_rate": 0.1, "gradient_accumulation_steps": 2}),
    optimizer("Lamb"),
    optimizer("Lamb", {"learning_rate": 0.1, "beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}),
    optimizer("Lamb", {"learning_rate": 0.02, "weight_decay": 0.1}),
    optimizer("Lamb", {"learning_rate": 0.05}, gradients="sparse"),
    # Five iterations of matrix products.
    optimizer("Muon", tolerance=1e-4),
    optimizer("Muon", {"learning_rate": 0.1, "momentum": 0.5, "nesterov": False, "ns_steps": 2,
                       "adam_lr_ratio": 0.5}, tolerance=1e-4),
    optimizer("Muon", {"learning_rate": scheduled(COSINE), "weight_decay": 0.1, "adam_weight_decay": 0.2, "ns_steps": 1},
              exclude=["bias"], tolerance=1e-4),
    optimizer("Muon", {"learning_rate": 0.05, "exclude_layers": ["kernel"], "adam_beta_2": 0.9}),

    optimizer("RMSprop"),
    optimizer("RMSprop", {"learning_rate": 0.1, "rho": 0.5, "epsilon": 1e-3}),
    optimizer("RMSprop", {"learning_rate": 0.01, "momentum": 0.9}),
    # The variance is a difference of similar values in the first steps.
    optimizer("RMSprop", {"learning_rate": 0.01, "centered": True, "epsilon": 1e-3}, tolerance=1e-4),
    optimizer("RMSprop", {"learning_rate": 0.01, "centered": True, "momentum": 0.5, "epsilon": 0.1}),
    optimizer("RMSprop", {"learning_rate": scheduled(PIECEWISE), "clipvalue": 0.5}),
    optimizer("Adagrad"),
    optimizer("Adagrad", {"learning_rate": 0.5, "initial_accumulator_value": 0.0, "epsilon": 1e-3}),
    optimizer("Adagrad", {"learning_rate": 0.5}, gradients="sparse"),
    optimizer("Adagrad", {"learning_rate": 0.5, "gradient_accumulation_steps": 5}),
    optimizer("Adadelta"),
    optimizer("Adadelta", {"learning_rate": 1.0}),
    optimizer("Adadelta", {"learning_rate": 0.5, "rho": 0.5, "epsilon": 1e-2, "weight_decay": 0.05}),
    optimizer("Adafactor"),
    optimizer("Adafactor", {"learning_rate": 0.3, "relative_step": False}),
    optimizer("Adafactor", {"learning_rate": 0.5, "beta_2_decay": -0.5, "epsilon_2": 0.1, "clip_threshold": 0.5}),
    optimizer("Adafactor", {"learning_rate": scheduled(COSINE), "weight_decay": 0.1}),
    optimizer("Adafactor", {"learning_rate": 0.1, "gradient_accumulation_steps": 2}),
    optimizer("Ftrl"),
    optimizer("Ftrl", {"learning_rate": 0.5, "l1_regularization_strength": 0.05,
                       "l2_regularization_strength": 0.01}),
    optimizer("Ftrl", {"learning_rate": 0.5, "l2_shrinkage_regularization_strength": 0.1, "beta": 0.2}),
    optimizer("Ftrl", {"learning_rate": 0.2, "learning_rate_power": -0.3, "initial_accumulator_value": 0.5}),
    optimizer("Ftrl", {"learning_rate": 0.5}, gradients="sparse"),
    optimizer("Lion"),
    optimizer("Lion", {"learning_rate": 0.1, "beta_1": 0.5, "beta_2": 0.6}),
    optimizer("Lion", {"learning_rate": scheduled(COSINE), "weight_decay": 0.1}),
    optimizer("Lion", {"learning_rate": 0.01}, gradients="sparse"),
    # Not in Keras: compared with the paper's formula.
    optimizer("LARS", {"learning_rate": 0.5, "eeta": 0.1}, reference="lars"),
    optimizer("LARS", {"learning_rate": 0.5, "momentum": 0.0, "eeta": 0.1, "weight_decay_rate": 0.1},
              reference="lars"),
    optimizer("LARS", {"learning_rate": 0.5, "momentum": 0.5, "nesterov": True, "eeta": 0.05, "epsilon": 0.01,
                       "weight_decay_rate": 0.1, "exclude_from_layer_adaptation": ["bias", "scale"]},
              exclude=["bias", "scale"], reference="lars"),

    *[optimizer(name, {"learning_rate": 0.1, **own, **options}, **more)
      for name, own in (("SGD", {"momentum": 0.9}), ("Adam", {"epsilon": 1e-3}))
      for options, more in COMMON],
    *[optimizer("LossScaleOptimizer", {"inner_optimizer": {"class_name": name, "config": config}, **options},
                gradients=gradients)
      for gradients in ("dense", "infinite")
      for name, config, options in (
          ("SGD", {"learning_rate": 0.1, "momentum": 0.9}, {"initial_scale": 16.0, "dynamic_growth_steps": 2}),
          ("Adam", {"learning_rate": scheduled(PIECEWISE), "use_ema": True, "gradient_accumulation_steps": 2}, {}))],
]

# ---- Regularizers and constraints: (class, options, shape) ----
REGULARIZERS = [
    ("L1", {}, (3, 4)),
    ("L1", {"l1": 0.5}, (2, 3, 4)),
    ("L2", {}, (3, 4)),
    ("L2", {"l2": 0.5}, ()),
    ("L1L2", {}, (3, 4)),
    ("L1L2", {"l1": 0.1, "l2": 0.3}, (3, 3, 2, 5)),
    ("L1L2", {"l2": 0.3}, (7,)),
    ("OrthogonalRegularizer", {}, (3, 4)),
    ("OrthogonalRegularizer", {"factor": 2.0, "mode": "columns"}, (3, 4)),
    ("OrthogonalRegularizer", {"factor": 2.0, "mode": "rows"}, (5, 2)),
]
CONSTRAINTS = [
    ("MaxNorm", {}, (3, 4)),
    ("MaxNorm", {"max_value": 0.5}, (3, 4)),
    ("MaxNorm", {"max_value": 1.0, "axis": [0, 1, 2]}, (3, 3, 2, 5)),
    ("MaxNorm", {"max_value": 1.5, "axis": -1}, (3, 4)),
    ("NonNeg", {}, (3, 4)),
    ("UnitNorm", {}, (3, 4)),
    ("UnitNorm", {"axis": 1}, (3, 4, 2)),
    ("UnitNorm", {"axis": [0, 1]}, (3, 4, 2)),
    ("MinMaxNorm", {}, (3, 4)),
    ("MinMaxNorm", {"min_value": 0.5, "max_value": 1.5, "rate": 0.3, "axis": 1}, (3, 4)),
    ("MinMaxNorm", {"min_value": 3.0, "max_value": 5.0, "axis": [0, 1, 2]}, (3, 3, 2, 5)),
]
