#include "penstock/save/format.h"

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/save/checkpoint_format.h"
#include "penstock/save/keras_hdf5.h"
#include "penstock/save/npz.h"
#include "penstock/save/onnx/onnx_format.h"
#include "penstock/save/pytorch.h"
#include "penstock/save/quoted.h"
#include "penstock/save/read_exactly.h"
#include "penstock/save/safetensors.h"
#include "penstock/save/safetensors_index.h"
#include "penstock/save/saved_model/saved_model.h"
#include "penstock/save/tensor_bundle.h"

namespace penstock::save {
namespace {

std::string Names() {
  std::string names;
  for (const Format& format : Formats()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", format.name);
    if (!format.extensions.empty()) absl::StrAppend(&names, " (", format.extensions[0], ")");
  }
  return names;
}

absl::StatusOr<Probe> LookAt(io::FileSystem& fs, absl::string_view uri) {
  const absl::StatusOr<io::FileInfo> found = fs.Stat(uri);
  if (absl::IsNotFound(found.status()) || (found.ok() && found->is_directory)) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool is_prefix, IsTensorBundlePrefix(fs, uri));
    if (is_prefix) return LookAt(fs, io::AppendToName(uri, ".index"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo info, found);
  Probe probe{.uri = std::string(uri), .is_directory = info.is_directory};
  if (info.is_directory) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(uri));
    for (const io::FileInfo& entry : entries) probe.entries.push_back(io::Basename(entry.uri));
    return probe;
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(uri));
  probe.size = file->size();
  probe.head.resize(static_cast<size_t>(std::min(probe.size, kProbeBytes)));
  PENSTOCK_RETURN_IF_ERROR(ReadExactly(*file, 0, absl::MakeSpan(probe.head)));
  return probe;
}

absl::StatusOr<const Format*> FindFormat(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Probe probe, LookAt(fs, uri));
  for (const Format& format : Formats()) {
    if (format.recognizes(probe)) return &format;
  }
  if (probe.is_directory) {
    return absl::InvalidArgumentError(
        absl::StrCat(io::DisplayName(uri), ": is a folder, and in none of the formats ", Names()));
  }
  if (probe.size == 0) {
    return absl::DataLossError(absl::StrCat(io::DisplayName(uri), ": the file is empty"));
  }
  return absl::DataLossError(absl::StrCat(
      io::DisplayName(uri), ": is not a weights file: its first bytes match none of ", Names()));
}

// By the extension of the name, which options may follow ("s3://b/w.safetensors?region=eu-west-1").
// The longest one counts: .weights.h5 is not .h5.
absl::StatusOr<const Format*> FormatToWrite(absl::string_view uri) {
  const Format* found = nullptr;
  size_t length = 0;
  for (const Format& format : Formats()) {
    for (absl::string_view extension : format.extensions) {
      if (extension.size() <= length) continue;
      if (!absl::EndsWithIgnoreCase(io::Basename(uri), extension)) continue;
      found = &format;
      length = extension.size();
    }
  }
  if (found == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        io::DisplayName(uri), ": the extension selects the format to write; the known formats are ",
        Names()));
  }
  if (found->write != nullptr) return found;
  return absl::UnimplementedError(
      absl::StrCat(io::DisplayName(uri), ": ", found->name, " files can be read but not written"));
}

std::string MainFile(const Format& format, absl::string_view uri) {
  return format.main_file == nullptr ? std::string(uri) : format.main_file(uri);
}

bool Holds(const Format& format, absl::string_view key) {
  const auto& keys = format.metadata_keys;
  return format.holds_metadata &&
         (keys.empty() || std::find(keys.begin(), keys.end(), key) != keys.end());
}

// `what`: "such as ...", or a key.
absl::Status NoPlaceForMetadata(const Format& format, absl::string_view uri,
                                absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(io::DisplayName(uri), ": the format ", format.name,
                                                 " has no place for metadata ", what,
                                                 "; write .safetensors, or the weights alone"));
}

}  // namespace

absl::Status NeedsModel(absl::string_view uri, absl::string_view format) {
  return absl::UnimplementedError(
      absl::StrCat(io::DisplayName(uri), ": ", format,
                   " holds a network's program beside its weights; export a model "
                   "(keras::Model::Export, or `penstock convert` of a file with its layers)"));
}

absl::Span<const Format> Formats() {
  static const auto* const table = new std::vector<Format>{
      // A row for each format.
      SafetensorsFormat(),  SafetensorsIndexFormat(), NpzFormat(),
      PyTorchZipFormat(),   PyTorchStreamFormat(),    XserFormat(),
      TensorBundleFormat(), SavedModelFormat(),       KerasWeightsFormat(),
      KerasLegacyFormat(),  KerasArchiveFormat(),     OnnxFormat(),
      CheckpointFormat(),
  };
  return *table;
}

absl::StatusOr<Weights> ReadWeights(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Format* format, FindFormat(fs, uri));
  return format->read(fs, uri);
}

absl::Status WriteWeights(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                          const WriteOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const Format* format, FormatToWrite(uri));
  for (const auto& [key, value] : weights.metadata) {
    if (!Holds(*format, key)) return NoPlaceForMetadata(*format, uri, Quoted(key));
  }
  return format->write(fs, uri, weights, options);
}

absl::StatusOr<bool> HoldsMetadata(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Format* format, FormatToWrite(uri));
  return format->holds_metadata;
}

absl::StatusOr<bool> HoldsMetadata(absl::string_view uri, absl::string_view key) {
  PENSTOCK_ASSIGN_OR_RETURN(const Format* format, FormatToWrite(uri));
  return Holds(*format, key);
}

absl::StatusOr<bool> WeightsExist(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Format* format, FormatToWrite(uri));
  return fs.Exists(MainFile(*format, uri));
}

absl::Status CheckWeightsDestination(io::FileSystem& fs, absl::string_view uri,
                                     bool with_metadata) {
  PENSTOCK_ASSIGN_OR_RETURN(const Format* format, FormatToWrite(uri));
  if (with_metadata && !format->holds_metadata) {
    return NoPlaceForMetadata(*format, uri, "such as the layers of a model");
  }
  if (format->check_destination != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(format->check_destination(fs, uri));
  }
  return io::CheckWritableFile(fs, MainFile(*format, uri));
}

absl::Status CheckNames(const base::NamedArrays& arrays) {
  absl::flat_hash_set<absl::string_view> names;
  for (const auto& [name, array] : arrays) {
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("name ", Quoted(name), " appears twice"));
    }
    try {
      nlohmann::json(name).dump();
    } catch (const nlohmann::json::exception&) {
      return absl::InvalidArgumentError(absl::StrCat("name ", Quoted(name), " is not UTF-8"));
    }
  }
  return absl::OkStatus();
}

int64_t UseVariableNames(Weights& weights) {
  absl::flat_hash_map<std::string, int> uses;
  const auto name_of = [&](const std::string& name) -> const std::string& {
    const auto found = weights.variables.find(name);
    return found == weights.variables.end() ? name : found->second;
  };
  for (const auto& [name, array] : weights.arrays) {
    ++uses[name];
    if (name_of(name) != name) ++uses[name_of(name)];
  }
  int64_t renamed = 0;
  base::NamedArrays arrays;
  for (const auto& [name, array] : weights.arrays) {
    const std::string& other = name_of(name);
    const bool rename = other != name && uses[other] == 1;
    renamed += rename;
    arrays.Append(rename ? other : name, array);
  }
  weights.arrays = std::move(arrays);
  weights.variables.clear();
  return renamed;
}

absl::StatusOr<Contents> Inspect(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Format* format, FindFormat(fs, uri));
  return format->inspect(fs, uri);
}

}  // namespace penstock::save
