#include "penstock/pack/read_input.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/pack/convert.h"

namespace penstock::pack {
namespace {

// Checks with Stat a file whose opening failed with NOT_FOUND (`first`). Returns NOT_FOUND if Stat
// agrees, otherwise a storage error.
absl::Status ConfirmMissing(io::FileSystem& fs, const std::string& uri, const absl::Status& first) {
  const absl::Status again = fs.Stat(uri).status();
  if (!again.ok()) return StorageError(again);
  return absl::UnavailableError(
      absl::StrCat(first.message(), "; it existed a moment later: check its disk or network"));
}

absl::Status ExplainMissing(io::FileSystem& fs, const std::string& uri, const absl::Status& first) {
  const absl::Status again = ConfirmMissing(fs, uri, first);
  if (!absl::IsNotFound(again)) return again;
  const absl::StatusOr<io::FileInfo> folder = fs.Stat(io::Dirname(uri));
  if (!folder.ok()) return StorageError(folder.status());
  return absl::InvalidArgumentError(first.message());
}

}  // namespace

bool IsBadInput(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsDataLoss(status);
}

absl::Status StorageError(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? absl::UnavailableError(status.message()) : status;
}

absl::Status ContentError(const absl::Status& status) {
  const bool is_permanent = absl::IsResourceExhausted(status) || absl::IsUnimplemented(status);
  return is_permanent ? absl::InvalidArgumentError(status.message()) : status;
}

absl::StatusOr<std::string> ReadInput(io::FileSystem& fs, const std::string& uri) {
  absl::StatusOr<std::string> bytes = io::ReadFile(fs, uri);
  if (bytes.ok()) return bytes;
  if (absl::IsNotFound(bytes.status())) return ExplainMissing(fs, uri, bytes.status());
  return StorageError(bytes.status());
}

absl::StatusOr<std::optional<std::string>> ReadOptional(io::FileSystem& fs,
                                                        const std::string& uri) {
  absl::StatusOr<std::string> bytes = io::ReadFile(fs, uri);
  if (bytes.ok()) return std::optional<std::string>(*std::move(bytes));
  if (!absl::IsNotFound(bytes.status())) return bytes.status();
  const absl::Status again = ConfirmMissing(fs, uri, bytes.status());
  if (absl::IsNotFound(again)) return std::nullopt;
  return again;
}

std::vector<std::string> SplitClassNames(absl::string_view text) {
  std::vector<std::string> names = absl::StrSplit(text, '\n');
  if (!names.empty() && names.back().empty()) names.pop_back();
  for (std::string& name : names) {
    if (absl::EndsWith(name, "\r")) name.pop_back();
  }
  return names;
}

absl::StatusOr<std::vector<std::string>> ReadClassNames(io::FileSystem& fs,
                                                        const std::string& folder) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                            ReadOptional(fs, io::JoinPath(folder, kClassesFile)));
  return text ? SplitClassNames(*text) : std::vector<std::string>();
}

bool IsRemote(absl::string_view uri) {
  const absl::StatusOr<io::Uri> parsed = io::ParseUri(uri);
  return parsed.ok() && !parsed->bucket.empty();
}

std::string LocalPath(absl::string_view uri) {
  const absl::StatusOr<io::Uri> parsed = io::ParseUri(uri);
  return parsed.ok() && parsed->is_local() ? parsed->path : "";
}

}  // namespace penstock::pack
