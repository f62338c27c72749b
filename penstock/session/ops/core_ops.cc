#include "penstock/session/ops/core_ops.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/session/infer.h"
#include "penstock/session/lowering.h"
#include "penstock/session/ops/known_integers.h"
#include "penstock/session/run/plan.h"

namespace penstock::session {
namespace {

std::string NameOr(absl::string_view name, absl::string_view otherwise) {
  return std::string(name.empty() ? otherwise : name);
}

}  // namespace

Tensor Placeholder(DType dtype, const PartialShape& shape, absl::string_view name,
                   SourceLocation where) {
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return Tensor();
  if (!base::IsNumeric(dtype)) {
    return FailOp(
        {}, "Placeholder",
        absl::StrCat("devices have no values of type ", base::DTypeName(dtype), "; feed numbers"),
        where);
  }
  for (int i = 0; i < std::max(shape.rank(), 0); ++i) {
    if (shape.dim(i) >= -1) continue;
    return FailOp({}, absl::StrCat("Placeholder '", name, "'"),
                  absl::StrCat("extent ", i, " of its shape is ", shape.dim(i),
                               "; it must be at least 0, or -1 if it is unknown"),
                  where);
  }
  Node* const node = graph->AddNode({.type = kPlaceholderType,
                                     .name = std::string(name),
                                     .outputs = std::vector<Node::Output>{{dtype, shape}}},
                                    {}, nullptr, where);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

Tensor PlaceholderWithDefault(const Tensor& input, const PartialShape& shape,
                              absl::string_view name, SourceLocation where) {
  if (!input.valid()) return FailOp({}, "PlaceholderWithDefault", "its input is invalid", where);
  if (!shape.IsCompatibleWith(input.shape())) {
    return FailOp(
        {input}, "PlaceholderWithDefault",
        absl::StrCat("its default is ", TypeString(input), ", its shape ", shape.ToString()),
        where);
  }
  Node* const node = input.graph()->AddNode(
      {.type = "PlaceholderWithDefault",
       .name = std::string(name),
       .outputs = std::vector<Node::Output>{{input.dtype(), shape}}},
      {input}, [](Lowering&, const ir::Values& in) { return in; }, where);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

Tensor Constant(const Array& value, absl::string_view name, SourceLocation where) {
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return Tensor();
  if (!base::IsNumeric(value.dtype())) {
    return FailOp({}, "Const",
                  absl::StrCat("devices have no values of type ", base::DTypeName(value.dtype()),
                               "; constants are numbers"),
                  where);
  }
  // A copy: the caller may write to the array later.
  const auto lower = [own = value.Clone()](Lowering& lowering, const ir::Values&) {
    return ir::Values{ir::Constant(lowering.graph(), own)};
  };
  Node* const node =
      graph->AddNode({.type = "Const",
                      .name = NameOr(name, "Const"),
                      .outputs = std::vector<Node::Output>{{value.dtype(), value.shape()}}},
                     {}, lower, where);
  if (node == nullptr) return Tensor();
  if (auto known = internal::KnownIntegersOf(value)) {
    internal::SetKnown(Tensor(node, 0), *std::move(known));
  }
  return Tensor(node, 0);
}

Tensor Constant(double value, absl::string_view name, SourceLocation where) {
  return Constant(Array::Scalar(static_cast<float>(value)), name, where);
}

Tensor Constant(int value, absl::string_view name, SourceLocation where) {
  return Constant(Array::Scalar(static_cast<int32_t>(value)), name, where);
}

Tensor Constant(bool value, absl::string_view name, SourceLocation where) {
  return Constant(Array::Scalar(value), name, where);
}

Tensor Constant(double value, DType dtype, absl::string_view name, SourceLocation where) {
  if (!base::IsNumeric(dtype)) {
    return FailOp({}, "Const", absl::StrCat(base::DTypeName(dtype), " is no type of numbers"),
                  where);
  }
  return Constant(*Array::Scalar(value).Cast(dtype), name, where);
}

Tensor Constant(std::initializer_list<double> values, absl::string_view name,
                SourceLocation where) {
  const std::vector<float> floats(values.begin(), values.end());
  return Constant(Array::Of<float>({static_cast<int64_t>(floats.size())}, floats), name, where);
}

Tensor Identity(const Tensor& input, absl::string_view name, SourceLocation where) {
  return AddOp("Identity", {input}, name, where, [](const ir::Values& in) { return in[0]; });
}

Tensors IdentityN(const Tensors& inputs, absl::string_view name, SourceLocation where) {
  return AddOps("IdentityN", inputs, name, where, [](const ir::Values& in) { return in; });
}

Tensor StopGradient(const Tensor& input, absl::string_view name, SourceLocation where) {
  return AddOp("StopGradient", {input}, name, where,
               [](const ir::Values& in) { return ir::StopGradient(in[0]); });
}

Operation NoOp(absl::string_view name, SourceLocation where) {
  return Group({}, NameOr(name, "NoOp"), where);
}

Operation Group(const Operations& inputs, absl::string_view name, SourceLocation where) {
  Graph* graph = Graph::Default();
  std::vector<Node*> before;
  for (const Operation& input : inputs) {
    if (!input.valid()) {
      FailOp({}, "group", "one of its operations is invalid", where);
      return Operation();
    }
    graph = input.node()->graph;
    before.push_back(input.node());
  }
  if (graph == nullptr) return Operation();
  return Operation(graph->AddNode(
      {.type = "NoOp",
       .name = NameOr(name, "group_deps"),
       .outputs = std::vector<Node::Output>(),
       .control_inputs = before},
      {}, [](Lowering&, const ir::Values&) { return ir::Values(); }, where));
}

Tensors Tuple(const Tensors& tensors, absl::string_view name, const Operations& control_inputs,
              SourceLocation where) {
  Operations all = control_inputs;
  for (const Tensor& tensor : tensors) {
    if (tensor.valid()) all.push_back(tensor);
  }
  if (all.empty() || all[0].node() == nullptr) return Tensors(tensors.size());
  const Graph::DefaultScope scope = all[0].node()->graph->AsDefault();
  const ControlDependencies after(Operations{Group(all, "", where)});
  Tensors outputs;
  for (const Tensor& tensor : tensors) {
    outputs.push_back(tensor.valid() ? Identity(tensor, NameOr(name, "tuple"), where) : tensor);
  }
  return outputs;
}

}  // namespace penstock::session
