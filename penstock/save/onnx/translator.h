// Translator: writes a graph of room ir as nodes of an ONNX model. Each operation has a
// Translation, in the file of its family (translations.h lists the families); it reads its operands
// from a Translator and gives its results to it.
//
//   absl::Status TranslateTanh(Translator& t) {
//     t.SetResult(t.Elementwise("Tanh", {t.Operand(0)}));
//     return absl::OkStatus();
//   }
//
// Internal to the ONNX exporter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/ir/graph.h"
#include "penstock/ir/symbolic_batch.h"
#include "penstock/save/onnx/model_builder.h"

namespace penstock::save::onnx {

using Axes = std::vector<int64_t>;
using Shape = std::vector<ir::Extent>;

// 0, 1, ..., rank - 1.
Axes AllAxes(size_t rank);
// shape[order[0]], shape[order[1]], ...
Shape InOrder(const Shape& shape, const Axes& order);

// The type in which most operations on `dtype` are computed (elementwise.cc).
ir::DType WorkType(ir::DType dtype);

// A tensor whose elements are known: a weight, or a constant. Reshaping, transposing and converting
// it gives another one, and only the last of these becomes an initializer.
struct KnownTensor {
  base::Array array;
  std::string base_name;    // of the initializer
  std::string initializer;  // its name; empty: it is not in the model yet
};

// An IR value in the ONNX graph. The ONNX tensor may have its axes in another order, and extent 1
// where all elements along an axis are equal: ONNX's elementwise operations broadcast as NumPy's.
struct Tensor {
  std::string name;                    // empty if `known` is set
  std::shared_ptr<KnownTensor> known;  // otherwise null
  Shape shape;                         // of the IR value
  // Axis i of the ONNX tensor is axis order[i] of the IR value.
  Axes order;
  // By axis of the IR value: whether the ONNX tensor has extent 1 on it in place of its extent.
  std::vector<bool> stretched;
  // The ONNX tensor has rank 0, for all elements of the value.
  bool scalar = false;
};

class Translator {
 public:
  Translator(const ir::SymbolicBatch& program, const base::NamedArrays& weights,
             ModelBuilder& model)
      : program_(program), weights_(weights), model_(model) {}

  // Translates the program: parameters that have weights become initializers, the others inputs.
  absl::Status Run();

  // ---- For translations: the node being translated ----
  const ir::Node& node() const { return frames_.back().graph->node(frames_.back().id); }
  const ir::TensorType& operand_type(int i) const { return node().operands[i].type(); }
  ModelBuilder& model() { return model_; }
  template <typename T>
  const T& Attribute(absl::string_view name) const {
    return node().attributes.Get<T>(name);
  }
  // A numeric attribute, or a list of numbers.
  Shape ExtentsOf(absl::string_view attribute) const;
  Shape ResultShape(int i = 0) const;
  Shape OperandShape(int i) const;

  // The operand as it is in the model; with all its elements in its own order of axes; or in
  // another order.
  const Tensor& Operand(int i) const;
  std::string Full(int i) { return Full(Operand(i)); }
  std::string Full(const Tensor& tensor) { return Full(tensor, AllAxes(tensor.shape.size())); }
  std::string Full(const Tensor& tensor, const Axes& order);

  // Gives result i, all elements of which are in `name`.
  void SetResult(std::string name, int i = 0);
  // The same with the axes in another order, as Tensor::order.
  void SetResult(std::string name, Axes order, int i = 0);
  void SetResult(Tensor tensor, int i = 0);

  // A constant value of this shape: the array, or its only element if its rank is 0.
  static Tensor ConstantTensor(const base::Array& array, const Shape& shape);
  static Tensor Scalar(ir::DType dtype, double value, const Shape& shape);
  // An elementwise operation on values of one shape, without expanding them.
  Tensor Elementwise(const char* op, const std::vector<Tensor>& operands,
                     const NodeAttributes& attributes = {});
  // Conversion to the stored type of `to`.
  Tensor Cast(const Tensor& tensor, ir::DType from, ir::DType to);
  std::string Cast(const std::string& name, ir::DType from, ir::DType to);
  // `known` with another shape (`array` is its array, reshaped), which stays the same
  // initializer's.
  static std::shared_ptr<KnownTensor> Reshaped(const std::shared_ptr<KnownTensor>& known,
                                               const base::Array& array);
  // The name of the tensor with its axes in its own order; stretched axes have extent 1.
  std::string Ordered(const Tensor& tensor) {
    return NameOf(Reordered(tensor, AllAxes(tensor.shape.size())));
  }
  // The tensor with its axes permuted: axis i of the result is axis order[i] of `name`.
  std::string Transpose(const std::string& name, const Axes& order);

  // Known elements of a tensor that holds all of them in order, or null.
  static const base::Array* Known(const Tensor& tensor);

  // An error of this node.
  absl::Status Unsupported(absl::string_view why) const;

  // Translates a body in the graph or the subgraph under construction, with these tensors in place
  // of its parameters.
  absl::StatusOr<std::vector<Tensor>> Body(const ir::Graph& body, std::vector<Tensor> parameters);

 private:
  // A graph being translated: the program, or a body.
  struct Frame {
    const ir::Graph* graph;
    int id = 0;                                               // the current node
    std::vector<std::vector<Tensor>> values;                  // by node and result
    absl::flat_hash_map<std::string, std::string> memo = {};  // expanded and transposed tensors
  };

  absl::Status CheckTypes() const;
  absl::Status Nodes();
  absl::Status AddParameters();
  absl::Status CheckIsStatic() const;  // an error if a shape depends on the batch size
  std::string NameOf(const Tensor& tensor);
  Tensor Reordered(const Tensor& tensor, const Axes& order);
  const std::string* Remembered(const std::string& key) const;

  const ir::SymbolicBatch& program_;
  const base::NamedArrays& weights_;
  ModelBuilder& model_;
  std::vector<Frame> frames_;
  // Known tensors that were permuted, by the original, which is kept so that no other one gets its
  // address.
  struct Permuted {
    std::shared_ptr<KnownTensor> original, result;
  };
  absl::flat_hash_map<std::pair<const KnownTensor*, std::string>, Permuted> permuted_;
};

// The array with its axes permuted: axis i of the result is axis order[i] of `array`.
base::Array PermuteAxes(const base::Array& array, const Axes& order);

}  // namespace penstock::save::onnx
