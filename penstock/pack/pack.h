// Room pack: images, tables and arrays into folders of TFRecord shards, which
// Dataset::FromTfRecords reads. It may use base, io, formats, record, image. `penstock pack` and
// `penstock reshard` are command lines of these functions; docs/design/pack.md says what holds for all of
// them.
//
//   PENSTOCK_ASSIGN_OR_RETURN(
//       const pack::Packed train,
//       pack::ImageFolder({.images = {"photos/train"},
//                          .recompress = {.size = {256, 256}, .quality = 90}},
//                         {.out = "shards/train",
//                          .on_progress = [](const pack::Progress& p) { Show(p.done, p.total); }}));
//   std::cout << train.records << " images of " << train.classes.size() << " classes in "
//             << train.shards.size() << " shards, " << train.unreadable.size() << " unreadable\n";
//   auto dataset = data::Dataset::FromTfRecords(train.shards).ParseExample();
//
//   pack.h            one function for each kind of input
//   pack_options.h    where the shards go, progress
//   record_source.h   for those who pack another kind of input
//   sources/          the kinds of input, a .cc each
//
// All functions: the same inputs, options and seed give the same bytes, whatever the number of
// threads. Called again with the same arguments after it was stopped, a function resumes after the
// last published shard; when everything is there it checks and returns. An input that cannot be
// read (a corrupt image) is left out and listed in the result; what a disk, a network or a service
// does stops the function instead.
//
// Errors, besides those of storage (io/file_system.h):
//   InvalidArgument     options that cannot work, labels that contradict the images
//   NotFound            no inputs
//   FailedPrecondition  `out` holds shards of other inputs or options, and what differs; another
//                       conversion writes there; the shards to be rewritten are incomplete
//   AlreadyExists       `out` holds shards of unknown origin
//   Aborted             another process began to write there meanwhile
//   DataLoss            the plan beside the shards is corrupt; an archive or an index of the input
//   is
// Messages, and the plan, name an option as the command does: --shard-size is
// PackOptions::shard_bytes, --overwrite PackOptions::overwrite.
//
// Threads: the functions may be called concurrently for different `out`.
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

// What was made.
struct Packed {
  std::vector<std::string> shards = {};   // URIs, in order
  int64_t inputs = 0;                     // those that could not be read included
  int64_t records = 0;                    // in all shards
  std::vector<std::string> classes = {};  // labels in the order of their numbers; may be unknown
  std::vector<UnreadableInput> unreadable = {};
  std::string unreadable_report = {};  // URI of a CSV that lists these; "" if there are none
  const char* noun = "images";         // what an input is, in the plural
};

// Image files.
//
// `images`: folders (FOLDER/LABEL/anything.jpg) and patterns ('photos/**/*.jpg': the label is the
// folder that the image is in) of .jpg, .jpeg and .png files. `labels`: a CSV file (path,label) or
// JSON file ({"path": "label"}) that decides the labels instead; without `images`, all that it
// names. `classes`: the labels in the order of their numbers; empty: those found, sorted.
//
// Records hold the features image, class, label, one_hot_class and size (docs/design/pack.md).
struct ImageFolderOptions {
  std::vector<std::string> images = {};
  std::string labels = {};
  std::vector<std::string> classes = {};
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> ImageFolder(const ImageFolderOptions& input, const PackOptions& options);

// Images and labels in memory: `images` uint8 [n, height, width] or [n, height, width, 1 or 3],
// `labels` whole numbers or strings, [n] or [n, 1]. They become PNG, which loses nothing, unless a
// quality asks for JPEG. Records as of ImageFolder.
struct ImageArraysOptions {
  base::Array images = {};
  base::Array labels = {};
  std::vector<std::string> classes = {};
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> ImageArrays(const ImageArraysOptions& input, const PackOptions& options);

// The same from two arrays of a .npz file.
struct NpzOptions {
  std::string file = {};
  std::string images = "x";
  std::string labels = "y";
  std::vector<std::string> classes = {};
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> Npz(const NpzOptions& input, const PackOptions& options);

// A table: columns of equally many rows, each row a record with a feature for each column. Integers
// and bools become int64 lists, floats lists of float32 (float64 is rounded), strings bytes lists;
// extents beyond the first are flattened. Holds a converted copy of the columns.
//
//   pack::Table({{"age", ages}, {"income", incomes}, {"city", cities}}, {.out = "shards"})
absl::StatusOr<Packed> Table(const base::NamedArrays& columns, const PackOptions& options);

// A folder of the binary files of CIFAR-10 or CIFAR-100 (fine labels). `split`: "train" or "test".
struct CifarOptions {
  std::string folder = {};
  std::string split = "train";
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> Cifar(const CifarOptions& input, const PackOptions& options);

// A folder that TensorFlow Datasets prepared (cifar10/3.0.2). Features other than the image and the
// label are left out; Reshard keeps them.
struct TfdsOptions {
  std::string folder = {};
  std::string split = {};          // "" when there is only one
  std::string image_feature = {};  // "" when there is only one Image
  std::string label_feature = {};  // "" when there is only one ClassLabel
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> TfdsFolder(const TfdsOptions& input, const PackOptions& options);

// Shards again: another number, size or order of shards, another size or quality of images. Records
// pass byte for byte unless `recompress` changes the image in `image_feature`. `shards`: files,
// patterns, or folders of *.tfrec files; not those in `out`.
struct ReshardOptions {
  std::vector<std::string> shards = {};
  std::string image_feature = "image";
  RecompressOptions recompress = {};
};
absl::StatusOr<Packed> Reshard(const ReshardOptions& input, const PackOptions& options);

// Records of your own (record_source.h).
absl::StatusOr<Packed> Records(const RecordSource& source, const PackOptions& options);

}  // namespace penstock::pack
