// torchvision's and transformers' programs, written down line by line.
#include <cmath>

#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

nn::Conv2d Conv3x3(int64_t in, int64_t out, int64_t stride = 1) {
  return nn::Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = false});
}

struct BasicBlock : nn::Module {
  BasicBlock(int64_t in, int64_t planes, int64_t stride = 1, nn::Sequential with = nullptr)
      : conv1(register_module("conv1", Conv3x3(in, planes, stride))),
        bn1(register_module("bn1", nn::BatchNorm2d(planes))),
        conv2(register_module("conv2", Conv3x3(planes, planes))),
        bn2(register_module("bn2", nn::BatchNorm2d(planes))),
        downsample(with) {
    if (downsample) register_module("downsample", downsample);
  }
  T forward(const T& x) {
    T out = torch::relu(bn1(conv1(x)));
    out = bn2(conv2(out));
    return torch::relu(out + (downsample ? downsample(x) : x));
  }
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Sequential downsample;
};

struct ResNet : nn::Module {
  nn::Conv2d conv1 =
      register_module("conv1", nn::Conv2d(3, 8, 7, {.stride = 2, .padding = 3, .bias = false}));
  nn::BatchNorm2d bn1 = register_module("bn1", nn::BatchNorm2d(8));
  nn::MaxPool2d maxpool = register_module("maxpool", nn::MaxPool2d(3, {.stride = 2, .padding = 1}));
  nn::Sequential layer1 = register_module(
      "layer1",
      nn::Sequential({std::make_shared<BasicBlock>(8, 8), std::make_shared<BasicBlock>(8, 8)}));
  nn::Sequential layer2 = register_module(
      "layer2",
      nn::Sequential({std::make_shared<BasicBlock>(
                          8, 16, 2,
                          nn::Sequential({nn::Conv2d(8, 16, 1, {.stride = 2, .bias = false}),
                                          nn::BatchNorm2d(16)})),
                      std::make_shared<BasicBlock>(16, 16)}));
  nn::AdaptiveAvgPool2d avgpool = register_module("avgpool", nn::AdaptiveAvgPool2d({1, 1}));
  nn::Linear fc = register_module("fc", nn::Linear(16, 10));

  T forward(T x) {
    x = maxpool(torch::relu(bn1(conv1(x))));
    x = layer2(layer1(x));
    return fc(torch::flatten(avgpool(x), 1));
  }
};

Ts Train(Case& c, bool training) {
  const auto m = c.Load(std::make_shared<ResNet>());
  m->train(training);
  const T logits = m->forward(c.x[0]);
  return {F::cross_entropy(logits, c.x[1]), logits};
}

// ---- BERT ----

struct BertSelfAttention : nn::Module {
  BertSelfAttention(int64_t hidden, int64_t h)
      : query(register_module("query", nn::Linear(hidden, hidden))),
        key(register_module("key", nn::Linear(hidden, hidden))),
        value(register_module("value", nn::Linear(hidden, hidden))),
        heads(h) {}
  T forward(const T& x, const T& mask) {
    const auto split = [&](const T& y) {
      return y.view({y.size(0), y.size(1), heads, -1}).permute({0, 2, 1, 3});
    };
    const T q = split(query(x)), k = split(key(x)), v = split(value(x));
    const T scores =
        torch::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(q.size(-1))) + mask;
    const T context = torch::matmul(F::softmax(scores, -1), v).permute({0, 2, 1, 3}).contiguous();
    return context.view(x.sizes());
  }
  nn::Linear query, key, value;
  int64_t heads;
};

struct BertOutput : nn::Module {
  BertOutput(int64_t inner, int64_t hidden)
      : dense(register_module("dense", nn::Linear(inner, hidden))),
        norm(register_module("LayerNorm", nn::LayerNorm(hidden, {.eps = 1e-12}))) {}
  T forward(const T& x, const T& residual) { return norm(dense(x) + residual); }
  nn::Linear dense;
  nn::LayerNorm norm;
};

struct BertAttention : nn::Module {
  BertAttention(int64_t hidden, int64_t heads)
      : self(register_module("self", std::make_shared<BertSelfAttention>(hidden, heads))),
        output(register_module("output", std::make_shared<BertOutput>(hidden, hidden))) {}
  T forward(const T& x, const T& mask) { return output->forward(self->forward(x, mask), x); }
  std::shared_ptr<BertSelfAttention> self;
  std::shared_ptr<BertOutput> output;
};

struct BertLayer : nn::Module {
  BertLayer(int64_t hidden, int64_t heads, int64_t inner)
      : attention(register_module("attention", std::make_shared<BertAttention>(hidden, heads))),
        intermediate(register_module("intermediate",
                                     nn::ModuleDict({{"dense", nn::Linear(hidden, inner)}}))),
        output(register_module("output", std::make_shared<BertOutput>(inner, hidden))) {}
  T forward(const T& x, const T& mask) {
    const T attended = attention->forward(x, mask);
    return output->forward(F::gelu(intermediate["dense"](attended)), attended);
  }
  std::shared_ptr<BertAttention> attention;
  nn::ModuleDict intermediate;
  std::shared_ptr<BertOutput> output;
};

struct Bert : nn::Module {
  Bert() {
    for (int i = 0; i < 2; ++i) {
      layers.push_back(std::make_shared<BertLayer>(16, 2, 32));
      encoder->push_back(layers.back());
    }
    register_module("encoder", encoder);
    pooler = register_module("pooler", nn::Linear(16, 16));
    classifier = register_module("classifier", nn::Linear(16, 3));
  }
  T forward(const T& input_ids, const T& attention_mask) {
    const T positions = torch::arange(input_ids.size(1)).unsqueeze(0);
    T x = embeddings["word_embeddings"](input_ids) +
          embeddings["token_type_embeddings"](torch::zeros_like(input_ids));
    x = embeddings["LayerNorm"](x + embeddings["position_embeddings"](positions));
    const T mask =
        (1.0 - attention_mask.index({Slice{}, None, None, Slice{}}).to(torch::kFloat)) * -10000.0;
    for (const auto& layer : layers) x = layer->forward(x, mask);
    return classifier(torch::tanh(pooler(x.index({Slice{}, 0}))));
  }
  nn::ModuleDict embeddings = register_module(
      "embeddings", nn::ModuleDict({{"word_embeddings", nn::Embedding(20, 16, {.padding_idx = 0})},
                                    {"position_embeddings", nn::Embedding(8, 16)},
                                    {"token_type_embeddings", nn::Embedding(2, 16)},
                                    {"LayerNorm", nn::LayerNorm(16, {.eps = 1e-12})}}));
  nn::ModuleList encoder;
  std::vector<std::shared_ptr<BertLayer>> layers;
  nn::Linear pooler = nullptr, classifier = nullptr;
};

Ts Classify(Case& c) {
  const T logits = c.Load(std::make_shared<Bert>())->forward(c.x[0], c.x[1]);
  return {F::cross_entropy(logits, c.x[2]), logits};
}

}  // namespace

Table ModelRows() {
  return {
      {"ResNet", [](Case& c) { return Train(c, true); }},
      {"ResNet in inference", [](Case& c) { return Train(c, false); }},
      {"Bert", Classify},
  };
}

}  // namespace penstock::tests::lazy_rows
