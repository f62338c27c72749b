#include "penstock/save/checkpoint_scan.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/save/read_exactly.h"

namespace penstock::save {
namespace {

// Eight digits, so that names sort by step; more digits if the step needs them.
std::string FolderName(int64_t step) { return absl::StrFormat("step-%08d", step); }

bool IsStateName(absl::string_view name) {
  return absl::ConsumePrefix(&name, "state-") && absl::ConsumeSuffix(&name, ".safetensors") &&
         name.size() == 16 && std::all_of(name.begin(), name.end(), absl::ascii_isxdigit);
}

// Object stores have no links.
bool IsSymbolicLink(absl::string_view uri) {
  const absl::StatusOr<io::Uri> parsed = io::ParseUri(uri);
  if (!parsed.ok() || !parsed->is_local()) return false;
  std::error_code error;
  return std::filesystem::is_symlink(parsed->path, error);
}

absl::Status Contradiction(absl::string_view uri, absl::string_view found) {
  return absl::UnavailableError(
      absl::StrCat(io::DisplayName(uri),
                   ": its folder lists it, but opening it reports that it does not exist (", found,
                   "); the store contradicts itself, try again"));
}

absl::StatusOr<Manifest> OpenManifestOf(io::FileSystem& fs, const std::string& uri, int64_t step) {
  PENSTOCK_ASSIGN_OR_RETURN(Manifest manifest, OpenManifest(fs, uri));
  if (manifest.step != step) {
    return absl::DataLossError(
        absl::StrCat(io::DisplayName(uri), ": is the manifest of step ", manifest.step));
  }
  return manifest;
}

bool Lists(const std::vector<io::FileInfo>& files, absl::string_view name) {
  return std::any_of(files.begin(), files.end(),
                     [&](const io::FileInfo& file) { return io::Basename(file.uri) == name; });
}

// DATA_LOSS if a file that the manifest names is missing or has another size; any other error means
// that its state is unknown.
absl::Status CheckFiles(io::FileSystem& fs, const std::string& uri, const Manifest& manifest,
                        const std::vector<io::FileInfo>& files) {
  for (const ManifestFile& expected : manifest.files) {
    const auto found = std::find_if(files.begin(), files.end(), [&](const io::FileInfo& file) {
      return io::Basename(file.uri) == expected.name;
    });
    int64_t size = 0;
    if (found != files.end()) {
      size = found->size;
    } else {
      const absl::StatusOr<io::FileInfo> info = fs.Stat(io::JoinPath(uri, expected.name));
      if (absl::IsNotFound(info.status())) {
        return absl::DataLossError(absl::StrCat(expected.name, " is missing"));
      }
      if (!info.ok()) {
        return absl::IsDataLoss(info.status()) ? absl::UnavailableError(info.status().message())
                                               : info.status();
      }
      size = info->size;
    }
    if (size != expected.bytes) {
      return absl::DataLossError(
          absl::StrCat(expected.name, " has ", size, " bytes instead of ", expected.bytes));
    }
  }
  return absl::OkStatus();
}

// Scans one step's folder. UNAVAILABLE: the store contradicts itself.
absl::StatusOr<StepEntry> LookAtStep(io::FileSystem& fs, const std::string& folder, int64_t step) {
  using Kind = StepEntry::Kind;
  const std::string uri = StepFolder(folder, step);
  StepEntry entry{.step = step, .linked = IsSymbolicLink(uri)};
  const absl::StatusOr<std::vector<io::FileInfo>> files = fs.List(uri);
  if (absl::IsNotFound(files.status())) return Contradiction(uri, files.status().message());
  if (!files.ok()) return files.status();
  const std::string manifest_uri = io::JoinPath(uri, kManifestName);
  absl::StatusOr<Manifest> manifest = OpenManifestOf(fs, manifest_uri, step);
  if (absl::IsNotFound(manifest.status()) && Lists(*files, kManifestName)) {
    return Contradiction(manifest_uri, manifest.status().message());
  }
  bool only_states = !entry.linked;
  for (const io::FileInfo& file : *files) {
    const std::string name = io::Basename(file.uri);
    const bool named =
        manifest.ok() && std::any_of(manifest->files.begin(), manifest->files.end(),
                                     [&](const ManifestFile& f) { return f.name == name; });
    if (name == kManifestName || named) continue;
    const bool state = IsStateName(name) && !file.is_directory;
    only_states = only_states && state;
    if (state && !entry.linked) entry.unreferenced.push_back(file.uri);
  }
  if (absl::IsNotFound(manifest.status())) {
    entry.kind = only_states ? Kind::kUnfinished : Kind::kForeign;
    return entry;
  }
  if (!manifest.ok() && !absl::IsDataLoss(manifest.status())) return manifest.status();
  entry.why = manifest.ok() ? CheckFiles(fs, uri, *manifest, *files) : manifest.status();
  if (!entry.why.ok() && !absl::IsDataLoss(entry.why)) return entry.why;
  entry.kind = entry.why.ok() ? Kind::kComplete : Kind::kCorrupt;
  if (manifest.ok()) entry.manifest = *std::move(manifest);
  return entry;
}

struct Look {
  std::vector<StepEntry> entries = {};
  absl::Status contradiction = {};

  // True if the first scan is conclusive: all files themselves were seen.
  bool sure() const {
    return contradiction.ok() && !entries.empty() &&
           std::all_of(entries.begin(), entries.end(),
                       [](const StepEntry& e) { return e.kind == StepEntry::Kind::kComplete; });
  }
  bool Agrees(const Look& other) const {
    return contradiction.ok() == other.contradiction.ok() &&
           std::equal(entries.begin(), entries.end(), other.entries.begin(), other.entries.end(),
                      [](const StepEntry& a, const StepEntry& b) {
                        return a.step == b.step && a.kind == b.kind;
                      });
  }
};

absl::StatusOr<Look> LookOnce(io::FileSystem& fs, const std::string& folder) {
  Look look;
  const absl::StatusOr<std::vector<io::FileInfo>> entries = fs.List(folder);
  if (absl::IsNotFound(entries.status())) return look;
  if (!entries.ok()) return entries.status();
  for (const io::FileInfo& info : *entries) {
    const std::optional<int64_t> step = StepOfFolder(io::Basename(info.uri));
    if (!step.has_value() || !info.is_directory) continue;
    absl::StatusOr<StepEntry> entry = LookAtStep(fs, folder, *step);
    if (entry.ok()) {
      look.entries.push_back(*std::move(entry));
    } else if (absl::IsUnavailable(entry.status())) {
      look.contradiction = entry.status();
    } else {
      return entry.status();
    }
  }
  std::sort(look.entries.begin(), look.entries.end(),
            [](const StepEntry& a, const StepEntry& b) { return a.step < b.step; });
  return look;
}

}  // namespace

std::string StepFolder(absl::string_view folder, int64_t step) {
  return io::JoinPath(folder, FolderName(step));
}

std::optional<int64_t> StepOfFolder(absl::string_view name) {
  absl::string_view digits = name;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&digits, "step-") || !absl::SimpleAtoi(digits, &step) || step < 0 ||
      FolderName(step) != name) {
    return std::nullopt;
  }
  return step;
}

std::string NewStateName() {
  return absl::StrFormat("state-%016x.safetensors", base::EntropySeed());
}

const StepEntry* CheckpointScan::Find(int64_t step) const {
  for (const StepEntry& entry : entries) {
    if (entry.step == step) return &entry;
  }
  return nullptr;
}

const StepEntry* CheckpointScan::NewestComplete() const {
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->kind == StepEntry::Kind::kComplete) return &*entry;
  }
  return nullptr;
}

absl::StatusOr<CheckpointScan> ScanCheckpoints(io::FileSystem& fs, const std::string& folder,
                                               const std::set<int64_t>& unreadable) {
  constexpr int kMaxLooks = 4;
  std::optional<Look> last;
  bool seen = false;  // a checkpoint, in any scan
  for (int i = 0; i < kMaxLooks; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(Look look, LookOnce(fs, folder));
    seen = seen || !look.entries.empty() || !look.contradiction.ok();
    if (!look.sure() && !(last.has_value() && look.Agrees(*last))) {
      last = std::move(look);
      continue;
    }
    if (!look.contradiction.ok()) return look.contradiction;
    if (seen && look.entries.empty()) {
      return absl::UnavailableError(absl::StrCat(
          io::DisplayName(folder), ": its checkpoints disappeared during the scan; try again"));
    }
    for (StepEntry& entry : look.entries) {
      if (entry.kind != StepEntry::Kind::kComplete || !unreadable.contains(entry.step)) continue;
      entry.kind = StepEntry::Kind::kCorrupt;
      entry.why = absl::DataLossError("a checksum is wrong: bytes changed since it was written");
    }
    return CheckpointScan{.entries = std::move(look.entries)};
  }
  if (!last->contradiction.ok()) return last->contradiction;
  return absl::UnavailableError(
      absl::StrCat(io::DisplayName(folder), ": ", kMaxLooks,
                   " scans of its checkpoints returned different results; ",
                   "either another process is writing there, or the store is failing"));
}

absl::StatusOr<bool> IsListed(io::FileSystem& fs, const std::string& folder_uri,
                              absl::string_view name) {
  const absl::StatusOr<std::vector<io::FileInfo>> files = fs.List(folder_uri);
  if (absl::IsNotFound(files.status())) return false;
  if (!files.ok()) return files.status();
  return Lists(*files, name);
}

absl::StatusOr<Manifest> OpenManifest(io::FileSystem& fs, const std::string& uri) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(uri));
  if (file->size() > kMaxManifestBytes) {
    return absl::DataLossError(
        absl::StrCat(io::DisplayName(uri), ": ", file->size(), " bytes, too large for a manifest"));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  PENSTOCK_RETURN_IF_ERROR(ReadExactly(*file, 0, absl::MakeSpan(text)));
  absl::StatusOr<Manifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return base::WithContext(manifest.status(), io::DisplayName(uri));
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(io::FileSystem& fs, const std::string& folder, int64_t step) {
  const std::string folder_uri = StepFolder(folder, step);
  const std::string uri = io::JoinPath(folder_uri, kManifestName);
  absl::StatusOr<Manifest> manifest = OpenManifestOf(fs, uri, step);
  if (!absl::IsNotFound(manifest.status())) return manifest;
  PENSTOCK_ASSIGN_OR_RETURN(bool listed, IsListed(fs, folder_uri, kManifestName));
  manifest = OpenManifestOf(fs, uri, step);
  if (!absl::IsNotFound(manifest.status())) return manifest;
  if (!listed) {
    PENSTOCK_ASSIGN_OR_RETURN(listed, IsListed(fs, folder_uri, kManifestName));
  }
  if (listed) return Contradiction(uri, manifest.status().message());
  return manifest;
}

}  // namespace penstock::save
