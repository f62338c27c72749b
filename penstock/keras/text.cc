#include "penstock/keras/text.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "penstock/base/checked_size.h"
#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/keras/adapt.h"

namespace penstock::keras {
namespace {

using base::Array;
using base::DType;
using Counts = absl::flat_hash_map<std::string, int64_t>;

template <typename Option>
absl::Status CheckName(absl::string_view what, const Option& option) {
  const auto& known = Option::kNames;
  if (std::find(std::begin(known), std::end(known), option) != std::end(known))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("unknown ", what, " '", std::string(option),
                                                 "'; available: ", absl::StrJoin(known, ", ")));
}

// Calls visit for every string of a column.
absl::Status ForEachString(const data::Dataset& dataset, absl::string_view column,
                           const std::function<void(absl::string_view)>& visit) {
  return ForEachColumnValue(dataset, column, [&](const Array& strings) -> absl::Status {
    if (strings.dtype() != DType::kString) {
      return absl::InvalidArgumentError(
          absl::StrCat("Adapt learns a vocabulary from strings; the column is ",
                       strings.TypeString(), " (convert numbers with Dataset::Map first)"));
    }
    for (const absl::string_view string : strings.values<absl::string_view>()) visit(string);
    return absl::OkStatus();
  });
}

// Keras's order: by descending frequency, then by descending bytes; the first `max_count`.
std::vector<std::string> ByFrequency(const Counts& counts, std::optional<int64_t> max_count) {
  std::vector<std::pair<int64_t, absl::string_view>> sorted;
  for (const auto& [string, count] : counts) sorted.emplace_back(count, string);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  if (max_count.has_value() && static_cast<int64_t>(sorted.size()) > *max_count)
    sorted.resize(static_cast<size_t>(std::max<int64_t>(*max_count, 0)));
  std::vector<std::string> tokens;
  for (const auto& [count, string] : sorted) tokens.emplace_back(string);
  return tokens;
}

// `dataset` with `function` of the strings of `column`, whose type per element is checked.
absl::StatusOr<data::Dataset> MapStrings(
    absl::string_view who, const data::Dataset& dataset, const std::string& column,
    const std::string& makes,
    const std::function<absl::StatusOr<data::ColumnSpec>(const base::Shape& shape)>& spec_of,
    std::function<absl::StatusOr<Array>(const Array& strings)> function) {
  PENSTOCK_RETURN_IF_ERROR(dataset.status());
  const int place = dataset.spec().Find(column);
  if (place < 0 || dataset.spec().columns()[static_cast<size_t>(place)].dtype != DType::kString) {
    return absl::InvalidArgumentError(absl::StrCat(who, " reads strings; '", column,
                                                   "' is no column of strings among ",
                                                   dataset.spec().ToString()));
  }
  const std::string name = makes.empty() ? column : makes;
  PENSTOCK_ASSIGN_OR_RETURN(data::ColumnSpec made,
                            spec_of(dataset.spec().columns()[static_cast<size_t>(place)].shape));
  made.name = name;
  data::Dataset mapped = dataset.Map(
      [column, name, function = std::move(function)](const base::NamedArrays& in,
                                                     base::NamedArrays* out) -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(Array numbers, function(*in.Find(column)));
        out->Set(name, std::move(numbers));
        return absl::OkStatus();
      },
      {.name = std::string(who), .reads = {column}, .makes = {std::move(made)}});
  PENSTOCK_RETURN_IF_ERROR(mapped.status());
  return mapped;
}

}  // namespace

// The vocabulary, and how numbers are made with it.
struct StringLookup::Table {
  std::vector<std::string> tokens;  // without special ones
  Counts places;                    // of `tokens`
  StringLookupOptions options;      // without the vocabulary

  bool is_int() const { return options.output_mode == "int"; }
  bool has_mask() const { return is_int() && options.mask_token.has_value(); }
  int64_t first() const { return (has_mask() ? 1 : 0) + options.num_oov_indices; }
  int64_t size() const { return first() + static_cast<int64_t>(tokens.size()); }
  // The special strings, which come first.
  std::vector<std::string> Special() const {
    std::vector<std::string> special;
    if (has_mask()) special.push_back(*options.mask_token);
    if (options.num_oov_indices == 1) special.push_back(options.oov_token);
    return special;
  }

  // The number of a string; -1: it is ignored.
  absl::StatusOr<int64_t> NumberOf(absl::string_view string) const {
    if (options.mask_token.has_value() && string == *options.mask_token) return is_int() ? 0 : -1;
    if (const auto found = places.find(string); found != places.end())
      return first() + found->second;
    if (options.num_oov_indices > 0) return has_mask() ? 1 : 0;
    constexpr size_t kShown = 80;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", absl::Utf8SafeCHexEscape(string.substr(0, kShown)),
        string.size() > kShown ? "..." : "", "' is not in the vocabulary of ", tokens.size(),
        " strings; with num_oov_indices = 1 it would be '", options.oov_token, "'"));
  }

  absl::StatusOr<base::Shape> ShapeOf(const base::Shape& shape) const {
    std::vector<int64_t> dims(shape.begin(), shape.end());
    if (is_int()) return shape;
    if (options.output_mode != "one_hot" && !dims.empty()) dims.pop_back();
    dims.push_back(size());
    if (dims.size() > base::kMaxRank) {
      return absl::InvalidArgumentError(
          absl::StrCat("output_mode one_hot adds an axis to strings of ", shape.ToString(),
                       ", which have ", base::kMaxRank, " already; arrays have no more"));
    }
    return base::Shape(dims);
  }

  absl::StatusOr<Array> NumbersOf(const base::Shape& shape,
                                  absl::Span<const absl::string_view> strings) const {
    PENSTOCK_ASSIGN_OR_RETURN(const base::Shape numbers, ShapeOf(shape));
    Array out = Array::Zeros(is_int() ? DType::kI64 : DType::kF32, numbers);
    const int64_t width = shape.rank() == 0 ? 1 : shape.dim(-1);
    for (size_t i = 0; i < strings.size(); ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(const int64_t number, NumberOf(strings[i]));
      const auto at = static_cast<int64_t>(i);
      if (is_int()) {
        out.mutable_data<int64_t>()[at] = number;
      } else if (number >= 0) {
        const int64_t row = options.output_mode == "one_hot" ? at : at / width;
        float& value = out.mutable_data<float>()[row * size() + number];
        value = options.output_mode == "count" ? value + 1 : 1;
      }
    }
    return out;
  }
};

StringLookup::StringLookup(StringLookupOptions options) : options_(std::move(options)) {
  status_ = CheckName("output_mode", options_.output_mode);
  if (status_.ok() && options_.num_oov_indices != 0 && options_.num_oov_indices != 1) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("num_oov_indices must be 0 or 1, got ", options_.num_oov_indices));
  }
  const int64_t special =
      options_.num_oov_indices + (options_.mask_token.has_value() && options_.output_mode == "int");
  if (status_.ok() && options_.max_tokens.has_value() && *options_.max_tokens <= special) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("max_tokens must be above the number of special strings, ", special, ", got ",
                     *options_.max_tokens));
  }
  if (!status_.ok() || options_.vocabulary.empty()) return;
  std::vector<std::string> tokens = options_.vocabulary, front;
  if (options_.mask_token.has_value() && options_.output_mode == "int")
    front.push_back(*options_.mask_token);
  if (options_.num_oov_indices == 1) front.push_back(options_.oov_token);
  if (tokens.size() >= front.size() && std::equal(front.begin(), front.end(), tokens.begin()))
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<int64_t>(front.size()));
  status_ = SetTokens(std::move(tokens));
}

absl::Status StringLookup::SetTokens(std::vector<std::string> tokens) {
  auto table = std::make_shared<Table>();
  table->options = options_;
  table->options.vocabulary.clear();
  for (const std::string& token : tokens) {
    const auto place = static_cast<int64_t>(table->places.size());
    if (options_.mask_token.has_value() && token == *options_.mask_token) {
      return absl::InvalidArgumentError(
          absl::StrCat("the vocabulary contains the mask_token '", token,
                       "'; leave the special strings out, or begin with all of them: '",
                       absl::StrJoin(table->Special(), "', '"), "'"));
    }
    if (!table->places.emplace(token, place).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the vocabulary contains '", token, "' twice"));
    }
  }
  table->tokens = std::move(tokens);
  if (options_.max_tokens.has_value() && table->size() > *options_.max_tokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the vocabulary has ", table->size(), " strings, max_tokens is ", *options_.max_tokens));
  }
  table_ = std::move(table);
  return absl::OkStatus();
}

absl::Status StringLookup::Check() const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  if (table_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "there is no vocabulary yet; call Adapt first, or give one in the options");
}

absl::Status StringLookup::Adapt(const data::Dataset& dataset, absl::string_view column) {
  PENSTOCK_RETURN_IF_ERROR(status_);
  if (!options_.vocabulary.empty()) {
    return absl::FailedPreconditionError("Adapt would replace the vocabulary of the options");
  }
  Counts counts;
  PENSTOCK_RETURN_IF_ERROR(
      ForEachString(dataset, column, [&](absl::string_view string) { ++counts[string]; }));
  if (options_.mask_token.has_value()) counts.erase(*options_.mask_token);
  counts.erase(options_.oov_token);
  const int64_t special =
      options_.num_oov_indices + (options_.mask_token.has_value() && options_.output_mode == "int");
  std::optional<int64_t> max_count;
  if (options_.max_tokens.has_value()) max_count = *options_.max_tokens - special;
  return SetTokens(ByFrequency(counts, max_count));
}

std::vector<std::string> StringLookup::GetVocabulary() const {
  if (table_ == nullptr) return {};
  std::vector<std::string> all = table_->Special();
  all.insert(all.end(), table_->tokens.begin(), table_->tokens.end());
  return all;
}

int64_t StringLookup::vocabulary_size() const { return table_ == nullptr ? 0 : table_->size(); }

absl::StatusOr<Array> StringLookup::operator()(const Array& strings) const {
  PENSTOCK_RETURN_IF_ERROR(Check());
  if (strings.dtype() != DType::kString) {
    return absl::InvalidArgumentError(
        absl::StrCat("StringLookup reads strings, got ", strings.TypeString()));
  }
  return base::CatchExceptions(  // of an allocation
      [&] { return table_->NumbersOf(strings.shape(), strings.values<absl::string_view>()); });
}

absl::StatusOr<data::Dataset> StringLookup::Map(const data::Dataset& dataset,
                                                const std::string& column,
                                                const std::string& makes) const {
  PENSTOCK_RETURN_IF_ERROR(Check());
  return MapStrings(
      "StringLookup", dataset, column, makes,
      [&](const base::Shape& shape) -> absl::StatusOr<data::ColumnSpec> {
        PENSTOCK_ASSIGN_OR_RETURN(const base::Shape numbers, table_->ShapeOf(shape));
        return data::ColumnSpec{"", table_->is_int() ? DType::kI64 : DType::kF32, numbers};
      },
      [table = table_](const Array& strings) {
        return table->NumbersOf(strings.shape(), strings.values<absl::string_view>());
      });
}

// ---- Texts ----

namespace {

// Length of the UTF-8 character at the beginning of `text`; 0 if there is none.
size_t CharacterLength(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xc2 ? 0
                        : lead < 0xe0 ? 2
                        : lead < 0xf0 ? 3
                        : lead < 0xf5 ? 4
                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

// U+FFFD stands for each byte that is no part of a character.
std::vector<std::string> Characters(absl::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    characters.emplace_back(length == 0 ? absl::string_view("\xef\xbf\xbd")
                                        : text.substr(0, length));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return characters;
}

StringLookupOptions LookupOptions(const TextVectorizationOptions& options) {
  return {.max_tokens = options.max_tokens,
          .mask_token = "",
          .vocabulary = options.vocabulary,
          .output_mode = options.output_mode};
}

}  // namespace

TextVectorization::TextVectorization(TextVectorizationOptions options)
    : options_(std::move(options)), lookup_(LookupOptions(options_)) {
  const auto check = [&]() -> absl::Status {
    PENSTOCK_RETURN_IF_ERROR(lookup_.status_);
    PENSTOCK_RETURN_IF_ERROR(CheckName("standardize", options_.standardize));
    PENSTOCK_RETURN_IF_ERROR(CheckName("split", options_.split));
    if (options_.output_mode == "one_hot") {
      return absl::InvalidArgumentError(
          "TextVectorization's output_mode must be int, multi_hot or count, got one_hot");
    }
    if (options_.ngrams < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("ngrams must be at least 1, got ", options_.ngrams));
    }
    if (!options_.output_sequence_length.has_value()) return absl::OkStatus();
    if (options_.output_mode != "int" || *options_.output_sequence_length < 1 ||
        !base::CheckedBytes(DType::kI64, {*options_.output_sequence_length}).has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output_sequence_length must be at least 1, fit into memory, and is for output_mode int; "
          "got ",
          *options_.output_sequence_length, " with ", options_.output_mode));
    }
    return absl::OkStatus();
  };
  status_ = check();
}

std::vector<std::string> TextVectorization::Tokens(absl::string_view text) const {
  std::string plain(text.data(), text.size());
  const Standardize& how = options_.standardize;
  if (how == "lower" || how == "lower_and_strip_punctuation") absl::AsciiStrToLower(&plain);
  if (how == "strip_punctuation" || how == "lower_and_strip_punctuation") {
    plain.erase(std::remove_if(plain.begin(), plain.end(),
                               [](unsigned char c) { return absl::ascii_ispunct(c); }),
                plain.end());
  }
  std::vector<std::string> tokens;
  if (options_.split == "whitespace") {
    tokens = absl::StrSplit(plain, absl::ByAnyChar(" \t\n\v\f\r"), absl::SkipEmpty());
  } else if (options_.split == "character") {
    tokens = Characters(plain);
  } else {
    tokens.push_back(std::move(plain));
  }
  const size_t words = tokens.size();
  for (size_t n = 2; n <= static_cast<size_t>(options_.ngrams) && n <= words; ++n) {
    for (size_t i = 0; i + n <= words; ++i) {
      tokens.push_back(absl::StrJoin(tokens.begin() + static_cast<int64_t>(i),
                                     tokens.begin() + static_cast<int64_t>(i + n), " "));
    }
  }
  return tokens;
}

absl::Status TextVectorization::Adapt(const data::Dataset& dataset, absl::string_view column) {
  PENSTOCK_RETURN_IF_ERROR(status_);
  if (!options_.vocabulary.empty()) {
    return absl::FailedPreconditionError("Adapt would replace the vocabulary of the options");
  }
  Counts counts;
  PENSTOCK_RETURN_IF_ERROR(ForEachString(dataset, column, [&](absl::string_view text) {
    for (const std::string& token : Tokens(text)) ++counts[token];
  }));
  counts.erase("");
  counts.erase(lookup_.options_.oov_token);
  std::optional<int64_t> max_count;
  if (options_.max_tokens.has_value())
    max_count = *options_.max_tokens - (options_.output_mode == "int" ? 2 : 1);
  return lookup_.SetTokens(ByFrequency(counts, max_count));
}

absl::StatusOr<Array> TextVectorization::operator()(absl::string_view text) const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  PENSTOCK_RETURN_IF_ERROR(lookup_.Check());
  return base::CatchExceptions([&] { return NumbersOf(text); });  // of an allocation
}

absl::StatusOr<Array> TextVectorization::NumbersOf(absl::string_view text) const {
  std::vector<std::string> tokens = Tokens(text);
  const auto length = options_.output_sequence_length.value_or(static_cast<int64_t>(tokens.size()));
  if (static_cast<int64_t>(tokens.size()) > length) tokens.resize(static_cast<size_t>(length));
  const std::vector<absl::string_view> views(tokens.begin(), tokens.end());
  PENSTOCK_ASSIGN_OR_RETURN(
      Array numbers,
      lookup_.table_->NumbersOf(base::Shape({static_cast<int64_t>(views.size())}), views));
  if (static_cast<int64_t>(tokens.size()) == length || options_.output_mode != "int")
    return numbers;
  Array padded = Array::Zeros(DType::kI64, {length});  // padding is the mask token, which is 0
  std::copy_n(numbers.data<int64_t>(), tokens.size(), padded.mutable_data<int64_t>());
  return padded;
}

absl::StatusOr<data::Dataset> TextVectorization::Map(const data::Dataset& dataset,
                                                     const std::string& column,
                                                     const std::string& makes) const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  PENSTOCK_RETURN_IF_ERROR(lookup_.Check());
  return MapStrings(
      "TextVectorization", dataset, column, makes,
      [&](const base::Shape& shape) -> absl::StatusOr<data::ColumnSpec> {
        if (shape.rank() > 0) {
          return absl::InvalidArgumentError(
              absl::StrCat("TextVectorization reads one text per element; '", column, "' has ",
                           shape.ToString(), " (map before Batch)"));
        }
        if (options_.output_mode == "int") {
          return data::ColumnSpec{"", DType::kI64,
                                  base::Shape({options_.output_sequence_length.value_or(-1)})};
        }
        return data::ColumnSpec{"", DType::kF32, base::Shape({vocabulary_size()})};
      },
      [vectorize = *this](const Array& text) {
        return vectorize(text.data<absl::string_view>()[0]);
      });
}

}  // namespace penstock::keras
