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

// In the order in which a folder is looked through.
constexpr DataFormatRow kFormats[] = {
    {DataFormat::kShards, "shards", "records", "*.tfrec"},
    {DataFormat::kImages, "images", "images", "*.jpg, *.jpeg, *.png"},
    {DataFormat::kNumpy, "numpy", "rows", "*.npz, *.npy"},
    {DataFormat::kCsv, "csv", "rows", "*.csv"},
    {DataFormat::kText, "text", "lines", "*.txt"},
};

struct Ending {
  const char* text;
  DataFormat format;
};
constexpr Ending kEndings[] = {
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
  for (const Ending& ending : kEndings) {
    if (absl::EndsWithIgnoreCase(name, ending.text)) return ending.format;
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
                   ": neither its name nor its first bytes tell what it holds; say so with "
                   "--format: ",
                   DataFormatNames()));
}

absl::StatusOr<DataFormat> FormatOf(io::FileSystem& fs, const std::string& file,
                                    absl::string_view given) {
  for (const DataFormatRow& row : kFormats) {
    if (given == row.name) return row.format;
  }
  if (!given.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--format ", given, " is none of ", DataFormatNames()));
  }
  if (const auto format = ByName(io::Basename(file))) return *format;
  return ByBytes(fs, file);
}

bool IsRecordIndex(const std::string& file) {
  return absl::EndsWith(io::Basename(file), record::TfRecordIndexUri(""));
}

// Files of the first kind of the table that a folder holds.
absl::Status AddFolder(io::FileSystem& fs, const std::string& folder, absl::string_view given,
                       DataFiles& found) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> inside, fs.ListRecursive(folder));
  std::string wanted;
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
    absl::StrAppend(&wanted, wanted.empty() ? "" : ", ", row.ending);
  }
  return absl::NotFoundError(absl::StrCat(
      folder, " is a folder without data",
      inside.empty() ? ": it is empty" : absl::StrCat(": none of its ", inside.size(), " files is"),
      inside.empty() ? "; wanted are " : " one of ", wanted,
      ". Files that are named otherwise can be given by a pattern, with --format"));
}

// Sizes of files that a pattern found: all of a few, and of many as many as say how large one is.
absl::Status AddSizes(io::FileSystem& fs, absl::Span<const std::string> files, int64_t& bytes) {
  constexpr size_t kMost = 500;
  const size_t step = std::max<size_t>(1, files.size() / kMost);
  int64_t sum = 0, looked_at = 0;
  for (size_t i = 0; i < files.size(); i += step, ++looked_at) {
    PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo info, fs.Stat(files[i]));
    if (info.is_directory) {
      return absl::InvalidArgumentError(absl::StrCat(files[i],
                                                     " is a folder among files; give it "
                                                     "alone, or a pattern of its files"));
    }
    sum += info.size;
  }
  if (looked_at > 0) bytes += sum * static_cast<int64_t>(files.size()) / looked_at;
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

absl::StatusOr<DataFiles> FindDataFiles(io::FileSystem& fs, const std::vector<std::string>& what,
                                        absl::string_view format) {
  if (what.empty())
    return absl::InvalidArgumentError("there is no data given: name files, a folder or a pattern");
  DataFiles found;
  std::optional<DataFormat> kind;
  for (const std::string& one : what) {
    const size_t before = found.files.size();
    const absl::StatusOr<io::FileInfo> info =
        io::IsPattern(one) ? absl::StatusOr<io::FileInfo>(absl::NotFoundError("")) : fs.Stat(one);
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    if (info.ok() && info->is_directory) {
      PENSTOCK_RETURN_IF_ERROR(AddFolder(fs, one, format, found));
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> files, io::Glob(fs, one));
      files.erase(std::remove_if(files.begin(), files.end(), IsRecordIndex), files.end());
      if (files.empty())
        return absl::NotFoundError(absl::StrCat("only indices of shards match ", one));
      PENSTOCK_RETURN_IF_ERROR(AddSizes(fs, files, found.bytes));
      PENSTOCK_ASSIGN_OR_RETURN(found.format, FormatOf(fs, files[0], format));
      found.files.insert(found.files.end(), files.begin(), files.end());
    }
    if (kind && *kind != found.format) {
      return absl::InvalidArgumentError(absl::StrCat(
          found.files[before], " is of another kind (", RowOf(found.format).name, ") than ",
          found.files[0], " (", RowOf(*kind).name, "); look at one kind at a time"));
    }
    kind = found.format;
  }
  if (found.format == DataFormat::kShards)
    PENSTOCK_RETURN_IF_ERROR(pack::RefuseIncomplete(fs, found.files));
  found.remote = pack::IsRemote(found.files[0]);
  return found;
}

}  // namespace penstock::diagnose
