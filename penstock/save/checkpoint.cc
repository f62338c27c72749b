#include "penstock/save/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/save/checkpoint_manifest.h"
#include "penstock/save/read_exactly.h"
#include "penstock/save/safetensors.h"

namespace penstock::save {
namespace {

constexpr absl::string_view kManifestName = "checkpoint.json";
constexpr size_t kChunk = 4 << 20;

// Eight digits, so that names sort as steps do; more when there are more.
std::string FolderName(int64_t step) { return absl::StrFormat("step-%08d", step); }

std::optional<int64_t> StepOf(absl::string_view name) {
  absl::string_view digits = name;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&digits, "step-") || !absl::SimpleAtoi(digits, &step) || step < 0 ||
      FolderName(step) != name) {
    return std::nullopt;
  }
  return step;
}

// Passes on what is written, and sums it up.
class SummingStream : public io::OutputStream {
 public:
  explicit SummingStream(io::OutputStream& out) : OutputStream(out.uri()), out_(out) {}
  absl::Status Append(absl::string_view bytes) override {
    crc32_ = Crc32(crc32_, bytes);
    bytes_ += static_cast<int64_t>(bytes.size());
    return out_.Append(bytes);
  }
  absl::Status Close() override { return out_.Close(); }

  uint32_t crc32() const { return crc32_; }
  int64_t bytes() const { return bytes_; }

 private:
  io::OutputStream& out_;
  uint32_t crc32_ = 0;
  int64_t bytes_ = 0;
};

// The checksum of a file that is read front to back: `Take` is given every read.
struct RunningSum {
  uint32_t crc32 = 0;
  int64_t end = 0;  // of what was summed up

  void Take(int64_t offset, absl::Span<const char> bytes) {
    const int64_t known = end - offset;
    if (known < 0 || known >= static_cast<int64_t>(bytes.size())) return;
    bytes.remove_prefix(static_cast<size_t>(known));
    crc32 = Crc32(crc32, absl::string_view(bytes.data(), bytes.size()));
    end += static_cast<int64_t>(bytes.size());
  }
};

// Passes on what is read, and sums it up into `sum`.
class SummingFile : public io::RandomAccessFile {
 public:
  SummingFile(std::unique_ptr<io::RandomAccessFile> file, std::shared_ptr<RunningSum> sum)
      : RandomAccessFile(file->uri(), file->size()), file_(std::move(file)), sum_(std::move(sum)) {}
  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t bytes, file_->Read(offset, out));
    sum_->Take(offset, out.first(static_cast<size_t>(bytes)));
    return bytes;
  }

 private:
  std::unique_ptr<io::RandomAccessFile> file_;
  std::shared_ptr<RunningSum> sum_;
};

absl::Status CheckSum(absl::string_view uri, const ManifestFile& file, const RunningSum& sum) {
  if (sum.end == file.bytes && sum.crc32 == file.crc32) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s: its checksum is %08x and not %08x: bytes changed since it was written",
                      uri, sum.crc32, file.crc32));
}

absl::StatusOr<Weights> ReadArrays(io::FileSystem& fs, absl::string_view uri,
                                   const ManifestFile& expected) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(uri));
  if (file->size() != expected.bytes) {
    return absl::DataLossError(
        absl::StrCat(uri, ": has ", file->size(), " bytes and not ", expected.bytes));
  }
  auto sum = std::make_shared<RunningSum>();
  PENSTOCK_ASSIGN_OR_RETURN(
      SafetensorsReader reader,
      SafetensorsReader::Open(std::make_unique<SummingFile>(std::move(file), sum)));
  PENSTOCK_ASSIGN_OR_RETURN(Weights weights, reader.ReadAll());
  PENSTOCK_RETURN_IF_ERROR(CheckSum(uri, expected, *sum));
  return weights;
}

absl::Status VerifyByReading(io::FileSystem& fs, absl::string_view uri,
                             const ManifestFile& expected) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(uri));
  RunningSum sum;
  std::string chunk;
  while (sum.end < file->size()) {
    chunk.resize(
        static_cast<size_t>(std::min(file->size() - sum.end, static_cast<int64_t>(kChunk))));
    PENSTOCK_RETURN_IF_ERROR(ReadExactly(*file, sum.end, absl::MakeSpan(chunk)));
    sum.Take(sum.end, chunk);
  }
  return CheckSum(uri, expected, sum);
}

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

// Whether every file that the manifest names is among `files`, with its size.
absl::Status CheckFiles(const Manifest& manifest, const std::vector<io::FileInfo>& files) {
  for (const ManifestFile& expected : manifest.files) {
    const auto found = std::find_if(files.begin(), files.end(), [&](const io::FileInfo& file) {
      return io::Basename(file.uri) == expected.name;
    });
    if (found == files.end()) {
      return absl::DataLossError(absl::StrCat(expected.name, " is missing"));
    }
    if (found->size != expected.bytes) {
      return absl::DataLossError(
          absl::StrCat(expected.name, " has ", found->size, " bytes and not ", expected.bytes));
    }
  }
  return absl::OkStatus();
}

// As against a store that cannot be reached, or a checkpoint of a newer version.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);
}

absl::Status IgnoreNotFound(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace

struct CheckpointManager::Scan {
  CheckpointList list = {};
  // What killed writers left: folders without a manifest, and files that no manifest names.
  std::vector<int64_t> left_over_steps = {};
  std::vector<std::string> left_over_files = {};

  const CheckpointInfo* Find(int64_t step) const {
    for (const CheckpointInfo& info : list.whole) {
      if (info.step == step) return &info;
    }
    return nullptr;
  }
};

CheckpointManager::CheckpointManager(io::FileSystem& fs, absl::string_view folder,
                                     CheckpointOptions options)
    : fs_(fs), folder_(folder), options_(options) {
  PENSTOCK_CHECK(options_.keep >= 1);
}

std::string CheckpointManager::FolderUri(int64_t step) const {
  return io::JoinPath(folder_, FolderName(step));
}

absl::StatusOr<Manifest> CheckpointManager::ReadManifest(int64_t step) {
  const std::string uri = io::JoinPath(FolderUri(step), kManifestName);
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs_.OpenRandomAccess(uri));
  if (file->size() > kMaxManifestBytes) {
    return absl::DataLossError(absl::StrCat(uri, ": ", file->size(), " bytes are no manifest"));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  PENSTOCK_RETURN_IF_ERROR(ReadExactly(*file, 0, absl::MakeSpan(text)));
  absl::StatusOr<Manifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return base::WithContext(manifest.status(), uri);
  if (manifest->step != step) {
    return absl::DataLossError(absl::StrCat(uri, ": is the manifest of step ", manifest->step));
  }
  return manifest;
}

absl::StatusOr<CheckpointManager::Scan> CheckpointManager::Look() {
  Scan scan;
  absl::StatusOr<std::vector<io::FileInfo>> entries = fs_.List(folder_);
  if (absl::IsNotFound(entries.status())) return scan;
  if (!entries.ok()) return entries.status();
  for (const io::FileInfo& entry : *entries) {
    const std::optional<int64_t> step = StepOf(io::Basename(entry.uri));
    if (!step.has_value() || !entry.is_directory) continue;
    const std::string uri = FolderUri(*step);
    absl::StatusOr<std::vector<io::FileInfo>> files = fs_.List(uri);
    if (absl::IsNotFound(files.status())) continue;  // another process removed it just now
    if (!files.ok()) return files.status();

    const absl::StatusOr<Manifest> manifest = ReadManifest(*step);
    if (absl::IsNotFound(manifest.status())) {
      scan.left_over_steps.push_back(*step);
      continue;
    }
    if (!manifest.ok() && !IsDamage(manifest.status())) return manifest.status();
    absl::Status status = manifest.ok() ? CheckFiles(*manifest, *files) : manifest.status();
    if (status.ok() && unreadable_.contains(*step)) {
      status = absl::DataLossError("bytes changed since it was written");
    }
    if (!status.ok()) {
      scan.list.damaged.push_back({.step = *step, .uri = uri, .why = std::move(status)});
      continue;
    }
    scan.list.whole.push_back(InfoOf(*manifest, uri));
    for (const io::FileInfo& file : *files) {
      const std::string name = io::Basename(file.uri);
      const bool named = name == kManifestName ||
                         std::any_of(manifest->files.begin(), manifest->files.end(),
                                     [&](const ManifestFile& f) { return f.name == name; });
      if (!named && !file.is_directory) scan.left_over_files.push_back(file.uri);
    }
  }
  const auto by_step = [](const auto& a, const auto& b) { return a.step < b.step; };
  std::sort(scan.list.whole.begin(), scan.list.whole.end(), by_step);
  std::sort(scan.list.damaged.begin(), scan.list.damaged.end(), by_step);
  return scan;
}

absl::StatusOr<CheckpointList> CheckpointManager::List() {
  PENSTOCK_ASSIGN_OR_RETURN(Scan scan, Look());
  return std::move(scan.list);
}

absl::StatusOr<Checkpoint> CheckpointManager::Read(int64_t step) {
  const absl::StatusOr<Manifest> manifest = ReadManifest(step);
  if (absl::IsNotFound(manifest.status())) {
    return absl::NotFoundError(absl::StrCat(folder_, ": there is no checkpoint of step ", step));
  }
  if (!manifest.ok()) return manifest.status();
  Checkpoint checkpoint{.step = step, .state = manifest->state, .score = manifest->score};
  for (const ManifestFile& file : manifest->files) {
    const std::string uri = io::JoinPath(FolderUri(step), file.name);
    absl::StatusOr<Weights> weights = ReadArrays(fs_, uri, file);
    if (absl::IsNotFound(weights.status()) || absl::IsUnimplemented(weights.status())) {
      // The manifest says that it is there, and it was written by this code.
      return absl::DataLossError(weights.status().message());
    }
    if (!weights.ok()) return weights.status();
    for (const auto& [name, array] : weights->arrays) checkpoint.arrays.Append(name, array);
  }
  return checkpoint;
}

absl::StatusOr<Restored> CheckpointManager::ReadLatest() {
  PENSTOCK_ASSIGN_OR_RETURN(const CheckpointList list, List());
  Restored restored;
  std::string reasons;
  for (auto info = list.whole.rbegin(); info != list.whole.rend(); ++info) {
    absl::StatusOr<Checkpoint> checkpoint = Read(info->step);
    if (checkpoint.ok()) {
      restored.checkpoint = *std::move(checkpoint);
      break;
    }
    if (!IsDamage(checkpoint.status())) return checkpoint.status();
    if (absl::IsDataLoss(checkpoint.status())) unreadable_.insert(info->step);
    restored.skipped.push_back({.step = info->step, .uri = info->uri, .why = checkpoint.status()});
  }
  const bool found = restored.skipped.size() < list.whole.size();
  for (const DamagedCheckpoint& damaged : list.damaged) {
    if (!found || damaged.step > restored.checkpoint.step) restored.skipped.push_back(damaged);
  }
  if (found) return restored;
  if (restored.skipped.empty()) {
    return absl::NotFoundError(absl::StrCat(folder_, ": there is no checkpoint"));
  }
  for (const DamagedCheckpoint& skipped : restored.skipped) {
    absl::StrAppend(&reasons, "\n  step ", skipped.step, ": ", skipped.why.message());
  }
  return absl::DataLossError(
      absl::StrCat(folder_, ": every checkpoint in it is damaged:", reasons));
}

absl::StatusOr<Manifest> CheckpointManager::WriteFiles(const Checkpoint& checkpoint) {
  Manifest manifest{.step = checkpoint.step, .state = checkpoint.state};
  if (checkpoint.score.has_value() && std::isfinite(*checkpoint.score)) {
    manifest.score = checkpoint.score;
  }
  // Nobody has used the name: whatever a second writer does, this manifest's file is this one's.
  ManifestFile file{.name = absl::StrFormat("state-%016x.safetensors", base::EntropySeed())};
  const std::string uri = io::JoinPath(FolderUri(checkpoint.step), file.name);
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> out, fs_.Create(uri));
  SummingStream summing(*out);
  const Weights weights{.arrays = checkpoint.arrays,
                        .metadata = {{"penstock.step", absl::StrCat(checkpoint.step)}}};
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(WriteSafetensors(summing, weights), uri));
  PENSTOCK_RETURN_IF_ERROR(summing.Close());
  file.bytes = summing.bytes();
  file.crc32 = summing.crc32();

  PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo written, fs_.Stat(uri));
  if (written.size != file.bytes) {
    return absl::DataLossError(absl::StrCat(uri, ": ", file.bytes, " bytes were written, and ",
                                            written.size, " are there"));
  }
  if (options_.verify_by_reading) PENSTOCK_RETURN_IF_ERROR(VerifyByReading(fs_, uri, file));
  manifest.files.push_back(std::move(file));
  return manifest;
}

absl::StatusOr<Saved> CheckpointManager::Save(const Checkpoint& checkpoint) {
  const int64_t step = checkpoint.step;
  if (step < 0) return absl::InvalidArgumentError(absl::StrCat("step ", step, " is negative"));
  PENSTOCK_RETURN_IF_ERROR(WriteManifest({.state = checkpoint.state}).status());
  PENSTOCK_ASSIGN_OR_RETURN(const Scan before, Look());
  if (!before.list.whole.empty() && before.list.whole.back().step > step) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder_, ": step ", step, " is older than the checkpoint of step ",
        before.list.whole.back().step,
        " that is there, which the next start would resume from. Use another folder, or remove "
        "the newer ones first"));
  }
  // First, so that a disk that a killed writer filled has room again.
  PENSTOCK_RETURN_IF_ERROR(RemoveLeftOvers(before));

  const std::string uri = FolderUri(step);
  PENSTOCK_ASSIGN_OR_RETURN(const Manifest manifest, WriteFiles(checkpoint));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, WriteManifest(manifest));
  PENSTOCK_RETURN_IF_ERROR(io::WriteFile(fs_, io::JoinPath(uri, kManifestName), text));
  unreadable_.erase(step);

  PENSTOCK_ASSIGN_OR_RETURN(const Scan after, Look());
  const CheckpointInfo* published = after.Find(step);
  if (published == nullptr) {
    return absl::AbortedError(absl::StrCat(
        uri,
        ": was changed by another process while it was written; one process at a time may "
        "write checkpoints into ",
        folder_));
  }
  return Saved{.info = *published, .cleanup = RemoveSuperfluous(after)};
}

absl::Status CheckpointManager::RemoveSuperfluous(const Scan& scan) {
  PENSTOCK_RETURN_IF_ERROR(RemoveLeftOvers(scan));
  for (const DamagedCheckpoint& damaged : scan.list.damaged) {
    PENSTOCK_RETURN_IF_ERROR(Remove(damaged.step));
  }
  const std::vector<CheckpointInfo>& whole = scan.list.whole;
  const CheckpointInfo* best = nullptr;
  for (const CheckpointInfo& info : whole) {
    if (info.score.has_value() && (best == nullptr || *info.score >= *best->score)) best = &info;
  }
  for (size_t i = 0; i + static_cast<size_t>(options_.keep) < whole.size(); ++i) {
    if (options_.keep_best && &whole[i] == best) continue;
    PENSTOCK_RETURN_IF_ERROR(Remove(whole[i].step));
  }
  return absl::OkStatus();
}

absl::Status CheckpointManager::RemoveLeftOvers(const Scan& scan) {
  for (int64_t step : scan.left_over_steps) PENSTOCK_RETURN_IF_ERROR(Remove(step));
  for (const std::string& uri : scan.left_over_files) {
    PENSTOCK_RETURN_IF_ERROR(IgnoreNotFound(fs_.Remove(uri)));
  }
  return absl::OkStatus();
}

// The manifest first: a kill in between leaves a folder that counts as nothing.
absl::Status CheckpointManager::Remove(int64_t step) {
  const std::string uri = FolderUri(step);
  PENSTOCK_RETURN_IF_ERROR(IgnoreNotFound(fs_.Remove(io::JoinPath(uri, kManifestName))));
  return IgnoreNotFound(fs_.RemoveRecursively(uri));
}

absl::Status CheckpointManager::RemoveNewerThan(int64_t step) {
  PENSTOCK_ASSIGN_OR_RETURN(const Scan scan, Look());
  // The newest first: a kill in between leaves no gap.
  for (auto info = scan.list.whole.rbegin(); info != scan.list.whole.rend(); ++info) {
    if (info->step > step) PENSTOCK_RETURN_IF_ERROR(Remove(info->step));
  }
  for (const DamagedCheckpoint& damaged : scan.list.damaged) {
    if (damaged.step > step) PENSTOCK_RETURN_IF_ERROR(Remove(damaged.step));
  }
  return absl::OkStatus();
}

}  // namespace penstock::save
