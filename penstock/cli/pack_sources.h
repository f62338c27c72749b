// What `penstock pack` and `penstock reshard` convert: image files, shards, and the formats data
// sets are handed around in.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/cli/image_list.h"
#include "penstock/cli/recompress.h"
#include "penstock/cli/record_source.h"
#include "penstock/io/file_system.h"

namespace penstock::cli {

// Each file is read once. `fs` must outlive the source.
std::unique_ptr<RecordSource> ImageFiles(io::FileSystem& fs, ImageList list,
                                         RecompressOptions recompress);

struct NpzOptions {
  std::string images = "x";               // uint8 [n, height, width] or [n, height, width, 1 or 3]
  std::string labels = "y";               // whole numbers or text, [n] or [n, 1]
  std::vector<std::string> classes = {};  // names of labels 0, 1, ..., or the order of text labels
};
// Arrays of a .npz file, which is held in memory. Images become PNG, which loses nothing, unless a
// quality asks for JPEG.
absl::StatusOr<std::unique_ptr<RecordSource>> NpzImages(io::FileSystem& fs, const std::string& file,
                                                        const NpzOptions& options,
                                                        const RecompressOptions& recompress);

// A folder of CIFAR's binary files (cs.toronto.edu/~kriz/cifar.html): records of one label byte
// (CIFAR-10) or two, coarse and fine (CIFAR-100: the fine one counts), and 32x32 bytes of red, of
// green and of blue. `split` is "train" (data_batch_*.bin, or train.bin) or "test" (test_batch.bin,
// or test.bin). The names of the classes come from batches.meta.txt or fine_label_names.txt, or are
// numbers. Held in memory; PNG as for NpzImages.
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

struct TfdsOptions {
  std::string split = {};          // "" when there is only one
  std::string image_feature = {};  // "" when there is only one Image
  std::string label_feature = {};  // "" when there is only one ClassLabel
};
// A folder that TensorFlow Datasets prepared: DATASET-SPLIT.tfrecord-00000-of-00001 ..., with
// features.json, and LABEL.labels.txt for the names of the classes, which are numbers without it.
// Features other than the image and the label are left out; `penstock reshard` keeps them.
absl::StatusOr<std::unique_ptr<RecordSource>> TfdsImages(io::FileSystem& fs,
                                                         const std::string& folder,
                                                         const TfdsOptions& options,
                                                         const RecompressOptions& recompress);

}  // namespace penstock::cli
