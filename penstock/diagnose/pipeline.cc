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
#include "penstock/record/example.h"
#include "penstock/record/example_parser.h"
#include "penstock/record/tfrecord.h"

namespace penstock::diagnose {
namespace {

using base::DType;
using data::Dataset;

// What an element of shards holds.
struct RecordFacts {
  record::ExampleSchema schema;
  std::string image;                // the feature; "" when there is none
  image::ImageInfo info;            // of the first one
  std::vector<std::string> ragged;  // features whose lengths differ
  double bytes_each = 0;            // of the first records, with what frames them
  bool compressed = false;
};

bool HoldsAnImage(const base::Array& values, image::ImageInfo* info) {
  if (!values.valid() || values.dtype() != DType::kString || values.num_elements() != 1)
    return false;
  const auto read = image::ReadInfo(values.data<absl::string_view>()[0]);
  if (read.ok()) *info = *read;
  return read.ok();
}

absl::Status FindImage(const record::FeatureMap& features, const std::string& wanted,
                       RecordFacts& facts) {
  if (!wanted.empty()) {
    const auto at = features.find(wanted);
    if (at == features.end() || !HoldsAnImage(at->second, &facts.info)) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", wanted, "' (--image-feature) is not an image"));
    }
    facts.image = wanted;
    return absl::OkStatus();
  }
  for (const auto& [name, values] : features) {
    image::ImageInfo info;
    if ((name != "image" && !facts.image.empty()) || !HoldsAnImage(values, &info)) continue;
    facts.image = name;
    facts.info = info;
  }
  return absl::OkStatus();
}

absl::Status ChooseColumns(std::vector<std::string> columns, RecordFacts& facts) {
  auto& features = facts.schema.features;
  const auto find = [&](absl::string_view name) {
    return std::find_if(features.begin(), features.end(),
                        [&](const auto& f) { return f.name == name; });
  };
  if (columns.empty() && !facts.image.empty()) {
    columns = {facts.image};
    if (find("class") != features.end()) columns.push_back("class");
  }
  if (!columns.empty()) {
    std::vector<record::ExampleFeature> chosen;
    for (const std::string& name : columns) {
      const auto at = find(name);
      if (at == features.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "there is no feature '", name, "'; the records have: ", facts.schema.ToString()));
      }
      chosen.push_back(*at);
    }
    features = std::move(chosen);
  }
  if (find(facts.image) == features.end()) facts.image.clear();
  for (const record::ExampleFeature& feature : features) {
    if (feature.variable_length) facts.ragged.push_back(feature.name);
  }
  return absl::OkStatus();
}

absl::StatusOr<RecordFacts> LookAtRecords(io::FileSystem& fs, const PipelineOptions& options,
                                          const std::string& file) {
  PENSTOCK_ASSIGN_OR_RETURN(auto reader, record::TfRecordReader::Open(fs, file));
  PENSTOCK_ASSIGN_OR_RETURN(const record::RecordBlock block, reader->ReadBlock());
  if (block.empty()) return absl::InvalidArgumentError(absl::StrCat(file, " holds no records"));
  const auto here = [&](const absl::Status& status) {
    return base::WithContext(status, block.Origin(0));
  };
  const absl::StatusOr<record::FeatureMap> features = record::ReadExample(block.records[0]);
  if (!features.ok()) return here(features.status());
  RecordFacts facts;
  facts.compressed = reader->compression() != record::Compression::kNone;
  facts.bytes_each = static_cast<double>(block.next_offset - block.first_offset) /
                     static_cast<double>(block.size());
  absl::StatusOr<record::ExampleSchema> schema = record::InferSchema(block.records);
  if (!schema.ok()) return base::WithContext(schema.status(), file);
  facts.schema = *std::move(schema);
  if (const absl::Status found = FindImage(*features, options.image_feature, facts); !found.ok())
    return here(found);
  if (const absl::Status chosen = ChooseColumns(options.columns, facts); !chosen.ok())
    return here(chosen);
  return facts;
}

absl::StatusOr<image::ImageInfo> LookAtImage(io::FileSystem& fs, const std::string& file) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes, io::ReadFile(fs, file));
  const auto info = image::ReadInfo(bytes);
  return info.ok() ? info : base::WithContext(info.status(), file);
}

// Of the first image, or, where unreadable ones are left out, of the first that can be read.
absl::StatusOr<image::ImageInfo> LookAtImages(io::FileSystem& fs,
                                              const std::vector<std::string>& files,
                                              bool skip_unreadable) {
  constexpr size_t kMost = 100;
  absl::StatusOr<image::ImageInfo> first = LookAtImage(fs, files[0]);
  for (size_t i = 1; !first.ok() && skip_unreadable && i < std::min(files.size(), kMost); ++i) {
    auto info = LookAtImage(fs, files[i]);
    // A store that does not answer does not make the image unreadable.
    if (info.ok() || absl::IsUnavailable(info.status())) return info;
  }
  return first;
}

// What is common to the rungs of one pipeline.
class Builder {
 public:
  Builder(io::FileSystem& fs, const PipelineOptions& options) : fs_(fs), options_(options) {}

  absl::StatusOr<Pipeline> Build() {
    PENSTOCK_ASSIGN_OR_RETURN(pipeline_.data, FindDataFiles(fs_, options_.data, options_.format));
    pipeline_.noun = RowOf(pipeline_.data.format).noun;
    pipeline_.batch_size = options_.batch_size;
    pipeline_.shuffle = options_.global_shuffle ? 0 : options_.shuffle;
    PENSTOCK_RETURN_IF_ERROR(Look());
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
  absl::Status Look() {
    const DataFiles& data = pipeline_.data;
    std::optional<image::ImageInfo> info;
    if (options_.global_shuffle && data.format != DataFormat::kShards)
      return absl::InvalidArgumentError("--global-shuffle is for shards; leave it out");
    if (data.format == DataFormat::kImages) {
      PENSTOCK_ASSIGN_OR_RETURN(info, LookAtImages(fs_, data.files, options_.skip_unreadable));
      pipeline_.bytes_per_element =
          static_cast<double>(data.bytes) / static_cast<double>(data.files.size());
    } else if (data.format == DataFormat::kShards) {
      PENSTOCK_ASSIGN_OR_RETURN(facts_, LookAtRecords(fs_, options_, data.files[0]));
      if (!facts_.image.empty()) info = facts_.info;
      pipeline_.bytes_per_element = facts_.bytes_each;
      pipeline_.compressed = facts_.compressed;
    }
    if (!info) return absl::OkStatus();
    pipeline_.image_feature = facts_.image;
    pipeline_.stored = pipeline_.given = info->size();
    if (options_.image_size != image::Size()) pipeline_.given = options_.image_size;
    channels_ = options_.channels > 0 ? options_.channels : info->channels <= 2 ? 1 : 3;
    PENSTOCK_RETURN_IF_ERROR(CheckBatchFits(options_.batch_size, pipeline_.given, channels_));
    pipeline_.noun = "images";
    return absl::OkStatus();
  }

  // `rest` makes a dataset of a source that is shuffled and repeated, or not.
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
    return rows.Batch(options_.batch_size, {.ragged = facts_.ragged});
  }

  Dataset Decode(const Dataset& rows, const std::string& column) const {
    data::DecodeImageOptions decode{.column = column,
                                    .channels = channels_,
                                    .height = pipeline_.given.height,
                                    .width = pipeline_.given.width};
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
    const auto parse = [&](const Dataset& rows) { return rows.ParseExample(facts_.schema); };
    const auto decode = [&](const Dataset& rows) {
      return facts_.image.empty() ? parse(rows) : Decode(parse(rows), facts_.image);
    };
    Add(
        "read and parse", source, [&](const Dataset& d) { return Batch(parse(d)); }, false);
    if (!facts_.image.empty())
      Add(
          "and decode", source, [&](const Dataset& d) { return Batch(decode(d)); }, false);
    Add(
        "whole pipeline", source, [&](const Dataset& d) { return Batch(decode(d)); }, true);
  }

  void AddImages() {
    // As FromFiles does by itself, so that the storage is measured with as many.
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
      return absl::InvalidArgumentError(absl::StrCat("there are ", pipeline_.data.files.size(),
                                                     " files of arrays (", pipeline_.data.files[0],
                                                     ", ...); give one of them"));
    }
    pipeline_.parallel_files = 1;
    // Described once: arrays that cannot be mapped are then loaded once.
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
  RecordFacts facts_;
  int channels_ = 3;
};

}  // namespace

absl::Status CheckBatchFits(int64_t batch_size, image::Size size, int channels) {
  const double bytes =
      static_cast<double>(batch_size) * size.height * size.width * static_cast<double>(channels);
  const base::MemoryHeadroom room = base::AvailableMemory();
  if (bytes <= static_cast<double>(room.bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("a batch of %d images of %d x %d x %d bytes is %.1f GB, but %s has only %s "
                      "free; use a smaller batch or smaller images",
                      batch_size, size.height, size.width, channels, bytes / 1e9, room.limited_by,
                      base::PrintBytes(room.bytes)));
}

absl::StatusOr<Pipeline> MakePipeline(io::FileSystem& fs, const PipelineOptions& options) {
  return Builder(fs, options).Build();
}

}  // namespace penstock::diagnose
