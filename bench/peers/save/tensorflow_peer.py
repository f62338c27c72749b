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
asynchronous = '--async' in sys.argv
options = tf.train.CheckpointOptions(enable_async=asynchronous)


def save(folder):
    checkpoints = tf.train.CheckpointManager(tf.train.Checkpoint(**variables), folder, max_to_keep=3)
    checkpoints.save(checkpoint_number=2, options=options)
    return checkpoints.sync


def restore(folder):
    tf.train.Checkpoint(**variables).restore(tf.train.latest_checkpoint(folder)).assert_existing_objects_matched()


rounds.serve(sys.argv[1], save, restore)
