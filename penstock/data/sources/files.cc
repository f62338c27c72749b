#include "penstock/data/sources/files.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"
#include "penstock/record/crc32c.h"

namespace penstock::data {

namespace {

absl::StatusOr<std::vector<io::FileInfo>> FindInfos(io::FileSystem& file_system,
                                                    const std::vector<std::string>& patterns) {
  std::vector<io::FileInfo> files;
  for (const std::string& pattern : patterns) {
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<io::FileInfo> found, io::GlobInfos(file_system, pattern));
    files.insert(files.end(), std::make_move_iterator(found.begin()),
                 std::make_move_iterator(found.end()));
  }
  return files;
}

// Sizes and versions of files that are not local, from listings of their folders: one request for a
// thousand files, instead of one for each. Single files and folders that cannot be listed are left
// out.
absl::StatusOr<absl::flat_hash_map<std::string, io::FileInfo>> ListedInfos(
    io::FileSystem& file_system, const std::vector<std::string>& files) {
  absl::flat_hash_map<std::string, int64_t> folders;
  for (const std::string& file : files) {
    PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(file));
    if (!uri.is_local()) ++folders[io::Dirname(file)];
  }
  absl::flat_hash_map<std::string, io::FileInfo> infos;
  for (const auto& [folder, count] : folders) {
    if (count == 1) continue;
    const auto list = file_system.List(folder);
    if (!list.ok()) continue;
    for (const io::FileInfo& info : *list) infos[info.uri] = info;
  }
  return infos;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindFiles(io::FileSystem& file_system,
                                                   const std::vector<std::string>& patterns) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> infos,
                            FindInfos(file_system, patterns));
  std::vector<std::string> files;
  for (const io::FileInfo& info : infos) files.push_back(info.uri);
  return files;
}

std::string Shards::VersionOf(const std::string& file) const {
  const auto found = versions.find(file);
  return found == versions.end() ? "" : found->second;
}

absl::StatusOr<Shards> FindShards(io::FileSystem& file_system,
                                  const std::vector<std::string>& patterns) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> infos,
                            FindInfos(file_system, patterns));
  absl::flat_hash_set<std::string> indices;
  for (const io::FileInfo& info : infos) indices.insert(record::TfRecordIndexUri(info.uri));
  Shards shards;
  std::vector<std::string> empty;
  for (const io::FileInfo& info : infos) {
    if (indices.contains(info.uri)) continue;
    shards.files.push_back(info.uri);
    if (!info.version.empty()) shards.versions[info.uri] = info.version;
    if (info.size == 0) empty.push_back(info.uri);
  }
  if (!empty.empty()) {
    shards.empty_shards_warning =
        absl::StrCat(empty.size(), " of ", shards.files.size(),
                     " shards are empty; was writing them interrupted? ", PrintPatterns(empty));
  }
  return shards;
}

absl::StatusOr<std::vector<record::TfRecordIndex>> LoadIndices(
    io::FileSystem& file_system, const std::vector<std::string>& shards,
    absl::StatusOr<record::TfRecordIndex> (*load)(io::FileSystem&, absl::string_view),
    int parallel) {
  constexpr int kAtOnce = 8;
  std::vector<absl::StatusOr<record::TfRecordIndex>> loaded(shards.size(), absl::UnknownError(""));
  {
    const int threads = parallel == 0 ? kAtOnce : parallel;
    PENSTOCK_ASSIGN_OR_RETURN(
        const auto pool,
        base::ThreadPool::Make(std::min<int>(threads, static_cast<int>(shards.size())), "index"));
    base::ParallelFor(*pool, 0, static_cast<int64_t>(shards.size()), [&](int64_t i) {
      loaded[static_cast<size_t>(i)] = load(file_system, shards[static_cast<size_t>(i)]);
    });
  }
  std::vector<record::TfRecordIndex> indices;
  for (auto& index : loaded) {
    PENSTOCK_RETURN_IF_ERROR(index.status());
    indices.push_back(*std::move(index));
  }
  return indices;
}

absl::StatusOr<std::string> FilesFingerprint(const ResolveContext& context,
                                             const std::vector<std::string>& files) {
  absl::flat_hash_map<std::string, io::FileInfo> listed;
  if (context.exact) {
    PENSTOCK_ASSIGN_OR_RETURN(listed, ListedInfos(*context.file_system, files));
  }
  uint32_t checksum = 0;
  for (const std::string& file : files) {
    PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(file));
    std::string state = file;
    if (uri.is_local() || context.exact) {
      const auto found = listed.find(file);
      io::FileInfo info;
      if (found != listed.end()) {
        info = found->second;
      } else {
        PENSTOCK_ASSIGN_OR_RETURN(info, context.file_system->Stat(file));
      }
      absl::StrAppend(&state, " ", info.size, " ",
                      static_cast<int64_t>(info.modified_unix_seconds * 1e6));
      if (!info.version.empty()) absl::StrAppend(&state, " ", info.version);
    }
    checksum = record::ExtendCrc32c(checksum, absl::StrCat(state, "\n"));
  }
  return absl::StrCat(files.size(), " files, ", absl::Hex(checksum, absl::kZeroPad8));
}

bool AnyInObjectStore(const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [](const std::string& pattern) {
    const auto uri = io::ParseUri(pattern);
    return uri.ok() && !uri->bucket.empty();
  });
}

std::string PrintPatterns(const std::vector<std::string>& patterns) {
  constexpr size_t kMax = 2;
  const size_t shown = std::min(patterns.size(), kMax);
  std::string out = absl::StrJoin(
      patterns.begin(), patterns.begin() + static_cast<int64_t>(shown), ", ",
      [](std::string* text, const std::string& p) { absl::StrAppend(text, io::DisplayName(p)); });
  if (patterns.size() > shown) absl::StrAppend(&out, " ... (", patterns.size(), " in all)");
  return out;
}

}  // namespace penstock::data
