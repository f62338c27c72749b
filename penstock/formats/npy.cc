#include "penstock/formats/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"

namespace penstock::formats {
namespace {

using base::Array;
using base::DType;
using base::Shape;

static_assert(std::endian::native == std::endian::little, "big-endian hosts: swap '<' instead");

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kHeaderAlignment = 64;

struct NumericType {
  char kind;
  int64_t width;
  DType dtype;
  int64_t swapped;  // bytes of one number, for byte swapping
};
constexpr NumericType kNumericTypes[] = {
    {'b', 1, DType::kBool, 1}, {'i', 1, DType::kI8, 1},  {'i', 2, DType::kI16, 2},
    {'i', 4, DType::kI32, 4},  {'i', 8, DType::kI64, 8}, {'u', 1, DType::kU8, 1},
    {'u', 2, DType::kU16, 2},  {'u', 4, DType::kU32, 4}, {'u', 8, DType::kU64, 8},
    {'f', 2, DType::kF16, 2},  {'f', 4, DType::kF32, 4}, {'f', 8, DType::kF64, 8},
    {'c', 8, DType::kC64, 4},
};

struct Header {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
  size_t data = 0;  // offset of the elements
};

// dtype and byte order of the elements.
struct Elements {
  char kind = 0;
  int64_t width = 0;  // bytes of one
  bool big_endian = false;
  const NumericType* numeric = nullptr;  // null for strings
};

absl::Status CorruptNpy(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(".npy: ", what));
}

// Parses the header's dictionary, a Python literal:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Header> Parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    if (!Take('{')) return Unreadable();
    while (!Take('}')) {
      std::string key;
      if (!TakeString(&key) || !Take(':')) return Unreadable();
      if (key == "descr" && !descr) {
        descr = true;
        if (Peek() == '[') {
          return absl::UnimplementedError(".npy: structured dtypes are not supported");
        }
        if (!TakeString(&header.descr)) return Unreadable();
      } else if (key == "fortran_order" && !order) {
        order = true;
        header.fortran_order = TakeWord("True");
        if (!header.fortran_order && !TakeWord("False")) return Unreadable();
      } else if (key == "shape" && !shape) {
        shape = true;
        PENSTOCK_ASSIGN_OR_RETURN(header.shape, TakeShape());
      } else {
        return Unreadable();
      }
      if (!Take(',') && Peek() != '}') return Unreadable();
    }
    if (!descr || !order || !shape || Peek() != '\0') return Unreadable();
    return header;
  }

 private:
  absl::Status Unreadable() const {
    return CorruptNpy(absl::StrCat("malformed header at byte ", at_));
  }
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c || c == '\0') return false;
    ++at_;
    return true;
  }
  bool TakeWord(absl::string_view word) {
    Peek();
    if (!absl::StartsWith(text_.substr(at_), word)) return false;
    at_ += word.size();
    return true;
  }
  bool TakeString(std::string* out) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == absl::string_view::npos) return false;
    *out = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return true;
  }
  absl::StatusOr<Shape> TakeShape() {
    std::vector<int64_t> dims;
    int64_t elements = 1;
    if (!Take('(')) return Unreadable();
    while (!Take(')')) {
      Peek();
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      int64_t dim = 0;
      if (!absl::SimpleAtoi(text_.substr(begin, at_ - begin), &dim)) return Unreadable();
      TakeWord("L");  // suffix of a Python 2 long integer
      // The other extents are checked even if one extent is 0.
      if (__builtin_mul_overflow(elements, std::max<int64_t>(dim, 1), &elements)) {
        return CorruptNpy("the number of elements of the shape overflows int64");
      }
      dims.push_back(dim);
      if (!Take(',') && Peek() != ')') return Unreadable();
    }
    if (dims.size() > base::kMaxRank) {
      return absl::UnimplementedError(absl::StrCat(".npy: arrays of ", dims.size(),
                                                   " dimensions are not supported; the maximum is ",
                                                   base::kMaxRank));
    }
    return Shape(dims);
  }

  absl::string_view text_;
  size_t at_ = 0;
};

absl::StatusOr<Header> ReadHeader(absl::string_view bytes) {
  if (!absl::StartsWith(bytes, kMagic) || bytes.size() < 10) {
    return CorruptNpy("not a .npy file: it does not begin with its magic bytes");
  }
  const auto byte = [&](size_t i) { return size_t{static_cast<uint8_t>(bytes[i])}; };
  const size_t version = byte(6);
  if (version < 1 || version > 3) {
    return absl::UnimplementedError(absl::StrCat(".npy: unsupported version ", version));
  }
  size_t begin = 10;
  size_t size = byte(8) | byte(9) << 8;
  if (version > 1) {
    if (bytes.size() < 12) return CorruptNpy("the header is cut short");
    begin = 12;
    size |= byte(10) << 16 | byte(11) << 24;
  }
  if (size > bytes.size() - begin) return CorruptNpy("the header is cut short");
  PENSTOCK_ASSIGN_OR_RETURN(Header header, HeaderParser(bytes.substr(begin, size)).Parse());
  header.data = begin + size;
  return header;
}

absl::StatusOr<Elements> ReadDescr(absl::string_view descr) {
  const auto unknown = [&] {
    return absl::UnimplementedError(absl::StrCat(".npy: unsupported element type '", descr, "'"));
  };
  Elements elements;
  absl::string_view rest = descr;
  if (!rest.empty() && absl::StrContains("<>|=", rest[0])) {
    elements.big_endian = rest[0] == '>';
    rest.remove_prefix(1);
  }
  if (rest.empty()) return unknown();
  elements.kind = rest[0];
  if (elements.kind == 'O') {
    return absl::UnimplementedError(
        ".npy: Python objects are not supported, because they are pickles, which can run code; "
        "convert the array to a numeric or string dtype first (array.astype)");
  }
  if (elements.kind == 'V') {
    return absl::UnimplementedError(
        absl::StrCat(".npy: elements of type '", descr,
                     "' are opaque bytes; bfloat16 arrays of ml_dtypes are saved this way: convert "
                     "them to float32 first, which represents all bfloat16 values"));
  }
  if (!absl::SimpleAtoi(rest.substr(1), &elements.width) || elements.width < 1) return unknown();
  if (elements.kind == 'S' || elements.kind == 'a') return elements;
  if (elements.kind == 'U') {
    constexpr int64_t kBytesOfACharacter = 4;
    if (elements.width > INT32_MAX) return unknown();
    elements.width *= kBytesOfACharacter;
    return elements;
  }
  for (const NumericType& type : kNumericTypes) {
    if (type.kind == elements.kind && type.width == elements.width) elements.numeric = &type;
  }
  if (elements.numeric == nullptr) return unknown();
  return elements;
}

// Index mapping: element i of the row-major result is element source(i) of the column-major array.
template <typename Fn>
void ForEachColumnMajor(const Shape& shape, int64_t elements, Fn fn) {
  int64_t index[base::kMaxRank] = {};
  int64_t stride[base::kMaxRank] = {};
  int64_t next = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    stride[d] = next;
    next *= shape.dim(d);
  }
  int64_t source = 0;
  for (int64_t i = 0; i < elements; ++i) {
    fn(i, source);
    for (int d = shape.rank() - 1; d >= 0; --d) {
      source += stride[d];
      if (++index[d] < shape.dim(d)) break;
      source -= stride[d] * shape.dim(d);
      index[d] = 0;
    }
  }
}

// The bytes of the elements in row-major order: `bytes` itself or a copy.
absl::string_view RowMajor(absl::string_view bytes, const Header& header, int64_t width,
                           std::string* copy) {
  if (!header.fortran_order || header.shape.rank() < 2) return bytes;
  copy->resize(bytes.size());
  ForEachColumnMajor(header.shape, header.shape.num_elements(), [&](int64_t to, int64_t from) {
    std::memcpy(copy->data() + to * width, bytes.data() + from * width, width);
  });
  return *copy;
}

absl::Status AppendUtf8(uint32_t c, std::string& out) {
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
    return CorruptNpy("text contains an invalid Unicode code point");
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
    return absl::OkStatus();
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr uint8_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out.push_back(static_cast<char>(kLead[more] | c >> (6 * more)));
  for (int i = more - 1; i >= 0; --i)
    out.push_back(static_cast<char>(0x80 | (c >> (6 * i) & 0x3f)));
  return absl::OkStatus();
}

absl::StatusOr<Array> ToStrings(absl::string_view bytes, const Shape& shape,
                                const Elements& elements) {
  std::vector<std::string> strings(static_cast<size_t>(shape.num_elements()));
  for (size_t i = 0; i < strings.size(); ++i) {
    const absl::string_view padded = bytes.substr(i * elements.width, elements.width);
    if (elements.kind != 'U') {
      const size_t last = padded.find_last_not_of('\0');
      strings[i] = std::string(padded.substr(0, last == absl::string_view::npos ? 0 : last + 1));
      continue;
    }
    int64_t characters = elements.width / 4;
    const auto character = [&](int64_t k) {
      uint32_t c;
      std::memcpy(&c, padded.data() + 4 * k, 4);
      return elements.big_endian ? __builtin_bswap32(c) : c;
    };
    while (characters > 0 && character(characters - 1) == 0) --characters;
    for (int64_t k = 0; k < characters; ++k) {
      PENSTOCK_RETURN_IF_ERROR(AppendUtf8(character(k), strings[i]));
    }
  }
  return Array::Strings(shape, strings);
}

Array ToNumbers(absl::string_view bytes, const Shape& shape, const Elements& elements) {
  Array out = Array::Uninitialized(elements.numeric->dtype, shape);
  char* to = static_cast<char*>(out.mutable_raw());
  std::copy(bytes.begin(), bytes.end(), to);
  const int64_t number = elements.numeric->swapped;
  if (elements.big_endian && number > 1) {
    for (size_t i = 0; i < bytes.size(); i += number) std::reverse(to + i, to + i + number);
  }
  if (elements.numeric->dtype == DType::kBool) {
    for (size_t i = 0; i < bytes.size(); ++i) to[i] = to[i] != 0;
  }
  return out;
}

bool CanBeViewed(absl::string_view bytes, const Elements& elements) {
  if (elements.big_endian && elements.numeric->swapped > 1) return false;
  if (reinterpret_cast<uintptr_t>(bytes.data()) % elements.width != 0) return false;
  return elements.numeric->dtype != DType::kBool ||
         std::all_of(bytes.begin(), bytes.end(), [](char b) { return b == 0 || b == 1; });
}

absl::StatusOr<std::string> DescrOf(const Array& array) {
  for (const NumericType& type : kNumericTypes) {
    if (type.dtype == array.dtype()) {
      return absl::StrCat(type.width == 1 ? "|" : "<", std::string(1, type.kind), type.width);
    }
  }
  if (array.dtype() != DType::kString) {
    return absl::InvalidArgumentError(absl::StrCat("NumPy has no dtype for ",
                                                   base::DTypeName(array.dtype()),
                                                   "; convert it, for example to float32"));
  }
  size_t width = 1;
  for (absl::string_view s : array.values<absl::string_view>()) {
    if (!s.empty() && s.back() == '\0') {
      return absl::InvalidArgumentError(
          "a string ends in a NUL byte, which NumPy would drop as padding");
    }
    width = std::max(width, s.size());
  }
  return absl::StrCat("|S", width);
}

}  // namespace

absl::StatusOr<NpyInfo> ReadNpyInfo(absl::string_view first_bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(const Header header, ReadHeader(first_bytes));
  PENSTOCK_ASSIGN_OR_RETURN(const Elements elements, ReadDescr(header.descr));
  NpyInfo info = {.dtype = elements.numeric == nullptr ? DType::kString : elements.numeric->dtype,
                  .shape = header.shape,
                  .offset = static_cast<int64_t>(header.data),
                  .bytes = 0,
                  .incompatibility = ""};
  if (__builtin_mul_overflow(header.shape.num_elements(), elements.width, &info.bytes)) {
    return CorruptNpy("the size of the elements overflows int64");
  }
  if (elements.numeric == nullptr) {
    info.incompatibility = "its elements are strings";
  } else if (elements.big_endian && elements.numeric->swapped > 1) {
    info.incompatibility = "its elements are big-endian";
  } else if (header.fortran_order && header.shape.rank() > 1) {
    info.incompatibility = "it is column-major (convert it with numpy.ascontiguousarray)";
  }
  return info;
}

absl::StatusOr<Array> ParseNpy(absl::string_view bytes, std::shared_ptr<const void> owner) {
  PENSTOCK_ASSIGN_OR_RETURN(const Header header, ReadHeader(bytes));
  PENSTOCK_ASSIGN_OR_RETURN(const Elements elements, ReadDescr(header.descr));
  const int64_t count = header.shape.num_elements();
  int64_t size;
  if (__builtin_mul_overflow(count, elements.width, &size) ||
      size != static_cast<int64_t>(bytes.size() - header.data)) {
    return CorruptNpy(absl::StrCat(count, " elements of ", elements.width,
                                   " bytes each are expected after the header, but ",
                                   bytes.size() - header.data, " bytes follow"));
  }
  std::string copy;
  const absl::string_view data = RowMajor(bytes.substr(header.data), header, elements.width, &copy);
  if (elements.numeric == nullptr) return ToStrings(data, header.shape, elements);
  if (owner != nullptr && copy.empty() && CanBeViewed(data, elements)) {
    return Array::View(elements.numeric->dtype, header.shape, data.data(), std::move(owner));
  }
  return ToNumbers(data, header.shape, elements);
}

absl::StatusOr<NpyPieces> ToNpyPieces(const Array& array) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string descr, DescrOf(array));
  const auto dims = array.shape().dims();
  NpyPieces out;
  std::string dictionary =
      absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(dims, ", "), dims.size() == 1 ? "," : "", "), }");
  constexpr size_t kBefore = 10;
  const size_t padding = kHeaderAlignment - (kBefore + dictionary.size() + 1) % kHeaderAlignment;
  dictionary.append(padding % kHeaderAlignment, ' ');
  dictionary.push_back('\n');
  out.header = std::string(kMagic);
  out.header.append({1, 0, static_cast<char>(dictionary.size() & 0xff),
                     static_cast<char>(dictionary.size() >> 8)});
  out.header += dictionary;
  if (array.dtype() != DType::kString) {
    out.data = {static_cast<const char*>(array.raw()), static_cast<size_t>(array.num_bytes())};
    return out;
  }
  int64_t width = 0;
  PENSTOCK_CHECK(absl::SimpleAtoi(descr.substr(2), &width));
  for (absl::string_view s : array.values<absl::string_view>()) {
    absl::StrAppend(&out.strings, s, std::string(width - s.size(), '\0'));
  }
  return out;
}

absl::StatusOr<std::string> SerializeNpy(const Array& array) {
  PENSTOCK_ASSIGN_OR_RETURN(const NpyPieces pieces, ToNpyPieces(array));
  return absl::StrCat(pieces.header, pieces.data, pieces.strings);
}

absl::StatusOr<Array> ReadNpy(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const Array file, ReadAligned(fs, uri));
  auto array = ParseNpy({static_cast<const char*>(file.raw()), static_cast<size_t>(file.dim(0))},
                        file.owner());
  if (!array.ok()) return base::WithContext(array.status(), io::DisplayName(uri));
  return array;
}

absl::Status WriteNpy(io::FileSystem& fs, absl::string_view uri, const Array& array) {
  auto pieces = ToNpyPieces(array);
  if (!pieces.ok()) return base::WithContext(pieces.status(), io::DisplayName(uri));
  PENSTOCK_ASSIGN_OR_RETURN(auto out, fs.Create(uri));
  for (absl::string_view piece :
       {absl::string_view(pieces->header), pieces->data, absl::string_view(pieces->strings)}) {
    PENSTOCK_RETURN_IF_ERROR(out->Append(piece));
  }
  return out->Close();
}

absl::StatusOr<Array> ReadAligned(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(auto file, fs.OpenRandomAccess(uri));
  Array out = Array::Uninitialized(DType::kU8, {file->size()});
  PENSTOCK_ASSIGN_OR_RETURN(
      const int64_t read,
      file->Read(0, absl::MakeSpan(static_cast<char*>(out.mutable_raw()), out.dim(0))));
  return out.Slice(0, read);
}

}  // namespace penstock::formats
