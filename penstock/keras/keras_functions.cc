#include "penstock/keras/keras_functions.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/keras/keras_config.h"
#include "penstock/nn/named_call.h"
#include "penstock/nn/names.h"

namespace penstock::keras {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kInitializers[] = "keras.initializers", kRegularizers[] = "keras.regularizers",
               kConstraints[] = "keras.constraints", kLayers[] = "keras.layers";

// Keras's classes with their arguments in order, for texts that give them by position.
struct FunctionRow {
  const char* name;
  const char* module;
  const char* class_name;
  const char* arguments;
};
constexpr FunctionRow kFunctions[] = {
    {"zeros", kInitializers, "Zeros", ""},
    {"zero", kInitializers, "Zeros", ""},
    {"ones", kInitializers, "Ones", ""},
    {"one", kInitializers, "Ones", ""},
    {"constant", kInitializers, "Constant", "value"},
    {"uniform", kInitializers, "RandomUniform", "minval maxval"},
    {"random_uniform", kInitializers, "RandomUniform", "minval maxval"},
    {"normal", kInitializers, "RandomNormal", "mean stddev"},
    {"random_normal", kInitializers, "RandomNormal", "mean stddev"},
    {"truncated_normal", kInitializers, "TruncatedNormal", "mean stddev"},
    {"variance_scaling", kInitializers, "VarianceScaling", "scale mode distribution"},
    {"glorot_uniform", kInitializers, "GlorotUniform", ""},
    {"glorot_normal", kInitializers, "GlorotNormal", ""},
    {"he_uniform", kInitializers, "HeUniform", ""},
    {"he_normal", kInitializers, "HeNormal", ""},
    {"lecun_uniform", kInitializers, "LecunUniform", ""},
    {"lecun_normal", kInitializers, "LecunNormal", ""},
    {"orthogonal", kInitializers, "Orthogonal", "gain"},
    {"orthogonal_initializer", kInitializers, "Orthogonal", "gain"},
    {"identity", kInitializers, "Identity", "gain"},
    {"identity_initializer", kInitializers, "Identity", "gain"},
    {"l1", kRegularizers, "L1", "l1"},
    {"l2", kRegularizers, "L2", "l2"},
    {"l1_l2", kRegularizers, "L1L2", "l1 l2"},
    {"orthogonal_regularizer", kRegularizers, "OrthogonalRegularizer", "factor mode"},
    {"max_norm", kConstraints, "MaxNorm", "max_value axis"},
    {"non_neg", kConstraints, "NonNeg", ""},
    {"unit_norm", kConstraints, "UnitNorm", "axis"},
    {"min_max_norm", kConstraints, "MinMaxNorm", "min_value max_value rate axis"},
    // Activations with arguments are layers.
    {"leaky_relu", kLayers, "LeakyReLU", "negative_slope"},
    {"elu", kLayers, "ELU", "alpha"},
    {"softmax", kLayers, "Softmax", "axis"},
};

// A number, a list of integers, or a word.
Json ArgumentToJson(absl::string_view text) {
  double number;
  int64_t integer;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  if (absl::SimpleAtod(text, &number)) return number;
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]")) {
    return std::string(text);
  }
  Json list = Json::array();
  for (absl::string_view element : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    list.push_back(ArgumentToJson(absl::StripAsciiWhitespace(element)));
  }
  return list;
}

absl::StatusOr<Json> FunctionToKeras(absl::string_view module, const std::string& text) {
  PENSTOCK_ASSIGN_OR_RETURN(const nn::NamedCall call, nn::ParseNamedCall(text));
  const bool is_activation = module == kLayers;
  if (is_activation && call.arguments.empty()) return Json(text);
  for (const FunctionRow& row : kFunctions) {
    if (module != row.module || !nn::SameName(call.name, row.name)) continue;
    const std::vector<std::string> names = absl::StrSplit(row.arguments, ' ', absl::SkipEmpty());
    Json config = Json::object();
    if (is_activation) config["name"] = row.name;
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const nn::NamedCall::Argument& argument = call.arguments[i];
      if (argument.key.empty() && i >= names.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", text, "' has more arguments than ", row.class_name));
      }
      config[argument.key.empty() ? names[i] : argument.key] = ArgumentToJson(argument.value);
    }
    return KerasObject(row.module, row.class_name, std::move(config));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Keras cannot save ", is_activation ? "the activation" : "", " '", text, "'",
                   is_activation ? " with arguments; use a layer of its own" : ""));
}

}  // namespace

absl::StatusOr<Json> KerasOption(const std::string& key, const Json& value) {
  if (!value.is_string()) return value;
  const std::string text = value;
  const char* module = absl::EndsWith(key, "_initializer")   ? kInitializers
                       : absl::EndsWith(key, "_regularizer") ? kRegularizers
                       : absl::EndsWith(key, "_constraint")  ? kConstraints
                       : absl::EndsWith(key, "activation")   ? kLayers
                                                             : nullptr;
  if (module == nullptr) return value;
  if (text.empty()) return module == kLayers ? Json("linear") : Json();
  absl::StatusOr<Json> function = FunctionToKeras(module, text);
  if (!function.ok())
    return base::WithContext(function.status(), absl::StrCat("option '", key, "'"));
  return function;
}

}  // namespace penstock::keras
