#include "penstock/pack/convert.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"
#include "penstock/formats/csv.h"
#include "penstock/io/local/local_output_stream.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/pack/folder_lock.h"
#include "penstock/pack/read_input.h"
#include "penstock/pack/records_in_order.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::pack {
namespace {

constexpr int kNetworkThreads = 32;

// The path of a local folder; "" for others.
std::string LocalPath(const std::string& folder) {
  const absl::StatusOr<io::Uri> uri = io::ParseUri(folder);
  return uri.ok() && uri->is_local() ? uri->path : "";
}

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

  // Decides where to begin: anew, or where an earlier run was stopped.
  absl::Status Begin() {
    if (const std::string folder = LocalPath(options_.out); !folder.empty()) {
      PENSTOCK_RETURN_IF_ERROR(fs_.CreateFolder(options_.out));
      PENSTOCK_ASSIGN_OR_RETURN(lock_, FolderLock::Acquire(folder));
    }
    if (options_.overwrite) PENSTOCK_RETURN_IF_ERROR(RemoveEarlierShards());
    PENSTOCK_ASSIGN_OR_RETURN(std::optional<ShardPlan> earlier, ReadShardPlan(fs_, options_.out));
    if (earlier) return GoOn(*std::move(earlier));
    PENSTOCK_RETURN_IF_ERROR(RefuseForeignShards());
    plan_.job = FullJob();
    PENSTOCK_RETURN_IF_ERROR(fs_.CreateFolder(options_.out));
    return SavePlan();
  }

  // Fails if the plan is no longer the one that this run saved last. Then another run has replaced
  // it, and each may have replaced shards of the other: the plan that is left here stops that run
  // as well, and lets a later one rely on no shard.
  absl::Status SavePlan() {
    if (saved_) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool is_ours, IsShardPlan(fs_, options_.out, *saved_));
      if (!is_ours) {
        (void)WriteShardPlan(fs_, options_.out, {.job = plan_.job});
        return absl::AbortedError(absl::StrCat(
            "another process writes shards into ", io::DisplayName(options_.out),
            ". Its shards and those of this command may be mixed there: when no process writes "
            "there any more, start over with --overwrite"));
      }
    }
    PENSTOCK_RETURN_IF_ERROR(WriteShardPlan(fs_, options_.out, plan_));
    saved_ = plan_;
    return absl::OkStatus();
  }

  absl::Status GoOn(ShardPlan earlier) {
    const std::string difference = JobDifference(earlier.job, FullJob());
    if (!difference.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          io::DisplayName(options_.out),
          " holds shards made from other inputs or with other options: ", difference,
          ". Give what was given then to go on with them, another --out, or --overwrite to remove "
          "them and start over"));
    }
    const int64_t known = earlier.records() + static_cast<int64_t>(earlier.unreadable.size());
    if (earlier.next() > source_.size() || (earlier.finished && known != source_.size())) {
      return absl::DataLossError(
          absl::StrCat(io::DisplayName(io::JoinPath(options_.out, kShardPlanFile)),
                       " is corrupt: it knows of ", known, " ", source_.noun(), ", and there are ",
                       source_.size(), "; start over with --overwrite"));
    }
    plan_ = std::move(earlier);
    PENSTOCK_ASSIGN_OR_RETURN(const std::string gone, KeepWholeShards(fs_, options_.out, plan_));
    if (!gone.empty()) {
      Tell(absl::StrCat(io::DisplayName(io::JoinPath(options_.out, gone)),
                        " is not there as it was written; it is made again"));
    }
    if (plan_.finished) {
      Tell(absl::StrCat(io::DisplayName(options_.out),
                        " was finished by an earlier run; there is nothing to do"));
      return absl::OkStatus();
    }
    // From here on the folder is incomplete, even if this run is killed.
    PENSTOCK_RETURN_IF_ERROR(SavePlan());
    RemoveUnpublished();
    if (plan_.next() > 0) {
      Tell(absl::StrCat("going on after ", plan_.shards.size(), " shards, ", plan_.next(), " of ",
                        source_.size(), " ", source_.noun()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> EarlierShards() {
    absl::StatusOr<std::vector<io::FileInfo>> files = fs_.List(options_.out);
    // A folder is only believed to be missing if two listings say so.
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

  absl::Status RefuseForeignShards() {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> shards, EarlierShards());
    if (shards.empty()) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("there are shards in ", io::DisplayName(options_.out), " already (",
                     io::Basename(shards[0]),
                     "), and no plan that tells where they come from; give another --out, or "
                     "--overwrite to remove them"));
  }

  // Removes shards, their indices, and the files beside them. The plan is removed last, and marks
  // the folder as incomplete until then: if this run is killed, the remaining shards are not
  // mistaken for a data set.
  absl::Status RemoveEarlierShards() {
    absl::StatusOr<std::optional<ShardPlan>> earlier = ReadShardPlan(fs_, options_.out);
    if (!earlier.ok() && !absl::IsDataLoss(earlier.status())) return earlier.status();
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> shards, EarlierShards());
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
    for (const std::string& file : files) PENSTOCK_RETURN_IF_ERROR(RemoveIfThere(file));
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> left, EarlierShards());
    if (!left.empty()) {
      return absl::UnavailableError(absl::StrCat(io::DisplayName(left[0]),
                                                 " is still listed after it was removed; is its "
                                                 "disk or network down? Run the command again"));
    }
    return RemoveIfThere(io::JoinPath(options_.out, kShardPlanFile));
  }

  absl::Status RemoveIfThere(const std::string& file) {
    absl::Status status = fs_.Remove(file);
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  // What a killed run left unpublished: a local file system has no other way to lose it.
  void RemoveUnpublished() {
    const std::string folder = LocalPath(options_.out);
    if (folder.empty()) return;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (io::IsUnpublished(entry.path().filename().string()))
        std::filesystem::remove(entry.path(), ignored);
    }
  }

  // Which input comes at which position.
  std::vector<int64_t> Order() const {
    std::vector<int64_t> order(static_cast<size_t>(source_.size()));
    std::iota(order.begin(), order.end(), int64_t{0});
    if (options_.keep_order) return order;
    base::Random random(options_.seed);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    return order;
  }

  // With a number of shards: the positions at which they end, sorted.
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
                        .scratch_folder = LocalPath(options_.out)});
    Progress progress{.noun = source_.noun(),
                      .done = plan_.next(),
                      .total = source_.size(),
                      .resumed = plan_.next()};
    const auto tell_progress = [&] {
      if (options_.on_progress) options_.on_progress(progress);
    };
    tell_progress();
    const auto published = [&](const absl::StatusOr<std::optional<Shard>>& shard, int64_t end) {
      if (!shard.ok()) return shard.status();
      if (!*shard) return absl::OkStatus();
      plan_.shards.push_back({.shard = **shard, .end = end});
      ++progress.shards;
      return SavePlan();
    };
    const auto take = [&](int64_t i, absl::StatusOr<std::string> record) {
      if (record.ok()) {
        PENSTOCK_RETURN_IF_ERROR(published(writer.Append(*record), i));
      } else {
        PENSTOCK_RETURN_IF_ERROR(LeaveOut(i, source_.Name(order[i]), record.status()));
      }
      ++progress.done;
      progress.bytes += record.ok() ? static_cast<int64_t>(record->size()) : 0;
      progress.unreadable += !record.ok();
      tell_progress();
      if (std::binary_search(ends.begin(), ends.end(), i + 1))
        return published(writer.Publish(), i + 1);
      return absl::OkStatus();
    };
    base::ThreadPool pool(Threads(), "convert");
    PENSTOCK_RETURN_IF_ERROR(MakeInOrder(
        pool, plan_.next(), source_.size(), {}, [&](int64_t i) { return source_.Make(order[i]); },
        take));
    return published(writer.Publish(), source_.size());
  }

  absl::Status LeaveOut(int64_t position, std::string name, const absl::Status& why) {
    if (!IsBadInput(why)) {
      return absl::Status(why.code(), absl::StrCat(name, ": ", why.message(), ". Stopped after ",
                                                   plan_.shards.size(),
                                                   " shards; the same command goes on from there"));
    }
    plan_.unreadable.push_back(
        {.position = position, .name = std::move(name), .why = std::string(why.message())});
    return absl::OkStatus();
  }

  // Other shards in the folder would be read together with the ones just made: a shard of a run
  // that was killed before it recorded it in the plan, and whose inputs have changed since; or a
  // foreign file.
  absl::Status RefuseOtherShards() {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> shards, EarlierShards());
    for (const std::string& shard : shards) {
      const std::string name = io::Basename(shard);
      const bool is_planned =
          std::any_of(plan_.shards.begin(), plan_.shards.end(),
                      [&](const PlannedShard& s) { return s.shard.file == name; });
      if (is_planned) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          io::DisplayName(shard), " is not one of the ", plan_.shards.size(),
          " shards that this conversion made, and would be read with them, perhaps as the same ",
          source_.noun(),
          " twice. Move it away and run the same command again, or start over with "
          "--overwrite"));
    }
    return absl::OkStatus();
  }

  void Tell(absl::string_view line) const {
    if (options_.on_message) options_.on_message(line);
  }

  absl::Status Finish() {
    PENSTOCK_RETURN_IF_ERROR(RefuseOtherShards());
    if (!plan_.unreadable.empty()) {
      std::string csv = "path,why\n";
      for (const UnreadableInput& u : plan_.unreadable)
        absl::StrAppend(&csv, formats::JoinCsvRow({u.name, u.why}), "\n");
      PENSTOCK_RETURN_IF_ERROR(
          io::WriteFile(fs_, io::JoinPath(options_.out, kUnreadableFile), csv));
    }
    if (!source_.classes().empty()) {
      PENSTOCK_RETURN_IF_ERROR(
          io::WriteFile(fs_, io::JoinPath(options_.out, kClassesFile),
                        absl::StrCat(absl::StrJoin(source_.classes(), "\n"), "\n")));
    }
    plan_.finished = true;
    return SavePlan();
  }

  io::FileSystem& fs_;
  const RecordSource& source_;
  const PackOptions& options_;
  FolderLock lock_;
  ShardPlan plan_;
  std::optional<ShardPlan> saved_;  // by this run
};

}  // namespace

absl::Status CheckPackOptions(const PackOptions& options) {
  constexpr int64_t kMostShards = 1'000'000, kMostBytes = int64_t{1} << 50;
  constexpr int kMostThreads = 1024;
  const auto invalid = [](absl::string_view option, int64_t value, absl::string_view wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("PackOptions::", option, " is ", value, "; it must be ", wanted));
  };
  if (options.out.empty()) {
    return absl::InvalidArgumentError("PackOptions::out is empty; name the folder for the shards");
  }
  if (options.shards < 0 || options.shards > kMostShards) {
    return invalid("shards", options.shards, absl::StrCat("0 (by shard_bytes) to ", kMostShards));
  }
  if (options.shard_bytes < 1 || options.shard_bytes > kMostBytes) {
    return invalid("shard_bytes", options.shard_bytes, absl::StrCat("1 to ", kMostBytes));
  }
  if (options.threads < 0 || options.threads > kMostThreads) {
    return invalid("threads", options.threads, absl::StrCat("0 (automatic) to ", kMostThreads));
  }
  return absl::OkStatus();
}

absl::Status CheckOut(io::FileSystem& fs, const PackOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckPackOptions(options));
  if (!options.overwrite) {
    const absl::StatusOr<std::optional<ShardPlan>> earlier = ReadShardPlan(fs, options.out);
    if (!earlier.ok()) return base::WithContext(earlier.status(), "--out");
    if (earlier->has_value() && (*earlier)->finished) return absl::OkStatus();
  }
  return base::WithContext(io::CheckWritableFolder(fs, options.out), "--out");
}

absl::StatusOr<ShardPlan> Convert(io::FileSystem& fs, const RecordSource& source,
                                  const PackOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckPackOptions(options));
  if (source.size() == 0)
    return absl::NotFoundError(absl::StrCat("there are no ", source.noun(), " to convert"));
  return Conversion(fs, source, options).Run();
}

}  // namespace penstock::pack
