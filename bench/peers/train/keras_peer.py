"""Keras's training steps on TensorFlow, for `bench/run train`.

    keras_peer.py --work resnet20|iris [--jit] [--steps-per-execution 32]     rounds, asked for on stdin
    keras_peer.py --work resnet20 --first-step [--jit]                        prints a line when one step is done

One endless fit(): a round is an epoch of it, so that none pays for a beginning. resnet20 trains on one batch in memory
again and again; iris on a shuffled tf.data set with prefetch.
"""
import argparse
import os
import sys
import time

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
os.environ['KERAS_BACKEND'] = 'tensorflow'
import keras
import numpy as np
import tensorflow as tf
from keras import layers

import rounds

BATCH = {'resnet20': 128, 'iris': 16}


def normed(x, filters, kernel, stride=1, relu=False):
    x = layers.Conv2D(filters, kernel, strides=stride, padding='same', use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if relu else x


def resnet20():
    image = keras.Input((32, 32, 3))
    x = normed(image, 16, 3, relu=True)
    for filters, first_stride in ((16, 1), (32, 2), (64, 2)):
        for stride in (first_stride, 1, 1):
            y = normed(normed(x, filters, 3, stride, relu=True), filters, 3)
            shortcut = x if x.shape[-1] == filters else normed(x, filters, 1, stride)
            x = layers.ReLU()(layers.Add()([y, shortcut]))
    logits = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
    batch = tf.random.uniform((BATCH['resnet20'], 32, 32, 3)), tf.range(BATCH['resnet20']) % 10
    return keras.Model(image, logits), keras.optimizers.SGD(0.01, momentum=0.9), \
        tf.data.Dataset.from_tensors(batch).repeat().prefetch(tf.data.AUTOTUNE)


def iris():
    flowers = np.random.default_rng(0).random((150, 4), np.float32), np.arange(150) // 50
    net = keras.Sequential([keras.Input((4,)), layers.Dense(10, activation='sigmoid'), layers.Dense(3)])
    rows = tf.data.Dataset.from_tensor_slices(flowers).cache().repeat().shuffle(150)
    return net, keras.optimizers.SGD(0.5), \
        rows.batch(BATCH['iris'], drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class Rounds(keras.callbacks.Callback):
    """An epoch for each line of stdin."""

    def __init__(self, steps, items_a_step):
        super().__init__()
        self.steps, self.items_a_step = steps, items_a_step

    def on_epoch_begin(self, epoch, logs=None):
        if not sys.stdin.readline():
            os._exit(0)
        self.begin = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        seconds = time.perf_counter() - self.begin
        rounds.answer(self.steps * self.items_a_step, self.steps, seconds)


class FirstStep(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        float(logs['loss'])
        print('{}', flush=True)
        os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--work', choices=sorted(BATCH), required=True)
    parser.add_argument('--jit', action='store_true', help='jit_compile=True')
    parser.add_argument('--steps-per-execution', type=int, default=1)
    parser.add_argument('--first-step', action='store_true')
    args = parser.parse_args()
    net, optimizer, data = resnet20() if args.work == 'resnet20' else iris()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(optimizer, loss, jit_compile=args.jit, steps_per_execution=args.steps_per_execution)
    if args.first_step:
        net.fit(data, steps_per_epoch=1, verbose=0, callbacks=[FirstStep()])

    k = args.steps_per_execution
    for steps in (k, 4 * k):  # compiles; how long a step takes
        begin = time.perf_counter()
        net.fit(data, steps_per_epoch=steps, verbose=0)
    steps = -(-rounds.steps_for((time.perf_counter() - begin) / steps) // k) * k
    # What a fit() costs by itself makes that too few where steps are short.
    begin = time.perf_counter()
    net.fit(data, steps_per_epoch=steps, verbose=0)
    steps = -(-rounds.steps_for((time.perf_counter() - begin) / steps) // k) * k
    items = 1 if args.work == 'iris' else BATCH[args.work]
    net.fit(data, steps_per_epoch=steps, epochs=1_000_000, verbose=0, callbacks=[Rounds(steps, items)])


if __name__ == '__main__':
    main()
