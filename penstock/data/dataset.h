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
#include <utility>
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
  // one ends the next of the list takes its place. 1: one file after the other. 0, automatic: 8 in
  // turns, and of those that come next as many are read ahead as the tuner finds of use (tuner.h).
  int parallel_files = 0;
  int64_t block_length = 16;
  // Another order of the files in each epoch, by the iterator's seed.
  bool shuffle_files = false;
  // All records of all files in one random order, another in each epoch, by the iterator's seed:
  // every order is equally likely whatever the size, no buffer is filled first, and passing over
  // elements reads nothing. Records are read by their places, `parallel_files` jobs at once (64
  // from an object store, where each record is a request); where each begins is kept in a file
  // beside the shard (record/tfrecord_index.h), made on first use. Not for compressed shards, and
  // not with skip_damaged.
  bool global_shuffle = false;
  // Records read and not yet taken, of all files together; at least one block of each. 0: tuned, 32
  // MiB at first.
  int64_t read_ahead_bytes = 0;
  int64_t block_bytes = int64_t{1} << 20;  // read at once
  bool verify = true;                      // the checksums of the data (lengths' always are)
  // Leaves out damaged records, and the rest of a file behind damage that hides where the next one
  // begins. They are counted and told as those of IgnoreErrors: Iterator::Stats,
  // IteratorOptions.max_errors and on_skipped.
  bool skip_damaged = false;
};

struct FileOptions {
  // Read at once. 0: tuned, 16 at first, and 64 from an object store, where a file is mostly a
  // wait.
  int parallel_files = 0;
  bool shuffle_files = false;
  int64_t read_ahead_bytes = 0;  // read and not yet taken; 0: tuned, 64 MiB at first
};

struct TextOptions {
  // As in TfRecordOptions, of lines.
  int parallel_files = 0;
  int64_t block_length = 16;
  bool shuffle_files = false;
  int64_t read_ahead_bytes = 0;
  int64_t block_bytes = int64_t{1} << 20;
  int64_t max_line_bytes = int64_t{16} << 20;  // a longer line is an error
};

struct CsvColumn {
  std::string name;
  // kString, or numeric (kBool to kF64). kInvalid: found out from the first rows.
  base::DType dtype = base::DType::kInvalid;
  // What an empty field is, written as it would be in the file. None: in a column of numbers an
  // empty field is an error, in one of strings it is the empty string.
  std::optional<std::string> default_value = {};
};

struct CsvOptions {
  // All columns of the files, in their order. Empty: named by the header of the first file.
  //
  // Where no dtype is given, the first `infer_rows` rows of the first file decide when the dataset
  // is described: int64 when every field reads as one, else float32 when every field is a number,
  // else string; empty fields do not count. Such a column has the default 0, or "", when it has
  // none of its own, as in tf.data's make_csv_dataset.
  std::vector<CsvColumn> columns = {};
  // The columns that an element has, in this order. Empty: all.
  std::vector<std::string> select = {};
  bool header = true;  // each file begins with a row of the columns' names, which is compared
  char delimiter = ',';
  bool quotes = true;         // false: double quotes mean nothing
  std::string na_value = "";  // stands for an empty field
  int64_t infer_rows = 100;

  // As in TfRecordOptions, of rows.
  int parallel_files = 0;
  int64_t block_length = 16;
  bool shuffle_files = false;
  int64_t read_ahead_bytes = 0;
  int64_t block_bytes = int64_t{1} << 20;
  int64_t max_row_bytes = int64_t{16} << 20;  // a longer row is an error
  // Where the first rows are read when columns are to be found out. None: Default().
  std::shared_ptr<io::FileSystem> file_system = {};
};

enum class NpyAccess {
  // A local array is mapped where it stands in the file as in memory: nothing is read but what is
  // used, and it may be larger than memory. That is any .npy file of numbers, row-major, in this
  // machine's byte order, and such a member of an .npz file that is stored (numpy.savez) at a
  // fitting offset. Others are loaded, if there is memory enough.
  kAuto,
  kMap,     // an error where it cannot be mapped
  kLoad,    // into memory
  kStream,  // read in each epoch again, a block at a time: any size; .npy from any file system
};

struct NpyOptions {
  NpyAccess access = NpyAccess::kAuto;
  // Arrays of an .npz file, in this order. Empty: all; they must have the same number of rows.
  std::vector<std::string> select = {};
  // What may be loaded; more is refused before it is read, and the error says what works instead.
  // 0: what Linux says is available to this process, its cgroup's limit included.
  int64_t memory_bytes = 0;
  int64_t read_ahead_bytes = 0;  // of kStream; 0: tuned, 32 MiB at first
  int64_t block_bytes = int64_t{1} << 20;
  // None: io::FileSystem::Default(). Read when the dataset is described.
  std::shared_ptr<io::FileSystem> file_system = {};
};

struct FromSnapshotOptions {
  // As in TfRecordOptions. 1: elements in the order in which they were stored.
  int parallel_files = 1;
  int64_t block_length = 16;
  bool shuffle_files = false;
  int64_t read_ahead_bytes = int64_t{32} << 20;
  // None: io::FileSystem::Default(). Read when the dataset is described.
  std::shared_ptr<io::FileSystem> file_system = {};
};

struct GeneratorContext {
  int64_t epoch = 0;
  uint64_t seed = 0;  // of this stage; mixed with the epoch it is one for the pass
  // True when nobody waits for elements any more: a generator that waits long looks at it, for the
  // iterator's destructor waits for the generator. May be called as long as the generator lives.
  std::function<bool()> cancelled = {};
};

// Makes the next element; returns false at the end. It may block. The arrays then belong to the
// dataset and must not be written to any more. An error, or an exception, ends the dataset.
using ElementGenerator = std::function<absl::StatusOr<bool>(base::NamedArrays* element)>;
// Makes the generator of one pass. Both are called by a thread of the I/O pool, one call at a time
// for each pass; passes of several iterators at once.
using MakeGenerator = std::function<ElementGenerator(const GeneratorContext& context)>;

struct GeneratorOptions {
  // Printed, and the origin of elements: "generator:17". A C++ function itself cannot be printed,
  // saved or sent to another process.
  std::string name = "generator";
  int64_t read_ahead = 16;  // elements made and not yet taken
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
  image::DctScaling dct_scaling = image::DctScaling::kNever;

  // A training image's augmentation, in the same pass. A box of random area and aspect (`{{}}` is
  // what Inception and torchvision take: 8 to 100 % of the area, aspects 3/4 to 4/3) is stretched
  // to height x width; only the box is decoded. And half of the images are flipped, left to right.
  // What is drawn for an element depends on the seed, the epoch, and the element's number where it
  // is decoded (docs/data.md): it is the same for any number of threads and after skipping. Behind
  // Repeat, elements are numbered on and the epoch stays; a Cache behind it keeps what was drawn.
  std::optional<image::RandomResizedCrop> random_crop = {};
  bool random_flip = false;
  // None: from the iterator's seed, another one for each stage.
  std::optional<uint64_t> seed = {};

  // kU8; or kBF16, kF32: (x * scale - mean) / std of each pixel x, 0..255.
  base::DType dtype = base::DType::kU8;
  image::Normalize normalize = {};
};

struct ShuffleOptions {
  // None: from the iterator's seed, another one for each stage.
  std::optional<uint64_t> seed = {};
  bool reshuffle_each_epoch = true;
};

struct SnapshotOptions {
  int64_t shard_bytes = int64_t{100} << 20;  // about the size of a file
};

struct RandomOptions {
  std::optional<uint64_t> seed = {};  // none: from the iterator's
  bool rerandomize_each_epoch = true;
};

struct RandomSeedOptions {
  std::string column = "seed";
  std::optional<uint64_t> seed = {};  // none: from the iterator's, another one for each stage
};

struct CacheOptions {
  // Elements are kept in memory as long as it suffices for them, and only else in the folder.
  bool memory_first = false;
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
  // Columns whose rows differ in their first extent. Each becomes two, as TensorFlow's
  // RaggedTensor: in `tags` the values of all rows one after the other, in `tags/row_splits`
  // (int64, one more than there are rows) where each begins: row i is tags[row_splits[i],
  // row_splits[i+1]).
  std::vector<std::string> ragged = {};
};

struct PaddedBatchOptions {
  // Of one row. -1, and every column that is not named: as long as the longest row of the batch.
  std::vector<std::pair<std::string, base::Shape>> padded_shapes = {};
  // Scalars of the columns' types. Else 0, false, the empty string.
  base::NamedArrays padding_values = {};
  bool drop_remainder = false;
};

struct WindowOptions {
  std::optional<int64_t> shift = {};  // from one window's first element to the next's; None: size
  int64_t stride = 1;                 // from one element of a window to its next
  bool drop_remainder = false;        // windows that the end cuts short
};

struct EnumerateOptions {
  std::string column = "index";
};

struct IgnoreErrorsOptions {
  int64_t max_errors = -1;  // in one pass over the data; -1: any number
};

// Computes one element from one: `in` has the columns it reads, `out` gets those it makes. Called
// from several threads at once (including the reader's, while it waits), in any order, and also for
// elements that do not reach the reader. After Batch an element is a whole batch. It must not write
// to the memory of `in`.
//
// All user-defined functions of this header may throw. An exception is a recoverable error of the
// element: Internal, with the element's origin, the stage, and the exception's type and message.
// std::bad_alloc is not recoverable: it ends the iterator with ResourceExhausted.
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

// Whether an element stays. Called as a MapFunction is.
using FilterFunction = std::function<absl::StatusOr<bool>(const base::NamedArrays& in)>;

struct FilterOptions {
  std::string name = "function";  // printed
  // Columns that the function is given. Empty: all. What makes other columns is done after it, to
  // elements that stay only (and so fails for those only).
  std::vector<std::string> reads = {};
};

// Like MapFunction, with a state that it may change. Called for one element after the other, in
// order, by one thread at a time. A call that fails leaves the state unchanged, unless the function
// wrote into the memory of the state's arrays instead of setting new arrays.
using ScanFunction = std::function<absl::Status(const base::NamedArrays& in,
                                                base::NamedArrays* state, base::NamedArrays* out)>;

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
  // it. 0: those of the cycle, and the one that comes next, and more of these as the tuner finds of
  // use.
  int64_t parallel = 0;
};

// A description: immutable, cheap to copy, any number of iterators at once.
class Dataset {
 public:
  // ---- Where elements come from ----

  // Rows of arrays that have the same first extent: element i is row i of each. Shares their
  // memory, which must not change as long as an iterator lives; readers get copies, so they cannot
  // write to it. Errors refer to the arrays as `name`.
  static Dataset FromArrays(base::NamedArrays arrays, std::string name = "arrays");

  // Rows of the arrays of a NumPy file: columns of the names that they have in an .npz file; of a
  // .npy file, its own name without ".npy". The file must not be written to as long as a dataset
  // maps it; replacing it does no harm.
  static Dataset FromNpy(std::string uri, NpyOptions options = {});
  // What a Snapshot has stored in `folder`, without the pipeline that made it: its columns, and the
  // origins of its elements in errors.
  static Dataset FromSnapshot(std::string folder, FromSnapshotOptions options = {});
  // Elements that a function makes, one by one; each is compared with the spec.
  static Dataset FromGenerator(MakeGenerator make, ElementSpec spec, GeneratorOptions options = {});

  // int64 column `value`: begin, begin + step, ... as long as they are less than `end` (greater
  // when the step is negative).
  static Dataset Range(int64_t begin, int64_t end, int64_t step = 1);

  // Random numbers without end: int64 column `value`, all 64 bits. Number i of an epoch is a
  // function of seed, epoch and i.
  static Dataset Random(RandomOptions options = {});

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
  // Whole files: columns `path` and `bytes`. From an object store each is one request; where they
  // are small, Iterator::Explain says how much faster shards would be, and how to make them.
  static Dataset FromFiles(std::vector<std::string> patterns, FileOptions options = {});
  // Lines of text files: column `line`, without its end ("\n" or "\r\n"). Files named .gz are
  // unpacked. Errors name `uri:offset:line`, lines counted from 1.
  static Dataset FromText(std::vector<std::string> patterns, TextOptions options = {});
  // Rows of CSV files (RFC 4180; .gz as well), a column for each of theirs. A field may hold line
  // breaks within double quotes; empty lines are passed over. Errors name `uri:line:column`, both
  // counted from 1.
  static Dataset FromCsv(std::vector<std::string> patterns, CsvOptions options = {});

  // ---- What is done to elements ----

  // tf.train.Example records to a column for each feature of the schema, in place of `record`.
  Dataset ParseExample(record::ExampleSchema schema, ParseExampleOptions options = {}) const;
  // JPEG or PNG bytes to [height, width, channels], uint8 or floats, in the same column.
  Dataset DecodeImage(DecodeImageOptions options = {}) const;

  // Keeps `buffer` elements and gives a random one of them whenever the next comes in. A buffer as
  // large as the data set makes every order equally likely. References wait in it, not elements.
  Dataset Shuffle(int64_t buffer, ShuffleOptions options = {}) const;
  // The elements again and again, `count` times (-1: for ever). Shuffle before it draws another
  // order each time. A round without elements ends Repeat() for good; Repeat(count) continues with
  // the next round, and ends after 100,000 consecutive rounds without elements.
  Dataset Repeat(int64_t count = -1) const;
  // Stacks `size` elements to one: columns [size, ...]. The last may be smaller, or is dropped.
  // Elements of different shapes are an error.
  Dataset Batch(int64_t size, BatchOptions options = {}) const;
  // The same for rows of different shapes (features of variable length): shorter ones are filled up
  // behind. An error names a row that is longer than the shape given for its column.
  Dataset PaddedBatch(int64_t size, PaddedBatchOptions options = {}) const;
  // The rows of batches, one by one, in the batches' memory. A column with row splits
  // (BatchOptions) becomes one of rows of different lengths again.
  Dataset Unbatch() const;
  // Batches of another size. One that lies within a batch that came in is a view of it, others are
  // copied once.
  Dataset Rebatch(int64_t size, bool drop_remainder = false) const;
  // Elements that stand together, `size` in each window, and the next window `shift` further on.
  // tf.data's window is a dataset of its own; here it is an element whose columns got one more
  // leading axis, [size, ...], as of a Batch. The last windows may be shorter, or are dropped.
  Dataset Window(int64_t size, WindowOptions options = {}) const;
  Dataset Take(int64_t count) const;  // the first `count` elements
  Dataset Skip(int64_t count) const;  // all but these
  // The element at `index` of every `count` elements: one part for each of `count` hosts. Stages
  // before it that map one element to one (ParseExample, DecodeImage, Map) do not compute the
  // others.
  Dataset Shard(int64_t count, int64_t index) const;
  // These elements, then those of `other`, which has the same columns.
  Dataset Concatenate(const Dataset& other) const;
  Dataset Map(MapFunction function, MapOptions options = {}) const;
  // The elements for which the function is true. Evaluated by several threads at once; the order
  // stays when deterministic.
  Dataset Filter(FilterFunction predicate, FilterOptions options = {}) const;
  // Adds each element's number in this pass, from `start` on: int64 column `index`. An element that
  // fails before it and is left out by IgnoreErrors behind it keeps its number.
  Dataset Enumerate(int64_t start = 0, EnumerateOptions options = {}) const;
  // Adds a seed for each element, column `seed` (uint32[2], the keys that random operations on the
  // device take): a function of the iterator's seed, the epoch and the element's number in this
  // pass. What is drawn from it is the same for any number of threads, after a restart and on any
  // number of machines.
  Dataset RandomSeed(RandomSeedOptions options = {}) const;
  // Map with a state, which begins as `initial_state` in each pass; its names and types stay,
  // shapes may change.
  Dataset Scan(base::NamedArrays initial_state, ScanFunction function,
               MapOptions options = {}) const;
  // Leaves out elements whose computation failed: a record that is no Example, an image that cannot
  // be decoded, a function (Map, Filter, Scan) that gave an error. They are counted, and the first
  // few are told, in Iterator::Stats; IteratorOptions.on_skipped gets them all. One more than
  // `max_errors` (or than the IteratorOptions allow) is an error: that element's. What
  // is not one element's fault is never left out: a file that cannot be opened or read, a damaged
  // shard (TfRecordOptions::skip_damaged is for those). Behind a Batch an element is a batch, and
  // one bad row costs all of it: let it stand before. Elements that a Take before it counted count.
  Dataset IgnoreErrors(IgnoreErrorsOptions options = {}) const;
  // Keeps all elements in memory once they have been read to the end, for all iterators of this
  // dataset and its copies. Iterators made before that read the input themselves. What is kept is
  // charged to IteratorOptions::memory_bytes; more than that is an error.
  //
  // A failed element is stored as its error, in its position: every later pass returns the same
  // elements and the same errors as the first, and IgnoreErrors skips the same ones. It is not
  // computed again. A cache in a folder and a Snapshot do the same, and FromSnapshot returns these
  // errors too. (A pass with errors reaches its end only with IgnoreErrors after the cache.)
  //
  // With a folder they are kept on a local disk, for later runs too: the first pass to the end
  // writes the elements into `folder` (cache.manifest and cache-*.tfrec, checksummed); they are
  // there only when all are. A cache of another pipeline is refused, one that a killed run left
  // unfinished, or whose files or arrays have changed since, is made anew. What a function of Map
  // or FromGenerator does is not seen: give it another .name, or remove the folder, when it
  // changes. Of several programs one writes, and the others read the input themselves meanwhile.
  //
  // With memory_first as well, a pass in which they fill three quarters of the memory gives them
  // back, the next pass stores them in the folder, and from then on they are read from there.
  Dataset Cache(std::string folder = "", CacheOptions options = {}) const;
  // The same as shards in a folder of any file system (snapshot.manifest and snapshot-*.tfrec), to
  // be read by other machines too. In an object store nobody can see whether another program is
  // writing: both then do, and the last manifest counts; files of a killed run stay there.
  Dataset Snapshot(std::string folder, SnapshotOptions options = {}) const;
  // Has up to `count` elements ready ahead of the reader. kAuto: begins with 2, and more when the
  // reader waits although they had been ready at times (tuner.h).
  static constexpr int64_t kAuto = 0;
  Dataset Prefetch(int64_t count = kAuto) const;

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
  // How many elements one pass gives, where that can be told without computing any; otherwise
  // kUnknownCardinality (behind Filter, IgnoreErrors, Unbatch; of text), or kInfiniteCardinality.
  // Of `options`, file_system and host count. TFRecord shards are counted by the indices
  // beside them (record/tfrecord_index.h), which pack writes and global_shuffle makes.
  absl::StatusOr<int64_t> Cardinality(const IteratorOptions& options = {}) const;
  // Of one element. Empty after a mistake in the description.
  const ElementSpec& spec() const;
  // The first mistake in the description, with its stage.
  const absl::Status& status() const { return status_; }
  // One stage a line, in the order in which elements go through them. The inputs of a stage that
  // has several stand before it, indented, each under a line "input 0:".
  std::string ToString() const;
  // The same as a picture: `dot -Tsvg`.
  std::string Dot() const;

  // How a Dataset is held: a tree that grows at its root. For the plan.
  struct Description {
    std::shared_ptr<const Stage> stage;
    std::vector<std::shared_ptr<const Description>> inputs;
    ElementSpec spec;
  };
  const Description& description() const { return *description_; }
  const std::shared_ptr<const Description>& shared_description() const { return description_; }

 private:
  Dataset() = default;
  static Dataset Make(std::shared_ptr<const Stage> stage, std::vector<Dataset> inputs);
  // What one of several machines runs (IteratorOptions.host).
  absl::StatusOr<Dataset> OfHost(const HostShard& host) const;
  // Checks that the batches are the same on the number of machines of the state and of the options.
  absl::Status CheckSameBatches(const IteratorOptions& options) const;

  std::shared_ptr<const Description> description_;
  absl::Status status_;
};

}  // namespace penstock::data
