// Glob patterns (wildcards) of file names.
//
//   Glob(fs, "gs://flowers/train/*.tfrec")       the shards in one folder
//   Glob(fs, "/photos/**/*.[jJ][pP][gG]")        photographs at any depth
//   Glob(fs, "/photos/*/")                       the folders in /photos
//
// Wildcards within one path segment, as in a shell:
//   *        any number of characters, including none
//   ?        one character (a whole UTF-8 character)
//   [abc]    one of these characters; [a-z] a range; [!abc] or [^abc] none of these. A ']' that
//            comes first is literal, as is a '[' without its ']'. "[*]" matches a '*'.
//
// The segment ** matches any number of folders, including none. A name that begins with '.' is
// matched only by a segment that begins with '.', and ** does not enter such folders.
//
// Symbolic links (local paths). A link to a file is a file. A link to a folder is followed where
// the pattern names it (/data/link/**) and, in a pattern without **, where * or ? matches it. With
// **, a folder that can be reached under its own name is found only under that name; any other
// folder is found under the first link to it in name order (links inside linked folders last). So
// each file of a linked folder is found exactly once, and folders may link to each other.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"

namespace penstock::io {

// The files that match, sorted; folders only if the pattern ends in '/'. A pattern without
// wildcards names one file, and so does one that matches nothing but is the name of a file, such as
// "run[1]/00.tfrec". No other match is a NotFound error that says where it searched. The name of a
// bucket cannot contain wildcards.
absl::StatusOr<std::vector<std::string>> Glob(FileSystem& fs, absl::string_view pattern);

// Same as Glob, with the file information of the listing.
absl::StatusOr<std::vector<FileInfo>> GlobInfos(FileSystem& fs, absl::string_view pattern);

// Whether one segment of a path ("00.tfrec") matches one segment of a pattern ("*.tfrec").
bool SegmentMatches(absl::string_view pattern, absl::string_view name);

// Whether a path matches a pattern, segment by segment, with **.
bool PathMatches(absl::string_view pattern, absl::string_view path);

// Whether the name of a file, or of a folder between it and `folder`, begins with '.': names that a
// file manager hides, such as .ipynb_checkpoints and the "._NAME" that macOS leaves in archives.
bool IsHiddenBelow(const std::string& folder, const std::string& file);

bool HasWildcard(absl::string_view pattern);

// Whether a URI or a local path is a pattern: its path has a wildcard other than the '?' that
// begins its options.
bool IsPattern(absl::string_view uri);

}  // namespace penstock::io
