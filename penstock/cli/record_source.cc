#include "penstock/cli/record_source.h"

#include "penstock/io/uri.h"

namespace penstock::cli {

bool IsRemote(absl::string_view uri) {
  const absl::StatusOr<io::Uri> parsed = io::ParseUri(uri);
  return parsed.ok() && !parsed->bucket.empty();
}

}  // namespace penstock::cli
