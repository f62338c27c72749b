"""Code shared by the peers of `bench/run save`: their rounds.

For each line of stdin, a peer saves 32 arrays of 16 MiB, reads them back, removes them, and prints a line of JSON:
{"blocked_seconds", "total_seconds", "restore_seconds"}. total ends when the files are on the disk (fsync), since ours does.
"""
import json
import os
import shutil
import sys
import time

ARRAYS, SHAPE = 32, (2048, 2048)  # float32


def flush(folder):
    """Waits until everything below the folder is on the disk."""
    for where, folders, files in os.walk(folder):
        for name in files:
            descriptor = os.open(os.path.join(where, name), os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def serve(folder, save, restore):
    """Runs rounds. save(folder) returns a function that waits for the save; restore(folder) returns when the state is on the
    device."""
    for number, _ in enumerate(sys.stdin):
        where = os.path.join(os.path.abspath(folder), f'round{number}')
        begin = time.perf_counter()
        wait = save(where)
        blocked = time.perf_counter() - begin
        wait()
        flush(where)
        total = time.perf_counter() - begin
        begin = time.perf_counter()
        restore(where)
        restored = time.perf_counter() - begin
        shutil.rmtree(where)
        print(json.dumps({'blocked_seconds': blocked, 'total_seconds': total, 'restore_seconds': restored}), flush=True)
