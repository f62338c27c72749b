#include "penstock/data/travel/allowed_paths.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/uri.h"

namespace penstock::data {
namespace {

// Local paths have no "//", "." or "trailing/" afterwards; ".." is an error, because links make it
// ambiguous, and relative paths are, because they depend on the working directory.
absl::StatusOr<io::Uri> Normalized(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(io::Uri parsed, io::ParseUri(uri));
  std::vector<absl::string_view> segments;
  for (absl::string_view segment : absl::StrSplit(parsed.path, '/')) {
    if (segment == "..") return absl::PermissionDeniedError("a path with '..' is not allowed");
    if (!segment.empty() && segment != ".") segments.push_back(segment);
  }
  if (parsed.is_local()) {
    if (!absl::StartsWith(parsed.path, "/")) {
      return absl::PermissionDeniedError("a relative path is not allowed; write it from the root");
    }
    parsed.scheme = "";
  }
  parsed.path = absl::StrJoin(segments, "/");
  return parsed;
}

bool IsBelow(const io::Uri& uri, const io::Uri& prefix) {
  if (uri.scheme != prefix.scheme || uri.user != prefix.user || uri.bucket != prefix.bucket ||
      uri.options != prefix.options) {
    return false;
  }
  absl::string_view path = uri.path;
  if (prefix.path.empty()) return true;
  return absl::ConsumePrefix(&path, prefix.path) && (path.empty() || path[0] == '/');
}

class AllowedFileSystem : public io::ForwardingFileSystem {
 public:
  AllowedFileSystem(std::shared_ptr<io::FileSystem> next,
                    std::shared_ptr<const AllowedPaths> allowed)
      : ForwardingFileSystem(std::move(next)), allowed_(std::move(allowed)) {}

  absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(allowed_->Check(uri, false));
    return next().OpenRandomAccess(uri);
  }
  absl::StatusOr<std::unique_ptr<io::InputStream>> OpenInput(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(allowed_->Check(uri, false));
    return next().OpenInput(uri);
  }
  absl::StatusOr<std::unique_ptr<io::OutputStream>> Create(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(allowed_->Check(uri, true));
    return next().Create(uri);
  }
  absl::StatusOr<io::FileInfo> Stat(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(allowed_->Check(uri, false));
    return next().Stat(uri);
  }
  absl::StatusOr<std::vector<io::FileInfo>> List(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(allowed_->Check(uri, false));
    return next().List(uri);
  }
  absl::StatusOr<std::vector<io::FileInfo>> ListRecursive(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(allowed_->Check(uri, false));
    return next().ListRecursive(uri);
  }
  absl::Status Remove(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(allowed_->Check(uri, true));
    return next().Remove(uri);
  }
  absl::Status RemoveRecursively(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(allowed_->Check(uri, true));
    return next().RemoveRecursively(uri);
  }
  absl::Status CreateFolder(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(allowed_->Check(uri, true));
    return next().CreateFolder(uri);
  }

 private:
  const std::shared_ptr<const AllowedPaths> allowed_;
};

}  // namespace

absl::Status AllowedPaths::Check(absl::string_view uri, bool write) const {
  const std::string name = io::DisplayName(uri);
  const absl::StatusOr<io::Uri> parsed = Normalized(uri);
  if (!parsed.ok()) return base::WithContext(parsed.status(), name);
  std::vector<std::string> prefixes = writable_;
  if (!write) prefixes.insert(prefixes.end(), readable_.begin(), readable_.end());
  for (const std::string& text : prefixes) {
    const absl::StatusOr<io::Uri> prefix = Normalized(text);
    if (!prefix.ok()) return base::WithContext(prefix.status(), io::DisplayName(text));
    if (IsBelow(*parsed, *prefix)) return absl::OkStatus();
  }
  std::vector<std::string> shown;
  for (const std::string& text : prefixes) shown.push_back(io::DisplayName(text));
  return absl::PermissionDeniedError(absl::StrCat(
      name, ": the worker may not ", write ? "write" : "read", " it; ",
      shown.empty() ? "nothing is allowed" : absl::StrCat("allowed: ", absl::StrJoin(shown, ", ")),
      ". Its owner allows more by --", write ? "write" : "read", " PREFIX"));
}

std::shared_ptr<io::FileSystem> MakeAllowedFileSystem(std::shared_ptr<io::FileSystem> next,
                                                      std::shared_ptr<const AllowedPaths> allowed) {
  return std::make_shared<AllowedFileSystem>(std::move(next), std::move(allowed));
}

}  // namespace penstock::data
