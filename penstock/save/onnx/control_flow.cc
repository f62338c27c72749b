// Translations of loops and branches: Loop and If, whose bodies are subgraphs. A subgraph uses
// tensors of the enclosing graph directly, so only what changes is passed.
#include <utility>

#include "penstock/ir/operations/scan.h"
#include "penstock/save/onnx/translations.h"

namespace penstock::save::onnx {
namespace {

using ir::DType;
using Tensors = std::vector<Tensor>;

// A tensor of the model with all its elements in order.
Tensor Plain(std::string name, const Shape& shape) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.shape = shape;
  tensor.order = AllAxes(shape.size());
  tensor.stretched.assign(shape.size(), false);
  return tensor;
}

// The number and the condition that a body of Loop gets; returns the number's name, int64.
std::string AddLoopInputs(ModelBuilder& model, std::string& condition) {
  std::string number = model.NewName("iteration");
  condition = model.NewName("condition");
  model.AddInput(number, DType::kI64, {});
  model.AddInput(condition, DType::kBool, {});
  return number;
}

// An output of a subgraph has a name of its own.
void AddBodyOutput(ModelBuilder& model, const std::string& from, DType dtype, const Shape& shape) {
  const std::string name = model.NewName("result");
  model.AddAs(name, "Identity", {from});
  model.AddOutput(name, dtype, shape);
}

Tensors AddStateInputs(ModelBuilder& model, const Translator& t, size_t states) {
  Tensors inputs;
  for (size_t i = 0; i < states; ++i) {
    const int operand = static_cast<int>(i);
    const std::string name = model.NewName("state");
    model.AddInput(name, t.operand_type(operand).dtype, t.OperandShape(operand));
    inputs.push_back(Plain(name, t.OperandShape(operand)));
  }
  return inputs;
}

absl::Status TranslateScan(Translator& t) {
  const ir::Loop loop = ir::Loop::Of(t.node());
  const Shape count = t.ExtentsOf("count");
  const ir::Graph& region = *t.node().regions[0];
  ModelBuilder& model = t.model();
  const std::string trips = model.Extent(count[0]);
  Names inputs{trips, ""};
  for (size_t i = 0; i < loop.states; ++i) inputs.push_back(t.Full(static_cast<int>(i)));
  // Named here, not in the body, which ends before other nodes use them.
  Names xs;
  Tensors constants;
  for (size_t i = loop.states; i < t.node().operands.size(); ++i) {
    const int operand = static_cast<int>(i);
    if (i < loop.states + loop.xs) {
      xs.push_back(t.Full(operand));
    } else {
      constants.push_back(t.Operand(operand));
    }
  }
  const std::string one = model.Constant(base::Array::Scalar<int64_t>(1));
  const std::string last = loop.reverse ? model.Add("Sub", {trips, one}) : "";

  model.BeginSubgraph();
  std::string condition;
  std::string row = AddLoopInputs(model, condition);
  const Tensors states = AddStateInputs(model, t, loop.states);
  if (loop.reverse) row = model.Add("Sub", {last, row});
  Tensors parameters{Plain(t.Cast(row, DType::kI64, DType::kI32), {})};
  parameters.insert(parameters.end(), states.begin(), states.end());
  for (size_t i = 0; i < xs.size(); ++i) {
    const Shape stack = t.OperandShape(static_cast<int>(loop.states + i));
    parameters.push_back(Plain(model.Add("Gather", {xs[i], row}, {{"axis", int64_t{0}}}),
                               Shape(stack.begin() + 1, stack.end())));
  }
  parameters.insert(parameters.end(), constants.begin(), constants.end());
  AddBodyOutput(model, condition, DType::kBool, {});
  absl::StatusOr<Tensors> results = t.Body(region, std::move(parameters));
  if (results.ok()) {
    for (size_t i = 0; i < results->size(); ++i) {
      AddBodyOutput(model, (*results)[i].name, region.results()[i].dtype(), (*results)[i].shape);
    }
  }
  const Subgraph body = model.EndSubgraph();
  PENSTOCK_RETURN_IF_ERROR(results.status());
  const Names done = model.Add("Loop", inputs, t.node().results.size(), {{"body", body}});
  for (size_t i = 0; i < done.size(); ++i) {
    std::string name = done[i];
    // The rows are stacked in the order of the iterations.
    if (loop.reverse && i >= loop.states) {
      name = model.Add("Slice", {name, model.Ints({-1}), model.Ints({INT64_MIN}), model.Ints({0}),
                                 model.Ints({-1})});
    }
    t.SetResult(name, static_cast<int>(i));
  }
  return absl::OkStatus();
}

absl::Status TranslateWhile(Translator& t) {
  const ir::Graph &condition = *t.node().regions[0], &region = *t.node().regions[1];
  ModelBuilder& model = t.model();
  const size_t states = t.node().operands.size();
  Tensors init;
  Names inputs{"", ""};
  for (size_t i = 0; i < states; ++i) {
    inputs.push_back(t.Full(static_cast<int>(i)));
    init.push_back(Plain(inputs.back(), t.OperandShape(static_cast<int>(i))));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Tensors first, t.Body(condition, init));
  inputs[1] = first[0].name;
  model.BeginSubgraph();
  std::string unused;
  AddLoopInputs(model, unused);
  absl::StatusOr<Tensors> next = t.Body(region, AddStateInputs(model, t, states));
  absl::StatusOr<Tensors> more = next.ok() ? t.Body(condition, *next) : next;
  if (more.ok()) {
    AddBodyOutput(model, (*more)[0].name, DType::kBool, {});
    for (size_t i = 0; i < states; ++i) {
      AddBodyOutput(model, (*next)[i].name, t.node().results[i].dtype, (*next)[i].shape);
    }
  }
  const Subgraph body = model.EndSubgraph();
  PENSTOCK_RETURN_IF_ERROR(more.status());
  const Names done = model.Add("Loop", inputs, states, {{"body", body}});
  for (size_t i = 0; i < done.size(); ++i) t.SetResult(done[i], static_cast<int>(i));
  return absl::OkStatus();
}

absl::Status TranslateIf(Translator& t) {
  ModelBuilder& model = t.model();
  Tensors operands;
  for (size_t i = 1; i < t.node().operands.size(); ++i) {
    operands.push_back(t.Operand(static_cast<int>(i)));
  }
  NodeAttributes branches;
  for (int i = 0; i < 2; ++i) {
    const ir::Graph& region = *t.node().regions[i];
    model.BeginSubgraph();
    absl::StatusOr<Tensors> results = t.Body(region, operands);
    if (results.ok()) {
      for (size_t k = 0; k < results->size(); ++k) {
        AddBodyOutput(model, (*results)[k].name, region.results()[k].dtype(), (*results)[k].shape);
      }
    }
    branches.emplace_back(i == 0 ? "then_branch" : "else_branch", model.EndSubgraph());
    PENSTOCK_RETURN_IF_ERROR(results.status());
  }
  const Names done = model.Add("If", {t.Full(0)}, t.node().results.size(), branches);
  for (size_t i = 0; i < done.size(); ++i) t.SetResult(done[i], static_cast<int>(i));
  return absl::OkStatus();
}

}  // namespace

TranslationTable ControlFlowTranslations() {
  static constexpr Translation kTable[] = {
      {"penstock.scan", TranslateScan},
      {"stablehlo.while", TranslateWhile},
      {"stablehlo.if", TranslateIf},
  };
  return kTable;
}

}  // namespace penstock::save::onnx
