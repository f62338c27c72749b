"""Operations of random graphs: how TensorFlow makes them from inputs and arguments, and random choices of both.

OPERATIONS[name] = (draw, build). draw(g) returns (ids of inputs, arguments) or None if no tensor fits; build(x, a) returns a tensor
or a list of them. session's form of each is in graphs_test.cc.
"""

from rows import tf

FLOATS = ("float32", "float64")
HALVES = ("bfloat16", "float16")
SIGNED = ("int32", "int64", "int8", "int16")
INTEGERS = SIGNED + ("uint8",)
NUMBERS = FLOATS + HALVES + INTEGERS
BITS = ("int32", "int64", "uint8")
OPERATIONS = {}


def add(name, draw, build):
    OPERATIONS[name] = (draw, build)


def unary(function, dtypes, exact=None):
    """One input of these types; `exact`: whether the input has to be exact, because the function has steps."""
    name = function.__name__

    def draw(g):
        x = g.pick(lambda v: v.dtype in dtypes and (v.exact or not exact))
        return None if x is None else ([x], {})

    return name, draw, lambda x, a: function(x[0])


def register_unary():
    for function in (tf.abs, tf.sign, tf.negative):
        add(*unary(function, FLOATS + HALVES + SIGNED, exact=True))
    for function in (tf.square, tf.zeros_like, tf.ones_like, tf.identity, tf.stop_gradient):
        add(*unary(function, NUMBERS))
    for function in (tf.sigmoid, tf.tanh, tf.sin, tf.cos, tf.atan, tf.erf, tf.exp, tf.expm1, tf.nn.softplus, tf.nn.elu,
                     tf.nn.selu, tf.nn.softsign, tf.nn.softmax, tf.nn.log_softmax, tf.log_sigmoid, tf.sinh, tf.asinh):
        add(*unary(function, FLOATS))
    for function in (tf.floor, tf.ceil, tf.round, tf.rint, tf.nn.relu, tf.nn.relu6, tf.nn.leaky_relu):
        add(*unary(function, FLOATS, exact=True))
    for function in (tf.is_finite, tf.is_nan):
        add(*unary(function, FLOATS + HALVES))
    for function in (tf.logical_not,):
        add(*unary(function, ("bool",)))
    add("log", unary(tf.log, FLOATS)[1], lambda x, a: tf.log(tf.abs(x[0]) + 1))
    add("log1p", unary(tf.log1p, FLOATS)[1], lambda x, a: tf.log1p(tf.square(x[0])))
    add("rsqrt", unary(tf.rsqrt, FLOATS)[1], lambda x, a: tf.rsqrt(tf.square(x[0]) + 1))
    add("sqrt", unary(tf.sqrt, FLOATS)[1], lambda x, a: tf.sqrt(tf.square(x[0]) + 1))
    for name in ("shape", "size", "rank"):
        add(name, lambda g: ([g.pick()], {"dtype": g.r.choice(["int32", "int64"])}) if g.values else None,
            lambda x, a, name=name: getattr(tf, name)(x[0], **({} if name == "rank" else {"out_type": a["dtype"]})))


# ---- Two operands ----


def pair(g, dtypes, exact):
    x = g.pick(lambda v: v.dtype in dtypes and (v.exact or not exact))
    if x is None:
        return None
    if g.r.random() < 0.3:
        return [x], {"number": g.r.choice([-2, -1, 1, 2, 3, 0.5, 1.5] if "float" in g.values[x].dtype else [1, 2, 3]),
                     "first": g.r.random() < 0.3}
    y = g.pick(lambda v: v.dtype == g.values[x].dtype and (v.exact or not exact) and g.broadcasts(g.values[x], v))
    return None if y is None else ([x, y], {})


def binary(name, function, dtypes, exact=False):
    def build(x, a):
        if "number" not in a:
            return function(x[0], x[1])
        return function(a["number"], x[0]) if a["first"] else function(x[0], a["number"])

    add(name, lambda g: pair(g, dtypes, exact), build)


def register_binary():
    for function in (tf.add, tf.subtract, tf.multiply):
        binary(function.__name__, function, NUMBERS)
    for function in (tf.maximum, tf.minimum):
        binary(function.__name__, function, FLOATS + ("int32", "int64"), exact=True)
    for function in (tf.squared_difference,):
        binary(function.__name__, function, FLOATS + ("int32", "int64"))
    for function in (tf.less, tf.less_equal, tf.greater, tf.greater_equal, tf.equal, tf.not_equal):
        binary(function.__name__, function, FLOATS + INTEGERS, exact=True)
    for function in (tf.logical_and, tf.logical_or, tf.logical_xor):
        add(function.__name__, lambda g: None if (p := pair(g, ("bool",), True)) is None or "number" in p[1] else p,
            lambda x, a, function=function: function(x[0], x[1]))
    for function in (tf.bitwise.bitwise_and, tf.bitwise.bitwise_or, tf.bitwise.bitwise_xor):
        binary(function.__name__, function, BITS)
    binary("atan2", lambda x, y: tf.atan2(x, tf.abs(y) + 1), FLOATS)
    binary("div_no_nan", tf.div_no_nan, FLOATS, exact=True)
    for function in (tf.floordiv, tf.floormod, tf.truncatediv, tf.truncatemod, tf.truediv, tf.div):
        name = function.__name__.replace("_", "")
        dtypes = ("int32", "int64") if "trunc" in name else ("int32", "int64") + FLOATS

        def draw(g, dtypes=dtypes):
            x = g.pick(lambda v: v.dtype in dtypes and v.exact)
            return None if x is None else ([x], {"number": g.r.choice([1, 2, 3, 4, 7, -2, -3])})

        add(name, draw, lambda x, a, function=function: function(x[0], a["number"]))


# ---- Selection and types ----


def register_selection():
    def where(g):
        x = g.pick(lambda v: True)
        y = g.pick(lambda v: g.same_type(v, g.values[x]))
        c = g.pick(lambda v: v.dtype == "bool" and v.shape == g.values[x].shape)
        if c is None:
            c = g.pick(lambda v: v.dtype == "bool" and len(v.shape) == 1 and len(g.values[x].shape) > 1
                       and v.shape[0] == g.values[x].shape[0])
        return None if None in (x, y, c) else ([c, x, y], {})

    def where_v2(g):
        c = g.pick(lambda v: v.dtype == "bool")
        x = None if c is None else g.pick(lambda v: g.broadcasts(g.values[c], v))
        y = None if x is None else g.pick(lambda v: v.dtype == g.values[x].dtype and g.broadcasts(g.values[x], v))
        return None if None in (c, x, y) else ([c, x, y], {})

    add("where", where, lambda x, a: tf.where(*x))
    add("where_v2", where_v2, lambda x, a: tf.where_v2(*x))

    def cast(g):
        x = g.pick(lambda v: v.exact)
        if x is None:
            return None
        small = all(abs(float(e)) <= 100 and (float(e) >= 0 or g.values[x].dtype != "bool")
                    for now in g.values[x].now for e in now.flat)
        positive = all(float(e) >= 0 for now in g.values[x].now for e in now.flat)
        to = ["float32", "float64", "int32", "int64", "bool"] + (["int8", "int16", "bfloat16", "float16"] if small else []) + (
            ["uint8"] if small and positive else [])
        return [x], {"dtype": g.r.choice(to)}

    add("cast", cast, lambda x, a: tf.cast(x[0], a["dtype"]))
    add("clip_by_value", lambda g: None if (x := g.pick(lambda v: v.dtype in FLOATS + ("int32",) and v.exact)) is None else (
        [x], {"min": g.r.choice([-2, 0]), "max": g.r.choice([1, 3])}), lambda x, a: tf.clip_by_value(x[0], a["min"], a["max"]))


# ---- Reductions ----


def axes(g, x):
    rank = len(g.values[x].shape)
    kind = g.r.random()
    if kind < 0.3 or rank == 0:
        return None
    if kind < 0.6:
        return g.r.randrange(-rank, rank)
    return sorted(g.r.sample(range(rank), g.r.randint(1, rank)))


def register_reductions():
    for name, dtypes, exact in (("reduce_sum", FLOATS + ("int32", "int64", "bfloat16"), False), ("reduce_mean", FLOATS, False),
                                ("reduce_prod", FLOATS + ("int32",), False), ("reduce_max", FLOATS + INTEGERS, True),
                                ("reduce_min", FLOATS + INTEGERS, True), ("reduce_all", ("bool",), True),
                                ("reduce_any", ("bool",), True), ("reduce_logsumexp", FLOATS, False)):
        def draw(g, dtypes=dtypes, exact=exact):
            x = g.pick(lambda v: v.dtype in dtypes and (v.exact or not exact))
            return None if x is None else ([x], {"axis": axes(g, x), "keepdims": g.r.random() < 0.4})

        add(name, draw, lambda x, a, name=name: getattr(tf, name)(x[0], a["axis"], keepdims=a["keepdims"]))

    def one_axis(dtypes, exact, least=0):
        def draw(g):
            x = g.pick(lambda v: v.dtype in dtypes and (v.exact or not exact) and len(v.shape) > 0
                       and all(min(now.shape) >= least for now in v.now))
            return None if x is None else ([x], {"axis": g.r.randrange(-len(g.values[x].shape), len(g.values[x].shape))})

        return draw

    for name in ("argmax", "argmin"):
        add(name, one_axis(FLOATS + ("int32", "int64", "uint8"), True, least=1), lambda x, a, name=name: getattr(tf, name)(x[0], a["axis"]))
    add("count_nonzero", one_axis(FLOATS + ("int32", "bool"), True), lambda x, a: tf.count_nonzero(x[0], a["axis"]))
    for name in ("cumsum", "cumprod"):
        draw = one_axis(FLOATS + ("int32", "int64"), False)
        add(name, lambda g, draw=draw: None if (d := draw(g)) is None else (
            d[0], {**d[1], "exclusive": g.r.random() < 0.4, "reverse": g.r.random() < 0.4}),
            lambda x, a, name=name: getattr(tf, name)(x[0], a["axis"], a["exclusive"], a["reverse"]))
    add("sort", one_axis(FLOATS + ("int32", "int64"), True), lambda x, a: tf.sort(x[0], a["axis"]))
    add("argsort", one_axis(FLOATS + ("int32",), True), lambda x, a: tf.argsort(x[0], a["axis"], stable=True))
    add("moments", one_axis(FLOATS, False, least=1), lambda x, a: tf.nn.moments(x[0], [a["axis"]]))


# ---- Products ----


def register_products():
    def matmul(g):
        x = g.pick(lambda v: v.dtype in FLOATS + ("int32",) and len(v.shape) >= 2)
        if x is None:
            return None
        a = {"ta": g.r.random() < 0.4, "tb": g.r.random() < 0.4}
        inner = g.values[x].shape[-2 if a["ta"] else -1]
        y = g.pick(lambda v: v.dtype == g.values[x].dtype and len(v.shape) == len(g.values[x].shape)
                   and v.shape[:-2] == g.values[x].shape[:-2] and v.shape[-1 if a["tb"] else -2] == inner)
        return None if y is None else ([x, y], a)

    add("matmul", matmul, lambda x, a: tf.matmul(x[0], x[1], transpose_a=a["ta"], transpose_b=a["tb"]))

    def tensordot(g):
        x = g.pick(lambda v: v.dtype in FLOATS and len(v.shape) >= 1)
        y = None if x is None else g.pick(lambda v: v.dtype == g.values[x].dtype and len(v.shape) >= 1
                                          and v.shape[0] == g.values[x].shape[-1] and None not in v.shape)
        return None if y is None else ([x, y], {})

    add("tensordot", tensordot, lambda x, a: tf.tensordot(x[0], x[1], 1))
    add("einsum", lambda g: None if (x := g.pick(lambda v: v.dtype in FLOATS and len(v.shape) == 2)) is None else (
        [x, x], {"equation": g.r.choice(["ij,ij->i", "ij,kj->ik", "ij,ik->kj", "ij,ij->ji"])}),
        lambda x, a: tf.einsum(a["equation"], *x))

    def add_n(g):
        x = g.pick(lambda v: v.dtype in FLOATS + ("int32",))
        y = g.pick(lambda v: x is not None and g.same_type(v, g.values[x]))
        return None if None in (x, y) else ([x, y, x], {})

    add("add_n", add_n, lambda x, a: tf.add_n(x))

    def bias_add(g):
        x = g.pick(lambda v: v.dtype in FLOATS and len(v.shape) >= 2)
        y = None if x is None else g.pick(lambda v: v.dtype == g.values[x].dtype and v.shape == g.values[x].shape[-1:])
        return None if y is None else ([x, y], {})

    add("bias_add", bias_add, lambda x, a: tf.nn.bias_add(*x))

    def two_alike(g, integer_labels=False):
        x = g.pick(lambda v: v.dtype in FLOATS and len(v.shape) == 2 and all(now.shape[1] > 0 for now in v.now))
        if x is None:
            return None
        y = g.pick(lambda v: g.same_type(v, g.values[x]))
        return None if y is None else ([y, x], {})

    add("sigmoid_xent", two_alike, lambda x, a: tf.nn.sigmoid_cross_entropy_with_logits(labels=x[0], logits=x[1]))
    add("softmax_xent", two_alike, lambda x, a: tf.nn.softmax_cross_entropy_with_logits_v2(labels=x[0], logits=x[1]))
