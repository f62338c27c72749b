"""Recurrent modules and transformers."""

import torch
from torch import nn

from row import Row, normal


def recurrent(m, x, *states):
    """output, h_n (and c_n)."""
    state = None if not states else states[0] if len(states) == 1 else states
    y, h = m(x, state)
    return (y, *h) if isinstance(h, tuple) else (y, h)


def of(module, *inputs):
    return Row(list(inputs), recurrent, module=module, tolerance=2e-5)


def cell(module, *inputs):
    return Row(list(inputs), lambda m, x, *s: m(x, None if not s else s[0] if len(s) == 1 else s), module=module)


def attention(**options):
    return lambda m, q, k, v: m(q, k, v, **options)


MASK = torch.triu(torch.ones(5, 5), 1) == 1
PADDING = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
LAYER = dict(d_model=8, nhead=2, dim_feedforward=12, dropout=0.0)
ROWS = {
    "RNN": of(lambda: nn.RNN(3, 4), normal(5, 2, 3)),
    "RNN relu": of(lambda: nn.RNN(3, 4, nonlinearity="relu", bias=False), normal(5, 2, 3), normal(1, 2, 4)),
    "LSTM": of(lambda: nn.LSTM(3, 4), normal(5, 2, 3)),
    "LSTM with states": of(lambda: nn.LSTM(3, 4), normal(5, 2, 3), normal(1, 2, 4), normal(1, 2, 4)),
    "LSTM of two layers in both directions": of(lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True),
                                                normal(2, 5, 3)),
    "LSTM without a batch": of(lambda: nn.LSTM(3, 4), normal(5, 3)),
    "GRU": of(lambda: nn.GRU(3, 4), normal(5, 2, 3)),
    "GRU in both directions": of(lambda: nn.GRU(3, 4, 2, bidirectional=True), normal(5, 2, 3), normal(4, 2, 4)),
    "MultiheadAttention": Row([normal(5, 2, 8), normal(4, 2, 8), normal(4, 2, 8)], attention(),
                              module=lambda: nn.MultiheadAttention(8, 2), tolerance=2e-5),
    "MultiheadAttention with masks": Row(
        [normal(2, 5, 8), normal(2, 5, 8), normal(2, 5, 8)],
        attention(attn_mask=MASK, key_padding_mask=PADDING, average_attn_weights=False),
        module=lambda: nn.MultiheadAttention(8, 4, batch_first=True, bias=False), tolerance=2e-5),
    "TransformerEncoderLayer": Row([normal(5, 2, 8)], lambda m, x: m(x), module=lambda: nn.TransformerEncoderLayer(**LAYER),
                                   tolerance=2e-5),
    "TransformerEncoderLayer norm_first": Row(
        [normal(2, 5, 8)], lambda m, x: m(x, MASK, PADDING),
        module=lambda: nn.TransformerEncoderLayer(**LAYER, activation="gelu", batch_first=True, norm_first=True),
        tolerance=2e-5),
    "TransformerEncoder": Row([normal(5, 2, 8)], lambda m, x: m(x), module=lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**LAYER), 2, nn.LayerNorm(8)), tolerance=5e-5),
    "TransformerDecoderLayer": Row([normal(5, 2, 8), normal(4, 2, 8)], lambda m, x, memory: m(x, memory, MASK),
                                   module=lambda: nn.TransformerDecoderLayer(**LAYER), tolerance=2e-5),
    "TransformerDecoderLayer norm_first": Row(
        [normal(2, 5, 8), normal(2, 4, 8)], lambda m, x, memory: m(x, memory),
        module=lambda: nn.TransformerDecoderLayer(**LAYER, batch_first=True, norm_first=True), tolerance=2e-5),
    "TransformerDecoder": Row([normal(5, 2, 8), normal(4, 2, 8)], lambda m, x, memory: m(x, memory),
                              module=lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(**LAYER), 2), tolerance=5e-5),
    "RNNCell": cell(lambda: nn.RNNCell(3, 4), normal(2, 3)),
    "RNNCell relu": cell(lambda: nn.RNNCell(3, 4, bias=False, nonlinearity="relu"), normal(2, 3), normal(2, 4)),
    "GRUCell": cell(lambda: nn.GRUCell(3, 4), normal(2, 3), normal(2, 4)),
    "LSTMCell": cell(lambda: nn.LSTMCell(3, 4), normal(2, 3), normal(2, 4), normal(2, 4)),
    "LSTMCell without a batch": cell(lambda: nn.LSTMCell(3, 4), normal(3)),
    "Transformer": Row([normal(4, 2, 8), normal(5, 2, 8)],
                       lambda m, x, y: m(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5)),
                       module=lambda: nn.Transformer(8, 2, 2, 2, 12, 0.0), tolerance=1e-4),
}
