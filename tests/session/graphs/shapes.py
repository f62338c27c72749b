"""Operations of random graphs that rearrange and index: see operations.py."""

import numpy as np
from operations import FLOATS, INTEGERS, NUMBERS, add
from rows import tf

ANY = NUMBERS + ("bool",)


def ranked(g, least=1, most=9, **conditions):
    dtypes = conditions.get("dtypes", ANY)
    return g.pick(lambda v: v.dtype in dtypes and least <= len(v.shape) <= most)


def some_axis(g, x, known=False):
    shape = g.values[x].shape
    found = [k for k in range(len(shape)) if not known or shape[k] is not None]
    return g.r.choice(found) if found else None


def signed(g, axis, rank):
    return axis - rank if g.r.random() < 0.3 else axis


# ---- Shapes ----


def reshape(g):
    x = ranked(g, 0)
    shape = g.values[x].shape
    if shape.count(None) > 1 or (None in shape and 0 in shape):
        return None
    count = int(np.prod([n for n in shape if n is not None], dtype=np.int64))
    to = []
    while count > 1 and len(to) < 3:
        divisors = [d for d in range(2, count + 1) if count % d == 0]
        to.append(g.r.choice(divisors))
        count //= to[-1]
    to += [count] if count != 1 else []
    if g.r.random() < 0.3:
        to.insert(g.r.randint(0, len(to)), 1)
    if None in shape:
        to.insert(g.r.randint(0, len(to)), -1)
    elif to and 0 not in to and g.r.random() < 0.5:
        to[g.r.randrange(len(to))] = -1
    return [x], {"shape": to}


def register_shapes():
    add("reshape", reshape, lambda x, a: tf.reshape(x[0], a["shape"]))
    add("flatten", lambda g: None if (x := ranked(g, 2)) is None or any(0 in now.shape for now in g.values[x].now) else ([x], {}),
        lambda x, a: tf.reshape(x[0], tf.stack([tf.shape(x[0])[0], -1])))

    def like(g):
        x = ranked(g, 1)
        if x is None:
            return None
        y = g.pick(lambda v: all(p.size == q.size for p, q in zip(v.now, g.values[x].now)))
        return None if y is None else ([x, y], {})

    add("reshape_like", like, lambda x, a: tf.reshape(x[0], tf.shape(x[1])))

    def broadcast_to(g):
        y = ranked(g, 1)
        x = None if y is None else g.pick(lambda v: v.dtype in FLOATS + ("int32", "bool") and len(v.shape) <= len(g.values[y].shape) and all(
            p in (1, q) for now, to in zip(v.now, g.values[y].now) for p, q in zip(now.shape[::-1], to.shape[::-1])))
        return None if x is None else ([x, y], {})

    add("broadcast_to", broadcast_to, lambda x, a: tf.broadcast_to(x[0], tf.shape(x[1])))
    add("expand_dims", lambda g: ([x := ranked(g, 0, 3)], {"axis": g.r.randint(-len(g.values[x].shape) - 1, len(g.values[x].shape))}),
        lambda x, a: tf.expand_dims(x[0], a["axis"]))

    def squeeze(g):
        x = g.pick(lambda v: 1 in v.shape)
        if x is None:
            return None
        ones = [k for k, n in enumerate(g.values[x].shape) if n == 1]
        # All axes of size 1: not if another is unknown, which may be 1 in one Run only.
        every = None not in g.values[x].shape and g.r.random() < 0.3
        return [x], {"axis": [] if every else [signed(g, g.r.choice(ones), len(g.values[x].shape))]}

    add("squeeze", squeeze, lambda x, a: tf.squeeze(x[0], a["axis"]))

    def transpose(g):
        x = ranked(g, 2)
        if x is None:
            return None
        perm = list(range(len(g.values[x].shape)))
        g.r.shuffle(perm)
        return [x], {"perm": perm}

    add("transpose", transpose, lambda x, a: tf.transpose(x[0], a["perm"]))
    add("tile", lambda g: None if (x := ranked(g, 1, 3)) is None else (
        [x], {"multiples": [g.r.choice([1, 2, 1, 3, 0]) for _ in g.values[x].shape]}), lambda x, a: tf.tile(x[0], a["multiples"]))
    add("repeat", lambda g: None if (x := ranked(g, 1, 3)) is None else ([x], {"repeats": g.r.randint(0, 3), "axis": some_axis(g, x)}),
        lambda x, a: tf.repeat(x[0], a["repeats"], a["axis"]))
    add("reverse", lambda g: None if (x := ranked(g)) is None else ([x], {"axis": [some_axis(g, x)]}),
        lambda x, a: tf.reverse(x[0], a["axis"]))
    add("roll", lambda g: None if (x := ranked(g)) is None else ([x], {"shift": g.r.randint(-4, 4), "axis": some_axis(g, x)}),
        lambda x, a: tf.roll(x[0], a["shift"], a["axis"]))

    def pad(g):
        x = ranked(g, 1, 3, dtypes=FLOATS + ("int32", "int64"))
        if x is None:
            return None
        mode = g.r.choice(["CONSTANT", "CONSTANT", "REFLECT", "SYMMETRIC"])
        least = [min(now.shape[k] for now in g.values[x].now) for k in range(len(g.values[x].shape))]
        most = [2 if mode == "CONSTANT" else max(0, n - 1) for n in least]
        return [x], {"paddings": [[g.r.randint(0, m), g.r.randint(0, m)] for m in most], "mode": mode,
                     "value": g.r.choice([0, 3]) if mode == "CONSTANT" else 0}

    add("pad", pad, lambda x, a: tf.pad(x[0], a["paddings"], a["mode"], constant_values=a["value"]))


# ---- Joining, splitting, slices ----


def register_parts():
    def concat(g):
        x = ranked(g)
        if x is None:
            return None
        axis = some_axis(g, x)
        shape = g.values[x].shape
        alike = lambda v: v.dtype == g.values[x].dtype and len(v.shape) == len(shape) and all(
            p == q for k, (p, q) in enumerate(zip(v.shape, shape)) if k != axis) and all(
            p == q for now, to in zip(v.now, g.values[x].now) for k, (p, q) in enumerate(zip(now.shape, to.shape)) if k != axis)
        parts = [x] + [g.pick(alike) for _ in range(g.r.randint(0, 2))]
        return parts, {"axis": signed(g, axis, len(shape))}

    add("concat", concat, lambda x, a: tf.concat(x, a["axis"]))

    def stack(g):
        x = ranked(g, 0, 3)
        parts = [x] + [g.pick(lambda v: g.same_type(v, g.values[x])) for _ in range(g.r.randint(0, 2))]
        return parts, {"axis": g.r.randint(-len(g.values[x].shape) - 1, len(g.values[x].shape))}

    add("stack", stack, lambda x, a: tf.stack(x, a["axis"]))

    def unstack(g):
        x = g.pick(lambda v: any(n is not None and 1 <= n <= 3 for n in v.shape))
        if x is None:
            return None
        found = [k for k, n in enumerate(g.values[x].shape) if n is not None and 1 <= n <= 3]
        return [x], {"axis": signed(g, g.r.choice(found), len(g.values[x].shape))}

    add("unstack", unstack, lambda x, a: tf.unstack(x[0], axis=a["axis"]))

    def split(g):
        x = g.pick(lambda v: any(n is not None and n >= 2 for n in v.shape))
        if x is None:
            return None
        axis = g.r.choice([k for k, n in enumerate(g.values[x].shape) if n is not None and n >= 2])
        size = g.values[x].shape[axis]
        if g.r.random() < 0.5:
            return [x], {"number": g.r.choice([d for d in range(1, size + 1) if size % d == 0]), "axis": axis}
        first = g.r.randint(0, size)
        return [x], {"sizes": [first, g.r.choice([-1, size - first])], "axis": signed(g, axis, len(g.values[x].shape))}

    add("split", split, lambda x, a: tf.split(x[0], a["number"] if "number" in a else a["sizes"], a["axis"]))

    def slice_(g):
        x = ranked(g)
        if x is None:
            return None
        least = [min(now.shape[k] for now in g.values[x].now) for k in range(len(g.values[x].shape))]
        begin = [g.r.randint(0, n) for n in least]
        return [x], {"begin": begin, "size": [g.r.choice([-1, g.r.randint(0, n - b)]) for n, b in zip(least, begin)]}

    add("slice", slice_, lambda x, a: tf.slice(x[0], a["begin"], a["size"]))

    def item(g):
        x = ranked(g)
        if x is None:
            return None
        parts, left = [], len(g.values[x].shape)
        least = [min(now.shape[k] for now in g.values[x].now) for k in range(left)]
        for k in range(left):
            kind = g.r.random()
            if kind < 0.1:
                parts.append("new")
            if kind < 0.2 and "..." not in parts:
                parts.append("...")
                break
            if kind < 0.45 and least[k] > 0:
                parts.append(g.r.randrange(-least[k], least[k]))
            else:
                parts.append([g.r.choice([None, g.r.randint(-3, 3)]), g.r.choice([None, g.r.randint(-3, 4)]), g.r.choice([1, 1, 2, -1, -2])])
        return [x], {"index": parts}

    def take(x, a):
        return x[0][tuple(tf.newaxis if p == "new" else Ellipsis if p == "..." else slice(*p) if isinstance(p, list) else p
                          for p in a["index"])]

    add("item", item, take)


# ---- Indexing by tensors ----


def index_of(g, shape=None):
    return g.pick(lambda v: v.dtype in ("int32", "int64") and len(v.shape) <= 2 and (shape is None or v.shape[:len(shape)] == shape))


def register_indexing():
    def gather(g):
        x = g.pick(lambda v: any(n is not None and n >= 1 for n in v.shape) and v.dtype in ANY)
        if x is None:
            return None
        shape = g.values[x].shape
        axis = g.r.choice([k for k, n in enumerate(shape) if n is not None and n >= 1])
        batch = 1 if axis >= 1 and g.r.random() < 0.4 else 0
        i = g.pick(lambda v: v.dtype in ("int32", "int64") and len(v.shape) <= 2 and v.shape[:batch] == shape[:batch] and all(
            p.shape[:batch] == q.shape[:batch] for p, q in zip(v.now, g.values[x].now)))
        return None if i is None else ([x, i], {"axis": axis, "batch": batch, "limit": shape[axis]})

    add("gather", gather, lambda x, a: tf.gather(x[0], tf.floormod(x[1], a["limit"]), axis=a["axis"], batch_dims=a["batch"]))

    def rows(g):
        x = g.pick(lambda v: len(v.shape) >= 1 and v.shape[0] is not None and v.shape[0] >= 1 and v.dtype in FLOATS + ("int32",))
        i = g.pick(lambda v: v.dtype in ("int32", "int64") and len(v.shape) == 1)
        if None in (x, i):
            return None
        u = g.pick(lambda v: v.dtype == g.values[x].dtype and v.shape == [g.values[i].shape[0]] + g.values[x].shape[1:] and all(
            list(p.shape) == list(q.shape) + list(s.shape[1:]) for p, q, s in zip(v.now, g.values[i].now, g.values[x].now)))
        return [x, i, u], {"limit": g.values[x].shape[0]}

    add("gather_nd", lambda g: None if (d := rows(g)) is None else (d[0][:2], d[1]),
        lambda x, a: tf.gather_nd(x[0], tf.expand_dims(tf.floormod(x[1], a["limit"]), -1)))
    add("scatter_add", lambda g: None if (d := rows(g)) is None or d[0][2] is None else d,
        lambda x, a: tf.tensor_scatter_add(x[0], tf.expand_dims(tf.floormod(x[1], a["limit"]), -1), x[2]))

    def segments(g):
        i = g.pick(lambda v: v.dtype in ("int32", "int64") and len(v.shape) == 1)
        x = None if i is None else g.pick(lambda v: v.dtype in FLOATS + ("int32",) and len(v.shape) >= 1 and v.shape[0] == g.values[i].shape[0]
                                          and all(p.shape[0] == q.shape[0] for p, q in zip(v.now, g.values[i].now)))
        return None if x is None else ([x, i], {"number": g.r.randint(1, 4)})

    for name in ("unsorted_segment_sum", "unsorted_segment_mean", "unsorted_segment_prod"):
        add(name, segments, lambda x, a, name=name: getattr(tf, name)(x[0], tf.floormod(x[1], a["number"]), a["number"]))

    add("one_hot", lambda g: None if (i := index_of(g)) is None else (
        [i], {"depth": g.r.randint(0, 4), "axis": g.r.randint(-1, len(g.values[i].shape)),
              "dtype": g.r.choice(["float32", "int32", "bool", "float64"])}),
        lambda x, a: tf.one_hot(x[0], a["depth"], axis=a["axis"], dtype=a["dtype"], **(
            {"on_value": True, "off_value": False} if a["dtype"] == "bool" else {})))
    add("sequence_mask", lambda g: None if (i := index_of(g)) is None else ([i], {"length": g.r.randint(0, 4)}),
        lambda x, a: tf.sequence_mask(x[0], a["length"]))
    add("top_k", lambda g: None if (x := g.pick(lambda v: v.dtype in FLOATS + ("int32",) and v.exact and len(v.shape) >= 1 and all(
        now.shape[-1] >= 1 for now in v.now))) is None else (
        [x], {"k": g.r.randint(1, min(now.shape[-1] for now in g.values[x].now))}),
        lambda x, a: list(tf.nn.top_k(x[0], a["k"])))
    add("band_part", lambda g: None if (x := ranked(g, 2, dtypes=FLOATS + ("int32",))) is None else (
        [x], {"lower": g.r.randint(-1, 2), "upper": g.r.randint(-1, 2)}),
        lambda x, a: tf.matrix_band_part(x[0], a["lower"], a["upper"]))
    add("diag_part", lambda g: None if (x := ranked(g, 2, dtypes=FLOATS + ("int32",))) is None or any(
        0 in now.shape for now in g.values[x].now) else ([x], {}), lambda x, a: tf.matrix_diag_part(x[0]))
    add("fill", lambda g: None if (x := ranked(g, 0)) is None else (
        [x, g.pick(lambda v: v.dtype in FLOATS + ("int32",) and len(v.shape) == 0)], {}) if g.pick(
        lambda v: v.dtype in FLOATS + ("int32",) and len(v.shape) == 0) is not None else None,
        lambda x, a: tf.fill(tf.shape(x[0]), x[1]))
    add("range", lambda g: None if (x := ranked(g)) is None else ([x], {"axis": some_axis(g, x)}),
        lambda x, a: tf.range(tf.shape(x[0])[a["axis"]]))
