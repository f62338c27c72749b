#include "penstock/formats/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "penstock/base/status.h"

namespace penstock::formats {
namespace {

using base::DType;

template <typename T>
bool ParseFloat(absl::string_view text, T* out) {
  if (text.find_first_of("xX") != absl::string_view::npos)
    return false;  // the parser would accept hexadecimal
  T value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = absl::from_chars(text.data(), end, value);
  if (stop != end) return false;
  // Underflow: 0 or a denormal number.
  if (error == std::errc::result_out_of_range && std::abs(value) > 1) return false;
  if (error == std::errc::invalid_argument) return false;
  *out = value;
  return true;
}

template <typename T>
bool ParseNumber(absl::string_view text, T* out) {
  if constexpr (std::is_same_v<T, bool>) {
    return absl::SimpleAtob(text, out);
  } else if constexpr (std::is_integral_v<T>) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, *out);
    return error == std::errc() && stop == end;
  } else if constexpr (sizeof(T) >= sizeof(float)) {
    return ParseFloat(text, out);
  } else {
    float wide;
    if (!ParseFloat(text, &wide)) return false;
    *out = static_cast<T>(wide);
    return std::isinf(wide) || !std::isinf(static_cast<float>(*out));
  }
}

}  // namespace

absl::Status SplitCsvRow(absl::string_view row, CsvDialect dialect, std::vector<CsvField>* fields) {
  fields->clear();
  for (size_t at = 0;;) {
    CsvField field;
    size_t end;
    if (dialect.quotes && at < row.size() && row[at] == '"') {
      for (end = at + 1;; end += 2) {
        end = row.find('"', end);
        if (end == absl::string_view::npos) {
          const auto lines = 1 + std::count(row.begin() + at, row.end(), '\n');
          return absl::InvalidArgumentError(
              absl::StrCat("its double quote is never closed",
                           lines == 1 ? "" : absl::StrCat("; the field spans ", lines, " lines")));
        }
        if (end + 1 == row.size() || row[end + 1] != '"') break;
        field.has_escaped_quotes = true;
      }
      field.text = row.substr(at + 1, end - at - 1);
      if (++end < row.size() && row[end] != dialect.delimiter) {
        return absl::InvalidArgumentError(
            "characters follow its closing double quote (a quote within a field must be doubled)");
      }
    } else {
      end = std::min(row.find(dialect.delimiter, at), row.size());
      field.text = row.substr(at, end - at);
      if (dialect.quotes && field.text.find('"') != absl::string_view::npos) {
        return absl::InvalidArgumentError(
            "it contains a double quote but is not quoted (set .quotes = false to read quotes "
            "literally)");
      }
    }
    fields->push_back(field);
    if (end == row.size()) return absl::OkStatus();
    at = end + 1;
  }
}

std::string UnescapeQuotes(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\"\"", "\""}});
}

std::string JoinCsvRow(const std::vector<std::string>& fields, char delimiter) {
  std::string out;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out.push_back(delimiter);
    if (fields[i].find_first_of(std::string("\"\r\n") + delimiter) == std::string::npos) {
      out += fields[i];
    } else {
      absl::StrAppend(&out, "\"", absl::StrReplaceAll(fields[i], {{"\"", "\"\""}}), "\"");
    }
  }
  return out;
}

bool ParseCsvNumber(absl::string_view text, DType dtype, void* to) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return base::VisitNumeric(
      dtype, [&](auto zero) { return ParseNumber(text, static_cast<decltype(zero)*>(to)); });
}

DType InferCsvType(absl::string_view text, DType so_far) {
  int64_t integer;
  float number;
  if (so_far == DType::kInvalid || so_far == DType::kI64) {
    if (ParseCsvNumber(text, DType::kI64, &integer)) return DType::kI64;
  }
  if (so_far != DType::kString && ParseCsvNumber(text, DType::kF32, &number)) return DType::kF32;
  return DType::kString;
}

}  // namespace penstock::formats
