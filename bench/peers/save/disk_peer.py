"""Limit of the disk for `bench/run save`: writes the bytes of the state to one file, with fsync.

    disk_peer.py FOLDER      runs a round for each line of stdin; prints {"write_seconds": 0.8}
"""
import json
import os
import sys
import time

import rounds

CHUNK = os.urandom(4 << 20)
BYTES = rounds.ARRAYS * rounds.SHAPE[0] * rounds.SHAPE[1] * 4

os.makedirs(sys.argv[1], exist_ok=True)
path = os.path.join(sys.argv[1], 'disk')
for _ in sys.stdin:
    begin = time.perf_counter()
    with open(path, 'wb', buffering=0) as file:
        for _ in range(BYTES // len(CHUNK)):
            file.write(CHUNK)
        os.fsync(file.fileno())
    seconds = time.perf_counter() - begin
    os.unlink(path)
    print(json.dumps({'write_seconds': seconds}), flush=True)
