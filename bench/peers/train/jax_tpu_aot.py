"""JAX's and flax's ResNet-20 training step, compiled ahead of time for TPUs, for `bench/run tpu_aot`.

    jax_tpu_aot.py TOPOLOGY BATCH [--bf16] [--sharded]     (TPU_LIBRARY_PATH: path of libtpu.so)

By default each core normalizes its part of the batch separately, and gradients and batch statistics are averaged (shard_map),
like Penstock. --sharded: one program for the whole batch, which the compiler partitions (jit), so that batch norm uses the
whole batch.
"""
import argparse
import json
import os

os.environ['JAX_PLATFORMS'] = 'cpu'
os.environ.setdefault('TPU_SKIP_MDS_QUERY', '1')
os.environ.setdefault('ALLOW_MULTIPLE_LIBTPU_LOAD', '1')
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import jax_nets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('topology')
    parser.add_argument('batch', type=int)
    parser.add_argument('--bf16', action='store_true')
    parser.add_argument('--sharded', action='store_true')
    args = parser.parse_args()
    devices = topologies.get_topology_desc(platform='tpu', topology_name=args.topology).devices
    mesh = Mesh(np.array(devices), ('cores',))
    everywhere, split = PartitionSpec(), PartitionSpec('cores')

    average = (lambda tree: tree) if args.sharded else lambda tree: jax.lax.pmean(tree, 'cores')
    net = jax_nets.resnet20(jnp.bfloat16 if args.bf16 else jnp.float32)
    state, step = jax_nets.training(net, average)
    if not args.sharded:
        step = jax.shard_map(step, mesh=mesh, in_specs=(everywhere, split, split), out_specs=(everywhere, everywhere),
                             check_vma=False)

    def described(shape, dtype, spec):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    compiled = jax.jit(step, donate_argnums=0).lower(
        jax.tree.map(lambda a: described(a.shape, a.dtype, everywhere), state),
        described((args.batch, 32, 32, 3), jnp.float32, split), described((args.batch,), jnp.int32, split)).compile()
    cost = compiled.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    print(json.dumps({'optimal_seconds': cost['optimal_seconds'],
                      'temporary': compiled.memory_analysis().temp_size_in_bytes,
                      'flops': cost['flops'], 'bytes_accessed': cost['bytes accessed']}))


if __name__ == '__main__':
    main()
