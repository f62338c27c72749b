"""Lines of `bench/run remote`: a worker process on this machine beside a local device, gRPC alone and TensorFlow's remote eager
execution. 20 ms: through a proxy that delays every byte by 10 ms in each direction and limits nothing else. Worker, client and
proxy share the cores of this machine, so a training's ratio contains what sending costs."""
import lines_train
from side_by_side import BUILD, IMAGES, ROOT, STEPS, Constant, Line, Match, Reading, Worker, build, make_folder, run, say

PROGRAM = ROOT / "build" / "release" / "bench" / "bench_remote"
PENSTOCK = ROOT / "build" / "release" / "bin" / "penstock"
PEER = ROOT / "bench" / "peers" / "remote" / "tensorflow_peer.py"


def set_up():
    say("installing what is missing (tools/setup, tools/venv)")
    run("tools/setup", "bench")
    run("tools/venv")
    build("bench_remote", "penstock", "bench_train")
    make_folder(lines_train.SHARDS, lines_train.PROGRAM)  # 10,000 images of CIFAR's size


def ours(work):
    return lambda: Worker(PROGRAM, work, PENSTOCK)


def bare(work):
    return lambda: Worker(PROGRAM, "bare", work)


def tensorflow(work):
    return lambda: Worker(lines_train.PYTHON, PEER, work)


def training(work, delay_ms=None):
    remote = () if delay_ms is None else (PENSTOCK, delay_ms)
    return lambda: Worker(PROGRAM, "train", work, *remote)


def microseconds(key):
    return Reading(key, "us", less_is_better=True, digits=1)


STEP, PIPELINED = microseconds("step_us"), microseconds("pipelined_us")
UPLOAD = Reading("gb_per_second", "GB/s", digits=2)
SENT = Reading("megabytes", "MB", less_is_better=True, digits=3)

ROUND = "smallest step and its result, p50"
IN_A_ROW = "the same, pipelined, each"
TENSOR = "upload of 256 MiB"
RESNET20 = "ResNet-20, batch 128, "
IRIS = "iris MLP, batch 16, "


def steps(peer_name, peer, step_target, pipelined_target):
    return Match(ours("step"), peer_name, peer, [Line(ROUND, STEP, step_target), Line(IN_A_ROW, PIPELINED, pipelined_target)])


def upload(peer_name, peer, target):
    return Match(ours("upload"), peer_name, peer, [Line(TENSOR, UPLOAD, target)])


def away(name, reading, work, delay_ms, target):
    return Match(training(work, delay_ms), "local", training(work), [Line(f"{name}, {delay_ms} ms away", reading, target)])


MATCHES = [
    steps("the bar", lambda: Constant(step_us=150, pipelined_us=20), 1.0, 1.0),
    steps("TensorFlow, remote eager", tensorflow("step"), 6.7, 16.5),
    upload("the bar", lambda: Constant(gb_per_second=2.5), 1.0),
    upload("gRPC alone, raw slices", bare("upload"), 0.6),
    upload("TensorFlow, remote eager", tensorflow("upload"), 7.0),
    away(RESNET20 + "images of the client", IMAGES, "resnet20", 0, 0.97),
    away(RESNET20 + "images of the client", IMAGES, "resnet20", 20, 0.95),
    away(IRIS + "K = 32", STEPS, "iris_32", 0, 0.7),
    away(IRIS + "K = Auto", STEPS, "iris_auto", 20, 0.5),
    Match(lambda: Worker(PROGRAM, "cached", PENSTOCK, lines_train.SHARDS), "the bar", lambda: Constant(megabytes=1.0),
          [Line("epoch of 50,000 images cached on the worker, sent", SENT, 1.0)]),
]
