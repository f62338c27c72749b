"""Values of TensorFlow 1's training API (tf.compat.v1) for training_parity_test.cc.

    expect.py FOLDER

FOLDER holds the checkpoint and the event file that the test wrote (ours/model.ckpt-7, events/).
Writes rows.json (what the test builds), arrays.npz (inputs and results, by key) and theirs/, a
folder of checkpoints of tf.train.Saver.
"""
import glob
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf

from layers import layer_rows
from rnn import rnn_rows

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.logging.set_verbosity(v1.logging.ERROR)

folder = sys.argv[1]
random = np.random.RandomState(5)
arrays = {}


def put(key, value):
    arrays[key] = np.asarray(value)
    return key


def session(graph):
    return v1.Session(graph=graph, config=v1.ConfigProto(intra_op_parallelism_threads=1))


def floats(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


# ---- Optimizers: ten steps of a small network ----

STEPS, BATCH = 10, 8
put("x", floats(STEPS, BATCH, 3))
put("y", random.randint(0, 2, (STEPS, BATCH)).astype(np.int64))
INITIAL = {"w1": floats(3, 4), "b1": floats(4), "w2": floats(4, 2), "b2": floats(2)}
for name, value in INITIAL.items():
    put("initial/" + name, value)

SCHEDULED = "scheduled"  # 0.1 * 0.5^(step / 3)
OPTIMIZERS = [
    ("GradientDescent", {"learning_rate": 0.5}),
    ("GradientDescent", {"learning_rate": SCHEDULED}),
    ("Momentum", {"learning_rate": 0.1, "momentum": 0.9}),
    ("Momentum", {"learning_rate": 0.1, "momentum": 0.5}),
    ("Momentum", {"learning_rate": 0.1, "momentum": 0.9, "use_nesterov": True}),
    ("Momentum", {"learning_rate": SCHEDULED, "momentum": 0.9}),
    ("Momentum", {"learning_rate": SCHEDULED, "momentum": 0.9, "use_nesterov": True}),
    ("Adam", {}),
    ("Adam", {"learning_rate": 0.1}),
    ("Adam", {"learning_rate": 0.1, "beta1": 0.5}),
    ("Adam", {"learning_rate": 0.1, "beta2": 0.9}),
    ("Adam", {"learning_rate": 0.1, "beta1": 0.95, "beta2": 0.5}),
    ("Adam", {"learning_rate": 0.1, "beta1": 0.0}),
    ("Adam", {"learning_rate": 0.1, "epsilon": 0.01}),
    ("Adam", {"learning_rate": SCHEDULED}),
    ("Adagrad", {"learning_rate": 0.1}),
    ("Adagrad", {"learning_rate": 0.1, "initial_accumulator_value": 0.5}),
    ("Adagrad", {"learning_rate": SCHEDULED}),
    ("RMSProp", {"learning_rate": 0.05}),
    ("RMSProp", {"learning_rate": 0.05, "decay": 0.5}),
    ("RMSProp", {"learning_rate": 0.05, "momentum": 0.9}),
    ("RMSProp", {"learning_rate": 0.05, "epsilon": 0.1}),
    ("RMSProp", {"learning_rate": 0.05, "centered": True}),
    ("RMSProp", {"learning_rate": 0.05, "centered": True, "momentum": 0.9, "epsilon": 0.01}),
    ("RMSProp", {"learning_rate": SCHEDULED, "momentum": 0.5}),
    ("Adadelta", {}),
    ("Adadelta", {"learning_rate": 1.0}),
    ("Adadelta", {"learning_rate": 1.0, "rho": 0.5}),
    ("Adadelta", {"learning_rate": 1.0, "epsilon": 0.01}),
    ("Adadelta", {"learning_rate": SCHEDULED}),
    ("Ftrl", {"learning_rate": 0.1}),
    ("Ftrl", {"learning_rate": 0.1, "learning_rate_power": -0.7}),
    ("Ftrl", {"learning_rate": 0.1, "initial_accumulator_value": 0.5}),
    ("Ftrl", {"learning_rate": 0.1, "l1_regularization_strength": 0.05}),
    ("Ftrl", {"learning_rate": 0.1, "l2_regularization_strength": 0.05}),
    ("Ftrl", {"learning_rate": 0.1, "l2_shrinkage_regularization_strength": 0.05}),
    ("Ftrl", {"learning_rate": SCHEDULED, "accum_name": "a", "linear_name": "l"}),
]


def optimizer_row(index, name, args):
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [None, 3])
        y = v1.placeholder(tf.int64, [None])
        w = {n: v1.get_variable(n, initializer=v) for n, v in INITIAL.items()}
        h = tf.tanh(tf.matmul(x, w["w1"]) + w["b1"])
        loss = v1.losses.sparse_softmax_cross_entropy(y, tf.matmul(h, w["w2"]) + w["b2"])
        step = v1.train.get_or_create_global_step()
        given = dict(args)
        if given.get("learning_rate") == SCHEDULED:
            given["learning_rate"] = v1.train.exponential_decay(0.1, step, 3, 0.5)
        train = getattr(v1.train, name + "Optimizer")(**given).minimize(loss, step)
        with session(graph) as s:
            s.run(v1.global_variables_initializer())
            losses = []
            for i in range(STEPS):
                losses.append(s.run([train, loss], {x: arrays["x"][i], y: arrays["y"][i]})[1])
            values = {v.op.name: s.run(v) for v in v1.global_variables()}
    key = "optimizer/%d/" % index
    put(key + "losses", losses)
    for variable, value in values.items():
        put(key + "variable/" + variable, value)
    return {"name": name, "args": args, "key": key, "variables": sorted(values)}


# ---- Schedules ----

SCHEDULES = [
    ("exponential_decay", {"decay_steps": 5, "decay_rate": 0.5}),
    ("exponential_decay", {"decay_steps": 5, "decay_rate": 0.5, "staircase": True}),
    ("piecewise_constant", {"boundaries": [4, 9], "values": [1.0, 0.5, 0.1]}),
    ("polynomial_decay", {"decay_steps": 10}),
    ("polynomial_decay", {"decay_steps": 10, "end_learning_rate": 0.1, "power": 0.5}),
    ("polynomial_decay", {"decay_steps": 7, "power": 2.0, "cycle": True}),
    ("natural_exp_decay", {"decay_steps": 5, "decay_rate": 0.5}),
    ("natural_exp_decay", {"decay_steps": 5, "decay_rate": 0.5, "staircase": True}),
    ("inverse_time_decay", {"decay_steps": 5, "decay_rate": 0.5}),
    ("inverse_time_decay", {"decay_steps": 5, "decay_rate": 0.5, "staircase": True}),
    ("cosine_decay", {"decay_steps": 12}),
    ("cosine_decay", {"decay_steps": 12, "alpha": 0.2}),
    ("cosine_decay_restarts", {"first_decay_steps": 5}),
    ("cosine_decay_restarts", {"first_decay_steps": 5, "t_mul": 1.5, "m_mul": 0.7, "alpha": 0.1}),
    ("linear_cosine_decay", {"decay_steps": 15}),
    ("linear_cosine_decay", {"decay_steps": 15, "num_periods": 2.0, "alpha": 0.1, "beta": 0.2}),
]


def schedule_rows():
    rows = []
    graph = tf.Graph()
    with graph.as_default():
        step = v1.placeholder(tf.int64, [])
        rates = []
        for name, args in SCHEDULES:
            function = getattr(v1.train, name)
            rates.append(function(step, **args) if name == "piecewise_constant"
                         else function(0.8, step, **args))
        with session(graph) as s:
            values = np.array([s.run(rates, {step: i}) for i in range(20)])
    for i, (name, args) in enumerate(SCHEDULES):
        rows.append({"name": name, "args": args, "values": put("schedule/%d" % i, values[:, i])})
    return rows


# ---- Losses: every function, weights of several shapes, every reduction ----

REDUCTIONS = ["none", "weighted_sum", "weighted_mean", "weighted_sum_over_batch_size",
              "weighted_sum_by_nonzero_weights"]


def loss_rows():
    positive = lambda *shape: random.uniform(0.05, 0.95, shape).astype(np.float32)
    matrix = put("loss/matrix", floats(6, 3))
    other = put("loss/other", floats(6, 3))
    probabilities = put("loss/probabilities", positive(6, 3))
    binary = put("loss/binary", random.randint(0, 2, (6, 3)).astype(np.float32))
    onehot = put("loss/onehot", np.eye(3, dtype=np.float32)[random.randint(0, 3, 6)])
    indices = put("loss/indices", random.randint(0, 3, 6).astype(np.int32))
    column = put("loss/column", random.randint(0, 3, (6, 1)).astype(np.int64))
    zeros = random.randint(0, 2, (6, 3)).astype(np.float32)
    elements = [None, 2.0, put("loss/weights61", positive(6, 1) * zeros[:, :1]),
                put("loss/weights13", positive(1, 3)), put("loss/weights63", positive(6, 3) * zeros),
                put("loss/weights0", np.float32(0.5)), put("loss/no_weights", np.zeros((6, 1), "f"))]
    vectors = [None, 2.0, put("loss/weights6", positive(6) * zeros[:, 0]), "loss/weights0"]
    functions = [
        ("mean_squared_error", matrix, other, {}, elements),
        ("absolute_difference", matrix, other, {}, elements),
        ("huber_loss", matrix, other, {}, elements),
        ("huber_loss", matrix, other, {"delta": 0.3}, elements[:2]),
        ("hinge_loss", binary, matrix, {}, elements),
        ("log_loss", binary, probabilities, {}, elements),
        ("log_loss", binary, probabilities, {"epsilon": 0.1}, elements[:2]),
        ("sigmoid_cross_entropy", binary, matrix, {}, elements),
        ("sigmoid_cross_entropy", binary, matrix, {"label_smoothing": 0.2}, elements[:3]),
        ("cosine_distance", matrix, other, {"axis": 1}, elements[:3]),
        ("mean_pairwise_squared_error", matrix, other, {}, elements[:3] + elements[4:]),
        ("softmax_cross_entropy", onehot, matrix, {}, vectors),
        ("softmax_cross_entropy", onehot, matrix, {"label_smoothing": 0.2}, vectors),
        ("sparse_softmax_cross_entropy", indices, matrix, {}, vectors),
        ("sparse_softmax_cross_entropy", column, matrix, {}, vectors + ["loss/weights61"]),
    ]
    rows, fetches = [], []
    graph = tf.Graph()
    with graph.as_default():
        for name, labels, predictions, args, weights in functions:
            for weight in weights:
                has_reduction = name != "mean_pairwise_squared_error"
                for reduction in REDUCTIONS if has_reduction else REDUCTIONS[:1]:
                    p = tf.constant(arrays[predictions])
                    given = dict(args, reduction=reduction) if has_reduction else dict(args)
                    if weight is not None:
                        given["weights"] = arrays[weight] if isinstance(weight, str) else weight
                    loss = getattr(v1.losses, name)(arrays[labels], p, **given)
                    fetches.append([loss, tf.gradients(loss, p)[0]])
                    rows.append({"name": name, "labels": labels, "predictions": predictions,
                                 "args": args, "weights": weight, "reduction": reduction})
        with session(graph) as s:
            values = s.run(fetches)
    for i, (row, (loss, gradient)) in enumerate(zip(rows, values)):
        row["loss"] = put("loss/%d/value" % i, loss)
        row["gradient"] = put("loss/%d/gradient" % i, gradient)
    return rows


# ---- Metrics over three batches ----

def metric_rows():
    batches = 3
    labels = put("metric/labels", random.randint(0, 3, (batches, 8)).astype(np.int64))
    classes = put("metric/classes", random.randint(0, 3, (batches, 8)).astype(np.int64))
    binary = put("metric/binary", random.randint(0, 2, (batches, 8)).astype(np.float32))
    decided = put("metric/decided", random.randint(0, 2, (batches, 8)).astype(np.float32))
    values = put("metric/values", floats(batches, 8))
    other = put("metric/other", floats(batches, 8))
    scores = put("metric/scores", random.uniform(0, 1, (batches, 8)).astype(np.float32))
    weights = put("metric/weights", random.randint(0, 3, (batches, 8)).astype(np.float32))
    functions = [("accuracy", labels, classes, {}), ("mean", None, values, {}),
                 ("mean_absolute_error", values, other, {}),
                 ("mean_squared_error", values, other, {}),
                 ("root_mean_squared_error", values, other, {}),
                 ("precision", binary, decided, {}), ("recall", binary, decided, {}),
                 ("true_positives", binary, decided, {}), ("true_negatives", binary, decided, {}),
                 ("false_positives", binary, decided, {}),
                 ("false_negatives", binary, decided, {}),
                 ("auc", binary, scores, {}),
                 ("auc", binary, scores, {"num_thresholds": 20, "curve": "PR"}),
                 ("auc", binary, scores, {"curve": "PR",
                                          "summation_method": "careful_interpolation"}),
                 ("auc", binary, scores, {"summation_method": "minoring"}),
                 ("auc", binary, scores, {"summation_method": "majoring"}),
                 ("auc", binary, scores, {"thresholds": [0.7, 0.2, 0.5]})]
    rows, metrics = [], []
    graph = tf.Graph()
    with graph.as_default():
        places = {}

        def place(key):
            if key not in places:
                places[key] = v1.placeholder(arrays[key].dtype, arrays[key].shape[1:])
            return places[key]

        for name, label, prediction, args in functions:
            for weight in (None, weights):
                function = getattr(v1.metrics, name)
                given = dict(args, weights=None if weight is None else place(weight))
                metrics.append(function(place(prediction), **given) if label is None else
                               function(place(label), place(prediction), **given))
                rows.append({"name": name, "labels": label, "predictions": prediction,
                             "args": args, "weights": weight})
        names = [v.op.name for v in v1.local_variables()]
        with session(graph) as s:
            s.run(v1.local_variables_initializer())
            after = [s.run([m[1] for m in metrics], {p: arrays[k][b] for k, p in places.items()})
                     for b in range(batches)]
            last = s.run([m[0] for m in metrics])
    for i, row in enumerate(rows):
        row["values"] = put("metric/%d" % i, [a[i] for a in after] + [last[i]])
    return rows, names


# ---- Moving averages ----

def average_rows():
    rows = []
    for i, args in enumerate([{"decay": 0.9}, {"decay": 0.9, "num_updates": "step"}]):
        graph = tf.Graph()
        with graph.as_default():
            w = v1.get_variable("w", initializer=np.float32([1, 2]))
            step = v1.train.get_or_create_global_step()
            given = {k: step if v == "step" else v for k, v in args.items()}
            average = tf.train.ExponentialMovingAverage(**given)
            with tf.control_dependencies([w.assign_add([1, -0.5]), step.assign_add(1)]):
                update = average.apply([w])
            with session(graph) as s:
                s.run(v1.global_variables_initializer())
                values = []
                for _ in range(5):
                    s.run(update)
                    values.append(s.run(average.average(w)))
            rows.append({"args": args, "name": average.average_name(w),
                         "values": put("average/%d" % i, values)})
    return rows


# ---- Files ----

def check_our_checkpoint():
    ours = os.path.join(folder, "ours")
    latest = tf.train.latest_checkpoint(ours)
    graph = tf.Graph()
    with graph.as_default():
        variables = [v1.get_variable(name, shape, dtype=dtype)
                     for name, shape, dtype in json.load(open(os.path.join(folder, "ours.json")))]
        saver = v1.train.Saver(variables)
        with session(graph) as s:
            saver.restore(s, latest)
            for v in variables:
                value = s.run(v)
                if v.dtype.base_dtype == tf.bfloat16:
                    value = value.astype(np.float32)
                put("restored/" + v.op.name, value)
    return {"latest": os.path.basename(latest)}


def write_their_checkpoint():
    graph = tf.Graph()
    with graph.as_default():
        v1.get_variable("scope/w", initializer=np.float32([[1, 2], [3, 4]]))
        v1.get_variable("counter", initializer=np.int64(5))
        saver = v1.train.Saver(max_to_keep=2)
        with session(graph) as s:
            s.run(v1.global_variables_initializer())
            for step in (1, 2, 3):
                saver.save(s, os.path.join(folder, "theirs", "model.ckpt"), global_step=step)


def read_our_events():
    events = []
    [path] = glob.glob(os.path.join(folder, "events", "*tfevents*"))
    for event in v1.train.summary_iterator(path):
        if event.graph_def:
            def_ = v1.GraphDef.FromString(event.graph_def)
            events.append({"graph": sorted(n.name for n in def_.node)})
        for value in event.summary.value:
            row = {"step": event.step, "tag": value.tag}
            if value.HasField("histo"):
                h = value.histo
                row["histogram"] = [h.min, h.max, h.num, h.sum, h.sum_squares, len(h.bucket_limit),
                                    sum(h.bucket)]
            elif value.HasField("image"):
                with tf.Graph().as_default() as graph, session(graph) as s:
                    image = s.run(tf.image.decode_png(value.image.encoded_image_string))
                row["image"] = [value.image.height, value.image.width, value.image.colorspace]
                row["pixels"] = image.reshape(-1).tolist()
            else:
                row["value"] = value.simple_value
            events.append(row)
    return events


metrics, metric_names = metric_rows()
rows = {
    "optimizers": [optimizer_row(i, n, a) for i, (n, a) in enumerate(OPTIMIZERS)],
    "schedules": schedule_rows(),
    "losses": loss_rows(),
    "metrics": metrics,
    "metric_variables": metric_names,
    "averages": average_rows(),
    "layers": layer_rows(put, random, session),
    "rnn": rnn_rows(put, random, session),
    "checkpoint": check_our_checkpoint(),
    "events": read_our_events(),
}
write_their_checkpoint()
np.savez(os.path.join(folder, "arrays.npz"), **arrays)
with open(os.path.join(folder, "rows.json"), "w") as out:
    json.dump(rows, out)
