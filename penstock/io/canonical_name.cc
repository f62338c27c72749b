#include "penstock/io/canonical_name.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "penstock/io/uri.h"

namespace penstock::io {

std::string CanonicalName(absl::string_view name) {
  absl::StatusOr<Uri> uri = ParseUri(name);
  if (!uri.ok()) return std::string(name);
  if (uri->is_local()) {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::weakly_canonical(uri->path, error);
    return error ? uri->path : real.string();
  }
  const std::string endpoint = OptionValue(*uri, "endpoint_override").value_or("");
  uri->user.clear();
  uri->options.clear();
  return absl::StrCat(endpoint, " ", FormatUri(*uri));
}

}  // namespace penstock::io
