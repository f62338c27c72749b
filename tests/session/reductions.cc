// Reductions, cumulative and segment operations, norms.
#include "tests/session/rows.h"

namespace penstock::tests {

RowTable ReductionRows() {
  return {
      {"ReduceSum/all", [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceSum(x[0])}; }},
      {"ReduceSum/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceSum(x[0], 1)}; }},
      {"ReduceSum/negative axes",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ReduceSum(x[0], {0, -1})};
       }},
      {"ReduceSum/keepdims",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ReduceSum(x[0], 1, {.keepdims = true})};
       }},
      {"ReduceSum/no axes",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ReduceSum(x[0], std::vector<int64_t>())};
       }},
      {"ReduceSum/int32",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceSum(x[0], 0)}; }},
      {"ReduceSum/empty axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceSum(x[0], 1)}; }},
      {"ReduceSum/double",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceSum(x[0], 0)}; }},
      {"ReduceMean/all",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMean(x[0])}; }},
      {"ReduceMean/keepdims all",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ReduceMean(x[0], {}, {.keepdims = true})};
       }},
      {"ReduceMean/axes",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ReduceMean(x[0], {1, 2})};
       }},
      {"ReduceMean/uint8",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMean(x[0], 1)}; }},
      {"ReduceMean/large int",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMean(x[0], 0)}; }},
      {"ReduceMean/int",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMean(x[0], 0)}; }},
      {"ReduceMean/half",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMean(x[0], 1)}; }},
      {"ReduceMax/empty",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMax(x[0], 0)}; }},
      {"ReduceMin/empty int",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMin(x[0], 0)}; }},
      {"ReduceMean/empty",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMean(x[0], 0)}; }},
      {"ReduceSum/no rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceSum(x[0], 0)}; }},
      {"ReduceLogsumexp/infinite",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceLogsumexp(x[0], 1)}; }},
      {"ReduceMean/scalar",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMean(x[0])}; }},
      {"ReduceProd/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceProd(x[0], -1)}; }},
      {"ReduceProd/zeros",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceProd(x[0], 1)}; }},
      {"ReduceProd/empty",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceProd(x[0], 0)}; }},
      {"ReduceMax/ties",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMax(x[0], 1)}; }},
      {"ReduceMax/int",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ReduceMax(x[0], 0, {.keepdims = true})};
       }},
      {"ReduceMin/all", [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMin(x[0])}; }},
      {"ReduceMin/uint8",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceMin(x[0], 1)}; }},
      {"ReduceAll/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceAll(x[0], 1)}; }},
      {"ReduceAny/all", [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceAny(x[0])}; }},
      {"ReduceAny/keepdims",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ReduceAny(x[0], -1, {.keepdims = true})};
       }},
      {"ReduceLogsumexp/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceLogsumexp(x[0], 1)}; }},
      {"ReduceLogsumexp/all",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceLogsumexp(x[0])}; }},
      {"ReduceLogsumexp/keepdims",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ReduceLogsumexp(x[0], 0, {.keepdims = true})};
       }},
      {"ReduceEuclideanNorm/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceEuclideanNorm(x[0], 1)}; }},
      {"ReduceVariance/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ReduceVariance(x[0], 1)}; }},
      {"ReduceStd/keepdims",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ReduceStd(x[0], 0, {.keepdims = true})};
       }},
      {"CountNonzero/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::CountNonzero(x[0], 1)}; }},
      {"CountNonzero/bool int32",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::CountNonzero(x[0], {}, {.dtype = DType::kI32})};
       }},
      {"ArgMax/default axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ArgMax(x[0])}; }},
      {"ArgMax/negative axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ArgMax(x[0], -1)}; }},
      {"ArgMax/int32 output",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ArgMax(x[0], 1, {.output_type = DType::kI32})};
       }},
      {"ArgMin/float", [](const tf::Tensors& x) -> tf::Tensors { return {tf::ArgMin(x[0], 1)}; }},
      {"ArgMin/int", [](const tf::Tensors& x) -> tf::Tensors { return {tf::ArgMin(x[0], 0)}; }},
      {"ArgMin/uint8", [](const tf::Tensors& x) -> tf::Tensors { return {tf::ArgMin(x[0], 1)}; }},
      {"Cumsum/default", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Cumsum(x[0])}; }},
      {"Cumsum/exclusive",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Cumsum(x[0], 1, {.exclusive = true})};
       }},
      {"Cumsum/reverse",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Cumsum(x[0], -1, {.reverse = true})};
       }},
      {"Cumsum/exclusive reverse",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Cumsum(x[0], 1, {.exclusive = true, .reverse = true})};
       }},
      {"Cumprod/default",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Cumprod(x[0], 1)}; }},
      {"Cumprod/exclusive reverse",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Cumprod(x[0], 1, {.exclusive = true, .reverse = true})};
       }},
      {"CumulativeLogsumexp/default",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::CumulativeLogsumexp(x[0], 1)}; }},
      {"CumulativeLogsumexp/infinite",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::CumulativeLogsumexp(x[0], 1)}; }},
      {"CumulativeLogsumexp/reverse",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::CumulativeLogsumexp(x[0], 1, {.reverse = true})};
       }},
      {"CumulativeLogsumexp/exclusive",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::CumulativeLogsumexp(x[0], 1, {.exclusive = true})};
       }},
      {"Norm/all", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Norm(x[0])}; }},
      {"Norm/axis",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::Norm(x[0], "euclidean", 1)}; }},
      {"Norm/one",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Norm(x[0], "1", 1, {.keepdims = true})};
       }},
      {"Norm/inf", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Norm(x[0], "inf", 0)}; }},
      {"Norm/three", [](const tf::Tensors& x) -> tf::Tensors { return {tf::Norm(x[0], "3", 1)}; }},
      {"Norm/fro",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Norm(x[0], "fro", {-2, -1})};
       }},
      {"Norm/matrix one",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Norm(x[0], "1", {1, 2})};
       }},
      {"Norm/matrix inf",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::Norm(x[0], "inf", {1, 2}, {.keepdims = true})};
       }},
      {"ClipByNorm/clipped",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ClipByNorm(x[0], 1.5)}; }},
      {"ClipByNorm/not clipped",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ClipByNorm(x[0], 50.0)}; }},
      {"ClipByNorm/axes",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ClipByNorm(x[0], 1.5, 1)}; }},
      {"ClipByNorm/zeros",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ClipByNorm(x[0], 1.5)}; }},
      {"ClipByAverageNorm/clipped",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ClipByAverageNorm(x[0], 0.1)}; }},
      {"GlobalNorm/three",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::GlobalNorm({x[0], x[1], x[2]})};
       }},
      {"ClipByGlobalNorm/clipped",
       [](const tf::Tensors& x) -> tf::Tensors {
         return [&] {
           auto [t, n] = tf::ClipByGlobalNorm({x[0], x[1]}, 1.0);
           return tf::Tensors{t[0], t[1], n};
         }();
       }},
      {"ClipByGlobalNorm/not clipped",
       [](const tf::Tensors& x) -> tf::Tensors {
         return tf::ClipByGlobalNorm({x[0], x[1]}, 100.0).first;
       }},
      {"UnsortedSegmentSum/rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::UnsortedSegmentSum(x[0], x[1], 5)}; }},
      {"UnsortedSegmentSum/two axes",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::UnsortedSegmentSum(x[0], x[1], 3)}; }},
      {"UnsortedSegmentMean/rows",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::UnsortedSegmentMean(x[0], x[1], 4)};
       }},
      {"UnsortedSegmentMean/int",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::UnsortedSegmentMean(x[0], x[1], 4)};
       }},
      {"UnsortedSegmentMean/int16",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::UnsortedSegmentMean(x[0], x[1], 4)};
       }},
      {"UnsortedSegmentProd/rows",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::UnsortedSegmentProd(x[0], x[1], 4)};
       }},
      {"UnsortedSegmentMax/rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::UnsortedSegmentMax(x[0], x[1], 4)}; }},
      {"UnsortedSegmentMin/int",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::UnsortedSegmentMin(x[0], x[1], 4)}; }},
      {"UnsortedSegmentSqrtN/rows",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::UnsortedSegmentSqrtN(x[0], x[1], 4)};
       }},
      {"SegmentSum/rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::SegmentSum(x[0], x[1], 4)}; }},
      {"SegmentMean/rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::SegmentMean(x[0], x[1], 4)}; }},
      {"SegmentMean/int",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::SegmentMean(x[0], x[1], 4)}; }},
      {"SegmentProd/rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::SegmentProd(x[0], x[1], 4)}; }},
      {"SegmentMax/rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::SegmentMax(x[0], x[1], 4)}; }},
      {"SegmentMax/256 rows of uint8",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::SegmentMax(x[0], x[1], 1)}; }},
      {"SegmentMin/rows",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::SegmentMin(x[0], x[1], 4)}; }},
      {"ConfusionMatrix/int32",
       [](const tf::Tensors& x) -> tf::Tensors { return {tf::ConfusionMatrix(x[0], x[1], 4)}; }},
      {"ConfusionMatrix/weights",
       [](const tf::Tensors& x) -> tf::Tensors {
         return {tf::ConfusionMatrix(x[0], x[1], 4, {.dtype = DType::kF32, .weights = x[2]})};
       }},
  };
}

}  // namespace penstock::tests
