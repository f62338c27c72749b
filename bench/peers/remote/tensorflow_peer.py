"""TensorFlow's peer of `bench/run remote`: eager execution on a server process, over gRPC on loopback.

    tensorflow_peer.py step       the smallest tf.function and its result: {"step_us": p50, "step_p99_us"}, and
                                  calls in a row, whose last result is read: {"pipelined_us"}
    tensorflow_peer.py upload     a tensor of 256 MiB to the server: {"gb_per_second"}
    tensorflow_peer.py server     what the others start; prints its address

For each line of stdin, a program runs a round of about a second and prints a line of JSON.
"""
import json
import os
import subprocess
import sys
import time

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
import numpy as np
import tensorflow as tf

DEVICE = '/job:worker/replica:0/task:0/device:CPU:0'
PIPELINED = 1000
UPLOAD_BYTES = 256 << 20


def serve():
    server = tf.distribute.Server({'worker': ['127.0.0.1:0']}, job_name='worker', task_index=0)
    print(server.target.removeprefix('grpc://'), flush=True)
    server.join()


def step():
    with tf.device(DEVICE):
        x = tf.constant([1.0, 2.0, 3.0, 4.0])
        y = tf.constant([1.0, 2.0, 3.0, 4.0])

    @tf.function
    def add(x, y):
        return x + y

    def call():
        with tf.device(DEVICE):
            return add(x, y)

    seconds = []
    end = time.perf_counter() + 0.7
    while (begin := time.perf_counter()) < end:
        call().numpy()
        seconds.append(time.perf_counter() - begin)
    seconds.sort()
    begin = time.perf_counter()
    for _ in range(PIPELINED):
        last = call()
    last.numpy()
    pipelined = (time.perf_counter() - begin) / PIPELINED
    return {'step_us': 1e6 * seconds[len(seconds) // 2], 'step_p99_us': 1e6 * seconds[len(seconds) * 99 // 100],
            'pipelined_us': 1e6 * pipelined}


def upload():
    # A new tensor: the server's copy of one that was sent before is used again.
    with tf.device('/job:localhost/replica:0/task:0/device:CPU:0'):
        tensor = tf.constant(np.ones(UPLOAD_BYTES, np.uint8))
    begin = time.perf_counter()
    with tf.device(DEVICE):
        # The first element comes back when the whole tensor has arrived.
        tf.identity(tensor)[0].numpy()
    return {'gb_per_second': 1e-9 * UPLOAD_BYTES / (time.perf_counter() - begin)}


def main():
    what = sys.argv[1]
    if what == 'server':
        return serve()
    round_of = {'step': step, 'upload': upload}[what]
    server = subprocess.Popen([sys.executable, __file__, 'server'], stdout=subprocess.PIPE, text=True)
    try:
        tf.config.experimental_connect_to_host(server.stdout.readline().strip(), job_name='worker')
        for _ in sys.stdin:
            print(json.dumps(round_of()), flush=True)
    finally:
        server.kill()


main()
