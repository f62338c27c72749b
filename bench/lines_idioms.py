"""Lines of `bench/run idioms`: the same training written in each idiom, beside Keras's idiom here, JAX and PyTorch. Recording a step
of a tiny network costs the lazy idiom more than the step itself (some 0.1 ms): its iris lines watch that, and have low targets."""
from side_by_side import IMAGES, ROOT, STEPS, Constant, Line, Match, Reading, Worker, build, run, say
from lines_train import best_torch, jax, set_up_jax

PROGRAM = ROOT / "build" / "release" / "bench" / "bench_idioms"


def set_up():
    say("installing what is missing (tools/setup, tools/venv, bench/peers/train/requirements.txt)")
    run("tools/setup", "bench")
    run("tools/venv")
    set_up_jax()
    build("bench_idioms")


def idiom(name, work):
    return lambda: Worker(PROGRAM, name, work)


RESNET20 = "ResNet-20, batch 128, fp32, from memory"
IRIS = "iris MLP, batch 16, K = 1, "
ROWS = "iris MLP, a row for each step"


def match(work, reading, name, kind, peer_name, peer, target):
    return Match(idiom(name, kind), peer_name, peer, [Line(f"{work}, {name}", reading, target)])


KERAS = "keras here"
# What Session::Run adds to the time of its program, beside the most that it may.
RUN_COST = Reading("cost_us_per_step", "us", less_is_better=True, digits=2)

MATCHES = [
    match(RESNET20, IMAGES, "lazy", "resnet20", KERAS, idiom("keras", "resnet20"), 0.95),
    match(RESNET20, IMAGES, "session", "resnet20", KERAS, idiom("keras", "resnet20"), 0.95),
    match(RESNET20, IMAGES, "estimator", "resnet20", KERAS, idiom("keras", "resnet20"), 0.95),
    match("a step of Run over its program, iris", RUN_COST, "session", "run_cost", "limit", lambda: Constant(cost_us_per_step=15.0),
          1.0),
    match(RESNET20, IMAGES, "lazy", "resnet20", "PyTorch", best_torch("resnet20", 128, 32), 1.5),
    match(ROWS, STEPS, "session", "iris_rows", "JAX, jitted step", jax("iris_rows"), 1.0),
    match(ROWS, STEPS, "lazy", "iris_rows", "JAX, jitted step", jax("iris_rows"), 0.1),
    match(IRIS + "one batch", STEPS, "keras", "iris", "JAX, donated loop", jax("iris"), 1.0),
    match(IRIS + "one batch", STEPS, "session", "iris", "JAX, donated loop", jax("iris"), 1.0),
    match(IRIS + "one batch", STEPS, "lazy", "iris", KERAS, idiom("keras", "iris"), 0.2),
]
