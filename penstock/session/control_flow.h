// Control flow on the device: tf.cond, tf.case, tf.switch_case, tf.while_loop. Group, Tuple and
// NoOp are in ops/core_ops.h, ControlDependencies in graph.h.
//
//   tf::Tensor y = tf::Cond(training, [&] { return Noisy(x); }, [&] { return x; });
//   tf::Tensors out = tf::WhileLoop(
//       [&](const tf::Tensors& v) { return tf::Less(v[0], n); },
//       [&](const tf::Tensors& v) { return tf::Tensors{v[0] + 1, v[1] * 2.0}; }, {i, x});
//
// The functions are called once, when the graph is built. What they create belongs to the body:
// only the operations on which its results depend run, and only if the branch is taken. A body may
// use tensors from outside, read and assign variables, draw random numbers, and contain other
// bodies; its own tensors have no value outside, unless it returns them. Batches of an iterator and
// feeds enter from outside. A null function, and an exception of one, is an error of the graph.
//
// Differences from TensorFlow 1.15: shapes do not change from one iteration to the next, and the
// branches of a Cond return the same shapes (XLA's programs are static).
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/base/null_function.h"
#include "penstock/session/graph.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/variable.h"

namespace penstock::session {

// What a branch returns: tensors, or operations that it runs.
struct BranchResult {
  BranchResult() = default;
  BranchResult(const Tensor& tensor) : tensors{tensor} {}              // NOLINT
  BranchResult(const Variable& variable) : tensors{variable} {}        // NOLINT
  BranchResult(Tensors returned) : tensors(std::move(returned)) {}     // NOLINT
  BranchResult(const Operation& operation) : operations{operation} {}  // NOLINT

  Tensors tensors;
  Operations operations;
};
using Branch = std::function<BranchResult()>;

// `function` as a Branch, which is null if it is.
template <typename Function>
Branch ToBranch(Function& function) {
  if (base::IsNullFunction(function)) return nullptr;
  return [&function] { return BranchResult(function()); };
}

// The operation of Cond, with the tensors that the branches return as outputs.
Operation AddCond(const Tensor& pred, const Branch& true_fn, const Branch& false_fn,
                  absl::string_view name, SourceLocation where);

// true_fn() if `pred`, a bool scalar, is true, else false_fn(). The functions return a Tensor, as
// many Tensors, or an Operation, which runs; so does Cond.
template <typename True, typename False>
auto Cond(const Tensor& pred, True&& true_fn, False&& false_fn, absl::string_view name = "",
          SourceLocation where = SourceLocation::Current()) {
  using Result = std::decay_t<std::invoke_result_t<True>>;
  const Operation made = AddCond(pred, ToBranch(true_fn), ToBranch(false_fn), name, where);
  if constexpr (std::is_same_v<Result, Operation>) {
    return made;
  } else if constexpr (std::is_convertible_v<Result, Tensor>) {
    const Tensors outputs = made.outputs();
    return outputs.empty() ? Tensor() : outputs[0];
  } else {
    return made.outputs();
  }
}

// The result of the first function whose predicate is true, else of `otherwise`.
struct CaseBranch {
  Tensor pred;
  std::function<Tensors()> function;
};
Tensors Case(const std::vector<CaseBranch>& branches, const std::function<Tensors()>& otherwise,
             absl::string_view name = "case", SourceLocation where = SourceLocation::Current());

// branches[index](), for an int32 scalar; the last branch for an index out of range.
Tensors SwitchCase(const Tensor& index, const std::vector<std::function<Tensors()>>& branches,
                   absl::string_view name = "switch_case",
                   SourceLocation where = SourceLocation::Current());

struct WhileLoopOptions {
  // Static shapes of the loop variables in the body; empty: those of the initial values. Give
  // unknown extents for what is fed.
  std::vector<PartialShape> shape_invariants = {};
  // The loop ends after as many iterations, also if the condition is true. -1: no limit. Gradients
  // need one: memory is reserved for as many iterations.
  int64_t maximum_iterations = -1;
  std::string name = "while";
};
// While cond(variables), a bool scalar, is true: variables = body(variables). Returns the last
// variables.
Tensors WhileLoop(const std::function<Tensor(const Tensors&)>& cond,
                  const std::function<Tensors(const Tensors&)>& body, const Tensors& loop_vars,
                  const WhileLoopOptions& options = {},
                  SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session
