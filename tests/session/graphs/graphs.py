"""Random graphs of TensorFlow 1, and what its session makes of them (tf.compat.v1).

Usage: graphs.py FOLDER SEED COUNT [LENGTH]    writes FOLDER/<seed>.json for each seed from SEED on

A graph is a list of instructions that create placeholders of unknown extents, variables, operations, bodies of cond and while_loop,
gradients and updates of optimizers. It is run several times with other shapes, fetches and feeds; the file has the values of
fetches and the variables after each Run. Variables are read and assigned in an order given by control dependencies. Functions with
steps (floor, less, casts) get numbers only that are exact in both, so that rounding cannot be amplified.
"""

import contextlib
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from rows import np, tf  # first: it sets the environment

import operations
import shapes

operations.register_unary()
operations.register_binary()
operations.register_selection()
operations.register_reductions()
operations.register_products()
shapes.register_shapes()
shapes.register_parts()
shapes.register_indexing()
OPERATIONS = operations.OPERATIONS
FLOATS = operations.FLOATS
# Results are rounded in one way or another.
INEXACT = set("""sigmoid tanh sin cos atan erf exp expm1 softplus elu selu softsign softmax log_softmax log_sigmoid sinh asinh log
log1p rsqrt sqrt atan2 div_no_nan reduce_mean reduce_logsumexp moments unsorted_segment_mean sigmoid_xent softmax_xent
gradients""".split())
OPTIMIZERS = {
    "GradientDescent": lambda: tf.train.GradientDescentOptimizer(0.125),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.125, 0.5),
    "Nesterov": lambda: tf.train.MomentumOptimizer(0.125, 0.5, use_nesterov=True),
    "Adam": lambda: tf.train.AdamOptimizer(0.05),
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "RMSProp": lambda: tf.train.RMSPropOptimizer(0.01, momentum=0.5),
    "Ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


def array_json(array):
    array = np.asarray(array)
    name = str(array.dtype)
    wide = array.astype(np.float64) if "float" in name else array.astype(np.int64)
    values = [int(v) if name == "bool" or "int" in name else float(v) if np.isfinite(v) else str(float(v)) for v in wide.flat]
    return {"dtype": name, "shape": list(array.shape), "values": values}


def session_of(graph):
    """A session that executes the graph as it is: TensorFlow's optimizer drops branches, with the assignments that they need."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return tf.Session(graph=graph, config=config)


class Builder:
    """Makes the graph of instructions."""

    def __init__(self):
        self.graph = tf.Graph()
        self.x, self.variables, self.scopes = {}, {}, []

    def build(self, i):
        with self.graph.as_default() if not self.scopes else contextlib.nullcontext():
            return self.build_here(i)

    def build_here(self, i):
        control = [self.operation(k) for k in i.get("control", [])]
        with tf.control_dependencies(control) if control else contextlib.nullcontext():
            special = getattr(self, "op_" + i["op"], None)
            results = special(i) if special else OPERATIONS[i["op"]][1]([self.x[k] for k in i["in"]], i["a"])
        for name, result in zip(i.get("out", []), results if isinstance(results, (tuple, list)) else [results]):
            if name is not None:
                self.x[name] = result

    def operation(self, k):
        return self.x[k] if isinstance(self.x[k], tf.Operation) else self.x[k].op

    def op_enter(self, i):
        self.scopes.append(contextlib.ExitStack())
        self.scopes[-1].enter_context(self.graph.as_default())
        self.scopes[-1].enter_context(tf.variable_scope(i["name"]) if i["variables"] else tf.name_scope(i["name"]))

    def op_exit(self, i):
        self.scopes.pop().close()

    def op_placeholder(self, i):
        return tf.placeholder(i["dtype"], i["shape"], i["name"])

    def op_constant(self, i):
        v = i["value"]
        return tf.constant(np.array(v["values"], v["dtype"]).reshape(v["shape"]), name=i["name"])

    def op_identity(self, i):
        return tf.identity(self.x[i["in"][0]], name=i.get("name"))

    def op_variable(self, i):
        v = i["value"]
        value = np.array(v["values"], v["dtype"]).reshape(v["shape"])
        if i["get"]:
            variable = tf.get_variable(i["name"], initializer=tf.constant(value), trainable=i["trainable"], use_resource=True)
        else:
            variable = tf.Variable(value, name=i["name"], trainable=i["trainable"], use_resource=True)
        self.variables[i["variable"]] = variable

    def op_read(self, i):
        return self.variables[i["variable"]].read_value()

    def op_assign(self, i):
        return tf.convert_to_tensor(tf.assign(self.variables[i["variable"]], self.x[i["in"][0]]))

    def op_assign_add(self, i):
        return tf.convert_to_tensor(tf.assign_add(self.variables[i["variable"]], self.x[i["in"][0]]))

    def op_assign_sub(self, i):
        return tf.convert_to_tensor(tf.assign_sub(self.variables[i["variable"]], self.x[i["in"][0]]))

    def op_group(self, i):
        return tf.group(*[self.operation(k) for k in i["in"]], name=i["name"])

    def branch(self, body):
        for i in body["body"]:
            self.build_here(i)
        return [self.x[k] for k in body["results"]]

    def op_cond(self, i):
        return tf.cond(self.x[i["in"][0]], lambda: self.branch(i["true"]), lambda: self.branch(i["false"]))

    def op_while(self, i):
        limit = self.x[i["in"][0]]

        def body(counter, *variables):
            for k, v in zip(i["args"], variables):
                self.x[k] = v
            return [counter + 1] + self.branch(i)

        start = [tf.constant(0)] + [self.x[k] for k in i["in"][1:]]
        return tf.while_loop(lambda counter, *_: counter < limit, body, start, maximum_iterations=i["max"])[1:]

    def op_gradients(self, i):
        xs = [self.variables[x["v"]] if "v" in x else self.x[x["t"]] for x in i["xs"]]
        made = tf.gradients([self.x[k] for k in i["in"]], xs, [self.x[k] for k in i["grads"]] or None,
                            stop_gradients=[self.x[k] for k in i["stop"]] or None)
        # Those of gathers are tf.IndexedSlices.
        return [None if g is None else tf.convert_to_tensor(g) for g in made]

    def op_minimize(self, i):
        return OPTIMIZERS[i["optimizer"]]().minimize(self.x[i["in"][0]], var_list=[self.variables[v] for v in i["variables"]])


class Value:
    """What the generator knows of a tensor: its values for each of the sets of feeds."""

    def __init__(self, tensor, now, exact, assigned=False):
        self.dtype = tensor.dtype.base_dtype.name
        self.is_gradient = False
        self.shape = [None if n is None else int(n) for n in tensor.shape.as_list()]
        self.now, self.exact, self.assigned = now, exact, assigned


def numbers_are(now, small):
    """Whether the values are finite and not large; small: also exact in the type."""
    for array in now:
        if array.dtype == bool or array.size == 0:
            continue
        wide = array.astype(np.float64)
        name = str(array.dtype)
        limit = {"bfloat16": 100, "float16": 1000}.get(name, 2.0 ** 17 if small else 1000 if "float" in name else 2.0 ** 62)
        if not np.isfinite(wide).all() or np.abs(wide).max() > limit:
            return False
        if small and "float" in name and not (wide * 64 == np.round(wide * 64)).all():
            return False
    return True


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.b = Builder()
        self.session = session_of(self.b.graph)
        self.program, self.values, self.next = [], {}, 0
        self.operations, self.placeholders, self.unfed, self.chain, self.variables = [], [], set(), {}, {}
        sizes = [1, 2, 3, 4, 5] + [0] * (self.r.random() < 0.2)
        self.sizes = [{"n": self.r.choice(sizes), "m": self.r.choice(sizes)} for _ in range(3)]
        self.feeds = [{} for _ in self.sizes]

    def id(self):
        self.next += 1
        return self.next

    # ---- Choices ----

    def pick(self, condition=lambda v: True):
        found = [k for k, v in self.values.items() if condition(v)]
        # New ones more often, so that graphs are deep.
        return None if not found else self.r.choice(found[-8:] if self.r.random() < 0.6 else found)

    def same_type(self, v, w):
        return v.dtype == w.dtype and v.shape == w.shape and all(p.shape == q.shape for p, q in zip(v.now, w.now))

    def broadcasts(self, v, w):
        return all(p == q or 1 in (p, q) for a, b in zip(v.now, w.now) for p, q in zip(a.shape[::-1], b.shape[::-1]))

    def array(self, dtype, shape, low=-3, high=4):
        if dtype == "uint8":
            low = 0
        values = self.numbers.integers(0 if dtype == "bool" else low, 2 if dtype == "bool" else high, shape)
        return values.astype(tf.as_dtype(dtype).as_numpy_dtype)

    # ---- Instructions ----

    def emit(self, i, assigned=False):
        """Builds it and remembers its values; False if TensorFlow rejects it, or its values cannot be used."""
        try:
            self.b.build(i)
            tensors = [self.b.x[k] for k in i["out"]]
            flat = [t for t in tensors if isinstance(t, tf.Tensor)]
            if any(t.shape.rank is None for t in flat):
                return False
            now = [self.session.run(flat, {self.b.x[k]: v for k, v in feeds.items()}) for feeds in self.feeds]
        except (ValueError, TypeError, LookupError, tf.errors.OpError):
            return False
        new = {}
        for n, (k, tensor) in enumerate(zip(i["out"], flat)):
            values = [np.asarray(arrays[n]) for arrays in now]
            inputs_exact = all(self.values[x].exact for x in i.get("in", []) if x in self.values)
            exact = inputs_exact and i["op"] not in INEXACT and numbers_are(values, small=True)
            if not exact and (tensor.dtype.base_dtype.name not in FLOATS + ("int32", "int64") or not numbers_are(values, small=False)):
                return False
            if any(array.size > 200 for array in values):
                return False
            new[k] = Value(tensor, values, exact or "float" not in tensor.dtype.base_dtype.name, assigned or any(
                self.values[x].assigned for x in i.get("in", []) if x in self.values))
        self.values.update(new)
        self.program.append(i)
        return True

    def pure(self):
        for _ in range(20):
            name = self.r.choice(list(OPERATIONS))
            drawn = OPERATIONS[name][0](self)
            if drawn is None or None in drawn[0]:
                continue
            tensors, arguments = drawn
            i = {"op": name, "in": tensors, "a": arguments, "out": [self.id() for _ in range(self.outputs(name, tensors, arguments))]}
            if self.emit(i):
                if name in ("shape", "size", "rank"):
                    self.unfed.update(i["out"])
                return

    def outputs(self, name, tensors, a):
        if name in ("moments", "top_k"):
            return 2
        if name == "unstack":
            return self.values[tensors[0]].shape[a["axis"]]
        if name == "split":
            return a["number"] if "number" in a else 2
        return 1

    def placeholder(self):
        dtype = self.r.choice(["float32"] * 5 + ["float64", "int32", "int32", "int64", "bool", "uint8", "int8", "int16", "bfloat16", "float16"])
        extents = [self.r.choice(["n", "n", "m", 1, 2, 3]) for _ in range(self.r.choice([0, 1, 1, 2, 2, 2, 3]))]
        static = [e if isinstance(e, int) else None for e in extents]
        i = {"op": "placeholder", "dtype": dtype, "shape": static, "out": [self.id()], "name": self.r.choice(["x", "y", "input"])}
        for size, feeds in zip(self.sizes, self.feeds):
            feeds[i["out"][0]] = self.array(dtype, [size.get(e, e) for e in extents])
        if self.emit(i):
            self.placeholders.append((i["out"][0], dtype, extents))
        else:
            for feeds in self.feeds:
                del feeds[i["out"][0]]

    def constant(self):
        dtype = self.r.choice(["float32", "float32", "float64", "int32", "int64", "bool"])
        value = self.array(dtype, [self.r.choice([1, 2, 3]) for _ in range(self.r.choice([0, 1, 2]))])
        self.emit({"op": "constant", "value": array_json(value), "out": [self.id()], "name": self.r.choice(["c", "constant"])})

    def variable(self):
        dtype = self.r.choice(["float32", "float32", "float32", "float64", "int32", "int64"])
        value = self.array(dtype, [self.r.choice([1, 2, 3]) for _ in range(self.r.choice([0, 1, 1, 2]))])
        v = self.id()
        i = {"op": "variable", "variable": v, "name": f"v{v}" if self.r.random() < 0.5 else "w", "value": array_json(value), "out": [],
             "trainable": dtype in FLOATS and self.r.random() < 0.8, "get": self.r.random() < 0.4}
        if i["get"]:
            i["name"] = f"v{v}"
        if self.emit(i):
            self.session.run(self.b.variables[v].initializer)
            # Trained ones are inexact.
            self.variables[v] = {"value": value, "trainable": i["trainable"], "exact": not i["trainable"]}
            self.chain[v] = []

    def state(self, v, i, assigned=True):
        """An operation that reads or assigns a variable: after all earlier ones, so that the result is defined."""
        i["control"] = list(self.chain[v])
        done = self.emit(i, assigned)
        if done:
            self.chain[v].append(i["out"][0])
            self.values[i["out"][0]].exact = self.variables[v]["exact"]
        return done

    def read(self):
        v = self.r.choice(list(self.variables))
        self.state(v, {"op": "read", "variable": v, "out": [self.id()]}, assigned=False)

    def value_for(self, v):
        """A tensor of small numbers of the variable's type."""
        variable = self.variables[v]
        dtype, shape = str(variable["value"].dtype), list(variable["value"].shape)
        x = self.pick(lambda w: w.dtype == dtype and w.shape == shape and (w.exact or not variable["exact"]))
        if x is None:
            return None
        i = {"op": "tanh" if not variable["exact"] else "floormod", "in": [x],
             "a": {} if not variable["exact"] else {"number": 7}, "out": [self.id()]}
        return i["out"][0] if self.emit(i) else None

    def assign(self):
        v = self.r.choice(list(self.variables))
        x = self.value_for(v)
        if x is not None:
            self.state(v, {"op": self.r.choice(["assign", "assign_add", "assign_sub"]), "variable": v, "in": [x], "out": [self.id()]})

    def group(self):
        kinds = [k for k in list(self.values) + self.operations]
        i = {"op": "group", "in": self.r.sample(kinds, min(2, len(kinds))), "out": [self.id()], "name": self.r.choice(["all", "train"])}
        self.b.build(i)
        self.program.append(i)
        self.operations.append(i["out"][0])

    # ---- Bodies ----

    @contextlib.contextmanager
    def body(self, alike):
        """Random operations and results of these types, which are visible to the body only."""
        program, values = self.program, dict(self.values)
        self.program = []
        made = {"body": self.program, "results": []}
        yield made
        for _ in range(self.r.randint(1, 4)):
            self.pure()
        for v in alike:
            new = [k for k, w in self.values.items() if k not in values and self.same_type(w, v) and (w.exact or not v.exact)]
            any_ = [k for k, w in self.values.items() if self.same_type(w, v) and (w.exact or not v.exact)]
            made["results"].append(self.r.choice(new or any_))
        self.program, self.values = program, values

    def cond(self):
        pred = self.pick(lambda v: v.dtype == "bool" and v.shape == [])
        if pred is None:
            return
        alike = [self.values[k] for k in [self.pick() for _ in range(self.r.randint(1, 2))]]
        i = {"op": "cond", "in": [pred], "out": [self.id() for _ in alike]}
        with self.body(alike) as i["true"]:
            pass
        with self.body(alike) as i["false"]:
            pass
        used = [k for side in ("true", "false") for k in side and i[side]["results"]]
        assigned = any(v.assigned for v in alike) or any(self.values[k].assigned for k in used if k in self.values)
        if self.emit(i, assigned):
            for k, v in zip(i["out"], alike):
                self.values[k].exact = v.exact

    def assigning_cond(self):
        """Assigns in one branch only."""
        pred = self.pick(lambda v: v.dtype == "bool" and v.shape == [])
        v = self.r.choice(list(self.variables))
        x = None if pred is None else self.value_for(v)
        if x is None:
            return
        t, f = self.id(), self.id()
        self.state(v, {"op": "cond", "in": [pred], "out": [self.id()],
                       "true": {"body": [{"op": "assign_add", "variable": v, "in": [x], "out": [t]}], "results": [t]},
                       "false": {"body": [{"op": "read", "variable": v, "out": [f]}], "results": [f]}})

    def loop(self):
        limit = self.pick(lambda v: v.dtype == "int32" and v.shape == [] and v.exact)
        starts = [self.pick(lambda v: v.exact or "float" in v.dtype) for _ in range(self.r.randint(1, 2))]
        if limit is None or None in starts:
            return
        i = {"op": "while", "in": [limit] + starts, "max": self.r.choice([None, 1, 3]), "args": [self.id() for _ in starts],
             "out": [self.id() for _ in starts]}
        bounded = {"op": "floormod", "in": [limit], "a": {"number": 4}, "out": [self.id()]}
        if not self.emit(bounded):
            return
        i["in"][0] = bounded["out"][0]
        alike = [self.values[k] for k in starts]
        with self.body(alike) as made:
            for arg, start in zip(i["args"], starts):
                self.b.x[arg], self.values[arg] = self.b.x[start], self.values[start]
        i.update(made)
        # Loops without a limit have no gradient in session.
        if self.emit(i, i["max"] is None or any(v.assigned for v in alike)):
            # Numbers may grow in later Runs.
            for k, v in zip(i["out"], alike):
                self.values[k].exact = v.exact and "float" not in v.dtype

    # ---- Gradients ----

    def gradients(self):
        ys = [self.pick(lambda v: v.dtype in FLOATS and not v.assigned)]
        if ys[0] is None:
            return
        dtype = self.values[ys[0]].dtype
        xs = [{"t": k} for k in (self.pick(lambda v: v.dtype == dtype and not v.assigned and not v.is_gradient) for _ in range(self.r.randint(1, 2)))]
        # Gradients with respect to gradients: in session, those of one call do not depend on each other.
        xs = [x for x in xs if x["t"] is not None]
        if self.of_gradients(ys[0]):
            # Which formula a gradient has decides whether it depends on a tensor between.
            xs = [x for x in xs if any(x["t"] == k for k, _, _ in self.placeholders)]
        xs += [{"v": v} for v, variable in self.variables.items() if str(variable["value"].dtype) == dtype and self.r.random() < 0.5]
        grads = [self.pick(lambda v: self.same_type(v, self.values[ys[0]]))] if self.r.random() < 0.3 else []
        stop = [self.pick(lambda v: v.dtype == dtype and not v.is_gradient)] if self.r.random() < 0.2 else []
        if not xs or None in stop:
            return
        i = {"op": "gradients", "in": ys, "xs": xs, "grads": grads, "stop": stop, "out": [self.id() for _ in xs]}
        # In session, gradients depend on the ys. In TensorFlow, only what their formulas use runs.
        if self.assigns(ys[0]):
            i["control"] = list(ys)
        try:
            self.b.build(i)
        except (ValueError, TypeError, LookupError):
            return
        i["out"] = [None if self.b.x[k] is None else k for k in i["out"]]
        kept = i["out"]
        i["out"] = [k for k in kept if k is not None]
        program = len(self.program)
        if self.probe_gradients(i):
            self.program[program]["out"] = kept

    def of_gradients(self, y):
        """Whether a tensor depends on gradients."""
        return self.depends(y, ("gradients",))

    def assigns(self, y):
        """Whether a Run that needs a tensor assigns variables."""
        return self.depends(y, ("assign", "assign_add", "assign_sub", "minimize"))

    def depends(self, y, kinds):
        needed = {y}
        for i in reversed(self.program):
            if needed.intersection(i.get("out", [])):
                if i["op"] in kinds:
                    return True
                needed.update(i.get("in", []) + i.get("control", []))
                for body in [i.get("true", {}), i.get("false", {}), i]:
                    needed.update(body.get("results", []))
                    for inner in body.get("body", []):
                        if inner["op"] in kinds:
                            return True
                        needed.update(inner.get("in", []))
        return False

    def probe_gradients(self, i):
        try:
            tensors = [self.b.x[k] for k in i["out"]]
            now = [self.session.run(tensors, {self.b.x[k]: v for k, v in feeds.items()}) for feeds in self.feeds]
        except (ValueError, TypeError, LookupError, tf.errors.OpError):
            return False
        for n, k in enumerate(i["out"]):
            values = [np.asarray(arrays[n]) for arrays in now]
            if not numbers_are(values, small=False) or tensors[n].shape.rank is None:
                return False
            self.values[k] = Value(tensors[n], values, False)
            self.values[k].is_gradient = True
            self.unfed.add(k)
        self.program.append(i)
        return True

    def minimize(self):
        variables = [v for v, variable in self.variables.items() if variable["trainable"]]
        loss = self.pick(lambda v: v.dtype in FLOATS and not v.assigned)
        # Updates after a loop without an iteration are skipped there.
        if loss is None or not variables or self.depends(loss, ("while",)):
            return
        i = {"op": "minimize", "optimizer": self.r.choice(list(OPTIMIZERS)), "in": [loss], "variables": variables, "out": [self.id()],
             "control": [k for v in variables for k in self.chain[v]]}
        before = set(self.b.graph.get_collection("variables"))
        try:
            self.b.build(i)
        except (ValueError, TypeError, LookupError):
            return
        for variable in set(self.b.graph.get_collection("variables")) - before:
            self.session.run(variable.initializer)
        for v in variables:
            self.chain[v].append(i["out"][0])
        self.program.append(i)
        self.operations.append(i["out"][0])

    def scope(self):
        if self.b.scopes:
            i = {"op": "exit", "out": []}
        else:
            i = {"op": "enter", "name": self.r.choice(["a", "b", "net"]), "variables": self.r.random() < 0.3, "out": []}
        self.b.build(i)
        self.program.append(i)

    def named(self):
        self.emit({"op": "identity", "in": [self.pick()], "a": {}, "out": [self.id()], "name": self.r.choice(["out", "node"])})

    def generate(self, length):
        for _ in range(self.r.randint(2, 4)):
            self.placeholder()
        self.constant()
        for _ in range(self.r.randint(1, 3)):
            self.variable()
        kinds = [self.pure] * 18 + [self.placeholder, self.constant, self.read, self.read, self.assign, self.group, self.cond, self.cond,
                                    self.assigning_cond, self.loop, self.loop, self.gradients, self.gradients, self.gradients,
                                    self.scope, self.named]
        while len(self.program) < length:
            if self.variables:
                self.r.choice(kinds)()
            else:
                self.variable()
        if self.r.random() < 0.5:
            self.minimize()
            self.read()
        while self.b.scopes:
            self.scope()
        return self

    # ---- Runs ----

    def runs(self, count):
        """Fetches and feeds of Runs."""
        for _ in range(count):
            at = self.r.randrange(len(self.sizes))
            feeds = {k: self.array(dtype, [self.sizes[at].get(e, e) for e in extents]) for k, dtype, extents in self.placeholders}
            inner = self.pick(lambda v: True)
            # Gradients do not flow through a tensor that is fed.
            through = any(i["op"] in ("gradients", "minimize") for i in self.program)
            cuts = through and self.values[inner].dtype in FLOATS
            if self.r.random() < 0.3 and not cuts and inner not in self.unfed and self.values[inner].dtype not in ("bfloat16", "float16"):
                feeds[inner] = self.array(self.values[inner].dtype, self.values[inner].now[at].shape)
            fetches = [{"t": self.pick()} for _ in range(self.r.randint(1, 5))]
            fetches += [{"o": k} for k in self.operations if self.r.random() < 0.4]
            fetches += [{"v": v} for v in self.variables if self.r.random() < 0.2 and not self.chain[v]]
            self.r.shuffle(fetches)
            yield feeds, fetches


def fetched(builder, fetch):
    return builder.variables[fetch["v"]] if "v" in fetch else builder.x[fetch.get("t", fetch.get("o"))]


def run_all(program, runs):
    """The file's "runs" and names: the program built again, and run."""
    b = Builder()
    for i in program:
        b.build(i)
        if "name" in i and i["op"] not in ("enter", "variable"):
            i["full_name"] = b.operation(i["out"][0]).name
    x_of = {k: x["t"] for i in program if i["op"] == "gradients" for k, x in zip(i["out"], i["xs"]) if k is not None and "t" in x}
    done = []
    with b.graph.as_default():
        variables = tf.global_variables()
        initializer = tf.global_variables_initializer()
    with session_of(b.graph) as session:

        def restore(values):
            for variable, value in zip(variables, values):
                variable.load(value, session)

        session.run(initializer)
        for feeds, fetches in runs:
            fed = {b.x[k]: v for k, v in feeds.items()}
            try:
                want = session.run([fetched(b, f) for f in fetches], fed)
            except (tf.errors.OpError, ValueError):
                break
            tensors = [fetched(b, f) for f in fetches]
            after = session.run(variables)
            # Gradients of loops without an iteration are scalars there. Looking at their xs may assign variables.
            if any("t" in f and f["t"] in x_of and np.shape(w) != np.shape(session.run(b.x[x_of[f["t"]]], fed))
                   for f, w in zip(fetches, want)):
                break
            restore(after)
            done.append({
                "feeds": [{"t": k, "value": array_json(v)} for k, v in feeds.items()],
                "fetches": fetches,
                "want": [None if w is None else array_json(w) for w in want],
                "shapes": [None if w is None or t.shape.rank is None else t.shape.as_list() for w, t in zip(want, tensors)],
                "variables": {v.op.name: array_json(w) for v, w in zip(variables, after)}})
    return done


def mistake(g):
    """An instruction that TensorFlow rejects when it is built; None if some tries find none."""
    for _ in range(6):
        name = g.r.choice(["add", "matmul", "concat", "reshape", "split", "tensordot", "bias_add", "where", "add_n", "reduce_sum"])
        x, y, z = g.pick(), g.pick(), g.pick()
        size = g.r.randint(2, 7)
        a = {"matmul": {"ta": False, "tb": False}, "concat": {"axis": 0}, "reshape": {"shape": [size, 11]},
             "split": {"number": size, "axis": 0}, "reduce_sum": {"axis": size, "keepdims": False}}.get(name, {})
        inputs = [z, x, y] if name == "where" else [x] if name in ("reshape", "split", "reduce_sum") else [x, y]
        i = {"op": name, "in": inputs, "a": a, "out": []}
        try:
            g.b.build(i)
        except (ValueError, TypeError, LookupError) as error:
            i["error"] = str(error)[:300]
            return i
    return None


def main(folder, seed, count, length=28):
    for s in range(int(seed), int(seed) + int(count)):
        g = Generator(s).generate(int(length))
        made = {"program": g.program, "runs": run_all(g.program, list(g.runs(4)))}
        made["mistake"] = mistake(g)
        g.session.close()
        (pathlib.Path(folder) / f"{s}.json").write_text(json.dumps(made))


if __name__ == "__main__":
    main(*sys.argv[1:])
