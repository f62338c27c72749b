// Cache(folder) and Snapshot: a pass either reads the elements that an earlier run stored
// (stored_rows.h), or stores those of its input on their way to the reader.
#include "penstock/data/cache/cache_folder.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/cache/stored_rows.h"
#include "penstock/data/dataset.h"
#include "penstock/data/sources/file_interleave.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/io/local/local_file_system.h"
#include "penstock/io/uri.h"

namespace penstock::data {
namespace {

// Of rows that are stored together.
constexpr int64_t kChunkBytes = 1 << 20;
// Maximum number of rows taken from the input and not yet passed on.
constexpr int64_t kMaxRowsInside = 128;

// One stored unit: rows, or the error of a failed element. The error is stored in the element's
// position, so that every pass returns what the input returned.
struct Portion {
  RowRefs rows;
  absl::Status error;  // RecoverableError, if there are no rows
};

// Queue of portions that are written to the file and then passed to the reader, which receives them
// only after they are written, because it may write to them. Jobs write, one at a time.
class Filling : public std::enable_shared_from_this<Filling> {
 public:
  Filling(Engine& engine, StageCounters& counters, std::unique_ptr<StoredRowsWriter> writer)
      : engine_(engine), counters_(counters), writer_(std::move(writer)) {}

  void Write(Portion portion) {
    std::lock_guard lock(mutex_);
    to_write_.push_back(std::move(portion));
    Run();
  }
  void Publish() {
    std::lock_guard lock(mutex_);
    publish_ = true;
    Run();
  }
  // Appends the written portions to `portions`; returns the error if there is nothing more to
  // append.
  absl::Status TakeWritten(std::deque<Portion>* portions) {
    std::lock_guard lock(mutex_);
    for (; !written_.empty(); written_.pop_front()) {
      portions->push_back(std::move(written_.front()));
    }
    return portions->empty() ? status_ : absl::OkStatus();
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
    std::optional<Portion> portion;  // nullopt: all are written
    {
      std::lock_guard lock(mutex_);
      if (!status_.ok() || (to_write_.empty() && !publish_)) {
        running_ = false;
        return false;
      }
      if (!to_write_.empty()) {
        portion = std::move(to_write_.front());
        to_write_.pop_front();
      } else {
        publish_ = false;
      }
    }
    const double begin = engine_.Now();
    const absl::Status status = portion.has_value() ? Store(*portion) : writer_->Publish();
    counters_.AddBusy(begin, engine_.Now());
    {
      std::lock_guard lock(mutex_);
      status_ = status;
      if (status.ok() && !portion.has_value()) published_ = true;
      if (status.ok() && portion.has_value()) written_.push_back(*std::move(portion));
      if (published_) writer_ = nullptr;  // unlocks
    }
    engine_.Wake();
    return true;
  }

  absl::Status Store(const Portion& portion) {
    return portion.error.ok() ? writer_->Append(portion.rows) : writer_->AppendError(portion.error);
  }

  Engine& engine_;
  StageCounters& counters_;
  std::unique_ptr<StoredRowsWriter> writer_;  // the job's
  std::atomic<bool> published_ = false;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Portion> to_write_;
  std::deque<Portion> written_;
  bool publish_ = false;
  bool running_ = false;
  absl::Status status_;
};

// ---- The stage ----

// Mode of a pass, determined by a job. Neither: it reads the input, because another process is
// writing.
struct Opening {
  std::atomic<bool> done = false;
  absl::Status status;
  std::optional<std::vector<std::string>> files;  // are read
  std::unique_ptr<StoredRowsWriter> writer;       // is filled

  absl::Status Open(const std::shared_ptr<io::FileSystem>& fs, const StoredRowsKey& key,
                    int64_t shard_bytes) {
    PENSTOCK_ASSIGN_OR_RETURN(files, FindStoredRows(*fs, key));
    if (files.has_value()) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(writer, StoredRowsWriter::Create(fs, key, shard_bytes));
    if (writer == nullptr) return absl::OkStatus();
    // Another process may have finished between the two checks.
    PENSTOCK_ASSIGN_OR_RETURN(files, FindStoredRows(*fs, key));
    if (files.has_value()) writer = nullptr;
    return absl::OkStatus();
  }
};

class CacheFolderNode : public Node {
 public:
  CacheFolderNode(const NodeContext& context, std::shared_ptr<io::FileSystem> fs,
                  std::shared_ptr<const StoredRowsKey> key, int64_t shard_bytes,
                  StageCounters& read_counters)
      : Node(context, nullptr),
        spec_(context.spec),
        make_input_(context.make_input),
        fs_(std::move(fs)),
        key_(std::move(key)),
        shard_bytes_(shard_bytes),
        read_counters_(read_counters) {}

  // The next pass reads the file that this one writes.
  bool IsNearEnd() const override { return false; }
  void BeginReading() override {}

 protected:
  void DoAdvance() override {
    if (opening_ == nullptr) {
      opening_ = std::make_shared<Opening>();
      engine_.Io([opening = opening_, fs = fs_, key = key_, shard_bytes = shard_bytes_,
                  engine = &engine_] {
        opening->status = opening->Open(fs, *key, shard_bytes);
        opening->done = true;
        engine->Wake();
      });
    }
    if (input_ != nullptr) input_->Advance();
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    DoAdvance();
    if (!opening_->done) return Poll::kPending;
    if (input_ == nullptr) PENSTOCK_RETURN_IF_ERROR(Begin());
    if (filling_ == nullptr) return input_->Next(max_rows, out);
    Fill(max_rows);
    return TakeWritten(max_rows, out);
  }

 private:
  absl::Status Begin() {
    PENSTOCK_RETURN_IF_ERROR(opening_->status);
    if (!opening_->files.has_value()) {
      // The first epoch is stored, whichever is read first.
      PENSTOCK_ASSIGN_OR_RETURN(input_, make_input_(0, /*epoch=*/0));
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
                                 .kernels = nullptr,
                                 .memory = memory_};
    const auto open = [key = key_](io::FileSystem& fs, const std::string& file) {
      return OpenStoredRows(fs, file, key->spec);
    };
    input_ = MakeFileInterleave(context, *opening_->files, open, {.parallel_files = 1});
    return absl::OkStatus();
  }

  // Passes rows to the writer, as many as are requested.
  void Fill(int64_t max_rows) {
    const int64_t row_limit = std::min(max_rows, kMaxRowsInside);
    while (!input_ended_ && input_status_.ok() && rows_inside_ < row_limit) {
      RowRefs rows;
      const absl::StatusOr<Poll> poll = input_->Next(row_limit - rows_inside_, &rows);
      if (!poll.ok() && IsRecoverable(poll.status())) {
        ++rows_inside_;
        filling_->Write({.rows = {}, .error = poll.status()});
        continue;
      }
      if (!poll.ok()) {
        input_status_ = poll.status();
      } else if (*poll == Poll::kEnd) {
        input_ended_ = true;
      } else if (*poll == Poll::kPending) {
        break;
      }
      rows_inside_ += rows.size();
      const int64_t row_bytes = rows.empty() ? 1 : std::max<int64_t>(rows.Bytes() / rows.size(), 1);
      const int64_t chunk_rows = std::max<int64_t>(kChunkBytes / row_bytes, 1);
      while (!rows.empty()) {
        RowRefs chunk;
        rows.MoveFront(std::min(rows.size(), chunk_rows), &chunk);
        filling_->Write({.rows = std::move(chunk), .error = absl::OkStatus()});
      }
    }
    if (input_ended_ && !publishing_) {
      publishing_ = true;
      filling_->Publish();
    }
  }

  absl::StatusOr<Poll> TakeWritten(int64_t max_rows, RowRefs* out) {
    const absl::Status status = filling_->TakeWritten(&written_);
    if (!written_.empty() && !written_.front().error.ok()) {
      const absl::Status error = std::move(written_.front().error);
      written_.pop_front();
      --rows_inside_;
      return error;
    }
    int64_t taken = 0;
    while (taken < max_rows && !written_.empty() && written_.front().error.ok()) {
      RowRefs& front = written_.front().rows;
      const int64_t rows = std::min(max_rows - taken, front.size());
      front.MoveFront(rows, out);
      taken += rows;
      if (front.empty()) written_.pop_front();
    }
    rows_inside_ -= taken;
    if (taken > 0) return Poll::kReady;
    if (!status.ok()) return base::WithContext(status, "the elements cannot be stored");
    if (rows_inside_ == 0 && !input_status_.ok()) return input_status_;
    // Not by published() alone: the last portions may have been written since TakeWritten.
    return rows_inside_ == 0 && filling_->published() ? Poll::kEnd : Poll::kPending;
  }

  const ElementSpec& spec_;
  const std::function<absl::StatusOr<std::unique_ptr<Node>>(int, int64_t)> make_input_;
  const std::shared_ptr<io::FileSystem> fs_;
  const std::shared_ptr<const StoredRowsKey> key_;
  const int64_t shard_bytes_;
  StageCounters& read_counters_;

  std::shared_ptr<Opening> opening_;
  std::shared_ptr<Filling> filling_;
  std::deque<Portion> written_;
  int64_t rows_inside_ = 0;  // of the input, not yet passed on
  bool input_ended_ = false;
  bool publishing_ = false;
  absl::Status input_status_;
};

absl::StatusOr<std::string> SourcesOf(const Dataset::Description& description,
                                      const ResolveContext& context) {
  std::string out;
  for (const auto& input : description.inputs) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string sources, SourcesOf(*input, context));
    absl::StrAppend(&out, sources);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string state, description.stage->SourceFingerprint(context));
  if (!state.empty()) absl::StrAppend(&out, description.stage->name(), " ", state, "\n");
  return out;
}

// Cache(folder) and Snapshot.
struct StoreOptions {
  absl::string_view name;
  std::string kind;
  bool only_local = false;
  int64_t shard_bytes = 0;
};

struct CacheFields {
  std::string folder = {};
  bool memory_first = false;
  int64_t shard_bytes = SnapshotOptions().shard_bytes;
  bool at_worker = false, on_device = false;
};
void Fields(StageFields& f, CacheFields& p) {
  f.Writes(&p.folder);
  f.Value("memory_first", &p.memory_first);
  f.Value("shard_bytes", &p.shard_bytes);
  f.Value("at_worker", &p.at_worker);
  f.Value("on_device", &p.on_device);
}

class CacheFolderStage : public Stage {
 public:
  CacheFolderStage(std::string folder, StoreOptions options, std::string pipeline,
                   std::shared_ptr<const Dataset::Description> input)
      : folder_(std::move(folder)),
        options_(std::move(options)),
        pipeline_(std::move(pipeline)),
        input_(std::move(input)) {}

  absl::string_view name() const override { return options_.name; }
  absl::Status WriteFields(StageFields& out) const override {
    CacheFields fields = {.folder = folder_};
    if (!options_.only_local) fields.shard_bytes = options_.shard_bytes;
    return Write(out, std::move(fields));
  }
  std::string Parameters() const override { return folder_; }
  // One more thread reads the next file.
  int io_threads() const override { return 2; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(folder_));
    if (options_.only_local && !uri.is_local()) {
      return absl::InvalidArgumentError(
          "a cache is stored on a local disk; Snapshot stores elements on any file system");
    }
    if (options_.shard_bytes < 1) {
      return absl::InvalidArgumentError("shard_bytes must be at least 1");
    }
    for (const ColumnSpec& column : inputs[0].columns()) {
      if (base::BitWidth(column.dtype) % 8 != 0 || column.shape.rank() == base::kMaxRank) {
        return absl::InvalidArgumentError(
            absl::StrCat("column ", column.ToString(),
                         " cannot be stored: its type is smaller than a byte, or it has too many "
                         "dimensions"));
      }
    }
    return inputs[0];
  }

  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    return inputs[0];
  }

  absl::StatusOr<std::shared_ptr<const Stage>> Resolve(
      const ResolveContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(folder_));
    auto found = std::make_shared<CacheFolderStage>(folder_, options_, pipeline_, input_);
    found->fs_ = uri.is_local() ? io::MakeLocalFileSystem() : context.file_system;
    PENSTOCK_ASSIGN_OR_RETURN(std::string sources, SourcesOf(*input_, context));
    found->key_ = std::make_shared<const StoredRowsKey>(
        StoredRowsKey{.kind = options_.kind,
                      .folder = uri.is_local() ? uri.path : folder_,
                      .pipeline = pipeline_,
                      .spec = input_->spec,
                      .sources = std::move(sources)});
    // Errors are reported before anything is read.
    PENSTOCK_RETURN_IF_ERROR(FindStoredRows(*found->fs_, *found->key_).status());
    return found;
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return std::make_unique<CacheFolderNode>(context, fs_, key_, options_.shard_bytes,
                                             read_counters_);
  }

 private:
  const std::string folder_;
  const StoreOptions options_;
  const std::string pipeline_;
  const std::shared_ptr<const Dataset::Description> input_;
  // Once looked up.
  std::shared_ptr<io::FileSystem> fs_;
  std::shared_ptr<const StoredRowsKey> key_;
  mutable StageCounters read_counters_;  // counters of the node that reads the files, not reported
};

}  // namespace

std::shared_ptr<const Stage> MakeCacheFolder(const Dataset& input, std::string folder) {
  StoreOptions options = {
      .name = "Cache", .kind = "cache", .only_local = true, .shard_bytes = INT64_MAX};
  return std::make_shared<CacheFolderStage>(std::move(folder), std::move(options), input.ToString(),
                                            input.shared_description());
}

absl::StatusOr<std::string> Dataset::SourceFingerprint(const IteratorOptions& options) const {
  return SourcesOf(*description_,
                   {.file_system = options.file_system != nullptr ? options.file_system
                                                                  : io::FileSystem::Default(),
                    .exact = true});
}

Dataset Dataset::Snapshot(std::string folder, SnapshotOptions options) const {
  const StoreOptions store = {
      .name = "Snapshot", .kind = "snapshot", .shard_bytes = options.shard_bytes};
  return Then(
      std::make_shared<CacheFolderStage>(std::move(folder), store, ToString(), description_));
}

absl::StatusOr<Dataset> ReadSnapshot(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<CacheFields>(in));
  return inputs[0].Snapshot(std::move(p.folder), {.shard_bytes = p.shard_bytes});
}

absl::Status WriteCacheFields(StageFields& out, std::string folder, bool memory_first,
                              CacheHome home) {
  return Write(out, CacheFields{.folder = std::move(folder),
                                .memory_first = memory_first,
                                .at_worker = home == CacheHome::kWorker,
                                .on_device = home == CacheHome::kDevice});
}

absl::StatusOr<Dataset> ReadCache(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<CacheFields>(in));
  if (p.at_worker) return inputs[0].Cache("worker");
  if (p.on_device) return inputs[0].Cache("device");
  // A folder of that name was written as a path.
  if (p.folder == "worker" || p.folder == "device") p.folder = absl::StrCat("./", p.folder);
  return inputs[0].Cache(std::move(p.folder), {.memory_first = p.memory_first});
}

}  // namespace penstock::data
