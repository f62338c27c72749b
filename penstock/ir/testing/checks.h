// Batches of small checks, compiled as one program because compiling costs more than running.
//
//   Checks checks;
//   checks.Expect("tanh", Tanh(checks.Input(x)),
//                 Map(x, [](double v) { return std::tanh(v); }), 1e-6);
//   checks.Run();
//
//   GradientChecks gradients;
//   gradients.Add("tanh", {RandomArray({2, 3})}, [](const Values& x) { return Tanh(x[0]); });
//   gradients.Run();
//   ExpectAllCovered(ElementwiseOps(), gradients.ops());
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"

#include "penstock/ir/graph.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"

namespace penstock::ir::testing {

// Distinct random numbers in [low, high), determined by `seed`.
Array RandomArray(const Shape& shape, uint64_t seed = 1, double low = -2, double high = 2,
                  DType dtype = DType::kF64);
// `function` applied to each element, with the same type.
Array Map(const Array& x, const std::function<double(double)>& function);
// The elements converted to double, in row-major order.
std::vector<double> Doubles(const Array& array);
// An array of any numeric type, converted from doubles.
Array Make(DType dtype, const Shape& shape, const std::vector<double>& values);

// Expected values of many expressions, which one program computes.
class Checks {
 public:
  explicit Checks(int num_replicas = 1) : graph_("checks", num_replicas) {}

  Graph& graph() { return graph_; }
  Value Input(const Array& value);
  // Requires |got - want| <= tolerance * max(1, |want|) for each element, and NaN where `want` is
  // NaN.
  void Expect(absl::string_view name, Value got, const Array& want, double tolerance = 0);
  // Compiles the program, runs it (each replica with the same inputs) and compares.
  void Run();

 private:
  struct Expectation {
    std::string name;
    Array want;
    double tolerance;
  };
  Graph graph_;
  std::vector<Array> inputs_;
  Values got_;
  std::vector<Expectation> expectations_;
};

// Compares Gradients() with central differences in f64, element by element. The output is weighted
// by fixed random numbers, so that no two of its elements contribute equally.
class GradientChecks {
 public:
  using Function = std::function<Value(const Values& inputs)>;

  // Inputs are f64, or integers, which are not differentiated.
  void Add(absl::string_view name, const std::vector<Array>& inputs, const Function& function);
  // The same for the gradient of the function: checks second derivatives.
  void AddSecond(absl::string_view name, const std::vector<Array>& inputs,
                 const Function& function);
  // `tolerance` is relative to max(1, |gradient|); central differences themselves have errors of
  // about 1e-9.
  void Run(double tolerance = 2e-6);

  // Operations that have been differentiated: those of the functions and, for AddSecond, of their
  // gradients.
  const absl::flat_hash_set<const OpDef*>& ops() const { return ops_; }

 private:
  struct Case {
    std::string name;
    std::vector<int> parameters;  // f64 ones, by their index in the graph
    size_t first_result;          // the weighted sum; its gradients follow
  };
  Values AddInputs(const std::vector<Array>& inputs);
  void Finish(absl::string_view name, const Values& inputs, Value y);

  Graph graph_{"gradients"};
  std::vector<Array> inputs_;
  Values results_;
  std::vector<Case> cases_;
  absl::flat_hash_set<const OpDef*> ops_;
};

// Requires every differentiable operation of the family to be in `checked`; `without` names exactly
// the operations that have neither a gradient nor zero_gradient.
void ExpectAllCovered(OpList family, const absl::flat_hash_set<const OpDef*>& checked,
                      const std::vector<std::string>& without = {});

// The error message of the graph.
std::string ErrorOf(const Graph& graph);

}  // namespace penstock::ir::testing
