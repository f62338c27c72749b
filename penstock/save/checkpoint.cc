#include "penstock/save/checkpoint.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"
#include "penstock/io/uri.h"
#include "penstock/save/checkpoint_arrays.h"
#include "penstock/save/checkpoint_manifest.h"
#include "penstock/save/checkpoint_scan.h"

namespace penstock::save {
namespace {

CheckpointInfo InfoOf(const Manifest& manifest, std::string uri) {
  CheckpointInfo info{.step = manifest.step,
                      .uri = std::move(uri),
                      .score = manifest.score,
                      .state = manifest.state};
  for (const ManifestFile& file : manifest.files) {
    info.num_bytes += file.bytes;
    info.files.push_back(io::JoinPath(info.uri, file.name));
  }
  return info;
}

bool SameFiles(const Manifest& a, const Manifest& b) {
  return a.files.size() == b.files.size() &&
         std::equal(a.files.begin(), a.files.end(), b.files.begin(),
                    [](const ManifestFile& x, const ManifestFile& y) {
                      return x.name == y.name && x.crc32 == y.crc32;
                    });
}

std::optional<double> FiniteOrNone(std::optional<double> score) {
  return score.has_value() && std::isfinite(*score) ? score : std::nullopt;
}

absl::Status IgnoreNotFound(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

void KeepFirst(absl::Status& first, absl::Status next) {
  if (first.ok()) first = std::move(next);
}

// Calls `body` for each file, by its index, on up to `threads` threads. On Linux, new threads
// inherit this thread's priority, which is low for an asynchronous save.
void ForEachFile(size_t files, int threads, absl::FunctionRef<void(int64_t)> body) {
  const auto end = static_cast<int64_t>(files);
  const int others = static_cast<int>(std::min<int64_t>(end, threads)) - 1;  // besides this one
  if (others > 0) {
    const auto pool = base::ThreadPool::Make(others, "checkpoint");
    if (pool.ok()) {
      base::ParallelFor(**pool, 0, end, body);
      return;
    }
  }
  for (int64_t i = 0; i < end; ++i) body(i);
}

// Killed runs may have filled the disk; only the user can decide that their files are not needed.
absl::Status WithUnfinished(const absl::Status& status, const CheckpointScan& scan,
                            const std::string& folder) {
  if (!absl::IsResourceExhausted(status)) return status;
  const StepEntry* newest = scan.NewestComplete();
  std::string names;
  for (const StepEntry& entry : scan.entries) {
    if (entry.kind != StepEntry::Kind::kUnfinished) continue;
    if (newest != nullptr && entry.step < newest->step) continue;
    for (const std::string& uri : entry.unreferenced) {
      absl::StrAppend(&names, "\n  ", io::DisplayName(uri));
    }
  }
  if (names.empty()) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat(status.message(), "\nThese incomplete files in ", io::DisplayName(folder),
                   " belong to no checkpoint and can be removed manually:", names));
}

}  // namespace

CheckpointManager::CheckpointManager(io::FileSystem& fs, absl::string_view folder,
                                     CheckpointOptions options)
    : fs_(fs), folder_(folder), options_(options) {}

CheckpointManager::~CheckpointManager() = default;

absl::Status CheckpointManager::CheckOptions() const {
  if (folder_.empty()) return absl::InvalidArgumentError("the checkpoint folder is empty");
  if (options_.keep < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        io::DisplayName(folder_),
        ": keep, the number of checkpoints kept, must be at least 1; got ", options_.keep));
  }
  if (options_.max_file_bytes < 1 || options_.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(io::DisplayName(folder_), ": max_file_bytes and threads must be at least 1; ",
                     "got ", options_.max_file_bytes, " and ", options_.threads));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointScan> CheckpointManager::Scan() {
  PENSTOCK_RETURN_IF_ERROR(CheckOptions());
  return ScanCheckpoints(fs_, folder_, unreadable_);
}

absl::StatusOr<CheckpointList> CheckpointManager::List() {
  PENSTOCK_ASSIGN_OR_RETURN(const CheckpointScan scan, Scan());
  CheckpointList list;
  for (const StepEntry& entry : scan.entries) {
    const std::string uri = StepFolder(folder_, entry.step);
    if (entry.kind == StepEntry::Kind::kComplete)
      list.complete.push_back(InfoOf(entry.manifest, uri));
    if (entry.kind == StepEntry::Kind::kCorrupt) {
      list.corrupt.push_back({.step = entry.step, .uri = uri, .why = entry.why});
    }
  }
  return list;
}

absl::StatusOr<Checkpoint> CheckpointManager::ReadOnce(int64_t step) {
  const absl::StatusOr<Manifest> manifest = ReadManifest(fs_, folder_, step);
  if (absl::IsNotFound(manifest.status())) {
    return absl::NotFoundError(
        absl::StrCat(io::DisplayName(folder_), ": there is no checkpoint of step ", step));
  }
  if (!manifest.ok()) return manifest.status();
  Checkpoint checkpoint{.step = step, .state = manifest->state, .score = manifest->score};
  const std::vector<ManifestFile>& files = manifest->files;
  std::vector<absl::StatusOr<Weights>> parts(files.size(), absl::UnknownError("not read"));
  ForEachFile(files.size(), options_.threads,
              [&](int64_t i) { parts[i] = ReadArrays(fs_, StepFolder(folder_, step), files[i]); });
  for (const absl::StatusOr<Weights>& part : parts) {
    if (!part.ok()) return part.status();
    for (const auto& [name, array] : part->arrays) checkpoint.arrays.Append(name, array);
  }
  last_ = std::make_unique<Manifest>(*manifest);
  return checkpoint;
}

absl::StatusOr<Checkpoint> CheckpointManager::Read(int64_t step) {
  PENSTOCK_RETURN_IF_ERROR(CheckOptions());
  absl::StatusOr<Checkpoint> checkpoint = ReadOnce(step);
  // Corruption that passes comes from the network, or from a writer that was replacing the step.
  if (absl::IsDataLoss(checkpoint.status())) checkpoint = ReadOnce(step);
  return checkpoint;
}

absl::StatusOr<Restored> CheckpointManager::ReadLatest() {
  PENSTOCK_ASSIGN_OR_RETURN(const CheckpointList list, List());
  Restored restored;
  bool found = false;
  for (auto info = list.complete.rbegin(); info != list.complete.rend() && !found; ++info) {
    absl::StatusOr<Checkpoint> checkpoint = Read(info->step);
    found = checkpoint.ok();
    if (found) {
      restored.checkpoint = *std::move(checkpoint);
    } else if (absl::IsDataLoss(checkpoint.status())) {
      unreadable_.insert(info->step);
      restored.skipped.push_back(
          {.step = info->step, .uri = info->uri, .why = checkpoint.status()});
    } else if (absl::IsNotFound(checkpoint.status())) {
      return absl::UnavailableError(
          absl::StrCat(io::DisplayName(info->uri),
                       ": was removed by another process while it was read; try again"));
    } else {
      return checkpoint.status();
    }
  }
  for (const CorruptCheckpoint& corrupt : list.corrupt) {
    if (!found || corrupt.step > restored.checkpoint.step) restored.skipped.push_back(corrupt);
  }
  if (found) return restored;
  if (restored.skipped.empty()) {
    return absl::NotFoundError(absl::StrCat(io::DisplayName(folder_), ": there is no checkpoint"));
  }
  std::string reasons;
  for (const CorruptCheckpoint& skipped : restored.skipped) {
    absl::StrAppend(&reasons, "\n  step ", skipped.step, ": ", skipped.why.message());
  }
  return absl::DataLossError(
      absl::StrCat(io::DisplayName(folder_), ": all checkpoints are corrupt:", reasons));
}

absl::Status CheckpointManager::CheckMayPublish(const CheckpointScan& scan, int64_t step) const {
  const StepEntry* newest = scan.NewestComplete();
  if (newest != nullptr && newest->step > step) {
    return absl::FailedPreconditionError(absl::StrCat(
        io::DisplayName(folder_), ": step ", step,
        " is older than the existing checkpoint of step ", newest->step,
        ", which the next start would resume from. Use another folder, or remove the newer ones "
        "first"));
  }
  const StepEntry* same = scan.Find(step);
  if (same != nullptr && same->linked) {
    return absl::FailedPreconditionError(
        absl::StrCat(io::DisplayName(StepFolder(folder_, step)),
                     ": is a symbolic link; checkpoints are not written through links. Replace it "
                     "with a copy of its target"));
  }
  return absl::OkStatus();
}

absl::Status CheckpointManager::Publish(const Manifest& manifest) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, WriteManifest(manifest));
  PENSTOCK_RETURN_IF_ERROR(
      io::WriteFile(fs_, io::JoinPath(StepFolder(folder_, manifest.step), kManifestName), text));
  unreadable_.erase(manifest.step);
  last_ = std::make_unique<Manifest>(manifest);
  return absl::OkStatus();
}

absl::StatusOr<Saved> CheckpointManager::CleanUpAfter(const Manifest& manifest) {
  const std::string uri = StepFolder(folder_, manifest.step);
  Saved saved{.info = InfoOf(manifest, uri)};
  const absl::StatusOr<CheckpointScan> after = Scan();
  if (!after.ok()) {
    saved.cleanup = after.status();
    return saved;
  }
  const StepEntry* published = after->Find(manifest.step);
  if (published == nullptr || published->kind != StepEntry::Kind::kComplete ||
      !SameFiles(published->manifest, manifest)) {
    return absl::AbortedError(absl::StrCat(
        io::DisplayName(uri),
        ": was changed by another process while it was written; one process at a time may write "
        "checkpoints into ",
        io::DisplayName(folder_)));
  }
  saved.cleanup = RemoveBeyondRetention(*after);
  return saved;
}

absl::StatusOr<std::vector<ManifestFile>> CheckpointManager::WriteFiles(
    const Checkpoint& checkpoint) {
  const std::string uri = StepFolder(folder_, checkpoint.step);
  const std::vector<base::NamedArrays> parts =
      SplitArrays(checkpoint.arrays, options_.max_file_bytes);
  std::vector<std::string> names;
  for (size_t i = 0; i < parts.size(); ++i) names.push_back(NewStateName());
  // No value: not begun.
  std::vector<std::optional<absl::StatusOr<ManifestFile>>> written(parts.size());
  std::atomic<bool> failed = false;
  ForEachFile(parts.size(), options_.threads, [&](int64_t i) {
    if (failed) return;
    absl::StatusOr<ManifestFile> file = WriteArrays(
        fs_, uri, names[i],
        {.arrays = parts[i], .metadata = {{"penstock.step", absl::StrCat(checkpoint.step)}}});
    if (file.ok() && options_.verify_by_reading) {
      const absl::Status verified = VerifyByReading(fs_, io::JoinPath(uri, names[i]), *file);
      if (!verified.ok()) file = verified;
    }
    if (!file.ok()) failed = true;
    written[i] = std::move(file);
  });
  std::vector<ManifestFile> files;
  absl::Status status;
  for (const auto& file : written) {
    if (!file.has_value()) continue;
    KeepFirst(status, file->status());
    if (file->ok()) files.push_back(**file);
  }
  if (status.ok()) return files;
  for (size_t i = 0; i < parts.size(); ++i) {
    // No other process knows this name, and no manifest contains it.
    if (written[i].has_value()) (void)fs_.Remove(io::JoinPath(uri, names[i]));
  }
  return status;
}

absl::StatusOr<Saved> CheckpointManager::Save(const Checkpoint& checkpoint) {
  const int64_t step = checkpoint.step;
  if (step < 0) return absl::InvalidArgumentError(absl::StrCat("step ", step, " is negative"));
  Manifest manifest{
      .step = step, .score = FiniteOrNone(checkpoint.score), .state = checkpoint.state};
  PENSTOCK_RETURN_IF_ERROR(WriteManifest(manifest).status());
  PENSTOCK_ASSIGN_OR_RETURN(const CheckpointScan before, Scan());
  PENSTOCK_RETURN_IF_ERROR(CheckMayPublish(before, step));
  // First, so that a disk that a killed writer filled has free space again.
  absl::Status cleanup = RemoveUnfinished(before);

  absl::StatusOr<std::vector<ManifestFile>> files = WriteFiles(checkpoint);
  if (!files.ok()) return WithUnfinished(files.status(), before, folder_);
  manifest.files = *std::move(files);
  PENSTOCK_RETURN_IF_ERROR(Publish(manifest));
  PENSTOCK_ASSIGN_OR_RETURN(Saved saved, CleanUpAfter(manifest));
  KeepFirst(saved.cleanup, std::move(cleanup));
  return saved;
}

absl::StatusOr<Saved> CheckpointManager::Annotate(int64_t step, std::string state,
                                                  std::optional<double> score) {
  if (last_ == nullptr || last_->step != step) {
    return absl::FailedPreconditionError(
        absl::StrCat(io::DisplayName(folder_), ": the checkpoint of step ", step,
                     " is not the one that was saved or read last"));
  }
  Manifest manifest = *last_;
  manifest.state = std::move(state);
  manifest.score = FiniteOrNone(score);
  PENSTOCK_RETURN_IF_ERROR(WriteManifest(manifest).status());
  // The files must still be this manager's, or the new manifest would name missing files.
  PENSTOCK_ASSIGN_OR_RETURN(const CheckpointScan before, Scan());
  const StepEntry* present = before.Find(step);
  if (present == nullptr || present->kind != StepEntry::Kind::kComplete || present->linked ||
      !SameFiles(present->manifest, manifest)) {
    return absl::AbortedError(absl::StrCat(
        io::DisplayName(StepFolder(folder_, step)),
        ": was changed or removed since it was saved; one process at a time may write checkpoints "
        "into ",
        io::DisplayName(folder_)));
  }
  PENSTOCK_RETURN_IF_ERROR(Publish(manifest));
  return CleanUpAfter(manifest);
}

absl::Status CheckpointManager::RemoveBeyondRetention(const CheckpointScan& scan) {
  absl::Status status = RemoveUnfinished(scan);
  std::vector<const StepEntry*> whole;
  const StepEntry* best = nullptr;
  for (const StepEntry& entry : scan.entries) {
    if (entry.kind != StepEntry::Kind::kComplete) continue;
    whole.push_back(&entry);
    const std::optional<double> score = entry.manifest.score;
    if (score.has_value() && (best == nullptr || *score >= *best->manifest.score)) best = &entry;
  }
  for (size_t i = 0; i + static_cast<size_t>(options_.keep) < whole.size(); ++i) {
    if (options_.keep_best && whole[i] == best) continue;
    KeepFirst(status, Remove(*whole[i]));
  }
  return status;
}

absl::Status CheckpointManager::RemoveUnfinished(const CheckpointScan& scan) {
  const StepEntry* newest = scan.NewestComplete();
  absl::Status status;
  for (const StepEntry& entry : scan.entries) {
    if (newest == nullptr || entry.step > newest->step) break;
    if (entry.kind == StepEntry::Kind::kUnfinished) {
      KeepFirst(status, Remove(entry));
    } else if (entry.kind == StepEntry::Kind::kComplete) {
      for (const std::string& uri : entry.unreferenced) {
        KeepFirst(status, IgnoreNotFound(fs_.Remove(uri)));
      }
    }
  }
  return status;
}

// The manifest first: a kill in between leaves a folder that is not a checkpoint.
absl::Status CheckpointManager::Remove(const StepEntry& entry) {
  const std::string uri = StepFolder(folder_, entry.step);
  if (entry.linked) return IgnoreNotFound(fs_.Remove(uri));  // the link, not its target
  if (entry.kind != StepEntry::Kind::kUnfinished) {
    PENSTOCK_RETURN_IF_ERROR(IgnoreNotFound(fs_.Remove(io::JoinPath(uri, kManifestName))));
    // A manifest without its arrays would look like corruption.
    PENSTOCK_ASSIGN_OR_RETURN(const bool still, IsListed(fs_, uri, kManifestName));
    if (still) {
      return absl::UnavailableError(
          absl::StrCat(io::DisplayName(io::JoinPath(uri, kManifestName)),
                       ": removing it had no effect; nothing else was removed"));
    }
  }
  for (const ManifestFile& file : entry.manifest.files) {
    PENSTOCK_RETURN_IF_ERROR(IgnoreNotFound(fs_.Remove(io::JoinPath(uri, file.name))));
  }
  for (const std::string& file : entry.unreferenced) {
    PENSTOCK_RETURN_IF_ERROR(IgnoreNotFound(fs_.Remove(file)));
  }
  return RemoveFolderIfEmpty(uri);
}

// Leaves other files alone. The folder counts as empty only when two listings say so.
absl::Status CheckpointManager::RemoveFolderIfEmpty(const std::string& uri) {
  for (int look = 0; look < 2; ++look) {
    const absl::StatusOr<std::vector<io::FileInfo>> files = fs_.List(uri);
    if (!files.ok()) return IgnoreNotFound(files.status());
    if (!files->empty()) return absl::OkStatus();
  }
  return IgnoreNotFound(fs_.RemoveRecursively(uri));
}

absl::Status CheckpointManager::RemoveNewerThan(int64_t step) {
  PENSTOCK_ASSIGN_OR_RETURN(const CheckpointScan scan, Scan());
  using Kind = StepEntry::Kind;
  for (const Kind kind : {Kind::kComplete, Kind::kCorrupt}) {
    // The newest first, so that a kill in between leaves no gap.
    for (auto entry = scan.entries.rbegin(); entry != scan.entries.rend(); ++entry) {
      if (entry->kind == kind && entry->step > step) PENSTOCK_RETURN_IF_ERROR(Remove(*entry));
    }
  }
  return absl::OkStatus();
}

}  // namespace penstock::save
