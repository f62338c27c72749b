#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

// The module with PyTorch's weights, of the input.
template <typename Make>
Program Of(Make make) {
  return [make](Case& c) { return Ts{c.Load(make())(c.x[0])}; };
}
template <typename Make>
Program LossOf(Make make) {
  return [make](Case& c) { return Ts{c.Load(make())(c.x[0], c.x[1])}; };
}

// Running statistics of two batches, then inference.
template <typename Make>
Program Twice(Make make) {
  return [make](Case& c) {
    auto m = c.Load(make());
    const T a = m(c.x[0]), b = m(c.x[1]);
    m->eval();
    return Ts{a, b, m(c.x[0])};
  };
}

struct Block : nn::Module {
  nn::ModuleList layers =
      register_module("layers", nn::ModuleList({nn::Linear(6, 6), nn::Linear(6, 6)}));
  nn::ModuleDict heads =
      register_module("heads", nn::ModuleDict({{"a", nn::Linear(6, 2)}, {"b", nn::Linear(6, 3)}}));
  Ts forward(T x) {
    for (const nn::AnyModule& layer : layers) x = torch::relu(layer(x)) + x;
    return {heads["a"](x), heads["b"](x)};
  }
};

// One parameter under two names.
struct Tied : nn::Module {
  nn::Embedding embedding = register_module("embedding", nn::Embedding(6, 4));
  std::shared_ptr<nn::Module> decoder = register_module("decoder", std::make_shared<nn::Module>());
  Tied() { decoder->register_parameter("weight", embedding->weight); }
  T forward(const T& indices) { return F::linear(embedding(indices), embedding->weight); }
};

Table PlainRows() {
  return {
      {"ReLU", Of([] { return nn::ReLU(); })},
      {"ReLU6", Of([] { return nn::ReLU6(); })},
      {"LeakyReLU", Of([] { return nn::LeakyReLU(); })},
      {"ELU", Of([] { return nn::ELU(); })},
      {"SELU", Of([] { return nn::SELU(); })},
      {"CELU", Of([] { return nn::CELU(); })},
      {"GELU", Of([] { return nn::GELU(); })},
      {"SiLU", Of([] { return nn::SiLU(); })},
      {"Mish", Of([] { return nn::Mish(); })},
      {"Hardswish", Of([] { return nn::Hardswish(); })},
      {"Hardsigmoid", Of([] { return nn::Hardsigmoid(); })},
      {"Hardtanh", Of([] { return nn::Hardtanh(); })},
      {"Softplus", Of([] { return nn::Softplus(); })},
      {"Softsign", Of([] { return nn::Softsign(); })},
      {"LogSigmoid", Of([] { return nn::LogSigmoid(); })},
      {"Tanhshrink", Of([] { return nn::Tanhshrink(); })},
      {"Softshrink", Of([] { return nn::Softshrink(); })},
      {"Hardshrink", Of([] { return nn::Hardshrink(); })},
      {"Sigmoid", Of([] { return nn::Sigmoid(); })},
      {"Tanh", Of([] { return nn::Tanh(); })},
      {"GLU", Of([] { return nn::GLU(); })},
      {"Identity", Of([] { return nn::Identity(); })},
      {"Flatten", Of([] { return nn::Flatten(); })},
      {"GELU tanh", Of([] { return nn::GELU("tanh"); })},
      {"Threshold", Of([] { return nn::Threshold(0.2, 3.0); })},
      {"Softmax", Of([] { return nn::Softmax(1); })},
      {"LogSoftmax", Of([] { return nn::LogSoftmax(0); })},
      {"Softmin", Of([] { return nn::Softmin(1); })},
      {"Unflatten", Of([] {
         return nn::Unflatten(1, {2, 3});
       })},
      {"MaxPool1d", Of([] { return nn::MaxPool1d(2); })},
      {"MaxPool2d", Of([] { return nn::MaxPool2d(3, {.stride = 2, .padding = 1}); })},
      {"AvgPool1d", Of([] { return nn::AvgPool1d(2); })},
      {"AvgPool2d", Of([] {
         return nn::AvgPool2d({2, 3}, {.padding = 1, .count_include_pad = false});
       })},
      {"AdaptiveAvgPool1d", Of([] { return nn::AdaptiveAvgPool1d(3); })},
      {"AdaptiveAvgPool2d", Of([] {
         return nn::AdaptiveAvgPool2d({1, 4});
       })},
      {"AdaptiveMaxPool1d", Of([] { return nn::AdaptiveMaxPool1d(3); })},
      {"AdaptiveMaxPool2d", Of([] { return nn::AdaptiveMaxPool2d(2); })},
      {"ZeroPad2d", Of([] {
         return nn::ZeroPad2d({1, 0, 2, 1});
       })},
      {"ConstantPad2d", Of([] { return nn::ConstantPad2d(1, 3.5); })},
      {"ReflectionPad2d", Of([] { return nn::ReflectionPad2d(2); })},
      {"ReplicationPad2d", Of([] {
         return nn::ReplicationPad2d({1, 2, 0, 3});
       })},
      {"PixelShuffle", Of([] { return nn::PixelShuffle(2); })},
      {"PixelUnshuffle", Of([] { return nn::PixelUnshuffle(3); })},
      {"Upsample", Of([] { return nn::Upsample({.scale_factor = {2}, .mode = "bilinear"}); })},
      {"Unfold", Of([] { return nn::Unfold(3, {.stride = 2}); })},
      {"LocalResponseNorm", Of([] { return nn::LocalResponseNorm(2, 0.1); })},
  };
}

Table ParameterRows() {
  return {
      {"PReLU", Of([] { return nn::PReLU(6); })},
      {"Linear", Of([] { return nn::Linear(6, 3); })},
      {"Linear without a bias", Of([] { return nn::Linear(6, 3, {.bias = false}); })},
      {"Embedding", Of([] { return nn::Embedding(7, 4, {.padding_idx = 2}); })},
      {"Conv1d", Of([] { return nn::Conv1d(4, 6, 3, {.stride = 2, .padding = 1}); })},
      {"Conv2d",
       Of([] { return nn::Conv2d(4, 6, 3, {.stride = 2, .padding = 1, .bias = false}); })},
      {"Conv2d in groups", Of([] {
         return nn::Conv2d(4, 8, {3, 1}, {.padding = "same", .groups = 4});
       })},
      {"Conv2d reflect", Of([] {
         return nn::Conv2d(4, 3, 3, {.padding = {1, 2}, .padding_mode = "reflect"});
       })},
      {"Conv2d circular",
       Of([] { return nn::Conv2d(4, 3, 3, {.padding = "same", .padding_mode = "circular"}); })},
      {"Conv3d", Of([] { return nn::Conv3d(2, 3, 2); })},
      {"ConvTranspose1d", Of([] { return nn::ConvTranspose1d(4, 6, 3, {.stride = 2}); })},
      {"ConvTranspose2d", Of([] {
         return nn::ConvTranspose2d(4, 6, 3,
                                    {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
       })},
      {"BatchNorm1d", Twice([] { return nn::BatchNorm1d(3); })},
      {"BatchNorm1d of sequences", Of([] { return nn::BatchNorm1d(3, {.affine = false}); })},
      {"BatchNorm2d", Twice([] { return nn::BatchNorm2d(4, {.eps = 1e-3, .momentum = 0.3}); })},
      {"BatchNorm2d cumulative", Twice([] { return nn::BatchNorm2d(4, {.momentum = {}}); })},
      {"BatchNorm2d without statistics",
       Twice([] { return nn::BatchNorm2d(4, {.track_running_stats = false}); })},
      {"BatchNorm3d",
       [](Case& c) {
         auto m = c.Load(nn::BatchNorm3d(2));
         m->eval();
         return Ts{m(c.x[0])};
       }},
      {"LayerNorm", Of([] { return nn::LayerNorm(6); })},
      {"LayerNorm over two dims", Of([] {
         return nn::LayerNorm({6, 6}, {.eps = 1e-3, .elementwise_affine = false});
       })},
      {"GroupNorm", Of([] { return nn::GroupNorm(2, 4); })},
      {"InstanceNorm1d", Of([] { return nn::InstanceNorm1d(4); })},
      {"InstanceNorm2d", Of([] { return nn::InstanceNorm2d(4, {.affine = true}); })},
      {"Sequential", Of([] {
         return nn::Sequential({nn::Linear(6, 8), nn::Tanh(), nn::Dropout(0), nn::Linear(8, 2)});
       })},
      {"Sequential with names", Of([] {
         return nn::Sequential(
             {{"hidden", nn::Linear(6, 8)}, {"act", nn::GELU()}, {"out", nn::Linear(8, 2)}});
       })},
      {"ModuleList and ModuleDict",
       [](Case& c) { return c.Load(std::make_shared<Block>())->forward(c.x[0]); }},
      {"ModuleDict of heads",
       [](Case& c) { return c.Load(std::make_shared<Block>())->forward(c.x[0]); }},
      {"Embedding tied to a decoder",
       [](Case& c) { return Ts{c.Load(std::make_shared<Tied>())->forward(c.x[0])}; }},
  };
}

Table LossModuleRows() {
  return {
      {"CrossEntropyLoss",
       LossOf([] { return nn::CrossEntropyLoss({.reduction = "sum", .label_smoothing = 0.1}); })},
      {"NLLLoss", LossOf([] { return nn::NLLLoss({.ignore_index = 3}); })},
      {"MSELoss", LossOf([] { return nn::MSELoss(); })},
      {"L1Loss", LossOf([] { return nn::L1Loss("none"); })},
      {"SmoothL1Loss", LossOf([] { return nn::SmoothL1Loss("mean", 0.5); })},
      {"HuberLoss", LossOf([] { return nn::HuberLoss("mean", 0.5); })},
      {"BCELoss", [](Case& c) { return Ts{nn::BCELoss()(c.x[0], c.x[1].detach())}; }},
      {"BCEWithLogitsLoss", LossOf([] { return nn::BCEWithLogitsLoss(); })},
      {"KLDivLoss", LossOf([] { return nn::KLDivLoss("batchmean", true); })},
      {"SoftMarginLoss", [](Case& c) { return Ts{nn::SoftMarginLoss()(c.x[0], c.x[1].detach())}; }},
      {"HingeEmbeddingLoss",
       [](Case& c) { return Ts{nn::HingeEmbeddingLoss()(c.x[0], c.x[1].detach())}; }},
      {"CosineSimilarity", LossOf([] { return nn::CosineSimilarity(); })},
      {"MaxPool3d", Of([] { return nn::MaxPool3d(2); })},
      {"AvgPool3d", Of([] { return nn::AvgPool3d(2); })},
      {"AdaptiveAvgPool3d", Of([] { return nn::AdaptiveAvgPool3d(1); })},
      {"ConstantPad1d", Of([] { return nn::ConstantPad1d(2, 3.5); })},
      {"ReflectionPad1d", Of([] {
         return nn::ReflectionPad1d({1, 2});
       })},
      {"Fold", Of([] {
         return nn::Fold({4, 5}, 2);
       })},
      {"EmbeddingBag of bags", Of([] { return nn::EmbeddingBag(7, 4); })},
      {"ChannelShuffle", Of([] { return nn::ChannelShuffle(2); })},
      {"EmbeddingBag",
       [](Case& c) {
         return Ts{
             c.Load(nn::EmbeddingBag(7, 4, {.mode = "sum", .padding_idx = 2}))(c.x[0], c.x[1])};
       }},
      {"Bilinear", LossOf([] { return nn::Bilinear(6, 5, 3); })},
      {"SyncBatchNorm", Of([] { return nn::SyncBatchNorm(4); })},
      {"RMSNorm", Of([] { return nn::RMSNorm(6, {.eps = 1e-3}); })},
      {"ParameterList",
       [](Case& c) {
         const auto list = c.Load(nn::ParameterList({torch::zeros({6, 3}), torch::zeros({3})}));
         return Ts{torch::matmul(c.x[0], list[0]) + list[1]};
       }},
      {"PairwiseDistance", LossOf([] { return nn::PairwiseDistance(1); })},
      {"MultiMarginLoss", LossOf([] { return nn::MultiMarginLoss({.p = 2}); })},
      {"MultiLabelSoftMarginLoss",
       [](Case& c) { return Ts{nn::MultiLabelSoftMarginLoss()(c.x[0], c.x[1].detach())}; }},
      {"PoissonNLLLoss", [](Case& c) { return Ts{nn::PoissonNLLLoss()(c.x[0], c.x[1].detach())}; }},
      {"MarginRankingLoss",
       [](Case& c) { return Ts{nn::MarginRankingLoss(0.3)(c.x[0], c.x[1], c.x[2].detach())}; }},
      {"CosineEmbeddingLoss",
       [](Case& c) { return Ts{nn::CosineEmbeddingLoss(0.1)(c.x[0], c.x[1], c.x[2].detach())}; }},
      {"TripletMarginLoss",
       [](Case& c) { return Ts{nn::TripletMarginLoss(2)(c.x[0], c.x[1], c.x[2])}; }},
      {"GaussianNLLLoss",
       [](Case& c) { return Ts{nn::GaussianNLLLoss()(c.x[0], c.x[1], c.x[2])}; }},
      {"CTCLoss",
       [](Case& c) {
         return Ts{nn::CTCLoss()(torch::log_softmax(c.x[0], 2), c.x[1], c.x[2], c.x[3])};
       }},
      {"parameters_to_vector",
       [](Case& c) {
         return Ts{nn::utils::parameters_to_vector({c.x[0], c.x[1]})};
       }},
      {"vector_to_parameters",
       [](Case& c) {
         const Ts made{torch::zeros({2, 3}), torch::zeros({4})};
         nn::utils::vector_to_parameters(c.x[0], made);
         return made;
       }},
  };
}

}  // namespace

Table ModuleRows() {
  Table rows = PlainRows();
  for (const Table& part : {ParameterRows(), LossModuleRows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

}  // namespace penstock::tests::lazy_rows
