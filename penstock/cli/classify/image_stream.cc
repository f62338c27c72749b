#include "penstock/cli/classify/image_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "penstock/base/status.h"
#include "penstock/cli/classify/classifier.h"
#include "penstock/data/dataset.h"
#include "penstock/io/file_system.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"
#include "penstock/pack/read_input.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock::cli {
namespace {

using base::Array;
using base::DType;
using base::NamedArrays;

constexpr size_t kMostSkippedListed = 1000;

// A pattern that matches only the path itself. The options of a URI begin with '?'.
std::string Literal(const std::string& uri) {
  const std::string path = absl::StrReplaceAll(uri, {{"*", "[*]"}, {"[", "[[]"}});
  return pack::IsRemote(uri) ? path : absl::StrReplaceAll(path, {{"?", "[?]"}});
}

// Adds a pattern for each kind of image in the folder.
absl::Status AddImageFolder(io::FileSystem& fs, const std::string& folder,
                            std::vector<std::string>& patterns) {
  struct Kind {
    const char* extension;
    const char* pattern;
    bool found = false;
  };
  Kind kinds[] = {
      {".jpg", "*.[jJ][pP][gG]"}, {".jpeg", "*.[jJ][pP][eE][gG]"}, {".png", "*.[pP][nN][gG]"}};
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, fs.ListRecursive(folder));
  for (const io::FileInfo& file : files) {
    if (io::IsHiddenBelow(folder, file.uri)) continue;
    for (Kind& kind : kinds) {
      kind.found = kind.found || absl::EndsWithIgnoreCase(io::Basename(file.uri), kind.extension);
    }
  }
  bool any = false;
  for (const Kind& kind : kinds) {
    if (!kind.found) continue;
    any = true;
    patterns.push_back(io::JoinPath(io::JoinPath(Literal(folder), "**"), kind.pattern));
  }
  if (any) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no images found in ", io::DisplayName(folder),
                                          "; expected .jpg, .jpeg or .png files"));
}

// Patterns of the image files; folders are replaced by patterns of their images.
absl::StatusOr<std::vector<std::string>> ImagePatterns(const std::vector<std::string>& given) {
  io::FileSystem& fs = *io::FileSystem::Default();
  std::vector<std::string> patterns;
  for (const std::string& uri : given) {
    // A folder's name may contain wildcards' characters: "photos [2026]".
    const absl::StatusOr<io::FileInfo> info = fs.Stat(uri);
    if (info.ok() && info->is_directory) {
      PENSTOCK_RETURN_IF_ERROR(AddImageFolder(fs, uri, patterns));
    } else {
      patterns.push_back(uri);
    }
  }
  return patterns;
}

// The features of the records that are read besides the image.
struct RecordFeatures {
  bool has_class = false;
  DType id = DType::kInvalid;  // kString, kI64, or kInvalid: no feature `id`
};

absl::StatusOr<RecordFeatures> ReadRecordFeatures(const std::vector<std::string>& patterns) {
  PENSTOCK_RETURN_IF_ERROR(CheckShardsHaveRecords(patterns));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files, FindShards(patterns));
  for (const std::string& file : files) {
    PENSTOCK_ASSIGN_OR_RETURN(auto reader,
                              record::TfRecordReader::Open(*io::FileSystem::Default(), file));
    PENSTOCK_ASSIGN_OR_RETURN(const record::RecordBlock block, reader->ReadBlock());
    if (block.records.empty()) continue;
    const absl::StatusOr<record::FeatureMap> features = record::ReadExample(block.records[0]);
    if (!features.ok()) return base::WithContext(features.status(), block.Origin(0));
    const auto one_value = [&](const char* name) {
      const auto found = features->find(name);
      const bool one = found != features->end() && found->second.num_elements() == 1;
      return one ? found->second.dtype() : DType::kInvalid;
    };
    const DType id = one_value("id");
    return RecordFeatures{.has_class = one_value("class") == DType::kI64,
                          .id = id == DType::kString || id == DType::kI64 ? id : DType::kInvalid};
  }
  return RecordFeatures();
}

// Dataset with the encoded image in column `image`.
absl::StatusOr<data::Dataset> EncodedFromFiles(const ImageStreamOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> patterns, ImagePatterns(options.images));
  return data::Dataset::FromFiles(patterns).Map(
      [](const NamedArrays& in, NamedArrays* out) {
        out->Set("image", *in.Find("bytes"));
        return absl::OkStatus();
      },
      {.name = "rename",
       .reads = {"bytes"},
       .makes = {{"image", DType::kString, {}}},
       .drops = {"bytes"}});
}

absl::StatusOr<data::Dataset> EncodedFromShards(const ImageStreamOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const RecordFeatures features, ReadRecordFeatures(options.shards));
  if (options.require_class && !features.has_class) {
    return absl::InvalidArgumentError(
        "the records have no feature 'class' with one integer, the number of the image's class");
  }
  record::ExampleSchema schema{.features = {{.name = "image", .dtype = DType::kString}}};
  if (features.has_class) schema.features.push_back({.name = "class", .dtype = DType::kI64});
  if (features.id != DType::kInvalid) {
    schema.features.push_back({.name = "id", .dtype = features.id});
  }
  return data::Dataset::FromTfRecords(options.shards, {.parallel_files = 1})
      .Enumerate()
      .ParseExample(std::move(schema));
}

// Decodes the image to each of the shapes.
data::Dataset Decoded(data::Dataset dataset, const std::vector<ImageShape>& shapes) {
  if (shapes.size() > 1) {
    data::ElementSpec copies;
    for (size_t i = 1; i < shapes.size(); ++i) copies.Set({ImageColumn(i), DType::kString, {}});
    dataset = dataset.Map(
        [count = shapes.size()](const NamedArrays& in, NamedArrays* out) {
          for (size_t i = 1; i < count; ++i) out->Set(ImageColumn(i), *in.Find("image"));
          return absl::OkStatus();
        },
        {.name = "copies", .reads = {"image"}, .makes = std::move(copies)});
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    dataset = dataset.DecodeImage({.column = ImageColumn(i),
                                   .channels = shapes[i].channels,
                                   .height = shapes[i].height,
                                   .width = shapes[i].width});
  }
  return dataset;
}

std::vector<std::string> Texts(const Array& values) {
  std::vector<std::string> texts;
  if (values.dtype() == DType::kI64) {
    for (const int64_t value : values.values<int64_t>()) texts.push_back(absl::StrCat(value));
  } else {
    for (const absl::string_view value : values.values<absl::string_view>()) {
      texts.emplace_back(value);
    }
  }
  return texts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageStream>> ImageStream::Open(const ImageStreamOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(data::Dataset dataset, options.shards.empty()
                                                       ? EncodedFromFiles(options)
                                                       : EncodedFromShards(options));
  if (options.count.has_value()) dataset = dataset.Take(*options.count);
  dataset = Decoded(dataset, options.shapes);
  if (options.skip_corrupt) dataset = dataset.IgnoreErrors();
  auto stream = std::unique_ptr<ImageStream>(new ImageStream());
  stream->skipped_ = std::make_shared<std::vector<data::SkippedElement>>();
  const auto on_skipped = [skipped = stream->skipped_](const data::SkippedElement& element) {
    if (skipped->size() < kMostSkippedListed) skipped->push_back(element);
    return absl::OkStatus();
  };
  PENSTOCK_ASSIGN_OR_RETURN(
      stream->iterator_,
      dataset.Batch(options.batch_size).Prefetch(2).MakeIterator({.on_skipped = on_skipped}));
  return stream;
}

absl::StatusOr<bool> ImageStream::Next(ImageBatch* batch) {
  *batch = ImageBatch();
  PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator_->Next(&batch->columns));
  if (!more) return false;
  if (const Array* paths = batch->columns.Find("path"); paths != nullptr) {
    for (const std::string& path : Texts(*paths)) {
      batch->names.push_back(io::DisplayName(path));
    }
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(const Array numbers, batch->columns.Get("index"));
    const Array* ids = batch->columns.Find("id");
    batch->record_ids = Texts(ids != nullptr ? *ids : numbers);
    for (const std::string& number : Texts(numbers)) {
      batch->names.push_back(absl::StrCat("record ", number));
    }
  }
  if (const Array* labels = batch->columns.Find("class"); labels != nullptr) {
    const auto values = labels->values<int64_t>();
    batch->labels.assign(values.begin(), values.end());
  }
  return true;
}

}  // namespace penstock::cli
