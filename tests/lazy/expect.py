"""Computes the rows of tests/lazy with PyTorch (Debian's python3-torch).

Usage: expect.py FOLDER    writes FOLDER/<family>.pt: tensors named "row|kind|index"; FOLDER/adam.pth: an optimizer's state

Fails where a function, module, optimizer or scheduler that the headers of penstock/lazy declare has no row.
"""

import pathlib
import re
import sys

import torch

import activations
import contractions
import creation
import elementwise
import images
import in_place
import indexing
import layers
import losses
import models
import modules
import optimizers
import reductions
import row
import schedulers
import sequences
import shapes

FAMILIES = {"elementwise": elementwise, "reductions": reductions, "shapes": shapes, "indexing": indexing,
            "contractions": contractions, "creation": creation, "in_place": in_place, "activations": activations,
            "layers": layers, "losses": losses, "images": images, "modules": modules, "sequences": sequences,
            "models": models}

# Declared names without a row, and why.
RANDOM = {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "gumbel_softmax",
          "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout"}
NOT_COMPARED = {
    "nonzero": "an error", "masked_select": "an error", "unique": "an error",
    "empty": "arbitrary values in PyTorch", "empty_like": "arbitrary values in PyTorch",
    "FunctionModule": "a base class", "LossModule": "a base class", "FunctionHolder": "a base class",
    "LossHolder": "a base class", "TripleLossModule": "a base class", "TripleLossHolder": "a base class", "AnyModule": "a part of Sequential",
    "LRScheduler": "a base class",
}
HEADERS = ["ops.h", "functional.h", "nn/modules.h", "nn/containers.h", "nn/recurrent.h", "nn/transformer.h", "nn/parameter_vector.h",
           "optim/optimizers.h", "optim/lr_scheduler.h", "optim/clip.h"]


def declared(text):
    text = re.sub(r"//.*", "", text)
    functions = re.findall(r"^(?:Tensors?|ValuesAndIndices|std::pair<Tensor, Tensor>|void) ([a-z]\w*)\(", text, re.M)
    macros = re.findall(r"^PENSTOCK_LAZY_(?:MODULE|FUNCTION|LOSS|TRIPLE_LOSS)\(\s*(\w+),", text, re.M)
    classes = [name for name in re.findall(r"^class (\w+)", text, re.M) if not name.endswith("Impl")]
    return set(functions + macros + classes) - {"Name", "Padding"}


def check_completeness(root, rows):
    known = {name.split()[0] for name in rows}
    names = set().union(*[declared((root / "penstock/lazy" / header).read_text()) for header in HEADERS])
    missing = sorted(names - known - RANDOM - set(NOT_COMPARED))
    stale = sorted((RANDOM | set(NOT_COMPARED)) - names)
    if missing or stale:
        sys.exit(f"tests/lazy: no row is about {missing}; the headers do not declare {stale} of expect.py")


def main(folder):
    torch.set_num_threads(1)
    names = list(optimizers.ROWS) + list(schedulers.ROWS)
    for family, module in FAMILIES.items():
        names += module.ROWS
        tensors = {}
        for name, one in module.ROWS.items():
            try:
                tensors.update(row.run(name, one))
            except Exception as error:
                sys.exit(f"tests/lazy/{family}.py: {name}: {error!r}")
        torch.save(tensors, f"{folder}/{family}.pt")
    torch.save(optimizers.compute(folder), f"{folder}/optimizers.pt")
    torch.save(schedulers.compute(), f"{folder}/schedulers.pt")
    check_completeness(pathlib.Path(__file__).resolve().parents[2], names)
    print(len(names), "rows")


if __name__ == "__main__":
    main(*sys.argv[1:])
