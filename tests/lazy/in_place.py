"""In-place operations, and views that they are seen through."""

import torch

from row import Row, bools, fixed, integers, normal, positive


def of_clone(function):
    """The function changes its first argument, a copy of the input."""
    def program(x, *others):
        y = x.clone()
        function(y, *others)
        return y
    return program


def both(function):
    def program(x, *others):
        y = x.clone()
        view = function(y, *others)
        return y, view
    return program


def transposed_slice(y, z):
    y.t()[1:3].mul_(z)
    return y


def chain(y):
    a = y.view(2, 6)
    b = a[:, 1:4]
    b.add_(1.0)
    c = b.select(1, 0)
    c.zero_()
    return a


def base_changes(y):
    view = y[0]
    y.mul_(2.0)
    return view * 1


def accumulate(x, y):
    total = torch.zeros(3)
    for i in range(3):
        total[i] = (x[i] * y).sum()
    return total * total


def clip_norm(x, y):
    x, y = x.detach().clone().requires_grad_(), y.detach().clone().requires_grad_()
    ((x * x).sum() + (y ** 3).sum()).backward()
    total = torch.nn.utils.clip_grad_norm_([x, y], 0.7)
    return total, x.grad, y.grad


def clip_value(x):
    x = x.detach().clone().requires_grad_()
    (x * x).sum().backward()
    torch.nn.utils.clip_grad_value_([x], 0.5)
    return x.grad


def running_mean(x):
    mean = torch.zeros(4)
    with torch.no_grad():
        for i in range(3):
            mean.mul_(0.9).add_(x[i], alpha=0.1)
    return mean


def index_writes(x, z):
    y, at = x.clone(), torch.arange(2)
    y.index_fill_(0, at, 0.5)
    y.index_copy_(1, at, z[:, :2])
    y.masked_scatter_(z > 0, z)
    return y


ROWS = {
    "add_ and mul_": Row([normal(3), normal(3)], of_clone(lambda y, z: y.add_(z, alpha=2).mul_(z))),
    "sub_ and div_": Row([normal(3), positive(3)], of_clone(lambda y, z: y.sub_(z, alpha=0.5).div_(z))),
    "copy_": Row([normal(2, 3), normal(3)], of_clone(lambda y, z: y.copy_(z))),
    "fill_ of a part": Row([normal(2, 3)], of_clone(lambda y: y[:, 1].fill_(7))),
    "zero_": Row([normal(2, 3)], of_clone(lambda y: y[0].zero_())),
    "clamp_": Row([normal(6)], of_clone(lambda y: y.clamp_(-0.5, 0.5))),
    "clamp_min_ and clamp_max_": Row([normal(6)], of_clone(lambda y: y.clamp_min_(-0.5).clamp_max_(0.5))),
    "addcmul_": Row([normal(3), normal(3), normal(3)], of_clone(lambda y, a, b: y.addcmul_(a, b, value=0.5))),
    "addcdiv_": Row([normal(3), normal(3), positive(3)], of_clone(lambda y, a, b: y.addcdiv_(a, b, value=0.5))),
    "lerp_": Row([normal(3), normal(3)], of_clone(lambda y, a: y.lerp_(a, 0.25))),
    "pow_": Row([positive(3)], of_clone(lambda y: y.pow_(2))),
    "masked_fill_": Row([normal(2, 3), bools(2, 3)], of_clone(lambda y, m: y.masked_fill_(m, 0.5))),
    "scatter_add_": Row([normal(2, 3), integers(0, 2, 2, 3), normal(2, 3)], of_clone(lambda y, i, s: y.scatter_add_(0, i, s))),
    "index_add_": Row([normal(3, 2), fixed([0, 2]), normal(2, 2)], of_clone(lambda y, i, s: y.index_add_(0, i, s))),
    "index_put_": Row([normal(3, 4), normal(2)], of_clone(lambda y, v: y.__setitem__((slice(0, 2), 1), v))),
    "index_put_ of a number": Row([normal(3, 4)], of_clone(lambda y: y.__setitem__((Ellipsis, slice(1, 4, 2)), 9.0))),
    "unary in place": Row([positive(6)], of_clone(lambda y: y.sqrt_().neg_().exp_().tanh_().log_().abs_().sigmoid_().rsqrt_().relu_()),
                          grad=False),
    "view transposed and sliced": Row([normal(3, 4), normal(2, 3)], of_clone(transposed_slice)),
    "view of a view": Row([normal(3, 4)], both(chain)),
    "view seen after its base changes": Row([normal(3, 4)], both(base_changes)),
    "view with a step": Row([normal(7)], of_clone(lambda y: y[1::2].mul_(10.0))),
    "view by permute": Row([normal(2, 3, 4)], of_clone(lambda y: y.permute(2, 0, 1)[1].add_(1.0))),
    "view by unsqueeze and flatten": Row([normal(2, 3)], of_clone(lambda y: y.unsqueeze(0).flatten(1)[:, 2:4].mul_(3.0))),
    "view by split": Row([normal(6)], of_clone(lambda y: [p.mul_(float(i)) for i, p in enumerate(y.split(2))]), grad=False),
    "view written in a loop": Row([normal(3, 4), normal(4)], accumulate),
    "running mean": Row([normal(3, 4)], running_mean, grad=False),
    "clip_grad_norm_": Row([normal(3), normal(4)], clip_norm, grad=False),
    "clip_grad_value_": Row([normal(5)], clip_value, grad=False),
    "index_fill_": Row([normal(3, 4), normal(3, 4)], index_writes),
}
