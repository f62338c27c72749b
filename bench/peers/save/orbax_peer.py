"""Orbax's peer of `bench/run save`: an asynchronous CheckpointManager, its default.

    orbax_peer.py FOLDER      runs a round for each line of stdin
"""
import os
import sys

os.environ['JAX_PLATFORMS'] = 'cpu'
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

import rounds

state = {f'w{i}': jnp.asarray(np.random.default_rng(i).random(rounds.SHAPE, np.float32)) for i in range(rounds.ARRAYS)}
jax.block_until_ready(state)
abstract = jax.tree_util.tree_map(ocp.utils.to_shape_dtype_struct, state)


def make_manager(folder):
    return ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=3, enable_async_checkpointing=True))


def save(manager):
    manager.save(2, args=ocp.args.StandardSave(state))


def wait(manager):
    manager.wait_until_finished()


def restore(manager):
    jax.block_until_ready(manager.restore(2, args=ocp.args.StandardRestore(abstract)))


rounds.serve(sys.argv[1], make_manager, save, wait, restore)
