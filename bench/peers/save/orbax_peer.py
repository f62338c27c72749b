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


def manager(folder):
    return ocp.CheckpointManager(folder, options=ocp.CheckpointManagerOptions(max_to_keep=3, enable_async_checkpointing=True))


def save(folder):
    checkpoints = manager(folder)
    checkpoints.save(2, args=ocp.args.StandardSave(state))

    def wait():
        checkpoints.wait_until_finished()
        checkpoints.close()
    return wait


def restore(folder):
    checkpoints = manager(folder)
    jax.block_until_ready(checkpoints.restore(2, args=ocp.args.StandardRestore(abstract)))
    checkpoints.close()


rounds.serve(sys.argv[1], save, restore)
