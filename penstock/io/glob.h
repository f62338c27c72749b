// Patterns of file names.
//
//   Glob(fs, "gs://flowers/train/*.tfrec")       the shards in one folder
//   Glob(fs, "/photos/**/*.[jJ][pP][gG]")        photographs at any depth
//   Glob(fs, "/photos/*/")                       the folders in /photos
//
// Within one step of a path, as in a shell:
//   *        any characters, also none
//   ?        one character (a whole UTF-8 character)
//   [abc]    one of these characters; [a-z] a range; [!abc] or [^abc] none of these. A ']' standing
//            first is itself; a '[' without its ']' is itself. "[*]" matches a '*'.
//
// The step ** matches any number of folders, also none. A name that begins with '.' is matched only
// by a step that begins with '.', and ** does not enter such folders.
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

// Files that match, sorted; folders only when the pattern ends in '/'. A pattern without wildcards
// names one file. Nothing found is a NotFound error that says where it looked. Wildcards cannot
// stand in the name of a bucket.
absl::StatusOr<std::vector<std::string>> Glob(FileSystem& fs, absl::string_view pattern);

// The same with what the listing says of them.
absl::StatusOr<std::vector<FileInfo>> GlobInfos(FileSystem& fs, absl::string_view pattern);

// Whether one step of a path ("00.tfrec") matches one step of a pattern ("*.tfrec").
bool StepMatches(absl::string_view pattern, absl::string_view name);

// Whether a path matches a pattern, step by step, with **.
bool PathMatches(absl::string_view pattern, absl::string_view path);

bool HasWildcard(absl::string_view pattern);

// Whether a URI or a local path is a pattern: has a wildcard in its path, and not only the '?' that
// begins its options.
bool IsPattern(absl::string_view uri);

}  // namespace penstock::io
