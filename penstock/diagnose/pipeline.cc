#include "penstock/diagnose/pipeline.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/data/sources/file_interleave.h"
#include "penstock/image/image.h"
#include "penstock/io/uri.h"
#include "penstock/record/example.h"
#include "penstock/record/example_parser.h"
#include "penstock/record/tfrecord.h"

namespace penstock::diagnose {
namespace {

using base::DType;
using data::Dataset;

// Contents of the records of a shard.
struct RecordInfo {
  record::ExampleSchema schema;
  std::string image;                // name of the image feature; "": none
  image::ImageInfo info;            // of the first image
  std::vector<std::string> ragged;  // features of variable length
  double bytes_each = 0;            // average size of the first records, including framing
  bool compressed = false;
};

bool IsImage(const base::Array& values, image::ImageInfo* info) {
  if (!values.valid() || values.dtype() != DType::kString || values.num_elements() != 1)
    return false;
  const auto read = image::ReadInfo(values.data<absl::string_view>()[0]);
  if (read.ok()) *info = *read;
  return read.ok();
}

absl::Status FindImage(const record::FeatureMap& features, const std::string& requested,
                       RecordInfo& record) {
  if (!requested.empty()) {
    const auto at = features.find(requested);
    if (at == features.end() || !IsImage(at->second, &record.info)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the image feature '", requested, "' does not hold one encoded image"));
    }
    record.image = requested;
    return absl::OkStatus();
  }
  for (const auto& [name, values] : features) {
    image::ImageInfo info;
    if ((name != "image" && !record.image.empty()) || !IsImage(values, &info)) continue;
    record.image = name;
    record.info = info;
  }
  return absl::OkStatus();
}

absl::Status ChooseColumns(std::vector<std::string> columns, RecordInfo& record) {
  auto& features = record.schema.features;
  const auto find = [&](absl::string_view name) {
    return std::find_if(features.begin(), features.end(),
                        [&](const auto& f) { return f.name == name; });
  };
  if (columns.empty() && !record.image.empty()) {
    columns = {record.image};
    if (find("class") != features.end()) columns.push_back("class");
  }
  if (!columns.empty()) {
    std::vector<record::ExampleFeature> chosen;
    for (const std::string& name : columns) {
      const auto at = find(name);
      if (at == features.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("no feature '", name, "'; the records have: ", record.schema.ToString()));
      }
      chosen.push_back(*at);
    }
    features = std::move(chosen);
  }
  if (find(record.image) == features.end()) record.image.clear();
  for (const record::ExampleFeature& feature : features) {
    if (feature.variable_length) record.ragged.push_back(feature.name);
  }
  return absl::OkStatus();
}

absl::StatusOr<RecordInfo> InspectRecords(io::FileSystem& fs, const PipelineOptions& options,
                                          const std::string& file) {
  PENSTOCK_ASSIGN_OR_RETURN(auto reader, record::TfRecordReader::Open(fs, file));
  PENSTOCK_ASSIGN_OR_RETURN(const record::RecordBlock block, reader->ReadBlock());
  if (block.empty()) return absl::InvalidArgumentError(absl::StrCat(file, " contains no records"));
  const auto here = [&](const absl::Status& status) {
    return base::WithContext(status, block.Origin(0));
  };
  const absl::StatusOr<record::FeatureMap> features = record::ReadExample(block.records[0]);
  if (!features.ok()) return here(features.status());
  RecordInfo record;
  record.compressed = reader->compression() != record::Compression::kNone;
  record.bytes_each = static_cast<double>(block.next_offset - block.first_offset) /
                      static_cast<double>(block.size());
  absl::StatusOr<record::ExampleSchema> schema = record::InferSchema(block.records);
  if (!schema.ok()) return base::WithContext(schema.status(), file);
  record.schema = *std::move(schema);
  if (const absl::Status found = FindImage(*features, options.image_feature, record); !found.ok())
    return here(found);
  if (const absl::Status chosen = ChooseColumns(options.columns, record); !chosen.ok())
    return here(chosen);
  return record;
}

absl::StatusOr<image::ImageInfo> InspectImage(io::FileSystem& fs, const std::string& file) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes, io::ReadFile(fs, file));
  const auto info = image::ReadInfo(bytes);
  return info.ok() ? info : base::WithContext(info.status(), file);
}

// Returns the info of the first image, or, if unreadable images are skipped, of the first readable
// one.
absl::StatusOr<image::ImageInfo> InspectFirstImage(io::FileSystem& fs,
                                                   const std::vector<std::string>& files,
                                                   bool skip_unreadable) {
  constexpr size_t kMaxImages = 100;
  absl::StatusOr<image::ImageInfo> first = InspectImage(fs, files[0]);
  for (size_t i = 1; !first.ok() && skip_unreadable && i < std::min(files.size(), kMaxImages);
       ++i) {
    auto info = InspectImage(fs, files[i]);
    // An unavailable store does not make an image unreadable.
    if (info.ok() || absl::IsUnavailable(info.status())) return info;
  }
  return first;
}

// Builds the rungs of a pipeline.
class Builder {
 public:
  Builder(io::FileSystem& fs, const PipelineOptions& options) : fs_(fs), options_(options) {}

  absl::StatusOr<Pipeline> Build() {
    PENSTOCK_ASSIGN_OR_RETURN(pipeline_.data, FindDataFiles(fs_, options_.data, options_.format));
    pipeline_.noun = RowOf(pipeline_.data.format).noun;
    pipeline_.batch_size = options_.batch_size;
    pipeline_.shuffle = options_.global_shuffle ? 0 : options_.shuffle;
    PENSTOCK_RETURN_IF_ERROR(InspectData());
    switch (pipeline_.data.format) {
      case DataFormat::kShards:
        AddShards();
        break;
      case DataFormat::kImages:
        AddImages();
        break;
      case DataFormat::kNumpy:
        PENSTOCK_RETURN_IF_ERROR(AddNumpy());
        break;
      case DataFormat::kCsv:
        AddCsv();
        break;
      case DataFormat::kText:
        AddText();
        break;
    }
    for (const Rung& rung : pipeline_.rungs) PENSTOCK_RETURN_IF_ERROR(rung.endless.status());
    return std::move(pipeline_);
  }

 private:
  absl::Status InspectData() {
    const DataFiles& data = pipeline_.data;
    std::optional<image::ImageInfo> info;
    if (options_.global_shuffle && data.format != DataFormat::kShards)
      return absl::InvalidArgumentError("a global shuffle requires shards; turn it off");
    if (data.format == DataFormat::kImages) {
      PENSTOCK_ASSIGN_OR_RETURN(info, InspectFirstImage(fs_, data.files, options_.skip_unreadable));
      pipeline_.bytes_per_element =
          static_cast<double>(data.bytes) / static_cast<double>(data.files.size());
    } else if (data.format == DataFormat::kShards) {
      PENSTOCK_ASSIGN_OR_RETURN(record_info_, InspectRecords(fs_, options_, data.files[0]));
      if (!record_info_.image.empty()) info = record_info_.info;
      pipeline_.bytes_per_element = record_info_.bytes_each;
      pipeline_.compressed = record_info_.compressed;
    }
    if (!info) return absl::OkStatus();
    pipeline_.image_feature = record_info_.image;
    pipeline_.stored = pipeline_.decoded = info->size();
    if (options_.image_size != image::Size()) pipeline_.decoded = options_.image_size;
    channels_ = options_.channels > 0 ? options_.channels : info->channels <= 2 ? 1 : 3;
    PENSTOCK_RETURN_IF_ERROR(CheckBatchFits(options_.batch_size, pipeline_.decoded, channels_));
    pipeline_.noun = "images";
    return absl::OkStatus();
  }

  // Adds a rung: `source`, shuffled if `shuffled`, followed by the stages of `rest`.
  template <typename Source, typename Rest>
  void Add(const char* name, const Source& source, const Rest& rest, bool shuffled) {
    const auto make = [&](bool endless) {
      Dataset dataset = source(shuffled);
      if (shuffled && pipeline_.shuffle > 0) dataset = dataset.Shuffle(pipeline_.shuffle);
      if (endless) dataset = dataset.Repeat();
      dataset = rest(std::move(dataset));
      return shuffled && options_.prefetch > 0 ? dataset.Prefetch(options_.prefetch) : dataset;
    };
    pipeline_.rungs.push_back({name, make(false), make(true)});
  }

  bool ShuffleFiles(bool shuffled) const { return shuffled && pipeline_.shuffle > 0; }

  Dataset Batch(const Dataset& rows) const {
    return rows.Batch(options_.batch_size, {.ragged = record_info_.ragged});
  }

  Dataset Decode(const Dataset& rows, const std::string& column) const {
    data::DecodeImageOptions decode{.column = column,
                                    .channels = channels_,
                                    .height = pipeline_.decoded.height,
                                    .width = pipeline_.decoded.width};
    if (options_.augment) decode.random_crop = image::RandomResizedCrop{};
    decode.random_flip = options_.augment;
    Dataset decoded = rows.DecodeImage(std::move(decode));
    return options_.skip_unreadable ? decoded.IgnoreErrors() : decoded;
  }

  void AddShards() {
    data::TfRecordOptions read;
    if (options_.parallel_files > 0) read.parallel_files = options_.parallel_files;
    pipeline_.parallel_files =
        read.parallel_files > 0 ? read.parallel_files : data::kDefaultFileCycleLength;
    const auto source = [&](bool shuffled) {
      data::TfRecordOptions of = read;
      of.shuffle_files = ShuffleFiles(shuffled);
      of.global_shuffle = shuffled && options_.global_shuffle;
      return Dataset::FromTfRecords(pipeline_.data.files, of);
    };
    const auto parse = [&](const Dataset& rows) { return rows.ParseExample(record_info_.schema); };
    const auto decode = [&](const Dataset& rows) {
      return record_info_.image.empty() ? parse(rows) : Decode(parse(rows), record_info_.image);
    };
    Add(
        "read and parse", source, [&](const Dataset& d) { return Batch(parse(d)); }, false);
    if (!record_info_.image.empty())
      Add(
          "and decode", source, [&](const Dataset& d) { return Batch(decode(d)); }, false);
    Add(
        "whole pipeline", source, [&](const Dataset& d) { return Batch(decode(d)); }, true);
  }

  void AddImages() {
    // Defaults of FromFiles, so that MeasureStorage reads as many files in parallel.
    data::FileOptions read = {.parallel_files = pipeline_.data.remote ? 64 : 16};
    if (options_.parallel_files > 0) read.parallel_files = options_.parallel_files;
    pipeline_.parallel_files = read.parallel_files;
    const auto source = [&](bool shuffled) {
      data::FileOptions of = read;
      of.shuffle_files = ShuffleFiles(shuffled);
      return Dataset::FromFiles(pipeline_.data.files, of);
    };
    const auto decode = [&](const Dataset& d) { return Batch(Decode(d, "bytes")); };
    Add(
        "read", source, [&](const Dataset& d) { return Batch(d); }, false);
    Add("and decode", source, decode, false);
    Add("whole pipeline", source, decode, true);
  }

  absl::Status AddNumpy() {
    if (pipeline_.data.files.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("found ", pipeline_.data.files.size(), " files of arrays (",
                       io::DisplayName(pipeline_.data.files[0]), ", ...); pass a single file"));
    }
    pipeline_.parallel_files = 1;
    // Created once, so that arrays that cannot be memory-mapped are loaded once.
    const Dataset arrays = Dataset::FromNpy(pipeline_.data.files[0]);
    PENSTOCK_RETURN_IF_ERROR(arrays.status());
    const auto source = [&](bool) { return arrays; };
    Add(
        "read", source, [&](const Dataset& d) { return Batch(d); }, false);
    Add(
        "whole pipeline", source, [&](const Dataset& d) { return Batch(d); }, true);
    return absl::OkStatus();
  }

  data::TextOptions TextOptions(bool shuffled) {
    data::TextOptions read;
    if (options_.parallel_files > 0) read.parallel_files = options_.parallel_files;
    read.shuffle_files = ShuffleFiles(shuffled);
    pipeline_.parallel_files =
        read.parallel_files > 0 ? read.parallel_files : data::kDefaultFileCycleLength;
    return read;
  }

  void AddText() {
    const auto source = [&](bool shuffled) {
      return Dataset::FromText(pipeline_.data.files, TextOptions(shuffled));
    };
    Add(
        "read", source, [&](const Dataset& d) { return Batch(d); }, false);
    Add(
        "whole pipeline", source, [&](const Dataset& d) { return Batch(d); }, true);
  }

  void AddCsv() {
    const auto lines = [&](bool) {
      return Dataset::FromText(pipeline_.data.files, TextOptions(false));
    };
    const auto source = [&](bool shuffled) {
      data::CsvOptions read;
      if (options_.parallel_files > 0) read.parallel_files = options_.parallel_files;
      read.shuffle_files = ShuffleFiles(shuffled);
      return Dataset::FromCsv(pipeline_.data.files, std::move(read));
    };
    Add(
        "read", lines, [&](const Dataset& d) { return Batch(d); }, false);
    Add(
        "and parse", source, [&](const Dataset& d) { return Batch(d); }, false);
    Add(
        "whole pipeline", source, [&](const Dataset& d) { return Batch(d); }, true);
  }

  io::FileSystem& fs_;
  const PipelineOptions& options_;
  Pipeline pipeline_;
  RecordInfo record_info_;
  int channels_ = 3;
};

}  // namespace

absl::Status CheckBatchFits(int64_t batch_size, image::Size size, int channels) {
  const double bytes =
      static_cast<double>(batch_size) * size.height * size.width * static_cast<double>(channels);
  const base::MemoryHeadroom available = base::AvailableMemory();
  if (bytes <= static_cast<double>(available.bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("a batch of %d images of %d x %d x %d bytes is %.1f GB, but %s has only %s "
                      "free; use a smaller batch or smaller images",
                      batch_size, size.height, size.width, channels, bytes / 1e9,
                      available.limited_by, base::PrintBytes(available.bytes)));
}

absl::StatusOr<Pipeline> MakePipeline(io::FileSystem& fs, const PipelineOptions& options) {
  return Builder(fs, options).Build();
}

}  // namespace penstock::diagnose
