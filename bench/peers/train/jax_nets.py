"""Networks of JAX's peer, in flax, and their training step with optax's SGD with momentum."""
import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Normed(nnx.Module):
    """Convolution, batch norm and an optional activation."""

    def __init__(self, inputs, outputs, kernel, rngs, stride=1, groups=1, activation=None, dtype=jnp.float32, bias=False):
        pad = kernel // 2
        self.conv = nnx.Conv(inputs, outputs, (kernel, kernel), strides=(stride, stride), padding=((pad, pad), (pad, pad)),
                             feature_group_count=groups, use_bias=bias, dtype=dtype, rngs=rngs)
        self.norm = nnx.BatchNorm(outputs, momentum=0.99, dtype=dtype, rngs=rngs)
        self.activation = activation

    def __call__(self, x):
        y = self.norm(self.conv(x))
        return self.activation(y) if self.activation else y


class Residual(nnx.Module):
    """x + branch(x), followed by an optional activation."""

    def __init__(self, branch, shortcut=None, activation=None):
        self.branch, self.shortcut, self.activation = nnx.List(branch), shortcut, activation

    def __call__(self, x):
        y = x
        for layer in self.branch:
            y = layer(y)
        y = y + (x if self.shortcut is None else self.shortcut(x))
        return self.activation(y) if self.activation else y


class Net(nnx.Module):
    """Sequence of layers, global average pooling, and logits in float32."""

    def __init__(self, layers, channels, classes, rngs, dtype):
        self.layers = nnx.List(layers)
        self.logits = nnx.Linear(channels, classes, dtype=dtype, rngs=rngs)
        self.dtype = dtype

    def __call__(self, x):
        x = x.astype(self.dtype)
        for layer in self.layers:
            x = layer(x)
        return self.logits(x.mean((1, 2))).astype(jnp.float32)


def resnet20(dtype=jnp.float32, classes=10):
    rngs, relu = nnx.Rngs(0), jax.nn.relu
    layers, inputs = [Normed(3, 16, 3, rngs, activation=relu, dtype=dtype)], 16
    for outputs, first_stride in ((16, 1), (32, 2), (64, 2)):
        for stride in (first_stride, 1, 1):
            branch = [Normed(inputs, outputs, 3, rngs, stride, activation=relu, dtype=dtype),
                      Normed(outputs, outputs, 3, rngs, dtype=dtype)]
            shortcut = Normed(inputs, outputs, 1, rngs, stride, dtype=dtype) if inputs != outputs else None
            layers.append(Residual(branch, shortcut, relu))
            inputs = outputs
    return Net(layers, 64, classes, rngs, dtype)


class MaxPool(nnx.Module):
    def __call__(self, x):
        return nnx.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))


def resnet50(dtype=jnp.float32, classes=1000):
    """ResNet-50 like that of keras.applications: with biases, and with the stride in a block's first convolution."""
    rngs, relu = nnx.Rngs(0), jax.nn.relu

    def normed(inputs, outputs, kernel, stride=1, activation=None):
        return Normed(inputs, outputs, kernel, rngs, stride, activation=activation, dtype=dtype, bias=True)

    layers, inputs = [normed(3, 64, 7, 2, relu), MaxPool()], 64
    for width, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            branch = [normed(inputs, width, 1, stride, relu), normed(width, width, 3, 1, relu), normed(width, 4 * width, 1)]
            layers.append(Residual(branch, normed(inputs, 4 * width, 1, stride) if block == 0 else None, relu))
            inputs = 4 * width
    return Net(layers, 2048, classes, rngs, dtype)


def mobilenet_v2(dtype=jnp.float32, classes=1000):
    rngs, relu6 = nnx.Rngs(0), jax.nn.relu6
    layers, inputs = [Normed(3, 32, 3, rngs, 2, activation=relu6, dtype=dtype)], 32
    for expansion, outputs, blocks, first_stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                                     (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            stride, hidden = first_stride if block == 0 else 1, expansion * inputs
            branch = [Normed(inputs, hidden, 1, rngs, activation=relu6, dtype=dtype)] if expansion > 1 else []
            branch += [Normed(hidden, hidden, 3, rngs, stride, groups=hidden, activation=relu6, dtype=dtype),
                       Normed(hidden, outputs, 1, rngs, dtype=dtype)]
            layers += [Residual(branch)] if stride == 1 and inputs == outputs else branch
            inputs = outputs
    layers.append(Normed(320, 1280, 1, rngs, activation=relu6, dtype=dtype))
    return Net(layers, 1280, classes, rngs, dtype)


NETS = {'resnet20': resnet20, 'resnet50': resnet50, 'mobilenet_v2': mobilenet_v2}


def training(net, average=lambda tree: tree):
    """Returns a state, and step(state, x, y) -> (state, loss). `average` is applied to gradients and batch statistics, to
    average them over several devices."""
    definition, state = nnx.split((net, nnx.Optimizer(net, optax.sgd(0.01, momentum=0.9), wrt=nnx.Param)))

    def step(state, x, y):
        net, optimizer = nnx.merge(definition, state)

        def loss_of(net):
            return optax.softmax_cross_entropy_with_integer_labels(net(x), y).mean()

        loss, gradients = nnx.value_and_grad(loss_of)(net)
        optimizer.update(net, average(gradients))
        nnx.update(net, average(nnx.state(net, nnx.BatchStat)))
        return nnx.state((net, optimizer)), loss

    return state, step
