// Table of the file systems: for each URI scheme the form of its names, its options, and the file
// system that serves it. To add one: a folder with its implementation and its test, and a row in
// scheme_table.cc. uri.h, FileSystem::Default and the messages about options and credentials use
// this table.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/io/uri.h"

namespace penstock::io {

class FileSystem;
class SharedDiskCache;

enum class NameForm {
  kLocalPath,  // a path of this machine: "data/x", "file:///data/x"
  kName,       // "memory://folder/x"
  kBucket,     // "gs://USER@BUCKET/NAME?OPTIONS"
};

// Objects shared by the file systems of FileSystem::Default.
struct SharedParts {
  std::shared_ptr<FileSystem> arrow;       // arrow/arrow_file_system.h
  std::shared_ptr<SharedDiskCache> cache;  // null if there is none
};

struct SchemeRow {
  absl::string_view scheme;  // lower case; "" for local paths without one
  NameForm form;
  // Creates the file system for FileSystem::Default. Null: not part of the default.
  std::shared_ptr<FileSystem> (*make)(const SharedParts& shared) = nullptr;
  absl::Span<const absl::string_view> options = {};  // kBucket: the supported option keys
  absl::string_view credentials_advice = {};  // what to do when the service rejects credentials
};

absl::Span<const SchemeRow> SchemeTable();

// The row of a scheme in lower case; null for an unknown one.
const SchemeRow* FindScheme(absl::string_view scheme);

// InvalidArgument if the URI has an unknown option; the error lists the supported ones.
absl::Status CheckOptions(const Uri& uri);

}  // namespace penstock::io
