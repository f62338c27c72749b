// The kinds of input that pack.h converts, each as a RecordSource. Internal to room pack; what the
// inputs are, and their options, stands in pack.h.
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

// Each file is read once.
std::unique_ptr<RecordSource> ImageFiles(io::FileSystem& fs, ImageList list,
                                         RecompressOptions recompress);

// Arrays in memory; `origin` names them in messages.
absl::StatusOr<std::unique_ptr<RecordSource>> ArrayImages(const std::string& origin,
                                                          const ImageArraysOptions& input);

// The file is held in memory.
absl::StatusOr<std::unique_ptr<RecordSource>> NpzImages(io::FileSystem& fs,
                                                        const NpzOptions& input);

absl::StatusOr<std::unique_ptr<RecordSource>> TableRows(const base::NamedArrays& columns);

// CIFAR's binary files (cs.toronto.edu/~kriz/cifar.html): records of one label byte (CIFAR-10) or
// two, coarse and fine (CIFAR-100: the fine one counts), and 32x32 bytes of red, of green and of
// blue. "train" is data_batch_*.bin or train.bin, "test" test_batch.bin or test.bin. The names of
// the classes come from batches.meta.txt or fine_label_names.txt, or are numbers. Held in memory.
absl::StatusOr<std::unique_ptr<RecordSource>> CifarImages(io::FileSystem& fs,
                                                          const std::string& folder,
                                                          const std::string& split,
                                                          const RecompressOptions& recompress);

// The records of shards, as they are or, with options of `recompress`, with another image in the
// feature of that name. Labels come from the classes.txt beside the first shard. Shards of a
// conversion that is not finished are refused.
absl::StatusOr<std::unique_ptr<RecordSource>> ShardRecords(io::FileSystem& fs,
                                                           const std::vector<std::string>& shards,
                                                           const std::string& image_feature,
                                                           const RecompressOptions& recompress);

// DATASET-SPLIT.tfrecord-00000-of-00001 ..., with features.json, and LABEL.labels.txt for the names
// of the classes, which are numbers without it.
absl::StatusOr<std::unique_ptr<RecordSource>> TfdsImages(io::FileSystem& fs,
                                                         const TfdsOptions& input);

}  // namespace penstock::pack
