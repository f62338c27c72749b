"""Computes random calls of every operation of penstock/ir/ops.h with JAX.

Usage: expect.py FOLDER SEED ROUNDS [CASE]: ROUNDS cases of each operation, or the one of that number. Writes cases.json,
a list of cases, and tensors.safetensors, whose tensors are named "<index>/<what>":

  input/I        argument I of the operation
  cotangent/L/I  incoming gradient of a result (L = 0), or of a gradient (L = 1) for gradients of gradients
  want/I         results, then gradients with respect to each float input, then second derivatives likewise
  same/I         floats: JAX's result in the case's own type
  bound/I        floats: maximum allowed distance from `want`

The bound follows from the type. JAX also computes every float result in float64; `want` is that result, rounded
once. The bound is its change when the inputs (unless values are merely selected) and cotangents change by one
rounding of the type, times ROUNDINGS, plus twice the error that JAX itself makes in this type. So sums may deviate by
the roundings of their terms, and functions by their derivative times the rounding of their input.
A result equal to JAX's in the same type is accepted as well; this covers overflows and denormals.
"""

import json
import os
import pathlib
import re
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
# Hundreds of small programs run once each, so optimize for compile time. Maxima propagate NaNs, as in Penstock.
os.environ["XLA_FLAGS"] = ("--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
                           "--xla_cpu_use_fusion_emitters=false --xla_cpu_enable_fast_min_max=false")

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import safetensors.numpy

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_threefry_partitionable", True)

import contractions
import control_flow
import elementwise
import indexing
import random_numbers
import reductions
import shapes
from draw import SAME_TYPE, SELECTS, SMOOTH, Draw, is_float, numpy_type

OPERATIONS = {**elementwise.OPERATIONS, **shapes.OPERATIONS, **contractions.OPERATIONS, **reductions.OPERATIONS,
              **indexing.OPERATIONS, **random_numbers.OPERATIONS, **control_flow.OPERATIONS}

REPLICAS = "is about several replicas; collectives_test compares with formulas"
NOT_COMPARABLE = {
    **{name: REPLICAS for name in ("ReplicaId", "AllReduce", "AllGather", "ReduceScatter", "AllToAll",
                                   "CollectivePermute")},
    "CustomCall": "is what the called kernel makes of it; runtime and kernels test theirs",
}
# Functions that ops.h overloads; the cases choose among the overloads.
FORMS = {"operator+": 3, "operator-": 4, "operator*": 3, "operator/": 3, "Split": 2, "Sort": 2, "FoldIn": 2,
         "AllReduce": 2}

ROUNDINGS = 8  # one operation may be composed of several others, each of which rounds
PERTURBATIONS = 4


# ---- Completeness ----


def declared(header):
    """Names of the functions that a header declares at the start of a line, once per overload."""
    text = re.sub(r"//.*", "", header)
    return re.findall(r"^(?!using|struct|enum|namespace)[A-Za-z_][\w:<>, ]* (operator[^\s(]+|[A-Z]\w*)\(", text, re.M)


def check_completeness(header):
    names = declared(header)
    known = {**dict.fromkeys(OPERATIONS), **dict.fromkeys(NOT_COMPARABLE)}
    problems = [f"{name} of ops.h has no random cases: add them, or a reason to NOT_COMPARABLE"
                for name in sorted(set(names) - known.keys())]
    problems += [f"{name} has random cases or a reason, and is not in ops.h" for name in known if name not in names]
    problems += [f"ops.h declares {names.count(name)} forms of {name}, its cases know {FORMS.get(name, 1)} (FORMS)"
                 for name in known if name in names and names.count(name) != FORMS.get(name, 1)]
    if problems:
        sys.exit("tests/operations: " + "\n".join(problems))


# ---- Evaluation with JAX ----


def as_list(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def floats_of(values):
    return [i for i, value in enumerate(values) if is_float(value.dtype)]


def with_gradients(case):
    """A function of (inputs, cotangents by level) that returns results, gradients, and gradients of gradients."""
    where = floats_of(case.inputs)

    def call(inputs, cotangents):
        def results(xs):
            given = list(inputs)
            for i, x in zip(where, xs):
                given[i] = x
            return [jnp.asarray(r) for r in as_list(case.function(*given))]

        def gradients(function, weights):
            return lambda xs: list(jax.vjp(lambda xs: [y for y in function(xs) if is_float(y.dtype)], xs)[1](weights)[0])

        xs, levels = [inputs[i] for i in where], [results]
        for weights in cotangents:
            levels.append(gradients(levels[-1], weights))
        return [y for level in levels for y in level(xs)]

    return call


def types_of(case):
    results = lambda inputs: [jnp.asarray(r) for r in as_list(case.function(*inputs))]
    return jax.eval_shape(results, [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in case.inputs])


def draw_cotangents(case, draw):
    results, inputs = types_of(case), [case.inputs[i] for i in floats_of(case.inputs)]
    levels = [[results[i] for i in floats_of(results)], inputs][:case.order]
    if not levels or not levels[0] or not inputs:
        case.order = 0
        return []
    return [[draw.normal(y.shape, str(y.dtype)) for y in level] for level in levels]


def widened(x):
    return x.astype(np.float64) if is_float(x.dtype) else x


def perturbed(x, random):
    """Changes each element by up to one rounding of its type."""
    if not is_float(x.dtype):
        return x
    share = random.uniform(0.5, 1, x.shape) * random.choice([-1, 1], x.shape)
    with np.errstate(all="ignore"):
        return widened(x) * (1 + float(ml_dtypes.finfo(x.dtype).eps) * share)


ROWS_PER_PROGRAM = 16  # compilation takes most of the time


def compute(cases, arguments, repeated=1):
    """Results of all cases for each of `repeated` lists of arguments, computed by shared programs."""
    out = [[] for _ in range(repeated)]
    for at in range(0, len(cases), ROWS_PER_PROGRAM):
        functions = [with_gradients(case) for case in cases[at:at + ROWS_PER_PROGRAM]]
        program = jax.jit(lambda all_of: [f(*a) for f, a in zip(functions, all_of)])
        for i in range(repeated):
            results = program(arguments[i][at:at + ROWS_PER_PROGRAM])
            out[i] += [[np.asarray(r) for r in case] for case in results]
    return out


def rounded(x, dtype):
    with np.errstate(all="ignore"):
        return x.astype(dtype).astype(np.float64)


def in_same_type(case, same):
    """SAME_TYPE: a few roundings of the relevant type."""
    own = widened(same)
    size = np.maximum(np.abs(own), case.magnitude)
    bound = ROUNDINGS * float(ml_dtypes.finfo(numpy_type(case.computes_in or str(same.dtype))).eps) * size
    return own, np.where(np.isfinite(bound), bound, 0)


def beside_double(case, same, wide, changed, incoming):
    """SMOOTH and SELECTS: the exact result and its bound. `incoming`: size of a gradient's cotangents; 0 for results."""
    info = ml_dtypes.finfo(same.dtype)
    want = rounded(wide, same.dtype)
    # XLA:CPU flushes denormals to zero, except those of float16, which it computes in float32.
    smallest = float(info.smallest_subnormal if same.dtype == np.float16 else info.tiny)
    if case.compare == SELECTS and incoming == 0:
        return want, np.full_like(want, 0 if same.dtype == np.float16 else smallest)
    with np.errstate(all="ignore"):
        effect = np.max([np.abs(x - wide) for x in changed], axis=0, initial=0) if wide.size else wide
        size = np.abs(want) + (incoming if case.saturates else 0)
        bound = ROUNDINGS * (np.where(np.isfinite(effect), effect, 0) + float(info.eps) * size)
        error_of_jax = np.abs(widened(same) - want)
    bound = bound + 2 * np.where(np.isfinite(error_of_jax), error_of_jax, 0) + ROUNDINGS * smallest
    return want, np.where(np.isfinite(bound), bound, 0)


def sizes_of_cotangents(case, cotangents, count):
    """For each result: 0, or for a gradient the maximum product of the cotangents that it sums."""
    gradients, size = [], 1.0
    for level in cotangents:
        size *= max([1.0, *(float(np.abs(widened(x)).max(initial=0)) for x in level)])
        gradients += [size] * len(floats_of(case.inputs))
    return [0.0] * (count - len(gradients)) + gradients


def describe(name, case):
    kinds = ", ".join(f"{x.dtype}{list(x.shape)}" for x in case.inputs)
    return f"{name}({kinds}) {json.dumps(case.options)} order {case.order}"


class Expected:
    def __init__(self):
        self.rows, self.tensors = [], {}

    def add(self, number, name, case, cotangents, same, wide, changed):
        row = {"number": number, "operation": name, "options": case.options, "inputs": len(case.inputs),
               "cotangents": [len(level) for level in cotangents], "results": len(same), "name": describe(name, case)}
        put = lambda what, value: self.tensors.__setitem__(f"{len(self.rows)}/{what}", np.array(value, order="C"))
        for i, x in enumerate(case.inputs):
            put(f"input/{i}", x)
        for level, weights in enumerate(cotangents):
            for i, weight in enumerate(weights):
                put(f"cotangent/{level}/{i}", weight)
        incoming = sizes_of_cotangents(case, cotangents, len(same))
        for i, own in enumerate(same):
            if not is_float(own.dtype):
                put(f"want/{i}", own)
                continue
            want, bound = in_same_type(case, own) if case.compare == SAME_TYPE else beside_double(
                case, own, wide[i], [other[i] for other in changed], incoming[i])
            put(f"want/{i}", want)
            put(f"same/{i}", own)
            put(f"bound/{i}", bound)
        self.rows.append(row)

    def write(self, folder):
        (folder / "cases.json").write_text(json.dumps(self.rows))
        safetensors.numpy.save_file(self.tensors, folder / "tensors.safetensors")


def in_double(case, cotangents, random=None):
    """The arguments in float64, perturbed by roundings if `random` is given."""
    change = (lambda x: perturbed(x, random)) if random is not None else widened
    inputs = [change(x) if case.compare == SMOOTH else widened(x) for x in case.inputs]
    return inputs, [[change(x) for x in level] for level in cotangents]


def main(folder, seed, rounds, only=None):
    root = pathlib.Path(__file__).resolve().parents[2]
    check_completeness((root / "penstock/ir/ops.h").read_text())
    numbers = range(int(rounds) * len(OPERATIONS)) if only is None else [int(only)]
    names, drawn = list(OPERATIONS), []
    for number in numbers:
        # A separate generator for each case: draws of one case do not affect others.
        draw = Draw(f"{seed}/{number}")
        name = names[number % len(names)]
        case = OPERATIONS[name](draw=draw)
        drawn.append((number, name, case, draw_cotangents(case, draw)))
    cases = [case for _, _, case, _ in drawn]
    same, = compute(cases, [[(case.inputs, weights) for *_, case, weights in drawn]])
    doubles = [(number, name, case, weights) for number, name, case, weights in drawn if case.compare != SAME_TYPE]
    random = np.random.default_rng(0)
    arguments = [[in_double(case, weights, random if i else None) for *_, case, weights in doubles]
                 for i in range(1 + PERTURBATIONS)]
    wide = compute([case for *_, case, _ in doubles], arguments, len(arguments))
    by_number = {number: [results[i] for results in wide] for i, (number, *_) in enumerate(doubles)}
    expected = Expected()
    for (number, name, case, weights), own in zip(drawn, same):
        exact, *changed = by_number.get(number, [None])
        expected.add(number, name, case, weights, own, exact, changed)
    expected.write(pathlib.Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
