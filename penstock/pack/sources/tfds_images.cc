#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/pack/image_record.h"
#include "penstock/pack/read_input.h"
#include "penstock/pack/record_index.h"
#include "penstock/pack/sources/record_sources.h"
#include "penstock/pack/sources/tfds_features.h"
#include "penstock/record/example.h"

namespace penstock::pack {
namespace {

class TfdsSource : public RecordSource {
 public:
  TfdsSource(RecordIndex index, std::string image, std::string label,
             std::vector<std::string> classes, RecompressOptions recompress)
      : index_(std::move(index)),
        image_(std::move(image)),
        label_(std::move(label)),
        classes_(std::move(classes)),
        recompress_(std::move(recompress)) {}

  int64_t size() const override { return index_.size(); }
  std::string Name(int64_t i) const override { return index_.Location(i); }
  std::vector<std::string> classes() const override { return classes_; }

  absl::StatusOr<std::string> Make(int64_t i) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string record, index_.Read(i));
    PENSTOCK_ASSIGN_OR_RETURN(const record::FeatureMap features, record::ReadExample(record));
    const auto image = features.find(image_), label = features.find(label_);
    if (image == features.end() || image->second.dtype() != base::DType::kString ||
        image->second.num_elements() != 1 || label == features.end() ||
        label->second.dtype() != base::DType::kI64 || label->second.num_elements() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected one image in '", image_, "' and one integer in '", label_,
                       "'; the record has: ", record::DescribeExample(record)));
    }
    const int64_t number = label->second.item<int64_t>();
    if (number < 0 || number >= static_cast<int64_t>(classes_.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "label ", number, " is out of range; there are ", classes_.size(), " classes"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(
        const RecompressedImage file,
        Recompress(std::string(image->second.data<absl::string_view>()[0]), recompress_));
    return ImageRecord(file, number, classes_);
  }

  Job job() const override {
    Fingerprint content;
    content.Add(absl::string_view(index_.Fingerprint()));
    for (const std::string& c : classes_) content.Add(absl::string_view(c));
    Job job{{"the list of records", absl::StrCat(size(), " (", content.ToString(), ")")},
            {"--image-feature", image_},
            {"--label-feature", label_}};
    recompress_.AddTo(job);
    return job;
  }

 private:
  const RecordIndex index_;
  const std::string image_, label_;
  const std::vector<std::string> classes_;
  const RecompressOptions recompress_;
};

// Checks that no file is missing: TensorFlow Datasets names its files ...-00003-of-00010.
absl::Status CheckAllShards(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const std::string name = io::Basename(file);
    const size_t of = name.rfind("-of-");
    size_t count = 0;
    if (of == std::string::npos || !absl::SimpleAtoi(name.substr(of + 4), &count)) continue;
    if (files.size() == count) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(io::DisplayName(io::Dirname(file)), " holds ", files.size(), " of the ", count,
                     " files of this split; copy the others, or prepare the data set again"));
  }
  return absl::OkStatus();
}

// Returns the files of a split, DATASET-SPLIT.tfrecord..., sorted.
absl::StatusOr<std::vector<std::string>> FilesOfSplit(io::FileSystem& fs, const std::string& folder,
                                                      const std::string& split) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, fs.List(folder));
  std::map<std::string, std::vector<std::string>> splits;
  for (const io::FileInfo& file : files) {
    const std::string name = io::Basename(file.uri);
    const size_t end = name.find(".tfrecord");
    if (file.is_directory || end == std::string::npos) continue;
    const size_t dash = name.find('-');
    splits[dash < end ? name.substr(dash + 1, end - dash - 1) : ""].push_back(file.uri);
  }
  if (splits.empty()) {
    return absl::NotFoundError(absl::StrCat(
        io::DisplayName(folder),
        " has no *.tfrecord files; give the folder of a version, such as cifar10/3.0.2"));
  }
  if (split.empty() && splits.size() == 1) return splits.begin()->second;
  const auto found = splits.find(split);
  if (found != splits.end() && !split.empty()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, uris] : splits) names.push_back(name);
  return absl::InvalidArgumentError(
      absl::StrCat(io::DisplayName(folder), " has the splits ", absl::StrJoin(names, ", "),
                   split.empty() ? "" : absl::StrCat(", but not '", split, "'"),
                   "; choose the split to convert"));
}

// Returns the feature `name`, or, if `name` is empty, the only feature of that kind. `option` names
// the choice in the error: "image" or "label".
absl::StatusOr<TfdsFeature> Choose(const std::vector<TfdsFeature>& features,
                                   const std::string& kind, const std::string& name,
                                   const std::string& option) {
  std::vector<TfdsFeature> found;
  std::vector<std::string> all;
  for (const TfdsFeature& f : features) {
    if (name.empty() ? f.kind == kind : f.name == name) found.push_back(f);
    all.push_back(absl::StrCat(f.name, " (", f.kind, ")"));
  }
  if (found.size() == 1) return found[0];
  return absl::InvalidArgumentError(absl::StrCat(
      found.empty() ? "no" : "more than one", " feature ",
      name.empty() ? absl::StrCat("of the kind ", kind) : absl::StrCat("'", name, "'"), " among ",
      absl::StrJoin(all, ", "), "; choose the ", option, " feature by name"));
}

absl::StatusOr<std::vector<std::string>> ClassesOf(io::FileSystem& fs, const std::string& folder,
                                                   const TfdsFeature& label) {
  constexpr int64_t kMaxClasses = 1'000'000;
  std::vector<std::string> classes;
  // The file name has '-' where the feature name has '/'.
  const std::string file = io::JoinPath(
      folder, absl::StrCat(absl::StrJoin(absl::StrSplit(label.name, '/'), "-"), ".labels.txt"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadOptional(fs, file));
  if (text) {
    return SplitClassNames(*text);
  }
  if (label.classes <= 0 || label.classes > kMaxClasses) {
    return absl::InvalidArgumentError(absl::StrCat("features.json lacks the number of classes of '",
                                                   label.name, "', and ", io::DisplayName(file),
                                                   " does not exist"));
  }
  for (int64_t c = 0; c < label.classes; ++c) classes.push_back(absl::StrCat(c));
  return classes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> TfdsImages(io::FileSystem& fs,
                                                         const TfdsOptions& input) {
  const std::string& folder = input.folder;
  const std::string file = io::JoinPath(folder, "features.json");
  const absl::StatusOr<std::string> json = io::ReadFile(fs, file);
  if (absl::IsNotFound(json.status())) {
    return absl::NotFoundError(
        absl::StrCat(json.status().message(),
                     "; every data set of TensorFlow Datasets has this file, in the folder of "
                     "its version: tensorflow_datasets/cifar10/3.0.2"));
  }
  PENSTOCK_RETURN_IF_ERROR(json.status());
  const auto here = [&](const absl::Status& status) { return base::WithContext(status, file); };
  const auto features = ParseTfdsFeatures(*json);
  if (!features.ok()) return here(features.status());
  const auto image = Choose(*features, "Image", input.image_feature, "image");
  if (!image.ok()) return here(image.status());
  const auto label = Choose(*features, "ClassLabel", input.label_feature, "label");
  if (!label.ok()) return here(label.status());
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> classes, ClassesOf(fs, folder, *label));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                            FilesOfSplit(fs, folder, input.split));
  PENSTOCK_RETURN_IF_ERROR(CheckAllShards(files));
  PENSTOCK_ASSIGN_OR_RETURN(RecordIndex index, RecordIndex::Build(fs, files));
  return std::make_unique<TfdsSource>(std::move(index), image->name, label->name,
                                      std::move(classes), input.recompress);
}

}  // namespace penstock::pack
