// Functions over the rows (axis 0) of tensors: tf.map_fn, tf.scan, tf.foldl, tf.foldr. Names,
// defaults and the order of arguments are TensorFlow's.
//
//   tf::Tensor norms = tf::MapFn([](const tf::Tensor& row) { return tf::Norm(row); }, xs);
//   tf::Tensor sums = tf::Scan([](const tf::Tensor& sum, const tf::Tensor& x) { return sum + x; }, xs);
//   tf::Tensors fibonacci = tf::Scan(                            // several tensors at once
//       [](const tf::Tensors& a, const tf::Tensors&) { return tf::Tensors{a[1], a[0] + a[1]}; },
//       tf::Tensors{xs}, tf::Tensors{zero, one});
//
// The function is called once, when the graph is built, and runs once for each row in one loop on
// the device. As the functions of control_flow.h, it may use tensors from outside, read and assign
// variables, make variables (GetVariable), draw random numbers (others for each row) and contain
// other loops; only what its results need runs. The number of rows may be unknown when the graph is
// built; each one is a program of its own. Gradients flow through the rows, the initial values and
// what is used from outside, in time and memory that are linear in the number of rows.
//
// Differences from TensorFlow 1.15: the results' types are the function's, so MapFn has no dtype;
// all rows of a result have one shape; parallel_iterations, back_prop, swap_memory and infer_shape
// have no meaning here and are left out.
#pragma once

#include <functional>
#include <string>

#include "penstock/session/graph.h"

namespace penstock::session {

struct MapFnOptions {
  std::string name = "map";
};
// The results of fn for each row, stacked: [rows, ...].
Tensor MapFn(const std::function<Tensor(const Tensor& row)>& fn, const Tensor& elems,
             const MapFnOptions& options = {}, SourceLocation where = SourceLocation::Current());
Tensors MapFn(const std::function<Tensors(const Tensors& row)>& fn, const Tensors& elems,
              const MapFnOptions& options = {}, SourceLocation where = SourceLocation::Current());

struct ScanOptions {
  bool reverse = false;  // from the last row to the first; results keep the rows' places
  std::string name = "scan";
};
// a = fn(a, row) for each row, beginning with a = initializer: the values of a after each row,
// stacked. Without an initializer a begins with the first row (the last one in reverse), which is
// also a row of the result; there must be one then. a keeps its type and shape.
Tensor Scan(const std::function<Tensor(const Tensor& a, const Tensor& row)>& fn,
            const Tensor& elems, const Tensor& initializer = {}, const ScanOptions& options = {},
            SourceLocation where = SourceLocation::Current());
Tensors Scan(const std::function<Tensors(const Tensors& a, const Tensors& row)>& fn,
             const Tensors& elems, const Tensors& initializer = {}, const ScanOptions& options = {},
             SourceLocation where = SourceLocation::Current());

struct FoldOptions {
  std::string name = "";  // empty: "foldl", "foldr"
};
// The last a of such a Scan: from the first row to the last one (Foldl), or in reverse (Foldr).
Tensor Foldl(const std::function<Tensor(const Tensor& a, const Tensor& row)>& fn,
             const Tensor& elems, const Tensor& initializer = {}, const FoldOptions& options = {},
             SourceLocation where = SourceLocation::Current());
Tensors Foldl(const std::function<Tensors(const Tensors& a, const Tensors& row)>& fn,
              const Tensors& elems, const Tensors& initializer = {},
              const FoldOptions& options = {}, SourceLocation where = SourceLocation::Current());
Tensor Foldr(const std::function<Tensor(const Tensor& a, const Tensor& row)>& fn,
             const Tensor& elems, const Tensor& initializer = {}, const FoldOptions& options = {},
             SourceLocation where = SourceLocation::Current());
Tensors Foldr(const std::function<Tensors(const Tensors& a, const Tensors& row)>& fn,
              const Tensors& elems, const Tensors& initializer = {},
              const FoldOptions& options = {}, SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session
