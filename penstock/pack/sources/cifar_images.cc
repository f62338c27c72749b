#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"
#include "penstock/pack/read_input.h"
#include "penstock/pack/sources/pixel_source.h"
#include "penstock/pack/sources/record_sources.h"

namespace penstock::pack {
namespace {

constexpr int64_t kSide = 32, kPlane = kSide * kSide;

// The two data sets, identified by their file names.
struct Kind {
  const char* split;
  const char* pattern;
  int64_t label_bytes;
  const char* names;  // file of the class names
  int64_t classes;
};
constexpr Kind kKinds[] = {
    {"train", "data_batch_*.bin", 1, "batches.meta.txt", 10},
    {"test", "test_batch.bin", 1, "batches.meta.txt", 10},
    {"train", "train.bin", 2, "fine_label_names.txt", 100},
    {"test", "test.bin", 2, "fine_label_names.txt", 100},
};

absl::StatusOr<std::vector<std::string>> ClassNames(io::FileSystem& fs, const std::string& folder,
                                                    const Kind& kind) {
  std::vector<std::string> names;
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                            ReadOptional(fs, io::JoinPath(folder, kind.names)));
  if (text) {
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      absl::ConsumeSuffix(&line, "\r");
      if (!line.empty()) names.emplace_back(line);
    }
  }
  if (static_cast<int64_t>(names.size()) == kind.classes) return names;
  names.clear();
  for (int64_t c = 0; c < kind.classes; ++c) names.push_back(absl::StrCat(c));
  return names;
}

// Concatenates the records of all files; a record is the label bytes and three planes.
absl::StatusOr<std::string> ReadRecords(io::FileSystem& fs, const std::vector<std::string>& files,
                                        const Kind& kind) {
  const int64_t record = kind.label_bytes + 3 * kPlane;
  std::string all;
  for (const std::string& file : files) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes, io::ReadFile(fs, file));
    if (bytes.empty() || static_cast<int64_t>(bytes.size()) % record != 0) {
      return absl::DataLossError(
          absl::StrCat(io::DisplayName(file), ": size of ", bytes.size(),
                       " bytes is not a multiple of the record ", "size of ", record,
                       " bytes; the file is truncated or not in CIFAR's binary format"));
    }
    all += bytes;
  }
  return all;
}

base::Array Interleaved(const char* planes) {
  base::Array image = base::Array::Uninitialized(base::DType::kU8, {kSide, kSide, 3});
  uint8_t* pixel = image.mutable_data<uint8_t>();
  for (int64_t p = 0; p < kPlane; ++p) {
    for (int64_t c = 0; c < 3; ++c) *pixel++ = static_cast<uint8_t>(planes[c * kPlane + p]);
  }
  return image;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> CifarImages(io::FileSystem& fs,
                                                          const std::string& folder,
                                                          const std::string& split,
                                                          const RecompressOptions& recompress) {
  for (const Kind& kind : kKinds) {
    if (kind.split != split) continue;
    const absl::StatusOr<std::vector<std::string>> files =
        io::Glob(fs, io::JoinPath(folder, kind.pattern));
    if (absl::IsNotFound(files.status())) continue;
    PENSTOCK_RETURN_IF_ERROR(files.status());
    PENSTOCK_ASSIGN_OR_RETURN(std::string bytes, ReadRecords(fs, *files, kind));
    const auto records = std::make_shared<const std::string>(std::move(bytes));
    const int64_t record = kind.label_bytes + 3 * kPlane;
    // An interrupted copy of the original has fewer than its five files.
    constexpr int64_t kBatch = 10'000;
    const int64_t images = static_cast<int64_t>(records->size()) / record;
    if (kind.classes == 10 && split == "train" && images >= kBatch && images < 5 * kBatch) {
      return absl::FailedPreconditionError(
          absl::StrCat(io::DisplayName(folder), " has ", images, " images in ", files->size(),
                       " of the 5 files data_batch_*.bin of CIFAR-10, which have 50,000; unpack "
                       "cifar-10-binary.tar.gz again"));
    }
    const auto label_at = [&](int64_t i) {
      return static_cast<uint8_t>((*records)[i * record + kind.label_bytes - 1]);
    };
    Pixels pixels{
        .origin = folder,
        .image = [records, record, skip = kind.label_bytes](
                     int64_t i) { return Interleaved(records->data() + i * record + skip); },
        .class_indices = {},
        .classes = {}};
    PENSTOCK_ASSIGN_OR_RETURN(pixels.classes, ClassNames(fs, folder, kind));
    for (int64_t i = 0; i < images; ++i) {
      if (label_at(i) >= kind.classes) {
        return absl::DataLossError(absl::StrCat(io::DisplayName(folder), ": image ", i,
                                                " has label ", int{label_at(i)}, ", but there are ",
                                                kind.classes, " classes"));
      }
      pixels.class_indices.push_back(label_at(i));
    }
    Fingerprint content;
    content.Add(absl::string_view(*records));
    return PixelImages(std::move(pixels), content.ToString(), recompress);
  }
  return absl::NotFoundError(absl::StrCat(
      io::DisplayName(folder), " has no files of CIFAR's binary format for split ", split, " (",
      split == "train" ? "data_batch_1.bin ... or train.bin" : "test_batch.bin or test.bin",
      "); unpack cifar-10-binary.tar.gz and give its folder cifar-10-batches-bin"));
}

}  // namespace penstock::pack
