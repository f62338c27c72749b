#include "penstock/save/onnx/model_builder.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/save/onnx.pb.h"

namespace penstock::save::onnx {

using base::Array;
using base::DType;

namespace {

// The numbers of AttributeProto.type.
enum AttributeType { kFloat = 1, kInt = 2, kString = 3, kGraph = 5, kInts = 7 };

void SetAttribute(proto::AttributeProto& attribute, const AttributeValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    attribute.set_type(kInt);
    attribute.set_i(*number);
  } else if (const auto* real = std::get_if<float>(&value)) {
    attribute.set_type(kFloat);
    attribute.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    attribute.set_type(kString);
    attribute.set_s(*text);
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    attribute.set_type(kInts);
    attribute.mutable_ints()->Add(list->begin(), list->end());
  } else {
    attribute.set_type(kGraph);
    *attribute.mutable_g() = *std::get<Subgraph>(value);
  }
}

void FillNode(proto::NodeProto& node, const char* op, const Names& inputs, const Names& outputs,
              const NodeAttributes& attributes) {
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  node.set_name(outputs[0]);
  for (const auto& [name, value] : attributes) {
    proto::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    SetAttribute(attribute, value);
  }
}

}  // namespace

DType StoredType(DType dtype) {
  return base::IsFloat(dtype) && base::ByteWidth(dtype) < 4 ? DType::kF32 : dtype;
}

int ElementTypeOf(DType dtype) {
  switch (StoredType(dtype)) {
    case DType::kF32:
      return 1;
    case DType::kU8:
      return 2;
    case DType::kI8:
      return 3;
    case DType::kU16:
      return 4;
    case DType::kI16:
      return 5;
    case DType::kI32:
      return 6;
    case DType::kI64:
      return 7;
    case DType::kBool:
      return 9;
    case DType::kF64:
      return 11;
    case DType::kU32:
      return 12;
    case DType::kU64:
      return 13;
    default:
      return 0;
  }
}

namespace {

void SetValueInfo(proto::ValueInfoProto& info, absl::string_view name, DType dtype,
                  const std::vector<ir::Extent>& shape) {
  info.set_name(std::string(name));
  proto::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(ElementTypeOf(dtype));
  type.mutable_shape();
  for (const ir::Extent& extent : shape) {
    proto::TensorShapeProto::Dimension& dim = *type.mutable_shape()->add_dim();
    if (extent.batches == 0) {
      dim.set_dim_value(extent.size);
    } else {
      dim.set_dim_param(extent.batches == 1 ? "batch" : absl::StrCat("batch_x", extent.batches));
    }
  }
}

}  // namespace

ModelBuilder::ModelBuilder(absl::string_view name)
    : preamble_(std::make_unique<proto::GraphProto>()) {
  graphs_.push_back(std::make_unique<proto::GraphProto>());
  graphs_.back()->set_name(name.empty() ? "program" : std::string(name));
}

ModelBuilder::~ModelBuilder() = default;

void ModelBuilder::AddInput(absl::string_view name, DType dtype,
                            const std::vector<ir::Extent>& shape) {
  names_.insert(std::string(name));
  for (size_t i = 0; i < shape.size() && graphs_.size() == 1 && batch_input_.empty(); ++i) {
    if (shape[i].batches != 1) continue;
    batch_input_ = std::string(name);
    batch_axis_ = static_cast<int64_t>(i);
  }
  SetValueInfo(*graphs_.back()->add_input(), name, dtype, shape);
}

void ModelBuilder::AddOutput(absl::string_view name, DType dtype,
                             const std::vector<ir::Extent>& shape) {
  SetValueInfo(*graphs_.back()->add_output(), name, dtype, shape);
}

std::string ModelBuilder::NewName(absl::string_view base) {
  std::string name(base);
  while (name.empty() || !names_.insert(name).second) {
    name = absl::StrCat(base, "_", ++next_number_[base]);
  }
  return name;
}

Names ModelBuilder::Add(const char* op, const Names& inputs, size_t results,
                        const NodeAttributes& attributes) {
  Names outputs;
  for (size_t i = 0; i < results; ++i) {
    outputs.push_back(NewName(absl::StrCat(scope_, scope_.empty() ? "" : "/", op)));
  }
  FillNode(*graphs_.back()->add_node(), op, inputs, outputs, attributes);
  return outputs;
}

void ModelBuilder::AddAs(absl::string_view result, const char* op, const Names& inputs) {
  FillNode(*graphs_.back()->add_node(), op, inputs, {std::string(result)}, {});
}

std::string ModelBuilder::AddInitializer(absl::string_view name, const Array& array) {
  initializers_.push_back({NewName(name), array});
  return initializers_.back().name;
}

std::string ModelBuilder::Constant(const Array& array) {
  std::string key = absl::StrCat(array.TypeString(), ":");
  key.append(static_cast<const char*>(array.raw()), static_cast<size_t>(array.num_bytes()));
  const auto [place, added] = constants_.try_emplace(std::move(key));
  if (added) place->second = AddInitializer("constant", array);
  return place->second;
}

std::string ModelBuilder::Ints(const std::vector<int64_t>& numbers) {
  return Constant(Array::Of<int64_t>({static_cast<int64_t>(numbers.size())}, numbers));
}

std::string ModelBuilder::AddToPreamble(const char* op, const Names& inputs,
                                        const NodeAttributes& attributes) {
  const std::string name = NewName("batch_size");
  FillNode(*preamble_->add_node(), op, inputs, {name}, attributes);
  return name;
}

std::string ModelBuilder::Multiple(int64_t batches) {
  if (const auto found = multiples_.find(batches); found != multiples_.end()) return found->second;
  std::string name;
  if (batches == 1) {
    name =
        AddToPreamble("Shape", {batch_input_}, {{"start", batch_axis_}, {"end", batch_axis_ + 1}});
  } else {
    name = AddToPreamble("Mul", {Multiple(1), Ints({batches})}, {});
  }
  multiples_[batches] = name;
  return name;
}

std::string ModelBuilder::Extents(const std::vector<ir::Extent>& extents) {
  std::string key;
  std::vector<int64_t> sizes;
  bool dynamic = false;
  for (const ir::Extent& extent : extents) {
    absl::StrAppend(&key, extent.size, "+", extent.batches, ",");
    sizes.push_back(extent.size);
    dynamic = dynamic || extent.batches != 0;
  }
  if (!dynamic) return Ints(sizes);
  if (extents.size() == 1) return Multiple(extents[0].batches);
  if (const auto found = extents_.find(key); found != extents_.end()) return found->second;
  Names parts;
  for (const ir::Extent& extent : extents) {
    parts.push_back(extent.batches != 0 ? Multiple(extent.batches) : Ints({extent.size}));
  }
  const std::string name = AddToPreamble("Concat", parts, {{"axis", 0}});
  extents_[key] = name;
  return name;
}

std::string ModelBuilder::Extent(const ir::Extent& extent) {
  if (extent.batches == 0) return Constant(Array::Scalar<int64_t>(extent.size));
  const std::string key = absl::StrCat("scalar ", extent.batches);
  const auto [place, added] = extents_.try_emplace(key);
  if (added) place->second = AddToPreamble("Squeeze", {Multiple(extent.batches), Ints({0})}, {});
  return place->second;
}

void ModelBuilder::BeginSubgraph() {
  graphs_.push_back(std::make_unique<proto::GraphProto>());
  graphs_.back()->set_name(NewName("body"));
}

Subgraph ModelBuilder::EndSubgraph() {
  PENSTOCK_CHECK(graphs_.size() > 1);
  Subgraph graph = std::move(graphs_.back());
  graphs_.pop_back();
  return graph;
}

std::unique_ptr<proto::ModelProto> ModelBuilder::TakeModel() {
  PENSTOCK_CHECK(graphs_.size() == 1);
  auto model = std::make_unique<proto::ModelProto>();
  model->set_ir_version(8);
  model->add_opset_import()->set_version(17);
  proto::GraphProto& graph = *model->mutable_graph();
  graph.Swap(graphs_.back().get());
  // The nodes of the preamble first: a graph's nodes are in topological order.
  google::protobuf::RepeatedPtrField<proto::NodeProto> nodes;
  nodes.Swap(graph.mutable_node());
  graph.mutable_node()->Swap(preamble_->mutable_node());
  for (proto::NodeProto& node : nodes) *graph.add_node() = std::move(node);
  return model;
}

}  // namespace penstock::save::onnx
