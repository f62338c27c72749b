// Gathers, scatters, selections and sorting.
#include "tests/session/rows.h"

namespace penstock::tests {

RowTable IndexingRows() {
  return {
      {"Gather/rows", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Gather(x[0], x[1])}; }},
      {"Gather/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Gather(x[0], x[1], {.axis = 1})}; }},
      {"Gather/negative axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Gather(x[0], x[1], {.axis = -1})}; }},
      {"Gather/batch dims",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Gather(x[0], x[1], {.axis = 1, .batch_dims = 1})};
       }},
      {"Gather/batch dims, later axis",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Gather(x[0], x[1], {.axis = 2, .batch_dims = 1})};
       }},
      {"Gather/no indices",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Gather(x[0], x[1])}; }},
      {"Gather/int", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Gather(x[0], x[1])}; }},
      {"GatherNd/elements",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::GatherNd(x[0], x[1])}; }},
      {"GatherNd/rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::GatherNd(x[0], x[1])}; }},
      {"GatherNd/batch dims",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GatherNd(x[0], x[1], {.batch_dims = 1})};
       }},
      {"BatchGather/rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::BatchGather(x[0], x[1])}; }},
      {"ScatterNd/rows",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ScatterNd(x[0], x[1], {5, 2})};
       }},
      {"ScatterNd/elements",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ScatterNd(x[0], x[1], {4, 2})};
       }},
      {"ScatterNd/shape of another",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ScatterNd(x[0], x[1], tf::ShapeOf(x[2]))};
       }},
      {"TensorScatterUpdate/rows",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::TensorScatterUpdate(x[0], x[1], x[2])};
       }},
      {"TensorScatterAdd/twice",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::TensorScatterAdd(x[0], x[1], x[2])};
       }},
      {"TensorScatterSub/twice",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::TensorScatterSub(x[0], x[1], x[2])};
       }},
      {"TensorScatterMax/rows",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::TensorScatterMax(x[0], x[1], x[2])};
       }},
      {"TensorScatterMin/rows",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::TensorScatterMin(x[0], x[1], x[2])};
       }},
      {"Where/same shape",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Where(x[0], x[1], x[2])}; }},
      {"Where/rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Where(x[0], x[1], x[2])}; }},
      {"Where/square rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Where(x[0], x[1], x[2])}; }},
      {"WhereV2/broadcast",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::WhereV2(x[0], x[1], x[2])}; }},
      {"WhereV2/number",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::WhereV2(x[0], x[1], 0.5)}; }},
      {"InvertPermutation/int32",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::InvertPermutation(x[0])}; }},
      {"Searchsorted/left",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Searchsorted(x[0], x[1])}; }},
      {"Searchsorted/right int64",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Searchsorted(x[0], x[1], {.side = "right", .out_type = DType::kI64})};
       }},
      {"Sort/ascending", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Sort(x[0])}; }},
      {"Sort/descending first axis",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Sort(x[0], 0, {.direction = "DESCENDING"})};
       }},
      {"Sort/int", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Sort(x[0], -1)}; }},
      {"Argsort/ascending",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Argsort(x[0])}; }},
      {"Argsort/descending",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Argsort(x[0], 1, {.direction = "DESCENDING"})};
       }},
      {"Argsort/stable", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Argsort(x[0])}; }},
      {"nn::EmbeddingLookup/one table",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::EmbeddingLookup(x[0], x[1])}; }},
      {"nn::EmbeddingLookup/max norm",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::EmbeddingLookup(x[0], x[1], {.max_norm = 1})};
       }},
      {"nn::EmbeddingLookup/mod",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::EmbeddingLookup({x[0], x[1]}, x[2])};
       }},
      {"nn::EmbeddingLookup/div",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::nn::EmbeddingLookup({x[0], x[1]}, x[2], {.partition_strategy = "div"})};
       }},
      {"nn::TopK/three",
       [](const tf::Tensors& x) -> tf::Tensors {
         return [&] {
           auto [v, k] = tf::nn::TopK(x[0], 3);
           return tf::Tensors{v, k};
         }();
       }},
      {"nn::TopK/ties",
       [](const tf::Tensors& x) -> tf::Tensors {
         return [&] {
           auto [v, k] = tf::nn::TopK(x[0], 5);
           return tf::Tensors{v, k};
         }();
       }},
      {"nn::TopK/int",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::TopK(x[0], 2).values}; }},
      {"nn::InTopK/two",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::InTopK(x[0], x[1], 2)}; }},
      {"nn::InTopK/special",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::nn::InTopK(x[0], x[1], 1)}; }},
  };
}

}  // namespace penstock::tests
