"""What all peers' programs share: their options, timed rounds over batches, and a JSON line for each round.

A round throws away what comes in the first --warm seconds (buffers that filled while nobody was reading, an
autotuner that is still looking), and then counts rows for --seconds. Where rounds of several programs are to take
turns, --on-request makes a program wait for a line on stdin before each round; it ends with stdin.

A line: {"peer", "work", "round", "items_per_second", "batches", "seconds", "peak_rss", "start_rss"}; sizes in bytes,
start_rss what the process held before it touched data (the interpreter and its libraries).
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
    p.add_argument('--shuffle', type=int, default=1024, help='records in the shuffle buffer')
    p.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument('--workers', type=int, default=0, help='processes beside this one, for peers that have them')
    p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--seconds', type=float, default=2.0)
    p.add_argument('--warm', type=float, default=1.0)
    p.add_argument('--on-request', action='store_true', help='a round for each line of stdin, in place of --rounds')
    p.add_argument('--scratch', default='', help='a folder for the peer\'s own format or index; default: beside the shards')
    args = p.parse_args()
    args.files = sorted(glob.glob(os.path.join(args.data, '*.tfrec')))
    if not args.files:
        sys.exit(f'{args.data} holds no *.tfrec: make_shards.py makes them')
    return args


def run(peer, args, batches, rows=len):
    """Rounds over an endless iterator of batches; rows(batch) says how many rows one has."""
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
