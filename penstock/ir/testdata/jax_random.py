"""Writes jax_random.inc: what JAX draws, for random_test.cc to compare with.

    pip install jax==0.10.2 && python3 jax_random.py > jax_random.inc
"""
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_threefry_partitionable", True)


def table(name, array):
    array = np.asarray(array)
    if array.dtype == bool:
        values = [str(int(v)) for v in array.ravel()]
    elif np.issubdtype(array.dtype, np.integer):
        suffix = "u" if array.dtype == np.uint64 else ""
        values = [f"{int(v)}{suffix}" for v in array.ravel()]
    else:  # exact, whatever the type
        values = [float(v).hex() for v in array.ravel()]
    kind = "uint64_t" if array.dtype == np.uint64 else "double"
    print(f"const std::vector<{kind}> k{name} = {{{', '.join(values)}}};")


print("// Written by jax_random.py; JAX", jax.__version__)
for seed in (0, 42, (1 << 40) + 7):
    key = jax.random.PRNGKey(seed)
    s = {0: "Zero", 42: "FortyTwo"}.get(seed, "Wide")
    table(s + "Key", key)
    table(s + "Split", jax.random.split(key, 3))
    table(s + "FoldIn", jax.random.fold_in(key, 5))
    table(s + "Bits32", jax.random.bits(key, (2, 3), "uint32"))
key = jax.random.PRNGKey(42)
r = jax.random
table("Bits8", r.bits(key, (5,), "uint8"))
table("Bits16", r.bits(key, (5,), "uint16"))
table("Bits64", r.bits(key, (3,), "uint64"))
table("UniformF32", r.uniform(key, (7,), "float32"))
table("UniformRange", r.uniform(key, (7,), "float32", -2, 5))
table("UniformBF16", r.uniform(key, (9,), "bfloat16"))
table("UniformF16", r.uniform(key, (5,), "float16"))
table("UniformF64", r.uniform(key, (3,), "float64"))
table("Normal", r.normal(key, (4000,), "float32")[::250])
table("TruncatedNormal", r.truncated_normal(key, -2, 2, (4000,), "float32")[::250])
table("Bernoulli", r.bernoulli(key, np.float32(0.3), (24,)))
table("IntI32", r.randint(key, (6,), -10, 17, "int32"))
table("IntWide32", r.randint(key, (6,), -(2**31), 2**31 - 1, "int32"))
table("IntI64", r.randint(key, (6,), -5, 10**12, "int64"))
table("IntU8", r.randint(key, (6,), 0, 256, "uint8"))
table("IntI8", r.randint(key, (6,), -100, 100, "int8"))
