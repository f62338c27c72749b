"""Networks as torchvision and transformers write them."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.resnet import BasicBlock, conv1x1

from row import Row, fixed, integers, normal


class ResNet(nn.Module):
    """torchvision's ResNet with fewer blocks and channels."""
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 8))
        downsample = nn.Sequential(conv1x1(8, 16, 2), nn.BatchNorm2d(16))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, 2, downsample), BasicBlock(16, 16))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class BertSelfAttention(nn.Module):
    """transformers' BERT, under its names."""
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))

    def forward(self, x, mask):
        def split(y):
            return y.view(y.size(0), y.size(1), self.heads, -1).permute(0, 2, 1, 3)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1)) + mask
        context = torch.matmul(F.softmax(scores, dim=-1), v).permute(0, 2, 1, 3).contiguous()
        return context.view(x.size())


class BertOutput(nn.Module):
    def __init__(self, inner, hidden):
        super().__init__()
        self.dense = nn.Linear(inner, hidden)
        self.LayerNorm = nn.LayerNorm(hidden, eps=1e-12)

    def forward(self, x, residual):
        return self.LayerNorm(self.dense(x) + residual)


class BertLayer(nn.Module):
    def __init__(self, hidden, heads, inner):
        super().__init__()
        self.attention = nn.ModuleDict({"self": BertSelfAttention(hidden, heads), "output": BertOutput(hidden, hidden)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(hidden, inner)})
        self.output = BertOutput(inner, hidden)

    def forward(self, x, mask):
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    def __init__(self, hidden=16, heads=2, layers=2, vocabulary=20, positions=8):
        super().__init__()
        self.embeddings = nn.ModuleDict({
            "word_embeddings": nn.Embedding(vocabulary, hidden, padding_idx=0),
            "position_embeddings": nn.Embedding(positions, hidden),
            "token_type_embeddings": nn.Embedding(2, hidden),
            "LayerNorm": nn.LayerNorm(hidden, eps=1e-12)})
        self.encoder = nn.ModuleList([BertLayer(hidden, heads, 32) for _ in range(layers)])
        self.pooler = nn.Linear(hidden, hidden)
        self.classifier = nn.Linear(hidden, 3)

    def forward(self, input_ids, attention_mask):
        e = self.embeddings
        positions = torch.arange(input_ids.size(1)).unsqueeze(0)
        x = e["word_embeddings"](input_ids) + e["token_type_embeddings"](torch.zeros_like(input_ids))
        x = e["LayerNorm"](x + e["position_embeddings"](positions))
        mask = (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
        for layer in self.encoder:
            x = layer(x, mask)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


def train(m, x, y):
    logits = m(x)
    return F.cross_entropy(logits, y), logits


def classify(m, ids, mask, y):
    logits = m(ids, mask)
    return F.cross_entropy(logits, y), logits


ROWS = {
    "ResNet": Row([normal(4, 3, 32, 32), integers(0, 10, 4)], train, module=ResNet, tolerance=1e-4),
    "ResNet in inference": Row([normal(2, 3, 32, 32), integers(0, 10, 2)], train, module=lambda: ResNet().eval(),
                               tolerance=1e-4),
    "Bert": Row([integers(0, 20, 3, 6), fixed([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0]]),
                 integers(0, 3, 3)], classify, module=Bert, tolerance=1e-4),
}
