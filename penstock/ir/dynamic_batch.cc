#include "penstock/ir/dynamic_batch.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/op_def.h"

namespace penstock::ir {
namespace {

std::vector<int64_t> Numbers(const std::vector<Extent>& extents) {
  std::vector<int64_t> numbers;
  for (const Extent& extent : extents) {
    numbers.push_back(extent.batches != 0 ? -extent.batches : extent.size);
  }
  return numbers;
}

bool DependsOnBatch(const std::vector<Extent>& extents) {
  return std::any_of(extents.begin(), extents.end(),
                     [](const Extent& extent) { return extent.batches != 0; });
}

}  // namespace

class DynamicBatchGraph {
 public:
  static absl::StatusOr<std::unique_ptr<Graph>> Copy(const SymbolicBatch& program,
                                                     const Graph& from) {
    auto to = std::make_unique<Graph>(from.name(), from.num_replicas());
    to->origins_.assign(from.origins().begin(), from.origins().end());
    to->num_origins_ = from.num_origins_;
    const auto moved = [&](const Value& v) { return to->value(v.node_id(), v.result()); };
    for (int id = 0; id < from.num_nodes(); ++id) {
      Node node = from.node(id);
      for (Value& operand : node.operands) operand = moved(operand);
      for (size_t i = 0; i < node.results.size(); ++i) {
        const Value result = const_cast<Graph&>(from).value(id, static_cast<int>(i));
        node.results[i].shape = Shape(Numbers(program.ShapeOf(result)));
      }
      PENSTOCK_RETURN_IF_ERROR(CopyAttributes(program, from, id, node.attributes));
      for (auto& region : node.regions) {
        PENSTOCK_ASSIGN_OR_RETURN(region, Copy(program, *region));
      }
      to->nodes_.push_back(std::move(node));
      ++to->num_nodes_;
    }
    for (const Value& parameter : from.parameters_) to->parameters_.push_back(moved(parameter));
    for (const Value& result : from.results_) to->results_.push_back(moved(result));
    to->parameter_names_ = from.parameter_names_;
    to->result_names_ = from.result_names_;
    return to;
  }

 private:
  static absl::Status CopyAttributes(const SymbolicBatch& program, const Graph& from, int id,
                                     Attributes& attributes) {
    const Node& node = from.node(id);
    for (const auto& [name, value] : node.attributes) {
      const bool is_list = std::holds_alternative<std::vector<int64_t>>(value);
      if (!is_list && !std::holds_alternative<int64_t>(value)) continue;
      const std::vector<Extent> extents = program.AttributeOf(from, id, name);
      if (!DependsOnBatch(extents)) continue;
      if (!node.op->has_dynamic_form) {
        const std::string where = from.origins()[node.origin].ToString();
        return absl::UnimplementedError(
            absl::StrCat(where, where.empty() ? "" : ": ", node.op->name, ": its '", name,
                         "' depends on the batch size; there is no program of it for every batch "
                         "size"));
      }
      const std::vector<int64_t> numbers = Numbers(extents);
      attributes.Set(name, is_list ? Attribute(numbers) : Attribute(numbers[0]));
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<std::unique_ptr<Graph>> WithDynamicBatch(const SymbolicBatch& program) {
  return DynamicBatchGraph::Copy(program, program.graph());
}

}  // namespace penstock::ir
