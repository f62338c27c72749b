"""Code shared by all peers: options, timed rounds over batches, and a JSON line for each round.

A round discards the batches of the first --warm seconds (read-ahead, autotuning) and then counts rows for --seconds. With
--on-request a program waits for a line on stdin before each round, so that several programs can alternate; it exits at the end
of stdin.

A line: {"peer", "work", "round", "items_per_second", "batches", "seconds", "peak_rss", "start_rss"}; sizes are in bytes,
start_rss is the resident memory before reading data (the interpreter and its libraries).
"""
import argparse
import glob
import json
import os
import resource
import sys
import time


def resident_bytes():
    with open('/proc/self/statm') as f:
        return int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def options(works, doc):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--data', required=True, help='folder of TFRecord shards (make_shards.py)')
    p.add_argument('--work', required=True, choices=sorted(works))
    p.add_argument('--batch', type=int, default=128)
    p.add_argument('--shuffle', type=int, default=1024, help='shuffle buffer size in records')
    p.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument('--workers', type=int, default=0, help='number of worker processes, for peers that support them')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--seconds', type=float, default=2.0)
    p.add_argument('--warm', type=float, default=1.0)
    p.add_argument('--on-request', action='store_true', help='run a round for each line of stdin instead of --rounds')
    p.add_argument('--scratch', default='', help='folder for the peer\'s own format or index; default: beside the shards')
    args = p.parse_args()
    args.files = sorted(glob.glob(os.path.join(args.data, '*.tfrec')))
    if not args.files:
        sys.exit(f'{args.data} has no *.tfrec files; create them with make_shards.py')
    return args


def run(peer, args, batches, rows=len):
    """Runs rounds over an endless iterator of batches; rows(batch) returns the number of rows of a batch."""
    start_rss = resident_bytes()
    iterator = iter(batches())
    requests = sys.stdin if args.on_request else range(args.rounds)
    for i, _ in enumerate(requests):
        end = time.perf_counter() + args.warm
        while time.perf_counter() < end:
            next(iterator)
        items = count = 0
        begin = now = time.perf_counter()
        while now < begin + args.seconds:
            items += rows(next(iterator))
            count += 1
            now = time.perf_counter()
        print(json.dumps({
            'peer': peer, 'work': args.work, 'round': i, 'items_per_second': items / (now - begin),
            'batches': count, 'seconds': now - begin,
            'peak_rss': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, 'start_rss': start_rss}), flush=True)
