"""Code shared by the training peers: the rounds of `bench/run train`.

For each line of stdin, a program trains for about a second (at least two steps) and prints a line of JSON:
{"items_per_second", "steps", "seconds", "peak_rss"}. It exits at the end of stdin.
"""
import json
import resource
import sys
import time

SECONDS = 1.0
MIN_STEPS = 2


def answer(items, steps, seconds):
    print(json.dumps({'items_per_second': items / seconds, 'steps': steps, 'seconds': seconds,
                      'peak_rss': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)


def steps_for(seconds_a_step):
    return max(MIN_STEPS, round(SECONDS / seconds_a_step))


def serve(train, items_a_step):
    """Runs rounds; train(n) runs n steps and returns after the last one is done."""
    train(1)  # compiles and selects kernels
    begin = time.perf_counter()
    train(MIN_STEPS)
    seconds_a_step = (time.perf_counter() - begin) / MIN_STEPS
    for _ in sys.stdin:
        steps = steps_for(seconds_a_step)
        begin = time.perf_counter()
        train(steps)
        seconds = time.perf_counter() - begin
        seconds_a_step = seconds / steps
        answer(steps * items_a_step, steps, seconds)
