"""Products."""

import torch
import torch.nn.functional as F

from row import Row, normal

ROWS = {
    "matmul": Row([normal(3, 4), normal(4, 5)], torch.matmul),
    "matmul of vectors": Row([normal(4), normal(4)], torch.matmul),
    "matmul of a vector and a matrix": Row([normal(4), normal(4, 5)], torch.matmul),
    "matmul of a matrix and a vector": Row([normal(3, 4), normal(4)], torch.matmul),
    "matmul of a batch and a matrix": Row([normal(2, 3, 4), normal(4, 5)], torch.matmul),
    "matmul of a matrix and a batch": Row([normal(3, 4), normal(2, 4, 5)], torch.matmul),
    "matmul of broadcast batches": Row([normal(2, 1, 3, 4), normal(5, 4, 2)], torch.matmul),
    "matmul of a batch and a vector": Row([normal(2, 3, 4), normal(4)], torch.matmul),
    "matmul of bfloat16": Row([normal(3, 4, dtype=torch.bfloat16), normal(4, 5, dtype=torch.bfloat16)], torch.matmul),
    "mm": Row([normal(3, 4), normal(4, 5)], torch.mm),
    "bmm": Row([normal(2, 3, 4), normal(2, 4, 5)], torch.bmm),
    "mv": Row([normal(3, 4), normal(4)], torch.mv),
    "dot": Row([normal(4), normal(4)], torch.dot),
    "outer": Row([normal(3), normal(4)], torch.outer),
    "addmm": Row([normal(5), normal(3, 4), normal(4, 5)], torch.addmm),
    "addmm with factors": Row([normal(3, 5), normal(3, 4), normal(4, 5)],
                              lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=2)),
    "baddbmm": Row([normal(2, 3, 5), normal(2, 3, 4), normal(2, 4, 5)],
                   lambda x, a, b: torch.baddbmm(x, a, b, beta=0.5, alpha=2)),
    "einsum": Row([normal(2, 3, 4), normal(2, 4, 5)], lambda a, b: torch.einsum("bij,bjk->bik", a, b)),
    "einsum outer": Row([normal(3), normal(4)], lambda a, b: torch.einsum("i,j->ij", a, b)),
    "einsum implicit": Row([normal(3, 4), normal(4, 5)], lambda a, b: torch.einsum("ik,kj", a, b)),
    "einsum transposed": Row([normal(2, 3, 4)], lambda a: torch.einsum("...ij->...ji", a)),
    "einsum of attention": Row([normal(2, 3, 4, 5), normal(2, 6, 4, 5)],
                               lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k)),
    "einsum sum": Row([normal(3, 4)], lambda a: torch.einsum("ij->j", a)),
    "einsum of three": Row([normal(3, 4), normal(4, 5), normal(5, 2)],
                           lambda a, b, c: torch.einsum("ab,bc,cd->ad", a, b, c)),
    "einsum elementwise": Row([normal(3, 4), normal(3, 4)], lambda a, b: torch.einsum("ij,ij->i", a, b)),
    "linear": Row([normal(3, 4), normal(5, 4), normal(5)], F.linear),
    "linear of three dims": Row([normal(2, 3, 4), normal(5, 4)], F.linear),
    "linear of a vector": Row([normal(4), normal(5, 4), normal(5)], F.linear),
    "bilinear": Row([normal(3, 4), normal(3, 5), normal(2, 4, 5), normal(2)], F.bilinear),
}
