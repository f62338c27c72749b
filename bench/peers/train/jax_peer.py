"""JAX's peer of `bench/run train`, `idioms` and `gpu`: training steps of resnet20, resnet50 and mobilenet_v2 (flax, optax) and of the
small network for iris.

    jax_peer.py --work resnet20 --batch 128 --side 32 [--bf16]          JAX_PLATFORMS=cuda: on a GPU
    jax_peer.py --work iris
    jax_peer.py --work iris_rows     each step gets a row of an array in host memory

The steps are jitted with a donated state; the batches are on the device (except iris_rows), and the loop dispatches steps
without waiting.
"""
import argparse
import os

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
import jax
import jax.numpy as jnp
import numpy as np

import rounds


def iris():
    """MLP 4-10-3, batches of 16, plain SGD; items are steps."""
    keys = jax.random.split(jax.random.key(0), 3)
    state = [jax.random.normal(keys[0], (4, 10)) / 2, jnp.zeros(10), jax.random.normal(keys[1], (10, 3)) / 3, jnp.zeros(3)]
    x, y = jax.random.normal(keys[2], (16, 4)), jnp.arange(16, dtype=jnp.int32) % 3

    def loss_of(state, x, y):
        hidden = jax.nn.sigmoid(x @ state[0] + state[1])
        log_p = jax.nn.log_softmax(hidden @ state[2] + state[3])
        return -jnp.take_along_axis(log_p, y[:, None], 1).mean()

    def step(state, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(state, x, y)
        return [a - 0.5 * g for a, g in zip(state, gradients)], loss

    return state, step, x, y, 1


def images(args):
    import jax_nets

    state, step = jax_nets.training(jax_nets.NETS[args.work](jnp.bfloat16 if args.bf16 else jnp.float32))
    x = jax.random.uniform(jax.random.key(0), (args.batch, args.side, args.side, 3))
    return state, step, x, jnp.arange(args.batch, dtype=jnp.int32) % 10, args.batch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--work', choices=['iris', 'iris_rows', 'mobilenet_v2', 'resnet20', 'resnet50'], required=True)
    parser.add_argument('--batch', type=int, default=128)
    parser.add_argument('--side', type=int, default=32, help='height and width of the images')
    parser.add_argument('--bf16', action='store_true')
    args = parser.parse_args()
    state, step, x, y, items = iris() if args.work.startswith('iris') else images(args)
    step = jax.jit(step, donate_argnums=0)
    rows, labels = np.asarray(x), np.asarray(y)

    def train(steps):
        nonlocal state
        for i in range(steps):
            if args.work == 'iris_rows':
                row = i % len(rows)
                state, loss = step(state, rows[row:row + 1], labels[row:row + 1])
            else:
                state, loss = step(state, x, y)
        loss.block_until_ready()

    rounds.serve(train, items)


if __name__ == '__main__':
    main()
