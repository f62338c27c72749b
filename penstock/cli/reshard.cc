#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "penstock/cli/command.h"
#include "penstock/cli/convert.h"
#include "penstock/cli/recompress.h"
#include "penstock/cli/record_index.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"
#include "penstock/record/example.h"

namespace penstock::cli {
namespace {

// The records of shards: as they are, or with another image in them.
class ShardRecords : public RecordSource {
 public:
  ShardRecords(RecordIndex index, std::vector<std::string> classes, std::string image_feature,
               RecompressOptions recompress)
      : index_(std::move(index)),
        classes_(std::move(classes)),
        image_feature_(std::move(image_feature)),
        recompress_(std::move(recompress)) {}

  int64_t size() const override { return index_.size(); }
  std::string Name(int64_t i) const override { return index_.Where(i); }
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
          absl::StrCat("there is no feature '", image_feature_,
                       "' with the bytes of one image; say which one has them with "
                       "--image-feature. The record has: ",
                       record::DescribeExample(record)));
    }
    const absl::string_view bytes = found->second.data<absl::string_view>()[0];
    PENSTOCK_ASSIGN_OR_RETURN(const image::ImageInfo before, image::ReadInfo(bytes));
    PENSTOCK_ASSIGN_OR_RETURN(const RecompressedImage image,
                              Recompress(std::string(bytes), recompress_));
    record::ExampleBuilder example;
    for (const auto& [name, values] : features) example.SetArray(name, values);
    example.SetBytes(image_feature_, image.bytes);
    // Where `size` said the image's height and width, it says them still.
    const auto size = features.find("size");
    if (size != features.end() && size->second.dtype() == base::DType::kI64 &&
        size->second.values<int64_t>() ==
            absl::Span<const int64_t>({int64_t{before.height}, int64_t{before.width}})) {
      example.SetInt64List("size", {image.size.height, image.size.width});
    }
    return example.Serialize();
  }

  const RecordIndex index_;
  const std::vector<std::string> classes_;
  const std::string image_feature_;
  const RecompressOptions recompress_;
};

class Reshard : public Command {
 public:
  void Describe(Options& options) override {
    options.Add("shards_in", in_, "Shards: files, patterns, or folders of *.tfrec files")
        .Required();
    options
        .Add("--image-feature", image_feature_,
             "The feature that holds the image, for --size and --quality")
        .ShowDefault();
    recompress_.Describe(options);
    convert_.Describe(options);
  }

  absl::Status Run() override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files, Files());
    PENSTOCK_RETURN_IF_ERROR(RefuseTheSameFolder(files));
    PENSTOCK_RETURN_IF_ERROR(CheckOut(*fs_, convert_));
    PENSTOCK_ASSIGN_OR_RETURN(RecordIndex index, RecordIndex::Build(*fs_, files));
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> classes, Classes(files[0]));
    const ShardRecords source(std::move(index), std::move(classes), image_feature_, recompress_);
    PENSTOCK_RETURN_IF_ERROR(TryTheFirst(source));
    PENSTOCK_ASSIGN_OR_RETURN(const ShardPlan made, Convert(*fs_, source, convert_, stderr));
    return PrintConversion(made, source, convert_, "rewrote");
  }

 private:
  absl::StatusOr<std::vector<std::string>> Files() const {
    std::vector<std::string> files;
    for (const std::string& what : in_) {
      const absl::StatusOr<io::FileInfo> info = fs_->Stat(what);
      if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
      const bool folder = info.ok() && info->is_directory;
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> found,
                                io::Glob(*fs_, folder ? io::JoinPath(what, "*.tfrec") : what));
      files.insert(files.end(), found.begin(), found.end());
    }
    return files;
  }

  // Old and new shards in one folder would be read as one data set.
  absl::Status RefuseTheSameFolder(const std::vector<std::string>& files) const {
    const std::string out = io::Dirname(io::JoinPath(convert_.out, "x"));  // without a last '/'
    for (const std::string& file : files) {
      std::error_code ignored;
      const std::string folder = io::Dirname(file);
      if (folder == out || std::filesystem::equivalent(folder, convert_.out, ignored)) {
        return absl::InvalidArgumentError(
            absl::StrCat("--out ", convert_.out,
                         " is the folder of the shards that are read; give another one"));
      }
    }
    return absl::OkStatus();
  }

  // A wrong --image-feature shows in the first record already.
  static absl::Status TryTheFirst(const ShardRecords& source) {
    if (source.size() == 0) return absl::OkStatus();
    const absl::StatusOr<std::string> first = source.Make(0);
    if (absl::IsInvalidArgument(first.status()) &&
        absl::StrContains(first.status().message(), "--image-feature"))
      return base::WithContext(first.status(), source.Name(0));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> Classes(const std::string& file) const {
    const absl::StatusOr<std::string> text =
        io::ReadFile(*fs_, io::JoinPath(io::Dirname(file), kClassesFile));
    if (absl::IsNotFound(text.status())) return std::vector<std::string>();
    PENSTOCK_RETURN_IF_ERROR(text.status());
    std::vector<std::string> classes = absl::StrSplit(*text, '\n');
    if (!classes.empty() && classes.back().empty()) classes.pop_back();
    return classes;
  }

  std::vector<std::string> in_;
  std::string image_feature_ = "image";
  RecompressOptions recompress_;
  ConvertOptions convert_;
  std::shared_ptr<io::FileSystem> fs_ = io::FileSystem::Default();
};

}  // namespace

std::unique_ptr<Command> ReshardCommand() { return std::make_unique<Reshard>(); }

}  // namespace penstock::cli
