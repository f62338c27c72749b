// Custom calls: typed FFI handlers, registered with the plugin by name.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

using Ints = std::vector<int64_t>;

// Prefix of the kernel's own attributes among the node's.
constexpr absl::string_view kOfKernel = "kernel.";

InferResult InferCustomCall(const Node& node) {
  std::vector<TensorType> types;
  const Ints& dims = node.attributes.Get<Ints>("result_dims");  // rank, extents, rank, ...
  size_t at = 0;
  for (int64_t dtype : node.attributes.Get<Ints>("result_dtypes")) {
    const int64_t rank = dims[at++];
    types.push_back({static_cast<DType>(dtype),
                     Shape(absl::MakeConstSpan(dims).subspan(at, static_cast<size_t>(rank)))});
    at += rank;
  }
  return types;
}

// Explicit row-major layouts of all tensors: otherwise the compiler may choose another order of
// axes, which the kernel would not know.
std::string Layouts(const std::vector<TensorType>& types) {
  return absl::StrCat("[",
                      absl::StrJoin(types, ", ",
                                    [](std::string* out, const TensorType& type) {
                                      Ints minor_to_major;
                                      for (int i = type.shape.rank(); i-- > 0;)
                                        minor_to_major.push_back(i);
                                      absl::StrAppend(
                                          out, "dense<",
                                          minor_to_major.empty() ? "" : MlirList(minor_to_major),
                                          "> : tensor<", minor_to_major.size(), "xindex>");
                                    }),
                      "]");
}

void PrintCustomCall(Printer& printer, const Node& node) {
  std::vector<std::string> config;
  for (const auto& [name, value] : node.attributes) {
    absl::string_view of_kernel = name;
    if (!absl::ConsumePrefix(&of_kernel, kOfKernel)) continue;
    config.push_back(absl::StrCat(of_kernel, " = ", MlirAttribute(value)));
  }
  const std::string target = MlirString(node.attributes.Get<std::string>("target"));
  std::vector<TensorType> operands;
  for (const Value& operand : node.operands) operands.push_back(operand.type());
  const char* const aliases =
      node.attributes.Get<bool>("in_place")
          ? ", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [],"
            " operand_index = 0, operand_tuple_indices = []>]"
          : "";
  printer.Line(
      node,
      absl::StrCat("\"stablehlo.custom_call\"(", printer.Names(node.operands),
                   ") {api_version = 4 : i32, backend_config = {", absl::StrJoin(config, ", "),
                   "}, call_target_name = ", target,
                   ", has_side_effect = false, operand_layouts = ", Layouts(operands), aliases,
                   ", result_layouts = ", Layouts(node.results), "} : ", FunctionType(node)));
}

const OpDef kCustomCall = {.name = "stablehlo.custom_call",
                           .infer = InferCustomCall,
                           .print = PrintCustomCall,
                           .expensive = true};

}  // namespace

Values CustomCall(Graph& graph, absl::string_view target, const Values& operands,
                  const std::vector<TensorType>& results, const Attributes& attributes,
                  bool in_place) {
  Ints dtypes, dims;
  for (const TensorType& type : results) {
    dtypes.push_back(static_cast<int64_t>(type.dtype));
    dims.push_back(type.shape.rank());
    dims.insert(dims.end(), type.shape.begin(), type.shape.end());
  }
  Attributes all{{"target", std::string(target)},
                 {"result_dtypes", dtypes},
                 {"result_dims", dims},
                 {"in_place", in_place}};
  for (const auto& [name, value] : attributes) all.Set(absl::StrCat(kOfKernel, name), value);
  const Values out = graph.Emit(kCustomCall, operands, all);
  return out.empty() ? Values(results.size()) : out;
}

OpList CustomCallOps() {
  static constexpr const OpDef* kOps[] = {&kCustomCall};
  return kOps;
}

}  // namespace penstock::ir
