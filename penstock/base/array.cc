#include "penstock/base/array.h"

#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/checked_size.h"
#include "penstock/base/contract_error.h"
#include "penstock/base/numeric_cast.h"

namespace penstock::base {
namespace {

// An aligned block of memory, freed by its destructor.
struct Block {
  explicit Block(int64_t bytes)
      : memory(::operator new(static_cast<size_t>(bytes > 0 ? bytes : 1), kAlign)) {}
  ~Block() { ::operator delete(memory, kAlign); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  static constexpr std::align_val_t kAlign{static_cast<size_t>(kArrayAlignment)};
  void* memory;
};

int64_t BytesFor(DType dtype, int64_t elements) {
  // Elements narrower than a byte are packed.
  return (elements * BitWidth(dtype) + 7) / 8;
}

// Address of row `i` of the array, whose rows have the shape `row`.
const void* RowData(const Array& array, int64_t i, const Shape& row) {
  const int64_t bits = i * row.num_elements() * BitWidth(array.dtype());
  if (bits % 8 != 0) {
    throw ContractError(
        absl::StrCat("row ", i, " of ", array.TypeString(), " does not begin at a whole byte"));
  }
  return static_cast<const char*>(array.raw()) + bits / 8;
}

}  // namespace

void Array::ThrowWrongType(DType asked) const {
  throw ContractError(absl::StrCat(TypeString(), " was accessed as ", DTypeName(asked),
                                   "; access it as ", DTypeName(dtype_),
                                   ", or convert it by Cast"));
}

void Array::ThrowNoItem() const {
  throw ContractError(
      absl::StrCat("item() requires a numeric array with one element, but this is ", TypeString()));
}

void Array::ThrowWrongCount(const Shape& shape, size_t values) {
  throw ContractError(absl::StrCat("an array of shape ", shape.ToString(), " has ",
                                   shape.num_elements(), " elements, but ", values,
                                   " values were given"));
}

Array Array::Uninitialized(DType dtype, Shape shape) {
  if (dtype == DType::kInvalid) throw ContractError("an array needs an element type");
  for (int64_t d : shape) {
    if (d >= 0) continue;
    throw ContractError(absl::StrCat("the extents of an array must be at least 0, but got ", d,
                                     " in ", shape.ToString()));
  }
  // A size that overflows int64 does not fit into memory either.
  const std::optional<int64_t> bytes = CheckedBytes(dtype, shape);
  if (!bytes.has_value()) throw std::bad_alloc();
  const int64_t elements = shape.num_elements();
  auto block = std::make_shared<Block>(*bytes);
  if (dtype == DType::kString) {
    std::uninitialized_value_construct_n(static_cast<absl::string_view*>(block->memory), elements);
  }
  const void* data = block->memory;
  return View(dtype, std::move(shape), data, std::move(block));
}

Array Array::Zeros(DType dtype, Shape shape) {
  Array out = Uninitialized(dtype, std::move(shape));
  if (dtype != DType::kString) std::memset(out.mutable_raw(), 0, out.num_bytes());
  return out;
}

Array Array::Strings(Shape shape, absl::Span<const std::string> values) {
  if (shape.num_elements() != static_cast<int64_t>(values.size())) {
    ThrowWrongCount(shape, values.size());
  }
  auto copies = std::make_shared<std::vector<std::string>>(values.begin(), values.end());
  Array out = Uninitialized(DType::kString, std::move(shape));
  absl::string_view* views = out.mutable_data<absl::string_view>();
  for (size_t i = 0; i < copies->size(); ++i) views[i] = (*copies)[i];
  out.KeepAlive(std::move(copies));
  return out;
}

Array Array::View(DType dtype, Shape shape, const void* data, std::shared_ptr<const void> owner) {
  Array out;
  out.dtype_ = dtype;
  out.shape_ = std::move(shape);
  out.data_ = data;
  out.owner_ = std::move(owner);
  return out;
}

int64_t Array::num_bytes() const { return BytesFor(dtype_, num_elements()); }

Array Array::Slice(int64_t begin, int64_t end) const {
  if (rank() == 0 || begin < 0 || begin > end || end > dim(0)) {
    throw ContractError(
        absl::StrCat("rows ", begin, " to ", end, " of ", TypeString(), " do not exist"));
  }
  Array out = *this;
  out.shape_.set_dim(0, end - begin);
  out.data_ = RowData(*this, begin, shape_.RowShape());
  return out;
}

Array Array::Row(int64_t i) const {
  if (rank() == 0 || i < 0 || i >= dim(0)) {
    throw ContractError(absl::StrCat("row ", i, " of ", TypeString(), " does not exist"));
  }
  Array out = *this;
  out.shape_ = shape_.RowShape();
  out.data_ = RowData(*this, i, out.shape_);
  return out;
}

absl::StatusOr<Array> Array::Reshape(Shape shape) const {
  const std::optional<int64_t> elements = CheckedElements(shape);
  if (elements != num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot reshape ", TypeString(), " (", num_elements(), " elements) to ", shape.ToString(),
        " (",
        elements.has_value() ? absl::StrCat(*elements, " elements")
                             : "a number of elements that overflows int64, or an extent below 0",
        ")"));
  }
  Array out = *this;
  out.shape_ = std::move(shape);
  return out;
}

absl::StatusOr<Array> Array::Cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  if (!IsNumeric(dtype_) || !IsNumeric(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot convert ", DTypeName(dtype_), " to ", DTypeName(dtype)));
  }
  Array out = Uninitialized(dtype, shape_);
  const int64_t n = num_elements();
  VisitNumeric(dtype_, [&](auto from_zero) {
    using From = decltype(from_zero);
    const From* from = data<From>();
    VisitNumeric(dtype, [&](auto to_zero) {
      using To = decltype(to_zero);
      To* to = out.mutable_data<To>();
      for (int64_t i = 0; i < n; ++i) to[i] = NumericCast<To>(from[i]);
    });
  });
  return out;
}

Array Array::Clone() const {
  Array out = Uninitialized(dtype_, shape_);
  if (dtype_ != DType::kString) {
    std::memcpy(out.mutable_raw(), data_, num_bytes());
    return out;
  }
  std::vector<std::string> copies;
  for (absl::string_view s : values<absl::string_view>()) copies.emplace_back(s);
  return Strings(shape_, copies);
}

void Array::KeepAlive(std::shared_ptr<const void> owner) {
  if (owner_ == nullptr) {
    owner_ = std::move(owner);
    return;
  }
  using Pair = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  owner_ = std::make_shared<Pair>(std::move(owner_), std::move(owner));
}

std::string Array::TypeString() const { return absl::StrCat(DTypeName(dtype_), shape_.ToString()); }

std::string Array::ToString(int64_t max_elements) const {
  if (!valid()) return TypeString();
  std::ostringstream out;
  out << TypeString() << " {";
  const int64_t n = std::min(num_elements(), max_elements);
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) out << ", ";
    if (dtype_ == DType::kString) {
      out << '"' << absl::CHexEscape(data<absl::string_view>()[i]) << '"';
    } else if (IsNumeric(dtype_)) {
      VisitNumeric(dtype_, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (sizeof(T) == 1) {
          out << static_cast<int>(data<T>()[i]);
        } else if constexpr (std::is_integral_v<T>) {
          out << data<T>()[i];
        } else {
          out << static_cast<double>(data<T>()[i]);
        }
      });
    } else {
      out << "?";
    }
  }
  if (n < num_elements()) out << ", ... " << num_elements() - n << " more";
  out << "}";
  return out.str();
}

bool BitwiseEqual(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (a.dtype() == DType::kString) {
    return a.values<absl::string_view>() == b.values<absl::string_view>();
  }
  return a.num_bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.num_bytes()) == 0;
}

void NamedArrays::Set(absl::string_view name, Array array) {
  for (Entry& entry : entries_) {
    if (entry.first == name) {
      entry.second = std::move(array);
      return;
    }
  }
  entries_.emplace_back(std::string(name), std::move(array));
}

const Array* NamedArrays::Find(absl::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

absl::StatusOr<Array> NamedArrays::Get(absl::string_view name) const {
  if (const Array* array = Find(name)) return *array;
  std::string names;
  for (const Entry& entry : entries_)
    absl::StrAppend(&names, names.empty() ? "" : ", ", entry.first);
  return absl::NotFoundError(
      absl::StrCat("no array is named '", name, "'; available: ", names.empty() ? "none" : names));
}

std::string NamedArrays::ToString() const {
  std::string out = "{";
  for (const Entry& entry : entries_) {
    absl::StrAppend(&out, out.size() > 1 ? ", " : "", entry.first, ": ", entry.second.TypeString());
  }
  return out + "}";
}

}  // namespace penstock::base
