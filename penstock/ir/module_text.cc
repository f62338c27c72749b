#include "penstock/ir/module_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

constexpr size_t kMaxArguments = 1 << 16;
constexpr absl::string_view kMultiples = kMultiplesComment;

// A part of the text: [begin, end).
struct Place {
  size_t begin = 0, end = 0;
  absl::string_view In(absl::string_view text) const { return text.substr(begin, end - begin); }
};

struct Main {
  std::vector<ModuleType> arguments, results;
};

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the StableHLO module cannot be read: ", what));
}

// A position in the text. Expect* return false where the text differs.
class Cursor {
 public:
  Cursor(absl::string_view text, size_t at) : text_(text), at_(at) {}

  size_t at() const { return at_; }
  void SkipSpaces() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool Take(absl::string_view token) {
    SkipSpaces();
    if (!absl::StartsWith(text_.substr(at_), token)) return false;
    at_ += token.size();
    return true;
  }
  // From an opening bracket to its closing one.
  std::optional<Place> TakeBrackets() {
    SkipSpaces();
    const size_t begin = at_;
    std::string open;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        if (!SkipString()) return std::nullopt;
      } else if (c == '(' || c == '[' || c == '{' || c == '<') {
        open.push_back(c);
      } else if (c == ')' || c == ']' || c == '}' || (c == '>' && text_[at_ - 1] != '-')) {
        if (open.empty() || !Fits(open.back(), c)) return std::nullopt;
        open.pop_back();
        if (open.empty()) return Place{begin, ++at_};
      }
      if (open.empty()) return std::nullopt;  // it does not begin with a bracket
    }
    return std::nullopt;
  }
  // "%name"
  std::optional<Place> TakeName() {
    SkipSpaces();
    const size_t begin = at_;
    if (at_ >= text_.size() || text_[at_] != '%') return std::nullopt;
    const auto in_name = [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
             c == '.' || c == '-';
    };
    for (++at_; at_ < text_.size() && in_name(text_[at_]);) ++at_;
    return Place{begin, at_};
  }

 private:
  static bool Fits(char open, char close) {
    return (open == '(' && close == ')') || (open == '[' && close == ']') ||
           (open == '{' && close == '}') || (open == '<' && close == '>');
  }
  // At the closing quote afterwards.
  bool SkipString() {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        return true;
      }
    }
    return false;
  }

  absl::string_view text_;
  size_t at_;
};

absl::StatusOr<TensorType> ParseType(absl::string_view text) {
  const auto malformed = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text.substr(0, 60), "' is not a tensor of numbers"));
  };
  absl::string_view inside = text;
  if (!absl::ConsumePrefix(&inside, "tensor<") || !absl::ConsumeSuffix(&inside, ">")) {
    return malformed();
  }
  std::vector<absl::string_view> parts = absl::StrSplit(inside, 'x');
  if (parts.size() > static_cast<size_t>(base::kMaxRank) + 1) return malformed();
  std::vector<int64_t> dims;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    int64_t extent = -1;
    if (parts[i] != "?" && (!absl::SimpleAtoi(parts[i], &extent) || extent < 0)) return malformed();
    dims.push_back(extent);
  }
  for (int i = 0; i < base::kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (base::IsNumeric(dtype) && base::DTypeStableHlo(dtype) == parts.back()) {
      return TensorType{dtype, Shape(dims)};
    }
  }
  return malformed();
}

// "tensor<...> {attributes} loc(...)". A single result without parentheses has no attributes.
absl::StatusOr<ModuleType> TakeType(absl::string_view text, Cursor& cursor, bool with_attributes) {
  cursor.SkipSpaces();
  Place place;
  place.begin = cursor.at();
  if (!cursor.Take("tensor") || !cursor.TakeBrackets().has_value()) {
    return Malformed("main has an argument or a result that is not a tensor");
  }
  place.end = cursor.at();
  ModuleType out;
  PENSTOCK_ASSIGN_OR_RETURN(out.type, ParseType(place.In(text)));
  if (!with_attributes) return out;
  cursor.SkipSpaces();
  if (cursor.at() < text.size() && text[cursor.at()] == '{') {
    const std::optional<Place> attributes = cursor.TakeBrackets();
    if (!attributes.has_value()) return Malformed("brackets do not match");
    out.attributes = std::string(attributes->In(text));
  }
  if (cursor.Take("loc") && !cursor.TakeBrackets().has_value()) {
    return Malformed("brackets do not match");
  }
  return out;
}

absl::Status TakeArguments(absl::string_view text, Cursor& cursor, Main& main) {
  if (!cursor.Take("(")) return Malformed("main has no arguments");
  while (!cursor.Take(")")) {
    if (!main.arguments.empty() && !cursor.Take(","))
      return Malformed("the arguments of main are malformed");
    const std::optional<Place> name = cursor.TakeName();
    if (!name.has_value() || !cursor.Take(":"))
      return Malformed("the arguments of main have no names");
    PENSTOCK_ASSIGN_OR_RETURN(ModuleType argument, TakeType(text, cursor, true));
    main.arguments.push_back(std::move(argument));
    if (main.arguments.size() > kMaxArguments) return Malformed("main has too many arguments");
  }
  return absl::OkStatus();
}

absl::Status TakeResults(absl::string_view text, Cursor& cursor, Main& main) {
  if (!cursor.Take("->")) return absl::OkStatus();
  const bool list = cursor.Take("(");
  while (!cursor.Take(")")) {
    if (!main.results.empty() && !cursor.Take(","))
      return Malformed("the results of main are malformed");
    PENSTOCK_ASSIGN_OR_RETURN(ModuleType result, TakeType(text, cursor, list));
    main.results.push_back(std::move(result));
    if (!list) break;
    if (main.results.size() > kMaxArguments) return Malformed("main has too many results");
  }
  return absl::OkStatus();
}

absl::StatusOr<Main> FindMain(absl::string_view text) {
  constexpr absl::string_view kMain = "@main";
  size_t at = 0;
  do {
    at = text.find(kMain, at);
    if (at == absl::string_view::npos) return Malformed("it has no function 'main'");
    at += kMain.size();
  } while (!absl::StrContains(text.substr(at - std::min<size_t>(at, 40), std::min<size_t>(at, 40)),
                              "func.func"));
  Main main;
  Cursor cursor(text, at);
  PENSTOCK_RETURN_IF_ERROR(TakeArguments(text, cursor, main));
  PENSTOCK_RETURN_IF_ERROR(TakeResults(text, cursor, main));
  if (cursor.Take("attributes") && !cursor.TakeBrackets().has_value()) {
    return Malformed("brackets do not match");
  }
  if (!cursor.Take("{")) return Malformed("main has no body");
  return main;
}

// The multiples of the batch size in a line's comment, one for each "?": "// ?: 1 4 1".
absl::StatusOr<std::vector<int64_t>> MultiplesOf(absl::string_view line) {
  std::vector<int64_t> multiples;
  const size_t at = line.rfind(kMultiples);
  if (at == absl::string_view::npos) return multiples;
  for (const absl::string_view number :
       absl::StrSplit(line.substr(at + kMultiples.size()), ' ', absl::SkipWhitespace())) {
    int64_t multiple = 0;
    if (!absl::SimpleAtoi(number, &multiple) || multiple < 1 || multiple > INT32_MAX) {
      return Malformed("a comment with multiples of the batch size is malformed");
    }
    multiples.push_back(multiple);
  }
  return multiples;
}

// The line with numbers in place of the unknown extents of its tensors.
absl::StatusOr<std::string> WithBatch(absl::string_view line, int64_t batch) {
  constexpr absl::string_view kTensor = "tensor<";
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<int64_t> multiples, MultiplesOf(line));
  std::string out;
  size_t copied = 0, unknown = 0;
  for (size_t at = line.find(kTensor); at != absl::string_view::npos; at = line.find(kTensor, at)) {
    at += kTensor.size();
    for (; at < line.size() && (line[at] == '?' || line[at] == 'x' ||
                                absl::ascii_isdigit(static_cast<unsigned char>(line[at])));
         ++at) {
      if (line[at] != '?') continue;
      if (!multiples.empty() && unknown >= multiples.size()) {
        return Malformed("a comment with multiples of the batch size is malformed");
      }
      const int64_t multiple = multiples.empty() ? 1 : multiples[unknown++];
      if (multiple > INT32_MAX / batch) {
        return absl::InvalidArgumentError(
            absl::StrCat("a batch of ", batch, " is too large for the module"));
      }
      absl::StrAppend(&out, line.substr(copied, at - copied), multiple * batch);
      copied = at + 1;
    }
  }
  absl::StrAppend(&out, line.substr(copied));
  return out;
}

}  // namespace

absl::StatusOr<ModuleSignature> ReadModuleSignature(absl::string_view text) {
  PENSTOCK_ASSIGN_OR_RETURN(Main main, FindMain(text));
  return ModuleSignature{std::move(main.arguments), std::move(main.results)};
}

absl::StatusOr<Program> SpecializeModule(absl::string_view text, int64_t batch) {
  if (batch < 1 || batch > INT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch size must be from 1 to 2^31 - 1, got ", batch));
  }
  Program program;
  program.name = "main";
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string known, WithBatch(line, batch));
    absl::StrAppend(&program.text, known, "\n");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const ModuleSignature signature, ReadModuleSignature(program.text));
  for (const ModuleType& argument : signature.arguments) {
    program.parameters.push_back(argument.type);
    program.parameter_names.push_back(absl::StrCat("argument", program.parameter_names.size()));
    program.alias.push_back(-1);
  }
  for (const ModuleType& result : signature.results) {
    program.results.push_back(result.type);
    program.result_names.push_back(absl::StrCat("result", program.result_names.size()));
  }
  return program;
}

}  // namespace penstock::ir
