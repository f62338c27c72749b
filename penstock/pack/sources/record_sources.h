// Record sources for the inputs of pack.h, which documents the inputs and their options. Internal
// to room pack.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"
#include "penstock/pack/pack.h"
#include "penstock/pack/recompress.h"
#include "penstock/pack/record_source.h"
#include "penstock/pack/sources/image_list.h"

namespace penstock::pack {

// `fs` must outlive a source that reads files.

// Image files; each is read once.
std::unique_ptr<RecordSource> ImageFiles(io::FileSystem& fs, ImageList list,
                                         RecompressOptions recompress);

// Images in arrays; `origin` names them in messages.
absl::StatusOr<std::unique_ptr<RecordSource>> ArrayImages(const std::string& origin,
                                                          const ImageArraysOptions& input);

// Images in a .npz file, which is held in memory.
absl::StatusOr<std::unique_ptr<RecordSource>> NpzImages(io::FileSystem& fs,
                                                        const NpzOptions& input);

// Rows of a table.
absl::StatusOr<std::unique_ptr<RecordSource>> TableRows(const base::NamedArrays& columns);

// Images in CIFAR's binary files (cs.toronto.edu/~kriz/cifar.html), which are held in memory. A
// record is one label byte (CIFAR-10) or two, coarse and fine (CIFAR-100; the fine label is used),
// and 32x32 bytes each of red, green and blue. Split "train" is data_batch_*.bin or train.bin,
// "test" is test_batch.bin or test.bin. Class names come from batches.meta.txt or
// fine_label_names.txt; without these files they are numbers.
absl::StatusOr<std::unique_ptr<RecordSource>> CifarImages(io::FileSystem& fs,
                                                          const std::string& folder,
                                                          const std::string& split,
                                                          const RecompressOptions& recompress);

// Start of the message for a record without the image feature that `recompress` needs.
inline constexpr char kNoImageFeature[] = "no image in feature ";

// Records of shards: unchanged or, if `recompress` changes images, with a new image in
// `image_feature`. Class names come from the classes.txt files beside the shards. Shards of an
// unfinished conversion are an error.
absl::StatusOr<std::unique_ptr<RecordSource>> ShardRecords(io::FileSystem& fs,
                                                           const std::vector<std::string>& shards,
                                                           const std::string& image_feature,
                                                           const RecompressOptions& recompress);

// Images in a folder of TensorFlow Datasets: files DATASET-SPLIT.tfrecord-00000-of-00001 ... and
// features.json. Class names come from LABEL.labels.txt; without that file they are numbers.
absl::StatusOr<std::unique_ptr<RecordSource>> TfdsImages(io::FileSystem& fs,
                                                         const TfdsOptions& input);

}  // namespace penstock::pack
