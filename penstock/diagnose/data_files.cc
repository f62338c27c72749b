#include "penstock/diagnose/data_files.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/image/image.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"
#include "penstock/pack/read_input.h"
#include "penstock/pack/shard_plan.h"
#include "penstock/record/tfrecord.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::diagnose {
namespace {

// Formats in the order in which a folder is searched.
constexpr DataFormatRow kFormats[] = {
    {DataFormat::kShards, "shards", "records", "*.tfrec"},
    {DataFormat::kImages, "images", "images", "*.jpg, *.jpeg, *.png"},
    {DataFormat::kNumpy, "numpy", "rows", "*.npz, *.npy"},
    {DataFormat::kCsv, "csv", "rows", "*.csv"},
    {DataFormat::kText, "text", "lines", "*.txt"},
};

struct Extension {
  const char* text;
  DataFormat format;
};
constexpr Extension kExtensions[] = {
    {".tfrec", DataFormat::kShards},     {".tfrecord", DataFormat::kShards},
    {".tfrecords", DataFormat::kShards}, {".jpg", DataFormat::kImages},
    {".jpeg", DataFormat::kImages},      {".png", DataFormat::kImages},
    {".npz", DataFormat::kNumpy},        {".npy", DataFormat::kNumpy},
    {".csv", DataFormat::kCsv},          {".txt", DataFormat::kText},
};

std::optional<DataFormat> ByName(absl::string_view name) {
  // TensorFlow Datasets: "cifar10-train.tfrecord-00000-of-00004".
  if (absl::StrContains(name, ".tfrecord-")) return DataFormat::kShards;
  absl::ConsumeSuffix(&name, ".gz");
  for (const Extension& extension : kExtensions) {
    if (absl::EndsWithIgnoreCase(name, extension.text)) return extension.format;
  }
  return std::nullopt;
}

absl::StatusOr<DataFormat> ByBytes(io::FileSystem& fs, const std::string& file) {
  PENSTOCK_ASSIGN_OR_RETURN(auto stream, fs.OpenInput(file));
  std::string head(64 << 10, '\0');
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t size, stream->Read(absl::MakeSpan(head)));
  head.resize(static_cast<size_t>(size));
  if (head.size() >= 12 && record::ReadTfRecordLength(head).has_value()) return DataFormat::kShards;
  if (image::ReadInfo(head).ok()) return DataFormat::kImages;
  if (absl::StartsWith(head, "\x93NUMPY") || absl::StartsWith(head, "PK\x03\x04"))
    return DataFormat::kNumpy;
  return absl::InvalidArgumentError(
      absl::StrCat(file,
                   ": cannot detect the format from its name or its first bytes; choose the "
                   "format: ",
                   DataFormatNames()));
}

absl::StatusOr<DataFormat> FormatOf(io::FileSystem& fs, const std::string& file,
                                    absl::string_view given) {
  for (const DataFormatRow& row : kFormats) {
    if (given == row.name) return row.format;
  }
  if (const auto format = ByName(io::Basename(file))) return *format;
  return ByBytes(fs, file);
}

absl::Status CheckFormat(absl::string_view given) {
  for (const DataFormatRow& row : kFormats) {
    if (given.empty() || given == row.name) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown format '", given, "'; the formats are ", DataFormatNames()));
}

bool IsRecordIndex(const std::string& file) {
  return absl::EndsWith(io::Basename(file), record::TfRecordIndexUri(""));
}

// Adds the files of the first format of the table that exists in a folder.
absl::Status AddFolder(io::FileSystem& fs, const std::string& folder, absl::string_view given,
                       DataFiles& found) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> inside, fs.ListRecursive(folder));
  std::string expected;
  for (const DataFormatRow& row : kFormats) {
    if (!given.empty() && given != row.name) continue;
    const size_t before = found.files.size();
    for (const io::FileInfo& file : inside) {
      if (ByName(io::Basename(file.uri)) != row.format) continue;
      found.files.push_back(file.uri);
      found.bytes += file.size;
    }
    found.format = row.format;
    if (found.files.size() > before) return absl::OkStatus();
    absl::StrAppend(&expected, expected.empty() ? "" : ", ", row.extensions);
  }
  return absl::NotFoundError(absl::StrCat(
      io::DisplayName(folder), " is a folder without data",
      inside.empty() ? ": it is empty"
                     : absl::StrCat(": none of its ", inside.size(), " files matches"),
      "; expected ", expected, ". For files with other names, use a pattern and set the format"));
}

// Adds the size of files that a pattern matched, estimated from a sample if there are many.
absl::Status AddSizes(io::FileSystem& fs, absl::Span<const std::string> files, int64_t& bytes) {
  constexpr size_t kMaxSample = 500;
  const size_t step = std::max<size_t>(1, files.size() / kMaxSample);
  int64_t sum = 0, count = 0;
  for (size_t i = 0; i < files.size(); i += step, ++count) {
    PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo info, fs.Stat(files[i]));
    if (info.is_directory) {
      return absl::InvalidArgumentError(absl::StrCat(io::DisplayName(files[i]),
                                                     " is a folder, but a pattern must match "
                                                     "files; pass the folder itself, or a "
                                                     "pattern of its files"));
    }
    sum += info.size;
  }
  if (count > 0) bytes += sum * static_cast<int64_t>(files.size()) / count;
  return absl::OkStatus();
}

}  // namespace

const DataFormatRow& RowOf(DataFormat format) {
  return *std::find_if(std::begin(kFormats), std::end(kFormats),
                       [&](const DataFormatRow& row) { return row.format == format; });
}

std::string DataFormatNames() {
  std::string names;
  for (const DataFormatRow& row : kFormats)
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  return names;
}

absl::StatusOr<DataFiles> FindDataFiles(io::FileSystem& fs, const std::vector<std::string>& uris,
                                        absl::string_view format) {
  if (uris.empty())
    return absl::InvalidArgumentError("no data given; pass files, a folder or a pattern");
  PENSTOCK_RETURN_IF_ERROR(CheckFormat(format));
  DataFiles found;
  std::optional<DataFormat> common;
  for (const std::string& uri : uris) {
    const size_t before = found.files.size();
    const absl::StatusOr<io::FileInfo> info =
        io::IsPattern(uri) ? absl::StatusOr<io::FileInfo>(absl::NotFoundError("")) : fs.Stat(uri);
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    if (info.ok() && info->is_directory) {
      PENSTOCK_RETURN_IF_ERROR(AddFolder(fs, uri, format, found));
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> files, io::Glob(fs, uri));
      files.erase(std::remove_if(files.begin(), files.end(), IsRecordIndex), files.end());
      if (files.empty())
        return absl::NotFoundError(
            absl::StrCat("only indices of shards match ", io::DisplayName(uri)));
      PENSTOCK_RETURN_IF_ERROR(AddSizes(fs, files, found.bytes));
      PENSTOCK_ASSIGN_OR_RETURN(found.format, FormatOf(fs, files[0], format));
      found.files.insert(found.files.end(), files.begin(), files.end());
    }
    if (common && *common != found.format) {
      return absl::InvalidArgumentError(
          absl::StrCat("mixed formats: ", io::DisplayName(found.files[before]), " (",
                       RowOf(found.format).name, ") and ", io::DisplayName(found.files[0]), " (",
                       RowOf(*common).name, "); pass files of one format"));
    }
    common = found.format;
  }
  if (found.format == DataFormat::kShards)
    PENSTOCK_RETURN_IF_ERROR(pack::CheckShardsComplete(fs, found.files));
  found.remote = pack::IsRemote(found.files[0]);
  return found;
}

}  // namespace penstock::diagnose
