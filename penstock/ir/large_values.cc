#include "penstock/ir/large_values.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/op_def.h"

namespace penstock::ir {
namespace {

constexpr std::array<absl::string_view, 8> kWithoutMemory = {
    "stablehlo.constant", "stablehlo.iota",        "stablehlo.broadcast_in_dim",
    "stablehlo.reshape",  "stablehlo.while",       "stablehlo.if",
    "penstock.for",       "penstock.stop_gradient"};

}  // namespace

int64_t LargeValue::bytes() const {
  return type.shape.num_elements() * base::ByteWidth(type.dtype);
}

void LargeValues::Add(const Node& node, const Origin& origin) {
  const absl::string_view operation = node.op->name;
  if (std::find(kWithoutMemory.begin(), kWithoutMemory.end(), operation) != kWithoutMemory.end()) {
    return;
  }
  for (const TensorType& type : node.results) {
    LargeValue& value = values_[absl::StrCat(type.ToString(), " ", origin.scope)];
    if (value.count++ > 0) continue;
    value.type = type;
    value.operation = std::string(operation);
    value.origin = origin;
  }
}

std::vector<LargeValue> LargeValues::Take(size_t most) const {
  std::vector<LargeValue> values;
  for (const auto& [key, value] : values_) values.push_back(value);
  // Equal ones in an order of their own: the map has none.
  const auto rank = [](const LargeValue& v) {
    return std::tuple(-v.bytes(), -v.count, v.origin.scope, v.type.ToString());
  };
  most = std::min(most, values.size());
  std::partial_sort(values.begin(), values.begin() + most, values.end(),
                    [&](const LargeValue& a, const LargeValue& b) { return rank(a) < rank(b); });
  values.resize(most);
  return values;
}

}  // namespace penstock::ir
