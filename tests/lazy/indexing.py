"""Indexing, gather, scatter."""

import math

import torch
import torch.nn.functional as F

from row import Row, bools, fixed, integers, normal

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
    "index_fill": Row([normal(3, 5), fixed([0, -1, 0])], lambda x, i: torch.index_fill(x, 1, i, -1.5)),
    "index_copy": Row([normal(3, 5), fixed([4, 0]), normal(3, 2)], lambda x, i, s: torch.index_copy(x, 1, i, s)),
    "masked_scatter": Row([normal(3, 4), bools(3, 4), normal(14)], torch.masked_scatter),
    "masked_scatter of a broadcast mask": Row([normal(3, 4), fixed([True, False, True, True]), normal(2, 6)], lambda x, m, s: x.masked_scatter(m, s)),
    "searchsorted": Row([fixed([[1.0, 3.0, 3.0, 7.0], [0.0, 2.0, 4.0, 9.0]]), fixed([[3.0, 8.0, 0.0], [2.0, -1.0, math.nan]])], torch.searchsorted, grad=False),
    "searchsorted right": Row([fixed([[1.0, 3.0, 3.0, 7.0], [0.0, 2.0, 4.0, 9.0]]), fixed([[3.0, 8.0, 0.0], [2.0, -1.0, math.nan]])], lambda s, v: torch.searchsorted(s, v, right=True), grad=False),
    "bucketize": Row([fixed([[3, 6], [9, 1]]), fixed([1, 3, 5, 7, 9])], torch.bucketize),
    "bucketize right": Row([normal(3, 4), fixed([-1.0, 0.0, 0.5])], lambda x, b: torch.bucketize(x, b, right=True), grad=False),
    "bincount": Row([integers(0, 6, 20)], lambda x: torch.bincount(x, minlength=6)),
    "bincount with weights": Row([integers(0, 6, 20), normal(20)], lambda x, w: torch.bincount(x, w, minlength=6), grad=False),
    "histc": Row([normal(40)], lambda x: torch.histc(x, 5, -1, 2), grad=False),
    "histc of all": Row([normal(6, 7)], lambda x: torch.histc(x, 7), grad=False),
}
