#include "penstock/pack/pack.h"

#include <string>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/cli/command.h"
#include "penstock/cli/pack_flags.h"

namespace penstock::cli {
namespace {

class Pack : public Command {
 public:
  void Describe(Options& options) override {
    options.Add("images", images_,
                "Folders with one folder per label (IMAGES/LABEL/NAME.jpg), or patterns "
                "('photos/**/*.jpg'; the label is the name of an image's folder)");
    options.Add(
        "--labels,--csv", labels_,
        "File with the labels: lines of path,label (.csv), or {\"path\": \"label\"} (.json)");
    options.Add("--from-npz", npz_, "Pack arrays of this .npz file instead of image files");
    options.Add("--x", npz_images_, "Name of the array of images, uint8")
        .ShowDefault()
        .Needs("--from-npz");
    options.Add("--y", npz_labels_, "Name of the array of labels")
        .ShowDefault()
        .Needs("--from-npz");
    options.Add(
        "--from-cifar10", cifar_,
        "Pack this folder of CIFAR-10's or CIFAR-100's binary files instead of image files");
    options.Add("--from-tfds-folder", tfds_,
                "Pack this folder of TensorFlow Datasets (with features.json) instead of image "
                "files");
    options.Add(
        "--split", split_,
        "Split to pack: train (default) or test of CIFAR; a split name of TensorFlow Datasets");
    options
        .Add("--image-feature", image_feature_,
             "Feature that holds the image, if the data set has several image features")
        .Needs("--from-tfds-folder");
    options
        .Add("--label-feature", label_feature_,
             "Feature that holds the label, if the data set has several label features")
        .Needs("--from-tfds-folder");
    options
        .Add("--classes", classes_,
             "Class names in the order of their indices; default: those found, sorted")
        .Separator(',');
    recompress_.Describe(options);
    pack_.Describe(options);
  }

  absl::Status Run() override {
    PENSTOCK_RETURN_IF_ERROR(CheckInput());
    return RunPacking(pack_, "packed",
                      [&](const pack::PackOptions& options) { return PackInput(options); });
  }

 private:
  absl::Status CheckInput() const {
    const bool files = !images_.empty() || !labels_.empty();
    if (files + !npz_.empty() + !cifar_.empty() + !tfds_.empty() != 1) {
      return absl::InvalidArgumentError(
          "pass exactly one kind of input: image folders or patterns (optionally with --labels "
          "FILE), --from-npz FILE, --from-cifar10 FOLDER, or --from-tfds-folder FOLDER");
    }
    if (!split_.empty() && cifar_.empty() && tfds_.empty()) {
      return absl::InvalidArgumentError(
          "--split requires --from-cifar10 or --from-tfds-folder; omit it");
    }
    if (!classes_.empty() && !(cifar_.empty() && tfds_.empty()))
      return absl::InvalidArgumentError("the data set defines its class names; omit --classes");
    return absl::OkStatus();
  }

  absl::StatusOr<pack::Packed> PackInput(const pack::PackOptions& options) const {
    const pack::RecompressOptions recompress = recompress_.Value();
    if (!npz_.empty()) {
      return pack::Npz({.file = npz_,
                        .images = npz_images_,
                        .labels = npz_labels_,
                        .classes = classes_,
                        .recompress = recompress},
                       options);
    }
    if (!cifar_.empty()) {
      return pack::Cifar(
          {.folder = cifar_, .split = split_.empty() ? "train" : split_, .recompress = recompress},
          options);
    }
    if (!tfds_.empty()) {
      return pack::TfdsFolder({.folder = tfds_,
                               .split = split_,
                               .image_feature = image_feature_,
                               .label_feature = label_feature_,
                               .recompress = recompress},
                              options);
    }
    return pack::ImageFolder(
        {.images = images_, .labels = labels_, .classes = classes_, .recompress = recompress},
        options);
  }

  std::vector<std::string> images_, classes_;
  std::string labels_, npz_, cifar_, tfds_;
  std::string npz_images_ = pack::NpzOptions().images, npz_labels_ = pack::NpzOptions().labels;
  std::string split_, image_feature_, label_feature_;
  RecompressFlags recompress_;
  PackFlags pack_;
};

}  // namespace

std::unique_ptr<Command> PackCommand() { return std::make_unique<Pack>(); }

}  // namespace penstock::cli
