"""New tensors."""

import torch

from row import Row, integers, normal

ROWS = {
    "zeros": Row([], lambda: torch.zeros(2, 3)),
    "ones": Row([], lambda: torch.ones(2, dtype=torch.int64)),
    "full": Row([], lambda: torch.full((2, 2), 1.5)),
    "full of an integer": Row([], lambda: torch.full((2,), 3)),
    "eye": Row([], lambda: torch.eye(3)),
    "eye of two sizes": Row([], lambda: torch.eye(2, 3)),
    "arange": Row([], lambda: torch.arange(5)),
    "arange of floats": Row([], lambda: torch.arange(1, 2.5, 0.5)),
    "arange backwards": Row([], lambda: torch.arange(5, 0, -2)),
    "arange of a type": Row([], lambda: torch.arange(3, dtype=torch.float32)),
    "linspace": Row([], lambda: torch.linspace(-1, 2, 7)),
    "zeros_like": Row([normal(2, 3)], torch.zeros_like),
    "ones_like": Row([integers(0, 3, 4)], torch.ones_like),
    "full_like": Row([normal(2, dtype=torch.bfloat16)], lambda x: torch.full_like(x, 2)),
    "tril_indices": Row([], lambda: torch.tril_indices(3, 4, 1)),
    "triu_indices": Row([], lambda: torch.triu_indices(4, 3, -1)),
    "new_zeros": Row([normal(2, dtype=torch.bfloat16)], lambda x: (x.new_zeros(2, 3), x.new_ones(2), x.new_full((2,), 1.5))),
}
