// ImageStream: the images of files, folders or shards in batches, in a fixed order, decoded to the
// sizes that a classifier takes. Its memory does not depend on the number of images.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto stream,
//                             ImageStream::Open({.images = {"test"},
//                                                .shapes = {{.height = 8, .width = 8}}}));
//   for (ImageBatch batch;;) {
//     PENSTOCK_ASSIGN_OR_RETURN(const bool more, stream->Next(&batch));
//     if (!more) break;
//     ...
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/cli/shared_options.h"
#include "penstock/data/iterator.h"

namespace penstock::cli {

struct ImageStreamOptions {
  // Image files, patterns, or folders, which are searched recursively for .jpg, .jpeg and .png
  // files; the order is that of the list, then of the names, in a folder by extension first.
  std::vector<std::string> images = {};
  // Shards, instead of `images`; read one after the other.
  std::vector<std::string> shards = {};
  std::vector<ImageShape> shapes = {};  // as Classifier::shapes()
  int64_t batch_size = 64;
  std::optional<int64_t> count = {};  // maximum number of images
  // Skips images that cannot be decoded. False: the first one is an error that names it.
  bool skip_corrupt = false;
  bool require_class = false;  // an error if the shards have no feature `class`
};

struct ImageBatch {
  base::NamedArrays columns;  // ImageColumn(i) for each shape
  // Path of each image, without secrets (io::DisplayName), or "record N" for shards, counted from 0
  // over all shards.
  std::vector<std::string> names;
  // Feature `id` of the records if the shards have one (text or an integer); otherwise the record's
  // number. Empty for files.
  std::vector<std::string> record_ids;
  std::vector<int64_t> labels;  // feature `class`; empty if there is none
  int64_t size() const { return static_cast<int64_t>(names.size()); }
};

class ImageStream {
 public:
  // It is an error if there are no images.
  static absl::StatusOr<std::unique_ptr<ImageStream>> Open(const ImageStreamOptions& options);

  // Sets `*batch` to the next images; false at the end.
  absl::StatusOr<bool> Next(ImageBatch* batch);

  // Number of images skipped so far, and the first of them with their errors.
  int64_t num_skipped() const { return iterator_->num_skipped(); }
  const std::vector<data::SkippedElement>& skipped() const { return *skipped_; }

 private:
  ImageStream() = default;

  std::shared_ptr<std::vector<data::SkippedElement>> skipped_;
  std::unique_ptr<data::Iterator> iterator_;
};

}  // namespace penstock::cli
