"""Indexing, gather, scatter."""

import torch
import torch.nn.functional as F

from row import Row, fixed, integers, normal

ROWS = {
    "index": Row([normal(4, 5, 6)], lambda x: x[1, 2:4, ..., -1]),
    "index with a new axis": Row([normal(4, 5)], lambda x: x[:, None, 1:5:2]),
    "index by a tensor": Row([normal(4, 5), fixed([0, -1, 2, 2])], lambda x, i: x[i]),
    "index by a matrix": Row([normal(4, 5), integers(0, 4, 2, 3)], lambda x, i: x[i]),
    "index by a tensor in a later dim": Row([normal(3, 4, 5), fixed([0, 3])], lambda x, i: x[:, i]),
    "index by two tensors": Row([normal(4, 5), fixed([0, 1, 3]), fixed([1, -1, 2])], lambda x, i, j: x[i, j]),
    "index by two tensors apart": Row([normal(4, 5, 3), fixed([0, 1]), fixed([1, 2])], lambda x, i, j: x[i, :, j]),
    "index by adjacent tensors": Row([normal(2, 4, 5, 3), fixed([0, 1]), fixed([1, 2])], lambda x, i, j: x[:, i, j]),
    "index_select": Row([normal(3, 5), fixed([4, 0, 0])], lambda x, i: torch.index_select(x, 1, i)),
    "gather": Row([normal(3, 5), integers(0, 5, 3, 2)], lambda x, i: torch.gather(x, 1, i)),
    "gather of a part": Row([normal(4, 5), integers(0, 4, 2, 3)], lambda x, i: torch.gather(x, 0, i)),
    "take_along_dim": Row([normal(3, 5), integers(0, 5, 3, 1)], lambda x, i: torch.take_along_dim(x, i, 1)),
    "scatter": Row([normal(3, 5), fixed([[0, 2], [1, 4], [3, 0]]), normal(3, 2)],
                   lambda x, i, s: torch.scatter(x, 1, i, s)),
    "scatter of a number": Row([normal(3, 5), fixed([[0], [1], [3]])], lambda x, i: torch.scatter(x, 1, i, 7.0)),
    "scatter_add": Row([normal(3, 5), integers(0, 3, 4, 5), normal(4, 5)], lambda x, i, s: torch.scatter_add(x, 0, i, s)),
    "index_add": Row([normal(3, 5), fixed([0, 2, 0]), normal(3, 3)],
                     lambda x, i, s: torch.index_add(x, 1, i, s, alpha=2)),
    "one_hot": Row([integers(0, 4, 2, 3)], lambda i: F.one_hot(i, 4)),
}
