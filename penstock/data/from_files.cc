#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/files.h"
#include "penstock/data/small_files.h"
#include "penstock/data/stage.h"
#include "penstock/io/file_system.h"

namespace penstock::data {
namespace {

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
                std::shared_ptr<SmallFiles> small_files)
      : Node(context, nullptr),
        options_(options),
        small_files_(std::move(small_files)),
        file_system_(context.file_system),
        files_(std::move(files)),
        meter_(engine_, counters_) {}

  absl::StatusOr<Poll> Skip(int64_t* rows) override {
    // Those being read already are taken in turn.
    if (!reads_.empty()) return Node::Skip(rows);
    const int64_t part = std::min<int64_t>(*rows, files_.size() - next_file_);
    next_file_ += part;
    *rows -= part;
    return *rows > 0 ? Poll::kEnd : Poll::kReady;
  }

  void Advance() override {
    while (next_file_ < files_.size() &&
           static_cast<int>(reads_.size()) < options_.parallel_files &&
           BytesReady() < options_.read_ahead_bytes) {
      auto read = std::make_shared<FileRead>();
      reads_.push_back(read);
      engine_.Io([read, path = files_[next_file_++], files = file_system_, engine = &engine_,
                  counters = &counters_, small_files = small_files_] {
        const double begin = engine->Now();
        double opened = begin;
        auto bytes = Read(*files, path, *engine, &opened);
        const double end = engine->Now();
        StageCounters::AddSeconds(counters->busy_ns, end - begin);
        if (bytes.ok() && small_files != nullptr) {
          small_files->Count(opened - begin, end - opened, bytes->size(), *counters);
        }
        read->status = bytes.status();
        if (bytes.ok()) {
          read->bytes = static_cast<int64_t>(bytes->size());
          counters->bytes.fetch_add(read->bytes, std::memory_order_relaxed);
          read->block = ToBlock(path, *std::move(bytes));
        }
        read->done = true;
        engine->Wake();
      });
    }
  }

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, Rows* out) override {
    const int64_t before = out->size();
    for (Advance(); out->size() - before < max_rows; Advance()) {
      const auto read = FirstDone();
      if (read == reads_.end()) break;
      if (!(*read)->status.ok()) {
        // Rows before it go first.
        if (out->size() > before) return Poll::kReady;
        return (*read)->status;
      }
      overtaken_ = read == reads_.begin() ? 0 : overtaken_ + 1;
      out->Append((*read)->block, 0, 1);
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

  int64_t BytesReady() const {
    int64_t bytes = 0;
    for (const auto& read : reads_) bytes += read->done ? read->bytes : 0;
    return bytes;
  }

  Reads::iterator FirstDone() {
    const auto end =
        engine_.MayOvertake(overtaken_) || reads_.empty() ? reads_.end() : reads_.begin() + 1;
    const auto it = std::find_if(reads_.begin(), end, [](const auto& r) { return r->done.load(); });
    return it == end ? reads_.end() : it;
  }

  const FileOptions options_;
  const std::shared_ptr<SmallFiles> small_files_;  // null where there is nothing to say
  const std::shared_ptr<io::FileSystem> file_system_;
  const std::vector<std::string> files_;
  WaitMeter meter_;
  size_t next_file_ = 0;
  Reads reads_;        // under way or done, in the order of the files
  int overtaken_ = 0;  // how often the first of them was
};

class FromFilesStage : public Stage {
 public:
  FromFilesStage(std::vector<std::string> patterns, FileOptions options,
                 std::shared_ptr<SmallFiles> small_files = nullptr)
      : patterns_(std::move(patterns)), options_(options), small_files_(std::move(small_files)) {
    if (options_.parallel_files == 0) {
      options_.parallel_files = AreInAnObjectStore(patterns_) ? kObjectStoreRequests : 16;
    }
  }

  absl::string_view name() const override { return "FromFiles"; }
  std::string Parameters() const override {
    return absl::StrCat(PrintPatterns(patterns_), ", parallel_files=", options_.parallel_files,
                        options_.shuffle_files ? ", shuffle files" : "");
  }
  int io_threads() const override { return options_.parallel_files; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    if (patterns_.empty()) return absl::InvalidArgumentError("the list of files is empty");
    if (options_.parallel_files < 1 || options_.read_ahead_bytes < 1) {
      return absl::InvalidArgumentError("options that count must be at least 1");
    }
    return ElementSpec{{"path", base::DType::kString, {}}, {"bytes", base::DType::kString, {}}};
  }

  absl::StatusOr<std::shared_ptr<const Stage>> LookUp(const LookUpContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<std::string> files,
                              FindFiles(*context.file_system, patterns_));
    return std::make_shared<FromFilesStage>(
        std::move(files), options_,
        AreInAnObjectStore(patterns_) ? std::make_shared<SmallFiles>(patterns_) : nullptr);
  }

  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const LookUpContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                              FindFiles(*context.file_system, patterns_));
    return static_cast<int64_t>(files.size());
  }

  std::string Found() const override { return absl::StrJoin(patterns_, "\n"); }
  absl::StatusOr<std::string> SourceState(const LookUpContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                              FindFiles(*context.file_system, patterns_));
    return FilesState(*context.file_system, files);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    std::vector<std::string> files = patterns_;
    if (options_.shuffle_files) ShuffleFiles(base::MixSeeds(context.seed, context.epoch), files);
    return std::make_unique<FromFilesNode>(context, std::move(files), options_, small_files_);
  }

 private:
  const std::vector<std::string> patterns_;  // files, once looked up
  FileOptions options_;
  const std::shared_ptr<SmallFiles> small_files_;
};

}  // namespace

Dataset Dataset::FromFiles(std::vector<std::string> patterns, FileOptions options) {
  return From(std::make_shared<FromFilesStage>(std::move(patterns), options));
}

}  // namespace penstock::data
