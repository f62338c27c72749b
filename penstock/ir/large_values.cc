#include "penstock/ir/large_values.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "penstock/ir/op_def.h"

namespace penstock::ir {
namespace {

constexpr std::array<absl::string_view, 7> kWithoutMemory = {
    "stablehlo.constant", "stablehlo.iota", "stablehlo.broadcast_in_dim", "stablehlo.reshape",
    "stablehlo.while",    "stablehlo.if",   "penstock.stop_gradient"};

// A loop's states alias those of its last iteration; its stacked results are new memory.
size_t FirstWithMemory(const Node& node) {
  if (absl::string_view(node.op->name) != "penstock.scan") return 0;
  return static_cast<size_t>(node.attributes.Get<int64_t>("states"));
}

}  // namespace

int64_t LargeValue::bytes() const {
  return type.shape.num_elements() * base::ByteWidth(type.dtype);
}

void LargeValues::Add(const Node& node, const Origin& origin) {
  const absl::string_view operation = node.op->name;
  if (std::find(kWithoutMemory.begin(), kWithoutMemory.end(), operation) != kWithoutMemory.end()) {
    return;
  }
  for (size_t i = FirstWithMemory(node); i < node.results.size(); ++i) {
    const TensorType& type = node.results[i];
    LargeValue& value = values_[absl::StrCat(type.ToString(), " ", origin.scope)];
    if (value.count++ > 0) continue;
    value.type = type;
    value.operation = std::string(operation);
    value.origin = origin;
  }
}

std::vector<LargeValue> LargeValues::Largest(size_t count) const {
  std::vector<LargeValue> values;
  for (const auto& [key, value] : values_) values.push_back(value);
  // Deterministic order: hash maps have none.
  const auto rank = [](const LargeValue& v) {
    return std::tuple(-v.bytes(), -v.count, v.origin.scope, v.type.ToString());
  };
  count = std::min(count, values.size());
  std::partial_sort(values.begin(), values.begin() + count, values.end(),
                    [&](const LargeValue& a, const LargeValue& b) { return rank(a) < rank(b); });
  values.resize(count);
  return values;
}

}  // namespace penstock::ir
