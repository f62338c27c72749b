#include <string>
#include <vector>

#include "penstock/cli/command.h"
#include "penstock/cli/pack_flags.h"
#include "penstock/pack/pack.h"

namespace penstock::cli {
namespace {

class Reshard : public Command {
 public:
  void Describe(Options& options) override {
    options.Add("shards_in", in_, "Shards: files, patterns, or folders of *.tfrec files")
        .Required();
    options
        .Add("--image-feature", image_feature_,
             "Feature that holds the image, for --size and --quality")
        .ShowDefault();
    recompress_.Describe(options);
    pack_.Describe(options);
  }

  absl::Status Run() override {
    return RunPacking(pack_, "rewrote", [&](const pack::PackOptions& options) {
      return pack::Reshard(
          {.shards = in_, .image_feature = image_feature_, .recompress = recompress_.Value()},
          options);
    });
  }

 private:
  std::vector<std::string> in_;
  std::string image_feature_ = "image";
  RecompressFlags recompress_;
  PackFlags pack_;
};

}  // namespace

std::unique_ptr<Command> ReshardCommand() { return std::make_unique<Reshard>(); }

}  // namespace penstock::cli
