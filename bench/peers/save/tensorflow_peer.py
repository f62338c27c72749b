"""TensorFlow's peer of `bench/run save`: tf.train.CheckpointManager.

    tensorflow_peer.py FOLDER [--async]      runs a round for each line of stdin
"""
import os
import sys

os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
import numpy as np
import tensorflow as tf

import rounds

variables = {f'w{i}': tf.Variable(np.random.default_rng(i).random(rounds.SHAPE, np.float32)) for i in range(rounds.ARRAYS)}
checkpoint = tf.train.Checkpoint(**variables)
options = tf.train.CheckpointOptions(enable_async='--async' in sys.argv)


def make_manager(folder):
    return tf.train.CheckpointManager(checkpoint, folder, max_to_keep=3)


def save(manager):
    manager.save(checkpoint_number=2, options=options)


def wait(manager):
    manager.sync()


def restore(manager):
    checkpoint.restore(manager.latest_checkpoint).assert_existing_objects_matched()


rounds.serve(sys.argv[1], make_manager, save, wait, restore)
