// Groups, attributes and arrays of an HDF5 file, read by ranges. Internal to keras_hdf5.cc.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const auto file, Hdf5File::Open(std::move(bytes)));
//   PENSTOCK_ASSIGN_OR_RETURN(const auto names, file->Strings("/", "layer_names"));
//   PENSTOCK_ASSIGN_OR_RETURN(Array kernel, file->ReadArray("/conv/conv/kernel:0"));
//
// This is a reader of Penstock's own: the HDF5 library trusts the lengths in a file
// (docs/design/save.md). It reads what h5py writes by default: superblocks 0 to 3, groups as symbol
// tables or lists of links, contiguous, compact and chunked elements, deflate, shuffle and
// Fletcher's checksum. Links to other files, elements in other files or datasets, other filters,
// and the groups and chunks of libver='latest' are UNIMPLEMENTED.
//
// One thread at a time may use an Hdf5File.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"

namespace penstock::save {

class Hdf5File {
 public:
  static absl::StatusOr<std::unique_ptr<Hdf5File>> Open(std::unique_ptr<io::RandomAccessFile> file);
  ~Hdf5File();

  struct Child {
    enum class Kind { kGroup, kDataset, kOther };
    std::string name = {};
    Kind kind = Kind::kOther;  // kOther: a link that is not followed, or a named type
    uint64_t address = 0;      // identifies an object, of which there may be several hard links
  };
  int64_t size() const;  // of the file, in bytes

  // The children of a group, by name. NOT_FOUND if there is no group of that path.
  absl::StatusOr<std::vector<Child>> Children(absl::string_view group);

  struct Dataset {
    base::DType dtype = base::DType::kInvalid;  // kString: strings of any kind
    base::Shape shape = {};
    int64_t num_bytes = 0;  // of the elements; 0 for kString
    int64_t offset = -1;    // of elements that are stored as they are; otherwise -1
    int64_t stored = 0;     // bytes in the file; objects may share them
  };
  // NOT_FOUND if there is no dataset of that path.
  absl::StatusOr<Dataset> Describe(absl::string_view path);
  // UNIMPLEMENTED for kString. Compare the sum of Dataset::stored with the size of the file first:
  // it limits the memory that arrays take.
  absl::StatusOr<base::Array> ReadArray(absl::string_view path);

  // The strings of an attribute of a group or dataset; no value if there is no such attribute. An
  // attribute without elements has no strings, whatever its type is (h5py makes an empty list a
  // list of floats).
  absl::StatusOr<std::optional<std::vector<std::string>>> Strings(absl::string_view object,
                                                                  absl::string_view attribute);

 private:
  class Impl;
  explicit Hdf5File(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::save
