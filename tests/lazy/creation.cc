#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {

Table CreationRows() {
  return {
      {"zeros",
       [](Case&) {
         return Ts{torch::zeros({2, 3})};
       }},
      {"ones", [](Case&) { return Ts{torch::ones(2, {.dtype = torch::kLong})}; }},
      {"full",
       [](Case&) {
         return Ts{torch::full({2, 2}, 1.5)};
       }},
      {"full of an integer", [](Case&) { return Ts{torch::full(2, 3)}; }},
      {"eye", [](Case&) { return Ts{torch::eye(3)}; }},
      {"eye of two sizes", [](Case&) { return Ts{torch::eye(2, 3)}; }},
      {"arange", [](Case&) { return Ts{torch::arange(5)}; }},
      {"arange of floats", [](Case&) { return Ts{torch::arange(1, 2.5, 0.5)}; }},
      {"arange backwards", [](Case&) { return Ts{torch::arange(5, 0, -2)}; }},
      {"arange of a type", [](Case&) { return Ts{torch::arange(3, {.dtype = torch::kFloat})}; }},
      {"linspace", [](Case&) { return Ts{torch::linspace(-1, 2, 7)}; }},
      {"zeros_like", [](Case& c) { return Ts{torch::zeros_like(c.x[0])}; }},
      {"ones_like", [](Case& c) { return Ts{torch::ones_like(c.x[0])}; }},
      {"full_like", [](Case& c) { return Ts{torch::full_like(c.x[0], 2)}; }},
      {"tril_indices", [](Case&) { return Ts{torch::tril_indices(3, 4, 1)}; }},
      {"triu_indices", [](Case&) { return Ts{torch::triu_indices(4, 3, -1)}; }},
      {"new_zeros",
       [](Case& c) {
         return Ts{c.x[0].new_zeros({2, 3}), c.x[0].new_ones(2), c.x[0].new_full({2}, 1.5)};
       }},
  };
}

}  // namespace penstock::tests::lazy_rows
