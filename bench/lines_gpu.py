"""Lines of `bench/run gpu`: training on a GPU, beside JAX and PyTorch. The peers run in a Python environment of the user,
since their builds depend on the driver: PENSTOCK_GPU_PYTHON is a Python with torch (CUDA), jax[cuda13], flax and optax."""
import os
import sys

from lines_train import PEERS, penstock
from side_by_side import IMAGES, Line, Match, Worker, build, run, say

PYTHON = os.environ.get("PENSTOCK_GPU_PYTHON", "")
BATCH, SIDE = 256, 224


def set_up():
    if not os.path.exists("/dev/nvidiactl"):
        sys.exit("bench: no NVIDIA GPU found (/dev/nvidiactl does not exist)")
    if not PYTHON:
        sys.exit("bench: set PENSTOCK_GPU_PYTHON to a Python with torch (CUDA), jax[cuda13], flax and optax")
    say("installing what is missing (tools/setup)")
    run("tools/setup", "build")
    build("bench_train")


def torch(*options):
    return lambda: Worker(PYTHON, PEERS / "torch_peer.py", "--work", "resnet50", "--batch", BATCH, "--side", SIDE, "--device",
                          "cuda", *options)


def jax(*options):
    return lambda: Worker(PYTHON, PEERS / "jax_peer.py", "--work", "resnet50", "--batch", BATCH, "--side", SIDE, *options,
                          env={"JAX_PLATFORMS": "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"})


def match(precision, ours, peer_name, peer):
    return Match(penstock(ours), peer_name, peer, [Line(f"ResNet-50 224x224, batch {BATCH}, {precision}", IMAGES, 1.0)])


MATCHES = [
    match("bf16", "resnet50_gpu_bf16", "JAX", jax("--bf16")),
    match("bf16", "resnet50_gpu_bf16", "PyTorch, autocast", torch("--bf16")),
    match("fp32", "resnet50_gpu", "JAX", jax()),
    match("fp32", "resnet50_gpu", "PyTorch", torch()),
]
