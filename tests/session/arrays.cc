// Constants, shapes, slices and rearranging.
#include "tests/session/rows.h"

namespace penstock::tests {

RowTable ArrayRows() {
  return {
      {"Fill/number",
       [](const tf::Tensors&) -> tf::Tensors {
         return {tf::Fill({2, 3}, 1.5)};
       }},
      {"Fill/scalar tensor",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Fill({2, 3}, x[0])};
       }},
      {"Fill/int",
       [](const tf::Tensors&) -> tf::Tensors { return {tf::Fill({2}, 7, DType::kI32)}; }},
      {"Fill/shape of a batch",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Fill(tf::ShapeOf(x[0]), x[1])}; }},
      {"Zeros/static",
       [](const tf::Tensors&) -> tf::Tensors {
         return {tf::Zeros({2, 0, 3})};
       }},
      {"Zeros/scalar bool",
       [](const tf::Tensors&) -> tf::Tensors { return {tf::Zeros({}, DType::kBool)}; }},
      {"Zeros/stacked shape",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Zeros(tf::Stack({tf::GetItem(tf::ShapeOf(x[0]), {0}), tf::Constant(5)}))};
       }},
      {"Ones/int64",
       [](const tf::Tensors&) -> tf::Tensors { return {tf::Ones({3}, DType::kI64)}; }},
      {"ZerosLike/same", [](const tf::Tensors& x) -> tf::Tensors { return {tf::ZerosLike(x[0])}; }},
      {"ZerosLike/int",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ZerosLike(x[0], DType::kI32)}; }},
      {"OnesLike/same", [](const tf::Tensors& x) -> tf::Tensors { return {tf::OnesLike(x[0])}; }},
      {"Range/limit", [](const tf::Tensors&) -> tf::Tensors { return {tf::Range(5)}; }},
      {"Range/delta", [](const tf::Tensors&) -> tf::Tensors { return {tf::Range(3, 18, 3)}; }},
      {"Range/negative",
       [](const tf::Tensors&) -> tf::Tensors { return {tf::Range(3, 1, -0.5, DType::kF32)}; }},
      {"Range/rounded in float32",
       [](const tf::Tensors&) -> tf::Tensors { return {tf::Range(0, 2.1, 0.3, DType::kF32)}; }},
      {"Range/empty", [](const tf::Tensors&) -> tf::Tensors { return {tf::Range(3, 3)}; }},
      {"Range/of a batch",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Range(tf::GetItem(tf::ShapeOf(x[0]), {0}))};
       }},
      {"Linspace/five",
       [](const tf::Tensors&) -> tf::Tensors { return {tf::Linspace(10, 12, 5)}; }},
      {"Linspace/one", [](const tf::Tensors&) -> tf::Tensors { return {tf::Linspace(10, 12, 1)}; }},
      {"Eye/square", [](const tf::Tensors&) -> tf::Tensors { return {tf::Eye(3)}; }},
      {"Eye/batch",
       [](const tf::Tensors&) -> tf::Tensors {
         return {tf::Eye(2, {.num_columns = 3, .batch_shape = {2}, .dtype = DType::kI32})};
       }},
      {"OneHot/default", [](const tf::Tensors& x) -> tf::Tensors { return {tf::OneHot(x[0], 3)}; }},
      {"OneHot/values",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::OneHot(x[0], 3, {.on_value = 5, .off_value = -1})};
       }},
      {"OneHot/axis 0",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::OneHot(x[0], 3, {.axis = 0})}; }},
      {"OneHot/axis 1 int",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::OneHot(x[0], 3, {.axis = 1, .dtype = DType::kI32})};
       }},
      {"OneHot/bool",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::OneHot(x[0], 3, {.dtype = DType::kBool})};
       }},
      {"SequenceMask/bool",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::SequenceMask(x[0], 5)}; }},
      {"SequenceMask/float",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::SequenceMask(x[0], 3, {.dtype = DType::kF32})};
       }},
      {"SequenceMask/longer than int8",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::SequenceMask(x[0], 200)}; }},
      {"ShapeOf/int32", [](const tf::Tensors& x) -> tf::Tensors { return {tf::ShapeOf(x[0])}; }},
      {"ShapeOf/int64",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ShapeOf(x[0], DType::kI64)}; }},
      {"ShapeOf/scalar", [](const tf::Tensors& x) -> tf::Tensors { return {tf::ShapeOf(x[0])}; }},
      {"ShapeN/two",
       [](const tf::Tensors& x) -> tf::Tensors {
         return tf::ShapeN({x[0], x[1]});
       }},
      {"Size/int32", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Size(x[0])}; }},
      {"Size/int64",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Size(x[0], DType::kI64)}; }},
      {"Rank/three", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Rank(x[0])}; }},
      {"Reshape/static",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Reshape(x[0], {2, 12})};
       }},
      {"Reshape/one unknown",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Reshape(x[0], {-1, 3})};
       }},
      {"Reshape/flatten",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Reshape(x[0], {-1})}; }},
      {"Reshape/to scalar",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Reshape(x[0], {})}; }},
      {"Reshape/zero size",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Reshape(x[0], {3, 0})};
       }},
      {"Reshape/of another",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Reshape(x[0], tf::ShapeOf(x[1]))}; }},
      {"Reshape/batch and -1",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {
             tf::Reshape(x[0], tf::Stack({tf::GetItem(tf::ShapeOf(x[0]), {0}), tf::Constant(-1)}))};
       }},
      {"Reshape/concat",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Reshape(x[0], tf::Concat({tf::GetItem(tf::ShapeOf(x[0]), {{0, 1}}),
                                               tf::Constant(base::Array::Of<int32_t>({2}, {2, 3}))},
                                              0))};
       }},
      {"Reshape/product of extents",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Reshape(x[0], tf::Stack({tf::GetItem(tf::ShapeOf(x[0]), {0}) *
                                                  tf::GetItem(tf::ShapeOf(x[0]), {1}),
                                              tf::Constant(3)}))};
       }},
      {"ExpandDims/first",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ExpandDims(x[0], 0)}; }},
      {"ExpandDims/last",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ExpandDims(x[0], -1)}; }},
      {"ExpandDims/negative",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ExpandDims(x[0], -2)}; }},
      {"Squeeze/all", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Squeeze(x[0])}; }},
      {"Squeeze/some", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Squeeze(x[0], -1)}; }},
      {"Transpose/reversed",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Transpose(x[0])}; }},
      {"Transpose/perm",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Transpose(x[0], {1, 0, 2})};
       }},
      {"BroadcastTo/rows",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::BroadcastTo(x[0], {2, 3})};
       }},
      {"BroadcastTo/middle",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::BroadcastTo(x[0], {4, 2, 3})};
       }},
      {"BroadcastTo/of another",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::BroadcastTo(x[0], tf::ShapeOf(x[1]))};
       }},
      {"Tile/two axes",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Tile(x[0], {2, 3})};
       }},
      {"Tile/many",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Tile(x[0], {1, 9})};
       }},
      {"Tile/none",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Tile(x[0], {1, 0})};
       }},
      {"Repeat/axis", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Repeat(x[0], 2, 1)}; }},
      {"Repeat/flat", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Repeat(x[0], 2)}; }},
      {"Repeat/list",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Repeat(x[0], {2, 0, 1}, 1)};
       }},
      {"Concat/rows",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Concat({x[0], x[1]}, 0)};
       }},
      {"Concat/columns",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Concat({x[0], x[1]}, -1)};
       }},
      {"Concat/one", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Concat({x[0]}, 0)}; }},
      {"Concat/empty part",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Concat({x[0], x[1]}, 1)};
       }},
      {"Stack/first",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Stack({x[0], x[1]})};
       }},
      {"Stack/last",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Stack({x[0], x[1]}, -1)};
       }},
      {"Stack/scalars",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Stack({x[0], x[1]})};
       }},
      {"ParallelStack/two",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ParallelStack({x[0], x[1]})};
       }},
      {"Unstack/columns",
       [](const tf::Tensors& x) -> tf::Tensors { return tf::Unstack(x[0], {}, 1); }},
      {"Unstack/negative",
       [](const tf::Tensors& x) -> tf::Tensors { return tf::Unstack(x[0], 2, -1); }},
      {"Split/equal", [](const tf::Tensors& x) -> tf::Tensors { return tf::Split(x[0], 3, 1); }},
      {"Split/rows", [](const tf::Tensors& x) -> tf::Tensors { return tf::Split(x[0], 2); }},
      {"Split/sizes",
       [](const tf::Tensors& x) -> tf::Tensors {
         return tf::Split(x[0], {1, 3, 2}, 1);
       }},
      {"Split/rest",
       [](const tf::Tensors& x) -> tf::Tensors {
         return tf::Split(x[0], {1, -1, 2}, -1);
       }},
      {"Meshgrid/xy",
       [](const tf::Tensors& x) -> tf::Tensors {
         return tf::Meshgrid({x[0], x[1]});
       }},
      {"Meshgrid/ij",
       [](const tf::Tensors& x) -> tf::Tensors {
         return tf::Meshgrid({x[0], x[1], x[2]}, "ij");
       }},
      {"Slice/part",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Slice(x[0], {1, 2}, {2, 3})};
       }},
      {"Slice/rest",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Slice(x[0], {0, 2}, {-1, -1})};
       }},
      {"StridedSlice/plain",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::StridedSlice(x[0], {0, 1}, {4, 6}, {.strides = {2, 2}})};
       }},
      {"StridedSlice/masks",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::StridedSlice(
             x[0], {1, 0, 2}, {0, 0, 4},
             {.strides = {1, 1, 1}, .begin_mask = 2, .end_mask = 1, .ellipsis_mask = 2})};
       }},
      {"StridedSlice/shrink and new axis",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::StridedSlice(
             x[0], {0, 0, 2}, {0, 0, 3},
             {.begin_mask = 1, .end_mask = 1, .new_axis_mask = 2, .shrink_axis_mask = 4})};
       }},
      {"StridedSlice/backward",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::StridedSlice(x[0], {0, 5}, {4, 0}, {.strides = {1, -2}})};
       }},
      {"GetItem/range",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GetItem(x[0], {{1, 3}})};
       }},
      {"GetItem/open range",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GetItem(x[0], {tf::Slicer(), {2, {}}})};
       }},
      {"GetItem/negative ends",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GetItem(x[0], {tf::Slicer(), {-4, -1}})};
       }},
      {"GetItem/last",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GetItem(x[0], {tf::kEllipsis, -1})};
       }},
      {"GetItem/reversed",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GetItem(x[0], {tf::Slicer(), {{}, {}, -1}})};
       }},
      {"GetItem/stride",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GetItem(x[0], {tf::Slicer(), {5, 0, -2}})};
       }},
      {"GetItem/new axis",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GetItem(x[0], {tf::Slicer(), tf::kNewAxis, 1})};
       }},
      {"GetItem/beyond the end",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GetItem(x[0], {tf::Slicer(), {3, 99}})};
       }},
      {"GetItem/empty",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GetItem(x[0], {tf::Slicer(), {3, 2}})};
       }},
      {"GetItem/ellipsis in the middle",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GetItem(x[0], {tf::Slicer(), {1, 3}, tf::kEllipsis, 0})};
       }},
      {"GetItem/tensor",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::GetItem(x[0], x[1])}; }},
      {"Pad/constant",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Pad(x[0], {{1, 0}, {2, 1}})};
       }},
      {"Pad/value",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Pad(x[0], {{0, 0}, {2, 1}}, {.constant_values = 7})};
       }},
      {"Pad/reflect",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Pad(x[0], {{0, 0}, {2, 3}}, {.mode = "REFLECT"})};
       }},
      {"Pad/symmetric",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Pad(x[0], {{0, 0}, {2, 4}}, {.mode = "SYMMETRIC"})};
       }},
      {"Pad/reflect both",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Pad(x[0], {{0, 0}, {1, 2}, {3, 1}}, {.mode = "REFLECT"})};
       }},
      {"Pad/int",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Pad(x[0], {{0, 1}, {1, 0}}, {.constant_values = -5})};
       }},
      {"Reverse/axes",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Reverse(x[0], {0, -1})};
       }},
      {"ReverseSequence/time",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReverseSequence(x[0], x[1])}; }},
      {"ReverseSequence/axes",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ReverseSequence(x[0], x[1], {.seq_axis = 0, .batch_axis = 1})};
       }},
      {"Roll/one", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Roll(x[0], 2, 1)}; }},
      {"Roll/two",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Roll(x[0], {-1, 8}, {0, 1})};
       }},
      {"SpaceToDepth/nhwc",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::SpaceToDepth(x[0], 2)}; }},
      {"DepthToSpace/nhwc",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::DepthToSpace(x[0], 2)}; }},
      {"SpaceToBatchND/padded",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::SpaceToBatchND(x[0], {2, 3}, {{0, 0}, {1, 0}})};
       }},
      {"BatchToSpaceND/cropped",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::BatchToSpaceND(x[0], {2, 3}, {{0, 0}, {1, 0}})};
       }},
  };
}

}  // namespace penstock::tests
