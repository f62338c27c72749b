#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {

Table IndexingRows() {
  return {
      {"index",
       [](Case& c) {
         return Ts{c.x[0].index({1, Slice{2, 4}, Ellipsis, -1})};
       }},
      {"index with a new axis",
       [](Case& c) {
         return Ts{torch::index(c.x[0], {Slice{}, None, Slice{1, 5, 2}})};
       }},
      {"index by a tensor", [](Case& c) { return Ts{c.x[0].index({c.x[1]})}; }},
      {"index by a matrix", [](Case& c) { return Ts{c.x[0].index({c.x[1]})}; }},
      {"index by a tensor in a later dim",
       [](Case& c) {
         return Ts{c.x[0].index({Slice{}, c.x[1]})};
       }},
      {"index by two tensors",
       [](Case& c) {
         return Ts{c.x[0].index({c.x[1], c.x[2]})};
       }},
      {"index by two tensors apart",
       [](Case& c) {
         return Ts{c.x[0].index({c.x[1], Slice{}, c.x[2]})};
       }},
      {"index by adjacent tensors",
       [](Case& c) {
         return Ts{c.x[0].index({Slice{}, c.x[1], c.x[2]})};
       }},
      {"index_select", [](Case& c) { return Ts{torch::index_select(c.x[0], 1, c.x[1])}; }},
      {"gather", [](Case& c) { return Ts{torch::gather(c.x[0], 1, c.x[1])}; }},
      {"gather of a part", [](Case& c) { return Ts{c.x[0].gather(0, c.x[1])}; }},
      {"take_along_dim", [](Case& c) { return Ts{torch::take_along_dim(c.x[0], c.x[1], 1)}; }},
      {"scatter", [](Case& c) { return Ts{torch::scatter(c.x[0], 1, c.x[1], c.x[2])}; }},
      {"scatter of a number", [](Case& c) { return Ts{c.x[0].scatter(1, c.x[1], 7.0)}; }},
      {"scatter_add", [](Case& c) { return Ts{torch::scatter_add(c.x[0], 0, c.x[1], c.x[2])}; }},
      {"index_add", [](Case& c) { return Ts{torch::index_add(c.x[0], 1, c.x[1], c.x[2], 2)}; }},
      {"one_hot", [](Case& c) { return Ts{F::one_hot(c.x[0], 4)}; }},
      {"index_fill", [](Case& c) { return Ts{torch::index_fill(c.x[0], 1, c.x[1], -1.5)}; }},
      {"index_copy", [](Case& c) { return Ts{torch::index_copy(c.x[0], 1, c.x[1], c.x[2])}; }},
      {"masked_scatter", [](Case& c) { return Ts{torch::masked_scatter(c.x[0], c.x[1], c.x[2])}; }},
      {"masked_scatter of a broadcast mask",
       [](Case& c) { return Ts{c.x[0].masked_scatter(c.x[1], c.x[2])}; }},
      {"searchsorted", [](Case& c) { return Ts{torch::searchsorted(c.x[0], c.x[1])}; }},
      {"searchsorted right", [](Case& c) { return Ts{torch::searchsorted(c.x[0], c.x[1], true)}; }},
      {"bucketize", [](Case& c) { return Ts{torch::bucketize(c.x[0], c.x[1])}; }},
      {"bucketize right", [](Case& c) { return Ts{torch::bucketize(c.x[0], c.x[1], true)}; }},
      {"bincount", [](Case& c) { return Ts{torch::bincount(c.x[0], {}, 6)}; }},
      {"bincount with weights", [](Case& c) { return Ts{c.x[0].bincount(c.x[1], 6)}; }},
      {"histc", [](Case& c) { return Ts{torch::histc(c.x[0], 5, -1, 2)}; }},
      {"histc of all", [](Case& c) { return Ts{c.x[0].histc(7)}; }},
  };
}

}  // namespace penstock::tests::lazy_rows
