// NumPy's files: .npy (one array) and .npz (a zip archive of .npy files, stored or deflated).
//
//   PENSTOCK_ASSIGN_OR_RETURN(NamedArrays cifar, ReadNpz(*io::FileSystem::Default(),
//   "cifar10.npz")); Dataset train = Dataset::FromArrays(cifar,
//   "cifar10.npz").Shuffle(50'000).Batch(128);
//
// Formats: numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1 to 3; zip as
// in PKWARE's APPNOTE 6.3.10, with its 64-bit extension, without encryption or other methods.
//
// Types: bool, integers, float16/32/64 and complex64 of either byte order (arrays here are in the
// machine's); bytes (`S`) and text (`U`) of fixed width become strings, without the NULs that pad
// them. Column-major arrays are turned to row-major. Objects (`O`) are refused: they are pickles,
// which can run anything when read.
//
// Errors are DataLoss for damage, Unimplemented for kinds not read, and name the byte or the
// member; the file's name is added by those that read files.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"

namespace penstock::data {

// What the header of a .npy file says.
struct NpyInfo {
  base::DType dtype = base::DType::kInvalid;
  base::Shape shape;
  int64_t offset = 0;  // of the first element in the file
  int64_t bytes = 0;   // of all elements there
  // Why the elements' bytes are not those of an Array, as "its elements are big-endian"; empty when
  // they are (of bools, when they are 0 and 1).
  std::string unlike_array;
};
// From the first bytes of a file, which hold the header (a few hundred bytes, seldom more).
absl::StatusOr<NpyInfo> ReadNpyInfo(absl::string_view first_bytes);

// The array of a .npy file. Where type, order and alignment agree it looks at `bytes`, kept alive
// by `owner`; without an owner it copies.
absl::StatusOr<base::Array> ParseNpy(absl::string_view bytes,
                                     std::shared_ptr<const void> owner = nullptr);
// The arrays of a .npz file in its order, named without ".npy".
absl::StatusOr<base::NamedArrays> ParseNpz(absl::string_view bytes);

// The bytes that numpy.save writes. Strings become `S` of the longest one's width.
absl::StatusOr<std::string> SerializeNpy(const base::Array& array);
struct NpzOptions {
  bool compress = false;  // numpy.savez_compressed
};
absl::StatusOr<std::string> SerializeNpz(const base::NamedArrays& arrays, NpzOptions options = {});

absl::StatusOr<base::Array> ReadNpy(io::FileSystem& fs, absl::string_view uri);
absl::StatusOr<base::NamedArrays> ReadNpz(io::FileSystem& fs, absl::string_view uri);
absl::Status WriteNpy(io::FileSystem& fs, absl::string_view uri, const base::Array& array);
absl::Status WriteNpz(io::FileSystem& fs, absl::string_view uri, const base::NamedArrays& arrays,
                      NpzOptions options = {});

// What npz.cc and from_npy.cc share: a .npy file as pieces that need no copy of the array, a file's
// bytes in aligned memory, the array of an unpacked member.
struct NpyPieces {
  std::string header;
  absl::string_view data;  // the array's own memory
  std::string strings;     // instead of data, for strings
};
absl::StatusOr<NpyPieces> ToNpyPieces(const base::Array& array);
absl::StatusOr<base::Array> ReadAligned(io::FileSystem& fs, absl::string_view uri);
struct ZipMember;
absl::StatusOr<base::Array> ParseNpzMember(const ZipMember& member);

}  // namespace penstock::data
