#include "penstock/pack/convert.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"
#include "penstock/formats/csv.h"
#include "penstock/io/files_elsewhere.h"
#include "penstock/io/local/folder_lock.h"
#include "penstock/io/local/local_output_stream.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/pack/read_input.h"
#include "penstock/pack/records_in_order.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::pack {
namespace {

constexpr int kNetworkThreads = 32;
constexpr char kUnreadableHeader[] = "path,why\n";

class Conversion {
 public:
  Conversion(io::FileSystem& fs, const RecordSource& source, const PackOptions& options)
      : fs_(fs), source_(source), options_(options) {}

  absl::StatusOr<ShardPlan> Run() {
    PENSTOCK_RETURN_IF_ERROR(Begin());
    if (!plan_.finished) {
      PENSTOCK_RETURN_IF_ERROR(WriteShards());
      PENSTOCK_RETURN_IF_ERROR(Finish());
    }
    return std::move(plan_);
  }

 private:
  Job FullJob() const {
    Job job = source_.job();
    if (options_.shards > 0) {
      job.emplace_back("--shards", absl::StrCat(options_.shards));
    } else {
      job.emplace_back("--shard-size", absl::StrCat(options_.shard_bytes));
    }
    if (options_.keep_order) {
      job.emplace_back("--keep-order", "on");
    } else {
      job.emplace_back("--seed", absl::StrCat(options_.seed));
    }
    return job;
  }

  // Starts a new conversion or resumes an interrupted one.
  absl::Status Begin() {
    if (const std::string folder = LocalOut(); !folder.empty()) {
      PENSTOCK_RETURN_IF_ERROR(fs_.CreateFolder(options_.out));
      PENSTOCK_ASSIGN_OR_RETURN(
          lock_,
          io::FolderLock::Acquire(
              folder, absl::StrCat("another process is writing shards to ", io::DisplayName(folder),
                                   "; wait for it to finish, or choose "
                                   "another output folder")));
    }
    if (options_.overwrite) PENSTOCK_RETURN_IF_ERROR(RemoveExistingShards());
    PENSTOCK_ASSIGN_OR_RETURN(std::optional<ShardPlan> earlier, ReadShardPlan(fs_, options_.out));
    if (earlier) return Resume(*std::move(earlier));
    PENSTOCK_RETURN_IF_ERROR(RejectUnknownShards());
    PENSTOCK_RETURN_IF_ERROR(RejectUnknownFiles());
    plan_.job = FullJob();
    PENSTOCK_RETURN_IF_ERROR(fs_.CreateFolder(options_.out));
    return SavePlan();
  }

  // Fails if the plan is not the one that this run saved last: another run has replaced it, and
  // either run may have replaced shards of the other. The empty plan written here stops the other
  // run as well, and makes a later run rewrite all shards.
  absl::Status SavePlan() {
    if (saved_) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool is_ours, IsShardPlan(fs_, options_.out, *saved_));
      if (!is_ours) {
        (void)WriteShardPlan(fs_, options_.out, {.job = plan_.job});
        return absl::AbortedError(absl::StrCat(
            "another process is writing shards to ", io::DisplayName(options_.out),
            ". The folder may contain a mix of its shards and those of this conversion: once no "
            "process writes to it, start over with the overwrite option"));
      }
    }
    PENSTOCK_RETURN_IF_ERROR(WriteShardPlan(fs_, options_.out, plan_));
    saved_ = plan_;
    return absl::OkStatus();
  }

  absl::Status Resume(ShardPlan earlier) {
    const std::string difference = JobDifference(earlier.job, FullJob());
    if (!difference.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          io::DisplayName(options_.out),
          " contains shards made from other inputs or with other options: ", difference,
          ". Repeat the original inputs and options to resume, choose another output folder, or "
          "use "
          "the overwrite option to remove the shards and start over"));
    }
    const int64_t known = earlier.records() + static_cast<int64_t>(earlier.unreadable.size());
    if (earlier.next() > source_.size() || (earlier.finished && known != source_.size())) {
      return absl::DataLossError(
          absl::StrCat(io::DisplayName(io::JoinPath(options_.out, kShardPlanFile)),
                       " is corrupt: it lists ", known, " ", source_.noun(), ", but there are ",
                       source_.size(), "; start over with the overwrite option"));
    }
    plan_ = std::move(earlier);
    PENSTOCK_ASSIGN_OR_RETURN(const std::string damaged,
                              KeepIntactShards(fs_, options_.out, plan_));
    if (!damaged.empty()) {
      Report(absl::StrCat(io::DisplayName(io::JoinPath(options_.out, damaged)),
                          " is missing or has a different size; rewriting it"));
    }
    if (plan_.finished) {
      Report(absl::StrCat(io::DisplayName(options_.out),
                          " was completed by an earlier run; nothing to do"));
      return absl::OkStatus();
    }
    // From here on the folder counts as incomplete, even if this run is killed.
    PENSTOCK_RETURN_IF_ERROR(SavePlan());
    RemoveUnpublished();
    if (plan_.next() > 0) {
      Report(absl::StrCat("resuming after ", plan_.shards.size(), " shards, ", plan_.next(), " of ",
                          source_.size(), " ", source_.noun()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> ExistingShards() {
    absl::StatusOr<std::vector<io::FileInfo>> files = fs_.List(options_.out);
    // A folder counts as missing only if two listings agree.
    if (absl::IsNotFound(files.status())) files = fs_.List(options_.out);
    std::vector<std::string> shards;
    if (absl::IsNotFound(files.status())) return shards;
    PENSTOCK_RETURN_IF_ERROR(files.status());
    for (io::FileInfo& file : *files) {
      if (!file.is_directory && IsShardName(io::Basename(file.uri)))
        shards.push_back(std::move(file.uri));
    }
    return shards;
  }

  absl::Status RejectUnknownShards() {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> shards, ExistingShards());
    if (shards.empty()) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat(io::DisplayName(options_.out), " already contains shards (",
                     io::Basename(shards[0]), ") of unknown origin: it has no ", kShardPlanFile,
                     ". Choose another output folder, or use the overwrite option to remove them"));
  }

  // Rejects files in the folder that this conversion would replace, but no conversion wrote.
  absl::Status RejectUnknownFiles() {
    const auto is_ours = [&](absl::string_view name, absl::string_view text) {
      return name == kClassesFile ? source_.classes().empty() || text == ClassesText()
                                  : absl::StartsWith(text, kUnreadableHeader);
    };
    for (const char* name : {kClassesFile, kUnreadableFile}) {
      const std::string file = io::JoinPath(options_.out, name);
      PENSTOCK_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadOptional(fs_, file));
      if (!text || is_ours(name, *text)) continue;
      return absl::AlreadyExistsError(
          absl::StrCat(io::DisplayName(file),
                       " already exists and would be replaced, but was not written by a conversion "
                       "to this folder; move it, or choose another output folder"));
    }
    return absl::OkStatus();
  }

  std::string ClassesText() const {
    return absl::StrCat(absl::StrJoin(source_.classes(), "\n"), "\n");
  }

  // Removes shards, their indices, and the files beside them. The plan is removed last and marks
  // the folder as incomplete until then, so that a run that is killed does not leave shards that
  // look like a complete data set.
  absl::Status RemoveExistingShards() {
    absl::StatusOr<std::optional<ShardPlan>> earlier = ReadShardPlan(fs_, options_.out);
    if (!earlier.ok() && !absl::IsDataLoss(earlier.status())) return earlier.status();
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> shards, ExistingShards());
    const bool has_plan = !earlier.ok() || earlier->has_value();
    if (!has_plan && shards.empty()) return absl::OkStatus();  // other files are not ours
    if (!shards.empty()) {
      ShardPlan removed;
      if (earlier.ok() && earlier->has_value()) removed.job = (*earlier)->job;
      PENSTOCK_RETURN_IF_ERROR(WriteShardPlan(fs_, options_.out, removed));
    }
    std::vector<std::string> files = shards;
    for (const std::string& shard : shards)
      files.push_back(io::JoinPath(options_.out, record::TfRecordIndexUri(io::Basename(shard))));
    for (const char* name : {kUnreadableFile, kClassesFile})
      files.push_back(io::JoinPath(options_.out, name));
    for (const std::string& file : files) PENSTOCK_RETURN_IF_ERROR(RemoveIfExists(file));
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> left, ExistingShards());
    if (!left.empty()) {
      return absl::UnavailableError(absl::StrCat(io::DisplayName(left[0]),
                                                 " is still listed after it was removed; check its "
                                                 "disk or network and try again"));
    }
    return RemoveIfExists(io::JoinPath(options_.out, kShardPlanFile));
  }

  absl::Status RemoveIfExists(const std::string& file) {
    absl::Status status = fs_.Remove(file);
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  // Removes unpublished files of a killed run; a local file system does not remove them by itself.
  void RemoveUnpublished() {
    const std::string folder = LocalOut();
    if (!folder.empty()) io::RemoveAbandonedFiles(folder);
  }

  // The path of the output folder, if it is one of this machine; otherwise empty.
  std::string LocalOut() const { return io::IsElsewhere(fs_) ? "" : LocalPath(options_.out); }

  // Returns the index of the input at each position.
  std::vector<int64_t> Order() const {
    std::vector<int64_t> order(static_cast<size_t>(source_.size()));
    std::iota(order.begin(), order.end(), int64_t{0});
    if (options_.keep_order) return order;
    base::Random random(options_.seed);
    base::Shuffle(random, order);
    return order;
  }

  // Returns the end position of each shard, in order; empty unless options.shards is set.
  std::vector<int64_t> Ends() const {
    std::vector<int64_t> ends;
    const int64_t count = std::min(options_.shards, source_.size());
    for (int64_t s = 1; s <= count; ++s) ends.push_back(source_.size() * s / count);
    return ends;
  }

  int Threads() const {
    if (options_.threads > 0) return options_.threads;
    return source_.waits_for_network() ? std::max(kNetworkThreads, base::NumCores())
                                       : base::NumCores();
  }

  absl::Status WriteShards() {
    const std::vector<int64_t> order = Order(), ends = Ends();
    ShardWriter writer(fs_, options_.out,
                       {.first_index = static_cast<int64_t>(plan_.shards.size()),
                        .target_bytes = options_.shards > 0 ? 0 : options_.shard_bytes,
                        .scratch_folder = LocalOut()});
    Progress progress{.noun = source_.noun(),
                      .done = plan_.next(),
                      .total = source_.size(),
                      .resumed = plan_.next()};
    const auto report_progress = [&] {
      if (options_.on_progress) options_.on_progress(progress);
    };
    report_progress();
    const auto add_to_plan = [&](const absl::StatusOr<std::optional<Shard>>& shard, int64_t end) {
      if (!shard.ok()) return shard.status();
      if (!*shard) return absl::OkStatus();
      plan_.shards.push_back({.shard = **shard, .end = end});
      ++progress.shards;
      return SavePlan();
    };
    const auto consume = [&](int64_t i, absl::StatusOr<std::string> record) {
      if (record.ok()) {
        PENSTOCK_RETURN_IF_ERROR(add_to_plan(writer.Append(*record), i));
      } else {
        PENSTOCK_RETURN_IF_ERROR(SkipUnreadable(i, source_.Name(order[i]), record.status()));
      }
      ++progress.done;
      progress.bytes += record.ok() ? static_cast<int64_t>(record->size()) : 0;
      progress.unreadable += !record.ok();
      report_progress();
      if (std::binary_search(ends.begin(), ends.end(), i + 1))
        return add_to_plan(writer.Publish(), i + 1);
      return absl::OkStatus();
    };
    PENSTOCK_ASSIGN_OR_RETURN(const auto pool, base::ThreadPool::Make(Threads(), "convert"));
    PENSTOCK_RETURN_IF_ERROR(MakeInOrder(
        *pool, plan_.next(), source_.size(), {}, [&](int64_t i) { return source_.Make(order[i]); },
        consume));
    return add_to_plan(writer.Publish(), source_.size());
  }

  // Adds an unreadable input to the plan. Other errors stop the conversion.
  absl::Status SkipUnreadable(int64_t position, std::string name, const absl::Status& why) {
    if (!IsBadInput(why)) {
      return absl::Status(why.code(),
                          absl::StrCat(name, ": ", why.message(), ". Stopped after ",
                                       plan_.shards.size(), " shards; run it again to resume"));
    }
    plan_.unreadable.push_back(
        {.position = position, .name = std::move(name), .why = std::string(why.message())});
    return absl::OkStatus();
  }

  // Rejects shards in the folder that are not in the plan, since readers would read them as part of
  // the data set: foreign files, and a shard of a run that was killed before it saved the plan and
  // whose inputs have changed since.
  absl::Status RejectUnplannedShards() {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> shards, ExistingShards());
    for (const std::string& shard : shards) {
      const std::string name = io::Basename(shard);
      const bool is_planned =
          std::any_of(plan_.shards.begin(), plan_.shards.end(),
                      [&](const PlannedShard& s) { return s.shard.file == name; });
      if (is_planned) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          io::DisplayName(shard), " is not one of the ", plan_.shards.size(),
          " shards of this conversion, but would be read with them, perhaps with duplicate ",
          source_.noun(),
          ". Move it to another folder and run the conversion again, or start over with the "
          "overwrite option"));
    }
    return absl::OkStatus();
  }

  void Report(absl::string_view line) const {
    if (options_.on_message) options_.on_message(line);
  }

  absl::Status Finish() {
    PENSTOCK_RETURN_IF_ERROR(RejectUnplannedShards());
    if (!plan_.unreadable.empty()) {
      std::string csv = kUnreadableHeader;
      for (const UnreadableInput& u : plan_.unreadable)
        absl::StrAppend(&csv, formats::JoinCsvRow({u.name, u.why}), "\n");
      PENSTOCK_RETURN_IF_ERROR(
          io::WriteFile(fs_, io::JoinPath(options_.out, kUnreadableFile), csv));
    }
    if (!source_.classes().empty()) {
      PENSTOCK_RETURN_IF_ERROR(
          io::WriteFile(fs_, io::JoinPath(options_.out, kClassesFile), ClassesText()));
    }
    plan_.finished = true;
    return SavePlan();
  }

  io::FileSystem& fs_;
  const RecordSource& source_;
  const PackOptions& options_;
  io::FolderLock lock_;
  ShardPlan plan_;
  std::optional<ShardPlan> saved_;  // plan that this run saved last
};

}  // namespace

absl::Status CheckPackOptions(const PackOptions& options) {
  constexpr int64_t kMaxShards = 1'000'000, kMaxBytes = int64_t{1} << 50;
  constexpr int kMaxThreads = 1024;
  const auto invalid = [](absl::string_view option, int64_t value, absl::string_view range) {
    return absl::InvalidArgumentError(
        absl::StrCat("PackOptions::", option, " is ", value, "; it must be ", range));
  };
  if (options.out.empty()) {
    return absl::InvalidArgumentError(
        "PackOptions::out is empty; set it to the folder for the shards");
  }
  if (options.shards < 0 || options.shards > kMaxShards) {
    return invalid("shards", options.shards, absl::StrCat("0 (automatic) to ", kMaxShards));
  }
  if (options.shard_bytes < 1 || options.shard_bytes > kMaxBytes) {
    return invalid("shard_bytes", options.shard_bytes, absl::StrCat("1 to ", kMaxBytes));
  }
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return invalid("threads", options.threads, absl::StrCat("0 (automatic) to ", kMaxThreads));
  }
  return absl::OkStatus();
}

absl::Status CheckOut(io::FileSystem& fs, const PackOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckPackOptions(options));
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(io::ParseUri(options.out).status(), "output folder"));
  if (!options.overwrite) {
    const absl::StatusOr<std::optional<ShardPlan>> earlier = ReadShardPlan(fs, options.out);
    if (!earlier.ok()) return base::WithContext(earlier.status(), "output folder");
    if (earlier->has_value() && (*earlier)->finished) return absl::OkStatus();
  }
  return base::WithContext(io::CheckWritableFolder(fs, options.out), "output folder");
}

absl::StatusOr<ShardPlan> Convert(io::FileSystem& fs, const RecordSource& source,
                                  const PackOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckPackOptions(options));
  if (source.size() == 0)
    return absl::NotFoundError(absl::StrCat("no ", source.noun(), " to convert"));
  return Conversion(fs, source, options).Run();
}

}  // namespace penstock::pack
