// ModelBuilder: an ONNX model under construction: nodes, initializers, names. It knows ONNX, and
// nothing of the graphs of room ir. Internal to the ONNX exporter.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/ir/symbolic_batch.h"

namespace penstock::save::onnx {

namespace proto {  // onnx.proto
class GraphProto;
class ModelProto;
}  // namespace proto

// The type of TensorProto for a dtype, 0 if there is none. Floats of 16 bits and less are exported
// as float32: ONNX Runtime's kernels for CPUs lack most operations of theirs.
int ElementTypeOf(base::DType dtype);
// The type with which a value of `dtype` is stored in the model: kF32 for 16-bit floats.
base::DType StoredType(base::DType dtype);

// The body of a loop or a branch.
using Subgraph = std::shared_ptr<const proto::GraphProto>;
// Value of a node's attribute.
using AttributeValue = std::variant<int64_t, float, std::string, std::vector<int64_t>, Subgraph>;
using NodeAttributes = std::vector<std::pair<const char*, AttributeValue>>;
using Names = std::vector<std::string>;

// Elements of an initializer, which are written into the model or beside it.
struct Initializer {
  std::string name;
  base::Array array;
};

class ModelBuilder {
 public:
  explicit ModelBuilder(absl::string_view name);
  ~ModelBuilder();

  // Inputs and outputs of the model, or of the subgraph under construction.
  void AddInput(absl::string_view name, base::DType dtype, const std::vector<ir::Extent>& shape);
  void AddOutput(absl::string_view name, base::DType dtype, const std::vector<ir::Extent>& shape);

  // Whether an input of the model has an axis of the batch size, without which there are no
  // multiples of it.
  bool has_batch() const { return !batch_input_.empty(); }

  // Nodes are named after the layer that they belong to: "block1_conv1/Conv".
  void set_scope(absl::string_view scope) { scope_ = std::string(scope); }
  // Adds a node, whose results get new names.
  Names Add(const char* op, const Names& inputs, size_t results,
            const NodeAttributes& attributes = {});
  std::string Add(const char* op, const Names& inputs, const NodeAttributes& attributes = {}) {
    return Add(op, inputs, 1, attributes)[0];
  }
  // Adds a node whose only result has this name.
  void AddAs(absl::string_view result, const char* op, const Names& inputs);

  // Adds a tensor that the model holds, and returns its name, which begins with `name`.
  std::string AddInitializer(absl::string_view name, const base::Array& array);
  // A small constant; equal ones are stored once.
  std::string Constant(const base::Array& array);
  // A list of int64.
  std::string Ints(const std::vector<int64_t>& numbers);
  // A list of int64 in which multiples of the batch size are computed when the model runs.
  std::string Extents(const std::vector<ir::Extent>& extents);
  // The scalar number extent, int64.
  std::string Extent(const ir::Extent& extent);

  // A new name that begins with `base`. Names are unique in the whole model.
  std::string NewName(absl::string_view base);

  // Between these, nodes, inputs and outputs belong to a subgraph, whose nodes may use every name
  // of the enclosing graph.
  void BeginSubgraph();
  Subgraph EndSubgraph();

  // The model without its initializers, and these.
  std::unique_ptr<proto::ModelProto> TakeModel();
  const std::vector<Initializer>& initializers() const { return initializers_; }

 private:
  // Adds a node to the beginning of the model. Subgraphs may use its results, too.
  std::string AddToPreamble(const char* op, const Names& inputs, const NodeAttributes& attributes);
  std::string Multiple(int64_t batches);  // int64[1]

  // The model's, then those of the open subgraphs.
  std::vector<std::unique_ptr<proto::GraphProto>> graphs_;
  std::unique_ptr<proto::GraphProto> preamble_;  // nodes that compute multiples of the batch size
  std::vector<Initializer> initializers_;
  std::string scope_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::string, int> next_number_;        // by base of a name
  absl::flat_hash_map<std::string, std::string> constants_;  // by type, shape and bytes
  absl::flat_hash_map<std::string, std::string> extents_;    // by text
  absl::flat_hash_map<int64_t, std::string> multiples_;
  std::string batch_input_;  // an input with the batch on batch_axis_; empty: there is none
  int64_t batch_axis_ = 0;
};

}  // namespace penstock::save::onnx
