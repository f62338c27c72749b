// The table of formats. A format is one file `x.cc` with a function that returns its Format, one
// row in the table in format.cc, and one test: save.h then reads, writes and inspects it. How to
// add one: docs/design/save.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/io/file_system.h"
#include "penstock/save/save.h"

namespace penstock::save {

// Data by which a format is detected.
struct Probe {
  std::string uri = {};
  // For a file: its first bytes, at most kProbeBytes, and its size.
  std::string head = {};
  int64_t size = 0;
  // For a folder: the names in it.
  bool is_directory = false;
  std::vector<std::string> entries = {};
};
inline constexpr int64_t kProbeBytes = 512;

// One file format.
struct Format {
  absl::string_view name;
  std::vector<absl::string_view> extensions;  // with the dot; empty: only read

  bool (*recognizes)(const Probe& probe);
  absl::StatusOr<Contents> (*inspect)(io::FileSystem& fs, absl::string_view uri);
  absl::StatusOr<Weights> (*read)(io::FileSystem& fs, absl::string_view uri);
  // nullptr: the format is only read.
  absl::Status (*write)(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                        const WriteOptions& options);
  bool holds_metadata = false;
  // The keys of metadata that it holds, if it does; empty: any.
  std::vector<absl::string_view> metadata_keys = {};
  // URI of the file that is published last and without which the weights do not exist, for formats
  // that are addressed otherwise; nullptr: the URI itself.
  std::string (*main_file)(absl::string_view uri) = nullptr;
  // Checks what `write` requires beside a main file that can be written; nullptr: nothing.
  absl::Status (*check_destination)(io::FileSystem& fs, absl::string_view uri) = nullptr;
};

// The error of a format that holds a network's program beside its weights, such as "a SavedModel",
// when only weights are to be written.
absl::Status NeedsModel(absl::string_view uri, absl::string_view format);

// Checks that names are unique and UTF-8, for writers: INVALID_ARGUMENT.
absl::Status CheckNames(const base::NamedArrays& arrays);

// All formats, in the order in which `recognizes` is called.
absl::Span<const Format> Formats();

}  // namespace penstock::save
