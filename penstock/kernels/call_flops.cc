#include "penstock/kernels/call_flops.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/dtype.h"
#include "penstock/kernels/all_finite.h"
#include "penstock/kernels/batch_norm.h"
#include "penstock/kernels/column_sum.h"
#include "penstock/kernels/convolution.h"
#include "penstock/kernels/matmul.h"
#include "penstock/kernels/pooling.h"

namespace penstock::kernels {
namespace {

// The part of `text` between the first `begin` and the next `end`; nullopt if one is missing.
std::optional<absl::string_view> Between(absl::string_view text, absl::string_view begin,
                                         absl::string_view end) {
  const size_t at = text.find(begin);
  if (at == absl::string_view::npos) return std::nullopt;
  text.remove_prefix(at + begin.size());
  const size_t length = text.find(end);
  if (length == absl::string_view::npos) return std::nullopt;
  return text.substr(0, length);
}

// "4x8x16xf32": the extents; the element type does not matter for FLOPs.
base::Shape ShapeOf(absl::string_view tensor) {
  std::vector<int64_t> dims;
  for (const absl::string_view part : absl::StrSplit(tensor, 'x')) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(part, &extent)) break;
    dims.push_back(extent);
  }
  return base::Shape(dims);
}

std::vector<ir::TensorType> TensorsOf(absl::string_view types) {
  std::vector<ir::TensorType> tensors;
  for (;;) {
    const auto tensor = Between(types, "tensor<", ">");
    if (!tensor.has_value()) return tensors;
    tensors.push_back({base::DType::kF32, ShapeOf(*tensor)});
    types.remove_prefix(static_cast<size_t>(tensor->data() + tensor->size() - types.data()));
  }
}

const KernelCost* CostOf(absl::string_view name) {
  static const auto& costs = *new std::vector<KernelCost>([] {
    std::vector<KernelCost> all;
    for (const auto& more : {ConvolutionCosts(), BatchNormCosts(), PoolingCosts(), MatmulCosts(),
                             ColumnSumCosts(), AllFiniteCosts()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }());
  for (const KernelCost& cost : costs) {
    if (name == cost.name) return &cost;
  }
  return nullptr;
}

}  // namespace

std::vector<int64_t> KernelCall::Ints(absl::string_view name) const {
  std::vector<int64_t> numbers;
  const auto list = Between(attributes, absl::StrCat(name, " = array<i64: "), ">");
  if (!list.has_value()) return numbers;
  for (const absl::string_view part : absl::StrSplit(*list, ", ")) {
    int64_t number = 0;
    if (absl::SimpleAtoi(part, &number)) numbers.push_back(number);
  }
  return numbers;
}

double KernelCall::Elements(size_t operand) const {
  if (operand >= operands.size()) return 0;
  return static_cast<double>(operands[operand].shape.num_elements());
}

CallFlops FlopsOfCalls(absl::string_view text) {
  constexpr absl::string_view kCall = "\"stablehlo.custom_call\"(";
  CallFlops sum;
  for (;;) {
    const size_t at = text.find(kCall);
    if (at == absl::string_view::npos) return sum;
    text.remove_prefix(at + kCall.size());
    ++sum.number;
    const absl::string_view line = text.substr(0, text.find('\n'));
    const auto name = Between(line, "call_target_name = \"", "\"");
    const size_t types = line.rfind("} : (");
    const KernelCost* cost = name.has_value() ? CostOf(*name) : nullptr;
    if (cost == nullptr || types == absl::string_view::npos) continue;
    const absl::string_view signature = line.substr(types);
    const size_t arrow = signature.find(") -> ");
    if (arrow == absl::string_view::npos) continue;
    const KernelCall call{
        .operands = TensorsOf(signature.substr(0, arrow)),
        .results = TensorsOf(signature.substr(arrow)),
        .attributes = std::string(Between(line, "backend_config = {", "}").value_or(""))};
    // Every kernel has results, and those that read a second operand have one.
    if (call.operands.size() < cost->operands || call.results.empty()) continue;
    sum.flops += cost->flops(call);
  }
}

}  // namespace penstock::kernels
