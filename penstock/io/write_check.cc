#include "penstock/io/write_check.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <sys/stat.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/files_elsewhere.h"
#include "penstock/io/local/folder_lock.h"
#include "penstock/io/local/local_output_stream.h"
#include "penstock/io/local/open_local_file.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

constexpr absl::string_view kTrial = "written by a check that files can be written here\n";

absl::Status BeginFile(FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<OutputStream> out, fs.Create(uri));
  return out->Append(kTrial);  // dropped without Close: nothing is published
}

// `path` is the local path of `uri`. Removes the folders created for the check, unless another
// process has started to use them.
absl::Status TryLocally(FileSystem& fs, absl::string_view uri, const std::string& path) {
  std::vector<std::filesystem::path> made;
  std::error_code error;
  const auto missing = [&](const std::filesystem::path& folder) {  // a dangling link is not missing
    return std::filesystem::symlink_status(folder, error).type() ==
           std::filesystem::file_type::not_found;
  };
  for (auto folder = std::filesystem::path(path).parent_path(); !folder.empty() && missing(folder);
       folder = folder.parent_path()) {
    made.push_back(folder);
  }
  // Another process that checks the same folder may have removed it in between.
  constexpr int kTrials = 3;
  absl::Status status = BeginFile(fs, uri);
  for (int i = 1; i < kTrials && absl::IsNotFound(status); ++i) status = BeginFile(fs, uri);
  for (const auto& folder : made) {
    // Only an empty one, and none that a training has locked to use it, or makes at this moment.
    const absl::StatusOr<FolderLock> lock = FolderLock::Acquire(folder.string(), "in use");
    if (lock.ok() && lock->found()) std::filesystem::remove(folder, error);
  }
  // What a check or a writer has left here that was killed.
  if (status.ok()) RemoveAbandonedFiles(std::filesystem::path(path).parent_path().string());
  return status;
}

// An object store starts to write only at Close, so only a complete object proves that writing
// works.
absl::Status TryBeside(FileSystem& fs, absl::string_view folder) {
  const std::string trial =
      JoinPath(folder, absl::StrFormat("penstock-write-check-%016x", base::EntropySeed()));
  PENSTOCK_RETURN_IF_ERROR(WriteFile(fs, trial, kTrial));
  // A user with permission to write but not to delete leaves one small object behind.
  fs.Remove(trial).IgnoreError();
  return absl::OkStatus();
}

absl::Status NotAFile(absl::string_view uri, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("'", DisplayName(uri), "' is ", what, ", but a file is to be written"));
}

// Whether the bytes contain what no text has: control characters but those of a layout.
bool IsBinary(absl::string_view bytes) {
  return std::any_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && absl::string_view("\t\n\v\f\r").find(c) == absl::string_view::npos;
  });
}

}  // namespace

absl::Status CheckWritableFile(FileSystem& fs, absl::string_view uri) {
  if (auto* const there = dynamic_cast<FilesElsewhere*>(&fs)) {
    return there->CheckWritableFileThere(uri);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Uri parsed, ParseUri(uri));
  if (parsed.is_local()) {
    if (parsed.path.empty() || parsed.path.back() == '/') return NotAFile(uri, "a folder's name");
    struct stat info;
    if (::stat(parsed.path.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) return NotAFile(uri, "a folder");
      if (S_ISFIFO(info.st_mode)) return NotAFile(uri, "a FIFO");
      if (!S_ISREG(info.st_mode)) return NotAFile(uri, "a device or a socket");
    }
    return TryLocally(fs, uri, parsed.path);
  }
  if (parsed.path.empty() || parsed.path.back() == '/') return NotAFile(uri, "a folder's name");
  return TryBeside(fs, Dirname(uri));
}

absl::Status CheckWritableText(FileSystem& fs, absl::string_view uri) {
  PENSTOCK_RETURN_IF_ERROR(CheckWritableFile(fs, uri));
  return CheckIsNotBinary(fs, uri);
}

absl::Status CheckIsNotBinary(FileSystem& fs, absl::string_view uri) {
  const auto file = fs.OpenRandomAccess(uri);
  if (!file.ok()) return absl::OkStatus();  // it does not exist, or can be written but not read
  std::string head(static_cast<size_t>(std::min<int64_t>((*file)->size(), 4096)), '\0');
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t read, (*file)->Read(0, absl::MakeSpan(head)));
  if (!IsBinary(absl::string_view(head).substr(0, static_cast<size_t>(read)))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("'", DisplayName(uri),
                   "' exists and is not a text, so it is not replaced by one; choose another name, "
                   "or remove the file first"));
}

absl::Status CheckWritableFolder(FileSystem& fs, absl::string_view folder_uri) {
  if (auto* const there = dynamic_cast<FilesElsewhere*>(&fs)) {
    return there->CheckWritableFolderThere(folder_uri);
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Uri parsed, ParseUri(folder_uri));
  if (!parsed.is_local()) return TryBeside(fs, folder_uri);
  if (struct stat info; ::stat(parsed.path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot create files in '", DisplayName(folder_uri), "', which is ",
        NameOfFileType(info.st_mode), "; give a folder, or a name that is not in use"));
  }
  constexpr absl::string_view kName = "penstock-write-check";
  return TryLocally(fs, JoinPath(folder_uri, kName), JoinPath(parsed.path, kName));
}

}  // namespace penstock::io
