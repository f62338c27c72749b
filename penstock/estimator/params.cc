#include "penstock/estimator/params.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/contract_error.h"

namespace penstock::estimator {

template <typename T>
const T& ParamValue::As(absl::string_view type) const {
  if (const T* value = std::get_if<T>(&value_)) return *value;
  throw base::ContractError(absl::StrCat("params['", name_, "'] is ", ToString(), ", not ", type));
}

bool ParamValue::AsBool() const { return As<bool>("a bool"); }
int64_t ParamValue::AsInt() const { return As<int64_t>("an integer"); }
ParamValue::operator int() const {
  const int64_t value = AsInt();
  if (value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max()) {
    return static_cast<int>(value);
  }
  throw base::ContractError(absl::StrCat("params['", name_, "'] is ", value,
                                         ", which an int cannot hold; read it as an int64_t"));
}
double ParamValue::AsDouble() const {
  if (const auto* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  return As<double>("a number");
}
const std::string& ParamValue::AsString() const { return As<std::string>("a string"); }
const base::Shape& ParamValue::AsShape() const { return As<base::Shape>("a shape"); }
const ParamValue::Numbers& ParamValue::AsNumbers() const {
  return As<Numbers>("a list of numbers");
}
const ParamValue::Strings& ParamValue::AsStrings() const {
  return As<Strings>("a list of strings");
}

std::string ParamValue::ToString() const {
  struct Printer {
    std::string operator()(std::monostate) const { return "nothing"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return absl::StrCat(value); }
    std::string operator()(double value) const { return absl::StrCat(value); }
    std::string operator()(const std::string& value) const { return absl::StrCat("'", value, "'"); }
    std::string operator()(const base::Shape& value) const { return value.ToString(); }
    std::string operator()(const Numbers& value) const {
      return absl::StrCat("{", absl::StrJoin(value, ", "), "}");
    }
    std::string operator()(const Strings& value) const {
      return absl::StrCat("{", absl::StrJoin(value, ", "), "}");
    }
  };
  return std::visit(Printer(), value_);
}

Params::Params(std::initializer_list<std::pair<absl::string_view, ParamValue>> values) {
  for (const auto& [name, value] : values) Set(name, value);
}

void Params::Set(absl::string_view name, ParamValue value) {
  value.name_ = std::string(name);
  values_.insert_or_assign(std::string(name), std::move(value));
}

bool Params::Contains(absl::string_view name) const { return values_.count(name) > 0; }

const ParamValue& Params::operator[](absl::string_view name) const {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  throw base::ContractError(absl::StrCat("params has no '", name, "'; it has ",
                                         values_.empty() ? "no values" : ToString()));
}

std::string Params::ToString() const {
  return absl::StrCat("{",
                      absl::StrJoin(values_, ", ",
                                    [](std::string* out, const auto& entry) {
                                      absl::StrAppend(out, entry.first, ": ",
                                                      entry.second.ToString());
                                    }),
                      "}");
}

}  // namespace penstock::estimator
