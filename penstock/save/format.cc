#include "penstock/save/format.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/save/read_exactly.h"
#include "penstock/save/safetensors.h"

namespace penstock::save {
namespace {

std::string Names() {
  std::string names;
  for (const Format& format : Formats()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", format.name, " (", format.extensions[0],
                    ")");
  }
  return names;
}

absl::StatusOr<Probe> LookAt(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo info, fs.Stat(uri));
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

absl::StatusOr<const Format*> Recognise(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Probe probe, LookAt(fs, uri));
  for (const Format& format : Formats()) {
    if (format.recognizes(probe)) return &format;
  }
  if (probe.is_directory) {
    return absl::InvalidArgumentError(
        absl::StrCat(io::DisplayName(uri), ": is a folder, and in none of the formats ", Names(),
                     "; a folder of checkpoints is read by CheckpointManager"));
  }
  return absl::DataLossError(absl::StrCat(
      io::DisplayName(uri), ": is not a weights file: its first bytes match none of ", Names()));
}

// By the extension.
absl::StatusOr<const Format*> FormatToWrite(absl::string_view uri) {
  for (const Format& format : Formats()) {
    for (absl::string_view extension : format.extensions) {
      if (!absl::EndsWithIgnoreCase(uri, extension)) continue;
      if (format.write != nullptr) return &format;
      return absl::UnimplementedError(absl::StrCat(io::DisplayName(uri), ": ", format.name,
                                                   " files can be read but not written"));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(io::DisplayName(uri),
                   ": the extension selects the format to write; the known formats are ", Names()));
}

}  // namespace

absl::Span<const Format> Formats() {
  static const auto* const table = new std::vector<Format>{
      SafetensorsFormat(),
  };
  return *table;
}

absl::StatusOr<Weights> ReadWeights(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Format* format, Recognise(fs, uri));
  return format->read(fs, uri);
}

absl::Status WriteWeights(io::FileSystem& fs, absl::string_view uri, const Weights& weights) {
  PENSTOCK_ASSIGN_OR_RETURN(const Format* format, FormatToWrite(uri));
  return format->write(fs, uri, weights);
}

absl::Status CheckWeightsDestination(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_RETURN_IF_ERROR(FormatToWrite(uri).status());
  return io::CheckWritableFile(fs, uri);
}

absl::StatusOr<Contents> Inspect(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Format* format, Recognise(fs, uri));
  return format->inspect(fs, uri);
}

}  // namespace penstock::save
