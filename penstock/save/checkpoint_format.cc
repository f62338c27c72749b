#include "penstock/save/checkpoint_format.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/save/checkpoint.h"
#include "penstock/save/checkpoint_arrays.h"
#include "penstock/save/checkpoint_manifest.h"
#include "penstock/save/checkpoint_scan.h"
#include "penstock/save/safetensors.h"

namespace penstock::save {
namespace checkpoint_format {
namespace {

constexpr char kStep[] = "penstock.step";  // as in the array files

bool HasManifest(const Probe& probe) {
  return std::find(probe.entries.begin(), probe.entries.end(), kManifestName) !=
         probe.entries.end();
}

bool Recognizes(const Probe& probe) {
  return probe.is_directory &&
         (HasManifest(probe) ||
          std::any_of(probe.entries.begin(), probe.entries.end(),
                      [](const std::string& name) { return StepOfFolder(name).has_value(); }));
}

std::string Describe(const CorruptCheckpoint& skipped) {
  return absl::StrCat("corrupt checkpoint of step ", skipped.step, ": ", skipped.why.message());
}

// The newest complete checkpoint of a folder of checkpoints.
absl::StatusOr<Weights> ReadNewest(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(Restored newest, CheckpointManager(fs, uri).ReadLatest());
  Weights weights{.arrays = std::move(newest.checkpoint.arrays),
                  .metadata = {{kStep, absl::StrCat(newest.checkpoint.step)}}};
  for (const CorruptCheckpoint& skipped : newest.skipped) {
    weights.skipped.push_back(Describe(skipped));
  }
  return weights;
}

// One checkpoint, whatever the name of its folder.
absl::StatusOr<Weights> ReadOne(io::FileSystem& fs, const std::string& uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Manifest manifest,
                            OpenManifest(fs, io::JoinPath(uri, kManifestName)));
  Weights weights{.metadata = {{kStep, absl::StrCat(manifest.step)}}};
  for (const ManifestFile& file : manifest.files) {
    PENSTOCK_ASSIGN_OR_RETURN(const Weights part, ReadArrays(fs, uri, file));
    for (const auto& [name, array] : part.arrays) weights.arrays.Append(name, array);
  }
  return weights;
}

absl::StatusOr<Weights> Read(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool is_one, IsCheckpointFolder(fs, uri));
  return is_one ? ReadOne(fs, std::string(uri)) : ReadNewest(fs, uri);
}

absl::Status AppendContents(io::FileSystem& fs, const std::string& folder, const Manifest& manifest,
                            Contents& contents) {
  for (const ManifestFile& file : manifest.files) {
    const std::string uri = io::JoinPath(folder, file.name);
    PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> opened,
                              fs.OpenRandomAccess(uri));
    PENSTOCK_ASSIGN_OR_RETURN(const SafetensorsReader reader,
                              SafetensorsReader::Open(std::move(opened)));
    for (TensorInfo tensor : reader.contents().tensors) {
      tensor.file = file.name;
      contents.tensors.push_back(std::move(tensor));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Contents> InspectFolder(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool is_one, IsCheckpointFolder(fs, uri));
  Contents contents{.format = "training checkpoint"};
  std::string folder(uri);
  if (!is_one) {
    PENSTOCK_ASSIGN_OR_RETURN(const CheckpointList list, CheckpointManager(fs, uri).List());
    if (list.complete.empty()) {
      return absl::NotFoundError(
          absl::StrCat(io::DisplayName(uri), ": contains no complete checkpoint"));
    }
    folder = list.complete.back().uri;
    for (const CorruptCheckpoint& corrupt : list.corrupt) {
      if (corrupt.step > list.complete.back().step) contents.skipped.push_back(Describe(corrupt));
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Manifest manifest,
                            OpenManifest(fs, io::JoinPath(folder, kManifestName)));
  contents.metadata[kStep] = absl::StrCat(manifest.step);
  PENSTOCK_RETURN_IF_ERROR(AppendContents(fs, folder, manifest, contents));
  return contents;
}

}  // namespace
}  // namespace checkpoint_format

absl::StatusOr<bool> IsCheckpointFolder(io::FileSystem& fs, absl::string_view uri) {
  return fs.Exists(io::JoinPath(uri, kManifestName));
}

Format CheckpointFormat() {
  return {.name = "training checkpoint",
          .extensions = {},
          .recognizes = checkpoint_format::Recognizes,
          .inspect = checkpoint_format::InspectFolder,
          .read = checkpoint_format::Read,
          .write = nullptr};
}

}  // namespace penstock::save
