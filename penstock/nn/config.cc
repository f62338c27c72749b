#include "penstock/nn/config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/nn/named_call.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace {

using Json = nlohmann::ordered_json;

// Json's own conversions are lenient (true becomes 1); options are not.
bool Read(const Json& json, bool& out) {
  if (!json.is_boolean()) return false;
  out = json.get<bool>();
  return true;
}
bool Read(const Json& json, int64_t& out) {
  if (!json.is_number_integer()) return false;
  out = json.get<int64_t>();
  return true;
}
bool Read(const Json& json, double& out) {
  if (!json.is_number()) return false;
  out = json.get<double>();
  return true;
}
bool Read(const Json& json, std::string& out) {
  if (json.is_object()) {  // an initializer, a regularizer... as Keras writes it
    absl::StatusOr<std::string> call = NamedCallFromJson(json);
    if (call.ok()) out = *std::move(call);
    return call.ok();
  }
  if (!json.is_string()) return false;
  out = json.get<std::string>();
  return true;
}
template <typename T>
bool Read(const Json& json, std::vector<T>& out) {
  if (!json.is_array()) return false;
  std::vector<T> values(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    if (!Read(json[i], values[i])) return false;
  }
  out = std::move(values);
  return true;
}
bool Read(const Json& json, Size2D& out) {
  std::vector<int64_t> both;
  int64_t one;
  if (Read(json, one)) {
    out = Size2D(one);
    return true;
  }
  if (!Read(json, both) || both.size() != 2) return false;
  out = Size2D(both[0], both[1]);
  return true;
}
bool Read(const Json& json, Padding2D& out) {
  Size2D size;
  if (Read(json, size)) {
    out = Padding2D(size.height, size.width);
    return true;
  }
  std::vector<std::vector<int64_t>> ends;
  if (!Read(json, ends) || ends.size() != 2 || ends[0].size() != 2 || ends[1].size() != 2) {
    return false;
  }
  out = Padding2D({ends[0][0], ends[0][1]}, {ends[1][0], ends[1][1]});
  return true;
}
bool Read(const Json& json, std::optional<double>& out) {
  double number;
  if (!Read(json, number)) return false;
  out = number;
  return true;
}
bool Read(const Json& json, OptionalSize2D& out) {
  Size2D size;
  if (!Read(json, size)) return false;
  out = size;
  return true;
}
bool Read(const Json& json, Range& out) {
  std::vector<double> both;
  double one;
  if (Read(json, one)) {
    out = Range(one);
    return true;
  }
  if (!Read(json, both) || both.size() != 2) return false;
  out = Range(both[0], both[1]);
  return true;
}

template <typename T>
Json Written(const T& field) {
  return field;
}
template <>
Json Written(const Size2D& field) {
  return {field.height, field.width};
}
template <>
Json Written(const Padding2D& field) {
  return {{field.top, field.bottom}, {field.left, field.right}};
}
template <>
Json Written(const std::optional<double>& field) {
  return field.has_value() ? Json(*field) : Json();
}
template <>
Json Written(const OptionalSize2D& field) {
  return field.has_value() ? Written(*field) : Json();
}
template <>
Json Written(const Range& field) {
  return {field.low, field.high};
}

}  // namespace

const Json* Config::Take(const char* key) {
  known_.push_back(key);
  const auto found = in_->find(key);
  return found == in_->end() || found->is_null() ? nullptr : &*found;
}

void Config::Wrong(const char* key, const char* wanted) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("option '", key, "' is ", in_->at(key).dump(), "; it takes ", wanted));
  }
}

void Config::Wrong(const char* key, const absl::Status& status) {
  if (status_.ok()) status_ = base::WithContext(status, absl::StrCat("option '", key, "'"));
}

template <typename T>
Config& Config::Field(const char* key, T& field, const char* wanted) {
  if (out_ != nullptr) {
    (*out_)[key] = Written(field);
  } else if (const Json* json = Take(key); json != nullptr && !Read(*json, field)) {
    Wrong(key, wanted);
  }
  return *this;
}

Config& Config::operator()(const char* key, bool& f) { return Field(key, f, "true or false"); }
Config& Config::operator()(const char* key, int64_t& f) { return Field(key, f, "a whole number"); }
Config& Config::operator()(const char* key, double& f) { return Field(key, f, "a number"); }
Config& Config::operator()(const char* key, std::string& f) {
  return Field(key, f, "a string, or {\"class_name\", \"config\"} of an initializer or its like");
}
Config& Config::operator()(const char* key, std::vector<int64_t>& f) {
  return Field(key, f, "a list of whole numbers");
}
Config& Config::operator()(const char* key, std::vector<double>& f) {
  return Field(key, f, "a list of numbers");
}
Config& Config::operator()(const char* key, std::optional<double>& f) {
  return Field(key, f, "a number");
}
Config& Config::operator()(const char* key, Padding2D& f) {
  return Field(key, f, "a whole number, two, or [[top, bottom], [left, right]]");
}
Config& Config::operator()(const char* key, Size2D& f) {
  return Field(key, f, "a whole number or two");
}
Config& Config::operator()(const char* key, OptionalSize2D& f) {
  return Field(key, f, "a whole number or two");
}
Config& Config::operator()(const char* key, Range& f) {
  return Field(key, f, "a number or [low, high]");
}

Config& Config::operator()(const char* key, Layer& field) {
  if (out_ != nullptr) {
    if (field.valid()) (*out_)[key] = LayerToJson(field);
  } else if (const Json* json = Take(key); json != nullptr) {
    absl::StatusOr<Layer> layer = LayerFromJson(*json);
    if (layer.ok()) {
      field = *std::move(layer);
    } else {
      Wrong(key, layer.status());
    }
  }
  return *this;
}
Config& Config::operator()(const char* key, Network& field) {
  if (out_ != nullptr) {
    if (field.status().ok()) (*out_)[key] = field.ToJson();
  } else if (const Json* json = Take(key); json != nullptr) {
    absl::StatusOr<Network> network = Network::FromJson(*json);
    if (network.ok()) {
      field = *std::move(network);
    } else {
      Wrong(key, network.status());
    }
  }
  return *this;
}

absl::Status Config::Finish() const {
  if (!status_.ok() || in_ == nullptr) return status_;
  for (const auto& [key, value] : in_->items()) {
    const bool described_elsewhere = key == "name" || key == "trainable" || key == "dtype";
    if (value.is_null() || described_elsewhere) continue;
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no option '", key, "'; there are ", absl::StrJoin(known_, ", ")));
    }
  }
  return absl::OkStatus();
}

}  // namespace penstock::nn
