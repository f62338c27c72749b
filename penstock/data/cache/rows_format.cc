#include "penstock/data/cache/rows_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

using base::Array;
using base::DType;
using base::Shape;

static_assert(std::endian::native == std::endian::little, "big-endian hosts: swap the elements");

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void AppendShape(const Shape& shape, std::string* out) {
  AppendVarint(static_cast<uint64_t>(shape.rank()), out);
  for (int64_t extent : shape) AppendVarint(static_cast<uint64_t>(extent), out);
}

// Reader of the bytes; once out of bounds, everything is empty and ok() is false.
class RowsReader {
 public:
  explicit RowsReader(absl::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  void Fail() { ok_ = false; }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const absl::string_view next = Bytes(1);
      if (next.empty()) return 0;
      const uint64_t bits = static_cast<uint8_t>(next[0]) & 0x7f;
      if (shift == 63 && bits > 1) break;
      value |= bits << shift;
      if (static_cast<uint8_t>(next[0]) < 0x80) return value;
    }
    Fail();
    return 0;
  }

  absl::string_view Bytes(uint64_t count) {
    if (!ok_ || count > left()) {
      Fail();
      return {};
    }
    const absl::string_view out = bytes_.substr(at_, count);
    at_ += count;
    return out;
  }

 private:
  const absl::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

// ---- Origins ----

void AppendOrigins(const RowRefs& rows, std::string* out) {
  std::string before;
  ForEachRange(rows, 0, rows.size(), [&](const Block& block, int64_t begin, int64_t count) {
    for (int64_t row = begin; row < begin + count; ++row) {
      std::string origin = block.origins.At(row);
      const size_t shared =
          std::mismatch(before.begin(), before.end(), origin.begin(), origin.end()).first -
          before.begin();
      AppendVarint(shared, out);
      AppendVarint(origin.size() - shared, out);
      out->append(origin, shared);
      before = std::move(origin);
    }
  });
}

// Reads the next origin into `origin`, which holds the one before.
bool ReadOrigin(RowsReader& reader, std::string* origin) {
  const uint64_t shared = reader.Varint();
  const absl::string_view rest = reader.Bytes(reader.Varint());
  if (!reader.ok() || shared > origin->size()) return false;
  origin->resize(shared);
  absl::StrAppend(origin, rest);
  return true;
}

class StoredOrigins : public OriginSource {
 public:
  explicit StoredOrigins(absl::string_view bytes) : bytes_(bytes) {}
  std::string At(int64_t index) const override {
    RowsReader reader(bytes_);
    std::string origin;
    for (int64_t i = 0; i <= index; ++i) ReadOrigin(reader, &origin);
    return origin;
  }

 private:
  const std::string bytes_;
};

// ---- Columns ----

void AppendColumn(const RowRefs& rows, int column, DType dtype, std::string* out) {
  std::vector<Array> values;
  values.reserve(static_cast<size_t>(rows.size()));
  ForEachRange(rows, 0, rows.size(), [&](const Block& block, int64_t begin, int64_t count) {
    for (int64_t row = begin; row < begin + count; ++row) {
      values.push_back(block.columns[column].Row(row));
    }
  });
  const bool same = std::all_of(values.begin(), values.end(), [&](const Array& value) {
    return value.shape() == values[0].shape();
  });
  AppendVarint(same ? 0 : 1, out);
  for (size_t i = 0; i < values.size() && (i == 0 || !same); ++i) {
    AppendShape(values[i].shape(), out);
  }
  if (dtype != DType::kString) {
    for (const Array& value : values) {
      if (value.num_bytes() > 0) {
        out->append(static_cast<const char*>(value.raw()), static_cast<size_t>(value.num_bytes()));
      }
    }
    return;
  }
  for (const Array& value : values) {
    for (absl::string_view s : value.values<absl::string_view>()) AppendVarint(s.size(), out);
  }
  for (const Array& value : values) {
    for (absl::string_view s : value.values<absl::string_view>()) absl::StrAppend(out, s);
  }
}

// Fails the reader if the shape does not fit the spec, or has more elements than there are bytes.
Shape ReadShape(RowsReader& reader, const ColumnSpec& spec) {
  std::vector<int64_t> extents;
  const uint64_t rank = reader.Varint();
  if (rank != static_cast<uint64_t>(spec.shape.rank())) reader.Fail();
  uint64_t elements = 1;
  for (uint64_t i = 0; i < rank && reader.ok(); ++i) {
    const uint64_t extent = reader.Varint();
    if (extent > INT64_MAX ||
        __builtin_mul_overflow(elements, std::max<uint64_t>(extent, 1), &elements) ||
        elements > INT64_MAX) {
      reader.Fail();
    }
    extents.push_back(static_cast<int64_t>(extent));
  }
  if (!reader.ok()) return {};
  const Shape shape(extents);
  if (!Fits(shape, spec.shape)) reader.Fail();
  return shape;
}

Array ReadElements(RowsReader& reader, const ColumnSpec& spec, uint64_t elements,
                   const std::shared_ptr<const void>& owner) {
  const bool strings = spec.dtype == DType::kString;
  const uint64_t width = strings ? 1 : static_cast<uint64_t>(base::ByteWidth(spec.dtype));
  if (!reader.ok() || elements > reader.left() / width) {
    reader.Fail();
    return Array();
  }
  Array out = Array::Uninitialized(spec.dtype, {static_cast<int64_t>(elements)});
  if (!strings) {
    const absl::string_view bytes = reader.Bytes(elements * width);
    char* to = static_cast<char*>(out.mutable_raw());
    std::copy(bytes.begin(), bytes.end(), to);
    if (spec.dtype == DType::kBool) {
      for (size_t i = 0; i < bytes.size(); ++i) to[i] = to[i] != 0;
    }
    return out;
  }
  std::vector<uint64_t> lengths(elements);
  for (uint64_t& length : lengths) length = reader.Varint();
  absl::string_view* views = out.mutable_data<absl::string_view>();
  for (uint64_t i = 0; i < elements; ++i) views[i] = reader.Bytes(lengths[i]);
  out.KeepAlive(owner);
  return out;
}

Column ReadColumn(RowsReader& reader, const ColumnSpec& spec, int64_t rows,
                  const std::shared_ptr<const void>& owner) {
  const uint64_t kind = reader.Varint();
  if (kind > 1) reader.Fail();
  std::vector<Shape> shapes;
  uint64_t elements = 0;
  for (int64_t i = 0; i < (kind == 0 ? 1 : rows) && reader.ok(); ++i) {
    const Shape shape = ReadShape(reader, spec);
    if (!reader.ok() ||
        __builtin_add_overflow(elements, static_cast<uint64_t>(shape.num_elements()), &elements)) {
      reader.Fail();
    }
    shapes.push_back(shape);
  }
  if (kind == 0 && __builtin_mul_overflow(elements, static_cast<uint64_t>(rows), &elements)) {
    reader.Fail();
  }
  const Array all = ReadElements(reader, spec, elements, owner);
  if (!reader.ok()) return Column();
  if (kind == 0) return Column(*all.Reshape(shapes[0].Prepend(rows)));
  std::vector<Array> values;
  int64_t at = 0;
  for (const Shape& shape : shapes) {
    const int64_t end = at + shape.num_elements();
    values.push_back(*all.Slice(at, end).Reshape(shape));
    at = end;
  }
  return Column::List(std::move(values));
}

}  // namespace

std::string SerializeRows(const RowRefs& rows, const ElementSpec& spec) {
  std::string out;
  AppendVarint(static_cast<uint64_t>(rows.size()), &out);
  AppendOrigins(rows, &out);
  for (int i = 0; i < spec.size(); ++i) AppendColumn(rows, i, spec[i].dtype, &out);
  return out;
}

absl::StatusOr<BlockPtr> ParseRows(absl::string_view bytes, std::shared_ptr<const void> owner,
                                   const ElementSpec& spec) {
  RowsReader reader(bytes);
  const auto damage = [&] {
    return absl::DataLossError(absl::StrCat("the rows are corrupt at byte ", reader.at()));
  };
  const uint64_t rows = reader.Varint();
  // An origin takes two bytes, and rows are numbered in 32 bits (rows.h).
  if (rows == 0 || rows > std::min<uint64_t>(reader.left() / 2, UINT32_MAX)) return damage();
  auto block = std::make_shared<Block>();
  block->rows = static_cast<int64_t>(rows);
  const size_t begin = reader.at();
  std::string origin;
  for (uint64_t i = 0; i < rows; ++i) {
    if (!ReadOrigin(reader, &origin)) return damage();
  }
  block->origins.Append(std::make_shared<StoredOrigins>(bytes.substr(begin, reader.at() - begin)),
                        0, block->rows);
  for (const ColumnSpec& column : spec.columns()) {
    block->columns.push_back(ReadColumn(reader, column, block->rows, owner));
    if (!reader.ok()) return damage();
  }
  if (reader.left() != 0) return damage();
  return block;
}

std::string SerializeError(const absl::Status& error) {
  const SkippedElement element = DescribeSkipped(error);
  std::string out;
  AppendVarint(0, &out);
  AppendVarint(static_cast<uint64_t>(error.code()), &out);
  for (const std::string* text : {&element.origin, &element.stage, &element.what}) {
    AppendVarint(text->size(), &out);
    out += *text;
  }
  return out;
}

bool IsError(absl::string_view bytes) { return !bytes.empty() && bytes[0] == '\0'; }

absl::Status ParseError(absl::string_view bytes, absl::Status* error) {
  RowsReader reader(bytes);
  reader.Varint();
  const uint64_t code = reader.Varint();
  absl::string_view texts[3];
  for (absl::string_view& text : texts) text = reader.Bytes(reader.Varint());
  constexpr auto kLast = static_cast<uint64_t>(absl::StatusCode::kUnauthenticated);
  if (!reader.ok() || reader.left() != 0 || code == 0 || code > kLast) {
    return absl::DataLossError(
        absl::StrCat("the error of an element is corrupt at byte ", reader.at()));
  }
  *error = RecoverableError(absl::Status(static_cast<absl::StatusCode>(code), texts[2]), texts[0],
                            texts[1]);
  return absl::OkStatus();
}

}  // namespace penstock::data
