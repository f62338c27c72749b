"""Writes and reads files of weights with PyTorch (Debian's python3-torch).

Usage: pytorch_files.py write FOLDER    writes zip.pt, stream.pt, views.pt, nested.pt, module.pt and the xser folder xla.pt
       pytorch_files.py check FOLDER    reads ours.pt, with weights_only=True, and compares; exits with 1 where it differs

A tensor's bytes are computed from its name by a formula that pytorch_test.cc has as well.
"""

import collections
import pathlib
import sys
import types

import torch

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
         torch.int8, torch.uint8, torch.bool, torch.complex64]
SHAPES = {"vector": [7], "scalar": [], "cube": [3, 1, 4], "empty": [2, 0]}


def tensor(name, dtype, shape):
    count = 1
    for extent in shape:
        count *= extent
    if count == 0:
        return torch.zeros(shape, dtype=dtype)
    width = torch.empty(0, dtype=dtype).element_size()
    values = [(len(name) * 31 + k * 7) % 256 for k in range(count * width)]
    data = bytearray(v % 2 for v in values) if dtype == torch.bool else bytearray(values)
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def tensors():
    names = {}
    for dtype in TYPES:
        for shape_name, shape in SHAPES.items():
            name = f"{str(dtype).split('.')[1]}.{shape_name}"
            names[name] = tensor(name, dtype, shape)
    return names


def raw(t):
    return bytes(t.contiguous().reshape(-1).view(torch.uint8).tolist()) if t.numel() else b""


class TensorReference:
    """Stands for torch_xla's class, which is pickled by this name."""

    def __init__(self, tid):
        self.tid = tid


def fake_torch_xla():
    module = types.ModuleType("torch_xla.utils.serialization")
    TensorReference.__module__, TensorReference.__qualname__ = module.__name__, "TensorReference"
    module.TensorReference = TensorReference
    sys.modules["torch_xla"] = types.ModuleType("torch_xla")
    sys.modules["torch_xla.utils"] = types.ModuleType("torch_xla.utils")
    sys.modules[module.__name__] = module


def write_xser(path):
    # What torch_xla.utils.serialization.save does, without its devices.
    fake_torch_xla()
    folder = pathlib.Path(str(path) + ".tensors")
    folder.mkdir()
    references = collections.OrderedDict()
    for i, name in enumerate(["float32.cube", "int64.vector"]):
        torch.save(tensors()[name], folder / f"tensor_{i}.pt")
        references[name] = TensorReference(i)
    torch.save(references, path)


def write(folder):
    torch.save(collections.OrderedDict(tensors()), folder / "zip.pt")
    torch.save(tensors(), folder / "stream.pt", _use_new_zipfile_serialization=False)
    base = torch.arange(24, dtype=torch.int32).reshape(4, 6)
    views = {"base": base, "transposed": base.t(), "column": base[:, 2], "block": base[1:3, 1:5:2], "tied": base,
             "expanded": torch.tensor([7, 8], dtype=torch.int32).expand(3, 2)}
    torch.save(views, folder / "views.pt")
    torch.save(views, folder / "views_stream.pt", _use_new_zipfile_serialization=False)
    optimizer = {"state": {0: {"step": 3, "exp_avg": torch.ones(2)}}, "param_groups": [{"lr": 0.5, "params": [0]}]}
    torch.save({"model": {"w": torch.zeros(2)}, "optimizer": optimizer, "epoch": 4, "best": True, "name": "net",
                "none": None, "weight": torch.nn.Parameter(torch.ones(1)), "size": torch.Size([2, 3])},
               folder / "nested.pt")
    module = torch.nn.Sequential(collections.OrderedDict(conv=torch.nn.Conv2d(3, 4, 2), bn=torch.nn.BatchNorm2d(4)))
    torch.save(module.state_dict(), folder / "module.pt")
    torch.save(torch.arange(3), folder / "one.pt")
    write_xser(folder / "xla.pt")


def check(folder):
    found = torch.load(folder / "ours.pt", weights_only=True)
    wanted = tensors()
    assert list(found) == list(wanted), set(found) ^ set(wanted)
    for name, want in wanted.items():
        got = found[name]
        assert (got.dtype, got.shape, raw(got)) == (want.dtype, want.shape, raw(want)), name
    module = torch.nn.Linear(2, 3)
    module.load_state_dict(torch.load(folder / "linear.pt", weights_only=True), strict=True)
    assert module.weight.tolist() == [[0, 1], [2, 3], [4, 5]], module.weight
    fake_torch_xla()
    references = torch.load(folder / "ours.xser")
    for name, reference in references.items():
        got = torch.load(folder / "ours.xser.tensors" / f"tensor_{reference.tid}.pt", weights_only=True)
        assert (got.dtype, got.shape, raw(got)) == (wanted[name].dtype, wanted[name].shape, raw(wanted[name])), name
    assert len(references) == len(wanted)
    tied = torch.load(folder / "tied.pt", weights_only=True)
    assert tied["a"].data_ptr() == tied["b"].data_ptr()


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
