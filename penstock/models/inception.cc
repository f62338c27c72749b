#include "penstock/models/inception.h"

#include "absl/strings/str_cat.h"

#include "penstock/models/image_net_builder.h"

namespace penstock::models {
namespace {

using nn::Symbol;

constexpr ModelInfo InceptionInfo(const char* name, const char* keras_name, ModelFunction make) {
  return {name, keras_name, make, 299, 75, PreprocessMode::kTf, kImageNet | kMomentum};
}

constexpr ModelInfo kInceptions[] = {
    InceptionInfo("inception_v3", "InceptionV3", InceptionV3),
    InceptionInfo("inception_resnet_v2", "InceptionResNetV2", InceptionResNetV2),
};

// A convolution of a branch. kHalve: stride 2 without padding; kValid: without padding.
enum class Window { kSame, kValid, kHalve };
struct InceptionConv {
  int64_t filters, height, width;
  Window window = Window::kSame;
};
using InceptionBranch = std::vector<InceptionConv>;

constexpr Window kHalve = Window::kHalve;

// Layers of this family. Most have automatic names, in the order in which they are made.
class InceptionLayers {
 public:
  explicit InceptionLayers(double momentum) : momentum_(momentum) {}

  // Convolution, normalization, activation.
  Symbol Conv(Symbol x, const InceptionConv& conv, const std::string& name = "") {
    const bool named = !name.empty();
    x = nn::Conv2D({.filters = conv.filters,
                    .kernel_size = {conv.height, conv.width},
                    .strides = conv.window == Window::kHalve ? 2 : 1,
                    .padding = conv.window == Window::kSame ? "same" : "valid",
                    .use_bias = false,
                    .name = named ? name : names_("conv2d")})(x);
    x = nn::BatchNormalization({.momentum = momentum_,
                                .scale = false,
                                .name = named ? name + "_bn" : names_("batch_normalization")})(x);
    return nn::Activation(
        {.activation = "relu", .name = named ? name + "_ac" : names_("activation")})(x);
  }

  Symbol Branch(Symbol x, const InceptionBranch& branch) {
    for (const InceptionConv& conv : branch) x = Conv(x, conv);
    return x;
  }

  std::vector<Symbol> Branches(Symbol x, const std::vector<InceptionBranch>& branches) {
    std::vector<Symbol> outputs;
    for (const InceptionBranch& branch : branches) outputs.push_back(Branch(x, branch));
    return outputs;
  }

  Symbol Concatenate(const std::vector<Symbol>& branches, const std::string& name = "") {
    return nn::Concatenate({.axis = 3, .name = name.empty() ? names_("concatenate") : name})(
        branches);
  }

  // Branches and a branch of average pooling and `pool_filters` channels.
  Symbol Mixed(Symbol x, const std::vector<InceptionBranch>& branches, int64_t pool_filters,
               const std::string& name) {
    std::vector<Symbol> outputs = Branches(x, branches);
    outputs.push_back(PoolBranch(x, pool_filters));
    return Concatenate(outputs, name);
  }

  // Branches that halve height and width, and one of maximum pooling.
  Symbol HalvingMixed(Symbol x, const std::vector<InceptionBranch>& branches,
                      const std::string& name) {
    std::vector<Symbol> outputs = Branches(x, branches);
    outputs.push_back(MaxPool(x));
    return Concatenate(outputs, name);
  }

  Symbol PoolBranch(Symbol x, int64_t filters) {
    x = nn::AveragePooling2D(
        {.pool_size = 3, .strides = 1, .padding = "same", .name = names_("average_pooling2d")})(x);
    return Conv(x, {filters, 1, 1});
  }

  Symbol MaxPool(Symbol x) {
    return nn::MaxPooling2D({.pool_size = 3, .strides = 2, .name = names_("max_pooling2d")})(x);
  }

  // The first layers of both networks.
  Symbol Stem(Symbol x) {
    x = Branch(x, {{32, 3, 3, kHalve}, {32, 3, 3, Window::kValid}, {64, 3, 3}});
    x = MaxPool(x);
    x = Branch(x, {{80, 1, 1, Window::kValid}, {192, 3, 3, Window::kValid}});
    return MaxPool(x);
  }

  // The last blocks of InceptionV3: convolutions of 1x3 and 3x1 beside each other.
  Symbol WideMixed(Symbol x, int index) {
    const auto forked = [&](Symbol y, const std::string& name) {
      return Concatenate(Branches(y, {{{384, 1, 3}}, {{384, 3, 1}}}), name);
    };
    const Symbol narrow = Branch(x, {{320, 1, 1}});
    const Symbol once = forked(Branch(x, {{384, 1, 1}}), absl::StrCat("mixed9_", index));
    const Symbol twice = forked(Branch(x, {{448, 1, 1}, {384, 3, 3}}), "");
    return Concatenate({narrow, once, twice, PoolBranch(x, 192)}, absl::StrCat("mixed", 9 + index));
  }

  // A block of InceptionResNetV2: the branches' residual, times `scale`, is added to x.
  Symbol Residual(Symbol x, const std::vector<InceptionBranch>& branches, double scale,
                  const std::string& name, bool activated) {
    Symbol y = Concatenate(Branches(x, branches), name + "_mixed");
    y = nn::Conv2D({.filters = internal::Channels(x), .padding = "same", .name = name + "_conv"})(
        y);
    y = nn::CustomScaleLayer({.scale = scale, .name = names_("custom_scale_layer")})({x, y});
    return activated ? nn::Activation({.activation = "relu", .name = name + "_ac"})(y) : y;
  }

 private:
  const double momentum_;
  internal::AutoNames names_;
};

}  // namespace

nn::Network InceptionV3(const ImageNetOptions& options) {
  const auto builder = internal::ImageNetBuilder::Start(kInceptions[0], options);
  if (!builder.ok()) return nn::Network(builder.status());
  InceptionLayers layers(options.momentum.value_or(0.99));
  Symbol x = layers.Stem(builder->image());
  int mixed = 0;
  const auto name = [&] { return absl::StrCat("mixed", mixed++); };
  for (const int64_t pool_filters : {32, 64, 64}) {
    x = layers.Mixed(x,
                     {{{64, 1, 1}}, {{48, 1, 1}, {64, 5, 5}}, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}}},
                     pool_filters, name());
  }
  x = layers.HalvingMixed(x, {{{384, 3, 3, kHalve}}, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3, kHalve}}},
                          name());
  for (const int64_t n : {128, 160, 160, 192}) {
    x = layers.Mixed(x,
                     {{{192, 1, 1}},
                      {{n, 1, 1}, {n, 1, 7}, {192, 7, 1}},
                      {{n, 1, 1}, {n, 7, 1}, {n, 1, 7}, {n, 7, 1}, {192, 1, 7}}},
                     192, name());
  }
  x = layers.HalvingMixed(x,
                          {{{192, 1, 1}, {320, 3, 3, kHalve}},
                           {{192, 1, 1}, {192, 1, 7}, {192, 7, 1}, {192, 3, 3, kHalve}}},
                          name());
  for (int i = 0; i < 2; ++i) x = layers.WideMixed(x, i);
  return builder->Finish(builder->Top(x), "inception_v3");
}

nn::Network InceptionResNetV2(const ImageNetOptions& options) {
  const auto builder = internal::ImageNetBuilder::Start(kInceptions[1], options);
  if (!builder.ok()) return nn::Network(builder.status());
  InceptionLayers layers(options.momentum.value_or(0.99));
  const auto residuals = [&](Symbol x, const std::string& name, int count, double scale,
                             const std::vector<InceptionBranch>& branches) {
    for (int i = 1; i <= count; ++i) {
      x = layers.Residual(x, branches, scale, absl::StrCat(name, "_", i), /*activated=*/true);
    }
    return x;
  };
  Symbol x = layers.Stem(builder->image());
  x = layers.Mixed(x,
                   {{{96, 1, 1}}, {{48, 1, 1}, {64, 5, 5}}, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}}},
                   64, "mixed_5b");
  x = residuals(x, "block35", 10, 0.17,
                {{{32, 1, 1}}, {{32, 1, 1}, {32, 3, 3}}, {{32, 1, 1}, {48, 3, 3}, {64, 3, 3}}});
  x = layers.HalvingMixed(
      x, {{{384, 3, 3, kHalve}}, {{256, 1, 1}, {256, 3, 3}, {384, 3, 3, kHalve}}}, "mixed_6a");
  x = residuals(x, "block17", 20, 0.1, {{{192, 1, 1}}, {{128, 1, 1}, {160, 1, 7}, {192, 7, 1}}});
  x = layers.HalvingMixed(x,
                          {{{256, 1, 1}, {384, 3, 3, kHalve}},
                           {{256, 1, 1}, {288, 3, 3, kHalve}},
                           {{256, 1, 1}, {288, 3, 3}, {320, 3, 3, kHalve}}},
                          "mixed_7a");
  const std::vector<InceptionBranch> last = {{{192, 1, 1}},
                                             {{192, 1, 1}, {224, 1, 3}, {256, 3, 1}}};
  x = residuals(x, "block8", 9, 0.2, last);
  x = layers.Residual(x, last, 1, "block8_10", /*activated=*/false);
  x = layers.Conv(x, {1536, 1, 1}, "conv_7b");
  return builder->Finish(builder->Top(x), "inception_resnet_v2");
}

std::vector<ModelInfo> internal::Inceptions() {
  return {std::begin(kInceptions), std::end(kInceptions)};
}

}  // namespace penstock::models
