"""Rows of recurrent networks: outputs, last states and gradients of tf.nn.dynamic_rnn and its relatives with the cells
of tf.nn.rnn_cell, and the losses of a classifier in training."""
import warnings

import numpy as np
import tensorflow as tf
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells

v1 = tf.compat.v1
BATCH, STEPS, DEPTH = 3, 5, 2


def cell(kind, units, **args):
    if kind == "multi":
        return cells.MultiRNNCell([cell(**one) for one in units])
    if kind == "residual":
        return cells.ResidualWrapper(cell(**units))
    if kind == "dropout":  # keeps everything; only the names of the variables matter
        return cells.DropoutWrapper(cell(**units), output_keep_prob=1.0)
    if args.get("activation") == "relu":
        args["activation"] = tf.nn.relu
    kinds = {"basic_rnn": cells.BasicRNNCell, "basic_lstm": cells.BasicLSTMCell, "lstm": cells.LSTMCell,
             "gru": cells.GRUCell}
    return kinds[kind](units, **args)


def one(kind, units=4, **args):
    return {"kind": kind, "units": units, **args}


LENGTHS = {"sequence_length": [2, 0, 7]}
# Cell, function, arguments.
ROWS = [
    (one("basic_rnn", activation="relu"), "dynamic", LENGTHS),
    (one("basic_lstm"), "dynamic", {}),
    (one("basic_lstm", forget_bias=0.0, name="mine"), "dynamic", LENGTHS),
    (one("lstm", use_peepholes=True, cell_clip=0.3), "dynamic", {}),
    (one("lstm", num_proj=3, proj_clip=0.2), "dynamic", LENGTHS),
    (one("lstm", use_peepholes=True, num_proj=3, forget_bias=0.5), "dynamic", LENGTHS),
    (one("gru"), "dynamic", {"time_major": True, "initial": True}),
    (one("multi", [one("basic_lstm", 4), one("dropout", one("gru", 3)), one("lstm", 2)]), "dynamic", LENGTHS),
    (one("residual", one("gru", DEPTH)), "dynamic", {}),
    (one("basic_lstm"), "dynamic", {"time_major": True, "sequence_length": [5, 1, 3], "scope": "mine/inner"}),
    (one("multi", [one("lstm", 3), one("basic_rnn", 2)]), "dynamic", {"initial": True, "sequence_length": [0, 5, -1]}),
    (one("gru"), "static", {"sequence_length": [2, 0, 4]}),
    (one("basic_lstm"), "bidirectional", {}),
    (one("gru", 3), "bidirectional", {"sequence_length": [5, 0, 1], "time_major": True}),
]


def flat(structure):
    return list(tf.nest.flatten(structure))


def network(spec, function, args, x, initial):
    given = {k: args[k] for k in ("time_major", "scope") if k in args}
    if "sequence_length" in args:
        given["sequence_length"] = tf.constant(args["sequence_length"])
    if function == "bidirectional":
        outputs, states = v1.nn.bidirectional_dynamic_rnn(cell(**spec), cell(**spec), x, dtype=tf.float32, **given)
        return flat(outputs), flat(states)
    built = cell(**spec)
    if initial is not None:
        given["initial_state"] = tf.nest.pack_sequence_as(built.state_size, initial)
    if function == "static":
        outputs, state = v1.nn.static_rnn(built, tf.unstack(x, axis=1), dtype=tf.float32, **given)
        return flat(outputs), flat(state)
    outputs, state = v1.nn.dynamic_rnn(built, x, dtype=tf.float32, **given)
    return [outputs], flat(state)


class Built:
    """A row in the default graph, in the variable scope "n<index>"."""

    def __init__(self, index, spec, function, args, put, random):
        self.key, self.fetches = "rnn/%d/" % index, {}
        floats = lambda what, shape: put_value(
            put, self.key + what, random.uniform(-1, 1, shape).astype(np.float32))
        shape = [STEPS, BATCH, DEPTH] if args.get("time_major") else [BATCH, STEPS, DEPTH]
        x = tf.constant(floats("x", shape))
        initial = None
        if args.get("initial"):
            initial = [tf.constant(floats("initial/%d" % k, [BATCH, size]))
                       for k, size in enumerate(flat(cell(**spec).state_size))]
        with v1.variable_scope("n%d" % index):
            outputs, states = network(spec, function, args, x, initial)
        self.variables = v1.trainable_variables("n%d/" % index)
        self.values = [floats("variable/" + v.op.name, v.shape) for v in self.variables]
        ys, xs = outputs + states, [x] + (initial or []) + self.variables
        cotangents = [floats("cotangent/%d" % k, y.shape) for k, y in enumerate(ys)]
        for what, tensors in (("output", outputs), ("state", states), ("gradient", tf.gradients(ys, xs, cotangents))):
            for k, tensor in enumerate(tensors):
                self.fetches["%s/%d" % (what, k)] = tensor
        self.row = {"cell": spec, "function": function, "args": args, "key": self.key,
                    "variables": [v.op.name for v in self.variables]}


def network_rows(put, random, session):
    graph = tf.Graph()
    with graph.as_default():
        built = [Built(i, *row, put, random) for i, row in enumerate(ROWS)]
        with session(graph) as s:
            for one_row in built:
                for v, value in zip(one_row.variables, one_row.values):
                    v.load(value, s)
            for one_row, values in zip(built, s.run([b.fetches for b in built])):
                for name, value in values.items():
                    put(one_row.key + name, value)
    return [b.row for b in built]


def put_value(put, key, value):
    put(key, value)
    return value


def classifier(put, random, session):
    """An LSTM classifier in training: gradients clipped by their global norm, Adam."""
    steps, batch, words = 10, 4, 11
    x = put_value(put, "rnn/train/x", random.randint(0, words, (steps, batch, 6)).astype(np.int32))
    lengths = put_value(put, "rnn/train/lengths", random.randint(0, 7, (steps, batch)).astype(np.int32))
    labels = put_value(put, "rnn/train/labels", random.randint(0, 3, (steps, batch)).astype(np.int64))
    graph = tf.Graph()
    with graph.as_default():
        ids, length = v1.placeholder(tf.int32, [None, None]), v1.placeholder(tf.int32, [None])
        label = v1.placeholder(tf.int64, [None])
        table = v1.get_variable("embedding", [words, 5])
        stack = cell("multi", [one("basic_lstm", 8), one("gru", 6)])
        embedded = tf.tensordot(tf.one_hot(ids, words), table, 1)  # the norm of a sparse gradient is another one
        _, state = v1.nn.dynamic_rnn(stack, embedded, length, dtype=tf.float32)
        logits = tf.matmul(state[-1], v1.get_variable("w", [6, 3]))
        loss = v1.losses.sparse_softmax_cross_entropy(label, logits)
        optimizer = v1.train.AdamOptimizer(0.05)
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        clipped, norm = tf.clip_by_global_norm(gradients, 0.5)
        train = optimizer.apply_gradients(zip(clipped, variables))
        with session(graph) as s:
            s.run(v1.global_variables_initializer())
            for v in variables:
                value = random.uniform(-0.5, 0.5, v.shape).astype(np.float32)
                v.load(put_value(put, "rnn/train/variable/" + v.op.name, value), s)
            put("rnn/train/losses", [s.run([train, loss, norm], {ids: x[i], length: lengths[i], label: labels[i]})[1:]
                                     for i in range(steps)])
    return {"variables": [v.op.name for v in variables]}


def rnn_rows(put, random, session):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"networks": network_rows(put, random, session), "classifier": classifier(put, random, session)}
