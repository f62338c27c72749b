// Names of files: local paths and URIs, taken apart and put together.
//
//   JoinPath("gs://flowers/train?project_id=p", "0.tfrec") gs://flowers/train/0.tfrec?project_id=p
//   Basename("gs://flowers/train/0.tfrec?project_id=p")      0.tfrec
//   Dirname("/data/train/0.tfrec")                           /data/train
//
// What a name may look like:
//   data/00.tfrec, /data/00.tfrec     a local path, taken as it is
//   file:///data/00.tfrec             the same
//   gs://BUCKET/NAME?OPTIONS          Google Cloud Storage; s3:// likewise
//   memory://NAME                     a file system in memory, for tests
//
// Names are literal, as in gsutil and tf.io.gfile: nothing is percent-decoded, so "my photo.jpg",
// "100%.jpg" and "é#1.jpg" are written as they are in every scheme. The one character that needs a
// rule is '?', which a name, a glob pattern and a URI's options may all contain. Only gs:// and
// s3:// take options, and what follows the last '?' is options when it reads as KEY=VALUE pairs
// joined by '&', KEY of letters and '_'; so "gs://b/shard-?.tfrec" is a pattern without options. An
// object whose name itself ends in "?width=100" is written with "?&" (options, but none) behind it,
// and is listed so.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::io {

struct Uri {
  std::string scheme;   // lower case; empty for a local path without one
  std::string user;     // gs, s3: what stands before '@': "anonymous", or "key:secret"
  std::string bucket;   // gs, s3: never empty there
  std::string path;     // local: the path; otherwise the name without a leading '/', may be empty
  std::string options;  // gs, s3: "endpoint_override=127.0.0.1:9000&scheme=http"

  bool is_local() const { return scheme.empty() || scheme == "file"; }
};

// Refuses an empty name, a NUL byte, "gs:/x" with one slash, a missing bucket, "file://HOST/x",
// and, outside local paths, empty, "." and ".." steps, which object stores would take for names.
absl::StatusOr<Uri> ParseUri(absl::string_view uri);

// The text that ParseUri reads as `uri`.
std::string FormatUri(const Uri& uri);

// As FormatUri, without options and secrets: for messages.
std::string DisplayUri(const Uri& uri);

// As above for any text, well-formed or not: omits the part before '@' in
// "SCHEME://KEY:SECRET@BUCKET" and the options. A local path is returned unchanged.
std::string DisplayName(absl::string_view name);

// Whether a URI can address an object of this name: a store may have names with empty, "." and ".."
// segments or NUL bytes, which ParseUri rejects. Listings leave these out.
bool IsAddressable(absl::string_view path);

// The value of one of its options.
std::optional<std::string> OptionValue(const Uri& uri, absl::string_view key);

// `name` (relative, with any number of steps) below `base`. Options of `base` stay at the end.
std::string JoinPath(absl::string_view base, absl::string_view name);

// The name with more at the end of its path, and not behind its options:
// ("gs://b/0.tfrec?project_id=p", ".index") is gs://b/0.tfrec.index?project_id=p.
std::string AppendToName(absl::string_view uri, absl::string_view suffix);

// The last step of the path, without options; trailing slashes are ignored. Empty for a root.
std::string Basename(absl::string_view uri);

// What holds the last step, with the options; "." for a local name without '/'. A root is its own.
std::string Dirname(absl::string_view uri);

}  // namespace penstock::io
