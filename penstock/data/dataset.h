// Room data: the input pipeline, from files or memory to batches (as tf.data, PyTorch's
// DataLoader). It may use base, io, formats, record, image.
//
//   dataset.h   Dataset: describes a pipeline; this header is the catalog of sources and stages
//   iterator.h  Iterator: runs it; options, iterator state, statistics
//   stage.h, row_stage.h    interfaces for custom stages
//   sources/, stages/       the built-in sources and stages, one .cc each
//   cache/                  Cache and Snapshot: elements stored in memory and in folders
//   engine/                 scheduling, memory budget, autotuning (docs/design/data.md)
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
// An element is a set of named arrays. Stages have tf.data's names and meanings where tf.data has
// them. Errors in a description (a column that does not exist) are stored, and MakeIterator returns
// the first. Errors of data name the element: `uri:offset:record` for records, the path for files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/data/iterator.h"
#include "penstock/data/spec.h"
#include "penstock/data/stages/map_column.h"
#include "penstock/image/image.h"
#include "penstock/image/resize.h"
#include "penstock/record/example_parser.h"

namespace penstock::data {

class Stage;

struct TfRecordOptions {
  // Number of files to interleave (tf.data's cycle_length), `block_length` records of each in turn;
  // when a file ends, the next of the list takes its slot. 1 reads one file after the other. 0
  // picks it automatically: 8, and read-ahead opens as many of the next files as the tuner finds
  // useful (engine/tuner.h).
  int parallel_files = 0;
  int64_t block_length = 16;
  // Shuffles the files, in another order in each epoch, by the iterator's seed.
  bool shuffle_files = false;
  // Global shuffle (random access): all records of all files in one random order, another in each
  // epoch, by the iterator's seed. Every order is equally likely whatever the size, there is no
  // shuffle buffer to fill, and skipping elements reads nothing. Records are read by their index,
  // `parallel_files` reads in flight (64 from an object store, where each record is a request); the
  // global shuffle index, which holds the offset of each record, is a file beside the shard
  // (record/tfrecord_index.h), made on first use. Not for compressed shards, and not with
  // skip_corrupt.
  bool global_shuffle = false;
  // Read-ahead limit in bytes, over all files; at least one block of each file. 0: tuned
  // automatically, 32 MiB at first.
  int64_t read_ahead_bytes = 0;
  int64_t block_bytes = int64_t{1} << 20;  // size of one read
  bool verify = true;  // verifies checksums of the data; those of lengths are always verified
  // Skips corrupt records, and the rest of a file after corruption that hides where the next record
  // begins. Skipped records are counted and reported like those of IgnoreErrors: Iterator::Stats,
  // IteratorOptions.max_errors and on_skipped.
  bool skip_corrupt = false;
};

struct FileOptions {
  // Number of files read in parallel. 0: tuned automatically, 16 at first; 64 from an object store,
  // where latency dominates.
  int parallel_files = 0;
  bool shuffle_files = false;
  int64_t read_ahead_bytes = 0;  // read-ahead limit; 0: tuned automatically, 64 MiB at first
};

// Which part of an image folder a dataset has.
enum class ImageSubset { kAll, kTraining, kValidation };

struct ImageFolderOptions {
  // The classes in this order, a subfolder each; other subfolders are ignored. Empty: all
  // subfolders, sorted by name, without those whose names begin with a dot.
  std::vector<std::string> class_names = {};
  // File name endings that are images, in any case. Other files are ignored, as are files and
  // folders whose names begin with a dot (.ipynb_checkpoints).
  std::vector<std::string> extensions = {".jpg", ".jpeg", ".png"};
  // Share of the images, above 0 and below 1, that belongs to subset kValidation; the others belong
  // to kTraining. Which ones is drawn by `split_seed` from the sorted list of all images: the same
  // folder and seed give the same split on every machine.
  double validation_split = 0;
  ImageSubset subset = ImageSubset::kAll;
  uint64_t split_seed = 0;
  // All images in one random order, another in each epoch, by the iterator's seed, as Keras does by
  // default. False: sorted by class, then by path.
  bool shuffle_files = true;
  bool paths = false;  // adds string column `path`
  // As in FileOptions.
  int parallel_files = 0;
  int64_t read_ahead_bytes = 0;
  // Where the folder is listed when the dataset is described. None: io::FileSystem::Default().
  std::shared_ptr<io::FileSystem> file_system = {};
};

struct TextOptions {
  // As in TfRecordOptions, for lines.
  int parallel_files = 0;
  int64_t block_length = 16;
  bool shuffle_files = false;
  int64_t read_ahead_bytes = 0;
  int64_t block_bytes = int64_t{1} << 20;
  int64_t max_line_bytes = int64_t{16} << 20;  // a longer line is an error
};

struct CsvColumn {
  std::string name;
  // kString, or numeric (kBool to kF64). kInvalid: inferred from the first rows.
  base::DType dtype = base::DType::kInvalid;
  // Value of an empty field, as text. Not set: an empty field is an error in a numeric column, and
  // the empty string in a string column.
  std::optional<std::string> default_value = {};
};

struct CsvOptions {
  // All columns of the files, in their order. Empty: named by the header of the first file.
  //
  // If a dtype is not given, it is inferred from the first `infer_rows` rows of the first file when
  // the dataset is described: int64 if every field is an integer, else float32 if every field is a
  // number, else string; empty fields do not count. The default value of such a column is 0, or "",
  // unless given, as in tf.data's make_csv_dataset.
  std::vector<CsvColumn> columns = {};
  // Columns of an element, in this order. Empty: all.
  std::vector<std::string> select = {};
  bool header = true;  // each file begins with a row of column names
  // Whether that row must have the names of the columns. False: it is skipped, and `columns` name
  // its fields in their order (pandas.read_csv(names=..., header=0)).
  bool check_header = true;
  char delimiter = ',';
  bool quotes = true;         // false: double quotes are ordinary characters
  std::string na_value = "";  // text that is treated as an empty field
  int64_t infer_rows = 100;

  // As in TfRecordOptions, for rows.
  int parallel_files = 0;
  int64_t block_length = 16;
  bool shuffle_files = false;
  int64_t read_ahead_bytes = 0;
  int64_t block_bytes = int64_t{1} << 20;
  int64_t max_row_bytes = int64_t{16} << 20;  // a longer row is an error
  // File system for inferring columns. Default: io::FileSystem::Default().
  std::shared_ptr<io::FileSystem> file_system = {};
};

enum class NpyAccess {
  // Memory-maps a local array whose layout in the file is its layout in memory: only what is used
  // is read, and the array may be larger than memory. This is any numeric .npy file in row-major
  // order and this machine's byte order, and such a member of an .npz file that is stored without
  // compression (numpy.savez) at an aligned offset. Other arrays are loaded, if there is enough
  // memory.
  kAuto,
  kMap,     // memory-maps; an error if that is not possible
  kLoad,    // loads into memory
  kStream,  // reads block by block in each epoch: any size; .npy from any file system
};

struct NpyOptions {
  NpyAccess access = NpyAccess::kAuto;
  // Arrays of an .npz file, in this order. Empty: all; they must have the same number of rows.
  std::vector<std::string> select = {};
  // Limit of loaded bytes; a larger array is rejected before it is read, with an error that lists
  // the alternatives. 0: what Linux reports as available to this process, including its cgroup's
  // limit.
  int64_t memory_bytes = 0;
  int64_t read_ahead_bytes = 0;  // read-ahead limit of kStream; 0: tuned, 32 MiB at first
  int64_t block_bytes = int64_t{1} << 20;
  // File system, used when the dataset is described. Default: io::FileSystem::Default().
  std::shared_ptr<io::FileSystem> file_system = {};
};

struct FromSnapshotOptions {
  // As in TfRecordOptions. 1: elements in the order in which they were stored.
  int parallel_files = 1;
  int64_t block_length = 16;
  bool shuffle_files = false;
  int64_t read_ahead_bytes = int64_t{32} << 20;
  // File system, used when the dataset is described. Default: io::FileSystem::Default().
  std::shared_ptr<io::FileSystem> file_system = {};
};

struct GeneratorContext {
  int64_t epoch = 0;
  uint64_t seed = 0;  // seed of this stage; mix it with the epoch for a seed of the pass
  // Returns true once the iterator is being destroyed. A generator that blocks for long should poll
  // it, because the iterator's destructor waits for the generator. May be called as long as the
  // generator lives.
  std::function<bool()> cancelled = {};
};

// Generator of elements: sets `*element` to the next one, or returns false at the end. It may
// block. The arrays then belong to the dataset and must not be written to any more. An error, or an
// exception, ends the dataset.
using ElementGenerator = std::function<absl::StatusOr<bool>(base::NamedArrays* element)>;
// Factory of the generator of one pass. Both functions are called by threads of the I/O pool: one
// call at a time for each pass, concurrently for passes of several iterators.
using MakeGenerator = std::function<ElementGenerator(const GeneratorContext& context)>;

struct GeneratorOptions {
  // Name in the printed pipeline and in the origins of elements: "generator:17". A C++ function
  // itself cannot be printed, saved or sent to another process.
  std::string name = "generator";
  int64_t read_ahead = 16;  // maximum number of elements generated ahead of the consumer
};

struct ParseExampleOptions {
  std::string column = "record";
  // For ParseExample without a schema: number of records that it is inferred from, and the file
  // system (none: io::FileSystem::Default()) that they are read by when the dataset is described.
  int64_t infer_records = 1;
  std::shared_ptr<io::FileSystem> file_system = {};
};

struct DecodeImageOptions {
  std::string column = "image";
  int channels = 3;  // 1: gray, 3: RGB, 0: as in the file
  // Size of the result; 0: as in the file, then all images of a batch must have the same size.
  int height = 0;
  int width = 0;
  image::Filter filter = image::Filter::kBilinear;
  bool antialias = false;
  image::Fit fit = image::Fit::kStretch;
  bool apply_orientation = false;  // rotates and flips as the EXIF orientation says
  int64_t max_pixels = 100'000'000;
  image::DctScaling dct_scaling = image::DctScaling::kNever;

  // Data augmentation for training, fused into decoding. random_crop stretches a box of random area
  // and aspect ratio to height x width; only the box is decoded (`{{}}` is Inception's and
  // torchvision's default: 8 to 100 % of the area, aspect ratios 3/4 to 4/3). random_flip flips
  // half of the images left to right. The random numbers of an element depend on the seed, the
  // epoch, and the element's number at the stage where it is decoded (docs/design/data.md): they
  // are the same for any number of threads and after skipping. Downstream of Repeat, numbers
  // continue through all rounds and the epoch stays the same; a Cache downstream keeps the first
  // random numbers.
  std::optional<image::RandomResizedCrop> random_crop = {};
  bool random_flip = false;
  // Default: derived from the iterator's seed, different for each stage.
  std::optional<uint64_t> seed = {};

  // kU8; or kBF16, kF32: (x * scale - mean) / std of each pixel x, 0..255.
  base::DType dtype = base::DType::kU8;
  image::Normalize normalize = {};
};

struct ShuffleOptions {
  // Default: derived from the iterator's seed, different for each stage.
  std::optional<uint64_t> seed = {};
  bool reshuffle_each_epoch = true;
};

struct SnapshotOptions {
  int64_t shard_bytes = int64_t{100} << 20;  // approximate size of a file
};

struct RandomOptions {
  std::optional<uint64_t> seed = {};  // default: derived from the iterator's seed
  bool rerandomize_each_epoch = true;
};

struct RandomSeedOptions {
  std::string column = "seed";
  // Default: derived from the iterator's seed, different for each stage.
  std::optional<uint64_t> seed = {};
};

struct CacheOptions {
  // Stores elements in memory if they fit, and in the folder only if they do not.
  bool memory_first = false;
};

struct ZipOptions {
  // Prefix of each dataset: its columns are named "prefix/name". Empty: names are unchanged.
  std::vector<std::string> prefixes = {};
};

struct SampleOptions {
  // Default: derived from the iterator's seed. Each epoch draws another sequence.
  std::optional<uint64_t> seed = {};
  // Ends when a dataset is drawn that has ended; otherwise continues with the others.
  bool stop_on_empty = false;
};

struct BatchOptions {
  bool drop_remainder = false;
  // Ragged columns: their rows differ in their first dimension. Each becomes two, as TensorFlow's
  // RaggedTensor: `tags` holds the values of all rows, concatenated, and `tags/row_splits` (int64,
  // one more than there are rows) where each row begins: row i is tags[row_splits[i],
  // row_splits[i+1]).
  std::vector<std::string> ragged = {};
};

struct PaddedBatchOptions {
  // Shape of one row. -1, and every column that is not named: as long as the longest row of the
  // batch.
  std::vector<std::pair<std::string, base::Shape>> padded_shapes = {};
  // Scalars of the columns' types. Default: 0, false, the empty string.
  base::NamedArrays padding_values = {};
  bool drop_remainder = false;
};

struct WindowOptions {
  std::optional<int64_t> shift = {};  // distance between first elements of windows; default: size
  int64_t stride = 1;                 // distance between elements of a window
  bool drop_remainder = false;        // drops windows that are cut short by the end
};

struct EnumerateOptions {
  std::string column = "index";
};

struct IgnoreErrorsOptions {
  int64_t max_errors = -1;  // per epoch; -1: no limit
};

// User-defined function that computes one element from one: `in` has the columns that it reads,
// `out` receives those that it makes. Called concurrently by several threads (including the
// reader's, while it waits), in any order, and also for elements that do not reach the reader.
// After Batch an element is a whole batch. The function must not write to the memory of `in`.
//
// All user-defined functions of this header may throw. An exception is a recoverable error of the
// element: Internal, with the element's origin, the stage, and the exception's type and message.
// std::bad_alloc is not recoverable: it ends the iterator with ResourceExhausted.
using MapFunction =
    std::function<absl::Status(const base::NamedArrays& in, base::NamedArrays* out)>;

struct MapOptions {
  // Name in the printed pipeline. A C++ function itself cannot be printed, saved or sent to another
  // process.
  std::string name = "function";
  // Columns that are passed to the function. Empty: all.
  std::vector<std::string> reads = {};
  // Columns that it makes, added or replacing those of the same name. Empty: those that it reads,
  // with their types and shapes unchanged.
  ElementSpec makes = {};
  // Columns to remove from the result. All other columns are forwarded unchanged.
  std::vector<std::string> drops = {};
};

// Options of Map for one column.
struct MapColumnOptions {
  std::string makes = "";         // result column; empty: the column that is read
  std::string name = "function";  // printed
};

// User-defined predicate: returns true to keep the element. Called as a MapFunction is.
using FilterFunction = std::function<absl::StatusOr<bool>(const base::NamedArrays& in)>;

struct FilterOptions {
  std::string name = "function";  // name in the printed pipeline
  // Columns that are passed to the predicate. Empty: all. Upstream stages that make only other
  // columns run after it, on kept elements only (and so fail for those only).
  std::vector<std::string> reads = {};
};

// Like MapFunction, with a state that it may change. Called for each element in order, by one
// thread at a time. A call that fails leaves the state unchanged, unless the function wrote into
// the memory of the state's arrays instead of setting new arrays.
using ScanFunction = std::function<absl::Status(const base::NamedArrays& in,
                                                base::NamedArrays* state, base::NamedArrays* out)>;

class Dataset;

// User-defined function that makes a dataset from an element. Called concurrently by threads of the
// I/O pool, ahead of the consumer; it may block.
using DatasetFunction = std::function<absl::StatusOr<Dataset>(const base::NamedArrays& in)>;

struct FlatMapOptions {
  std::string name = "function";  // name in the printed pipeline, as in MapOptions
  // Columns that are passed to the function. Empty: all.
  std::vector<std::string> reads = {};
  // Columns of the datasets that it makes, in their order; -1 is an unknown dimension, others must
  // be equal. Empty: the columns of this dataset.
  ElementSpec makes = {};
};

struct InterleaveOptions {
  std::string name = "function";
  std::vector<std::string> reads = {};
  ElementSpec makes = {};
  int64_t cycle_length = 8;  // number of datasets to interleave
  int64_t block_length = 1;  // number of consecutive elements from each
  // Number of datasets that prefetch in parallel (tf.data's num_parallel_calls), each within its
  // own limits; the order does not depend on it. 0: tuned automatically, at first cycle_length and
  // the dataset that comes next.
  int64_t parallel = 0;
};

// Description of an input pipeline: immutable, cheap to copy; any number of iterators may use it at
// once.
class Dataset {
 public:
  // ---- Sources ----

  // Rows of arrays that have the same first dimension: element i is row i of each array. Shares the
  // arrays' memory, which must not change while an iterator lives; readers get copies, so they
  // cannot write to it. Errors refer to the arrays as `name`.
  static Dataset FromArrays(base::NamedArrays arrays, std::string name = "arrays");

  // Rows of the arrays of a NumPy file. Columns have the names of the arrays of an .npz file; a
  // .npy file's column is named after the file, without ".npy". The file must not be written to
  // while a dataset maps it; replacing it is safe.
  static Dataset FromNpy(std::string uri, NpyOptions options = {});
  // Elements that Snapshot has stored in `folder`, without the pipeline that made them: its
  // columns, and the origins of its elements in errors.
  static Dataset FromSnapshot(std::string folder, FromSnapshotOptions options = {});
  // Elements that a user-defined function makes, one by one; each is checked against `spec`.
  static Dataset FromGenerator(MakeGenerator make, ElementSpec spec, GeneratorOptions options = {});

  // int64 column `value`: begin, begin + step, ... while less than `end` (greater, if the step is
  // negative).
  static Dataset Range(int64_t begin, int64_t end, int64_t step = 1);

  // Infinite random numbers: int64 column `value`, all 64 bits. Number i of an epoch is a function
  // of the seed, the epoch and i.
  static Dataset Random(RandomOptions options = {});

  // Columns of several datasets side by side: element i consists of the i-th element of each. Ends
  // with the shortest dataset. If two have a column of the same name, options.prefixes
  // distinguishes them.
  static Dataset Zip(std::vector<Dataset> datasets, ZipOptions options = {});
  // Mix of datasets with the same columns (tf.data's sample_from_datasets): each element is the
  // next one of a dataset drawn with these weights, which need not add up to 1. Empty: all are
  // equally likely. The result is the same with and without `deterministic`.
  static Dataset Sample(std::vector<Dataset> datasets, std::vector<double> weights = {},
                        SampleOptions options = {});

  // Records of TFRecord files (any scheme of room io; `*`, `?`, `[..]`, `**`), compressed or not:
  // column `record`.
  static Dataset FromTfRecords(std::vector<std::string> patterns, TfRecordOptions options = {});
  // Whole files: columns `path` and `bytes`. From an object store each file is one request; if the
  // files are small, Iterator::Explain estimates the speedup of shards and prints the command that
  // makes them.
  static Dataset FromFiles(std::vector<std::string> patterns, FileOptions options = {});
  // Images in a folder with a subfolder for each class, at any depth below it (torchvision's
  // ImageFolder, Keras's image_dataset_from_directory): columns `image`, the file's bytes, and
  // `class`, int64, the place of the subfolder among class_names(). The folder, of any file system,
  // is listed once, when the dataset is described; a class without images is an error. Files are
  // read as FromFiles reads them, many at once.
  //
  //   ImageFolderOptions split{.validation_split = 0.2, .subset = ImageSubset::kTraining};
  //   Dataset train = Dataset::FromImageFolder("flowers", split)
  //                       .DecodeImage({.height = 180, .width = 180})
  //                       .Batch(32);
  static Dataset FromImageFolder(std::string folder, ImageFolderOptions options = {});
  // Lines of text files: column `line`, without its end ("\n" or "\r\n"). Files named .gz are
  // decompressed. Errors name `uri:offset:line`, lines counted from 1.
  static Dataset FromText(std::vector<std::string> patterns, TextOptions options = {});
  // Rows of CSV files (RFC 4180; .gz as well), one column for each of the files'. A field may hold
  // line breaks within double quotes; empty lines are skipped. Errors name `uri:line:column`, both
  // counted from 1.
  static Dataset FromCsv(std::vector<std::string> patterns, CsvOptions options = {});

  // ---- Transformations ----

  // Parses tf.train.Example records: a column for each feature of the schema replaces `record`.
  Dataset ParseExample(record::ExampleSchema schema, ParseExampleOptions options = {}) const;
  // The same with a schema that is inferred from the first record when the dataset is described:
  // all its features with values, sorted by name; {} for one value, {n} for n, and variable length
  // with options.infer_records > 1 where they differ. A later record that does not fit is an error
  // that names the feature. Stages that choose or order records (Shuffle, Take, ...) are not run
  // for it.
  Dataset ParseExample(ParseExampleOptions options = {}) const;
  // Decodes JPEG or PNG bytes to [height, width, channels], uint8 or floats, in the same column.
  Dataset DecodeImage(DecodeImageOptions options = {}) const;

  // Shuffles with a buffer of `buffer` elements (tf.data's algorithm): returns a random element of
  // the buffer and replaces it with the next of the input. A buffer as large as the dataset makes
  // every order equally likely. The buffer holds references, not elements.
  // (TfRecordOptions.global_shuffle needs no buffer.)
  Dataset Shuffle(int64_t buffer, ShuffleOptions options = {}) const;
  // Repeats the elements `count` times (-1: indefinitely). A Shuffle upstream draws another order
  // each time. A round without elements ends Repeat() for good; Repeat(count) continues with the
  // next round, and ends after 100,000 consecutive rounds without elements.
  Dataset Repeat(int64_t count = -1) const;
  // Stacks `size` elements to one: columns [size, ...]. The last may be smaller, or is dropped.
  // Elements of different shapes are an error.
  Dataset Batch(int64_t size, BatchOptions options = {}) const;
  // Batch for rows of different shapes (variable-length features): shorter rows are padded at the
  // end. An error names a row that is longer than the shape given for its column.
  Dataset PaddedBatch(int64_t size, PaddedBatchOptions options = {}) const;
  // Rows of batches, one by one, as views of the batches' memory. A column with row splits
  // (BatchOptions) becomes a column of rows of different lengths again.
  Dataset Unbatch() const;
  // Batches of another size. A batch that lies within one input batch is a view of it; others are
  // copied once.
  Dataset Rebatch(int64_t size, bool drop_remainder = false) const;
  // Sliding windows of `size` consecutive elements; the next window begins `shift` elements later.
  // tf.data's window is a nested dataset; here it is an element whose columns have one more leading
  // dimension, [size, ...], as after Batch. The last windows may be shorter, or are dropped.
  Dataset Window(int64_t size, WindowOptions options = {}) const;
  Dataset Take(int64_t count) const;  // the first `count` elements
  Dataset Skip(int64_t count) const;  // all but the first `count` elements
  // The element at `index` of every `count` elements: one part for each of `count` hosts. Upstream
  // stages that map one element to one (ParseExample, DecodeImage, Map) do not compute the others.
  Dataset Shard(int64_t count, int64_t index) const;
  // These elements, then those of `other`, which has the same columns.
  Dataset Concatenate(const Dataset& other) const;
  // Applies a user-defined function to each element, in parallel.
  Dataset Map(MapFunction function, MapOptions options = {}) const;
  // Map of one column, typed. T is the C++ type of its elements (absl::string_view for strings); a
  // column of another type is a mistake in the description. The function is one of
  //   U f(T)                        each number by itself; the shape stays
  //   U f(absl::Span<const T>)      one number of an element's numbers, in row-major order
  //   void f(absl::Span<T>)         changes an element's numbers in place
  // U is the C++ type of a column, std::string, or absl::StatusOr of one; the last form may return
  // an absl::Status. The result replaces the column, or makes the column options.makes.
  //
  //   dataset.Map<uint8_t>("image", [](uint8_t pixel) { return pixel / 255.0f; })
  template <typename T, typename F>
  Dataset Map(std::string column, F function, MapColumnOptions options = {}) const {
    return MapColumn(std::move(column), MakeColumnFunction<T>(std::move(function)),
                     std::move(options));
  }
  // Elements for which the predicate returns true. It is evaluated by several threads in parallel;
  // the order is kept when deterministic.
  Dataset Filter(FilterFunction predicate, FilterOptions options = {}) const;
  // Adds each element's index in this pass, beginning with `start`: int64 column `index`. An
  // element that fails upstream and is skipped by IgnoreErrors downstream keeps its number.
  Dataset Enumerate(int64_t start = 0, EnumerateOptions options = {}) const;
  // Adds an RNG key for each element, column `seed` (uint32[2], the keys that random operations on
  // the device take): a function of the iterator's seed, the epoch and the element's index in this
  // pass. Random numbers drawn from it are the same for any number of threads, after a restart and
  // on any number of hosts.
  Dataset RandomSeed(RandomSeedOptions options = {}) const;
  // Map with a state (tf.data's scan), which begins as `initial_state` in each pass; its names and
  // types are fixed, its shapes may change.
  Dataset Scan(base::NamedArrays initial_state, ScanFunction function,
               MapOptions options = {}) const;
  // Skips elements with recoverable errors: a record that is not an Example, an image that cannot
  // be decoded, a user-defined function (Map, Filter, Scan) that returned an error. Iterator::Stats
  // counts them, with the first few errors; IteratorOptions.on_skipped receives all. More than
  // `max_errors` (or than IteratorOptions.max_errors) end the iterator with that element's error.
  // Failures that are not limited to one element are never skipped: a file that cannot be opened or
  // read, a corrupt shard (TfRecordOptions::skip_corrupt handles those). After a Batch an element
  // is a batch, and one bad row loses all of it: put IgnoreErrors before Batch. Elements that an
  // upstream Take has counted stay counted.
  Dataset IgnoreErrors(IgnoreErrorsOptions options = {}) const;
  // Caches all elements in memory once they have been read to the end, for all iterators of this
  // dataset and its copies. Iterators made before that read the input themselves. The cached
  // elements are charged to IteratorOptions::memory_bytes; exceeding it is an error.
  //
  // A failed element is stored as its error, in its position: every later pass returns the same
  // elements and the same errors as the first, and IgnoreErrors skips the same ones. It is not
  // computed again. A cache in a folder and a Snapshot do the same, and FromSnapshot returns these
  // errors too. (A pass with errors reaches its end only with IgnoreErrors after the cache.)
  //
  // With a folder, elements are stored on a local disk, for later runs too: the first pass that
  // reaches the end writes them into `folder` (cache.manifest and cache-*.tfrec, checksummed); the
  // cache is complete or does not exist. A cache of another pipeline is rejected; one that a killed
  // run left incomplete, or whose files or arrays have changed since, is rebuilt. Changes of a
  // function of Map or FromGenerator are not detected: give it another .name, or remove the folder,
  // when it changes. If several programs run, one writes, and the others read the input themselves
  // meanwhile.
  //
  // Cache("worker") keeps them in the memory of the process that owns the devices. If that is a worker
  // on another host, what is upstream runs there if it can, and otherwise here, once, and its elements
  // are sent (docs/remote-data.md). If it is this process, it is Cache(), except that elements that do
  // not fit into three quarters of the memory budget are no error: they are not kept, and the first
  // epoch of the input is read again in each pass. A folder of that name is "./worker".
  //
  // Cache("device") keeps them in the memory of the devices that train, of this process or of a worker: read
  // once, as long as the dataset exists. Batches are gathered there, so only stages that choose elements may
  // follow (Shuffle, Take, Skip, Shard, Repeat, Batch, Prefetch). What does not fit is an error. Numbers of one
  // shape only. Other readers get the elements of the first epoch, which are read in each pass. A folder of
  // that name is "./device".
  //
  // With memory_first as well, a pass in which the elements fill three quarters of the memory
  // budget frees them, the next pass stores them in the folder, and later passes read them from
  // there.
  Dataset Cache(std::string folder = "", CacheOptions options = {}) const;
  // Stores the elements like Cache, as shards in a folder of any file system (snapshot.manifest and
  // snapshot-*.tfrec), so that other machines can read them. In an object store concurrent writers
  // cannot be detected: both write, and the last manifest wins; files of a killed run stay there.
  Dataset Snapshot(std::string folder, SnapshotOptions options = {}) const;
  // Prefetches up to `count` elements ahead of the reader; a full queue causes backpressure
  // upstream. kAuto (autotune): begins with 2, and grows if the reader waits although the queue was
  // full at times (engine/tuner.h).
  static constexpr int64_t kAuto = 0;
  Dataset Prefetch(int64_t count = kAuto) const;

  // Interleaves the datasets that a function makes of these elements: `cycle_length` datasets at a
  // time, `block_length` consecutive elements of each; when one ends, that of the next element
  // takes its slot. The order is tf.data's; when not deterministic, a slow dataset does not delay
  // the others. Random stages of the datasets have the iterator's seed and epoch, and differ from
  // one dataset to the next.
  Dataset Interleave(DatasetFunction function, InterleaveOptions options = {}) const;
  // Interleave with one dataset after the other.
  Dataset FlatMap(DatasetFunction function, FlatMapOptions options = {}) const;

  // Custom stages (stage.h).
  static Dataset From(std::shared_ptr<const Stage> source);
  Dataset Then(std::shared_ptr<const Stage> stage) const;

  // ---- Iteration and introspection ----

  absl::StatusOr<std::unique_ptr<Iterator>> MakeIterator(const IteratorOptions& options = {}) const;
  // Number of elements of one pass, if it is known without computing any; otherwise
  // kUnknownCardinality (after Filter, IgnoreErrors, Unbatch; of text), or kInfiniteCardinality.
  // Uses `options.file_system` and `options.host.count` only. TFRecord shards are counted by the
  // indices beside them (record/tfrecord_index.h), which pack writes and global_shuffle makes.
  absl::StatusOr<int64_t> Cardinality(const IteratorOptions& options = {}) const;
  // Fingerprint of the sources of the elements, which the description does not contain: names,
  // sizes and versions (modification times) of files, contents of arrays. With ToString() it
  // identifies the elements, apart from user-defined functions. Uses `options.file_system`.
  absl::StatusOr<std::string> SourceFingerprint(const IteratorOptions& options = {}) const;
  // Names of the classes that the source's labels number, in their order, whatever stages follow:
  // of FromImageFolder. Empty where the source has none.
  const std::vector<std::string>& class_names() const;
  // Columns of one element. Empty if the description has an error.
  const ElementSpec& spec() const;
  // First error of the description, with its stage.
  const absl::Status& status() const { return status_; }
  // One stage per line, in the order of the data flow. The inputs of a stage that has several stand
  // before it, indented, each under a line "input 0:".
  std::string ToString() const;
  // The pipeline as a graph in the DOT language: `dot -Tsvg`.
  std::string Dot() const;

  // Internal representation of a Dataset: a tree that grows at its root. For PipelinePlan, and for
  // code that splits a dataset into its stages.
  struct Description {
    std::shared_ptr<const Stage> stage;
    std::vector<std::shared_ptr<const Description>> inputs;
    ElementSpec spec;
  };
  const Description& description() const { return *description_; }
  const std::shared_ptr<const Description>& shared_description() const { return description_; }
  // The dataset whose last stage is that of `description`, which may be a part of another dataset.
  static Dataset Of(std::shared_ptr<const Description> description);

 private:
  Dataset() = default;
  Dataset MapColumn(std::string column, ColumnFunction function, MapColumnOptions options) const;
  // This description with a mistake in it.
  Dataset Mistaken(absl::Status status) const;
  static Dataset Make(std::shared_ptr<const Stage> stage, std::vector<Dataset> inputs);
  // The dataset that one of several hosts runs (IteratorOptions.host).
  absl::StatusOr<Dataset> ForHost(const HostShard& host) const;
  // Checks that the batches are the same for the number of hosts of the state and of the options.
  absl::Status CheckSameBatches(const IteratorOptions& options) const;

  std::shared_ptr<const Description> description_;
  absl::Status status_;
};

}  // namespace penstock::data
