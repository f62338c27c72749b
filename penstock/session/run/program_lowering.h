// The Lowering of a program: emits the operations of a plan into the program's graph, and those of
// bodies into graphs of their own. Internal to room session.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "penstock/session/lowering.h"
#include "penstock/session/run/plan.h"
#include "penstock/session/variable.h"

namespace penstock::session {

// What a program gets from outside.
class ProgramInputs {
 public:
  virtual ~ProgramInputs() = default;
  // The parameter of a fed tensor, or of an output of a host input; invalid if it is neither.
  virtual ir::Value Fed(const Tensor& tensor) = 0;
  // Whether Fed is valid; adds no parameter.
  virtual bool IsFed(const Tensor& tensor) = 0;
  // The parameter with the value of the variable at the start.
  virtual ir::Value Start(const VariableDef& variable) = 0;
  virtual ir::Value RandomKey(const Node& node) = 0;
  // The results of a graph without parameters.
  virtual absl::StatusOr<Array> Evaluate(const ir::Graph& graph) = 0;
};

// Lowering into one graph: the program's, or a body's.
class Frame : public Lowering {
 public:
  Frame(const Plan& plan, ir::Graph& graph) : plan_(plan), graph_(graph) {}

  // Lowers these operations, which are in order of creation, until one fails.
  void LowerAll(const std::vector<Node*>& nodes);
  // The variables that were assigned, with their last values, in the order of their first
  // assignment.
  std::vector<std::pair<const VariableDef*, ir::Value>> Assigned() const;
  // The value of `value`, if it depends on no parameter of the program.
  absl::StatusOr<Array> ConstantValue(ir::Value value);
  // Compiles and executes a graph without parameters.
  virtual absl::StatusOr<Array> Evaluate(const ir::Graph& graph) = 0;

  ir::Graph& graph() override { return graph_; }
  const Node& node() const override { return *node_; }
  int num_replicas() const override { return graph_.num_replicas(); }
  bool has_gradients() const override { return plan_.has_gradients; }
  ir::Value ValueOf(const Tensor& tensor) override;
  ir::Value Read(const VariableDef& variable) override;
  ir::Value ReadBefore(const VariableDef& variable) override;
  ir::Values ReadsOfAssigned(const VariableDef& variable) override;
  void Assign(const VariableDef& variable, ir::Value value) override;
  absl::StatusOr<Array> ConstantOf(const Node& node, int input, ir::Value value) override;
  LoweredBody LowerBody(const Body& body, absl::Span<const ir::TensorType> arguments,
                        bool iterations) override;
  void Fail(const absl::Status& error) override { graph_.Fail(error); }

 protected:
  // A tensor that is not computed in this frame; invalid if it is.
  virtual ir::Value Outer(const Tensor& tensor) = 0;
  // Whether the tensor is fed, or an argument of this body.
  virtual bool IsGiven(const Tensor& tensor) = 0;
  // The value of a variable at the start of this frame, as reads see it, and as updates do.
  virtual ir::Value StartForRead(const VariableDef& variable) = 0;
  virtual ir::Value StartForUpdate(const VariableDef& variable) = 0;
  // The value of a parameter of this frame's graph that is known, as an outer constant.
  virtual absl::StatusOr<Array> ConstantParameter(ir::Value parameter) = 0;

  const Plan& plan_;
  ir::Graph& graph_;

 private:
  // How many assignments of a variable an operation depends on: the last of them.
  using Versions = std::vector<std::pair<const VariableDef*, int>>;

  bool IsGivenWhole(const Node& node);
  void LowerNode(const Node& node);
  ir::Values Call(const Node& node, const ir::Values& inputs);
  void CheckOutputs(const Node& node, const ir::Values& outputs);
  void MergeVersions(const Node& before, Versions& versions) const;

  const Node* node_ = nullptr;  // being lowered
  absl::flat_hash_map<const Node*, ir::Values> values_;
  struct Version {
    ir::Value value;
    ir::Value for_reads;  // the same without gradient; made when a read first needs it
  };
  absl::flat_hash_map<const VariableDef*, std::vector<Version>> assigned_;  // in order
  std::vector<const VariableDef*> assigned_order_;
  absl::flat_hash_map<const Node*, Versions> versions_;
};

// The program's outermost frame.
class ProgramFrame final : public Frame {
 public:
  ProgramFrame(const Plan& plan, ir::Graph& graph, ProgramInputs& inputs)
      : Frame(plan, graph), inputs_(inputs) {}
  ir::Value RandomKey(const Node& node) override { return inputs_.RandomKey(node); }
  absl::StatusOr<Array> Evaluate(const ir::Graph& graph) override {
    return inputs_.Evaluate(graph);
  }

 protected:
  ir::Value Outer(const Tensor& tensor) override { return inputs_.Fed(tensor); }
  bool IsGiven(const Tensor& tensor) override { return inputs_.IsFed(tensor); }
  ir::Value StartForRead(const VariableDef& v) override { return inputs_.Start(v); }
  ir::Value StartForUpdate(const VariableDef& v) override { return inputs_.Start(v); }
  absl::StatusOr<Array> ConstantParameter(ir::Value parameter) override;

 private:
  ProgramInputs& inputs_;
};

}  // namespace penstock::session
