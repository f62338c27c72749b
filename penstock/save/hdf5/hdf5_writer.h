// Writes groups, attributes and arrays as an HDF5 file, through the HDF5 library. Internal to
// keras_hdf5_write.cc.
//
//   Hdf5Writer writer;
//   PENSTOCK_RETURN_IF_ERROR(writer.AddArray("/layers/dense/vars/0", kernel));
//   PENSTOCK_RETURN_IF_ERROR(writer.AddText("/layers/dense/vars", "name", "head"));
//   PENSTOCK_ASSIGN_OR_RETURN(const Hdf5Image image, writer.Finish());
//   for (const absl::string_view piece : image.pieces) Print(piece);
//
// The library writes groups and attributes only, into memory: it reserves the place of an array,
// and the array's elements are a piece of the result, so that they are neither copied nor kept
// twice. The file has the oldest layout that the library knows (superblock 0), as h5py's.
//
// INVALID_ARGUMENT: names that HDF5 cannot store (empty, ".", NUL), a path that is used twice, an
// element type that h5py lacks. Arrays must outlive the image.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"

namespace penstock::save {

// A file: its bytes are the pieces one after another.
struct Hdf5Image {
  std::vector<absl::string_view> pieces = {};
  std::deque<std::string> storage = {};  // of pieces that are not elements of arrays
};

class Hdf5Writer {
 public:
  Hdf5Writer();
  ~Hdf5Writer();

  // Groups above a group or an array are created. A group may be added again.
  absl::Status AddGroup(absl::string_view path);
  absl::Status AddArray(absl::string_view path, const base::Array& array);

  // Attributes of a group that exists; "/" is the root. A string, or a list of strings. A list of
  // more than 64512 bytes (number of strings times the longest) becomes several attributes (NAME0,
  // NAME1, ...). An empty list is one of float64, as h5py makes it.
  absl::Status AddText(absl::string_view group, absl::string_view attribute,
                       absl::string_view text);
  absl::Status AddTexts(absl::string_view group, absl::string_view attribute,
                        const std::vector<std::string>& texts);

  // Nothing may be added afterwards.
  absl::StatusOr<Hdf5Image> Finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::save
