"""What the peers' programs of training share: the rounds that `bench/run train` asks for.

A program reads a line from stdin, trains for about a second (at least two steps) and answers with a line of JSON:
{"items_per_second", "steps", "seconds", "peak_rss"}; it ends with stdin.
"""
import json
import resource
import sys
import time

SECONDS = 1.0
LEAST_STEPS = 2


def answer(items, steps, seconds):
    print(json.dumps({'items_per_second': items / seconds, 'steps': steps, 'seconds': seconds,
                      'peak_rss': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)


def steps_for(seconds_a_step):
    return max(LEAST_STEPS, round(SECONDS / seconds_a_step))


def serve(train, items_a_step):
    """train(n) does n steps and returns when the last one is done."""
    train(1)  # compiles, finds its kernels
    begin = time.perf_counter()
    train(LEAST_STEPS)
    seconds_a_step = (time.perf_counter() - begin) / LEAST_STEPS
    for _ in sys.stdin:
        steps = steps_for(seconds_a_step)
        begin = time.perf_counter()
        train(steps)
        seconds = time.perf_counter() - begin
        seconds_a_step = seconds / steps
        answer(steps * items_a_step, steps, seconds)
