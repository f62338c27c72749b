#include "penstock/save/npz.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/formats/npy.h"
#include "penstock/formats/zip.h"
#include "penstock/io/uri.h"
#include "penstock/save/quoted.h"
#include "penstock/save/zip_probe.h"

namespace penstock::save {
namespace npz {
namespace {

using base::Array;
using formats::ZipFile;

constexpr absl::string_view kSuffix = ".npy";
// Bytes that hold the header of any .npy file of version 1.
constexpr int64_t kHeaderBytes = (64 << 10) + 64;
// Requests of `inspect`, which reads the headers of members only.
constexpr int64_t kInspectWindow = 4 << 10;

bool Recognizes(const Probe& probe) {
  if (IsEmptyZip(probe.head)) return true;
  return absl::EndsWith(FirstZipName(probe.head), kSuffix);
}

// Names of the arrays, in the order of the members.
absl::StatusOr<std::vector<std::string>> Names(const ZipFile& zip) {
  std::vector<std::string> names;
  absl::flat_hash_set<std::string> seen;
  for (const ZipFile::Member& member : zip.members()) {
    absl::string_view name = member.name;
    if (!absl::ConsumeSuffix(&name, kSuffix)) {
      return absl::UnimplementedError(absl::StrCat("offset ", member.header, ": member ",
                                                   Quoted(member.name), " is not a .npy file"));
    }
    if (!seen.emplace(name).second) {
      return absl::DataLossError(absl::StrCat("offset ", member.header, ": name ", Quoted(name),
                                              " appears twice in the archive"));
    }
    names.emplace_back(name);
  }
  return names;
}

absl::StatusOr<ZipFile> Open(io::FileSystem& fs, absl::string_view uri, int64_t window) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(uri));
  return ZipFile::Open(std::move(file), window);
}

// The context of an error about one array.
std::string Where(const ZipFile::Member& member, absl::string_view name) {
  return absl::StrCat("offset ", member.header, ": tensor ", Quoted(name));
}

absl::StatusOr<Contents> ReadContents(ZipFile& zip) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(zip));
  Contents contents{.format = "npz"};
  for (size_t i = 0; i < names.size(); ++i) {
    const ZipFile::Member& member = zip.members()[i];
    const auto describe = [&]() -> absl::StatusOr<TensorInfo> {
      // NumPy's header is usually 128 bytes; a longer one is read by a second request.
      formats::NpyInfo info;
      for (const int64_t bytes : {int64_t{1024}, kHeaderBytes}) {
        PENSTOCK_ASSIGN_OR_RETURN(const std::string head, zip.ReadPrefix(member, bytes));
        absl::StatusOr<formats::NpyInfo> parsed = formats::ReadNpyInfo(head);
        if (!parsed.ok() && bytes < std::min(member.size, kHeaderBytes)) continue;
        PENSTOCK_ASSIGN_OR_RETURN(info, std::move(parsed));
        break;
      }
      if (info.bytes != member.size - info.offset) {
        return absl::DataLossError(absl::StrCat(info.bytes,
                                                " bytes are expected after the header, ", "but ",
                                                member.size - info.offset, " follow"));
      }
      PENSTOCK_ASSIGN_OR_RETURN(const int64_t offset, zip.DataOffset(member));
      return TensorInfo{.name = names[i],
                        .dtype = info.dtype,
                        .shape = info.shape,
                        .offset = offset + (member.deflated ? 0 : info.offset),
                        .num_bytes = info.bytes};
    };
    absl::StatusOr<TensorInfo> tensor = describe();
    if (!tensor.ok()) return base::WithContext(tensor.status(), Where(member, names[i]));
    contents.tensors.push_back(*std::move(tensor));
  }
  return contents;
}

absl::StatusOr<Weights> ReadArrays(ZipFile& zip) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(zip));
  Weights weights;
  for (size_t i = 0; i < names.size(); ++i) {
    const ZipFile::Member& member = zip.members()[i];
    const auto read = [&]() -> absl::StatusOr<Array> {
      // The header first: memory is allocated only for an array that fits the file.
      PENSTOCK_ASSIGN_OR_RETURN(const std::string head, zip.ReadPrefix(member, kHeaderBytes));
      PENSTOCK_RETURN_IF_ERROR(formats::ReadNpyInfo(head).status());
      Array bytes = Array::Uninitialized(base::DType::kU8, {member.size});
      char* to = static_cast<char*>(bytes.mutable_raw());
      const size_t size = static_cast<size_t>(member.size);
      PENSTOCK_RETURN_IF_ERROR(zip.Read(member, {to, size}));
      PENSTOCK_ASSIGN_OR_RETURN(Array array, formats::ParseNpy({to, size}, bytes.owner()));
      const bool aligned = reinterpret_cast<uintptr_t>(array.raw()) % base::kArrayAlignment == 0;
      return aligned ? array : array.Clone();
    };
    absl::StatusOr<Array> array = read();
    if (!array.ok()) return base::WithContext(array.status(), Where(member, names[i]));
    weights.arrays.Append(names[i], *std::move(array));
  }
  return weights;
}

absl::StatusOr<Contents> Inspect(io::FileSystem& fs, absl::string_view uri) {
  absl::StatusOr<ZipFile> zip = Open(fs, uri, kInspectWindow);
  if (!zip.ok()) return base::WithContext(zip.status(), io::DisplayName(uri));
  absl::StatusOr<Contents> contents = ReadContents(*zip);
  if (!contents.ok()) return base::WithContext(contents.status(), io::DisplayName(uri));
  return contents;
}

absl::StatusOr<Weights> Read(io::FileSystem& fs, absl::string_view uri) {
  absl::StatusOr<ZipFile> zip = Open(fs, uri, kReadWindow);
  if (!zip.ok()) return base::WithContext(zip.status(), io::DisplayName(uri));
  absl::StatusOr<Weights> weights = ReadArrays(*zip);
  if (!weights.ok()) return base::WithContext(weights.status(), io::DisplayName(uri));
  return weights;
}

absl::Status Write(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                   const WriteOptions&) {
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(CheckNames(weights.arrays), io::DisplayName(uri)));
  return formats::WriteNpz(fs, uri, weights.arrays);
}

}  // namespace
}  // namespace npz

Format NpzFormat() {
  return {.name = "npz",
          .extensions = {".npz"},
          .recognizes = npz::Recognizes,
          .inspect = npz::Inspect,
          .read = npz::Read,
          .write = npz::Write};
}

}  // namespace penstock::save
