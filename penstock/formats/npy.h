// NumPy file formats: .npy (one array) and .npz (a zip archive of .npy files, stored or deflated).
//
//   PENSTOCK_ASSIGN_OR_RETURN(NamedArrays cifar,
//                             ReadNpz(*io::FileSystem::Default(), "cifar10.npz"));
//   Dataset train = Dataset::FromArrays(cifar, "cifar10.npz").Shuffle(50'000).Batch(128);
//
// Formats: numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1 to 3; zip as
// in PKWARE's APPNOTE 6.3.10, with its 64-bit extension, without encryption or other methods.
//
// Types: bool, integers, float16/32/64 and complex64 of either byte order (converted to the
// host's); fixed-width bytes (`S`) and text (`U`) become strings, without their NUL padding.
// Column-major (Fortran-order) arrays are converted to row-major. Objects (`O`) are rejected: they
// are pickles, and unpickling can run arbitrary code.
//
// Errors: DataLoss for corrupt data, Unimplemented for unsupported types. Messages name the byte
// offset or the archive member; functions that read files add the file's name.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"

namespace penstock::formats {

// Contents of the header of a .npy file.
struct NpyInfo {
  base::DType dtype = base::DType::kInvalid;
  base::Shape shape;
  int64_t offset = 0;  // byte offset of the first element in the file
  int64_t bytes = 0;   // size of all elements in the file
  // Why the elements cannot be used in place (memory-mapped) as an Array, such as "its elements are
  // big-endian"; empty if they can (bools: if all are 0 or 1).
  std::string incompatibility;
};
// Parses the header from the first bytes of a file (usually a few hundred bytes).
absl::StatusOr<NpyInfo> ReadNpyInfo(absl::string_view first_bytes);

// Parses a .npy file. If dtype, element order and alignment match, the array is a view of `bytes`,
// kept alive by `owner` (zero-copy); otherwise, or without an owner, it is a copy.
absl::StatusOr<base::Array> ParseNpy(absl::string_view bytes,
                                     std::shared_ptr<const void> owner = nullptr);
// Parses a .npz file: its arrays in file order, named without ".npy".
absl::StatusOr<base::NamedArrays> ParseNpz(absl::string_view bytes);

// The same bytes that numpy.save writes. Strings become `S` with the width of the longest.
absl::StatusOr<std::string> SerializeNpy(const base::Array& array);
struct NpzOptions {
  bool compress = false;  // deflate, as numpy.savez_compressed does
};
absl::StatusOr<std::string> SerializeNpz(const base::NamedArrays& arrays, NpzOptions options = {});

absl::StatusOr<base::Array> ReadNpy(io::FileSystem& fs, absl::string_view uri);
absl::StatusOr<base::NamedArrays> ReadNpz(io::FileSystem& fs, absl::string_view uri);
absl::Status WriteNpy(io::FileSystem& fs, absl::string_view uri, const base::Array& array);
absl::Status WriteNpz(io::FileSystem& fs, absl::string_view uri, const base::NamedArrays& arrays,
                      NpzOptions options = {});

// Building blocks for files that contain .npy files (npz.cc, Dataset::FromNpy): a .npy file as
// pieces that do not copy the array, a file read into aligned memory, and the array of an archive
// member.
struct NpyPieces {
  std::string header;
  absl::string_view data;  // view of the array's memory
  std::string strings;     // replaces `data` for string arrays
};
absl::StatusOr<NpyPieces> ToNpyPieces(const base::Array& array);
absl::StatusOr<base::Array> ReadAligned(io::FileSystem& fs, absl::string_view uri);
struct ZipMember;
absl::StatusOr<base::Array> ParseNpzMember(const ZipMember& member);

}  // namespace penstock::formats
