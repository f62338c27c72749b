#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/cli/command.h"
#include "penstock/io/file_system.h"
#include "penstock/io/uri.h"
#include "penstock/save/save.h"

namespace penstock::cli {
namespace {

// Whether both names are those of one file.
absl::StatusOr<bool> AreSameFile(absl::string_view a, absl::string_view b) {
  PENSTOCK_ASSIGN_OR_RETURN(const io::Uri first, io::ParseUri(a));
  PENSTOCK_ASSIGN_OR_RETURN(const io::Uri second, io::ParseUri(b));
  if (first.is_local() != second.is_local()) return false;
  if (!first.is_local()) {
    return first.scheme == second.scheme && first.bucket == second.bucket &&
           first.path == second.path && first.options == second.options;
  }
  std::error_code error;  // a missing file is no other file
  return first.path == second.path || std::filesystem::equivalent(first.path, second.path, error);
}

class Convert : public Command {
 public:
  void Describe(Options& options) override {
    options.Add("in", in_, "Weights file to read; its format is detected").Required();
    options.Add("out", out_, "Weights file to write; the extension selects the format").Required();
    options.AddFlag("--overwrite", overwrite_, "Replace an existing file");
    options
        .Add(
            "--max-shard-size", max_shard_bytes_,
            "Maximum size of the tensors in one file, for safetensors in several files: 2GB, 500MB")
        .Bytes()
        .Range(1, uint64_t{1} << 50)
        .ShowDefault("5GB");
  }

  absl::Status Run() override {
    io::FileSystem& fs = *io::FileSystem::Default();
    PENSTOCK_RETURN_IF_ERROR(CheckDestination(fs));
    PENSTOCK_ASSIGN_OR_RETURN(save::Weights weights, save::ReadWeights(fs, in_));
    PENSTOCK_ASSIGN_OR_RETURN(const bool holds_metadata, save::HoldsMetadata(out_));
    if (!holds_metadata && !weights.metadata.empty()) {
      std::fprintf(stderr,
                   "convert: %zu entries of metadata are left out: %s has no place for them\n",
                   weights.metadata.size(), io::DisplayName(out_).c_str());
      weights.metadata.clear();
    }
    PENSTOCK_RETURN_IF_ERROR(
        save::WriteWeights(fs, out_, weights, {.max_shard_bytes = max_shard_bytes_}));
    int64_t bytes = 0;
    for (const auto& [name, array] : weights.arrays) bytes += array.num_bytes();
    std::printf("wrote %zu tensors, %.1f MB, to %s\n", weights.arrays.size(),
                static_cast<double>(bytes) / 1e6, io::DisplayName(out_).c_str());
    return absl::OkStatus();
  }

 private:
  // Before anything is read.
  absl::Status CheckDestination(io::FileSystem& fs) const {
    PENSTOCK_ASSIGN_OR_RETURN(const bool same, AreSameFile(in_, out_));
    if (same) {
      return absl::InvalidArgumentError(
          absl::StrCat(io::DisplayName(out_), ": is the file to read; choose another destination"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const bool exists, save::WeightsExist(fs, out_));
    if (exists && !overwrite_) {
      return absl::AlreadyExistsError(
          absl::StrCat(io::DisplayName(out_), ": exists; --overwrite replaces it"));
    }
    return save::CheckWeightsDestination(fs, out_);
  }

  std::string in_, out_;
  bool overwrite_ = false;
  int64_t max_shard_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Command> ConvertCommand() { return std::make_unique<Convert>(); }

}  // namespace penstock::cli
