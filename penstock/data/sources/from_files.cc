#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/sources/file_interleave.h"
#include "penstock/data/sources/files.h"
#include "penstock/data/sources/files_node.h"
#include "penstock/data/sources/small_files.h"
#include "penstock/data/sources/source_files.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/io/file_system.h"

namespace penstock::data {
namespace {

// When automatic.
constexpr int64_t kReadsAtOnce = 16;
constexpr int kMaxParallelReads = kObjectStoreRequests;
constexpr int64_t kFileReadAheadBytes = 2 * kReadAheadBytes;

class PathOrigin : public OriginSource {
 public:
  explicit PathOrigin(std::shared_ptr<const std::string> path) : path_(std::move(path)) {}
  std::string At(int64_t) const override { return *path_; }

 private:
  const std::shared_ptr<const std::string> path_;
};

BlockPtr ToBlock(std::string path, std::string bytes) {
  struct File {
    std::string path, bytes;
    absl::string_view views[2];
  };
  const auto file = std::make_shared<File>(File{std::move(path), std::move(bytes), {}});
  file->views[0] = file->path;
  file->views[1] = file->bytes;
  auto block = std::make_shared<Block>();
  block->rows = 1;
  for (const absl::string_view& view : file->views) {
    block->columns.emplace_back(base::Array::View(base::DType::kString, {1}, &view, file));
  }
  block->origins.Append(
      std::make_shared<PathOrigin>(std::shared_ptr<const std::string>(file, &file->path)), 0, 1);
  return block;
}

class FromFilesNode : public Node {
 public:
  FromFilesNode(const NodeContext& context, std::vector<std::string> files, FileOptions options,
                std::shared_ptr<SmallFilesHint> small_files)
      : Node(context, nullptr),
        small_files_(std::move(small_files)),
        file_system_(context.file_system),
        files_(std::move(files)),
        meter_(engine_, counters_),
        reservation_(context.memory),
        reads_at_once_(ReadsKnob(context, options,
                                 // Local and in memory a request costs nothing worth hiding.
                                 AnyInObjectStore(files_) ? kObjectStoreRequests : kReadsAtOnce)),
        read_ahead_(ReadAheadKnob(context, options.read_ahead_bytes, kFileReadAheadBytes)) {
    counters_.work = StageWork::kIo;
    counters_.prefetch_unit = "bytes";
  }

  bool IsNearEnd() const override { return next_file_ == files_.size(); }
  void BeginReading() override { DoAdvance(); }

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    // Those being read already are taken in turn.
    if (!reads_.empty()) return Node::DoSkip(rows);
    const int64_t part = std::min<int64_t>(*rows, files_.size() - next_file_);
    next_file_ += part;
    *rows -= part;
    return *rows > 0 ? Poll::kEnd : Poll::kReady;
  }

  void DoAdvance() override {
    counters_.parallelism = reads_at_once_->value();
    counters_.prefetch_limit = read_ahead_->value();
    while (next_file_ < files_.size() && (reads_.empty() || CanReadAhead())) {
      auto read = std::make_shared<FileRead>();
      read->charge = MemoryCharge(memory_, mean_bytes());
      reads_.push_back(read);
      engine_.Io([read, path = files_[next_file_++], files = file_system_, engine = &engine_,
                  counters = &counters_, small_files = small_files_] {
        const double begin = engine->Now();
        double opened = begin;
        auto bytes = Read(*files, path, *engine, &opened);
        const double end = engine->Now();
        counters->AddBusy(begin, end);
        if (bytes.ok() && small_files != nullptr) {
          small_files->Count(opened - begin, end - opened, bytes->size(), *counters);
        }
        read->status = bytes.status();
        if (bytes.ok()) {
          read->bytes = static_cast<int64_t>(bytes->size());
          counters->bytes.fetch_add(read->bytes, std::memory_order_relaxed);
          read->block = ToBlock(path, *std::move(bytes));
          read->charge.Set(read->bytes);
          read->block->charge = std::move(read->charge);
        }
        read->done = true;
        engine->Wake();
      });
    }
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    PENSTOCK_RETURN_IF_ERROR(memory_status_);
    const int64_t before = out->size();
    for (DoAdvance(); out->size() - before < max_rows; DoAdvance()) {
      const auto read = FirstDone();
      if (read == reads_.end()) break;
      if (!(*read)->status.ok()) {
        // Preceding rows are returned first.
        if (out->size() > before) return Poll::kReady;
        return (*read)->status;
      }
      overtaken_ = read == reads_.begin() ? 0 : overtaken_ + 1;
      out->Append((*read)->block, 0, 1);
      Count((*read)->bytes);
      reads_.erase(read);
    }
    if (out->size() > before) return Answer(Poll::kReady);
    return Answer(reads_.empty() ? Poll::kEnd : Poll::kPending);
  }

 private:
  // Written by its job until done.
  struct FileRead {
    std::atomic<bool> done = false;
    absl::Status status;
    BlockPtr block;
    int64_t bytes = 0;
    MemoryCharge charge;
  };
  using Reads = std::deque<std::shared_ptr<FileRead>>;

  static absl::StatusOr<std::string> Read(io::FileSystem& files, const std::string& path,
                                          const Engine& engine, double* opened) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto in, files.OpenInput(path));
    *opened = engine.Now();
    return io::ReadAll(*in);
  }

  Poll Answer(Poll poll) {
    meter_.Set(poll == Poll::kPending ? WaitMeter::kInput : WaitMeter::kNothing);
    return poll;
  }

  static std::shared_ptr<const Knob> ReadsKnob(const NodeContext& context,
                                               const FileOptions& options, int64_t start) {
    const KnobOptions knob = {
        .what = "files read in parallel", .initial = start, .max = kMaxParallelReads};
    if (options.parallel_files == 0) return context.MakeKnob(knob);
    return std::make_shared<const Knob>(
        KnobOptions{.what = knob.what, .initial = options.parallel_files});
  }

  bool CanReadAhead() {
    if (static_cast<int64_t>(reads_.size()) >= reads_at_once_->value()) return false;
    if (BytesReady() < read_ahead_->value() && memory_->CanReadAhead(mean_bytes())) return true;
    counters_.full.fetch_add(1, std::memory_order_relaxed);
    return false;
  }

  int64_t mean_bytes() const { return files_read_ == 0 ? 0 : bytes_read_ / files_read_; }

  // A file that was read and is passed on.
  void Count(int64_t bytes) {
    ++files_read_;
    bytes_read_ += bytes;
    memory_status_ = reservation_.Set(std::max(reservation_.bytes(), bytes));
  }

  int64_t BytesReady() const {
    int64_t bytes = 0;
    for (const auto& read : reads_) bytes += read->done ? read->bytes : 0;
    return bytes;
  }

  Reads::iterator FirstDone() {
    const auto end =
        engine_.MayReorder(overtaken_) || reads_.empty() ? reads_.end() : reads_.begin() + 1;
    const auto it = std::find_if(reads_.begin(), end, [](const auto& r) { return r->done.load(); });
    return it == end ? reads_.end() : it;
  }

  const std::shared_ptr<SmallFilesHint> small_files_;  // null if there is no hint
  const std::shared_ptr<io::FileSystem> file_system_;
  const std::vector<std::string> files_;
  WaitMeter meter_;
  MemoryReservation reservation_;
  const std::shared_ptr<const Knob> reads_at_once_;
  const std::shared_ptr<const Knob> read_ahead_;
  absl::Status memory_status_;
  int64_t files_read_ = 0;
  int64_t bytes_read_ = 0;
  size_t next_file_ = 0;
  Reads reads_;        // in flight or done, in the order of the files
  int overtaken_ = 0;  // number of times that the first of them was overtaken
};

struct FromFilesFields {
  std::vector<std::string> patterns = {};
  FileOptions options = {};
};
void Fields(StageFields& f, FromFilesFields& p) {
  f.Reads(&p.patterns);
  f.Value("parallel_files", &p.options.parallel_files);
  f.CheckRange("parallel_files", p.options.parallel_files, 0, kMaxParallelFiles);
  f.Value("shuffle_files", &p.options.shuffle_files);
  f.Value("read_ahead_bytes", &p.options.read_ahead_bytes);
}

class FromFilesStage : public Stage {
 public:
  FromFilesStage(SourceFiles files, FileOptions options,
                 std::shared_ptr<SmallFilesHint> small_files = nullptr)
      : files_(std::move(files)), options_(options), small_files_(std::move(small_files)) {}

  absl::string_view name() const override { return "FromFiles"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, FromFilesFields{files_.names(), options_});
  }
  Varies varies() const override {
    return options_.shuffle_files ? Varies::kOrder : Varies::kNothing;
  }
  std::string Parameters() const override {
    return absl::StrCat(PrintPatterns(files_.names()),
                        ", parallel_files=", PrintParallelFiles(options_.parallel_files),
                        options_.shuffle_files ? ", shuffle files" : "");
  }
  int io_threads() const override { return FilesIoThreads(options_); }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    PENSTOCK_RETURN_IF_ERROR(files_.CheckNotEmpty());
    if (options_.parallel_files < 0 || options_.read_ahead_bytes < 0) {
      return absl::InvalidArgumentError(kCountsAtLeastOne);
    }
    return ElementSpec{{"path", base::DType::kString, {}}, {"bytes", base::DType::kString, {}}};
  }

  absl::StatusOr<std::shared_ptr<const Stage>> Resolve(
      const ResolveContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(SourceFiles found, files_.Resolve(context));
    auto hint = AnyInObjectStore(files_.names()) ? std::make_shared<SmallFilesHint>(files_.names())
                                                 : nullptr;
    return std::make_shared<FromFilesStage>(std::move(found), options_, std::move(hint));
  }

  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const SourceFiles found, files_.Resolve(context));
    return static_cast<int64_t>(found.names().size());
  }

  std::string ResolvedSources() const override { return files_.ResolvedSources(); }
  absl::StatusOr<std::string> SourceFingerprint(const ResolveContext& context) const override {
    return files_.Fingerprint(context);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return MakeFilesNode(context, FilesOfPass(context, files_.names(), options_.shuffle_files),
                         options_, small_files_);
  }

 private:
  const SourceFiles files_;
  const FileOptions options_;
  const std::shared_ptr<SmallFilesHint> small_files_;
};

}  // namespace

std::unique_ptr<Node> MakeFilesNode(const NodeContext& context, std::vector<std::string> files,
                                    const FileOptions& options,
                                    std::shared_ptr<SmallFilesHint> small_files) {
  return std::make_unique<FromFilesNode>(context, std::move(files), options,
                                         std::move(small_files));
}

int FilesIoThreads(const FileOptions& options) {
  return options.parallel_files == 0 ? kMaxParallelReads : options.parallel_files;
}

Dataset Dataset::FromFiles(std::vector<std::string> patterns, FileOptions options) {
  return From(std::make_shared<FromFilesStage>(SourceFiles(std::move(patterns)), options));
}

absl::StatusOr<Dataset> ReadFromFiles(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<FromFilesFields>(in));
  return Dataset::FromFiles(std::move(p.patterns), p.options);
}

}  // namespace penstock::data
