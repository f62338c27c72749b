// Functions over the rows of tensors.
#include "penstock/session/control_flow.h"

#include "tests/session/rows.h"

namespace penstock::tests {
namespace {

std::function<tf::Tensor(const tf::Tensor&, const tf::Tensor&)> Affine(const tf::Tensor& w) {
  return [w](const tf::Tensor& a, const tf::Tensor& x) { return tf::Tanh(tf::MatMul(a, w) + x); };
}

tf::Tensor Decay(const tf::Tensor& a, const tf::Tensor& x) { return a * 0.5 + tf::Sin(x); }

tf::Tensors Pair(const tf::Tensors& a, const tf::Tensors& x) {
  return {a[0] * x[0] + a[1], a[1] * x[1]};
}

tf::Tensor Branch(const tf::Tensor& x) {
  return tf::Cond(
      tf::Greater(tf::ReduceSum(x), 0), [&] { return x * x; }, [&] { return -3.0 * x; });
}

RowTable MapRows() {
  return {
      {"MapFn/one",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MapFn([](const tf::Tensor& r) { return r * r + tf::ReduceSum(r); }, x[0])};
       }},
      {"MapFn/scalars",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MapFn([](const tf::Tensor& r) { return tf::Sin(r); }, x[0])};
       }},
      {"MapFn/from outside",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MapFn([&](const tf::Tensor& r) { return tf::Tensordot(r, x[1], 1); }, x[0])};
       }},
      {"MapFn/several",
       [](const tf::Tensors& x) -> tf::Tensors {
         return tf::MapFn(
             [](const tf::Tensors& r) {
               return tf::Tensors{r[0] * r[1], tf::Exp(r[1])};
             },
             x);
       }},
      {"MapFn/other type",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MapFn(
             [](const tf::Tensor& r) { return tf::ArgMax(r, 0, {.output_type = DType::kI32}); },
             x[0])};
       }},
      {"MapFn/int",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MapFn([](const tf::Tensor& r) { return r + 1; }, x[0])};
       }},
      {"MapFn/nested",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MapFn(
             [](const tf::Tensor& r) {
               return tf::MapFn([&](const tf::Tensor& y) { return y * tf::ReduceSum(r); }, r);
             },
             x[0])};
       }},
      {"MapFn/branches",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::MapFn(Branch, x[0])}; }},
      {"MapFn/of a matrix each",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::MapFn(
             [](const tf::Tensor& r) { return tf::MatMul(r, r, {.transpose_b = true}); }, x[0])};
       }},
  };
}

}  // namespace

RowTable FunctionalRows() {
  RowTable rows = {
      {"Scan/first row",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Scan(Decay, x[0])}; }},
      {"Scan/one row",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Scan([](const tf::Tensor& a, const tf::Tensor& r) { return a * r; }, x[0])};
       }},
      {"Scan/first row in reverse",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Scan(Decay, x[0], {}, {.reverse = true})};
       }},
      {"Scan/initializer",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Scan(Affine(x[2]), x[0], x[1])}; }},
      {"Scan/reverse",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Scan(Affine(x[2]), x[0], x[1], {.reverse = true})};
       }},
      {"Scan/several",
       [](const tf::Tensors& x) -> tf::Tensors {
         return tf::Scan(Pair, tf::Tensors{x[0], x[1]}, tf::Tensors{x[2], x[3]});
       }},
      {"Scan/fibonacci",
       [](const tf::Tensors& x) -> tf::Tensors {
         return tf::Scan(
             [](const tf::Tensors& a, const tf::Tensors&) {
               return tf::Tensors{a[1], a[0] + a[1]};
             },
             tf::Tensors{x[0]}, tf::Tensors{x[1], x[2]});
       }},
      {"Scan/int",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Scan([](const tf::Tensor& a, const tf::Tensor& r) { return a + r; }, x[0])};
       }},
      {"Foldl/first row",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Foldl(Decay, x[0])}; }},
      {"Foldl/initializer",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Foldl(Affine(x[2]), x[0], x[1])}; }},
      {"Foldl/several",
       [](const tf::Tensors& x) -> tf::Tensors {
         return tf::Foldl(Pair, tf::Tensors{x[0], x[1]}, tf::Tensors{x[2], x[3]});
       }},
      {"Foldr/first row",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Foldr(Decay, x[0])}; }},
      {"Foldr/initializer",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Foldr(Affine(x[2]), x[0], x[1])}; }},
  };
  rows.merge(MapRows());
  return rows;
}

}  // namespace penstock::tests
