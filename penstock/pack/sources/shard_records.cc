// Records of existing shards.
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/pack/convert.h"
#include "penstock/pack/read_input.h"
#include "penstock/pack/record_index.h"
#include "penstock/pack/sources/record_sources.h"
#include "penstock/record/example.h"

namespace penstock::pack {
namespace {

// Records of shards, unchanged or with a recompressed image.
class ShardSource : public RecordSource {
 public:
  ShardSource(RecordIndex index, std::vector<std::string> classes, std::string image_feature,
              RecompressOptions recompress)
      : index_(std::move(index)),
        classes_(std::move(classes)),
        image_feature_(std::move(image_feature)),
        recompress_(std::move(recompress)) {}

  int64_t size() const override { return index_.size(); }
  std::string Name(int64_t i) const override { return index_.Location(i); }
  std::vector<std::string> classes() const override { return classes_; }
  const char* noun() const override { return "records"; }

  absl::StatusOr<std::string> Make(int64_t i) const override {
    PENSTOCK_ASSIGN_OR_RETURN(std::string record, index_.Read(i));
    if (recompress_.untouched()) return record;
    return Recompressed(record);
  }

  Job job() const override {
    Job job{{"the list of records", absl::StrCat(size(), " (", index_.Fingerprint(), ")")}};
    recompress_.AddTo(job);
    if (!recompress_.untouched()) job.emplace_back("--image-feature", image_feature_);
    return job;
  }

 private:
  absl::StatusOr<std::string> Recompressed(absl::string_view record) const {
    PENSTOCK_ASSIGN_OR_RETURN(const record::FeatureMap features, record::ReadExample(record));
    const auto found = features.find(image_feature_);
    if (found == features.end() || found->second.dtype() != base::DType::kString ||
        found->second.num_elements() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(kNoImageFeature, "'", image_feature_,
                       "'; set the image feature to the feature that holds one encoded image. The "
                       "record has: ",
                       record::DescribeExample(record)));
    }
    const absl::string_view bytes = found->second.data<absl::string_view>()[0];
    const absl::StatusOr<image::ImageInfo> before = image::ReadInfo(bytes);
    if (!before.ok()) return ContentError(before.status());
    PENSTOCK_ASSIGN_OR_RETURN(const RecompressedImage image,
                              Recompress(std::string(bytes), recompress_));
    record::ExampleBuilder example;
    for (const auto& [name, values] : features) example.SetArray(name, values);
    example.SetBytes(image_feature_, image.bytes);
    // Updates the feature `size` if it held the image's height and width.
    const auto size = features.find("size");
    if (size != features.end() && size->second.dtype() == base::DType::kI64 &&
        size->second.values<int64_t>() ==
            absl::Span<const int64_t>({int64_t{before->height}, int64_t{before->width}})) {
      example.SetInt64List("size", {image.size.height, image.size.width});
    }
    return example.Serialize();
  }

  const RecordIndex index_;
  const std::vector<std::string> classes_;
  const std::string image_feature_;
  const RecompressOptions recompress_;
};

// The class names beside the shards. Folders may lack them, but must not contradict each other,
// since class indices are copied.
absl::StatusOr<std::vector<std::string>> ClassesBeside(io::FileSystem& fs,
                                                       const std::vector<std::string>& shards) {
  std::set<std::string> folders;
  std::vector<std::string> classes;
  std::string first;
  for (const std::string& shard : shards) {
    const std::string folder = io::Dirname(shard);
    if (!folders.insert(folder).second) continue;
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> found, ReadClassNames(fs, folder));
    if (found.empty() || found == classes) continue;
    if (!classes.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the classes in ", io::DisplayName(io::JoinPath(folder, kClassesFile)),
                       " differ from those in ", io::DisplayName(io::JoinPath(first, kClassesFile)),
                       ", so that a class number means different labels; rewrite these folders "
                       "separately, or pack their images again with one list of classes"));
    }
    classes = std::move(found);
    first = folder;
  }
  return classes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> ShardRecords(io::FileSystem& fs,
                                                           const std::vector<std::string>& shards,
                                                           const std::string& image_feature,
                                                           const RecompressOptions& recompress) {
  if (shards.empty()) return absl::NotFoundError("no shards found");
  PENSTOCK_RETURN_IF_ERROR(CheckShardsComplete(fs, shards));
  PENSTOCK_ASSIGN_OR_RETURN(RecordIndex index, RecordIndex::Build(fs, shards));
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> classes, ClassesBeside(fs, shards));
  return std::make_unique<ShardSource>(std::move(index), std::move(classes), image_feature,
                                       recompress);
}

}  // namespace penstock::pack
