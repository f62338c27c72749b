#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/cli/command.h"
#include "penstock/cli/convert.h"
#include "penstock/cli/pack_sources.h"
#include "penstock/cli/recompress.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"

namespace penstock::cli {
namespace {

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
    PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> source,
                              ShardRecords(*fs_, files, image_feature_, recompress_));
    PENSTOCK_RETURN_IF_ERROR(TryTheFirst(*source));
    PENSTOCK_ASSIGN_OR_RETURN(const ShardPlan made, Convert(*fs_, *source, convert_, stderr));
    return PrintConversion(made, *source, convert_, "rewrote");
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
  static absl::Status TryTheFirst(const RecordSource& source) {
    if (source.size() == 0) return absl::OkStatus();
    const absl::StatusOr<std::string> first = source.Make(0);
    if (absl::IsInvalidArgument(first.status()) &&
        absl::StrContains(first.status().message(), "--image-feature"))
      return base::WithContext(first.status(), source.Name(0));
    return absl::OkStatus();
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
