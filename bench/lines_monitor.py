"""Lines of `bench/run monitor`: the speed of a training with a monitor as a share of its speed without one, turned on and off alternately
within one process."""
from side_by_side import ROOT, Constant, Line, Match, Reading, Worker, build, run, say

PROGRAM = ROOT / "build" / "release" / "bench" / "bench_monitor"
SPEED = Reading("speed", "of the speed", digits=4)
CPU = Reading("cpu", "by CPU time", digits=4)


def set_up():
    say("installing what is missing (tools/setup)")
    run("tools/setup", "bench")
    build("bench_monitor")


def match(work, name, target):
    return Match(lambda: Worker(PROGRAM, name), "without a monitor", lambda: Constant(speed=1.0, cpu=1.0),
                 [Line(work, SPEED, target), Line(work, CPU, target)])


MATCHES = [
    match("ResNet-20, batch 128, watched", "resnet20", 0.995),
    match("iris MLP, batch 16, K = 1, watched", "iris", 0.98),
]
