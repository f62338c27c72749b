"""Convolutions, pooling, normalization, embedding, attention of torch.nn.functional."""

import math

import torch
import torch.nn.functional as F

from row import Row, bools, distinct, fixed, integers, normal, positive


def attention(q, k, v, mask=None, causal=False):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return torch.softmax(scores, -1) @ v


def batch_norm(**options):
    def program(x, mean, var, weight, bias):
        mean, var = mean.detach().clone(), var.detach().clone()
        y = F.batch_norm(x, mean, var, weight, bias, **options)
        return y, mean, var
    return program


IMAGES, KERNEL = normal(2, 4, 7, 6), normal(6, 4, 3, 3)
def rms(x, dims, eps):
    """F.rms_norm without a weight, which this version of PyTorch lacks."""
    return x / torch.sqrt(x.square().mean(dims, keepdim=True) + eps)


ROWS = {
    "conv1d": Row([normal(2, 3, 9), normal(4, 3, 3), normal(4)], F.conv1d),
    "conv1d with options": Row([normal(2, 4, 9), normal(6, 2, 3)],
                               lambda x, w: F.conv1d(x, w, stride=2, padding=2, dilation=2, groups=2)),
    "conv2d": Row([IMAGES, KERNEL, normal(6)], F.conv2d),
    "conv2d with stride and padding": Row([IMAGES, KERNEL], lambda x, w: F.conv2d(x, w, stride=2, padding=1)),
    "conv2d with pairs": Row([IMAGES, KERNEL],
                             lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(0, 2), dilation=(1, 2))),
    "conv2d in groups": Row([IMAGES, normal(6, 2, 3, 3), normal(6)], lambda x, w, b: F.conv2d(x, w, b, groups=2)),
    "conv2d depthwise": Row([IMAGES, normal(8, 1, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1, groups=4)),
    "conv2d same": Row([IMAGES, normal(6, 4, 3, 2)], lambda x, w: F.conv2d(x, w, padding="same")),
    "conv2d same dilated": Row([IMAGES, normal(6, 4, 3, 2)], lambda x, w: F.conv2d(x, w, padding="same", dilation=2)),
    "conv2d valid": Row([IMAGES, KERNEL], lambda x, w: F.conv2d(x, w, padding="valid")),
    "conv2d of one pixel": Row([IMAGES, normal(5, 4, 1, 1)], F.conv2d),
    "conv2d without a batch": Row([normal(4, 7, 6), KERNEL], F.conv2d),
    "conv2d of bfloat16": Row([normal(2, 4, 7, 6, dtype=torch.bfloat16), normal(6, 4, 3, 3, dtype=torch.bfloat16)], F.conv2d),
    "conv3d": Row([normal(1, 2, 4, 5, 6), normal(3, 2, 2, 3, 2), normal(3)],
                  lambda x, w, b: F.conv3d(x, w, b, stride=(1, 2, 1), padding=1)),
    "conv_transpose1d": Row([normal(2, 3, 5), normal(3, 4, 3), normal(4)], lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2)),
    "conv_transpose2d": Row([normal(2, 4, 5, 4), normal(4, 6, 3, 3), normal(6)], F.conv_transpose2d),
    "conv_transpose2d with options": Row([normal(2, 4, 5, 4), normal(4, 3, 3, 2)],
                                         lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=2)),
    "conv_transpose2d dilated": Row([normal(1, 2, 4, 4), normal(2, 3, 3, 3)],
                                    lambda x, w: F.conv_transpose2d(x, w, stride=(2, 1), padding=(1, 0), dilation=(2, 1))),

    "max_pool1d": Row([distinct(2, 3, 9)], lambda x: F.max_pool1d(x, 3, 2, 1)),
    "max_pool2d": Row([distinct(2, 3, 8, 6)], lambda x: F.max_pool2d(x, 2)),
    "max_pool2d overlapping": Row([distinct(2, 3, 7, 7)], lambda x: F.max_pool2d(x, 3, 2, 1)),
    "max_pool2d ceil": Row([distinct(1, 2, 6, 7)], lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True)),
    "max_pool2d dilated": Row([distinct(1, 2, 7, 7)], lambda x: F.max_pool2d(x, (2, 3), 1, (1, 0), (2, 1))),
    "avg_pool1d": Row([normal(2, 3, 9)], lambda x: F.avg_pool1d(x, 3, 2, 1)),
    "avg_pool2d": Row([normal(2, 3, 8, 6)], lambda x: F.avg_pool2d(x, 2)),
    "avg_pool2d padded": Row([normal(2, 3, 7, 7)], lambda x: F.avg_pool2d(x, 3, 2, 1)),
    "avg_pool2d without padding counted": Row([normal(2, 3, 7, 7)],
                                              lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    "avg_pool2d ceil": Row([normal(2, 3, 6, 8)], lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
    "avg_pool2d ceil without padding counted": Row(
        [normal(2, 3, 6, 8)], lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)),
    "avg_pool2d with a divisor": Row([normal(2, 3, 6, 6)], lambda x: F.avg_pool2d(x, 2, divisor_override=3)),
    "adaptive_avg_pool1d": Row([normal(2, 3, 7)], lambda x: F.adaptive_avg_pool1d(x, 3)),
    "adaptive_avg_pool2d": Row([normal(2, 3, 7, 6)], lambda x: F.adaptive_avg_pool2d(x, (3, 4))),
    "adaptive_avg_pool2d to one": Row([normal(2, 3, 7, 6)], lambda x: F.adaptive_avg_pool2d(x, 1)),
    "adaptive_avg_pool2d to more": Row([normal(1, 2, 3, 4)], lambda x: F.adaptive_avg_pool2d(x, (5, None))),
    "adaptive_max_pool1d": Row([distinct(2, 3, 7)], lambda x: F.adaptive_max_pool1d(x, 3)),
    "adaptive_max_pool1d of equal numbers": Row([integers(0, 2, 2, 3, 7, dtype=torch.float32)],
                                                lambda x: F.adaptive_max_pool1d(x, 3)),
    "adaptive_max_pool2d of equal numbers": Row([integers(0, 2, 2, 3, 6, 7, dtype=torch.float32)],
                                                lambda x: F.adaptive_max_pool2d(x, (3, 4))),
    "adaptive_max_pool2d": Row([distinct(2, 3, 7, 6)], lambda x: F.adaptive_max_pool2d(x, (3, 1))),

    "batch_norm": Row([normal(3, 4, 5, 5), normal(4), positive(4), normal(4), normal(4)],
                      batch_norm(training=True, momentum=0.3)),
    "batch_norm of a matrix": Row([normal(6, 4), normal(4), positive(4), normal(4), normal(4)], batch_norm(training=True)),
    "batch_norm in inference": Row([normal(3, 4, 5), normal(4), positive(4), normal(4), normal(4)],
                                   batch_norm(eps=1e-3)),
    "batch_norm without weights": Row([normal(3, 4, 5, 2)], lambda x: F.batch_norm(x, None, None, training=True)),
    "layer_norm": Row([normal(3, 4, 5), normal(5), normal(5)], lambda x, w, b: F.layer_norm(x, (5,), w, b)),
    "layer_norm over two dims": Row([normal(3, 4, 5), normal(4, 5)], lambda x, w: F.layer_norm(x, (4, 5), w, None, 1e-3)),
    "layer_norm of bfloat16": Row([normal(3, 16, dtype=torch.bfloat16)], lambda x: F.layer_norm(x, (16,))),
    "group_norm": Row([normal(2, 6, 4, 3), normal(6), normal(6)], lambda x, w, b: F.group_norm(x, 3, w, b)),
    "group_norm without weights": Row([normal(2, 4)], lambda x: F.group_norm(x, 2)),
    "instance_norm": Row([normal(2, 3, 4, 5), normal(3), normal(3)],
                         lambda x, w, b: F.instance_norm(x, weight=w, bias=b)),
    "local_response_norm": Row([normal(2, 6, 3, 3)], lambda x: F.local_response_norm(x, 3, alpha=0.1, k=2.0)),

    "embedding": Row([integers(0, 6, 2, 3), normal(6, 4)], F.embedding),
    "embedding with padding_idx": Row([integers(0, 3, 2, 4), normal(3, 4)], lambda i, w: F.embedding(i, w, padding_idx=1)),
    "embedding with padding_idx from the end": Row([integers(0, 3, 2, 4), normal(3, 4)],
                                                   lambda i, w: F.embedding(i, w, padding_idx=-1)),
    "scaled_dot_product_attention": Row([normal(2, 3, 4, 5), normal(2, 3, 6, 5), normal(2, 3, 6, 7)], attention),
    "scaled_dot_product_attention causal": Row([normal(2, 4, 5), normal(2, 4, 5), normal(2, 4, 5)],
                                               lambda q, k, v: attention(q, k, v, causal=True)),
    "scaled_dot_product_attention with a mask": Row(
        [normal(2, 4, 5), normal(2, 3, 5), normal(2, 3, 5), normal(4, 3)], attention),
    "scaled_dot_product_attention with a bool mask": Row(
        [normal(2, 4, 5), normal(2, 3, 5), normal(2, 3, 5), lambda random: torch.tensor([[True, False, True]] * 4)], attention),
    "rms_norm": Row([normal(4, 6), normal(6)], lambda x, w: rms(x, (-1,), 1e-3) * w),
    "rms_norm over two dims": Row([normal(2, 3, 4)], lambda x: rms(x, (-1, -2), torch.finfo(x.dtype).eps)),
    "max_pool3d": Row([distinct(2, 3, 4, 5, 6)], lambda x: F.max_pool3d(x, 2, (1, 2, 2), 1)),
    "avg_pool3d": Row([normal(2, 3, 4, 5, 6)], lambda x: F.avg_pool3d(x, (1, 2, 3), padding=(0, 1, 1), count_include_pad=False)),
    "adaptive_avg_pool3d": Row([normal(2, 3, 4, 5, 6)], lambda x: F.adaptive_avg_pool3d(x, (1, 2, 3))),
    "embedding_bag sum": Row([integers(0, 7, 8), normal(7, 3), fixed([0, 3, 3, 6])], lambda i, w, o: F.embedding_bag(i, w, o, mode="sum")),
    "embedding_bag mean": Row([integers(0, 7, 8), normal(7, 3), fixed([0, 3, 3, 6])], lambda i, w, o: F.embedding_bag(i, w, o, mode="mean")),
    "embedding_bag max": Row([integers(0, 7, 8), normal(7, 3), fixed([0, 3, 3, 6])], lambda i, w, o: F.embedding_bag(i, w, o, mode="max")),
    "embedding_bag of bags": Row([integers(0, 7, 4, 3), normal(7, 3)], F.embedding_bag),
    "embedding_bag with weights": Row([integers(0, 7, 8), normal(7, 3), fixed([0, 3, 8]), normal(8)], lambda i, w, o, f: F.embedding_bag(
        i, w, o, mode="sum", per_sample_weights=f, include_last_offset=True, padding_idx=2)),
}
