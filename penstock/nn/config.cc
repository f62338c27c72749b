#include "penstock/nn/config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"
#include "penstock/nn/layers/layer_table.h"
#include "penstock/nn/named_call.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace {

using Json = nlohmann::ordered_json;

// Strict conversions: nlohmann's own are lenient (true becomes 1).
bool Read(const Json& json, bool& out) {
  if (!json.is_boolean()) return false;
  out = json.get<bool>();
  return true;
}
bool Read(const Json& json, int64_t& out) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX}) return false;
  out = json.get<int64_t>();
  return true;
}
bool Read(const Json& json, double& out) {
  if (!json.is_number()) return false;
  out = json.get<double>();
  return true;
}
bool Read(const Json& json, std::string& out) {
  if (json.is_object()) {  // Keras's JSON of an initializer, a regularizer...
    absl::StatusOr<std::string> call = NamedCallFromJson(json);
    if (!call.ok()) return false;
    out = *std::move(call);
    return true;
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
template <int N>
bool Read(const Json& json, Size<N>& out) {
  std::vector<int64_t> each;
  int64_t one;
  if (Read(json, one)) {
    out = Size<N>(one);
    return true;
  }
  if (!Read(json, each) || each.size() != N) return false;
  std::copy(each.begin(), each.end(), out.begin());
  return true;
}
template <int N>
bool Read(const Json& json, Ends<N>& out) {
  std::vector<std::vector<int64_t>> ends;
  std::vector<int64_t> one_axis;
  if constexpr (N == 1) {
    if (Read(json, one_axis)) ends = {one_axis};
  }
  if (Size<N> size; ends.empty() && Read(json, size)) {
    for (int64_t both : size) ends.push_back({both, both});
  }
  if (ends.empty() && !Read(json, ends)) return false;
  if (ends.size() != N) return false;
  for (int i = 0; i < N; ++i) {
    if (ends[i].size() != 2) return false;
    out[i] = {ends[i][0], ends[i][1]};
  }
  return true;
}
bool Read(const Json& json, AxisList& out) {
  std::vector<int64_t> several;
  int64_t one;
  if (Read(json, one)) {
    several = {one};
  } else if (!Read(json, several)) {
    return false;
  }
  out.assign(several.begin(), several.end());
  return true;
}
bool Read(const Json& json, PerChannel& out) {
  std::vector<double> each;
  double all;
  if (Read(json, all)) {
    each = {all};
  } else if (!Read(json, each) || each.empty()) {
    return false;
  }
  out.assign(each.begin(), each.end());
  return true;
}
template <typename T>
bool Read(const Json& json, std::optional<T>& out) {
  T number;
  if (!Read(json, number)) return false;
  out = number;
  return true;
}
bool Read(const Json& json, std::optional<std::vector<int64_t>>& out) {
  int64_t one;
  std::vector<int64_t> several;
  if (Read(json, one)) {
    several = {one};
  } else if (!Read(json, several)) {
    return false;
  }
  out = std::move(several);
  return true;
}
template <int N>
bool Read(const Json& json, OptionalSize<N>& out) {
  Size<N> size;
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

bool Read(const Json& json, OptionalRange& out) {
  Range range;
  if (!Read(json, range)) return false;
  out = OptionalRange(range.low, range.high);
  return true;
}
bool Read(const Json& json, UnitRange& out) {
  double one;
  if (Read(json, one)) {
    out = UnitRange(one);
    return true;
  }
  return Read(json, static_cast<Range&>(out));
}
bool Read(const Json& json, OptionalUnitRange& out) {
  UnitRange range;
  if (!Read(json, range)) return false;
  out = OptionalUnitRange(range.low, range.high);
  return true;
}
// Reads numbers from nested lists.
bool ReadFlat(const Json& json, std::vector<double>& out) {
  if (json.is_array()) {
    return std::all_of(json.begin(), json.end(),
                       [&](const Json& element) { return ReadFlat(element, out); });
  }
  return Read(json, out.emplace_back());
}

// Meaning of null: nullopt for an optional field, otherwise the default.
template <typename T>
void Clear(T&) {}
template <typename T>
void Clear(std::optional<T>& field) {
  field.reset();
}

template <typename T>
Json Written(const T& field) {
  return field;
}
template <int N>
Json Written(const Size<N>& field) {
  return std::vector<int64_t>(field.begin(), field.end());
}
template <int N>
Json Written(const Ends<N>& field) {
  if (N == 1) return {field[0].first, field[0].second};
  Json json = Json::array();
  for (const auto& [low, high] : field) json.push_back({low, high});
  return json;
}
Json Written(const std::optional<double>& field) {
  return field.has_value() ? Json(*field) : Json();
}
Json Written(const std::optional<int64_t>& field) {
  return field.has_value() ? Json(*field) : Json();
}
Json Written(const std::optional<std::vector<int64_t>>& field) {
  return field.has_value() ? Json(*field) : Json();
}
template <int N>
Json Written(const OptionalSize<N>& field) {
  return field.has_value() ? Written(*field) : Json();
}
Json Written(const Range& field) { return {field.low, field.high}; }
Json Written(const OptionalRange& field) { return field.has_value() ? Written(*field) : Json(); }
Json Written(const UnitRange& field) { return {field.low, field.high}; }
Json Written(const OptionalUnitRange& field) {
  return field.has_value() ? Written(*field) : Json();
}
Json Written(const AxisList& field) {
  if (field.size() == 1) return field[0];
  return std::vector<int64_t>(field.begin(), field.end());
}
Json Written(const PerChannel& field) {
  if (field.size() == 1) return field[0];
  return std::vector<double>(field.begin(), field.end());
}

}  // namespace

Config Config::Lister(std::vector<Layer>& layers) {
  // Reading an empty object keeps every field.
  static const auto* const kNothing = new Json(Json::object());
  Config config = Reader(*kNothing);
  config.layers_ = &layers;
  return config;
}

const Json* Config::Take(const char* key) {
  known_.push_back(key);
  const auto found = in_->find(key);
  return found == in_->end() || found->is_null() ? nullptr : &*found;
}

void Config::Wrong(const char* key, const char* expected) {
  if (status_.ok()) {
    constexpr size_t kShown = 200;
    std::string given = base::DumpJson(in_->at(key));
    if (given.size() > kShown) given = absl::StrCat(given.substr(0, kShown), "...");
    status_ = absl::InvalidArgumentError(
        absl::StrCat("option '", key, "' is ", given, "; it takes ", expected));
  }
}

void Config::Wrong(const char* key, const absl::Status& status) {
  if (status_.ok()) status_ = base::WithContext(status, absl::StrCat("option '", key, "'"));
}

template <typename T>
Config& Config::Field(const char* key, T& field, const char* expected) {
  if (out_ != nullptr) {
    (*out_)[key] = Written(field);
  } else if (const Json* json = Take(key); json == nullptr) {
    if (in_->contains(key)) Clear(field);
  } else if (!Read(*json, field)) {
    Wrong(key, expected);
  }
  return *this;
}

Config& Config::operator()(const char* key, bool& f) { return Field(key, f, "true or false"); }
Config& Config::operator()(const char* key, int64_t& f) { return Field(key, f, "an integer"); }
Config& Config::operator()(const char* key, double& f) { return Field(key, f, "a number"); }
Config& Config::operator()(const char* key, std::string& f) {
  return Field(key, f, "a string, or {\"class_name\", \"config\"} of an initializer or its like");
}
Config& Config::operator()(const char* key, std::vector<int64_t>& f) {
  return Field(key, f, "a list of integers");
}
Config& Config::operator()(const char* key, std::vector<double>& f) {
  return Field(key, f, "a list of numbers");
}
Config& Config::operator()(const char* key, std::optional<double>& f) {
  return Field(key, f, "a number");
}
Config& Config::operator()(const char* key, std::vector<std::string>& f) {
  return Field(key, f, "a list of strings");
}
Config& Config::operator()(const char* key, std::optional<int64_t>& f) {
  return Field(key, f, "an integer");
}
Config& Config::operator()(const char* key, std::optional<std::vector<int64_t>>& f) {
  return Field(key, f, "an integer or a list of them");
}
template <int N>
Config& Config::operator()(const char* key, Size<N>& f) {
  return Field(key, f,
               N == 1   ? "an integer"
               : N == 2 ? "an integer or two"
                        : "an integer or three");
}
template <int N>
Config& Config::operator()(const char* key, OptionalSize<N>& f) {
  return Field(key, f,
               N == 1   ? "an integer"
               : N == 2 ? "an integer or two"
                        : "an integer or three");
}
template <int N>
Config& Config::operator()(const char* key, Ends<N>& f) {
  return Field(key, f,
               N == 1   ? "an integer or two"
               : N == 2 ? "an integer, two, or [[top, bottom], [left, right]]"
                        : "an integer, three, or three pairs of them");
}
template Config& Config::operator()(const char* key, Size<1>& f);
template Config& Config::operator()(const char* key, Size<2>& f);
template Config& Config::operator()(const char* key, Size<3>& f);
template Config& Config::operator()(const char* key, OptionalSize<1>& f);
template Config& Config::operator()(const char* key, OptionalSize<2>& f);
template Config& Config::operator()(const char* key, OptionalSize<3>& f);
template Config& Config::operator()(const char* key, Ends<1>& f);
template Config& Config::operator()(const char* key, Ends<2>& f);
template Config& Config::operator()(const char* key, Ends<3>& f);
Config& Config::operator()(const char* key, OptionalRange& f) {
  return Field(key, f, "a number or [low, high]");
}
Config& Config::operator()(const char* key, UnitRange& f) {
  return Field(key, f, "a number or [low, high]");
}
Config& Config::operator()(const char* key, OptionalUnitRange& f) {
  return Field(key, f, "a number or [low, high]");
}
Config& Config::operator()(const char* key, AxisList& f) {
  return Field(key, f, "an integer or a list of them");
}
Config& Config::operator()(const char* key, PerChannel& f) {
  return Field(key, f, "a number or a list of them");
}
Config& Config::operator()(const char* key, Range& f) {
  return Field(key, f, "a number or [low, high]");
}

Config& Config::OrNull(const char* key, std::string& field, const char* null) {
  if (out_ != nullptr) {
    (*out_)[key] = field == null ? Json() : Json(field);
    return *this;
  }
  if (const auto found = in_->find(key); found != in_->end() && found->is_null()) field = null;
  return (*this)(key, field);
}
Config& Config::operator()(const char* key, Layer& field) {
  if (layers_ != nullptr) {
    layers_->push_back(field);
  } else if (out_ != nullptr) {
    if (field.valid()) (*out_)[key] = internal::LayerToJson(field, shared_writer_);
  } else if (const Json* json = Take(key); json != nullptr) {
    absl::StatusOr<Layer> layer = internal::LayerFromJson(*json, custom_, shared_reader_);
    if (layer.ok()) {
      field = *std::move(layer);
    } else {
      Wrong(key, layer.status());
    }
  }
  return *this;
}
Config& Config::operator()(const char* key, Network& field) {
  if (layers_ != nullptr) {
    for (const Network::Use& use : field.uses()) layers_->push_back(use.layer);
  } else if (out_ != nullptr) {
    if (field.status().ok()) (*out_)[key] = field.ToJson(shared_writer_);
  } else if (const Json* json = Take(key); json != nullptr) {
    absl::StatusOr<Network> network = Network::FromJson(*json, custom_, shared_reader_);
    if (network.ok()) {
      field = *std::move(network);
    } else {
      Wrong(key, network.status());
    }
  }
  return *this;
}

Config& Config::IfGiven(const char* key, std::optional<double>& field) {
  if (out_ != nullptr && !field.has_value()) return *this;
  return (*this)(key, field);
}

Config& Config::IfFalse(const char* key, bool& field) {
  if (out_ != nullptr && field) return *this;
  return (*this)(key, field);
}

Config& Config::Optional(const char* key, std::vector<double>& f) {
  if (out_ != nullptr) {
    (*out_)[key] = f.empty() ? Json() : Json(f);
  } else if (const Json* json = Take(key); json != nullptr) {
    std::vector<double> numbers;
    if (ReadFlat(*json, numbers)) {
      f = std::move(numbers);
    } else {
      Wrong(key, "a number or a list of numbers");
    }
  }
  return *this;
}
Config& Config::Optional(const char* key, std::vector<int64_t>& f) {
  if (out_ != nullptr) {
    (*out_)[key] = Json();
    for (int64_t extent : f) (*out_)[key].push_back(extent <= 0 ? Json() : Json(extent));
  } else if (const Json* json = Take(key); json != nullptr) {
    std::vector<int64_t> extents;
    bool good = json->is_array();
    for (size_t i = 0; good && i < json->size(); ++i) {
      extents.push_back(-1);
      good = (*json)[i].is_null() || Read((*json)[i], extents.back());
    }
    if (good) {
      f = std::move(extents);
    } else {
      Wrong(key, "a list of integers or null");
    }
  }
  return *this;
}
Config& Config::Optional(const char* key, PerChannel& f) {
  if (out_ == nullptr || !f.empty()) return (*this)(key, f);
  (*out_)[key] = Json();
  return *this;
}
Config& Config::Optional(const char* key, int64_t& f) {
  if (out_ != nullptr) {
    (*out_)[key] = f == 0 ? Json() : Json(f);
    return *this;
  }
  return Field(key, f, "an integer");
}

absl::Status Config::Finish() const {
  if (!status_.ok() || in_ == nullptr) return status_;
  for (const auto& [key, value] : in_->items()) {
    const bool described_elsewhere =
        key == "name" || key == "trainable" || key == "dtype" || key == "remat";
    if (value.is_null() || described_elsewhere) continue;
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option '", key, "'; available: ", absl::StrJoin(known_, ", ")));
    }
  }
  return absl::OkStatus();
}

}  // namespace penstock::nn
