"""Prints what TensorFlow's monitor says of a profiler service into a file.

Usage: profiler_monitor.py grpc://127.0.0.1:PORT FILE"""
import pathlib
import sys

import tensorflow as tf

address, file = sys.argv[1:]
pathlib.Path(file).write_text("".join(tf.profiler.experimental.client.monitor(address, 100, level) + "\n" for level in (1, 2)))
