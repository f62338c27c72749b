#include "penstock/io/scheme_router.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

class SchemeRouter : public FileSystem {
 public:
  explicit SchemeRouter(std::map<std::string, std::shared_ptr<FileSystem>> by_scheme)
      : by_scheme_(std::move(by_scheme)) {}

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(FileSystem * fs, Find(uri));
    return fs->OpenRandomAccess(uri);
  }
  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(FileSystem * fs, Find(uri));
    return fs->OpenInput(uri);
  }
  absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(FileSystem * fs, Find(uri));
    return fs->Create(uri);
  }
  absl::StatusOr<FileInfo> Stat(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(FileSystem * fs, Find(uri));
    return fs->Stat(uri);
  }
  absl::StatusOr<std::vector<FileInfo>> List(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(FileSystem * fs, Find(uri));
    return fs->List(uri);
  }
  absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(FileSystem * fs, Find(uri));
    return fs->ListRecursive(uri);
  }
  absl::Status Remove(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(FileSystem * fs, Find(uri));
    return fs->Remove(uri);
  }
  absl::Status RemoveRecursively(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(FileSystem * fs, Find(uri));
    return fs->RemoveRecursively(uri);
  }
  absl::Status CreateFolder(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(FileSystem * fs, Find(uri));
    return fs->CreateFolder(uri);
  }

 private:
  absl::StatusOr<FileSystem*> Find(absl::string_view text) const {
    PENSTOCK_ASSIGN_OR_RETURN(const Uri uri, ParseUri(text));
    const auto it = by_scheme_.find(uri.scheme);
    if (it != by_scheme_.end()) return it->second.get();
    const std::string what =
        uri.scheme.empty() ? "is a local path, which is not supported here"
                           : absl::StrCat("has the scheme '", uri.scheme, "', which is unknown");
    return absl::InvalidArgumentError(
        absl::StrCat("'", DisplayName(text), "' ", what, "; supported are ", Known()));
  }

  // "local paths, file://, gs://".
  std::string Known() const {
    return absl::StrJoin(by_scheme_, ", ", [](std::string* out, const auto& entry) {
      absl::StrAppend(out, entry.first.empty() ? "local paths" : entry.first + "://");
    });
  }

  const std::map<std::string, std::shared_ptr<FileSystem>> by_scheme_;
};

}  // namespace

std::shared_ptr<FileSystem> MakeSchemeRouter(
    std::map<std::string, std::shared_ptr<FileSystem>> by_scheme) {
  return std::make_shared<SchemeRouter>(std::move(by_scheme));
}

}  // namespace penstock::io
