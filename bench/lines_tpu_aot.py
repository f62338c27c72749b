"""Lines of `bench/run tpu_aot`: ResNet-20's training step compiled by libtpu for a TPU v2 with 8 cores, beside JAX and flax:
libtpu's estimate of the time, and the memory for temporaries. Nothing is executed on a TPU."""
from lines_train import JAX_FOLDER, PYTHON, set_up_jax
from side_by_side import ROOT, BestOf, Line, Match, Once, Reading, build, run, say

PROGRAM = ROOT / "build" / "release" / "bench" / "bench_tpu_aot"
PEER = ROOT / "bench" / "peers" / "train" / "jax_tpu_aot.py"
LIBTPU = ROOT / "third_party" / "unpacked" / "libtpu" / "libtpu.so"
TOPOLOGY, BATCH = "v2:2x2x1", 1024
STEP = f"ResNet-20, TPU {TOPOLOGY}, batch {BATCH}"

TIME = Reading("optimal_seconds", "ms", scale=1e3, less_is_better=True, digits=3)
TEMPORARY = Reading("temporary", "MB", scale=1e-6, less_is_better=True, digits=1)


def set_up():
    say("installing what is missing (tools/setup tpu, tools/venv)")
    run("tools/setup", "tpu")
    run("tools/venv")
    set_up_jax()
    build("bench_tpu_aot")


def ours(policy):
    return lambda: Once(PROGRAM, TOPOLOGY, BATCH, policy, env={"PENSTOCK_TPU_PLUGIN": str(LIBTPU)})


def jax(*options):
    def compiled(*how):
        return lambda: Once(PYTHON, PEER, TOPOLOGY, BATCH, *options, *how,
                            env={"PYTHONPATH": str(JAX_FOLDER), "TPU_LIBRARY_PATH": str(LIBTPU)})

    return lambda: BestOf(TIME, rounds=1, by_core=compiled(), whole_batch=compiled("--sharded"))


def match(precision, policy, *options):
    return Match(ours(policy), "JAX + flax", jax(*options), [
        Line(f"{STEP}, {precision}: time", TIME, 1.0),
        Line(f"{STEP}, {precision}: temporaries", TEMPORARY, 1.0)])


MATCHES = [match("fp32", "float32"), match("bf16", "mixed_bfloat16", "--bf16")]
