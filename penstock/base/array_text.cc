// Arrays as text, in the layout of numpy's repr.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/array.h"

namespace penstock::base {
namespace {

// numpy's defaults: larger arrays show three items at each end of an axis, and lines end here.
constexpr int64_t kMaxElements = 1000;
constexpr int64_t kEdge = 3;
constexpr size_t kLineWidth = 75;
constexpr int kPrecision = 8;

// A number's digits before and after the point, without padding.
struct Digits {
  std::string whole, fraction, exponent;
  bool special = false;  // nan, inf
};

Digits Split(std::string text) {
  Digits digits;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    digits.exponent = text.substr(e);
    text.resize(e);
  }
  const size_t point = text.find('.');
  digits.whole = text.substr(0, point);
  if (point != std::string::npos) digits.fraction = text.substr(point + 1);
  return digits;
}

// The shortest digits that read back as the same number of its type, but at most kPrecision after
// the point.
template <typename T>
Digits DigitsOf(T value, bool scientific) {
  if (std::isnan(static_cast<double>(value))) return {"nan", "", "", true};
  if (std::isinf(static_cast<double>(value))) return {value < T(0) ? "-inf" : "inf", "", "", true};
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  char text[400];
  auto end = std::to_chars(text, text + sizeof(text), value, format).ptr;
  Digits digits = Split(std::string(text, end));
  if (digits.fraction.size() > kPrecision) {
    end = std::to_chars(text, text + sizeof(text), value, format, kPrecision).ptr;
    digits = Split(std::string(text, end));
    while (!digits.fraction.empty() && digits.fraction.back() == '0') digits.fraction.pop_back();
  }
  return digits;
}

// Whether numpy writes these numbers with exponents.
bool NeedsExponents(const std::vector<double>& values) {
  double largest = 0, smallest = HUGE_VAL;
  for (const double v : values) {
    if (!std::isfinite(v) || v == 0) continue;
    largest = std::max(largest, std::abs(v));
    smallest = std::min(smallest, std::abs(v));
  }
  return largest != 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000);
}

// Numbers with their points below each other.
template <typename T>
std::vector<std::string> FloatTexts(const std::vector<T>& values) {
  std::vector<double> wide;
  for (const T v : values) wide.push_back(static_cast<double>(v));
  const bool scientific = NeedsExponents(wide);
  std::vector<Digits> all;
  size_t left = 0, right = 0, special = 0;
  for (const T v : values) {
    all.push_back(DigitsOf(v, scientific));
    const Digits& d = all.back();
    if (d.special) {
      special = std::max(special, d.whole.size());
    } else {
      left = std::max(left, d.whole.size());
      right = std::max(right, d.fraction.size());
    }
  }
  size_t width = special;
  std::vector<std::string> texts;
  for (const Digits& d : all) {
    std::string text = d.whole;
    if (!d.special) {
      // Trailing zeros pad numbers with exponents, spaces the others.
      const char pad = scientific ? '0' : ' ';
      text = absl::StrCat(std::string(left - d.whole.size(), ' '), d.whole, ".", d.fraction,
                          std::string(right - d.fraction.size(), pad), d.exponent);
    }
    width = std::max(width, text.size());
    texts.push_back(std::move(text));
  }
  for (std::string& text : texts) text.insert(0, width - text.size(), ' ');
  return texts;
}

class Printer {
 public:
  explicit Printer(const Array& array)
      : array_(array), summarize_(array.num_elements() > kMaxElements) {}

  std::string Text(size_t indent, absl::string_view separator) {
    if (array_.num_elements() == 0) return "[]";
    Collect(0, 0);
    texts_ = Texts();
    separator_ = separator;
    next_ = 0;
    return Axis(0, indent);
  }

 private:
  bool Shortened(int axis) const { return summarize_ && array_.dim(axis) > 2 * kEdge; }

  // The places of the elements that are shown, in order.
  void Collect(int axis, int64_t first) {
    if (axis == array_.rank()) return places_.push_back(first);
    int64_t stride = 1;
    for (int i = axis + 1; i < array_.rank(); ++i) stride *= array_.dim(i);
    const int64_t n = array_.dim(axis);
    for (int64_t i = 0; i < n; ++i) {
      if (Shortened(axis) && i == kEdge) i = n - kEdge;
      Collect(axis + 1, first + i * stride);
    }
  }

  template <typename T>
  std::vector<T> Shown() const {
    std::vector<T> values;
    for (const int64_t i : places_) values.push_back(array_.data<T>()[i]);
    return values;
  }

  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    const DType dtype = array_.dtype();
    if (dtype == DType::kString) {
      for (const int64_t i : places_) {
        texts.push_back(
            absl::StrCat("'", absl::CHexEscape(array_.data<absl::string_view>()[i]), "'"));
      }
    } else if (dtype == DType::kF32) {
      return FloatTexts(Shown<float>());
    } else if (dtype == DType::kF64) {
      return FloatTexts(Shown<double>());
    } else if (IsNumeric(dtype)) {
      VisitNumeric(dtype, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (std::is_same_v<T, bool>) {
          for (const bool v : Shown<T>()) texts.push_back(v ? "True" : "False");
        } else if constexpr (std::is_integral_v<T>) {
          for (const T v : Shown<T>()) texts.push_back(absl::StrCat(+v));
        } else {  // floats of 16 bits and less
          std::vector<float> wide;
          for (const int64_t i : places_) wide.push_back(static_cast<float>(array_.data<T>()[i]));
          texts = FloatTexts(wide);
        }
      });
    } else {
      texts.assign(places_.size(), "?");
    }
    size_t width = 0;
    for (const std::string& text : texts) width = std::max(width, text.size());
    for (std::string& text : texts) {
      if (dtype != DType::kString) text.insert(0, width - text.size(), ' ');
    }
    return texts;
  }

  // The items of the last axis in lines, the others one below the other.
  std::string Axis(int axis, size_t indent) {
    if (axis == array_.rank()) return texts_[next_++];
    const int64_t n = array_.dim(axis);
    const bool last = axis == array_.rank() - 1;
    const std::string next_line =
        absl::StrCat("\n", last ? "" : std::string(array_.rank() - axis - 2, '\n'),
                     std::string(indent + 1, ' '));
    std::string out = "[";
    size_t column = indent + 1;
    const auto add = [&](const std::string& item, bool is_first) {
      const std::string comma(separator_);
      if (is_first) {
        out += item;
      } else if (!last) {
        absl::StrAppend(&out, comma, next_line, item);
      } else if (column + comma.size() + 1 + item.size() + 1 > kLineWidth) {
        absl::StrAppend(&out, comma);
        absl::StripTrailingAsciiWhitespace(&out);
        absl::StrAppend(&out, next_line, item);
        column = indent + 1 + item.size();
        return;
      } else {
        absl::StrAppend(&out, comma, " ", item);
        column += comma.size() + 1;
      }
      column += item.size();
    };
    for (int64_t i = 0; i < n; ++i) {
      if (Shortened(axis) && i == kEdge) {
        add("...", false);
        i = n - kEdge;
      }
      add(Axis(axis + 1, indent + 1), i == 0);
    }
    return out + "]";
  }

  const Array& array_;
  const bool summarize_;
  std::vector<int64_t> places_;
  std::vector<std::string> texts_;
  absl::string_view separator_;
  size_t next_ = 0;
};

}  // namespace

std::string Array::Repr() const {
  if (!valid()) return "array(invalid)";
  std::string out = absl::StrCat("array(", Printer(*this).Text(6, ","));
  const bool is_empty = num_elements() == 0;
  if ((is_empty && rank() > 1) || num_elements() > kMaxElements) {
    absl::StrAppend(&out, ", shape=(", absl::StrJoin(shape().dims(), ", "),
                    rank() == 1 ? ",)" : ")");
  }
  const bool is_default = dtype_ == DType::kF64 || dtype_ == DType::kI64 || dtype_ == DType::kBool;
  if (is_default && !is_empty) return out + ")";
  const std::string dtype = absl::StrCat("dtype=", DTypeName(dtype_), ")");
  const size_t line = out.size() - (out.rfind('\n') + 1);
  const bool fits = line + dtype.size() + 3 <= kLineWidth;
  return absl::StrCat(out, fits ? ", " : ",\n      ", dtype);
}

std::ostream& operator<<(std::ostream& out, const Array& array) {
  return out << (array.valid() ? Printer(array).Text(0, "") : "invalid array");
}

}  // namespace penstock::base
