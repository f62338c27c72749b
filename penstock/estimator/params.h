// Params: the hyperparameters that an estimator passes to its model_fn and input_fn, a typed map.
//
//   Params params = {{"units", 32}, {"rate", 0.05}, {"name", "small"}, {"shape", Shape{8, 8, 1}}};
//   const int64_t units = params["units"];
//   const double rate = params.Get("rate", 0.1);       // with a default
//
// A missing name or a value of another type throws base::ContractError, as misuse of other value
// types does; the estimator, which calls model_fn and input_fn, returns it as an error.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/base/shape.h"

namespace penstock::estimator {

class ParamValue {
 public:
  using Numbers = std::vector<double>;
  using Strings = std::vector<std::string>;

  ParamValue() = default;
  ParamValue(bool value) : value_(value) {}  // NOLINT: {"use_bias", true}
  template <typename T,
            std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  ParamValue(T value) : value_(static_cast<int64_t>(value)) {}   // NOLINT
  ParamValue(double value) : value_(value) {}                    // NOLINT
  ParamValue(std::string value) : value_(std::move(value)) {}    // NOLINT
  ParamValue(const char* value) : value_(std::string(value)) {}  // NOLINT
  ParamValue(base::Shape value) : value_(std::move(value)) {}    // NOLINT
  ParamValue(Numbers value) : value_(std::move(value)) {}        // NOLINT
  ParamValue(Strings value) : value_(std::move(value)) {}        // NOLINT

  // The value. Throws base::ContractError, which names the parameter, if it has another type. An
  // integer is also a double.
  bool AsBool() const;
  int64_t AsInt() const;
  double AsDouble() const;
  const std::string& AsString() const;
  const base::Shape& AsShape() const;
  const Numbers& AsNumbers() const;
  const Strings& AsStrings() const;
  operator bool() const { return AsBool(); }           // NOLINT
  operator int64_t() const { return AsInt(); }         // NOLINT
  operator int() const;                                // NOLINT: throws if it does not fit
  operator double() const { return AsDouble(); }       // NOLINT
  operator std::string() const { return AsString(); }  // NOLINT
  operator base::Shape() const { return AsShape(); }   // NOLINT
  operator Numbers() const { return AsNumbers(); }     // NOLINT
  operator Strings() const { return AsStrings(); }     // NOLINT

  // "32", "0.05", "small", "[8,8,1]".
  std::string ToString() const;
  friend bool operator==(const ParamValue& a, const ParamValue& b) { return a.value_ == b.value_; }

 private:
  friend class Params;
  template <typename T>
  const T& As(absl::string_view type) const;

  std::string name_;  // in Params, for messages
  std::variant<std::monostate, bool, int64_t, double, std::string, base::Shape, Numbers, Strings>
      value_;
};

class Params {
 public:
  Params() = default;
  Params(std::initializer_list<std::pair<absl::string_view, ParamValue>> values);

  void Set(absl::string_view name, ParamValue value);
  bool Contains(absl::string_view name) const;
  // The value of a name; throws base::ContractError, which lists the names, if there is none.
  const ParamValue& operator[](absl::string_view name) const;
  // The value of a name, or `otherwise` if there is none.
  template <typename T>
  T Get(absl::string_view name, T otherwise) const {
    return Contains(name) ? static_cast<T>((*this)[name]) : otherwise;
  }
  std::string Get(absl::string_view name, const char* otherwise) const {
    return Get<std::string>(name, otherwise);
  }

  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  size_t size() const { return values_.size(); }
  // "{rate: 0.05, units: 32}".
  std::string ToString() const;
  friend bool operator==(const Params&, const Params&) = default;

 private:
  std::map<std::string, ParamValue, std::less<>> values_;
};

}  // namespace penstock::estimator
