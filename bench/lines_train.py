"""Lines of `bench/run train`: training on this machine's CPU, beside PyTorch, Keras on TensorFlow, and JAX. Each peer has its
best settings; if these are not obvious, several are measured and the fastest one is used."""
import hashlib
import shutil

from side_by_side import (BUILD, IMAGES, ITEMS, MEMORY, ROOT, SECONDS, STEPS, BestOf, Constant, Line, Match, Reading, Start,
                          Worker, build, make_folder, run, say)

SHARDS = BUILD / "cifar"
PROGRAM = ROOT / "build" / "release" / "bench" / "bench_train"
PEERS = ROOT / "bench" / "peers" / "train"
PYTHON = ROOT / "venv" / "bin" / "python"
DEBIAN_PYTHON = "/usr/bin/python3"  # has Debian's PyTorch
JAX_FOLDER = BUILD / "train-peers"  # flax and optax
CACHE = BUILD / "compile-cache"


def set_up():
    say("installing what is missing (tools/setup, tools/venv, bench/peers/train/requirements.txt)")
    run("tools/setup", "bench")
    run("tools/venv")
    set_up_jax()
    build("bench_train")
    make_folder(SHARDS, PROGRAM)  # 10,000 images of CIFAR's size


def set_up_jax():
    """Installs the packages of JAX's peer that tools/venv does not have, into a separate folder."""
    requirements = PEERS / "requirements.txt"
    stamp, digest = JAX_FOLDER / ".installed", hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return
    say("installing flax and optax")
    shutil.rmtree(JAX_FOLDER, ignore_errors=True)
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes",
        "--only-binary=:all:", "--no-deps", "--target", JAX_FOLDER, "-r", requirements)
    stamp.write_text(digest)


# ---- Sides ----

def penstock(work):
    return lambda: Worker(PROGRAM, "serve", work, SHARDS)


def torch(work, batch, side, *options, env=None):
    return lambda: Worker(DEBIAN_PYTHON, PEERS / "torch_peer.py", "--work", work, "--batch", batch, "--side", side, *options,
                          env=env)


# Makes glibc keep large allocations; by default it returns them to the system and maps new pages each time.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}


def best_torch(*arguments):
    return lambda: BestOf(ITEMS, malloc=torch(*arguments), malloc_keeping=torch(*arguments, env=KEEP_MEMORY))


def keras(work, *options):
    def side(*more):
        return lambda: Worker(PYTHON, PEERS / "keras_peer.py", "--work", work, *options, *more)

    return lambda: BestOf(ITEMS, graph=side(), jit_compile=side("--jit"))


def jax(work, *options):
    return lambda: Worker(PYTHON, PEERS / "jax_peer.py", "--work", work, *options, env={"PYTHONPATH": str(JAX_FOLDER)})


def cold_start():
    return Start(PROGRAM, "first_step", "resnet20", SHARDS, env={"PENSTOCK_COMPILE_CACHE": str(CACHE)},
                 before=lambda: shutil.rmtree(CACHE, ignore_errors=True))


def warm_start():
    return Start(PROGRAM, "first_step", "resnet20", SHARDS, env={"PENSTOCK_COMPILE_CACHE": str(CACHE)})


def keras_start():
    def side(*options):
        return lambda: Start(PYTHON, PEERS / "keras_peer.py", "--work", "resnet20", "--first-step", *options)

    return BestOf(SECONDS, rounds=1, graph=side(), jit_compile=side("--jit"))


def first_step(work):
    """Side that measures the time from Fit to the end of the first step, with an empty compile cache."""
    return lambda: Start(PROGRAM, "first_step", work, SHARDS, env={"PENSTOCK_COMPILE_CACHE": str(CACHE)},
                         before=lambda: shutil.rmtree(CACHE, ignore_errors=True))


def keras_jax_first_step(work):
    return lambda: Start(PYTHON, PEERS / "keras_peer.py", "--work", work, "--first-step", "--backend", "jax")


# ---- Lines ----

FIT_SECONDS = Reading("fit_seconds", "s", less_is_better=True, digits=2)
IDLE = Reading("idle_percent", "%", less_is_better=True, digits=2)

RESNET20 = "ResNet-20, batch 128, fp32, from TFRecord shards"
RESNET20_BF16 = "ResNet-20, batch 128, bf16, from TFRecord shards"
MOBILENET = "MobileNetV2 96x96, batch 32, fp32"
IRIS = "iris MLP, batch 16, "
FIRST_STEP = "Fit to first step, TerminateOnNan, cold, "
START = "process start to first step, ResNet-20, "


def match(work, reading, ours, peer_name, peer, target):
    return Match(ours, peer_name, peer, [Line(work, reading, target)])


def first_step_matches(work, title, layers_of=None):
    """First step with TerminateOnNan, compared with that without it, with Keras on JAX, and with a network of fewer layers."""
    checked = first_step(work + "_checked")
    matches = [match(FIRST_STEP + title, FIT_SECONDS, checked, "without TerminateOnNan", first_step(work), 1 / 1.2),
               match(FIRST_STEP + title, FIT_SECONDS, checked, "Keras/JAX", keras_jax_first_step(work), 2.0)]
    if layers_of is not None:
        smaller, times = layers_of
        matches.append(match(FIRST_STEP + title, FIT_SECONDS, checked, f"{smaller}, 1/{times:.2g} of the layers",
                             first_step(smaller + "_checked"), 1 / times))
    return matches


MATCHES = [
    match(RESNET20, IMAGES, penstock("resnet20"), "PyTorch", best_torch("resnet20", 128, 32), 1.5),
    match(RESNET20, IMAGES, penstock("resnet20"), "Keras/TensorFlow", keras("resnet20"), 3.0),
    match(RESNET20, IMAGES, penstock("resnet20"), "JAX", jax("resnet20", "--batch", 128, "--side", 32), 4.5),
    match(RESNET20_BF16, IMAGES, penstock("resnet20_bf16"), "PyTorch, autocast",
          best_torch("resnet20", 128, 32, "--bf16"), 1.2),
    match("ResNet-50 224x224, batch 16, fp32", IMAGES, penstock("resnet50"), "PyTorch", best_torch("resnet50", 16, 224), 1.1),
    match("ResNet-50 224x224, batch 16, bf16", IMAGES, penstock("resnet50_bf16"), "PyTorch, autocast",
          best_torch("resnet50", 16, 224, "--bf16"), 1.1),
    match(MOBILENET, IMAGES, penstock("mobilenet_v2"), "PyTorch", best_torch("mobilenet_v2", 32, 96), 1.1),
    match(MOBILENET, IMAGES, penstock("mobilenet_v2"), "JAX", jax("mobilenet_v2", "--batch", 32, "--side", 96), 5.0),
    match(IRIS + "K = 1, shuffled", STEPS, penstock("iris_1"), "JAX, donated loop", jax("iris"), 1.0),
    match(IRIS + "K = 1, one batch", STEPS, penstock("iris_fixed_1"), "JAX, donated loop", jax("iris"), 1.0),
    match(IRIS + "K = 32, shuffled", STEPS, penstock("iris_32"), "Keras, K = 32",
          keras("iris", "--steps-per-execution", 32), 10.0),
    match(IRIS + "K = Auto, shuffled", STEPS, penstock("iris_auto"), "Keras, K = 32",
          keras("iris", "--steps-per-execution", 32), 10.0),
    match(START + "cold", SECONDS, cold_start, "Keras/TensorFlow", keras_start, 2.0),
    match(START + "compile cache", SECONDS, warm_start, "Keras/TensorFlow", keras_start, 10.0),
    *first_step_matches("resnet50_64", "ResNet-50 64x64"),
    *first_step_matches("resnet101_64", "ResNet-101 64x64", ("resnet50_64", 101 / 50)),
    *first_step_matches("resnet152_64", "ResNet-152 64x64", ("resnet50_64", 152 / 50)),
    *first_step_matches("decoder24", "decoder of 24 layers", ("decoder6", 4)),
    match("ResNet-20, 8 replicas, the same batch", IMAGES, penstock("resnet20_8_replicas"), "1 replica", penstock("resnet20"),
          0.9),
    match("peak memory, ResNet-20, batch 128", MEMORY, penstock("resnet20"), "PyTorch", torch("resnet20", 128, 32), 1.0),
    match("idle, ResNet-20, batch 128", IDLE, penstock("resnet20"), "2 % of the time",
          lambda: Constant(idle_percent=2.0), 1.0),
]
