// Parts that the networks for ImageNet share. Internal to room models.
//
//   struct TinyRow {
//     ModelInfo model;
//     int64_t filters;
//   };
//   constexpr TinyRow kTinyNets[] = {{{"tiny", nullptr, Tiny, 64, 8, PreprocessMode::kTf}, 16}};
//
//   nn::Network Tiny(const ImageNetOptions& options) {
//     const TinyRow& row = RowOf(kTinyNets, Tiny);
//     const auto builder = ImageNetBuilder::Start(row.model, options);
//     if (!builder.ok()) return nn::Network(builder.status());
//     nn::Symbol x = nn::Conv2D({.filters = row.filters, .name = "conv"})(builder->image());
//     return builder->Finish(builder->Top(x), "tiny");
//   }
//
//   std::vector<ModelInfo> TinyNets() { return ModelsOf(kTinyNets); }
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/status.h"
#include "penstock/models/image_net.h"
#include "penstock/models/preparation.h"
#include "penstock/nn/layers.h"

namespace penstock::models::internal {

// An error for an option that the network lacks, or an invalid value.
absl::Status CheckOptions(const ModelInfo& model, const ImageNetOptions& options);

// `options` with the network's default input shape, if none is given.
ImageNetOptions WithDefaultShape(const ModelInfo& model, ImageNetOptions options);

// Names of global pooling layers. Empty: automatic.
struct PoolNames {
  const char* top = "avg_pool";  // before the classifier
  const char* avg = "";          // of a network without its top, by the option `pooling`
  const char* max = "";
};

// Input and output of a network; its family's file adds the layers between them.
class ImageNetBuilder {
 public:
  // Checks the options and makes the input and the layers that prepare the image.
  static absl::StatusOr<ImageNetBuilder> Start(const ModelInfo& model,
                                               const ImageNetOptions& options);

  // The given options, with the default input shape filled in.
  const ImageNetOptions& options() const { return options_; }
  const nn::Symbol& image() const { return image_; }

  // The usual top: global average pooling and classifier; or without the top the global pooling of
  // the options.
  nn::Symbol Top(nn::Symbol x, const PoolNames& names = {}) const;
  // Parts of other tops.
  nn::Symbol Pool(nn::Symbol x, const PoolNames& names = {}) const;
  nn::Symbol Classify(nn::Symbol x,
                      const nn::Initializer& kernel_initializer = "glorot_uniform") const;

  nn::Network Finish(nn::Symbol output, const std::string& default_name) const;

 private:
  explicit ImageNetBuilder(ImageNetOptions options) : options_(std::move(options)) {}
  ImageNetOptions options_;
  nn::Symbol input_, image_;
};

// Keras's automatic names, numbered in the order in which the layers are made: names("conv2d") is
// "conv2d", then "conv2d_1". nn::Network numbers layers in its own order, which is another one in a
// network with branches.
class AutoNames {
 public:
  std::string operator()(const std::string& base);

 private:
  std::map<std::string, int64_t> count_;
};

// Padding for a window of odd size `kernel` with stride 2 that ends at the last pixel (Keras's
// correct_pad).
nn::Ends<2> PadForStride2(const nn::Symbol& x, int64_t kernel);

// Number of channels; 1 if the symbol is an error.
int64_t Channels(const nn::Symbol& x);

// The multiple of `divisor` nearest to `channels`, but at least 90 % of it (Keras's
// _make_divisible).
int64_t Divisible(double channels, int64_t divisor = 8);

// The row of a family's table whose network `make` builds.
template <typename Row, size_t N>
const Row& RowOf(const Row (&rows)[N], ModelFunction make) {
  const Row* found =
      std::find_if(rows, rows + N, [&](const Row& row) { return row.model.make == make; });
  PENSTOCK_CHECK(found != rows + N);
  return *found;
}

// The networks of a family's table.
template <typename Row, size_t N>
std::vector<ModelInfo> ModelsOf(const Row (&rows)[N]) {
  std::vector<ModelInfo> models;
  for (const Row& row : rows) models.push_back(row.model);
  return models;
}

// The families; by_name.cc lists them.
std::vector<ModelInfo> ResNets();
std::vector<ModelInfo> Vggs();
std::vector<ModelInfo> MobileNetV1s();
std::vector<ModelInfo> MobileNetV2s();
std::vector<ModelInfo> MobileNetV3s();
std::vector<ModelInfo> EfficientNets();
std::vector<ModelInfo> EfficientNetV2s();
std::vector<ModelInfo> ConvNeXts();
std::vector<ModelInfo> DenseNets();
std::vector<ModelInfo> Xceptions();
std::vector<ModelInfo> Inceptions();
std::vector<ModelInfo> NasNets();
std::vector<ModelInfo> ViTs();

}  // namespace penstock::models::internal
