// Parsing, formatting and joining of file names: local paths and URIs.
//
//   JoinPath("gs://flowers/train?project_id=p", "0.tfrec") gs://flowers/train/0.tfrec?project_id=p
//   Basename("gs://flowers/train/0.tfrec?project_id=p")      0.tfrec
//   Dirname("/data/train/0.tfrec")                           /data/train
//
// Supported names:
//   data/00.tfrec, /data/00.tfrec     a local path, used as it is
//   file:///data/00.tfrec             the same
//   gs://BUCKET/NAME?OPTIONS          Google Cloud Storage; s3:// (Amazon S3) likewise
//   memory://NAME                     a file system in memory, for tests
//
// Names are literal, as in gsutil and tf.io.gfile: nothing is percent-decoded, so "my photo.jpg",
// "100%.jpg" and "é#1.jpg" are written as they are in every scheme. The one character that needs a
// rule is '?', which a name, a glob pattern and a URI's options may all contain. Only gs:// and
// s3:// take options, and what follows the last '?' is options when it reads as KEY=VALUE pairs
// joined by '&', KEY of letters and '_'; so "gs://b/shard-?.tfrec" is a pattern without options. An
// object whose name itself ends in "?width=100" is written with "?&" (empty options) appended, and
// is listed that way.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::io {

struct Uri {
  std::string scheme;  // lower case; empty for a local path without one
  std::string user;    // gs, s3: the part before '@': "anonymous", or "key:secret"
  std::string bucket;  // gs, s3: never empty for these
  std::string
      path;  // local: the path; otherwise the object name without a leading '/', may be empty
  std::string options;  // gs, s3: "endpoint_override=127.0.0.1:9000&scheme=http"

  bool is_local() const { return scheme.empty() || scheme == "file"; }
};

// Parses a name. InvalidArgument for an empty name, a NUL byte, "gs:/x" with one slash, a missing
// bucket, "file://HOST/x", and, outside local paths, empty, "." and ".." segments, which object
// stores would treat as literal names.
absl::StatusOr<Uri> ParseUri(absl::string_view uri);

// Inverse of ParseUri.
std::string FormatUri(const Uri& uri);

// FormatUri without secrets and options, for messages.
std::string DisplayUri(const Uri& uri);

// Same for any text, well-formed or not: omits the part before '@' in "SCHEME://KEY:SECRET@BUCKET"
// and the options. A local path is returned unchanged.
std::string DisplayName(absl::string_view name);

// Whether a URI can address an object of this name. A store may contain names with empty, "." and
// ".." segments or NUL bytes, which ParseUri rejects; listings omit these.
bool IsAddressable(absl::string_view path);

// Value of an option of the URI; no value if it is absent.
std::optional<std::string> OptionValue(const Uri& uri, absl::string_view key);

// Appends `name` (relative, any number of segments) to the path of `base`. Options of `base` stay
// at the end.
std::string JoinPath(absl::string_view base, absl::string_view name);

// Appends `suffix` to the path, before the options: ("gs://b/0.tfrec?project_id=p", ".index") gives
// gs://b/0.tfrec.index?project_id=p.
std::string AppendToName(absl::string_view uri, absl::string_view suffix);

// Last segment of the path, without options; trailing slashes are ignored. Empty for a root.
std::string Basename(absl::string_view uri);

// Parent of the last segment, with the options; "." for a local name without '/'. The parent of a
// root is itself.
std::string Dirname(absl::string_view uri);

}  // namespace penstock::io
