// Room pack: converts images, tables and arrays to folders of TFRecord shards, which
// Dataset::FromTfRecords reads. It may use base, io, formats, record, image. The commands
// `penstock pack` and `penstock reshard` call these functions; docs/design/pack.md lists the
// guarantees that they share.
//
//   PENSTOCK_ASSIGN_OR_RETURN(
//       const pack::Packed train,
//       pack::ImageFolder({.images = {"photos/train"},
//                          .recompress = {.size = {256, 256}, .quality = 90}},
//                         {.out = "shards/train", .on_progress = [](const pack::Progress& p) {
//                            Show(p.done, p.total);
//                          }}));
//   std::cout << train.records << " images of " << train.classes.size() << " classes in "
//             << train.shards.size() << " shards, " << train.unreadable.size() << " unreadable\n";
//   auto dataset = data::Dataset::FromTfRecords(train.shards).ParseExample();
//
//   pack.h            one function for each kind of input
//   pack_options.h    output folder, number of shards, progress callbacks
//   record_source.h   interface for user-defined inputs
//   sources/          one .cc for each kind of input
//
// Guarantees of all functions: the same inputs, options and seed give the same bytes, whatever the
// number of threads. A function that was stopped and is called again with the same arguments
// resumes after the last published shard; if all shards exist, it verifies them and returns. An
// unreadable input (a corrupt image) is skipped and listed in the result. A failure of a disk, a
// network or a service stops the function instead.
//
// Errors, besides those of storage (io/file_system.h):
//   InvalidArgument     invalid options; labels that contradict the images
//   NotFound            no inputs
//   FailedPrecondition  `out` holds shards made from other inputs or options (the message lists the
//                       differences); another conversion is writing to `out`; the input shards of
//                       Reshard are incomplete
//   AlreadyExists       `out` holds shards, classes.txt or unreadable.csv of unknown origin
//   Aborted             another process started writing to `out` during the call
//   DataLoss            the plan beside the shards, or an archive or index of the input, is corrupt
//
// Thread safety: the functions may be called concurrently for different `out`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/pack/pack_options.h"
#include "penstock/pack/recompress.h"
#include "penstock/pack/record_source.h"
#include "penstock/pack/shard_plan.h"

namespace penstock::pack {

// Result of a conversion.
struct Packed {
  std::vector<std::string> shards = {};   // URIs, in order
  int64_t inputs = 0;                     // number of inputs, including unreadable ones
  int64_t records = 0;                    // number of records in all shards
  std::vector<std::string> classes = {};  // label of each class index; empty if unknown
  std::vector<UnreadableInput> unreadable = {};
  std::string unreadable_report = {};  // URI of the CSV file that lists `unreadable`; "" if empty
  const char* noun = "images";         // plural noun for the inputs, for messages
};

// Converts image files.
//
// `images`: folders (FOLDER/LABEL/anything.jpg) and patterns ('photos/**/*.jpg': the label is the
// name of the image's folder) of .jpg, .jpeg and .png files; names that begin with '.' are ignored.
// `labels`: a CSV file (path,label) or JSON file ({"path": "label"}) that overrides the labels; if
// `images` is empty, all images that the file lists are converted. `classes`: the label of each
// class index; default: the labels found, sorted.
//
// Records hold the features image, class, label, one_hot_class and size (docs/design/pack.md).
struct ImageFolderOptions {
  std::vector<std::string> images = {};
  std::string labels = {};
  std::vector<std::string> classes = {};
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> ImageFolder(const ImageFolderOptions& input, const PackOptions& options);

// Converts images and labels in memory: `images` is uint8 [n, height, width] or [n, height, width,
// 1 or 3], `labels` holds integers or strings, [n] or [n, 1]. Images are encoded as PNG (lossless),
// or as JPEG if `recompress.quality` is set. Records have ImageFolder's features.
struct ImageArraysOptions {
  base::Array images = {};
  base::Array labels = {};
  std::vector<std::string> classes = {};
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> ImageArrays(const ImageArraysOptions& input, const PackOptions& options);

// Converts images and labels stored as two arrays of a .npz file, like ImageArrays.
struct NpzOptions {
  std::string file = {};
  std::string images = "x";
  std::string labels = "y";
  std::vector<std::string> classes = {};
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> Npz(const NpzOptions& input, const PackOptions& options);

// Converts a table, given as columns with the same number of rows; each row becomes a record with
// one feature per column. Integers and bools become int64 lists, floats become float lists (float64
// is rounded to float32), strings become bytes lists; dimensions after the first are flattened.
// Holds a converted copy of the columns in memory.
//
//   pack::Table({{"age", ages}, {"income", incomes}, {"city", cities}}, {.out = "shards"})
absl::StatusOr<Packed> Table(const base::NamedArrays& columns, const PackOptions& options);

// Converts a folder with the binary files of CIFAR-10 or CIFAR-100 (fine labels). `split`: "train"
// or "test".
struct CifarOptions {
  std::string folder = {};
  std::string split = "train";
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> Cifar(const CifarOptions& input, const PackOptions& options);

// Converts a folder prepared by TensorFlow Datasets (cifar10/3.0.2). Features other than the image
// and the label are dropped; Reshard keeps them.
struct TfdsOptions {
  std::string folder = {};
  std::string split = {};          // default: the only split
  std::string image_feature = {};  // default: the only Image feature
  std::string label_feature = {};  // default: the only ClassLabel feature
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> TfdsFolder(const TfdsOptions& input, const PackOptions& options);

// Rewrites shards with a different number, size or order, or with images of a different size or
// quality. Records are copied byte for byte unless `recompress` changes the image in
// `image_feature`. `shards`: files, patterns, or folders of *.tfrec files; must not be in `out`.
struct ReshardOptions {
  std::vector<std::string> shards = {};
  std::string image_feature = "image";
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> Reshard(const ReshardOptions& input, const PackOptions& options);

// Converts a user-defined source of records (record_source.h).
absl::StatusOr<Packed> Records(const RecordSource& source, const PackOptions& options);

}  // namespace penstock::pack
