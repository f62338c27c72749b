// Cache(folder). A folder holds
//
//   cache.manifest       one record (TFRecord, so with a checksum): what is cached, and in which
//   file cache-<random>.tfrec the elements, some of them in each record (rows_format.h) cache.lock
//   locked (flock) by the one that writes; the kernel unlocks it for the dead
//
// The manifest is published last, whole or not at all. Without it, with one that cannot be read, or
// names a file of another size, there is no cache.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <sys/file.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/files_in_turns.h"
#include "penstock/data/rows_format.h"
#include "penstock/data/stage.h"
#include "penstock/io/file_descriptor.h"
#include "penstock/io/local_file_system.h"
#include "penstock/io/local_output_stream.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock::data {
namespace {

constexpr int64_t kFormat = 1;
constexpr absl::string_view kManifest = "cache.manifest";
constexpr absl::string_view kLock = "cache.lock";
constexpr absl::string_view kPrefix = "cache-";
constexpr absl::string_view kSuffix = ".tfrec";
constexpr int64_t kChunkRows = 1024;
constexpr int64_t kChunkBytes = 1 << 20;
// An element is as large as it is.
constexpr int64_t kMostRecordBytes = int64_t{1} << 40;

// What a cache is of.
struct CacheKey {
  std::string folder;
  std::string pipeline;
  ElementSpec spec;
  std::string sources;
};

struct Manifest {
  std::string file;
  int64_t file_bytes = 0;
  int64_t elements = 0;
  std::string pipeline, spec, sources;
};

std::string In(const CacheKey& key, absl::string_view name) {
  return io::JoinPath(key.folder, name);
}

// ---- The manifest ----

absl::Status WriteManifest(io::FileSystem& fs, const CacheKey& key, const Manifest& manifest) {
  record::ExampleBuilder example;
  example.SetInt64("format", kFormat);
  example.SetBytes("file", manifest.file);
  example.SetInt64("file_bytes", manifest.file_bytes);
  example.SetInt64("elements", manifest.elements);
  example.SetBytes("pipeline", manifest.pipeline);
  example.SetBytes("spec", manifest.spec);
  example.SetBytes("sources", manifest.sources);
  PENSTOCK_ASSIGN_OR_RETURN(auto writer, record::TfRecordWriter::Create(fs, In(key, kManifest)));
  PENSTOCK_RETURN_IF_ERROR(writer->Append(example.Serialize()));
  return writer->Close();
}

bool GetString(const record::FeatureMap& features, const std::string& name, std::string* out) {
  const auto it = features.find(name);
  if (it == features.end() || it->second.dtype() != base::DType::kString ||
      it->second.num_elements() != 1) {
    return false;
  }
  *out = std::string(it->second.data<absl::string_view>()[0]);
  return true;
}

bool GetInt64(const record::FeatureMap& features, const std::string& name, int64_t* out) {
  const auto it = features.find(name);
  if (it == features.end() || it->second.dtype() != base::DType::kI64 ||
      it->second.num_elements() != 1) {
    return false;
  }
  *out = it->second.item<int64_t>();
  return true;
}

// None when there is none that can be read.
std::optional<Manifest> ReadManifest(io::FileSystem& fs, const CacheKey& key) {
  const auto reader = record::TfRecordReader::Open(fs, In(key, kManifest));
  if (!reader.ok()) return std::nullopt;
  const auto block = (*reader)->ReadBlock();
  if (!block.ok() || block->size() != 1) return std::nullopt;
  const auto features = record::ReadExample(block->records[0]);
  Manifest manifest;
  int64_t format = 0;
  if (!features.ok() || !GetInt64(*features, "format", &format) || format != kFormat ||
      !GetString(*features, "file", &manifest.file) ||
      !GetInt64(*features, "file_bytes", &manifest.file_bytes) ||
      !GetInt64(*features, "elements", &manifest.elements) ||
      !GetString(*features, "pipeline", &manifest.pipeline) ||
      !GetString(*features, "spec", &manifest.spec) ||
      !GetString(*features, "sources", &manifest.sources) ||
      absl::StrContains(manifest.file, "/")) {
    return std::nullopt;
  }
  return manifest;
}

absl::Status CheckPipeline(const CacheKey& key, const Manifest& manifest) {
  if (manifest.pipeline == key.pipeline && manifest.spec == key.spec.ToString()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the folder '", key.folder, "' holds the cache of another pipeline:\n", manifest.pipeline,
      "of elements ", manifest.spec, ", but this one is:\n", key.pipeline, "of elements ",
      key.spec.ToString(), "\nGive it another folder, or remove that one"));
}

// The file of the elements; none when they are to be made.
absl::StatusOr<std::optional<std::string>> FindCache(io::FileSystem& fs, const CacheKey& key) {
  const std::optional<Manifest> manifest = ReadManifest(fs, key);
  if (!manifest.has_value()) return std::nullopt;
  PENSTOCK_RETURN_IF_ERROR(CheckPipeline(key, *manifest));
  if (manifest->sources != key.sources) return std::nullopt;
  const std::string file = In(key, manifest->file);
  const auto info = fs.Stat(file);
  if (!info.ok() || info->size != manifest->file_bytes) return std::nullopt;
  return file;
}

// ---- Writing ----

// Removes what runs that were killed, and older caches, have left.
void RemoveLeftovers(const CacheKey& key) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(key.folder, error)) {
    const std::string name = entry.path().filename();
    const bool elements = absl::StartsWith(name, kPrefix) && absl::EndsWith(name, kSuffix);
    if (elements || io::IsUnpublished(name)) std::filesystem::remove(entry.path(), error);
  }
}

class CacheWriter {
 public:
  // None when somebody else is writing.
  static absl::StatusOr<std::unique_ptr<CacheWriter>> Create(std::shared_ptr<io::FileSystem> fs,
                                                             const CacheKey& key) {
    PENSTOCK_RETURN_IF_ERROR(fs->CreateFolder(key.folder));
    const std::string path = In(key, kLock);
    io::FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!lock.valid()) return io::PosixError(errno, "open", path);
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return nullptr;
      return io::PosixError(errno, "lock", path);
    }
    return std::unique_ptr<CacheWriter>(new CacheWriter(std::move(fs), key, std::move(lock)));
  }

  absl::Status Append(const Rows& rows) {
    PENSTOCK_RETURN_IF_ERROR(Start());
    elements_ += rows.size();
    return writer_->Append(SerializeRows(rows, key_.spec));
  }

  absl::Status Publish() {
    PENSTOCK_RETURN_IF_ERROR(Start());
    PENSTOCK_RETURN_IF_ERROR(writer_->Close());
    PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo info, fs_->Stat(In(key_, file_)));
    return WriteManifest(*fs_, key_,
                         {.file = file_,
                          .file_bytes = info.size,
                          .elements = elements_,
                          .pipeline = key_.pipeline,
                          .spec = key_.spec.ToString(),
                          .sources = key_.sources});
  }

 private:
  CacheWriter(std::shared_ptr<io::FileSystem> fs, const CacheKey& key, io::FileDescriptor lock)
      : fs_(std::move(fs)), key_(key), lock_(std::move(lock)) {}

  absl::Status Start() {
    if (writer_ != nullptr) return absl::OkStatus();
    RemoveLeftovers(key_);
    PENSTOCK_ASSIGN_OR_RETURN(writer_, record::TfRecordWriter::Create(*fs_, In(key_, file_)));
    return absl::OkStatus();
  }

  const std::shared_ptr<io::FileSystem> fs_;
  const CacheKey key_;
  const io::FileDescriptor lock_;
  const std::string file_ = absl::StrCat(kPrefix, absl::Hex(base::EntropySeed()), kSuffix);
  std::unique_ptr<record::TfRecordWriter> writer_;
  int64_t elements_ = 0;
};

// Rows on their way into the file, and from there to the reader: he gets them when they are
// written, because then he may write to them. Jobs write, one at a time.
class Filling : public std::enable_shared_from_this<Filling> {
 public:
  Filling(Engine& engine, StageCounters& counters, std::unique_ptr<CacheWriter> writer)
      : engine_(engine), counters_(counters), writer_(std::move(writer)) {}

  void Write(Rows rows) {
    std::lock_guard lock(mutex_);
    to_write_.push_back(std::move(rows));
    Run();
  }
  void Publish() {
    std::lock_guard lock(mutex_);
    publish_ = true;
    Run();
  }
  // Moves what is written to `rows`.
  absl::Status TakeWritten(Rows* rows) {
    std::lock_guard lock(mutex_);
    for (; !written_.empty(); written_.pop_front()) {
      rows->Append(written_.front(), 0, written_.front().size());
    }
    return rows->empty() ? status_ : absl::OkStatus();
  }
  bool published() const { return published_; }

 private:
  // Called with the lock.
  void Run() {
    if (running_ || !status_.ok()) return;
    running_ = true;
    engine_.Io([self = shared_from_this()] {
      while (self->RunOne() && !self->engine_.cancelled()) {
      }
    });
  }

  // False when there was nothing to do.
  bool RunOne() {
    Rows rows;
    {
      std::lock_guard lock(mutex_);
      if (!status_.ok() || (to_write_.empty() && !publish_)) {
        running_ = false;
        return false;
      }
      if (!to_write_.empty()) {
        rows = std::move(to_write_.front());
        to_write_.pop_front();
      } else {
        publish_ = false;
      }
    }
    const double begin = engine_.Now();
    const absl::Status status = rows.empty() ? writer_->Publish() : writer_->Append(rows);
    StageCounters::AddSeconds(counters_.busy_ns, engine_.Now() - begin);
    {
      std::lock_guard lock(mutex_);
      status_ = status;
      if (status.ok() && rows.empty()) published_ = true;
      if (status.ok() && !rows.empty()) written_.push_back(std::move(rows));
      if (published_) writer_ = nullptr;  // unlocks
    }
    engine_.Wake();
    return true;
  }

  Engine& engine_;
  StageCounters& counters_;
  std::unique_ptr<CacheWriter> writer_;  // the job's
  std::atomic<bool> published_ = false;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Rows> to_write_;
  std::deque<Rows> written_;
  bool publish_ = false;
  bool running_ = false;
  absl::Status status_;
};

// ---- Reading ----

class CacheFileReader : public FileReader {
 public:
  CacheFileReader(std::unique_ptr<record::TfRecordReader> reader, ElementSpec spec)
      : reader_(std::move(reader)), spec_(std::move(spec)) {}

  absl::StatusOr<FileBlock> Read() override {
    if (next_ == records_.size()) {
      PENSTOCK_ASSIGN_OR_RETURN(records_, reader_->ReadBlock());
      next_ = 0;
      if (records_.empty()) return FileBlock();
    }
    auto block = ParseRows(records_.records[next_], records_.owner, spec_);
    if (!block.ok()) return base::WithContext(block.status(), records_.Where(next_));
    const auto bytes = static_cast<int64_t>(records_.records[next_++].size());
    return FileBlock{.block = *std::move(block), .bytes = bytes};
  }

 private:
  const std::unique_ptr<record::TfRecordReader> reader_;
  const ElementSpec spec_;
  record::RecordBlock records_;
  int64_t next_ = 0;
};

absl::StatusOr<std::unique_ptr<FileReader>> OpenCacheFile(io::FileSystem& fs,
                                                          const std::string& file,
                                                          const ElementSpec& spec) {
  PENSTOCK_ASSIGN_OR_RETURN(auto reader,
                            record::TfRecordReader::Open(fs, file,
                                                         {.compression = record::Compression::kNone,
                                                          .max_record_bytes = kMostRecordBytes}));
  return std::make_unique<CacheFileReader>(std::move(reader), spec);
}

// ---- The stage ----

// Found out by a job: what this pass does. Neither: it reads the input, and somebody else writes.
struct Opening {
  std::atomic<bool> done = false;
  absl::Status status;
  std::optional<std::string> file;      // is read
  std::unique_ptr<CacheWriter> writer;  // is filled

  absl::Status Open(const std::shared_ptr<io::FileSystem>& fs, const CacheKey& key) {
    PENSTOCK_ASSIGN_OR_RETURN(file, FindCache(*fs, key));
    if (file.has_value()) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(writer, CacheWriter::Create(fs, key));
    if (writer == nullptr) return absl::OkStatus();
    // Somebody may have finished between the two.
    PENSTOCK_ASSIGN_OR_RETURN(file, FindCache(*fs, key));
    if (file.has_value()) writer = nullptr;
    return absl::OkStatus();
  }
};

class CacheFolderNode : public Node {
 public:
  CacheFolderNode(const NodeContext& context, std::shared_ptr<const CacheKey> key,
                  StageCounters& read_counters)
      : Node(context, nullptr),
        spec_(context.spec),
        epoch_(context.epoch),
        make_input_(context.make_input),
        key_(std::move(key)),
        read_counters_(read_counters) {}

  void Advance() override {
    if (opening_ == nullptr) {
      opening_ = std::make_shared<Opening>();
      engine_.Io([opening = opening_, fs = fs_, key = key_, engine = &engine_] {
        opening->status = opening->Open(fs, *key);
        opening->done = true;
        engine->Wake();
      });
    }
    if (input_ != nullptr) input_->Advance();
  }

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, Rows* out) override {
    Advance();
    if (!opening_->done) return Poll::kPending;
    if (input_ == nullptr) PENSTOCK_RETURN_IF_ERROR(Begin());
    if (filling_ == nullptr) return input_->Next(max_rows, out);
    Fill(max_rows);
    return TakeWritten(max_rows, out);
  }

 private:
  absl::Status Begin() {
    PENSTOCK_RETURN_IF_ERROR(opening_->status);
    if (!opening_->file.has_value()) {
      PENSTOCK_ASSIGN_OR_RETURN(input_, make_input_(0, epoch_));
      if (opening_->writer != nullptr) {
        filling_ = std::make_shared<Filling>(engine_, counters_, std::move(opening_->writer));
      }
      return absl::OkStatus();
    }
    const NodeContext context = {.engine = engine_,
                                 .counters = read_counters_,
                                 .spec = spec_,
                                 .file_system = fs_,
                                 .make_input = {},
                                 .chain = nullptr};
    const auto open = [key = key_](io::FileSystem& fs, const std::string& file) {
      return OpenCacheFile(fs, file, key->spec);
    };
    input_ = MakeFilesInTurns(context, {*opening_->file}, open, {.parallel_files = 1});
    return absl::OkStatus();
  }

  // Hands rows to the writer, as many as are asked for.
  void Fill(int64_t max_rows) {
    while (!input_ended_ && input_status_.ok() && rows_inside_ < max_rows) {
      Rows rows;
      const absl::StatusOr<Poll> poll = input_->Next(max_rows - rows_inside_, &rows);
      if (!poll.ok()) {
        input_status_ = poll.status();
      } else if (*poll == Poll::kEnd) {
        input_ended_ = true;
      } else if (*poll == Poll::kPending) {
        break;
      }
      rows_inside_ += rows.size();
      const int64_t row_bytes = rows.empty() ? 1 : std::max<int64_t>(rows.Bytes() / rows.size(), 1);
      const int64_t most = std::clamp<int64_t>(kChunkBytes / row_bytes, 1, kChunkRows);
      while (!rows.empty()) {
        Rows chunk;
        rows.MoveFront(std::min(rows.size(), most), &chunk);
        filling_->Write(std::move(chunk));
      }
    }
    if (input_ended_ && !publishing_) {
      publishing_ = true;
      filling_->Publish();
    }
  }

  absl::StatusOr<Poll> TakeWritten(int64_t max_rows, Rows* out) {
    const absl::Status status = filling_->TakeWritten(&written_);
    if (!written_.empty()) {
      const int64_t rows = std::min(max_rows, written_.size());
      written_.MoveFront(rows, out);
      rows_inside_ -= rows;
      return Poll::kReady;
    }
    if (!status.ok()) return base::WithContext(status, "the cache cannot be written");
    if (rows_inside_ == 0 && !input_status_.ok()) return input_status_;
    return filling_->published() ? Poll::kEnd : Poll::kPending;
  }

  const std::shared_ptr<io::FileSystem> fs_ = io::MakeLocalFileSystem();
  const ElementSpec& spec_;
  const int64_t epoch_;
  const std::function<absl::StatusOr<std::unique_ptr<Node>>(int, int64_t)> make_input_;
  const std::shared_ptr<const CacheKey> key_;
  StageCounters& read_counters_;

  std::shared_ptr<Opening> opening_;
  std::shared_ptr<Filling> filling_;
  Rows written_;
  int64_t rows_inside_ = 0;  // of the input, not yet passed on
  bool input_ended_ = false;
  bool publishing_ = false;
  absl::Status input_status_;
};

absl::StatusOr<std::string> SourcesOf(const Dataset::Description& description,
                                      const LookUpContext& context) {
  std::string out;
  for (const auto& input : description.inputs) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string sources, SourcesOf(*input, context));
    absl::StrAppend(&out, sources);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string state, description.stage->SourceState(context));
  if (!state.empty()) absl::StrAppend(&out, description.stage->name(), " ", state, "\n");
  return out;
}

class CacheFolderStage : public Stage {
 public:
  CacheFolderStage(std::string folder, std::string pipeline,
                   std::shared_ptr<const Dataset::Description> input,
                   std::shared_ptr<const CacheKey> key = nullptr)
      : folder_(std::move(folder)),
        pipeline_(std::move(pipeline)),
        input_(std::move(input)),
        key_(std::move(key)) {}

  absl::string_view name() const override { return "Cache"; }
  std::string Parameters() const override { return folder_; }
  int io_threads() const override { return 1; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(folder_));
    if (!uri.is_local()) {
      return absl::InvalidArgumentError(
          "a cache is kept on a local disk; for an object store make shards with `penstock pack`");
    }
    for (const ColumnSpec& column : inputs[0].columns()) {
      if (base::BitWidth(column.dtype) % 8 != 0 || column.shape.rank() == base::kMaxRank) {
        return absl::InvalidArgumentError(absl::StrCat("column ", column.ToString(),
                                                       " cannot be kept: its type is not of whole "
                                                       "bytes, or it has too many dimensions"));
      }
    }
    return inputs[0];
  }

  absl::StatusOr<std::shared_ptr<const Stage>> LookUp(const LookUpContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(folder_));
    CacheKey key = {.folder = uri.path, .pipeline = pipeline_, .spec = input_->spec, .sources = {}};
    PENSTOCK_ASSIGN_OR_RETURN(key.sources, SourcesOf(*input_, context));
    // What is wrong is said before anything is read.
    PENSTOCK_RETURN_IF_ERROR(FindCache(*io::MakeLocalFileSystem(), key).status());
    return std::make_shared<CacheFolderStage>(folder_, pipeline_, input_,
                                              std::make_shared<const CacheKey>(std::move(key)));
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return std::make_unique<CacheFolderNode>(context, key_, read_counters_);
  }

 private:
  const std::string folder_;
  const std::string pipeline_;
  const std::shared_ptr<const Dataset::Description> input_;
  const std::shared_ptr<const CacheKey> key_;  // once looked up
  mutable StageCounters read_counters_;        // of the node that reads the file, shown nowhere
};

}  // namespace

Dataset Dataset::Cache(std::string folder) const {
  return Then(std::make_shared<CacheFolderStage>(std::move(folder), ToString(), description_));
}

}  // namespace penstock::data
