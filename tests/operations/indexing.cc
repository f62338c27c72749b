#include "tests/operations/operations.h"

namespace penstock::tests {
namespace {

using ir::Values;

ir::ScatterReducer ReducerOf(const std::string& name) {
  static const std::map<std::string, ir::ScatterReducer> kNames = {
      {"replace", ir::ScatterReducer::kReplace},
      {"sum", ir::ScatterReducer::kSum},
      {"product", ir::ScatterReducer::kProduct},
      {"min", ir::ScatterReducer::kMin},
      {"max", ir::ScatterReducer::kMax}};
  return kNames.at(name);
}

Values Gather(const Call& c) {
  return {ir::Gather(c.x[0], c.x[1],
                     {.offset_dims = c.Ints("offset_dims"),
                      .collapsed_slice_dims = c.Ints("collapsed_slice_dims"),
                      .start_index_map = c.Ints("start_index_map"),
                      .index_vector_dim = c.Int("index_vector_dim")},
                     c.Ints("slice_sizes"))};
}

Values Scatter(const Call& c) {
  return {ir::Scatter(c.x[0], c.x[1], c.x[2], ReducerOf(c.Text("reducer")),
                      {.update_window_dims = c.Ints("update_window_dims"),
                       .inserted_window_dims = c.Ints("inserted_window_dims"),
                       .scatter_dims_to_operand_dims = c.Ints("scatter_dims_to_operand_dims"),
                       .index_vector_dim = c.Int("index_vector_dim")},
                      c.Flag("unique_indices"))};
}

}  // namespace

OperationTable IndexingCalls() {
  return {
      {"Take", [](const Call& c) -> Values { return {ir::Take(c.x[0], c.x[1], c.Int("axis"))}; }},
      {"TakeAlongAxis",
       [](const Call& c) -> Values { return {ir::TakeAlongAxis(c.x[0], c.x[1], c.Int("axis"))}; }},
      {"OneHot",
       [](const Call& c) -> Values {
         return {ir::OneHot(c.x[0], c.Int("depth"), c.Type("dtype"))};
       }},
      {"Gather", Gather},
      {"Scatter", Scatter},
  };
}

}  // namespace penstock::tests
