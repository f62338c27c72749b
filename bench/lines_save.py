"""Lines of `bench/run save`: a checkpoint of 512 MiB on this machine's disk, beside Orbax and TensorFlow. blocked: training waits.
total: until the checkpoint is on the disk. restore: files (in the page cache) to the device."""
import lines_train
from side_by_side import BUILD, ROOT, Constant, Line, Match, Reading, Worker, build, run, say

PROGRAM = ROOT / "build" / "release" / "bench" / "bench_save"
PEERS = ROOT / "bench" / "peers" / "save"
FOLDER = BUILD / "checkpoints"


def set_up():
    say("installing what is missing (tools/setup, tools/venv, bench/peers/train/requirements.txt)")
    run("tools/setup", "bench")
    run("tools/venv")
    lines_train.set_up_jax()  # with Orbax, which flax needs
    build("bench_save")


def penstock(*options):
    return lambda: Worker(PROGRAM, "serve", FOLDER / "penstock", *options)


def peer(name, *options, env=None):
    return lambda: Worker(lines_train.PYTHON, PEERS / f"{name}_peer.py", FOLDER / name, *options, env=env)


def seconds(key):
    return Reading(f"{key}_seconds", "s", less_is_better=True, digits=3)


WORK = "checkpoint of 512 MiB, "
ORBAX = peer("orbax", env={"PYTHONPATH": str(lines_train.JAX_FOLDER)})


def beside(name, side):
    return Match(penstock(), name, side, [Line(WORK + key, seconds(key), 1.0) for key in ("blocked", "total", "restore")])


MATCHES = [
    beside("Orbax, asynchronous", ORBAX),
    beside("TensorFlow CheckpointManager", peer("tensorflow")),
    beside("TensorFlow, asynchronous", peer("tensorflow", "--async")),
    Match(penstock(), "asynchronous = false", penstock("sync"), [Line(WORK + "blocked", seconds("blocked"), 1.0)]),
    Match(penstock(), "20 ms", lambda: Constant(beyond_copy_seconds=0.020),
          [Line(WORK + "blocked beyond the copy", seconds("beyond_copy"), 1.0)]),
    # At least 80 % of the disk's rate.
    Match(penstock(), "write and fsync of one file", peer("disk"), [Line(WORK + "written", seconds("write"), 0.8)]),
]
