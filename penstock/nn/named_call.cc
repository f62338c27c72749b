#include "penstock/nn/named_call.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/nn/names.h"

namespace penstock::nn {
namespace {

using Json = nlohmann::ordered_json;

bool IsWord(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' ||
           c == '+';
  });
}

// Reads the elements of "[a, b]"; false if it is not a list.
bool ReadList(absl::string_view text, std::vector<absl::string_view>& words) {
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) return false;
  words.clear();
  if (absl::StripAsciiWhitespace(text).empty()) return true;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    words.push_back(absl::StripAsciiWhitespace(part));
    if (!IsWord(words.back())) return false;
  }
  return true;
}

bool IsValue(absl::string_view text) {
  std::vector<absl::string_view> words;
  return IsWord(text) || ReadList(text, words);
}

// The arguments of "a, b=[c, d]", split at the commas outside brackets.
std::vector<absl::string_view> SplitArguments(absl::string_view text) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  bool in_list = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') in_list = true;
    if (i < text.size() && text[i] == ']') in_list = false;
    if (i == text.size() || (text[i] == ',' && !in_list)) {
      parts.push_back(absl::StripAsciiWhitespace(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return parts;
}

bool Number(absl::string_view text, double& out) {
  return absl::SimpleAtod(text, &out) && std::isfinite(out);
}

// Converts an option of a Keras object to an argument.
absl::StatusOr<std::string> ArgumentFromJson(const Json& json) {
  std::string text;
  if (json.is_array()) {
    for (const Json& element : json) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string word, ArgumentFromJson(element));
      absl::StrAppend(&text, text.empty() ? "" : ", ", word);
    }
    text = absl::StrCat("[", text, "]");
  } else if (json.is_string()) {
    text = json.get<std::string>();
  } else if (json.is_number() || json.is_boolean()) {
    text = json.dump();
  }
  if (IsValue(text)) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(json.dump(), " is not a number, string or list of these"));
}

}  // namespace

absl::StatusOr<NamedCall> ParseNamedCall(absl::string_view text) {
  const auto wrong = [text] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not of the form name or name(1, word, key=[2, 3])"));
  };
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  const size_t bracket = rest.find('(');
  NamedCall call{.name = std::string(absl::StripAsciiWhitespace(rest.substr(0, bracket)))};
  if (!IsWord(call.name)) return wrong();
  if (bracket == absl::string_view::npos) return call;
  rest.remove_prefix(bracket + 1);
  if (!absl::ConsumeSuffix(&rest, ")")) return wrong();
  if (absl::StripAsciiWhitespace(rest).empty()) return call;
  for (absl::string_view part : SplitArguments(rest)) {
    NamedCall::Argument argument;
    if (const size_t equals = part.find('='); equals != absl::string_view::npos) {
      argument.key = std::string(absl::StripAsciiWhitespace(part.substr(0, equals)));
      part = absl::StripAsciiWhitespace(part.substr(equals + 1));
      if (!IsWord(argument.key)) return wrong();
    } else if (!call.arguments.empty() && !call.arguments.back().key.empty()) {
      return wrong();  // a positional argument after a keyword
    }
    if (!IsValue(part)) return wrong();
    argument.value = std::string(part);
    call.arguments.push_back(std::move(argument));
  }
  return call;
}

absl::StatusOr<std::string> NamedCallFromJson(const Json& json) {
  if (!json.is_object() || !json.contains("class_name") || !json["class_name"].is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat(json.dump(), " is not of the form {\"class_name\", \"config\"}"));
  }
  const std::string class_name = json["class_name"];
  const Json config = json.value("config", Json::object());
  if (config.is_string()) return config.get<std::string>();  // a function of that name
  std::vector<std::string> arguments;
  for (const auto& [key, value] : config.items()) {
    if (value.is_null() || key == "seed") continue;
    const absl::StatusOr<std::string> argument = ArgumentFromJson(value);
    if (!argument.ok()) {
      return base::WithContext(argument.status(), absl::StrCat(class_name, "'s '", key, "'"));
    }
    arguments.push_back(absl::StrCat(key, "=", *argument));
  }
  if (arguments.empty()) return SnakeCase(class_name);
  return absl::StrCat(SnakeCase(class_name), "(", absl::StrJoin(arguments, ", "), ")");
}

const std::string* CallArguments::Take(const char* key) {
  const size_t place = keys_.size();
  keys_.emplace_back(key);
  const auto& arguments = call_.arguments;
  if (place < arguments.size() && arguments[place].key.empty()) return &arguments[place].value;
  for (const NamedCall::Argument& argument : arguments) {
    if (argument.key == key) return &argument.value;
  }
  return nullptr;
}

void CallArguments::Wrong(const char* key, absl::string_view value, const char* expected) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat(call_.name, "'s ", key, " is '", value, "'; it takes ", expected));
}

CallArguments& CallArguments::operator()(const char* key, double& field) {
  const std::string* value = Take(key);
  if (value != nullptr && !Number(*value, field)) Wrong(key, *value, "a number");
  return *this;
}

CallArguments& CallArguments::operator()(const char* key, std::string& field) {
  const std::string* value = Take(key);
  if (value == nullptr) return *this;
  if (IsWord(*value)) {
    field = *value;
  } else {
    Wrong(key, *value, "a string");
  }
  return *this;
}

CallArguments& CallArguments::operator()(const char* key, std::vector<int64_t>& field) {
  const std::string* value = Take(key);
  if (value == nullptr) return *this;
  std::vector<absl::string_view> words;
  if (!ReadList(*value, words)) words = {*value};
  std::vector<int64_t> numbers(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    if (!absl::SimpleAtoi(words[i], &numbers[i])) {
      Wrong(key, *value, "an integer or a list of them");
      return *this;
    }
  }
  field = std::move(numbers);
  return *this;
}

absl::Status CallArguments::Finish() const {
  if (!status_.ok()) return status_;
  const auto& arguments = call_.arguments;
  const std::string taken = keys_.empty() ? "no arguments" : absl::StrJoin(keys_, ", ");
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& key = arguments[i].key;
    if (key.empty()) {
      if (i < keys_.size()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          call_.name, " takes ", taken, "; it was given ", arguments.size(), " arguments"));
    }
    const auto found = std::find(keys_.begin(), keys_.end(), key);
    if (found == keys_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(call_.name, " takes ", taken, "; it has no '", key, "'"));
    }
    const auto place = static_cast<size_t>(found - keys_.begin());
    const bool by_place = place < arguments.size() && arguments[place].key.empty();
    const bool again = std::any_of(arguments.begin(), arguments.begin() + static_cast<int64_t>(i),
                                   [&](const auto& other) { return other.key == key; });
    if (by_place || again) {
      return absl::InvalidArgumentError(absl::StrCat(call_.name, "'s ", key, " is repeated"));
    }
  }
  return absl::OkStatus();
}

}  // namespace penstock::nn
