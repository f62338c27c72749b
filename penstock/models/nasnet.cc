#include "penstock/models/nasnet.h"

#include "absl/strings/str_cat.h"

#include "penstock/models/image_net_builder.h"

namespace penstock::models {
namespace {

using nn::Symbol;

// A network: the number of channels of the first normal cells is penultimate_filters / 24.
struct NasNetRow {
  ModelInfo model;
  int64_t penultimate_filters, stem_filters;
  int cells;            // normal cells per stage
  bool skip_reduction;  // the cell after a reduction gets the input of the one before
};

constexpr NasNetRow kNasNets[] = {
    {{"nasnet_mobile", "NASNetMobile", NASNetMobile, 224, 32, PreprocessMode::kTf,
      kImageNet | kMomentum},
     1056,
     32,
     4,
     false},
    {{"nasnet_large", "NASNetLarge", NASNetLarge, 331, 32, PreprocessMode::kTf,
      kImageNet | kMomentum},
     4032,
     96,
     6,
     true},
};

// A cell's inputs: the outputs of the previous cell and of the one before it.
struct CellInputs {
  Symbol x, earlier;
};

// Layers of this family. Those that Keras names automatically are numbered in the order in which
// they are made; `id` is the end of the other names.
class NasNetLayers {
 public:
  explicit NasNetLayers(double momentum) : momentum_(momentum) {}

  Symbol Norm(Symbol x, const std::string& name) const {
    return nn::BatchNormalization({.momentum = momentum_, .epsilon = 1e-3, .name = name})(x);
  }
  Symbol Relu(Symbol x) {
    return nn::Activation({.activation = "relu", .name = names_("activation")})(x);
  }

  CellInputs NormalCell(const CellInputs& inputs, int64_t filters, const std::string& id) {
    const Symbol p = Adjust(inputs, filters, id);
    const Symbol h = Squeeze(inputs.x, filters, "normal", id);
    const auto name = [&](const char* what) { return absl::StrCat("normal_", what, "_", id); };
    const Symbol left1 = Separable(h, filters, 5, 1, name("left1"));
    const Symbol right1 = Separable(p, filters, 3, 1, name("right1"));
    const Symbol x1 = nn::Add({.name = name("add_1")})({left1, right1});
    const Symbol left2 = Separable(p, filters, 5, 1, name("left2"));
    const Symbol right2 = Separable(p, filters, 3, 1, name("right2"));
    const Symbol x2 = nn::Add({.name = name("add_2")})({left2, right2});
    const Symbol x3 = nn::Add({.name = name("add_3")})({Average(h, name("left3")), p});
    const Symbol x4 =
        nn::Add({.name = name("add_4")})({Average(p, name("left4")), Average(p, name("right4"))});
    const Symbol x5 =
        nn::Add({.name = name("add_5")})({Separable(h, filters, 3, 1, name("left5")), h});
    return {nn::Concatenate({.name = name("concat")})({p, x1, x2, x3, x4, x5}), inputs.x};
  }

  // Halves height and width.
  CellInputs ReductionCell(const CellInputs& inputs, int64_t filters, const std::string& id) {
    const Symbol p = Adjust(inputs, filters, id);
    const Symbol h = Squeeze(inputs.x, filters, "reduction", id);
    const auto name = [&](const char* what) { return absl::StrCat("reduction_", what, "_", id); };
    const Symbol padded =
        nn::ZeroPadding2D({.padding = internal::PadForStride2(h, 3), .name = name("pad_1")})(h);
    const auto pooling = [](const std::string& of) {
      return nn::PoolingOptions<2>{.pool_size = 3, .strides = 2, .name = of};
    };
    const Symbol left1 = Separable(h, filters, 5, 2, name("left1"));
    const Symbol right1 = Separable(p, filters, 7, 2, name("right1"));
    const Symbol x1 = nn::Add({.name = name("add_1")})({left1, right1});
    const Symbol left2 = nn::MaxPooling2D(pooling(name("left2")))(padded);
    const Symbol right2 = Separable(p, filters, 7, 2, name("right2"));
    const Symbol x2 = nn::Add({.name = name("add_2")})({left2, right2});
    const Symbol left3 = nn::AveragePooling2D(pooling(name("left3")))(padded);
    const Symbol right3 = Separable(p, filters, 5, 2, name("right3"));
    const Symbol x3 = nn::Add({.name = name("add3")})({left3, right3});
    const Symbol x4 = nn::Add({.name = names_("add")})({x2, Average(x1, name("left4"))});
    const Symbol left5 = Separable(x1, filters, 3, 1, name("left4"));
    const Symbol right5 = nn::MaxPooling2D(pooling(name("right5")))(padded);
    const Symbol x5 = nn::Add({.name = name("add4")})({left5, right5});
    return {nn::Concatenate({.name = name("concat")})({x2, x3, x4, x5}), inputs.x};
  }

 private:
  static Symbol Pointwise(Symbol x, int64_t filters, const std::string& name) {
    return nn::Conv2D({.filters = filters,
                       .padding = "same",
                       .use_bias = false,
                       .kernel_initializer = "he_normal",
                       .name = name})(x);
  }

  static Symbol Average(Symbol x, const std::string& name) {
    return nn::AveragePooling2D({.pool_size = 3, .strides = 1, .padding = "same", .name = name})(x);
  }

  // The cell's input with `filters` channels.
  Symbol Squeeze(Symbol x, int64_t filters, const std::string& cell, const std::string& id) {
    x = Pointwise(Relu(x), filters, absl::StrCat(cell, "_conv_1_", id));
    return Norm(x, absl::StrCat(cell, "_bn_1_", id));
  }

  // Two separable convolutions, of which the first has the stride.
  Symbol Separable(Symbol x, int64_t filters, int64_t kernel, int64_t strides,
                   const std::string& id) {
    const auto conv = [&](int64_t conv_strides, const char* padding, const std::string& name) {
      return nn::SeparableConv2D({.filters = filters,
                                  .kernel_size = kernel,
                                  .strides = conv_strides,
                                  .padding = padding,
                                  .use_bias = false,
                                  .name = name});
    };
    x = Relu(x);
    if (strides == 2) {
      x = nn::ZeroPadding2D(
          {.padding = internal::PadForStride2(x, kernel), .name = "separable_conv_1_pad_" + id})(x);
    }
    x = conv(strides, strides == 2 ? "valid" : "same", "separable_conv_1_" + id)(x);
    x = Relu(Norm(x, "separable_conv_1_bn_" + id));
    x = conv(1, "same", "separable_conv_2_" + id)(x);
    return Norm(x, "separable_conv_2_bn_" + id);
  }

  // The earlier cell's output in the size of the previous one, with `filters` channels. Halving it
  // takes every second pixel twice, at two offsets.
  Symbol Adjust(const CellInputs& inputs, int64_t filters, const std::string& id) {
    if (!inputs.earlier.valid()) return inputs.x;
    Symbol p = inputs.earlier;
    if (Width(p) != Width(inputs.x)) {
      p = nn::Activation({.activation = "relu", .name = "adjust_relu_1_" + id})(p);
      const auto half = [&](Symbol x, const std::string& number) {
        x = nn::AveragePooling2D({.pool_size = 1,
                                  .strides = 2,
                                  .name = absl::StrCat("adjust_avg_pool_", number, "_", id)})(x);
        return Pointwise(x, filters / 2, absl::StrCat("adjust_conv_", number, "_", id));
      };
      const Symbol even = half(p, "1");
      Symbol odd =
          nn::ZeroPadding2D({.padding = {{0, 1}, {0, 1}}, .name = names_("zero_padding2d")})(p);
      odd = nn::Cropping2D({.cropping = {{1, 0}, {1, 0}}, .name = names_("cropping2d")})(odd);
      odd = half(odd, "2");
      p = nn::Concatenate({.name = names_("concatenate")})({even, odd});
      return Norm(p, "adjust_bn_" + id);
    }
    if (internal::Channels(p) != filters) {
      p = Pointwise(Relu(p), filters, "adjust_conv_projection_" + id);
      return Norm(p, "adjust_bn_" + id);
    }
    return p;
  }

  static int64_t Width(const Symbol& x) { return x.type().ok() ? x.type()->shape.dim(2) : 1; }

  const double momentum_;
  internal::AutoNames names_;
};

nn::Network NasNet(ModelFunction make, const ImageNetOptions& options) {
  const NasNetRow& row = internal::RowOf(kNasNets, make);
  const auto builder = internal::ImageNetBuilder::Start(row.model, options);
  if (!builder.ok()) return nn::Network(builder.status());
  NasNetLayers layers(options.momentum.value_or(0.9997));
  const int64_t filters = row.penultimate_filters / 24;
  Symbol x = nn::Conv2D({.filters = row.stem_filters,
                         .kernel_size = 3,
                         .strides = 2,
                         .use_bias = false,
                         .kernel_initializer = "he_normal",
                         .name = "stem_conv1"})(builder->image());
  CellInputs cell = {layers.Norm(x, "stem_bn1"), Symbol()};
  cell = layers.ReductionCell(cell, filters / 4, "stem_1");
  cell = layers.ReductionCell(cell, filters / 2, "stem_2");
  for (int stage = 0; stage < 3; ++stage) {
    const int64_t stage_filters = filters << stage;
    if (stage > 0) {
      const Symbol before = cell.earlier;
      cell = layers.ReductionCell(cell, stage_filters, absl::StrCat("reduce_", stage * row.cells));
      if (row.skip_reduction) cell.earlier = before;
    }
    for (int i = 0; i < row.cells; ++i) {
      const int number = stage * row.cells + i + (stage > 0 ? 1 : 0);
      cell = layers.NormalCell(cell, stage_filters, absl::StrCat(number));
    }
  }
  x = layers.Relu(cell.x);
  return builder->Finish(builder->Top(x, {.top = ""}), row.model.name);
}

}  // namespace

nn::Network NASNetMobile(const ImageNetOptions& options) { return NasNet(NASNetMobile, options); }
nn::Network NASNetLarge(const ImageNetOptions& options) { return NasNet(NASNetLarge, options); }

std::vector<ModelInfo> internal::NasNets() { return ModelsOf(kNasNets); }

}  // namespace penstock::models
