"""Random programs of views, in-place operations and gradients, and what PyTorch makes of them.

Usage: programs.py FOLDER SEED COUNT [LENGTH]    writes FOLDER/<seed>.json for each seed from SEED on

A program is a list of instructions. Numbers are small integers, so that every sum and product is exact: results are compared bit
for bit. A program in which a number becomes too large, or a division inexact, is cut there. Instructions that PyTorch rejects are
left out, except those that must be an error ("fails").
"""

import json
import random
import sys

import torch

DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
          "i32": torch.int32, "i16": torch.int16, "u8": torch.uint8, "bool": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
LIMIT = 2.0 ** 18

# Messages of PyTorch for mistakes that are mistakes here, too.
MISTAKES = ["can't be cast to", "a leaf Variable that requires grad", "out of range", "must match the size", "size mismatch",
            "must be broadcastable", "For integral input tensors", "Dimension out of range", "doesn't match the broadcast shape",
            "can only be implicitly created for scalar", "does not require grad", "shape mismatch",
            "Only Tensors of floating point", "only Tensors of floating point", "is invalid for input of size",
            "more than one element of the written-to tensor refers", "backward through the graph a second time"]


class Cut(Exception):
    """The program is over."""


class Machine:
    """Runs instructions with PyTorch."""

    def __init__(self):
        self.x = {}

    def arg(self, value):
        return self.x[value["t"]] if isinstance(value, dict) else value

    def run(self, i):
        with torch.set_grad_enabled(not i.get("no_grad", False)):
            results = getattr(self, "op_" + i["op"].rstrip("_") if hasattr(self, "op_" + i["op"].rstrip("_")) else "op_any")(i)
        for name, result in zip(i.get("out", []), results if isinstance(results, (tuple, list)) else [results]):
            self.x[name] = result

    def op_any(self, i):
        x = self.x[i["x"]]
        args = [self.arg(a) for a in i.get("args", [])]
        return getattr(x, i["op"])(*args, **i.get("kw", {}))

    def op_tensor(self, i):
        # A copy: a leaf that is a view of a hidden tensor loses gradients after an in-place operation.
        return torch.tensor(i["values"], dtype=DTYPES[i["dtype"]]).reshape(i["shape"]).clone().requires_grad_(i["grad"])

    def op_to(self, i):
        return self.x[i["x"]].to(DTYPES[i["dtype"]])

    def op_cat(self, i):
        return torch.cat([self.x[k] for k in i["xs"]], i["dim"])

    def op_stack(self, i):
        return torch.stack([self.x[k] for k in i["xs"]], i["dim"])

    def op_where(self, i):
        return torch.where(self.x[i["x"]], self.arg(i["args"][0]), self.arg(i["args"][1]))

    def op_alias(self, i):
        return self.x[i["x"]]

    def op_delete(self, i):
        del self.x[i["x"]]

    def op_get_grad(self, i):
        return self.x[i["x"]].grad

    def op_clear_grad(self, i):
        self.x[i["x"]].grad = None

    def op_backward(self, i):
        gradient = None if i["gradient"] is None else self.x[i["gradient"]]
        # A copy, which no gradient shares memory with.
        gradient = None if gradient is None else gradient.clone()
        self.x[i["x"]].backward(gradient, retain_graph=i["retain"])

    def op_gradients(self, i):
        made = torch.autograd.grad([self.x[k] for k in i["ys"]], [self.x[k] for k in i["xs"]],
                                   [self.x[k].clone() for k in i["gradients"]], retain_graph=i["retain"], create_graph=i["create"])
        # A copy: they may be the incoming gradients themselves.
        return [(x if i["create"] else x.detach()).clone() for x in made]

    def index(self, i):
        out = []
        for at in i["index"]:
            if at is None or isinstance(at, int):
                out.append(at)
            elif at == "...":
                out.append(Ellipsis)
            elif isinstance(at, dict):
                out.append(self.x[at["t"]])
            else:
                out.append(slice(*at))
        return tuple(out)

    def op_index(self, i):
        return self.x[i["x"]][self.index(i)]

    def op_index_put(self, i):
        self.x[i["x"]][self.index(i)] = self.arg(i["args"][0])


def check(x):
    if x.numel() == 0:
        return
    wide = x.detach().to(torch.float64)
    if not bool(torch.isfinite(wide).all()) or float(wide.abs().max()) > LIMIT:
        raise Cut("too large")
    if x.is_floating_point() and not bool((wide * 1024 == (wide * 1024).round()).all()):
        raise Cut("not exact")
    # Few digits, so that what is rounded later or earlier by a compiler is exact, too.
    if x.dtype in (torch.bfloat16, torch.float16) and not bool(((wide * 2 == (wide * 2).round()) & (wide.abs() <= 32)).all()):
        raise Cut("not exact in 16 bits")


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.seed = seed
        self.next = 0
        # Groups of instructions that single ones seldom make.
        self.groups = [[], [self.training_step, self.shared_memory], [self.double_backward, self.shared_memory],
                       [self.chain_of_views]][seed % 4]

    def pick(self, *choices):
        return self.r.choice(choices)

    def shape(self):
        return [self.r.choice([1, 2, 3, 2, 3, 4, 0 if self.r.random() < 0.3 else 2]) for _ in range(self.r.choice([0, 1, 1, 2, 2, 2, 3]))]

    def new(self, count=1):
        self.next += count
        return list(range(self.next - count, self.next))

    def tensor(self, shape=None, dtype=None, grad=None):
        shape = self.shape() if shape is None else shape
        dtype = dtype or self.pick("f64", "f64", "f32", "f32", "f32", "f32", "i64", "i32", "bool", "bool",
                                   *(["bf16", "f16", "i16", "u8"] if self.seed // 4 % 2 else []))
        count = 1
        for size in shape:
            count *= size
        low = 0 if dtype in ("bool", "u8") else -3
        values = [self.r.randint(low, 1 if dtype == "bool" else 3) for _ in range(count)]
        if grad is None:
            grad = self.r.random() < 0.5
        return {"op": "tensor", "out": self.new(), "dtype": dtype, "shape": shape, "values": values,
                "grad": grad and DTYPES[dtype].is_floating_point}

    def any(self, m, kind=None):
        keys = [k for k, x in m.x.items() if kind is None or kind(x)]
        return self.r.choice(keys) if keys else None

    def dim(self, x):
        return self.r.randint(-max(x.dim(), 1), max(x.dim(), 1) - 1)

    def operand(self, m, x):
        """A tensor that broadcasts with x, a number, or anything."""
        roll = self.r.random()
        if roll < 0.2:
            return self.r.randint(-2, 3)
        if roll < 0.25:
            return self.pick(0.5, 1.5, -0.5)
        fits = []
        for k, y in m.x.items():
            try:
                torch.broadcast_shapes(x.shape, y.shape)
                fits.append(k)
            except RuntimeError:
                pass
        return {"t": self.r.choice(fits)} if fits and roll < 0.97 else {"t": self.any(m)}

    def one_slice(self, size):
        return [self.pick(None, self.r.randint(-size - 1, size + 1)), self.pick(None, self.r.randint(-size - 1, size + 1)),
                self.pick(None, None, 1, 2, 3)]

    def indices(self, x):
        out = []
        for d in range(self.r.randint(0, x.dim())):
            out.append(self.pick(self.r.randint(-x.shape[d], x.shape[d] - 1) if x.shape[d] else [None, None, None],
                                 self.one_slice(x.shape[d]), self.one_slice(x.shape[d])))
        if self.r.random() < 0.2:
            out.append("...")
        if self.r.random() < 0.15:
            out.insert(self.r.randint(0, len(out)), None)
        return out or ["..."]

    def view(self, k, x):
        i = {"x": k, "out": self.new()}
        what = self.r.randint(0, 15)
        n = x.numel()
        if what == 0:
            shapes = [[n], [-1], [1, n], [n, 1]] + [[a, n // a] for a in (2, 3, 4) if n % a == 0]
            i.update(op="view", args=[self.r.choice(shapes)])
        elif what == 1:
            i.update(op="transpose", args=[self.dim(x), self.dim(x)])
        elif what == 2:
            order = list(range(x.dim()))
            self.r.shuffle(order)
            i.update(op="permute", args=[order])
        elif what == 3:
            i.update(op="t", args=[])
        elif what == 4:
            i.update(op="unsqueeze", args=[self.r.randint(-x.dim() - 1, x.dim())])
        elif what == 5:
            i.update(op="squeeze", args=[] if self.r.random() < 0.5 else [self.dim(x)])
        elif what == 6:
            sizes = [self.r.randint(0, 3) if size == 1 else self.pick(size, -1) for size in x.shape]
            i.update(op="expand", args=[self.pick([], [2], [3, 1]) + sizes])
        elif what == 7 and x.dim():
            d = self.r.randint(0, x.dim() - 1)
            start = self.r.randint(0, x.shape[d])
            i.update(op="narrow", args=[d, start, self.r.randint(0, x.shape[d] - start)])
        elif what == 8 and x.dim():
            d = self.dim(x)
            i.update(op="select", args=[d, self.r.randint(-x.shape[d] - (self.r.random() < 0.1), max(x.shape[d] - 1, 0))])
        elif what == 9:
            i.update(op="detach", args=[])
        elif what == 10 and x.dim() == 2:
            i.update(op="diagonal", args=[])
        elif what == 11 and x.dim():
            d = self.dim(x)
            parts = self.r.randint(1, 3)
            i.update(op="chunk", args=[parts, d], out=self.new(parts))
        elif what == 12:
            i.update(op="alias")
        elif what == 13:
            i.update(op="movedim", args=[self.dim(x), self.dim(x)])
        else:
            i.update(op="index", index=self.indices(x))
        return i if "op" in i else None

    def in_place(self, m, k, x):
        i = {"x": k}
        what = self.r.randint(0, 13)
        if what <= 1:
            i.update(op="add_", args=[self.operand(m, x)], kw=self.pick({}, {}, {"alpha": self.pick(2, -1, 0.5)}))
            if not isinstance(i["args"][0], dict):
                i["kw"] = {}
        elif what == 2:
            i.update(op="sub_", args=[{"t": self.any(m)}], kw={})
            fits = self.operand(m, x)
            if isinstance(fits, dict):
                i["args"] = [fits]
        elif what <= 4:
            i.update(op="mul_", args=[self.operand(m, x)])
        elif what == 5:
            fits = self.operand(m, x)
            i.update(op="copy_", args=[fits if isinstance(fits, dict) else {"t": self.any(m)}])
        elif what == 6:
            i.update(op=self.pick("fill_", "fill_", "zero_"))
            i["args"] = [self.r.randint(-2, 2)] if i["op"] == "fill_" else []
        elif what == 7:
            i.update(op="clamp_", args=[self.r.randint(-3, 0), self.r.randint(0, 3)])
        elif what == 8:
            mask = self.any(m, lambda y: y.dtype == torch.bool)
            if mask is None:
                return None
            i.update(op="masked_fill_", args=[{"t": mask}, self.r.randint(-2, 2)])
        elif what == 9:
            i.update(op=self.pick("relu_", "neg_", "abs_"), args=[])
        elif what == 10 and x._base is None:
            i.update(op="requires_grad_", args=[self.r.random() < 0.6])
        elif what == 11:
            i.update(op=self.pick("detach_", "clear_grad"), args=[])
        elif what in (10, 12):
            i.update(op="addcmul_", args=[self.operand(m, x), self.operand(m, x)], kw={"value": self.pick(1, 2)})
            if not all(isinstance(a, dict) for a in i["args"]):
                return None
        else:
            i.update(op="index_put_", index=self.indices(x))
            part = None
            try:
                part = Machine.op_index(m, i)
            except Exception:
                return None
            i["args"] = [self.operand(m, part)]
        for a in i.get("args", []):  # the order of reads and writes of shared memory is undefined
            y = m.x[a["t"]] if isinstance(a, dict) else x
            if y is not x and y.storage().data_ptr() == x.storage().data_ptr():
                return None
        return i if "op" in i else None

    def function(self, m, k, x):
        i = {"x": k, "out": self.new()}
        what = self.r.randint(0, 26)
        if what <= 5:
            i.update(op=self.pick("add", "add", "sub", "mul", "mul", "maximum", "minimum"), args=[self.operand(m, x)])
            if i["op"] in ("maximum", "minimum") and not isinstance(i["args"][0], dict):
                return None
        elif what == 6:
            i.update(op=self.pick("eq", "ne", "lt", "le", "gt", "ge"), args=[self.operand(m, x)])
        elif what == 7:
            i.update(op=self.pick("neg", "abs", "relu", "sign", "square", "clone", "logical_not"), args=[])
            if i["op"] in ("sign", "square") and x.dtype == torch.bool:
                return None
        elif what <= 9:
            i.update(op="sum", args=self.pick([], [self.dim(x)], [self.dim(x), True], [list(range(x.dim()))]))
            if i["args"] == [[]]:
                i["args"] = []
        elif what == 10:
            i.update(op="to", dtype=self.pick(*DTYPES))
        elif what == 11:
            i.update(op="clamp", args=[self.r.randint(-3, 0), self.r.randint(0, 3)])
        elif what == 12:
            mask = self.any(m, lambda y: y.dtype == torch.bool)
            if mask is None:
                return None
            i.update(op="where", x=mask, args=[{"t": k}, {"t": self.any(m, lambda y: y.dtype == x.dtype)}])
        elif what == 13:
            i.update(op="matmul", args=[{"t": self.any(m)}])
            y = m.x[i["args"][0]["t"]]
            if x.dtype != y.dtype and x.numel() * y.numel() == 0:
                return None  # PyTorch rejects other types only if there is something to multiply
        elif what == 14:
            same = [j for j, y in m.x.items() if y.shape == x.shape]
            i.update(op="stack", xs=[self.r.choice(same) for _ in range(self.r.randint(1, 3))], dim=self.r.randint(-x.dim() - 1, x.dim()))
        elif what == 15 and x.dim():
            same = [j for j, y in m.x.items() if y.dim() == x.dim()]
            i.update(op="cat", xs=[self.r.choice(same) for _ in range(self.r.randint(1, 3))], dim=self.dim(x))
        elif what == 16 and x.dim():
            # PyTorch can differentiate cumsum, tril and triu twice without retain_graph, we cannot.
            i.update(op="flip" if x.requires_grad else self.pick("cumsum", "flip"), args=[self.dim(x)])
        elif what == 17:
            i.update(op="repeat", args=[[self.r.randint(0, 2) for _ in range(x.dim() + self.r.randint(0, 1))]])
            if not i["args"][0]:
                return None
        elif what == 18 and x.dim() == 2 and not x.requires_grad:
            i.update(op=self.pick("tril", "triu"), args=[self.r.randint(-2, 2)])
        elif what == 19:
            i.update(op=self.pick("any", "all"), args=[])
        elif what == 20 and x.dim():
            i.update(op=self.pick("amax", "amin"), args=[self.dim(x)])
        elif what == 21 and x.dim() and x.shape[0]:
            made = self.tensor([self.r.randint(0, 3)], "i64")
            made["values"] = [self.r.randint(0, x.shape[0] - 1) for _ in made["values"]]
            return [made, {"op": "index_select", "x": k, "args": [0, {"t": made["out"][0]}], "out": self.new()}]
        elif what == 22:
            mask = self.any(m, lambda y: y.dtype == torch.bool)
            if mask is None:
                return None
            i.update(op="masked_fill", args=[{"t": mask}, self.r.randint(-2, 2)])
        elif what == 23 and x.dim():
            i.update(op="prod", args=[self.dim(x)])
            if x.requires_grad:
                return None
        elif what == 24 and not x.requires_grad:
            i.update(op=self.pick("remainder", "fmod", "floor_divide"), args=[self.pick(2, 3, -2, -3)])
        elif what == 25:
            y = self.operand(m, x)
            i.update(op=self.pick("bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor"), args=[y])
            if not isinstance(y, dict):
                return None
        elif what == 26 and x.dim() and x.numel() and not x.requires_grad:
            made = self.tensor(list(x.shape), "i64")
            d = self.r.randint(0, x.dim() - 1)
            made["values"] = [self.r.randint(0, x.shape[d] - 1) for _ in made["values"]]
            return [made, {"op": "gather", "x": k, "args": [d, {"t": made["out"][0]}], "out": self.new()}]
        return i if "op" in i else None

    def backward(self, m):
        k = self.any(m, lambda y: y.requires_grad and not y.is_leaf)
        if k is None:
            return None
        x = m.x[k]
        if self.r.random() < 0.25:
            leaves = [j for j, y in m.x.items() if y.requires_grad and j != k]
            if not leaves:
                return None
            make = self.tensor(list(x.shape), NAMES[x.dtype], self.r.random() < 0.3)
            create = self.r.random() < 0.5
            chosen = self.r.sample(leaves, min(len(leaves), self.r.randint(1, 2)))
            if create and x.numel() == 0:
                return None  # some functions of PyTorch give the gradient of an empty result no history
            return [make, {"op": "gradients", "ys": [k], "xs": chosen, "gradients": make["out"], "retain": create or self.r.random() < 0.6,
                           "create": create, "out": self.new(len(chosen))}]
        if x.numel() == 1 and self.r.random() < 0.5:
            return {"op": "backward", "x": k, "gradient": None, "retain": self.r.random() < 0.5}
        make = self.tensor(list(x.shape), NAMES[x.dtype], False)
        return [make, {"op": "backward", "x": k, "gradient": make["out"][0], "retain": self.r.random() < 0.5}]

    def training_step(self, m):
        """A step of gradient descent; gradients accumulate over steps unless they are cleared or zeroed."""
        leaf = self.any(m, lambda y: y.requires_grad and y.is_leaf and y._base is None)
        if leaf is None:
            return self.tensor(grad=True)
        x = m.x[leaf]
        data = self.tensor(list(x.shape), NAMES[x.dtype], False)
        product, loss, gradient = self.new(), self.new(), self.new()
        by = self.pick(data["out"], data["out"], [leaf])  # linear or quadratic
        steps = [data, {"op": "mul", "x": leaf, "args": [{"t": by[0]}], "out": product},
                 {"op": "sum", "x": product[0], "args": [], "out": loss},
                 {"op": "backward", "x": loss[0], "gradient": None, "retain": self.r.random() < 0.3},
                 {"op": "get_grad", "x": leaf, "out": gradient},
                 {"op": "add_", "x": leaf, "args": [{"t": gradient[0]}], "kw": {"alpha": self.pick(-1, 2, 0.5)}, "no_grad": True}]
        end = self.pick(None, {"op": "clear_grad", "x": leaf}, {"op": "zero_", "x": gradient[0], "args": []},
                        {"op": "mul_", "x": gradient[0], "args": [self.pick(2, -1)]})
        return steps + ([end] if end else [])

    def double_backward(self, m):
        """The gradient of a function of a gradient."""
        k = self.any(m, lambda y: y.requires_grad and y.numel() < 20)
        leaves = [j for j, y in m.x.items() if y.requires_grad]
        if k is None:
            return self.tensor(grad=True)
        x = m.x[k]
        product, gradient, penalty, loss = self.new(), self.new(), self.new(), self.new()
        make = self.tensor(list(x.shape), NAMES[x.dtype], self.r.random() < 0.3)
        of = self.pick(k, k, self.r.choice(leaves))
        steps = [make, {"op": "mul", "x": k, "args": [{"t": k}], "out": product},
                 {"op": "gradients", "ys": product, "xs": [of], "gradients": make["out"], "retain": True, "create": True, "out": gradient},
                 {"op": "mul", "x": gradient[0], "args": [{"t": self.pick(gradient[0], of)}], "out": penalty}]
        if self.r.random() < 0.3:
            steps.append({"op": self.pick("neg_", "relu_"), "x": penalty[0], "args": []})
        return steps + [{"op": "sum", "x": penalty[0], "args": [], "out": loss},
                        {"op": "backward", "x": loss[0], "gradient": None, "retain": self.r.random() < 0.7}]

    def shared_memory(self, m):
        """In-place operations, with and without gradients, through views and detached tensors of tensors that are used again."""
        k = self.any(m, lambda y: y.requires_grad and (not y.is_leaf or self.r.random() < 0.3)) or self.any(m)
        steps = []
        for _ in range(self.r.randint(1, 3)):
            on = k
            if self.r.random() < 0.7:
                view = self.view(k, m.x[k]) if self.r.random() < 0.6 else {"x": k, "op": "detach", "args": [], "out": self.new()}
                if view is None:
                    continue
                steps.append(view)
                on = view["out"][0]
            op = self.pick("mul_", "add_", "neg_", "clamp_", "zero_", "fill_", "relu_")
            args = {"mul_": [self.pick(2, -1)], "add_": [self.pick(1, -2)], "clamp_": [-1, 2], "fill_": [self.pick(0, 1)]}.get(op, [])
            steps.append({"op": op, "x": on, "args": args, "kw": {}})
            if self.r.random() < 0.5:
                steps[-1]["no_grad"] = True
            if self.r.random() < 0.4:
                steps.append({"op": "mul", "x": on, "args": [{"t": k}] if on == k else [2], "out": self.new()})
        return steps

    def simple_view(self, kind, k, x):
        """A view of a kind that is merged with another one of it (view_kind.h)."""
        i = {"x": k, "out": self.new()}
        if kind == "slice":
            axis = self.r.randint(0, max(x.dim() - 1, 0)) if self.r.random() < 0.3 else 0
            i.update(op="index", index=[[None, None, None]] * axis + [self.one_slice(x.shape[axis])])
        elif kind == "permute":
            order = list(range(x.dim()))
            self.r.shuffle(order)
            i.update(op="permute", args=[order])
        else:
            n = x.numel()
            i.update(op="view", args=[self.pick(*[[n // a // b, a, b] for a in (1, 2, 3) for b in (1, 2, 4) if n % (a * b) == 0])])
        return i

    def chain_of_views(self, m):
        """Views of views that nothing else refers to any longer; then the last one is modified and differentiated."""
        k = self.any(m, lambda y: y.dim() > 0 and y.numel() > 3) or self.any(m, lambda y: y.dim() > 0)
        if k is None:
            return self.tensor([self.r.randint(4, 9), 2], "f32")
        scratch = Machine()
        scratch.x = dict(m.x)
        steps, at = [], k
        kind = self.pick("slice", "slice", "permute", "view", "any")
        for _ in range(self.r.randint(2, 5)):
            x = scratch.x[at]
            view = self.view(at, x) if kind == "any" else self.simple_view(kind, at, x)
            if view is None or len(view["out"]) != 1 or view["op"] == "alias":
                continue
            try:
                scratch.run(view)
            except (RuntimeError, IndexError):
                continue
            steps.append(view)
            if at != k and self.r.random() < 0.9:
                steps.append({"op": "delete", "x": at})
            at = view["out"][0]
        if at == k:
            return []
        product, loss = self.new(), self.new()
        if self.r.random() < 0.7:
            op = self.pick("mul_", "add_", "neg_", "zero_", "fill_", "clamp_")
            args = {"mul_": [self.pick(2, -1)], "add_": [self.pick(1, -2)], "clamp_": [-1, 2], "fill_": [self.pick(0, 1)]}.get(op, [])
            steps.append({"op": op, "x": at, "args": args, "kw": {}})
            if self.r.random() < 0.3:
                steps[-1]["no_grad"] = True
        steps += [{"op": "mul", "x": at, "args": [2], "out": product}, {"op": "sum", "x": product[0], "args": [], "out": loss}]
        if m.x[k].requires_grad and self.r.random() < 0.5:
            steps.append({"op": "backward", "x": loss[0], "gradient": None, "retain": self.r.random() < 0.5})
        return steps

    def instruction(self, m):
        if len(m.x) < 3:
            return self.tensor(dtype="f32" if self.groups and self.next == 0 else None, grad=True if self.groups else None)
        if self.groups and self.r.random() < 0.15:
            return self.r.choice(self.groups)(m)
        k = self.any(m)
        x = m.x[k]
        what = self.r.random()
        if what < 0.08:
            made = self.tensor()
        elif what < 0.30:
            made = self.view(k, x)
        elif what < 0.55:
            if x.requires_grad and (x.is_leaf or x._base is not None and x._base.is_leaf) and self.r.random() < 0.8:
                k = self.any(m, lambda y: not y.requires_grad or not y.is_leaf)
            made = None if k is None else self.in_place(m, k, m.x[k])
        elif what < 0.80:
            made = self.function(m, k, x)
        elif what < 0.92:
            made = self.backward(m)
        elif what < 0.94:
            made = {"op": "get_grad", "x": k, "out": self.new()} if x.is_leaf and x.grad is not None else None
        else:
            made = {"op": "delete", "x": k} if len(m.x) > 5 else None
        made = made if isinstance(made, list) else [made] if made else []
        views = what < 0.30  # of no_grad that get a history later: PyTorch's differ
        for i in made:
            if i["op"] == "detach_" and any(y._base is m.x[i["x"]] for y in m.x.values()):
                return []  # its views keep their history in PyTorch
            if i["op"] == "requires_grad_" and any(y._base is m.x[i["x"]] for y in m.x.values()):
                return []  # its views become leaves of their own in PyTorch
            if self.r.random() < 0.12 and not views and i["op"] not in ("tensor", "backward", "gradients"):
                i["no_grad"] = True
        return made


def is_undefined(m, i):
    """Whether it converts a negative float to an unsigned integer, which depends on the machine in PyTorch."""
    if i["op"] == "to":
        source, target = m.x[i["x"]], DTYPES[i["dtype"]]
    elif i["op"] in ("copy_", "index_put_") and isinstance(i["args"][0], dict):
        source, target = m.x[i["args"][0]["t"]], m.x[i["x"]].dtype
    else:
        return False
    return target == torch.uint8 and source.is_floating_point() and bool((source < 0).any())


def step(m, i):
    """Runs one instruction; true, or false if PyTorch rejects it (then m is as before)."""
    if is_undefined(m, i):
        return False
    try:
        m.run(i)
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError) as error:
        message = str(error)
        if any(mistake in message for mistake in MISTAKES):
            i["fails"] = message.split("\n")[0]
        return False
    try:
        for x in m.x.values():
            check(x)
            if x.is_leaf and x.grad is not None:
                check(x.grad)
    except RuntimeError as error:  # a view that PyTorch forbids to use any longer
        raise Cut(str(error)) from error
    return True


def replay(program):
    m = Machine()
    for i in program:
        if "fails" not in i:
            m.run(i)
    return m


def generate(seed, length):
    g = Generator(seed)
    m = Machine()
    program = []
    tries = 0
    while len(program) < length and tries < 40 * length:
        tries += 1
        group = g.instruction(m)
        group = group if isinstance(group, list) else [group]
        for i in group:
            try:
                done = step(m, i)
                again = not done and i["op"] in ("backward", "gradients")  # it may have freed a part of the graph
            except Cut:
                done, again = False, True  # without the instruction
            if done or "fails" in i:
                program.append(i)
            if again:
                try:
                    m = replay(program)
                except RuntimeError:  # an instruction that was left out had an effect nevertheless
                    return [], Machine()
                if "fails" in i:
                    return program, m
            if not done:
                break
    return program, m


def dump(x):
    return {"dtype": NAMES[x.dtype], "shape": list(x.shape), "values": x.detach().to(torch.float64).flatten().tolist()}


def main(folder, seed, count, length=40):
    torch.set_num_threads(1)
    for s in range(int(seed), int(seed) + int(count)):
        program, m = generate(s, int(length))
        try:
            m = replay(program)
        except RuntimeError:  # an instruction that was left out had an effect nevertheless
            program, m = [], Machine()
        tensors = []
        for k, x in m.x.items():
            one = dump(x)
            one["name"] = k
            # PyTorch says that integers do after a float that does was copied into them.
            one["requires_grad"] = x.requires_grad and x.is_floating_point()
            if x.is_leaf and x.grad is not None:
                one["grad"] = dump(x.grad)
            tensors.append(one)
        with open(f"{folder}/{s}.json", "w") as file:
            json.dump({"program": program, "tensors": tensors}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
