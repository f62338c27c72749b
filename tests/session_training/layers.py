"""Rows of layers: what tf.layers of TensorFlow 1.15 computes, in operations of tf.nn (TensorFlow 2.21
has no tf.layers with Keras 3), with the names of its variables."""
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def conv(x, w, args, rank):
    strides = args.get("strides", 1)
    return tf.nn.convolution(x, w["kernel"], strides=strides,
                             padding=args.get("padding", "valid").upper(),
                             dilations=args.get("dilation_rate", 1)) + w["bias"]


def transposed(x, w, args, rank):
    s, k = args.get("strides", 1), args["kernel_size"]
    same = args.get("padding", "valid") == "same"
    size = [n * s if same else n * s + max(k - s, 0) for n in x.shape[1:-1]]
    out = [int(x.shape[0])] + [int(n) for n in size] + [args["filters"]]
    return tf.nn.conv_transpose(x, w["kernel"], out, s, "SAME" if same else "VALID") + w["bias"]


def separable(x, w, args, rank):
    s = args.get("strides", 1)
    return tf.nn.separable_conv2d(x, w["depthwise_kernel"], w["pointwise_kernel"], [1, s, s, 1],
                                  args.get("padding", "valid").upper()) + w["bias"]


def pool(kind):
    def call(x, w, args, rank):
        return tf.nn.pool(x, [args["pool_size"]] * rank, kind,
                          strides=[args["strides"]] * rank,
                          padding=args.get("padding", "valid").upper())
    return call


def normalization(x, w, args, rank):
    epsilon, momentum = args.get("epsilon", 1e-3), args.get("momentum", 0.99)
    if not args.get("training", False):
        return tf.nn.batch_normalization(x, w["moving_mean"], w["moving_variance"], w["beta"],
                                         w["gamma"], epsilon)
    if rank == 2:  # the fused kernel
        y, mean, variance = v1.nn.fused_batch_norm(x, w["gamma"], w["beta"], epsilon=epsilon)
    else:
        mean, variance = tf.nn.moments(x, list(range(len(x.shape) - 1)))
        y = tf.nn.batch_normalization(x, mean, variance, w["beta"], w["gamma"], epsilon)
    w["new moving_mean"] = w["moving_mean"] * momentum + mean * (1 - momentum)
    w["new moving_variance"] = w["moving_variance"] * momentum + variance * (1 - momentum)
    return y


# name, function, shape of x, variables' shapes, arguments.
LAYERS = [
    ("dense", lambda x, w, a, r: tf.nn.relu(tf.matmul(x, w["kernel"]) + w["bias"]), [4, 3],
     {"kernel": [3, 5], "bias": [5]}, {"units": 5, "activation": "relu"}),
    ("dense", lambda x, w, a, r: tf.tensordot(x, w["kernel"], 1), [2, 4, 3], {"kernel": [3, 5]},
     {"units": 5, "use_bias": False}),
    ("conv1d", conv, [2, 9, 3], {"kernel": [3, 3, 4], "bias": [4]},
     {"filters": 4, "kernel_size": 3, "strides": 2, "padding": "same"}),
    ("conv2d", conv, [2, 6, 7, 3], {"kernel": [3, 3, 3, 4], "bias": [4]},
     {"filters": 4, "kernel_size": 3}),
    ("conv2d", conv, [2, 6, 7, 3], {"kernel": [3, 3, 3, 4], "bias": [4]},
     {"filters": 4, "kernel_size": 3, "strides": 2, "padding": "same"}),
    ("conv2d", conv, [2, 8, 7, 2], {"kernel": [3, 3, 2, 4], "bias": [4]},
     {"filters": 4, "kernel_size": 3, "dilation_rate": 2}),
    ("conv3d", conv, [1, 4, 5, 4, 2], {"kernel": [2, 2, 2, 2, 3], "bias": [3]},
     {"filters": 3, "kernel_size": 2, "padding": "same"}),
    ("separable_conv2d", separable, [2, 6, 6, 3],
     {"depthwise_kernel": [3, 3, 3, 2], "pointwise_kernel": [1, 1, 6, 4], "bias": [4]},
     {"filters": 4, "kernel_size": 3, "strides": 2, "padding": "same", "depth_multiplier": 2}),
    ("conv2d_transpose", transposed, [2, 4, 5, 3], {"kernel": [3, 3, 2, 3], "bias": [2]},
     {"filters": 2, "kernel_size": 3, "strides": 2, "padding": "same"}),
    ("conv2d_transpose", transposed, [2, 4, 5, 3], {"kernel": [3, 3, 2, 3], "bias": [2]},
     {"filters": 2, "kernel_size": 3, "strides": 2}),
    ("conv2d_transpose", transposed, [2, 4, 5, 3], {"kernel": [2, 2, 2, 3], "bias": [2]},
     {"filters": 2, "kernel_size": 2, "strides": 3}),
    ("max_pooling1d", pool("MAX"), [2, 7, 3], {}, {"pool_size": 3, "strides": 2}),
    ("max_pooling2d", pool("MAX"), [2, 7, 6, 3], {},
     {"pool_size": 3, "strides": 2, "padding": "same"}),
    ("max_pooling3d", pool("MAX"), [1, 4, 4, 4, 2], {}, {"pool_size": 2, "strides": 2}),
    ("average_pooling1d", pool("AVG"), [2, 7, 3], {}, {"pool_size": 2, "strides": 2}),
    ("average_pooling2d", pool("AVG"), [2, 7, 6, 3], {},
     {"pool_size": 3, "strides": 2, "padding": "same"}),
    ("average_pooling3d", pool("AVG"), [1, 4, 4, 4, 2], {}, {"pool_size": 2, "strides": 1}),
    ("flatten", lambda x, w, a, r: tf.reshape(x, [x.shape[0], -1]), [2, 3, 4], {}, {}),
    ("dropout", lambda x, w, a, r: tf.identity(x), [2, 3], {}, {"rate": 0.5}),
]
for shape in ([8, 3], [4, 3, 2, 3]):
    for training in (False, True):
        LAYERS.append(("batch_normalization", normalization, shape,
                       {"gamma": [3], "beta": [3], "moving_mean": [3], "moving_variance": [3]},
                       {"training": training, "momentum": 0.7, "epsilon": 0.01}))


def layer_rows(put, random, session):
    rows, fetches = [], []
    graph = tf.Graph()
    with graph.as_default():
        for i, (name, function, shape, variables, args) in enumerate(LAYERS):
            key = "layer/%d/" % i
            x = random.uniform(-1, 1, shape).astype(np.float32)
            put(key + "x", x)
            w = {n: random.uniform(0.5 if n == "moving_variance" else -1, 1, s).astype(np.float32)
                 for n, s in variables.items()}
            for n, value in w.items():
                put(key + "variable/" + n, value)
            tensors = {n: tf.constant(v) for n, v in w.items()}
            x = tf.constant(x)
            y = function(x, tensors, args, len(shape) - 2)
            cotangent = random.uniform(-1, 1, y.shape).astype(np.float32)
            put(key + "cotangent", cotangent)
            trained = [n for n in variables if not n.startswith("moving")]
            gradients = tf.gradients(y, [x] + [tensors[n] for n in trained], cotangent)
            out = {"y": y, "gradient x": gradients[0]}
            for n, g in zip(trained, gradients[1:]):
                out["gradient " + n] = g
            for n in tensors:
                if n.startswith("new "):
                    out[n] = tensors[n]
            fetches.append(out)
            rows.append({"name": name, "args": args, "key": key, "variables": list(variables),
                         "trained": trained, "results": list(out)})
        with session(graph) as s:
            values = s.run(fetches)
    for row, results in zip(rows, values):
        for n, value in results.items():
            put(row["key"] + n, value)
    return rows
