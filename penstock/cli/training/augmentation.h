// Options of `penstock train` for augmentation: random changes of the images on the device, in
// training only.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/cli/options.h"
#include "penstock/keras/keras.h"

namespace penstock::cli {

class Augmentation {
 public:
  void Describe(Options& options);
  // Checks the names, before any slow work.
  absl::Status Check() const;
  // Checks that images with this number of channels can be changed so.
  absl::Status CheckChannels(int channels) const;
  // Layers that change single images with values from 0 to 255, in the order of application.
  std::vector<nn::Layer> Layers() const;
  // Mixtures of the images of a batch.
  std::vector<nn::BatchAugmentation> Mixtures() const;
  bool any() const { return !augment_.empty() || shift_ > 0; }
  // Maximum shift, as a fraction of the image size.
  double shift() const { return shift_; }

 private:
  bool Has(absl::string_view name) const;

  std::vector<std::string> augment_;
  double shift_ = 0;
};

}  // namespace penstock::cli
