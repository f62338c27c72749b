"""Training on a GPU, beside JAX and PyTorch. The peers come from a Python of the user's, since which of their builds fits
depends on the driver: PENSTOCK_GPU_PYTHON names one that has torch with CUDA, jax[cuda13], flax and optax."""
import os
import sys

from lines_train import PEERS, penstock
from side_by_side import IMAGES, Line, Match, Worker, build, run, say

PYTHON = os.environ.get("PENSTOCK_GPU_PYTHON", "")
BATCH, SIDE = 256, 224


def set_up():
    if not os.path.exists("/dev/nvidiactl"):
        sys.exit("bench: there is no NVIDIA GPU here (/dev/nvidiactl is missing)")
    if not PYTHON:
        sys.exit("bench: set PENSTOCK_GPU_PYTHON to a Python that has torch with CUDA, jax[cuda13], flax and optax")
    say("looking for what is needed (tools/setup)")
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
