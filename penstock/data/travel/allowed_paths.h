// AllowedPaths: which URIs the pipelines and checkpoints of other users may use on this machine.
//
//   AllowedPaths allowed({"gs://flowers/", "/data/shards"}, /*writable=*/{});
//   allowed.Check("gs://flowers/train-*.tfrec", /*write=*/false);   // OK
//   allowed.Check("gs://flowers2/train.tfrec", false);              // PERMISSION_DENIED
//
// A URI is allowed if it is a prefix's own name or below it: prefixes end at a "/" in effect, whether one is
// written or not. A pattern's wildcards are segments like others, and none of them matches "..", which is
// rejected everywhere. Scheme, user and options (a custom endpoint) must be those of the prefix: the machine's
// own credentials go nowhere else. What may be written may also be read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::data {

class AllowedPaths {
 public:
  // InvalidArgument from Check if a prefix is malformed.
  AllowedPaths(std::vector<std::string> readable, std::vector<std::string> writable)
      : readable_(std::move(readable)), writable_(std::move(writable)) {}

  // PermissionDenied names the URI, without secrets, and what is allowed.
  absl::Status Check(absl::string_view uri, bool write) const;

 private:
  const std::vector<std::string> readable_, writable_;
};

// `next` for allowed URIs only. Local files are the machine's own and reached past a FileSystem too (Cache,
// FromNpy), so descriptions are checked as well (DatasetJsonLimits::check).
std::shared_ptr<io::FileSystem> MakeAllowedFileSystem(std::shared_ptr<io::FileSystem> next,
                                                      std::shared_ptr<const AllowedPaths> allowed);

}  // namespace penstock::data
