#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

#include "penstock/cli/command.h"
#include "penstock/cli/convert.h"
#include "penstock/cli/image_list.h"
#include "penstock/cli/pack_sources.h"
#include "penstock/cli/recompress.h"

namespace penstock::cli {
namespace {

class Pack : public Command {
 public:
  void Describe(Options& options) override {
    options.Add("images", images_,
                "Folders of folders named after their labels (IMAGES/LABEL/NAME.jpg), or "
                "patterns ('photos/**/*.jpg', the label is the folder an image is in)");
    options.Add("--labels,--csv", labels_,
                "The labels: lines of path,label (.csv), or {\"path\": \"label\"} (.json)");
    options.Add("--from-npz", npz_, "Instead of image files: arrays of a .npz file");
    options.Add("--x", npz_options_.images, "The array of images, uint8")
        .ShowDefault()
        .Needs("--from-npz");
    options.Add("--y", npz_options_.labels, "The array of labels")
        .ShowDefault()
        .Needs("--from-npz");
    options.Add("--from-cifar10", cifar_,
                "Instead of image files: a folder of CIFAR-10's (or CIFAR-100's) binary files");
    options.Add("--from-tfds-folder", tfds_,
                "Instead of image files: a folder of TensorFlow Datasets, with features.json");
    options.Add("--split", tfds_options_.split,
                "Of CIFAR: train (default) or test; of TensorFlow Datasets: its name");
    options
        .Add("--image-feature", tfds_options_.image_feature,
             "Of TensorFlow Datasets, where there are several images")
        .Needs("--from-tfds-folder");
    options
        .Add("--label-feature", tfds_options_.label_feature,
             "Of TensorFlow Datasets, where there are several labels")
        .Needs("--from-tfds-folder");
    options
        .Add("--classes", classes_,
             "The labels in the order of their numbers; default: those found, sorted")
        .Separator(',');
    recompress_.Describe(options);
    convert_.Describe(options);
  }

  absl::Status Run() override {
    PENSTOCK_RETURN_IF_ERROR(CheckOut(*fs_, convert_));
    PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> source, Source());
    PENSTOCK_ASSIGN_OR_RETURN(const ShardPlan made, Convert(*fs_, *source, convert_, stderr));
    return PrintConversion(made, *source, convert_, "packed");
  }

 private:
  absl::StatusOr<std::unique_ptr<RecordSource>> Source() const {
    const bool files = !images_.empty() || !labels_.empty();
    if (files + !npz_.empty() + !cifar_.empty() + !tfds_.empty() != 1) {
      return absl::InvalidArgumentError(
          "give one of: folders or patterns of images (with --labels FILE or without), "
          "--from-npz FILE, --from-cifar10 FOLDER, --from-tfds-folder FOLDER");
    }
    if (!tfds_options_.split.empty() && cifar_.empty() && tfds_.empty()) {
      return absl::InvalidArgumentError(
          "--split is for --from-cifar10 and --from-tfds-folder; leave it out");
    }
    if (!classes_.empty() && !(cifar_.empty() && tfds_.empty()))
      return absl::InvalidArgumentError("the data set names its classes; leave --classes out");
    // The second of two equal names would have a number that no image gets.
    for (size_t i = 0; i < classes_.size(); ++i) {
      if (std::find(classes_.begin(), classes_.begin() + i, classes_[i]) != classes_.begin() + i) {
        return absl::InvalidArgumentError(
            absl::StrCat("--classes names '", classes_[i], "' twice"));
      }
    }
    if (!npz_.empty()) {
      NpzOptions options = npz_options_;
      options.classes = classes_;
      return NpzImages(*fs_, npz_, options, recompress_);
    }
    if (!cifar_.empty()) return Cifar();
    if (!tfds_.empty()) return TfdsImages(*fs_, tfds_, tfds_options_, recompress_);
    std::optional<ImageLabels> labels;
    if (!labels_.empty()) {
      PENSTOCK_ASSIGN_OR_RETURN(labels, ReadImageLabels(*fs_, labels_));
    }
    PENSTOCK_ASSIGN_OR_RETURN(
        ImageList list,
        ListImages(
            *fs_, {.images = images_, .labels = labels ? &*labels : nullptr, .classes = classes_}));
    return ImageFiles(*fs_, std::move(list), recompress_);
  }

  absl::StatusOr<std::unique_ptr<RecordSource>> Cifar() const {
    const std::string split = tfds_options_.split.empty() ? "train" : tfds_options_.split;
    if (split != "train" && split != "test") {
      return absl::InvalidArgumentError(
          absl::StrCat("CIFAR has no split '", split, "'; --split train or --split test"));
    }
    return CifarImages(*fs_, cifar_, split, recompress_);
  }

  std::vector<std::string> images_, classes_;
  std::string labels_, npz_, cifar_, tfds_;
  NpzOptions npz_options_;
  TfdsOptions tfds_options_;
  RecompressOptions recompress_;
  ConvertOptions convert_;
  std::shared_ptr<io::FileSystem> fs_ = io::FileSystem::Default();
};

}  // namespace

std::unique_ptr<Command> PackCommand() { return std::make_unique<Pack>(); }

}  // namespace penstock::cli
