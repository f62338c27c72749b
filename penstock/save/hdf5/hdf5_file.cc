#include "penstock/save/hdf5/hdf5_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "penstock/base/checked_size.h"
#include "penstock/base/status.h"
#include "penstock/save/hdf5/hdf5_bytes.h"
#include "penstock/save/hdf5/hdf5_chunks.h"
#include "penstock/save/hdf5/hdf5_messages.h"
#include "penstock/save/hdf5/hdf5_objects.h"
#include "penstock/save/hdf5/hdf5_superblock.h"
#include "penstock/save/quoted.h"

namespace penstock::save {
namespace hdf5 {
namespace {

using base::Array;
using base::DType;

constexpr uint64_t kMaxText = 64 << 20;    // bytes of an attribute
constexpr uint64_t kMaxStrings = 1 << 20;  // elements of an attribute

// A dataset, and how its elements are stored.
struct Stored {
  Hdf5File::Dataset dataset = {};
  ElementType type = {};
  Layout layout = {};
  std::vector<FilterStep> filters = {};
  std::vector<Chunk> chunks = {};
};

void SwapBytes(Array& array) {
  const size_t width = static_cast<size_t>(base::ByteWidth(array.dtype()));
  char* bytes = static_cast<char*>(array.mutable_raw());
  for (int64_t i = 0; i < array.num_elements(); ++i, bytes += width) {
    std::reverse(bytes, bytes + width);
  }
}

std::string FixedText(absl::string_view text, bool space_padded) {
  text = text.substr(0, text.find('\0'));
  return std::string(space_padded ? absl::StripTrailingAsciiWhitespace(text) : text);
}

}  // namespace
}  // namespace hdf5

class Hdf5File::Impl {
 public:
  explicit Impl(std::unique_ptr<io::RandomAccessFile> file) : file_(std::move(file)) {}

  absl::Status Open() {
    std::string head(static_cast<size_t>(std::min(file_->size(), kHdf5SuperblockBytes)), '\0');
    PENSTOCK_RETURN_IF_ERROR(source_.Read(0, absl::MakeSpan(head), "the superblock"));
    PENSTOCK_ASSIGN_OR_RETURN(root_, ParseHdf5Superblock(head, file_->size()));
    PENSTOCK_ASSIGN_OR_RETURN(const hdf5::Object* root, objects_.Get(root_));
    if (!root->IsGroup()) return hdf5::Corrupt(root_, "the root is not a group");
    return absl::OkStatus();
  }

  int64_t size() const { return file_->size(); }

  absl::StatusOr<std::vector<Child>> Children(absl::string_view path) {
    PENSTOCK_ASSIGN_OR_RETURN(const uint64_t address, AddressOf(path));
    PENSTOCK_ASSIGN_OR_RETURN(const hdf5::Object* group, objects_.Get(address));
    if (!group->IsGroup()) return NotFound(path, "group");
    PENSTOCK_ASSIGN_OR_RETURN(const auto* members, objects_.Members(address));
    std::vector<Child> children;
    for (const auto& [name, member] : *members) {
      Child child{.name = name, .address = member.address};
      if (member.address != hdf5::kUndefined) {
        absl::StatusOr<const hdf5::Object*> object = objects_.Get(member.address);
        if (!object.ok()) {
          return base::WithContext(object.status(), absl::StrCat("object ", Quoted(name)));
        }
        child.kind = (*object)->IsDataset() ? Child::Kind::kDataset
                     : (*object)->IsGroup() ? Child::Kind::kGroup
                                            : Child::Kind::kOther;
      }
      children.push_back(std::move(child));
    }
    return children;
  }

  absl::StatusOr<Dataset> Describe(absl::string_view path) {
    PENSTOCK_ASSIGN_OR_RETURN(hdf5::Stored stored, Find(path));
    return stored.dataset;
  }

  absl::StatusOr<base::Array> ReadArray(absl::string_view path) {
    PENSTOCK_ASSIGN_OR_RETURN(const hdf5::Stored stored, Find(path));
    const Dataset& dataset = stored.dataset;
    if (dataset.dtype == base::DType::kString) return absl::UnimplementedError("has strings");
    base::Array array = base::Array::Uninitialized(dataset.dtype, dataset.shape);
    const absl::Span<char> bytes(static_cast<char*>(array.mutable_raw()),
                                 static_cast<size_t>(array.num_bytes()));
    if (bytes.empty()) return array;
    switch (stored.layout.kind) {
      case hdf5::Layout::Kind::kCompact:
        std::memcpy(bytes.data(), stored.layout.compact.data(), bytes.size());
        break;
      case hdf5::Layout::Kind::kContiguous:
        PENSTOCK_RETURN_IF_ERROR(source_.Read(stored.layout.address, bytes, "an array"));
        break;
      case hdf5::Layout::Kind::kChunked:
        PENSTOCK_RETURN_IF_ERROR(hdf5::ReadChunks(source_, stored.layout, dataset.shape,
                                                  stored.filters, stored.chunks, bytes));
        break;
    }
    if (stored.type.big_endian) hdf5::SwapBytes(array);
    if (dataset.dtype == base::DType::kBool &&
        std::any_of(bytes.begin(), bytes.end(), [](char b) { return b != 0 && b != 1; })) {
      return absl::DataLossError("a byte of type bool is neither 0 nor 1");
    }
    return array;
  }

  absl::StatusOr<std::optional<std::vector<std::string>>> Strings(absl::string_view path,
                                                                  absl::string_view attribute) {
    PENSTOCK_ASSIGN_OR_RETURN(const uint64_t address, AddressOf(path));
    PENSTOCK_ASSIGN_OR_RETURN(const hdf5::Object* object, objects_.Get(address));
    absl::StatusOr<std::optional<std::vector<std::string>>> strings = StringsOf(*object, attribute);
    if (!strings.ok()) {
      return base::WithContext(strings.status(),
                               absl::StrCat("attribute ", Quoted(attribute), " of ", Quoted(path)));
    }
    return strings;
  }

 private:
  static absl::Status NotFound(absl::string_view path, absl::string_view kind) {
    return absl::NotFoundError(absl::StrCat("HDF5: there is no ", kind, " ", Quoted(path)));
  }

  // Follows hard links from the root.
  absl::StatusOr<uint64_t> AddressOf(absl::string_view path) {
    uint64_t address = root_;
    for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
      PENSTOCK_ASSIGN_OR_RETURN(const hdf5::Object* object, objects_.Get(address));
      if (!object->IsGroup()) return NotFound(path, "object");
      PENSTOCK_ASSIGN_OR_RETURN(const auto* members, objects_.Members(address));
      const auto found = members->find(std::string(part));
      if (found == members->end()) return NotFound(path, "object");
      address = found->second.address;
      if (address == hdf5::kUndefined) {
        return absl::UnimplementedError(absl::StrCat("HDF5: ", Quoted(part), " of ", Quoted(path),
                                                     " is a soft or external link"));
      }
    }
    return address;
  }

  absl::StatusOr<hdf5::Stored> Find(absl::string_view path) {
    PENSTOCK_ASSIGN_OR_RETURN(const uint64_t address, AddressOf(path));
    PENSTOCK_ASSIGN_OR_RETURN(const hdf5::Object* object, objects_.Get(address));
    if (!object->IsDataset()) return NotFound(path, "dataset");
    const hdf5::Message* const space = object->Find(hdf5::kDataspace);
    const hdf5::Message* const type = object->Find(hdf5::kDatatype);
    const hdf5::Message* const layout = object->Find(hdf5::kLayout);
    if (space == nullptr || type == nullptr) return hdf5::Corrupt(address, "is not a dataset");
    if (space->is_shared || type->is_shared || layout->is_shared) {
      return absl::UnimplementedError("has a named type, which is not supported");
    }
    if (object->Find(hdf5::kExternalFiles) != nullptr) {
      return absl::UnimplementedError("has its elements in another file");
    }
    hdf5::Stored stored;
    Dataset& dataset = stored.dataset;
    PENSTOCK_ASSIGN_OR_RETURN(dataset.shape, hdf5::ParseDataspace({space->body, space->offset}));
    hdf5::Cursor cursor(type->body, type->offset);
    PENSTOCK_ASSIGN_OR_RETURN(stored.type, hdf5::ParseDatatype(cursor));
    PENSTOCK_RETURN_IF_ERROR(SetDType(*object, stored));
    if (dataset.dtype == base::DType::kString) return stored;
    PENSTOCK_ASSIGN_OR_RETURN(stored.layout, hdf5::ParseLayout({layout->body, layout->offset}));
    if (const hdf5::Message* const filters = object->Find(hdf5::kFilters); filters != nullptr) {
      if (filters->is_shared) return absl::UnimplementedError("has shared filters");
      PENSTOCK_ASSIGN_OR_RETURN(stored.filters,
                                hdf5::ParseFilters({filters->body, filters->offset}));
    }
    dataset.num_bytes = *base::CheckedBytes(dataset.dtype, dataset.shape);  // by ParseDataspace
    PENSTOCK_RETURN_IF_ERROR(SetStorage(stored));
    return stored;
  }

  absl::Status SetDType(const hdf5::Object& object, hdf5::Stored& stored) {
    using Kind = hdf5::ElementType::Kind;
    stored.dataset.dtype = stored.type.dtype;
    if (stored.type.kind == Kind::kFixedText || stored.type.kind == Kind::kVariableText) {
      stored.dataset.dtype = base::DType::kString;
    }
    if (stored.type.kind != Kind::kOpaque2) return absl::OkStatus();
    PENSTOCK_ASSIGN_OR_RETURN(const auto marks, StringsOf(object, "dtype"));
    if (!marks.has_value() || marks->size() != 1 || (*marks)[0] != "bfloat16") {
      return absl::UnimplementedError("has opaque elements that are not marked as bfloat16");
    }
    stored.dataset.dtype = base::DType::kBF16;
    return absl::OkStatus();
  }

  // Checks that the elements are in the file.
  absl::Status SetStorage(hdf5::Stored& stored) {
    Dataset& dataset = stored.dataset;
    const hdf5::Layout& layout = stored.layout;
    const auto bytes = static_cast<uint64_t>(dataset.num_bytes);
    if (layout.kind == hdf5::Layout::Kind::kChunked) {
      if (layout.element_size != stored.type.size) {
        return absl::DataLossError("has chunks of elements of another size");
      }
      PENSTOCK_ASSIGN_OR_RETURN(
          stored.chunks, hdf5::ReadChunkIndex(source_, layout, dataset.shape, stored.filters));
      for (const hdf5::Chunk& chunk : stored.chunks) {
        dataset.stored += static_cast<int64_t>(chunk.size);  // fewer than 2^32 each
      }
      return absl::OkStatus();
    }
    if (!stored.filters.empty()) return absl::DataLossError("has filters without chunks");
    if (bytes == 0) return absl::OkStatus();
    if (layout.kind == hdf5::Layout::Kind::kContiguous && layout.address == hdf5::kUndefined) {
      return absl::UnimplementedError("has elements that were never written");
    }
    if (layout.size < bytes) {
      return absl::DataLossError(
          absl::StrCat("has ", layout.size, " bytes in the file, too few for ", bytes));
    }
    dataset.stored = dataset.num_bytes;
    if (layout.kind == hdf5::Layout::Kind::kCompact) return absl::OkStatus();
    if (!source_.Contains(layout.address, bytes)) {
      return hdf5::Corrupt(layout.address,
                           absl::StrCat("has ", bytes, " bytes beyond the end of the file"));
    }
    if (!stored.type.big_endian) dataset.offset = static_cast<int64_t>(layout.address);
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<std::vector<std::string>>> StringsOf(const hdf5::Object& object,
                                                                    absl::string_view name) {
    std::optional<std::vector<std::string>> none;
    for (const hdf5::Message& message : object.messages) {
      // A damaged file may ask for names many times.
      PENSTOCK_RETURN_IF_ERROR(source_.Charge(message.offset, 0));
      if (message.type == hdf5::kAttributeInfo) {
        PENSTOCK_RETURN_IF_ERROR(CheckAttributeInfo(message));
      }
      if (message.type != hdf5::kAttribute) continue;
      PENSTOCK_ASSIGN_OR_RETURN(const std::string found, hdf5::ParseAttributeName(message));
      if (found == name) return ReadStrings(message);
    }
    return none;
  }

  static absl::Status CheckAttributeInfo(const hdf5::Message& message) {
    hdf5::Cursor cursor(message.body, message.offset);
    cursor.Number(1);
    if ((cursor.Number(1) & 1) != 0) cursor.Number(2);  // maximum order of creation
    if (cursor.Number(8) == hdf5::kUndefined) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(
        "offset ", message.offset, ": has attributes in the layout of libver='latest'"));
  }

  absl::StatusOr<std::optional<std::vector<std::string>>> ReadStrings(
      const hdf5::Message& message) {
    using Kind = hdf5::ElementType::Kind;
    PENSTOCK_ASSIGN_OR_RETURN(const hdf5::Attribute attribute, hdf5::ParseAttribute(message));
    const auto count = static_cast<uint64_t>(attribute.shape.num_elements());
    std::vector<std::string> strings;
    if (count == 0) return std::optional(strings);
    if (attribute.type.kind != Kind::kFixedText && attribute.type.kind != Kind::kVariableText) {
      return hdf5::Corrupt(message.offset, "has no strings");
    }
    if (count > hdf5::kMaxStrings || attribute.type.size > attribute.data.size() / count) {
      return hdf5::Corrupt(
          attribute.offset,
          absl::StrCat("has ", attribute.data.size(), " bytes, too few for ", count, " elements"));
    }
    hdf5::Cursor cursor(attribute.data, attribute.offset);
    uint64_t total = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (attribute.type.kind == Kind::kFixedText) {
        strings.push_back(
            hdf5::FixedText(cursor.Take(attribute.type.size), attribute.type.space_padded));
        continue;
      }
      const uint64_t length = cursor.Number(4), heap = cursor.Number(8), index = cursor.Number(4);
      if (length == 0) {
        strings.emplace_back();
        continue;
      }
      PENSTOCK_ASSIGN_OR_RETURN(const absl::string_view text, objects_.HeapObject(heap, index));
      if (length > text.size() || (total += length) > hdf5::kMaxText) {
        return hdf5::Corrupt(attribute.offset, absl::StrCat("has a string of ", length, " bytes"));
      }
      strings.push_back(hdf5::FixedText(text.substr(0, length), false));
    }
    return std::optional(std::move(strings));
  }

  std::unique_ptr<io::RandomAccessFile> file_;
  hdf5::Source source_{*file_};
  hdf5::Objects objects_{source_};
  uint64_t root_ = 0;
};

Hdf5File::Hdf5File(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Hdf5File::~Hdf5File() = default;

absl::StatusOr<std::unique_ptr<Hdf5File>> Hdf5File::Open(
    std::unique_ptr<io::RandomAccessFile> file) {
  auto impl = std::make_unique<Impl>(std::move(file));
  PENSTOCK_RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<Hdf5File>(new Hdf5File(std::move(impl)));
}

int64_t Hdf5File::size() const { return impl_->size(); }
absl::StatusOr<std::vector<Hdf5File::Child>> Hdf5File::Children(absl::string_view group) {
  return impl_->Children(group);
}
absl::StatusOr<Hdf5File::Dataset> Hdf5File::Describe(absl::string_view path) {
  return impl_->Describe(path);
}
absl::StatusOr<base::Array> Hdf5File::ReadArray(absl::string_view path) {
  return impl_->ReadArray(path);
}
absl::StatusOr<std::optional<std::vector<std::string>>> Hdf5File::Strings(
    absl::string_view object, absl::string_view attribute) {
  return impl_->Strings(object, attribute);
}

}  // namespace penstock::save
