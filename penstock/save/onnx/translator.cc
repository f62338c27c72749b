#include "penstock/save/onnx/translator.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/save/onnx/translations.h"

namespace penstock::save::onnx {

using base::Array;
using ir::DType;

Axes AllAxes(size_t rank) {
  Axes axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = static_cast<int64_t>(i);
  return axes;
}

Shape InOrder(const Shape& shape, const Axes& order) {
  Shape permuted;
  for (int64_t axis : order) permuted.push_back(shape[axis]);
  return permuted;
}

DType WorkType(DType dtype) {
  if (base::IsFloat(dtype)) return dtype;
  const bool narrow = dtype == DType::kBool || base::BitWidth(dtype) < 32;
  return narrow || dtype == DType::kI32 ? DType::kI32 : DType::kI64;
}

Array PermuteAxes(const Array& array, const Axes& order) {
  const size_t rank = order.size(), width = static_cast<size_t>(base::ByteWidth(array.dtype()));
  Axes strides(rank, static_cast<int64_t>(width)), dims(rank), steps(rank);
  for (size_t i = rank; i-- > 1;) {
    strides[i - 1] = strides[i] * array.dim(static_cast<int>(i));
  }
  for (size_t i = 0; i < rank; ++i) {
    dims[i] = array.dim(static_cast<int>(order[i]));
    steps[i] = strides[order[i]];
  }
  Array permuted = Array::Uninitialized(array.dtype(), base::Shape(dims));
  const char* from = static_cast<const char*>(array.raw());
  char* to = static_cast<char*>(permuted.mutable_raw());
  Axes index(rank, 0);
  for (int64_t n = permuted.num_elements(); n > 0; --n, to += width) {
    std::memcpy(to, from, width);
    for (size_t axis = rank; axis-- > 0;) {
      from += steps[axis];
      if (++index[axis] < dims[axis]) break;
      from -= steps[axis] * dims[axis];
      index[axis] = 0;
    }
  }
  return permuted;
}

// ---- The tables ----

const Translation* FindTranslation(const ir::Node& node) {
  static const auto* const table = [] {
    auto* all = new absl::flat_hash_map<absl::string_view, const Translation*>;
    for (TranslationTable family :
         {ElementwiseTranslations(), ShapeTranslations(), ProductTranslations(),
          WindowTranslations(), OrderTranslations(), ControlFlowTranslations()}) {
      for (const Translation& translation : family) {
        PENSTOCK_CHECK(all->emplace(translation.operation, &translation).second);
      }
    }
    return all;
  }();
  const auto found = table->find(ir::OpName(node));
  if (found == table->end()) return nullptr;
  const Translation* const translation = found->second;
  return translation->accepts == nullptr || translation->accepts(node) ? translation : nullptr;
}

// ---- The node being translated ----

Shape Translator::ExtentsOf(absl::string_view attribute) const {
  return program_.AttributeOf(*frames_.back().graph, frames_.back().id, attribute);
}

Shape Translator::ResultShape(int i) const {
  return program_.ShapeOf(
      const_cast<ir::Graph*>(frames_.back().graph)->value(frames_.back().id, i));
}

Shape Translator::OperandShape(int i) const { return Operand(i).shape; }

const Tensor& Translator::Operand(int i) const {
  const ir::Value& value = node().operands[i];
  return frames_.back().values[value.node_id()][value.result()];
}

const Array* Translator::Known(const Tensor& tensor) {
  const bool plain = tensor.known != nullptr && !tensor.scalar &&
                     tensor.order == AllAxes(tensor.shape.size()) &&
                     std::count(tensor.stretched.begin(), tensor.stretched.end(), true) == 0;
  return plain ? &tensor.known->array : nullptr;
}

absl::Status Translator::Unsupported(absl::string_view why) const {
  const Frame& frame = frames_.back();
  const std::string where = frame.graph->origins()[node().origin].ToString();
  return absl::UnimplementedError(absl::StrCat(where, where.empty() ? "" : ": ", ir::OpName(node()),
                                               " cannot be exported as ONNX: ", why));
}

void Translator::SetResult(Tensor tensor, int i) {
  tensor.shape = ResultShape(i);
  if (tensor.stretched.empty()) tensor.stretched.assign(tensor.shape.size(), false);
  frames_.back().values[frames_.back().id][i] = std::move(tensor);
}

void Translator::SetResult(std::string name, Axes order, int i) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.order = std::move(order);
  SetResult(std::move(tensor), i);
}

void Translator::SetResult(std::string name, int i) {
  SetResult(std::move(name), AllAxes(node().results[i].shape.rank()), i);
}

// ---- Tensors ----

std::string Translator::NameOf(const Tensor& tensor) {
  if (tensor.known == nullptr) return tensor.name;
  KnownTensor& known = *tensor.known;
  if (known.initializer.empty()) {
    known.initializer = known.base_name.empty()
                            ? model_.Constant(known.array)
                            : model_.AddInitializer(known.base_name, known.array);
  }
  return known.initializer;
}

std::shared_ptr<KnownTensor> Translator::Reshaped(const std::shared_ptr<KnownTensor>& known,
                                                  const Array& array) {
  if (array.shape() == known->array.shape()) return known;
  return std::make_shared<KnownTensor>(
      KnownTensor{.array = array, .base_name = known->base_name, .initializer = {}});
}

const std::string* Translator::Remembered(const std::string& key) const {
  const auto found = frames_.back().memo.find(key);
  return found == frames_.back().memo.end() ? nullptr : &found->second;
}

std::string Translator::Transpose(const std::string& name, const Axes& order) {
  if (order == AllAxes(order.size())) return name;
  const std::string key = absl::StrCat("transposed ", absl::StrJoin(order, ","), " ", name);
  if (const std::string* made = Remembered(key)) return *made;
  std::string transposed = model_.Add("Transpose", {name}, {{"perm", order}});
  frames_.back().memo[key] = transposed;
  return transposed;
}

// The same tensor with another order of axes in the model.
Tensor Translator::Reordered(const Tensor& tensor, const Axes& order) {
  Tensor result = tensor;
  result.order = order;
  if (tensor.scalar || tensor.order == order) return result;
  Axes permutation;  // places of the new axes among the old ones
  for (int64_t axis : order) {
    permutation.push_back(std::find(tensor.order.begin(), tensor.order.end(), axis) -
                          tensor.order.begin());
  }
  if (tensor.known == nullptr) {
    result.name = Transpose(tensor.name, permutation);
    return result;
  }
  Permuted& made = permuted_[{tensor.known.get(), absl::StrJoin(permutation, ",")}];
  if (made.result == nullptr) {
    made.original = tensor.known;
    made.result = std::make_shared<KnownTensor>(
        KnownTensor{.array = PermuteAxes(tensor.known->array, permutation),
                    .base_name = tensor.known->base_name,
                    .initializer = {}});
  }
  result.known = made.result;
  return result;
}

std::string Translator::Full(const Tensor& tensor, const Axes& order) {
  const Tensor ordered = Reordered(tensor, order);
  const std::string name = NameOf(ordered);
  const bool complete = std::count(ordered.stretched.begin(), ordered.stretched.end(), true) == 0 &&
                        (!ordered.scalar || ordered.shape.empty());
  if (complete) return name;
  const std::string shape = model_.Extents(InOrder(tensor.shape, order));
  const std::string key = absl::StrCat("expanded ", shape, " ", name);
  if (const std::string* made = Remembered(key)) return *made;
  std::string expanded = model_.Add("Expand", {name, shape});
  frames_.back().memo[key] = expanded;
  return expanded;
}

Tensor Translator::ConstantTensor(const Array& array, const Shape& shape) {
  Tensor tensor;
  tensor.known = std::make_shared<KnownTensor>(
      KnownTensor{.array = array, .base_name = "", .initializer = {}});
  tensor.shape = shape;
  tensor.order = AllAxes(shape.size());
  tensor.stretched.assign(shape.size(), false);
  tensor.scalar = array.rank() == 0;
  return tensor;
}

Tensor Translator::Scalar(DType dtype, double value, const Shape& shape) {
  return ConstantTensor(*Array::Scalar<double>(value).Cast(StoredType(dtype)), shape);
}

Tensor Translator::Elementwise(const char* op, const std::vector<Tensor>& operands,
                               const NodeAttributes& attributes) {
  Tensor result;
  result.shape = operands[0].shape;
  result.order = AllAxes(result.shape.size());
  result.stretched.assign(result.shape.size(), true);
  result.scalar = true;
  // The order of the first operand that has another one than its own.
  for (const Tensor& operand : operands) {
    if (operand.scalar || operand.known != nullptr ||
        operand.order == AllAxes(operand.order.size()))
      continue;
    result.order = operand.order;
    break;
  }
  Names names;
  for (const Tensor& operand : operands) {
    names.push_back(NameOf(Reordered(operand, result.order)));
    if (operand.scalar) continue;
    result.scalar = false;
    for (size_t i = 0; i < result.stretched.size(); ++i) {
      result.stretched[i] = result.stretched[i] && operand.stretched[i];
    }
  }
  if (result.scalar) result.stretched.assign(result.shape.size(), false);
  result.name = model_.Add(op, names, attributes);
  return result;
}

std::string Translator::Cast(const std::string& name, DType from, DType to) {
  if (ElementTypeOf(from) == ElementTypeOf(to)) return name;
  return model_.Add("Cast", {name}, {{"to", int64_t{ElementTypeOf(to)}}});
}

Tensor Translator::Cast(const Tensor& tensor, DType from, DType to) {
  if (ElementTypeOf(from) == ElementTypeOf(to)) return tensor;
  return Elementwise("Cast", {tensor}, {{"to", int64_t{ElementTypeOf(to)}}});
}

// ---- Graphs ----

absl::Status Translator::CheckTypes() const {
  const ir::Node& here = node();
  for (const ir::TensorType& type : here.results) {
    if (ElementTypeOf(type.dtype) != 0) continue;
    return Unsupported(absl::StrCat("it has no element type ", base::DTypeName(type.dtype)));
  }
  return absl::OkStatus();
}

absl::Status Translator::Nodes() {
  const ir::Graph& graph = *frames_.back().graph;
  std::vector<bool> is_parameter(static_cast<size_t>(graph.num_nodes()));
  for (const ir::Value& parameter : graph.parameters()) is_parameter[parameter.node_id()] = true;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    if (is_parameter[id]) continue;
    Frame& frame = frames_.back();
    frame.id = id;
    const ir::Node& node = graph.node(id);
    frame.values[id].resize(node.results.size());
    model_.set_scope(graph.origins()[node.origin].scope);
    PENSTOCK_RETURN_IF_ERROR(CheckTypes());
    const Translation* const translation = FindTranslation(node);
    if (translation == nullptr) return Unsupported("it has no translation");
    PENSTOCK_RETURN_IF_ERROR(translation->translate(*this));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> Translator::Body(const ir::Graph& body,
                                                     std::vector<Tensor> parameters) {
  Frame frame{.graph = &body, .values = std::vector<std::vector<Tensor>>(body.num_nodes())};
  for (size_t i = 0; i < parameters.size(); ++i) {
    frame.values[body.parameters()[i].node_id()] = {std::move(parameters[i])};
  }
  frames_.push_back(std::move(frame));
  absl::Status status = Nodes();
  std::vector<Tensor> results;
  for (const ir::Value& result : body.results()) {
    if (!status.ok()) break;
    // Expanded and put into order here, inside the body.
    Tensor& value = frames_.back().values[result.node_id()][result.result()];
    value.name = Full(value);
    value.known = nullptr;
    value.order = AllAxes(value.shape.size());
    value.stretched.assign(value.shape.size(), false);
    value.scalar = false;
    results.push_back(value);
  }
  frames_.pop_back();
  PENSTOCK_RETURN_IF_ERROR(status);
  return results;
}

absl::Status Translator::AddParameters() {
  const ir::Graph& graph = program_.graph();
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const ir::Value& parameter = graph.parameters()[i];
    const std::string& name = graph.parameter_names()[i];
    Frame& frame = frames_.back();
    frame.id = parameter.node_id();
    Tensor tensor;
    tensor.order = AllAxes(parameter.rank());
    const Array* const weight = weights_.Find(name);
    if (weight == nullptr) {
      if (ElementTypeOf(parameter.dtype()) == 0) {
        return absl::UnimplementedError(absl::StrCat("input '", name, "' is ",
                                                     parameter.type().ToString(),
                                                     ", which cannot be exported as ONNX"));
      }
      tensor.name = name;
      model_.AddInput(name, parameter.dtype(), program_.ShapeOf(parameter));
    } else {
      if (weight->dtype() != parameter.dtype() || !(weight->shape() == parameter.shape())) {
        return absl::InvalidArgumentError(
            absl::StrCat("weight '", name, "' is ", weight->TypeString(), ", the program expects ",
                         parameter.type().ToString()));
      }
      PENSTOCK_ASSIGN_OR_RETURN(const Array stored, weight->Cast(StoredType(weight->dtype())));
      tensor.known = std::make_shared<KnownTensor>(
          KnownTensor{.array = stored, .base_name = name, .initializer = {}});
    }
    frame.values[parameter.node_id()].resize(1);
    SetResult(std::move(tensor));
  }
  return model_.has_batch() ? absl::OkStatus() : CheckIsStatic();
}

absl::Status Translator::CheckIsStatic() const {
  const ir::Graph& graph = program_.graph();
  for (int id = 0; id < graph.num_nodes(); ++id) {
    for (size_t i = 0; i < graph.node(id).results.size(); ++i) {
      for (const ir::Extent& extent :
           program_.ShapeOf(const_cast<ir::Graph&>(graph).value(id, static_cast<int>(i)))) {
        if (extent.batches == 0) continue;
        return absl::InvalidArgumentError(
            "no input has an axis of the batch size, on which the program depends");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Translator::Run() {
  const ir::Graph& graph = program_.graph();
  frames_.push_back(
      {.graph = &graph, .values = std::vector<std::vector<Tensor>>(graph.num_nodes())});
  PENSTOCK_RETURN_IF_ERROR(AddParameters());
  // Before nodes take the names of outputs.
  Names outputs;
  for (const std::string& name : graph.result_names()) outputs.push_back(model_.NewName(name));
  PENSTOCK_RETURN_IF_ERROR(Nodes());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ir::Value& result = graph.results()[i];
    const Tensor& tensor = frames_.back().values[result.node_id()][result.result()];
    model_.AddAs(outputs[i], "Identity", {Full(tensor)});
    model_.AddOutput(outputs[i], result.dtype(), tensor.shape);
  }
  frames_.pop_back();
  return absl::OkStatus();
}

}  // namespace penstock::save::onnx
