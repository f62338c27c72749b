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


def serve(folder, make_manager, save, wait, restore):
    """Runs rounds, each with its own manager, which is created before the time is measured: save(manager) returns when training
    may continue, wait(manager) when the checkpoint is complete, restore(manager) when the state is on the device."""
    for number, _ in enumerate(sys.stdin):
        where = os.path.join(os.path.abspath(folder), f'round{number}')
        manager = make_manager(where)
        begin = time.perf_counter()
        save(manager)
        blocked = time.perf_counter() - begin
        wait(manager)
        flush(where)
        total = time.perf_counter() - begin
        begin = time.perf_counter()
        restore(manager)
        restored = time.perf_counter() - begin
        shutil.rmtree(where)
        print(json.dumps({'blocked_seconds': blocked, 'total_seconds': total, 'restore_seconds': restored}), flush=True)
