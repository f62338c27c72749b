#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/formats/npy.h"
#include "penstock/formats/zip.h"
#include "penstock/io/uri.h"

namespace penstock::formats {
namespace {

using base::Array;
using base::NamedArrays;

constexpr absl::string_view kArraySuffix = ".npy";

absl::Status WriteMembers(const NamedArrays& arrays, NpzOptions options, ZipWriter::Sink sink) {
  ZipWriter zip(std::move(sink));
  for (const auto& [name, array] : arrays) {
    auto pieces = ToNpyPieces(array);
    if (!pieces.ok()) return base::WithContext(pieces.status(), absl::StrCat("array '", name, "'"));
    PENSTOCK_RETURN_IF_ERROR(zip.Add(absl::StrCat(name, kArraySuffix),
                                     {pieces->header, pieces->data, pieces->strings},
                                     options.compress));
  }
  return zip.Finish();
}

}  // namespace

absl::StatusOr<Array> ParseNpzMember(const ZipMember& member) {
  Array bytes = Array::Uninitialized(base::DType::kU8, {member.size});
  char* to = static_cast<char*>(bytes.mutable_raw());
  PENSTOCK_RETURN_IF_ERROR(UnpackZipMember(member, absl::MakeSpan(to, member.size)));
  auto array = ParseNpy({to, static_cast<size_t>(member.size)}, bytes.owner());
  if (!array.ok()) {
    return base::WithContext(array.status(), absl::StrCat("member '", member.name, "'"));
  }
  return array;
}

absl::StatusOr<NamedArrays> ParseNpz(absl::string_view bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ListZip(bytes));
  NamedArrays out;
  for (const ZipMember& member : members) {
    absl::string_view name = member.name;
    if (!absl::ConsumeSuffix(&name, kArraySuffix)) {
      return absl::UnimplementedError(
          absl::StrCat(".npz: member '", member.name, "' is not a .npy file"));
    }
    if (out.Find(name) != nullptr) {
      return absl::DataLossError(absl::StrCat(".npz: duplicate member '", member.name, "'"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(Array array, ParseNpzMember(member));
    out.Set(name, std::move(array));
  }
  return out;
}

absl::StatusOr<std::string> SerializeNpz(const NamedArrays& arrays, NpzOptions options) {
  std::string out;
  PENSTOCK_RETURN_IF_ERROR(WriteMembers(arrays, options, [&](absl::string_view bytes) {
    absl::StrAppend(&out, bytes);
    return absl::OkStatus();
  }));
  return out;
}

absl::StatusOr<NamedArrays> ReadNpz(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Array file, ReadAligned(fs, uri));
  auto arrays = ParseNpz({static_cast<const char*>(file.raw()), static_cast<size_t>(file.dim(0))});
  if (!arrays.ok()) return base::WithContext(arrays.status(), io::DisplayName(uri));
  return arrays;
}

absl::Status WriteNpz(io::FileSystem& fs, absl::string_view uri, const NamedArrays& arrays,
                      NpzOptions options) {
  PENSTOCK_ASSIGN_OR_RETURN(auto out, fs.Create(uri));
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(
      WriteMembers(arrays, options, [&](absl::string_view bytes) { return out->Append(bytes); }),
      io::DisplayName(uri)));
  return out->Close();
}

}  // namespace penstock::formats
