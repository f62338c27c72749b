#include "penstock/cli/training/augmentation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/nn/layers.h"

namespace penstock::cli {
namespace {

using Layers = std::vector<nn::Layer>;

Layers Flip() { return {nn::RandomFlip({.mode = "horizontal"})}; }

// A part of at least three quarters of the height and width, at a random position.
Layers Crop() {
  return {nn::RandomZoom({.height_factor = {-0.25, 0}, .fill_mode = "nearest"}),
          nn::RandomTranslation(
              {.height_factor = 0.125, .width_factor = 0.125, .fill_mode = "nearest"})};
}

// At most 15 degrees.
Layers Rotate() { return {nn::RandomRotation({.factor = 15 / 360.0, .fill_mode = "nearest"})}; }

Layers Color() {
  return {nn::RandomColorJitter({.brightness_factor = 0.2,
                                 .contrast_factor = 0.2,
                                 .saturation_factor = {0.4, 0.6},
                                 .hue_factor = 0.05})};
}

// A rectangle of 2 % to a third of the image is filled with noise (Zhong et al.: Random erasing
// data augmentation, 2017), with probability 1/4, as timm does.
Layers Erase() { return {nn::RandomErasing({.factor = {0.25, 0.25}})}; }

// In the order of application: geometry, colors, erasing.
constexpr struct {
  const char* name;
  Layers (*make)();
} kLayers[] = {
    {"flip", Flip}, {"crop", Crop}, {"rotate", Rotate}, {"color", Color}, {"erase", Erase}};

constexpr struct {
  const char* name;
  nn::BatchAugmentation (*make)();
} kMixtures[] = {
    {"mixup", [] { return nn::MixUp({.alpha = 0.2}); }},
    {"cutmix",
     [] {
       return nn::CutMix({.factor = {1, 1}});
     }},
};

std::vector<std::string> AugmentationNames() {
  std::vector<std::string> names;
  for (const auto& row : kLayers) names.emplace_back(row.name);
  for (const auto& row : kMixtures) names.emplace_back(row.name);
  return names;
}

}  // namespace

void Augmentation::Describe(Options& options) {
  options.Add("--augment", augment_,
              absl::StrCat("Augmentation on the device: ", absl::StrJoin(AugmentationNames(), ", "),
                           ". flip is left-right, crop keeps at least 3/4 of each side, rotate is "
                           "at most 15 degrees; of mixup and cutmix one is drawn for each batch"));
  options
      .Add("--shift", shift_,
           "Augmentation: random shifts of up to this fraction of the image size")
      .Between(0, 1)
      .ShowDefault();
}

bool Augmentation::Has(absl::string_view name) const {
  return std::find(augment_.begin(), augment_.end(), name) != augment_.end();
}

absl::Status Augmentation::Check() const {
  const std::vector<std::string> names = AugmentationNames();
  for (const std::string& name : augment_) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown --augment '", name, "'; available: ", absl::StrJoin(names, ", ")));
    }
  }
  return absl::OkStatus();
}

absl::Status Augmentation::CheckChannels(int channels) const {
  if (channels == 3 || !Has("color")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--augment color changes colors, but the images of --data are grayscale; leave out color");
}

std::vector<nn::Layer> Augmentation::Layers() const {
  std::vector<nn::Layer> layers;
  for (const auto& row : kLayers) {
    if (!Has(row.name)) continue;
    for (nn::Layer& layer : row.make()) layers.push_back(std::move(layer));
  }
  return layers;
}

std::vector<nn::BatchAugmentation> Augmentation::Mixtures() const {
  std::vector<nn::BatchAugmentation> mixtures;
  for (const auto& row : kMixtures) {
    if (Has(row.name)) mixtures.push_back(row.make());
  }
  return mixtures;
}

}  // namespace penstock::cli
