#include "penstock/pack/pack.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/io/canonical_name.h"
#include "penstock/io/file_system.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"
#include "penstock/pack/convert.h"
#include "penstock/pack/read_input.h"
#include "penstock/pack/shard_plan.h"
#include "penstock/pack/sources/image_list.h"
#include "penstock/pack/sources/record_sources.h"

namespace penstock::pack {
namespace {

std::shared_ptr<io::FileSystem> FileSystemOf(const PackOptions& options) {
  return options.file_system != nullptr ? options.file_system : io::FileSystem::Default();
}

// classes.txt has a label in each line; a '\r' at the end of one is part of the line end.
absl::Status CheckLabels(const std::vector<std::string>& labels) {
  for (const std::string& label : labels) {
    if (label.find('\n') == std::string::npos && !absl::EndsWith(label, "\r")) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the label '", absl::CHexEscape(label),
                     "' has a line break, and classes.txt has one label per line; rename it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Packed> ConvertAll(io::FileSystem& fs, const RecordSource& source,
                                  const PackOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckLabels(source.classes()));
  PENSTOCK_ASSIGN_OR_RETURN(ShardPlan made, Convert(fs, source, options));
  Packed packed{.inputs = source.size(),
                .records = made.records(),
                .classes = source.classes(),
                .unreadable = std::move(made.unreadable),
                .noun = source.noun()};
  for (const PlannedShard& s : made.shards)
    packed.shards.push_back(io::JoinPath(options.out, s.shard.file));
  if (!packed.unreadable.empty())
    packed.unreadable_report = io::JoinPath(options.out, kUnreadableFile);
  return packed;
}

// Checks the options before it lists the inputs, which may take minutes. A user-defined source, a
// callback, or an array that does not fit into memory may throw.
template <typename Open>
absl::StatusOr<Packed> Pack(const RecompressOptions& recompress, const PackOptions& options,
                            const Open& open) {
  return base::CatchExceptions([&]() -> absl::StatusOr<Packed> {
    PENSTOCK_RETURN_IF_ERROR(recompress.Check());
    const std::shared_ptr<io::FileSystem> fs = FileSystemOf(options);
    PENSTOCK_RETURN_IF_ERROR(CheckOut(*fs, options));
    PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> source, open(*fs));
    return ConvertAll(*fs, *source, options);
  });
}

// A duplicate name would get a class index that no image has.
absl::Status CheckClasses(const std::vector<std::string>& classes) {
  for (size_t i = 0; i < classes.size(); ++i) {
    if (std::find(classes.begin(), classes.begin() + i, classes[i]) != classes.begin() + i)
      return absl::InvalidArgumentError(absl::StrCat("duplicate class name '", classes[i], "'"));
  }
  return absl::OkStatus();
}

// The *.tfrec files in a folder, sorted. The folder's name may contain wildcards' characters.
absl::StatusOr<std::vector<std::string>> ShardsIn(io::FileSystem& fs, const std::string& folder) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(folder));
  std::vector<std::string> files;
  for (const io::FileInfo& entry : entries) {
    if (!entry.is_directory && io::SegmentMatches("*.tfrec", io::Basename(entry.uri)))
      files.push_back(entry.uri);
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat("no *.tfrec files among the ", entries.size(),
                                            " entries of ", io::DisplayName(folder)));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<ShardPlan> plan, ReadShardPlan(fs, folder));
  std::set<std::string> names;
  for (const std::string& file : files) names.emplace(io::Basename(file));
  for (const PlannedShard& planned :
       plan.has_value() ? plan->shards : std::vector<PlannedShard>()) {
    if (names.contains(planned.shard.file)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        io::DisplayName(io::JoinPath(folder, planned.shard.file)), " is missing, one of ",
        plan->shards.size(), " shards in ", kShardPlanFile,
        "; copy it again or repeat the conversion, or, if it was removed on purpose, give the "
        "shards as a pattern"));
  }
  // In the plan's order: by its name, shard 100 would come before shard 11. Others follow by name.
  std::map<std::string, size_t> places;
  if (plan.has_value()) {
    for (const PlannedShard& planned : plan->shards) {
      places.emplace(planned.shard.file, places.size());
    }
  }
  const auto place = [&](const std::string& file) {
    const auto found = places.find(std::string(io::Basename(file)));
    return found == places.end() ? places.size() : found->second;
  };
  std::sort(files.begin(), files.end());
  std::stable_sort(files.begin(), files.end(),
                   [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
  return files;
}

absl::StatusOr<std::vector<std::string>> ShardFiles(io::FileSystem& fs,
                                                    const std::vector<std::string>& shards) {
  std::vector<std::string> files;
  for (const std::string& uri : shards) {
    const absl::StatusOr<io::FileInfo> info = fs.Stat(uri);
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    const bool folder = info.ok() && info->is_directory;
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> found,
                              folder ? ShardsIn(fs, uri) : io::Glob(fs, uri));
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

// Input and output shards in one folder would be read as one data set, and `overwrite` would remove
// the input before it is read. A local input may be a link to a file in the output folder.
absl::Status CheckOutIsNotInput(const std::vector<std::string>& files, const std::string& to) {
  const std::string out = io::CanonicalName(io::Dirname(io::JoinPath(to, "x")));
  for (const std::string& file : files) {
    const std::string folder = io::CanonicalName(io::Dirname(file));
    std::error_code ignored;
    const bool same = folder == out || io::Dirname(io::CanonicalName(file)) == out ||
                      std::filesystem::equivalent(folder, out, ignored);  // mounted twice
    if (!same) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the output folder ", io::DisplayName(to),
                     " is the folder of the input shards; choose a different output folder"));
  }
  return absl::OkStatus();
}

// Rejects a wrong image_feature early: its first record already lacks the feature.
absl::Status CheckFirstRecord(const RecordSource& source) {
  if (source.size() == 0) return absl::OkStatus();
  const absl::StatusOr<std::string> first = source.Make(0);
  if (absl::IsInvalidArgument(first.status()) &&
      absl::StrContains(first.status().message(), kNoImageFeature))
    return base::WithContext(first.status(), source.Name(0));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Packed> ImageFolder(const ImageFolderOptions& input, const PackOptions& options) {
  if (input.images.empty() && input.labels.empty()) {
    return absl::InvalidArgumentError(
        "ImageFolderOptions has no images: set `images` (folders or patterns), `labels` (a file "
        "that lists images and their labels), or both");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckClasses(input.classes));
  return Pack(input.recompress, options,
              [&](io::FileSystem& fs) -> absl::StatusOr<std::unique_ptr<RecordSource>> {
                std::optional<ImageLabels> labels;
                if (!input.labels.empty()) {
                  PENSTOCK_ASSIGN_OR_RETURN(labels, ReadImageLabels(fs, input.labels));
                }
                PENSTOCK_ASSIGN_OR_RETURN(ImageList list,
                                          ListImages(fs, {.images = input.images,
                                                          .labels = labels ? &*labels : nullptr,
                                                          .classes = input.classes}));
                return ImageFiles(fs, std::move(list), input.recompress);
              });
}

absl::StatusOr<Packed> ImageArrays(const ImageArraysOptions& input, const PackOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckClasses(input.classes));
  return Pack(input.recompress, options,
              [&](io::FileSystem&) { return ArrayImages("ImageArrays", input); });
}

absl::StatusOr<Packed> Npz(const NpzOptions& input, const PackOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckClasses(input.classes));
  return Pack(input.recompress, options, [&](io::FileSystem& fs) { return NpzImages(fs, input); });
}

absl::StatusOr<Packed> Table(const base::NamedArrays& columns, const PackOptions& options) {
  return Pack({}, options, [&](io::FileSystem&) { return TableRows(columns); });
}

absl::StatusOr<Packed> Cifar(const CifarOptions& input, const PackOptions& options) {
  if (input.split != "train" && input.split != "test") {
    return absl::InvalidArgumentError(
        absl::StrCat("CIFAR has no split '", input.split, "'; choose split train or test"));
  }
  return Pack(input.recompress, options, [&](io::FileSystem& fs) {
    return CifarImages(fs, input.folder, input.split, input.recompress);
  });
}

absl::StatusOr<Packed> TfdsFolder(const TfdsOptions& input, const PackOptions& options) {
  return Pack(input.recompress, options, [&](io::FileSystem& fs) { return TfdsImages(fs, input); });
}

absl::StatusOr<Packed> Reshard(const ReshardOptions& input, const PackOptions& options) {
  return base::CatchExceptions([&]() -> absl::StatusOr<Packed> {
    PENSTOCK_RETURN_IF_ERROR(CheckPackOptions(options));
    PENSTOCK_RETURN_IF_ERROR(input.recompress.Check());
    const std::shared_ptr<io::FileSystem> fs = FileSystemOf(options);
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files, ShardFiles(*fs, input.shards));
    PENSTOCK_RETURN_IF_ERROR(CheckOutIsNotInput(files, options.out));
    PENSTOCK_RETURN_IF_ERROR(CheckOut(*fs, options));
    PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> source,
                              ShardRecords(*fs, files, input.image_feature, input.recompress));
    PENSTOCK_RETURN_IF_ERROR(CheckFirstRecord(*source));
    return ConvertAll(*fs, *source, options);
  });
}

absl::StatusOr<Packed> Records(const RecordSource& source, const PackOptions& options) {
  return base::CatchExceptions([&]() -> absl::StatusOr<Packed> {
    const std::shared_ptr<io::FileSystem> fs = FileSystemOf(options);
    PENSTOCK_RETURN_IF_ERROR(CheckOut(*fs, options));
    return ConvertAll(*fs, source, options);
  });
}

}  // namespace penstock::pack
