#include "penstock/save/hdf5/hdf5_messages.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/checked_size.h"
#include "penstock/base/status.h"

namespace penstock::save::hdf5 {
namespace {

using base::DType;

absl::Status Unsupported(absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat("has ", what, ", which is not supported"));
}

uint64_t RoundUp8(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

// The members of an enumeration in h5py's bool, and their order.
bool IsBoolean(const std::vector<std::string>& names, absl::string_view values) {
  return names.size() == 2 && names[0] == "FALSE" && names[1] == "TRUE" &&
         values == absl::string_view("\0\1", 2);
}

absl::StatusOr<ElementType> ParseInteger(Cursor& cursor, uint64_t bits, uint64_t size) {
  const uint64_t first_bit = cursor.Number(2), precision = cursor.Number(2);
  if (first_bit != 0 || precision != 8 * size) return Unsupported("integers with padding");
  ElementType type{.big_endian = (bits & 1) != 0, .size = size};
  const bool is_signed = (bits & 8) != 0;
  switch (size) {
    case 1:
      type.dtype = is_signed ? DType::kI8 : DType::kU8;
      break;
    case 2:
      type.dtype = is_signed ? DType::kI16 : DType::kU16;
      break;
    case 4:
      type.dtype = is_signed ? DType::kI32 : DType::kU32;
      break;
    case 8:
      type.dtype = is_signed ? DType::kI64 : DType::kU64;
      break;
    default:
      return Unsupported(absl::StrCat("integers of ", size, " bytes"));
  }
  return type;
}

absl::StatusOr<ElementType> ParseFloat(Cursor& cursor, uint64_t bits, uint64_t size) {
  struct Float {
    DType dtype;
    uint64_t size, exponent_at, exponent_bits, mantissa_bits, bias;
  };
  constexpr Float kFloats[] = {{DType::kF16, 2, 10, 5, 10, 15},
                               {DType::kBF16, 2, 7, 8, 7, 127},
                               {DType::kF32, 4, 23, 8, 23, 127},
                               {DType::kF64, 8, 52, 11, 52, 1023}};
  const uint64_t first_bit = cursor.Number(2), precision = cursor.Number(2);
  const uint64_t exponent_at = cursor.Number(1), exponent_bits = cursor.Number(1);
  const uint64_t mantissa_at = cursor.Number(1), mantissa_bits = cursor.Number(1);
  const uint64_t bias = cursor.Number(4), sign_at = bits >> 8 & 0xff;
  const bool implied_bit = (bits >> 4 & 3) == 2, is_vax = (bits & 0x40) != 0;
  for (const Float& f : kFloats) {
    if (size == f.size && first_bit == 0 && precision == 8 * size && sign_at == 8 * size - 1 &&
        exponent_at == f.exponent_at && exponent_bits == f.exponent_bits && mantissa_at == 0 &&
        mantissa_bits == f.mantissa_bits && bias == f.bias && implied_bit && !is_vax) {
      return ElementType{.dtype = f.dtype, .big_endian = (bits & 1) != 0, .size = size};
    }
  }
  return Unsupported(absl::StrCat("floats of ", size, " bytes with ", exponent_bits,
                                  " bits of exponent and ", mantissa_bits, " of mantissa"));
}

// `depth`: of types in types.
absl::StatusOr<ElementType> ParseType(Cursor& cursor, int depth) {
  const uint64_t start = cursor.offset();
  const uint64_t head = cursor.Number(1), kind = head & 15, version = head >> 4;
  const uint64_t bits = cursor.Number(3), size = cursor.Number(4);
  if (!cursor.ok() || version < 1 || version > 5 || size == 0 || depth > 4) {
    return Corrupt(start, "the type of the elements is malformed");
  }
  switch (kind) {
    case 0:
      return ParseInteger(cursor, bits, size);
    case 1:
      return ParseFloat(cursor, bits, size);
    case 3:
      return ElementType{
          .kind = ElementType::Kind::kFixedText, .space_padded = (bits & 15) == 2, .size = size};
    case 5:
      if (size == 2) return ElementType{.kind = ElementType::Kind::kOpaque2, .size = size};
      return Unsupported(absl::StrCat("opaque elements of ", size, " bytes"));
    case 8: {
      PENSTOCK_ASSIGN_OR_RETURN(const ElementType base, ParseType(cursor, depth + 1));
      std::vector<std::string> names;
      for (uint64_t i = 0; i < (bits & 0xffff) && cursor.ok(); ++i) {
        std::string name;
        for (char c = 1; cursor.ok() && c != 0;) {
          c = static_cast<char>(cursor.Number(1));
          if (c != 0) name += c;
        }
        if (version < 3) cursor.Take(RoundUp8(name.size() + 1) - (name.size() + 1));
        names.push_back(std::move(name));
      }
      const absl::string_view values = cursor.Take(names.size() * base.size);
      if (!cursor.ok()) return Corrupt(start, "the type of the elements is malformed");
      if (base.dtype != DType::kI8 || size != 1 || !IsBoolean(names, values)) {
        return Unsupported("elements of an enumeration other than h5py's bool");
      }
      return ElementType{.dtype = DType::kBool, .size = 1};
    }
    case 9: {
      if ((bits & 15) != 1) return Unsupported("elements that are lists");
      if (size != 16) return Corrupt(start, "the type of the elements is malformed");
      return ElementType{.kind = ElementType::Kind::kVariableText, .size = size};
    }
    default:
      return Unsupported(absl::StrCat("elements of HDF5's type class ", kind));
  }
}

// The fields before the name of an attribute.
struct AttributeHead {
  uint64_t version, flags, name_size, type_size, space_size;
};

absl::StatusOr<AttributeHead> ParseHead(Cursor& cursor) {
  const uint64_t start = cursor.offset();
  AttributeHead head;
  head.version = cursor.Number(1);
  head.flags = cursor.Number(1);
  head.name_size = cursor.Number(2);
  head.type_size = cursor.Number(2);
  head.space_size = cursor.Number(2);
  if (head.version == 3) cursor.Number(1);  // encoding of the name
  if (!cursor.ok() || head.name_size == 0) return Corrupt(start, "an attribute is malformed");
  if (head.version < 1 || head.version > 3) {
    return Unsupported(absl::StrCat("an attribute of version ", head.version));
  }
  return head;
}

absl::string_view TakePadded(Cursor& cursor, const AttributeHead& head, uint64_t bytes) {
  return cursor.Take(head.version == 1 ? RoundUp8(bytes) : bytes).substr(0, bytes);
}

}  // namespace

absl::StatusOr<base::Shape> ParseDataspace(Cursor cursor) {
  const uint64_t start = cursor.offset();
  const uint64_t version = cursor.Number(1), rank = cursor.Number(1);
  cursor.Number(1);  // flags: maximum extents follow
  const uint64_t kind = cursor.Number(1);
  if (version == 1) cursor.Number(4);
  if (!cursor.ok() || version < 1 || version > 2) return Corrupt(start, "a shape is malformed");
  if (version == 2 && kind == 2) return base::Shape({0});  // no elements at all
  if (rank > static_cast<uint64_t>(base::kMaxRank)) {
    return absl::UnimplementedError(
        absl::StrCat("has rank ", rank, "; the maximum is ", base::kMaxRank));
  }
  std::vector<int64_t> dims;
  for (uint64_t d = 0; d < rank; ++d) {
    const uint64_t dim = cursor.Number(8);
    if (dim > INT64_MAX) return Corrupt(start, "an extent is above 2^63");
    dims.push_back(static_cast<int64_t>(dim));
  }
  // 128 bits: the widest type in memory is a string_view.
  if (!cursor.ok() || !base::CheckedBytes(DType::kString, base::Shape(dims)).has_value()) {
    return Corrupt(start, "a shape is malformed");
  }
  return base::Shape(dims);
}

absl::StatusOr<ElementType> ParseDatatype(Cursor& cursor) {
  const uint64_t start = cursor.offset();
  absl::StatusOr<ElementType> type = ParseType(cursor, 0);
  if (type.ok() && !cursor.ok()) return Corrupt(start, "the type of the elements is malformed");
  return type;
}

absl::StatusOr<Layout> ParseLayout(Cursor cursor) {
  const uint64_t start = cursor.offset();
  const uint64_t version = cursor.Number(1), kind = cursor.Number(1);
  Layout layout;
  if (version != 3 && version != 4) {
    return Unsupported(absl::StrCat("a layout of version ", version));
  }
  if (kind == 0) {
    layout.kind = Layout::Kind::kCompact;
    layout.size = cursor.Number(2);
    layout.compact = std::string(cursor.Take(layout.size));
  } else if (kind == 1) {
    layout.address = cursor.Number(8);
    layout.size = cursor.Number(8);
  } else if (kind == 2 && version == 3) {
    layout.kind = Layout::Kind::kChunked;
    const uint64_t rank = cursor.Number(1);
    layout.address = cursor.Number(8);
    for (uint64_t d = 0; d + 1 < rank; ++d) layout.chunk.push_back(cursor.Number(4));
    layout.element_size = cursor.Number(4);
  } else {
    return Unsupported(kind == 2   ? "chunks in a layout of HDF5 1.10 (libver='latest')"
                       : kind == 3 ? "elements in other datasets (a virtual dataset)"
                                   : "an unknown layout");
  }
  if (!cursor.ok()) return Corrupt(start, "a layout is malformed");
  return layout;
}

absl::StatusOr<std::vector<FilterStep>> ParseFilters(Cursor cursor) {
  const uint64_t start = cursor.offset();
  const uint64_t version = cursor.Number(1), count = cursor.Number(1);
  if (version == 1) cursor.Number(6);
  if (!cursor.ok() || version < 1 || version > 2 || count > 32) {
    return Corrupt(start, "a list of filters is malformed");
  }
  std::vector<FilterStep> steps;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t filter = cursor.Number(2);
    const uint64_t name = version == 1 || filter >= 256 ? cursor.Number(2) : 0;
    cursor.Number(2);  // flags: whether a failed filter is left out
    const uint64_t values = cursor.Number(2);
    cursor.Take(version == 1 ? RoundUp8(name) : name);
    Cursor parameters(cursor.Take(4 * values), cursor.offset());
    if (version == 1 && values % 2 == 1) cursor.Number(4);
    if (!cursor.ok()) return Corrupt(start, "a list of filters is malformed");
    if (filter < 1 || filter > 3) return Unsupported(absl::StrCat("HDF5's filter ", filter));
    FilterStep step{.filter = static_cast<Filter>(filter)};
    if (step.filter == Filter::kShuffle) step.element_size = parameters.Number(4);
    if (!parameters.ok() || step.element_size == 0) {
      return Corrupt(start, "a list of filters is malformed");
    }
    steps.push_back(step);
  }
  return steps;
}

absl::StatusOr<std::string> ParseAttributeName(const Message& message) {
  if (message.is_shared) return Unsupported("a shared attribute");
  Cursor cursor(message.body, message.offset);
  PENSTOCK_ASSIGN_OR_RETURN(const AttributeHead head, ParseHead(cursor));
  const absl::string_view name = TakePadded(cursor, head, head.name_size);
  if (!cursor.ok()) return Corrupt(message.offset, "an attribute is malformed");
  return std::string(name.substr(0, name.find('\0')));
}

absl::StatusOr<Attribute> ParseAttribute(const Message& message) {
  Attribute attribute;
  PENSTOCK_ASSIGN_OR_RETURN(attribute.name, ParseAttributeName(message));
  Cursor cursor(message.body, message.offset);
  PENSTOCK_ASSIGN_OR_RETURN(const AttributeHead head, ParseHead(cursor));
  if (head.version > 1 && (head.flags & 3) != 0) {
    return Unsupported("an attribute of a shared type");
  }
  TakePadded(cursor, head, head.name_size);
  Cursor type(TakePadded(cursor, head, head.type_size), cursor.offset());
  const Cursor space(TakePadded(cursor, head, head.space_size), cursor.offset());
  if (!cursor.ok()) return Corrupt(message.offset, "an attribute is malformed");
  PENSTOCK_ASSIGN_OR_RETURN(attribute.type, ParseDatatype(type));
  PENSTOCK_ASSIGN_OR_RETURN(attribute.shape, ParseDataspace(space));
  attribute.offset = cursor.offset();
  attribute.data = cursor.Take(cursor.left());
  return attribute;
}

}  // namespace penstock::save::hdf5
