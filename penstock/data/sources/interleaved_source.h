// InterleavedSource: the source that reads files block by block, several interleaved.
// FromTfRecords, FromText and FromCsv are this one stage. Another format of files is one .cc with
// two things: a FileReader (file_interleave.h), and the method of Dataset that describes the
// source:
//
//   const Dataset names = Dataset::From(
//       MakeInterleavedSource({.name = "FromNames",
//                              .files = SourceFiles({"data/*.names"}),
//                              .spec = {{"name", base::DType::kString, {}}},
//                              .make_open = [](const SourceFiles&) { return open_names; }}));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/data/sources/file_interleave.h"
#include "penstock/data/sources/source_files.h"
#include "penstock/data/spec.h"
#include "penstock/data/stage.h"

namespace penstock::data {

struct InterleavedSource {
  absl::string_view name;  // name of Dataset's method, a literal
  SourceFiles files;
  ElementSpec spec;                       // columns of its elements
  FileInterleaveOptions interleave = {};  // checked by the stage
  absl::Status status = {};               // error of other options, if any
  bool shuffle_files = false;
  // Stage::Parameters is: the patterns, the interleave, then this text (", shuffle files").
  std::string parameters = "";
  // Makes the function that opens one file. Called for the description and then once for each
  // iterator, with the files it found, so that what the function holds (buffers) belongs to one
  // iterator. Not called if `status` is an error.
  std::function<OpenFileReader(const SourceFiles& files)> make_open;
  // Number of elements of the resolved files. Null: unknown.
  std::function<absl::StatusOr<int64_t>(io::FileSystem& file_system, const SourceFiles& files)>
      cardinality = nullptr;
  // Stage::WriteFields.
  std::function<absl::Status(StageFields& out)> write_fields = nullptr;
  absl::string_view adds_stage = "";  // Stage::adds_stage
};

std::shared_ptr<const Stage> MakeInterleavedSource(InterleavedSource source);

}  // namespace penstock::data
