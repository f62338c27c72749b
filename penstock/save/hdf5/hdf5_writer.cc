#include "penstock/save/hdf5/hdf5_writer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <hdf5.h>

#include "penstock/base/status.h"
#include "penstock/save/hdf5/hdf5_library.h"
#include "penstock/save/quoted.h"

namespace penstock::save {
namespace hdf5 {
namespace {

using base::Array;
using base::DType;

// Bytes of an attribute: a message of an object header has fewer than 64 KiB. Keras's limit.
constexpr size_t kMaxAttribute = 64512;

// A file in memory, of which only the pages that the library writes exist. Others are zero.
class PagedBytes : public Bytes {
 public:
  uint64_t size() const override { return size_; }

  bool Read(uint64_t offset, absl::Span<char> out) override {
    Visit(offset, out.size(), [&](uint64_t page, size_t at, size_t done, size_t bytes) {
      const auto found = pages_.find(page);
      if (found == pages_.end()) {
        std::memset(out.data() + done, 0, bytes);
      } else {
        std::memcpy(out.data() + done, found->second.data() + at, bytes);
      }
    });
    return true;
  }

  bool Write(uint64_t offset, absl::string_view in) override {
    Visit(offset, in.size(), [&](uint64_t page, size_t at, size_t done, size_t bytes) {
      std::memcpy(pages_[page].data() + at, in.data() + done, bytes);
    });
    size_ = std::max(size_, offset + in.size());
    return true;
  }

  void WhenClosed(uint64_t end) override { end_ = end; }
  uint64_t end() const { return end_; }

 private:
  static constexpr uint64_t kPage = 4096;

  // Calls `visit` for the part of the range in each page: number of the page, offset in the page,
  // offset in the range, bytes.
  template <typename Visitor>
  static void Visit(uint64_t offset, size_t size, Visitor visit) {
    for (size_t done = 0; done < size;) {
      const uint64_t place = offset + done;
      const size_t at = place % kPage, bytes = std::min<size_t>(size - done, kPage - at);
      visit(place / kPage, at, done, bytes);
      done += bytes;
    }
  }

  std::map<uint64_t, std::array<char, kPage>> pages_;  // new pages are zero
  uint64_t size_ = 0, end_ = 0;
};

// The type of elements in a file; not ok() if h5py has none.
Id FileTypeOf(DType dtype) {
  const auto copy = [](hid_t id) { return Id(H5Tcopy(id), H5Tclose); };
  switch (dtype) {
    case DType::kI8:
      return copy(H5T_STD_I8LE);
    case DType::kI16:
      return copy(H5T_STD_I16LE);
    case DType::kI32:
      return copy(H5T_STD_I32LE);
    case DType::kI64:
      return copy(H5T_STD_I64LE);
    case DType::kU8:
      return copy(H5T_STD_U8LE);
    case DType::kU16:
      return copy(H5T_STD_U16LE);
    case DType::kU32:
      return copy(H5T_STD_U32LE);
    case DType::kU64:
      return copy(H5T_STD_U64LE);
    case DType::kF32:
      return copy(H5T_IEEE_F32LE);
    case DType::kF64:
      return copy(H5T_IEEE_F64LE);
    case DType::kF16:
      return HalfType();
    case DType::kBool:
      return BooleanType();
    case DType::kBF16:  // marked by an attribute
      return Id(H5Tcreate(H5T_OPAQUE, 2), H5Tclose);
    default:
      return Id(H5I_INVALID_HID, H5Tclose);
  }
}

absl::Status CheckText(absl::string_view text) {
  if (text.find('\0') == absl::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError("a string contains a NUL byte, which HDF5 cannot store");
}

absl::Status Failed(absl::string_view what, absl::string_view path) {
  return absl::InternalError(
      absl::StrCat("HDF5: ", what, " ", Quoted(path), " failed (", LibraryMessage(), ")"));
}

}  // namespace
}  // namespace hdf5

class Hdf5Writer::Impl {
 public:
  Impl() {
    const hdf5::Session session;
    const hdf5::Id properties = PropertiesOf(bytes_);
    file_ = H5Fcreate("penstock", H5F_ACC_TRUNC, H5P_DEFAULT, properties.get());
    if (file_ < 0) status_ = hdf5::Failed("creating", "/");
    kinds_["/"] = Kind::kGroup;
  }
  ~Impl() { Close().IgnoreError(); }

  absl::Status AddGroup(absl::string_view path) {
    PENSTOCK_RETURN_IF_ERROR(status_);
    const hdf5::Session session;
    return MakeGroup(path);
  }

  absl::Status AddArray(absl::string_view path, const base::Array& array) {
    PENSTOCK_RETURN_IF_ERROR(status_);
    const hdf5::Session session;
    const std::string full = Joined(path);
    PENSTOCK_RETURN_IF_ERROR(MakeGroup(full.substr(0, full.rfind('/'))));
    if (!kinds_.emplace(full, Kind::kArray).second) {
      return absl::InvalidArgumentError(absl::StrCat("path ", Quoted(full), " is used twice"));
    }
    PENSTOCK_RETURN_IF_ERROR(CheckPart(full.substr(full.rfind('/') + 1), full));
    const hdf5::Id type = hdf5::FileTypeOf(array.dtype());
    if (!type.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("HDF5 files of Keras have no type ", base::DTypeName(array.dtype())));
    }
    std::vector<hsize_t> dims;
    for (const int64_t dim : array.shape()) dims.push_back(static_cast<hsize_t>(dim));
    const hdf5::Id space(
        dims.empty() ? H5Screate(H5S_SCALAR)
                     : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
        H5Sclose);
    const hdf5::Id properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    if (!space.ok() || !properties.ok() || H5Pset_layout(properties.get(), H5D_CONTIGUOUS) < 0 ||
        H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY) < 0 ||
        H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER) < 0) {
      return hdf5::Failed("describing array", full);
    }
    const hdf5::Id dataset(H5Dcreate2(file_, full.c_str(), type.get(), space.get(), H5P_DEFAULT,
                                      properties.get(), H5P_DEFAULT),
                           H5Dclose);
    if (!dataset.ok()) return hdf5::Failed("creating array", full);
    if (array.num_bytes() > 0) {
      const haddr_t offset = H5Dget_offset(dataset.get());
      if (offset == HADDR_UNDEF) return hdf5::Failed("reserving space for array", full);
      places_[offset] = {static_cast<const char*>(array.raw()),
                         static_cast<size_t>(array.num_bytes())};
    }
    if (array.dtype() != base::DType::kBF16) return absl::OkStatus();
    return WriteText(dataset.get(), "dtype", "bfloat16");
  }

  absl::Status AddText(absl::string_view group, absl::string_view attribute,
                       absl::string_view text) {
    PENSTOCK_RETURN_IF_ERROR(status_);
    const hdf5::Session session;
    const hdf5::Id object(H5Oopen(file_, Joined(group).c_str(), H5P_DEFAULT), H5Oclose);
    if (!object.ok()) return hdf5::Failed("opening", group);
    return WriteText(object.get(), attribute, text);
  }

  absl::Status AddTexts(absl::string_view group, absl::string_view attribute,
                        const std::vector<std::string>& texts) {
    PENSTOCK_RETURN_IF_ERROR(status_);
    const hdf5::Session session;
    const hdf5::Id object(H5Oopen(file_, Joined(group).c_str(), H5P_DEFAULT), H5Oclose);
    if (!object.ok()) return hdf5::Failed("opening", group);
    // Parts of equal width, so that the sizes are those of Keras.
    size_t width = 1;
    for (const std::string& text : texts) {
      PENSTOCK_RETURN_IF_ERROR(hdf5::CheckText(text));
      width = std::max(width, text.size());
    }
    if (width > hdf5::kMaxAttribute) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a name in ", attribute, " has ", width, " bytes; the maximum is ", hdf5::kMaxAttribute));
    }
    const size_t per_part = hdf5::kMaxAttribute / width;
    if (texts.size() <= per_part)
      return WriteTexts(object.get(), std::string(attribute), texts, width);
    for (size_t begin = 0, part = 0; begin < texts.size(); begin += per_part, ++part) {
      const std::vector<std::string> some(
          texts.begin() + static_cast<std::ptrdiff_t>(begin),
          texts.begin() + static_cast<std::ptrdiff_t>(std::min(begin + per_part, texts.size())));
      PENSTOCK_RETURN_IF_ERROR(
          WriteTexts(object.get(), absl::StrCat(attribute, part), some, width));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Hdf5Image> Finish() {
    PENSTOCK_RETURN_IF_ERROR(status_);
    PENSTOCK_RETURN_IF_ERROR(Close());
    Hdf5Image image;
    uint64_t at = 0;
    const auto add_gap = [&](uint64_t until) {
      if (until == at) return;
      std::string& gap = image.storage.emplace_back(static_cast<size_t>(until - at), '\0');
      bytes_.Read(at, absl::MakeSpan(gap));
      image.pieces.push_back(gap);
      at = until;
    };
    for (const auto& [offset, elements] : places_) {
      if (offset < at) return absl::InternalError("HDF5: arrays overlap");
      add_gap(offset);
      image.pieces.push_back(elements);
      at += elements.size();
    }
    if (bytes_.end() < std::max(at, bytes_.size())) {
      return absl::InternalError("HDF5: wrong size of the file");
    }
    add_gap(bytes_.end());
    return image;
  }

 private:
  enum class Kind { kGroup, kArray };

  absl::Status Close() {
    if (file_ < 0) return absl::OkStatus();
    const hdf5::Session session;
    const bool closed = H5Fclose(std::exchange(file_, H5I_INVALID_HID)) >= 0;
    return closed ? absl::OkStatus() : hdf5::Failed("closing", "/");
  }

  static std::string Joined(absl::string_view path) {
    return path.empty() || path[0] != '/' ? absl::StrCat("/", path) : std::string(path);
  }

  static absl::Status CheckPart(absl::string_view part, absl::string_view path) {
    if (!part.empty() && part != "." && part.find('\0') == absl::string_view::npos) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("path ", Quoted(path), " has the part ",
                                                   Quoted(part), ", which HDF5 cannot store"));
  }

  // With those above it. During a session.
  absl::Status MakeGroup(absl::string_view path) {
    std::string parent;
    absl::string_view rest = path;
    if (!rest.empty() && rest[0] == '/') rest.remove_prefix(1);
    if (rest.empty()) return absl::OkStatus();
    for (const absl::string_view part : absl::StrSplit(rest, '/')) {
      PENSTOCK_RETURN_IF_ERROR(CheckPart(part, path));
      absl::StrAppend(&parent, "/", part);
      const auto [found, is_new] = kinds_.emplace(parent, Kind::kGroup);
      if (found->second == Kind::kArray) {
        return absl::InvalidArgumentError(absl::StrCat("path ", Quoted(path), " is inside ",
                                                       Quoted(parent), ", which is an array"));
      }
      if (!is_new) continue;
      const hdf5::Id group(H5Gcreate2(file_, parent.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                           H5Gclose);
      if (!group.ok()) return hdf5::Failed("creating group", parent);
    }
    return absl::OkStatus();
  }

  static absl::Status WriteText(hid_t object, absl::string_view attribute, absl::string_view text) {
    PENSTOCK_RETURN_IF_ERROR(hdf5::CheckText(text));
    const std::string name(attribute), value(text);
    const hdf5::Id type(H5Tcopy(H5T_C_S1), H5Tclose);
    const hdf5::Id space(H5Screate(H5S_SCALAR), H5Sclose);
    if (H5Tset_size(type.get(), H5T_VARIABLE) < 0 || H5Tset_cset(type.get(), H5T_CSET_UTF8) < 0) {
      return hdf5::Failed("describing attribute", name);
    }
    const hdf5::Id id(
        H5Acreate2(object, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    const char* pointer = value.c_str();
    if (!id.ok() || H5Awrite(id.get(), type.get(), &pointer) < 0) {
      return hdf5::Failed("writing attribute", name);
    }
    return absl::OkStatus();
  }

  // Texts of a fixed width, or floats if there are none.
  static absl::Status WriteTexts(hid_t object, const std::string& attribute,
                                 const std::vector<std::string>& texts, size_t width) {
    const hsize_t count = texts.size();
    const hdf5::Id type(H5Tcopy(texts.empty() ? H5T_IEEE_F64LE : H5T_C_S1), H5Tclose);
    const hdf5::Id space(H5Screate_simple(1, &count, nullptr), H5Sclose);
    if (!texts.empty() &&
        (H5Tset_size(type.get(), width) < 0 || H5Tset_strpad(type.get(), H5T_STR_NULLPAD) < 0 ||
         H5Tset_cset(type.get(), H5T_CSET_UTF8) < 0)) {
      return hdf5::Failed("describing attribute", attribute);
    }
    const hdf5::Id id(
        H5Acreate2(object, attribute.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    std::string bytes;
    for (const std::string& text : texts) {
      bytes += text;
      bytes.append(width - text.size(), '\0');
    }
    if (!id.ok() || (!texts.empty() && H5Awrite(id.get(), type.get(), bytes.data()) < 0)) {
      return hdf5::Failed("writing attribute", attribute);
    }
    return absl::OkStatus();
  }

  hdf5::PagedBytes bytes_;
  hid_t file_ = H5I_INVALID_HID;
  absl::Status status_;  // of creating the file
  absl::flat_hash_map<std::string, Kind> kinds_;
  std::map<uint64_t, absl::string_view> places_;  // elements of arrays, by their offsets
};

Hdf5Writer::Hdf5Writer() : impl_(std::make_unique<Impl>()) {}
Hdf5Writer::~Hdf5Writer() = default;

absl::Status Hdf5Writer::AddGroup(absl::string_view path) { return impl_->AddGroup(path); }
absl::Status Hdf5Writer::AddArray(absl::string_view path, const base::Array& array) {
  return impl_->AddArray(path, array);
}
absl::Status Hdf5Writer::AddText(absl::string_view group, absl::string_view attribute,
                                 absl::string_view text) {
  return impl_->AddText(group, attribute, text);
}
absl::Status Hdf5Writer::AddTexts(absl::string_view group, absl::string_view attribute,
                                  const std::vector<std::string>& texts) {
  return impl_->AddTexts(group, attribute, texts);
}
absl::StatusOr<Hdf5Image> Hdf5Writer::Finish() { return impl_->Finish(); }

}  // namespace penstock::save
