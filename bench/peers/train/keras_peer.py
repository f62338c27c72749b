"""Keras's peer of `bench/run train`, on TensorFlow or JAX.

    keras_peer.py --work resnet20|iris [--jit] [--steps-per-execution 32]     runs a round for each line of stdin
    keras_peer.py --work WORK --first-step [--jit] [--backend jax]            prints {"fit_seconds": 6.5} after one step

Calls fit() once, without an end: a round is an epoch of it, so that no round includes the start of a training. resnet20 trains
on one batch in memory, repeatedly; iris on a shuffled tf.data dataset with prefetch.
"""
import argparse
import os
import sys
import time

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
os.environ['KERAS_BACKEND'] = 'jax' if 'jax' in sys.argv else 'tensorflow'
import keras
import numpy as np
from keras import layers

import rounds

BATCH = {'resnet20': 128, 'iris': 16, 'resnet50_64': 32, 'resnet101_64': 32, 'resnet152_64': 32, 'decoder24': 8}
TOKENS, VOCABULARY, WIDTH, HEADS = 64, 256, 128, 4  # decoder


def normed(x, filters, kernel, stride=1, relu=False):
    x = layers.Conv2D(filters, kernel, strides=stride, padding='same', use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if relu else x


def tensorflow():
    """Imports TensorFlow on demand, since it is not needed with JAX."""
    import tensorflow
    return tensorflow


def resnet(depth):
    """ResNet of keras.applications with one batch of 64x64 images."""
    net = getattr(keras.applications, f'ResNet{depth}')(weights=None, input_shape=(64, 64, 3), classifier_activation=None)
    batch = BATCH[f'resnet{depth}_64']
    return net, keras.optimizers.SGD(0.01, momentum=0.9), \
        (np.random.default_rng(0).random((batch, 64, 64, 3), np.float32), np.zeros(batch, np.int64))


def decoder(depth):
    """Decoder of GPT-2 blocks, like penstock::models::Gpt."""
    tokens = keras.Input((TOKENS,), dtype='int32')
    table = layers.ReversibleEmbedding(VOCABULARY, WIDTH)
    positions = layers.Embedding(TOKENS, WIDTH)(keras.ops.zeros_like(tokens) + keras.ops.arange(TOKENS, dtype='int32'))
    x = layers.Add()([table(tokens), positions])
    for _ in range(depth):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(y, y, use_causal_mask=True)
        x = layers.Add()([x, y])
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, activation='gelu')(y))
        x = layers.Add()([x, y])
    logits = table(layers.LayerNormalization(epsilon=1e-6)(x), reverse=True)
    text = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH['decoder24'], TOKENS)).astype(np.int32)
    return keras.Model(tokens, logits), keras.optimizers.SGD(0.01, momentum=0.9), (text, text)


def resnet20():
    tf = tensorflow()
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
    tf = tensorflow()
    flowers = np.random.default_rng(0).random((150, 4), np.float32), np.arange(150) // 50
    net = keras.Sequential([keras.Input((4,)), layers.Dense(10, activation='sigmoid'), layers.Dense(3)])
    rows = tf.data.Dataset.from_tensor_slices(flowers).cache().repeat().shuffle(150)
    return net, keras.optimizers.SGD(0.5), \
        rows.batch(BATCH['iris'], drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class Rounds(keras.callbacks.Callback):
    """Runs an epoch for each line of stdin."""

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
    def __init__(self):
        super().__init__()
        self.begin = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        float(logs['loss'])
        print(f'{{"fit_seconds": {time.perf_counter() - self.begin:.3f}}}', flush=True)
        os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--work', choices=sorted(BATCH), required=True)
    parser.add_argument('--jit', action='store_true', help='jit_compile=True')
    parser.add_argument('--steps-per-execution', type=int, default=1)
    parser.add_argument('--first-step', action='store_true')
    parser.add_argument('--backend', choices=['tensorflow', 'jax'], default='tensorflow')
    args = parser.parse_args()
    makers = {'resnet20': resnet20, 'iris': iris, 'decoder24': lambda: decoder(24)}
    for depth in (50, 101, 152):
        makers[f'resnet{depth}_64'] = lambda depth=depth: resnet(depth)
    net, optimizer, data = makers[args.work]()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(optimizer, loss, jit_compile=args.jit, steps_per_execution=args.steps_per_execution)
    if args.first_step:
        callbacks = [FirstStep()]
        if isinstance(data, tuple):
            net.fit(*data, batch_size=BATCH[args.work], verbose=0, callbacks=callbacks)
        else:
            net.fit(data, steps_per_epoch=1, verbose=0, callbacks=callbacks)

    k = args.steps_per_execution
    for steps in (k, 4 * k):  # compiles and measures the time of a step
        begin = time.perf_counter()
        net.fit(data, steps_per_epoch=steps, verbose=0)
    steps = -(-rounds.steps_for((time.perf_counter() - begin) / steps) // k) * k
    # Corrects for the overhead of fit(), which matters if steps are short.
    begin = time.perf_counter()
    net.fit(data, steps_per_epoch=steps, verbose=0)
    steps = -(-rounds.steps_for((time.perf_counter() - begin) / steps) // k) * k
    items = 1 if args.work == 'iris' else BATCH[args.work]
    net.fit(data, steps_per_epoch=steps, epochs=1_000_000, verbose=0, callbacks=[Rounds(steps, items)])


if __name__ == '__main__':
    main()
