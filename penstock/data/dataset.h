// Room data: the input pipeline, from files or memory to batches. It may use base, io, record,
// image.
//
//   dataset.h   Dataset: describes a pipeline; this header is the catalogue of stages
//   iterator.h  Iterator: runs it, with its options and its statistics
//   npy.h       .npy and .npz files to arrays and back
//   stage.h, row_stage.h              for those who write a stage
//   rows.h, plan.h, engine.h, row_chain.h, row_node.h    how it is run (docs/data.md)
//
//   Dataset train = Dataset::FromTfRecords({"gs://flowers/train-*.tfrec"})
//                       .Shuffle(2048)
//                       .ParseExample({.features = {{.name = "image", .dtype = DType::kString},
//                                                   {.name = "class", .dtype = DType::kI64}}})
//                       .DecodeImage({.height = 192, .width = 192})
//                       .Batch(128)
//                       .Repeat()
//                       .Prefetch(2);
//   PENSTOCK_ASSIGN_OR_RETURN(auto iterator, train.MakeIterator({.seed = 1}));
//   base::NamedArrays batch;                     // image: uint8[128,192,192,3], class: int64[128]
//   PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&batch));
//
// An element is a set of named arrays. Stages have tf.data's names and meanings where it has them.
// Mistakes in a description (a column that is not there) are kept, and come from MakeIterator.
// Errors of data name the element: `uri:offset:record` for records, the path for files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/data/iterator.h"
#include "penstock/data/spec.h"
#include "penstock/image/image.h"
#include "penstock/image/resize.h"
#include "penstock/record/example_parser.h"

namespace penstock::data {

class Stage;

struct TfRecordOptions {
  // So many files are read in turns, `block_length` records each, in the order of the list; where
  // one ends the next of the list takes its place. 1: one file after the other.
  int parallel_files = 8;
  int64_t block_length = 16;
  // Another order of the files in each epoch, by the iterator's seed.
  bool shuffle_files = false;
  // All records of all files in one random order, another in each epoch, by the iterator's seed:
  // every order is equally likely whatever the size, no buffer is filled first, and passing over
  // elements reads nothing. Records are read by their places, `parallel_files` jobs at once; where
  // each begins is kept in a file beside the shard (record/tfrecord_index.h), made on first use.
  // Not for compressed shards, and not with skip_damaged.
  bool global_shuffle = false;
  // Records read and not yet taken, of all files together; at least one block of each.
  int64_t read_ahead_bytes = int64_t{32} << 20;
  int64_t block_bytes = int64_t{1} << 20;  // read at once
  bool verify = true;                      // the checksums of the data (lengths' always are)
  bool skip_damaged = false;
};

struct FileOptions {
  int parallel_files = 16;  // read at once
  bool shuffle_files = false;
  int64_t read_ahead_bytes = int64_t{64} << 20;  // read and not yet taken
};

struct ParseExampleOptions {
  std::string column = "record";
};

struct DecodeImageOptions {
  std::string column = "image";
  int channels = 3;  // 1: gray, 3: RGB, 0: as the file has it
  // Of the result; 0: as the file has it, then all images of a batch must agree.
  int height = 0;
  int width = 0;
  image::Filter filter = image::Filter::kBilinear;
  bool antialias = false;
  image::Fit fit = image::Fit::kStretch;
  bool apply_orientation = false;  // EXIF's
  int64_t max_pixels = 100'000'000;
};

struct ShuffleOptions {
  // None: from the iterator's seed, another one for each stage.
  std::optional<uint64_t> seed = {};
  bool reshuffle_each_epoch = true;
};

struct ZipOptions {
  // One for each dataset: its columns are then named "prefix/name". Empty: as they are.
  std::vector<std::string> prefixes = {};
};

struct SampleOptions {
  // None: from the iterator's seed. In each epoch another choice is drawn.
  std::optional<uint64_t> seed = {};
  // Ends when a dataset is drawn that has ended; otherwise goes on with the others.
  bool stop_on_empty = false;
};

struct BatchOptions {
  bool drop_remainder = false;
};

// Computes one element of one: `in` has the columns it reads, `out` gets those it makes. Called
// from several threads at once (the reader's among them, while it waits), in any order, and not
// only for elements that reach the reader. After Batch an element is a whole batch.
using MapFunction =
    std::function<absl::Status(const base::NamedArrays& in, base::NamedArrays* out)>;

struct MapOptions {
  // Printed. A C++ function itself cannot be printed, saved or sent to another process.
  std::string name = "function";
  // Columns that the function is given. Empty: all.
  std::vector<std::string> reads = {};
  // Columns that it makes, new ones or in place of others of that name. Empty: those that it reads,
  // with their types and shapes unchanged.
  ElementSpec makes = {};
  // Columns that are left out of the result. All others pass on untouched.
  std::vector<std::string> drops = {};
};

class Dataset;

// Makes a dataset of an element. Called by threads of the I/O pool, several calls at once, ahead of
// the element's turn; it may wait.
using DatasetFunction = std::function<absl::StatusOr<Dataset>(const base::NamedArrays& in)>;

struct FlatMapOptions {
  std::string name = "function";  // printed, as in MapOptions
  // Columns that the function is given. Empty: all.
  std::vector<std::string> reads = {};
  // Columns of the datasets that it makes, in their order; an extent may be -1, others have to
  // agree. Empty: those of this dataset.
  ElementSpec makes = {};
};

struct InterleaveOptions {
  std::string name = "function";
  std::vector<std::string> reads = {};
  ElementSpec makes = {};
  int64_t cycle_length = 8;  // datasets that are read in turns
  int64_t block_length = 1;  // elements of each
  // So many of them work ahead at once, each within its own bounds; the order does not depend on
  // it. 0: those of the cycle, and the one that comes next.
  int64_t parallel = 0;
};

// A description: immutable, cheap to copy, any number of iterators at once.
class Dataset {
 public:
  // ---- Where elements come from ----

  // Rows of arrays that have the same first extent: element i is row i of each. Shares their
  // memory, which must not change as long as an iterator lives. `name` stands for them in errors.
  static Dataset FromArrays(base::NamedArrays arrays, std::string name = "arrays");

  // int64 column `value`: begin, begin + step, ... as long as they are less than `end` (greater
  // when the step is negative).
  static Dataset Range(int64_t begin, int64_t end, int64_t step = 1);

  // Columns of several datasets side by side: element i is made of the i-th of each. Ends with the
  // shortest. Where two have a column of the same name, options.prefixes tell them apart.
  static Dataset Zip(std::vector<Dataset> datasets, ZipOptions options = {});
  // A mix of datasets with the same columns (tf.data's sample_from_datasets): each element is the
  // next one of a dataset that is drawn with these weights, which need not add up to 1. Empty: all
  // are equally likely. The same with and without `deterministic`.
  static Dataset Sample(std::vector<Dataset> datasets, std::vector<double> weights = {},
                        SampleOptions options = {});

  // Records of TFRecord files (any scheme of room io; `*`, `?`, `[..]`, `**`), compressed or not:
  // column `record`.
  static Dataset FromTfRecords(std::vector<std::string> patterns, TfRecordOptions options = {});
  // Whole files: columns `path` and `bytes`.
  static Dataset FromFiles(std::vector<std::string> patterns, FileOptions options = {});

  // ---- What is done to elements ----

  // tf.train.Example records to a column for each feature of the schema, in place of `record`.
  Dataset ParseExample(record::ExampleSchema schema, ParseExampleOptions options = {}) const;
  // JPEG or PNG bytes to uint8 [height, width, channels], in the same column.
  Dataset DecodeImage(DecodeImageOptions options = {}) const;

  // Keeps `buffer` elements and gives a random one of them whenever the next comes in. A buffer as
  // large as the data set makes every order equally likely. References wait in it, not elements.
  Dataset Shuffle(int64_t buffer, ShuffleOptions options = {}) const;
  // The elements again and again, `count` times (-1: for ever). Shuffle before it draws another
  // order each time.
  Dataset Repeat(int64_t count = -1) const;
  // Stacks `size` elements to one: columns [size, ...]. The last may be smaller, or is dropped.
  // Elements of different shapes are an error.
  Dataset Batch(int64_t size, BatchOptions options = {}) const;
  Dataset Take(int64_t count) const;  // the first `count` elements
  Dataset Skip(int64_t count) const;  // all but these
  // Of every `count` elements the one at `index`: a part for each of `count` hosts. What stands
  // before it is not computed for the others.
  Dataset Shard(int64_t count, int64_t index) const;
  // These elements, then those of `other`, which has the same columns.
  Dataset Concatenate(const Dataset& other) const;
  Dataset Map(MapFunction function, MapOptions options = {}) const;
  // Keeps all elements in memory once they have been read to the end, for all iterators of this
  // dataset and its copies. Iterators made before that read the input themselves.
  Dataset Cache() const;
  // Has up to `count` elements ready ahead of the reader.
  Dataset Prefetch(int64_t count) const;

  // The elements of the datasets that a function makes of these elements, `cycle_length` datasets
  // in turns, `block_length` elements of each; where one ends, that of the next element takes its
  // place when it is its turn again. The order is tf.data's; when not deterministic, a dataset that
  // is slow does not hold up the others. Random stages of the datasets have the iterator's seed and
  // epoch, and differ from one dataset to the next.
  Dataset Interleave(DatasetFunction function, InterleaveOptions options = {}) const;
  // The same with one dataset after the other.
  Dataset FlatMap(DatasetFunction function, FlatMapOptions options = {}) const;

  // A stage of one's own (stage.h).
  static Dataset From(std::shared_ptr<const Stage> source);
  Dataset Then(std::shared_ptr<const Stage> stage) const;

  // ---- Using it ----

  absl::StatusOr<std::unique_ptr<Iterator>> MakeIterator(const IteratorOptions& options = {}) const;
  // Of one element. Empty after a mistake in the description.
  const ElementSpec& spec() const;
  // The first mistake in the description, with its stage.
  const absl::Status& status() const { return status_; }
  // One stage a line, in the order in which elements go through them.
  std::string ToString() const;

  // How a Dataset is held: a tree that grows at its root. For the plan.
  struct Description {
    std::shared_ptr<const Stage> stage;
    std::vector<std::shared_ptr<const Description>> inputs;
    ElementSpec spec;
  };
  const Description& description() const { return *description_; }

 private:
  Dataset() = default;
  static Dataset Make(std::shared_ptr<const Stage> stage, std::vector<Dataset> inputs);

  std::shared_ptr<const Description> description_;
  absl::Status status_;
};

}  // namespace penstock::data
