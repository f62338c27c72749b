#include "penstock/save/testing/onnx_cases.h"

#include "absl/strings/str_cat.h"

namespace penstock::save::testing {
namespace {

using ir::DType;
using ir::Graph;
using ir::Shape;
using ir::TensorType;
using ir::Value;
using ir::Values;

using Function = std::function<Value(const Values& x)>;
using Cases = std::vector<OnnxCase>;

TensorType F32(std::vector<int64_t> dims) { return {DType::kF32, Shape(std::move(dims))}; }
TensorType Typed(DType dtype, std::vector<int64_t> dims) { return {dtype, Shape(std::move(dims))}; }

int64_t Rows(const Value& x) { return x.shape().dim(0); }

void Add(Cases& cases, std::string name, std::vector<TensorType> inputs, Function build,
         double low = -2, double high = 2) {
  cases.push_back({std::move(name), std::move(inputs),
                   [build = std::move(build)](const Values& x) { return Values{build(x)}; }, low,
                   high});
}

void AddUnary(Cases& cases) {
  struct Row {
    const char* name;
    Value (*function)(Value);
    double low = -2, high = 2;
  };
  for (const Row& row : {Row{"negate", ir::Negate},
                         Row{"abs", ir::Abs},
                         Row{"sign", ir::Sign},
                         Row{"exp", ir::Exp},
                         Row{"expm1", ir::Expm1, -1e-3, 1e-3},
                         Row{"log", ir::Log, 0.1, 5},
                         Row{"log1p near 0", ir::Log1p, -1e-3, 1e-3},
                         Row{"log1p", ir::Log1p, -0.9, 8},
                         Row{"sqrt", ir::Sqrt, 0, 5},
                         Row{"cbrt", ir::Cbrt},
                         Row{"rsqrt", ir::Rsqrt, 0.1, 5},
                         Row{"sigmoid", ir::Sigmoid},
                         Row{"sin", ir::Sin},
                         Row{"cos", ir::Cos},
                         Row{"tan", ir::Tan, -1, 1},
                         Row{"asin", ir::Asin, -0.9, 0.9},
                         Row{"acos", ir::Acos, -0.9, 0.9},
                         Row{"atan", ir::Atan},
                         Row{"sinh", ir::Sinh},
                         Row{"cosh", ir::Cosh},
                         Row{"tanh", ir::Tanh},
                         Row{"asinh", ir::Asinh},
                         Row{"acosh", ir::Acosh, 1.1, 5},
                         Row{"atanh", ir::Atanh, -0.9, 0.9},
                         Row{"erf", ir::Erf},
                         Row{"erfc", ir::Erfc},
                         Row{"erf_inv", ir::ErfInv, -0.9, 0.9},
                         Row{"floor", ir::Floor},
                         Row{"ceil", ir::Ceil},
                         Row{"round", ir::Round},
                         Row{"softplus", ir::Softplus, -30, 30},
                         Row{"stop_gradient", ir::StopGradient}}) {
    Add(
        cases, row.name, {F32({-1, 5})},
        [function = row.function](const Values& x) { return function(x[0]); }, row.low, row.high);
  }
  // Composites that ONNX Runtime lacks for float64 are decomposed.
  for (const Row& row :
       {Row{"log1p of float64", ir::Log1p, -0.9, 0.9}, Row{"erf of float64", ir::Erf},
        Row{"tan of float64", ir::Tan, -1, 1}, Row{"sinh of float64", ir::Sinh},
        Row{"cosh of float64", ir::Cosh}, Row{"asinh of float64", ir::Asinh},
        Row{"acosh of float64", ir::Acosh, 1.1, 5},
        Row{"atanh of float64", ir::Atanh, -0.9, 0.9}}) {
    Add(
        cases, row.name, {Typed(DType::kF64, {-1, 5})},
        [function = row.function](const Values& x) { return function(x[0]); }, row.low, row.high);
  }
  Add(cases, "gelu", {F32({-1, 5})}, [](const Values& x) { return ir::Gelu(x[0]); });
  Add(cases, "softmax", {F32({-1, 5})}, [](const Values& x) { return ir::Softmax(x[0]); });
  Add(cases, "is_finite", {F32({-1, 5})}, [](const Values& x) {
    return ir::Convert(ir::IsFinite(x[0] / ir::Floor(x[0])), DType::kF32);
  });
  Add(cases, "barrier", {F32({-1, 5})},
      [](const Values& x) { return ir::OptimizationBarrier({x[0] * 2.0})[0]; });
  Add(cases, "not", {F32({-1, 5})}, [](const Values& x) {
    return ir::Convert(ir::Not(ir::Greater(x[0], ir::SplatLike(x[0], 0))), DType::kI32);
  });
}

void AddBinary(Cases& cases) {
  struct Row {
    const char* name;
    Value (*function)(Value, Value);
  };
  constexpr Row kArithmetic[] = {{"add", ir::Add},
                                 {"subtract", ir::Subtract},
                                 {"multiply", ir::Multiply},
                                 {"maximum", ir::Maximum},
                                 {"minimum", ir::Minimum}};
  for (const DType dtype : {DType::kF32, DType::kI32, DType::kI64, DType::kU8, DType::kI16}) {
    for (const Row& row : kArithmetic) {
      Add(
          cases, absl::StrCat(row.name, " of ", base::DTypeName(dtype)),
          {Typed(dtype, {-1, 5}), Typed(dtype, {-1, 5})},
          [function = row.function](const Values& x) { return function(x[0], x[1]); }, 0, 200);
    }
  }
  for (const Row& row : {Row{"divide", ir::Divide}, Row{"power", ir::Power},
                         Row{"remainder", ir::Remainder}, Row{"log_add_exp", ir::LogAddExp}}) {
    Add(
        cases, row.name, {F32({-1, 5}), F32({-1, 5})},
        [function = row.function](const Values& x) { return function(x[0], x[1]); }, 0.2, 3);
  }
  Add(cases, "atan2", {F32({-1, 5}), F32({-1, 5})},
      [](const Values& x) { return ir::Atan2(x[0], x[1]); });
  Add(cases, "atan2 on the axes", {F32({-1, 5}), F32({-1, 5})}, [](const Values& x) {
    // Zeros without a sign.
    const auto sign = [](Value v) {
      const Value rounded = ir::Round(v), zero = ir::SplatLike(v, 0);
      return ir::Select(ir::Equal(rounded, zero), zero, ir::Sign(rounded));
    };
    return ir::Atan2(sign(x[0]), sign(x[1]));
  });
  Add(
      cases, "remainder of negative integers",
      {Typed(DType::kI32, {-1, 5}), Typed(DType::kI32, {-1, 5})},
      [](const Values& x) { return ir::Remainder(x[0], x[1] * 2.0 + 1.0); }, -9, 9);
  for (const Row& row :
       {Row{"and", ir::And}, Row{"or", ir::Or}, Row{"xor", ir::Xor}, Row{"bool add", ir::Add},
        Row{"bool multiply", ir::Multiply}, Row{"bool maximum", ir::Maximum}}) {
    Add(cases, row.name, {F32({-1, 5}), F32({-1, 5})}, [function = row.function](const Values& x) {
      const Value zero = ir::SplatLike(x[0], 0);
      return ir::Convert(function(ir::Greater(x[0], zero), ir::Greater(x[1], zero)), DType::kF32);
    });
  }
  using enum ir::Comparison;
  for (const ir::Comparison comparison : {kEq, kNe, kLt, kLe, kGt, kGe}) {
    for (const DType dtype : {DType::kF32, DType::kU8, DType::kI64}) {
      Add(
          cases, absl::StrCat("compare ", static_cast<int>(comparison), base::DTypeName(dtype)),
          {Typed(dtype, {-1, 5}), Typed(dtype, {-1, 5})},
          [comparison](const Values& x) {
            return ir::Convert(ir::Compare(x[0], x[1], comparison), DType::kF32);
          },
          0, 3);
    }
  }
  Add(cases, "select", {F32({-1, 5}), F32({5})}, [](const Values& x) {
    return ir::Select(ir::Greater(x[0], x[1]), x[0], ir::SplatLike(x[0], 7));
  });
  Add(
      cases, "select of bool and uint8", {F32({-1, 5}), Typed(DType::kU8, {-1, 5})},
      [](const Values& x) {
        const Value positive = ir::Greater(x[0], ir::SplatLike(x[0], 0));
        const Value odd = ir::Select(positive, ir::Not(positive), positive);
        return ir::Convert(ir::Select(odd, x[1], ir::SplatLike(x[1], 3)), DType::kF32);
      },
      0, 9);
}

void AddShapes(Cases& cases) {
  Add(cases, "constants", {F32({-1, 3})}, [](const Values& x) {
    Graph& graph = *x[0].graph();
    const Value row = ir::Constant(graph, ir::Array::Of<float>({3}, {1, 2, 3}));
    return x[0] * ir::Iota(graph, x[0].type(), 1) + row + ir::Iota(graph, x[0].type(), 0);
  });
  Add(cases, "iota alone", {F32({-1, 3})}, [](const Values& x) {
    return ir::Iota(*x[0].graph(), Typed(DType::kI32, {Rows(x[0]), 2, 2}), 0);
  });
  Add(cases, "splat alone", {F32({-1, 3})}, [](const Values& x) {
    return ir::Splat(*x[0].graph(), F32({Rows(x[0]) * 2, 2}), 1.5);
  });
  Add(cases, "broadcast", {F32({-1, 3})}, [](const Values& x) {
    const Value twice = ir::BroadcastInDim(x[0], Shape{2, Rows(x[0]), 4, 3}, {1, 3});
    return ir::Transpose(ir::Reshape(twice, {2, Rows(x[0]), 12}), {1, 2, 0});
  });
  Add(cases, "broadcast of a transposed value", {F32({-1, 3, 1})}, [](const Values& x) {
    return ir::BroadcastInDim(ir::Transpose(x[0], {0, 2, 1}), Shape{Rows(x[0]), 2, 3}, {0, 1, 2});
  });
  Add(cases, "reshape to a multiple of the batch", {F32({-1, 4})}, [](const Values& x) {
    return ir::Reshape(ir::Reshape(x[0], {Rows(x[0]) * 4}) * 2.0, {Rows(x[0]), 2, 2});
  });
  Add(cases, "transpose", {F32({-1, 3, 2})}, [](const Values& x) {
    return ir::Transpose(x[0], {2, 0, 1}) + ir::Splat(*x[0].graph(), F32({2, Rows(x[0]), 3}), 1);
  });
  Add(cases, "reverse", {F32({-1, 3, 2})}, [](const Values& x) {
    return ir::Reverse(x[0], {1, 2});
  });
  Add(cases, "concatenate", {F32({-1, 3, 2}), F32({-1, 1, 2})}, [](const Values& x) {
    return ir::Concatenate({x[0], x[1], ir::SplatLike(x[1], 4)}, 1);
  });
  Add(cases, "slice", {F32({-1, 7, 4})}, [](const Values& x) {
    return ir::Slice(x[0], {0, 1, 2}, {Rows(x[0]), 6, 4}, {1, 2, 1});
  });
  Add(cases, "slice of a doubled batch", {F32({-1, 4})}, [](const Values& x) {
    return ir::SliceAxis(ir::Concatenate({x[0], -x[0]}, 0), 0, Rows(x[0]), 2 * Rows(x[0]));
  });
  Add(cases, "pad", {F32({-1, 5, 4})}, [](const Values& x) {
    return ir::Pad(x[0], 9, {{0, 0, 0}, {2, -1, 0}, {-1, 3, 2}});
  });
  for (const DType dtype : {DType::kU8, DType::kI16, DType::kI64, DType::kBool}) {
    Add(
        cases, absl::StrCat("pad of ", base::DTypeName(dtype)), {Typed(DType::kI32, {-1, 4})},
        [dtype](const Values& x) {
          const Value y = ir::Pad(ir::Convert(x[0], dtype), 1, {{0, 0, 0}, {1, 2, 0}});
          return ir::Convert(y, DType::kI32);
        },
        0, 100);
  }
  Add(cases, "pad and crop one axis", {F32({-1, 5})}, [](const Values& x) {
    return ir::Pad(x[0], 9, {{0, 0, 0}, {3, -6, 0}});
  });
  cases.push_back({"split", {F32({-1, 7})}, [](const Values& x) {
                     return ir::Split(x[0], std::vector<int64_t>{1, 4, 2}, 1);
                   }});
  Add(cases, "dynamic_slice", {F32({-1, 6})}, [](const Values& x) {
    Graph& graph = *x[0].graph();
    const Value zero = ir::Splat(graph, {DType::kI32, {}}, 0);
    const Value far = ir::Splat(graph, {DType::kI32, {}}, 40);
    return ir::DynamicSlice(x[0], {zero, far}, {Rows(x[0]), 4});
  });
  for (const DType dtype : {DType::kF32, DType::kU16, DType::kBool}) {
    Add(cases, absl::StrCat("dynamic_update_slice of ", base::DTypeName(dtype)),
        {F32({-1, 6}), F32({-1, 2})}, [dtype](const Values& x) {
          Graph& graph = *x[0].graph();
          const Value zero = ir::Splat(graph, {DType::kI32, {}}, 0);
          Value y = ir::Convert(ir::Abs(x[0]), dtype);
          const Value update = ir::Convert(ir::Abs(x[1]), dtype);
          for (const double at : {1, 40}) {  // the second one is clamped
            y = ir::DynamicUpdateSlice(y, update, {zero, ir::Splat(graph, {DType::kI32, {}}, at)});
          }
          return ir::Convert(y, DType::kF32);
        });
  }
  for (const DType dtype : {DType::kI32, DType::kU8, DType::kI64, DType::kBool, DType::kBF16}) {
    Add(
        cases, absl::StrCat("convert to ", base::DTypeName(dtype)), {F32({-1, 4})},
        [dtype](const Values& x) {
          return ir::Convert(ir::Convert(ir::Round(x[0]), dtype), DType::kF32);
        },
        0, 100);
  }
}

void AddProducts(Cases& cases) {
  Add(cases, "matmul", {F32({-1, 3, 4}), F32({4, 2})},
      [](const Values& x) { return ir::MatMul(x[0], x[1]); });
  Add(cases, "batched matmul", {F32({-1, 3, 4}), F32({-1, 4, 2})},
      [](const Values& x) { return ir::MatMul(x[0], x[1]); });
  Add(cases, "attention scores", {F32({-1, 3, 2, 4}), F32({-1, 5, 2, 4})}, [](const Values& x) {
    return ir::DotGeneral(
        x[0], x[1],
        {.lhs_contracting = {3}, .rhs_contracting = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}});
  });
  Add(cases, "several contracting and free axes", {F32({-1, 3, 4}), F32({4, 2, 3, 2})},
      [](const Values& x) {
        return ir::DotGeneral(x[0], x[1], {.lhs_contracting = {1, 2}, .rhs_contracting = {2, 0}});
      });
  Add(cases, "contraction of the first axis", {F32({-1, 3}), F32({2, 3})}, [](const Values& x) {
    return ir::DotGeneral(x[0], x[1], {.lhs_contracting = {1}, .rhs_contracting = {1}});
  });
  Add(
      cases, "product of integers", {Typed(DType::kI32, {-1, 3}), Typed(DType::kI32, {3, 2})},
      [](const Values& x) { return ir::MatMul(x[0], x[1]); }, -9, 9);
  const TensorType image = F32({-1, 7, 6, 4});
  Add(cases, "convolution", {image, F32({3, 3, 4, 5})}, [](const Values& x) {
    return ir::Convolution(x[0], x[1], {.strides = {2, 1}, .padding = {{1, 0}, {2, 1}}});
  });
  Add(cases, "grouped and dilated convolution", {image, F32({3, 2, 2, 6})}, [](const Values& x) {
    return ir::Convolution(x[0], x[1], {.rhs_dilation = {2, 3}, .feature_group_count = 2});
  });
  Add(cases, "convolution with holes and crops", {image, F32({3, 3, 4, 2})}, [](const Values& x) {
    return ir::Convolution(x[0], x[1], {.padding = {{-1, 2}, {1, -2}}, .lhs_dilation = {2, 3}});
  });
  Add(cases, "convolution of a sequence", {F32({-1, 9, 2}), F32({4, 2, 3})}, [](const Values& x) {
    return ir::Convolution(x[0], x[1], {.strides = {2}, .padding = {{3, 0}}});
  });
  Add(cases, "convolution of a volume", {F32({-1, 4, 5, 3, 2}), F32({2, 2, 2, 2, 3})},
      [](const Values& x) { return ir::Convolution(x[0], x[1]); });
  Add(cases, "convolutions in a row", {image, F32({3, 3, 4, 4}), F32({4})}, [](const Values& x) {
    const ir::ConvolutionOptions same{.padding = {{1, 1}, {1, 1}}};
    const Value y = ir::Relu(ir::Convolution(x[0], x[1], same) + x[2]);
    return ir::Concatenate({ir::Convolution(y, x[1], same) + y, x[0]}, 3);
  });
  for (const int64_t stride : {1, 2, 3}) {
    Add(cases, absl::StrCat("transposed convolution, stride ", stride),
        {F32({-1, 4, 3, 5}), F32({3, 3, 2, 5})}, [stride](const Values& x) {
          const Shape to{Rows(x[0]), 4 * stride, 3 * stride, 2};
          const auto rows = ir::SamePadding(4 * stride, 3, stride),
                     columns = ir::SamePadding(3 * stride, 3, stride);
          return ir::ConvolutionTranspose(
              x[0], x[1], to, {.strides = {stride, stride}, .padding = {rows, columns}});
        });
  }
  Add(cases, "transposed convolution with groups", {F32({-1, 4, 3, 6}), F32({2, 2, 2, 6})},
      [](const Values& x) {
        const Shape to{Rows(x[0]), 9, 7, 4};
        return ir::ConvolutionTranspose(x[0], x[1], to,
                                        {.strides = {2, 2},
                                         .padding = {{0, 0}, {0, 0}},
                                         .rhs_dilation = {2, 2},
                                         .feature_group_count = 2});
      });
  Add(cases, "transposed convolution without a counterpart",
      {F32({-1, 4, 3, 5}), F32({2, 2, 2, 5})}, [](const Values& x) {
        // The input has elements that the convolution's windows do not reach.
        const Shape to{Rows(x[0]), 13, 9, 2};
        return ir::ConvolutionTranspose(x[0], x[1], to,
                                        {.strides = {3, 3}, .padding = {{0, -1}, {0, 0}}});
      });
}

void AddReductions(Cases& cases) {
  const TensorType image = F32({-1, 7, 6, 3});
  Add(cases, "sum", {image}, [](const Values& x) { return ir::ReduceSum(x[0], {1, 3}); });
  Add(cases, "mean that keeps axes", {image}, [](const Values& x) {
    return x[0] - ir::ReduceMean(x[0], {1, 2}, true);
  });
  Add(cases, "product", {image}, [](const Values& x) { return ir::ReduceProduct(x[0], {1, 2}); });
  Add(cases, "maximum of an axis", {image},
      [](const Values& x) { return ir::ReduceMax(x[0], {2}); });
  Add(cases, "minimum of an axis", {image},
      [](const Values& x) { return ir::ReduceMin(x[0], {2}); });
  Add(
      cases, "sum of uint8", {Typed(DType::kU8, {-1, 5})},
      [](const Values& x) { return ir::ReduceSum(x[0], {1}); }, 0, 200);
  Add(cases, "all and any", {image}, [](const Values& x) {
    const Value positive = ir::Greater(x[0], ir::SplatLike(x[0], -1.9));
    return ir::Convert(
        ir::Xor(ir::ReduceAnd(positive, {1, 2, 3}), ir::ReduceOr(positive, {1, 2, 3})),
        DType::kF32);
  });
  Add(cases, "all and any of nothing", {F32({-1, 0})}, [](const Values& x) {
    const Value none = ir::Greater(x[0], ir::SplatLike(x[0], 0));
    return ir::Concatenate({ir::Convert(ir::ReduceAnd(none, {1}, true), DType::kF32),
                            ir::Convert(ir::ReduceOr(none, {1}, true), DType::kF32)},
                           1);
  });
  Add(cases, "argmax", {image}, [](const Values& x) { return ir::ArgMax(x[0], 3); });
  struct Row {
    const char* name;
    ir::WindowReducer reducer;
  };
  for (const Row& row :
       {Row{"sums", ir::WindowReducer::kSum}, Row{"maxima", ir::WindowReducer::kMax},
        Row{"minima", ir::WindowReducer::kMin}}) {
    Add(cases, absl::StrCat(row.name, " of windows"), {image},
        [reducer = row.reducer](const Values& x) {
          return ir::ReduceWindow(x[0], reducer,
                                  {.size = {1, 3, 2, 1},
                                   .strides = {1, 2, 1, 1},
                                   .padding = {{0, 0}, {1, 1}, {0, 1}, {0, 0}}});
        });
    Add(cases, absl::StrCat(row.name, " of windows in much padding"), {F32({-1, 7, 3})},
        [reducer = row.reducer](const Values& x) {
          const Value y = ir::ReduceWindow(
              x[0], reducer, {.size = {1, 2, 1}, .padding = {{0, 0}, {1, 3}, {0, 0}}});
          return ir::Clamp(ir::SplatLike(y, -9), y, ir::SplatLike(y, 9));
        });
  }
  Add(cases, "minima of the first axis and the last one", {F32({4, -1, 6})}, [](const Values& x) {
    return ir::ReduceWindow(x[0], ir::WindowReducer::kMin, {.size = {2, 1, 3}});
  });
  Add(cases, "sums of windows of each axis but the first", {F32({-1, 6})}, [](const Values& x) {
    return ir::ReduceWindow(x[0], ir::WindowReducer::kSum,
                            {.size = {1, 3}, .padding = {{0, 0}, {-1, 1}}});
  });
  // The elements of a window are 3 apart, so that those of the only one are padding.
  Add(cases, "dilated windows in padding", {F32({-1, 2, 3})}, [](const Values& x) {
    const Value y = ir::ReduceWindow(
        x[0], ir::WindowReducer::kMax,
        {.size = {1, 2, 1}, .dilation = {1, 3, 1}, .padding = {{0, 0}, {1, 1}, {0, 0}}});
    return ir::Clamp(ir::SplatLike(y, -9), y, ir::SplatLike(y, 9));
  });
  Add(cases, "maxima of dilated windows", {image}, [](const Values& x) {
    return ir::ReduceWindow(x[0], ir::WindowReducer::kMax,
                            {.size = {1, 3, 2, 1}, .dilation = {1, 2, 3, 1}});
  });
  Add(cases, "pooling after a convolution", {image, F32({3, 3, 3, 4})}, [](const Values& x) {
    const Value y = ir::Convolution(x[0], x[1]);
    const Value pooled = ir::ReduceWindow(y, ir::WindowReducer::kMax,
                                          {.size = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}});
    return ir::ReduceMean(ir::Pad(pooled, 0, {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 0}}), {1, 2});
  });
  Add(cases, "sequences pooled", {F32({-1, 9, 2})}, [](const Values& x) {
    return ir::ReduceWindow(x[0], ir::WindowReducer::kSum,
                            {.size = {1, 3, 1}, .strides = {1, 3, 1}});
  });
  for (const bool reverse : {false, true}) {
    const std::string name = reverse ? "reverse " : "";
    Add(cases, name + "cumsum", {F32({-1, 7, 2})},
        [reverse](const Values& x) { return ir::CumSum(x[0], 1, reverse); });
    Add(cases, name + "cummax", {F32({-1, 7, 2})},
        [reverse](const Values& x) { return ir::CumMax(x[0], 1, reverse); });
    Add(cases, name + "cumprod", {F32({-1, 7, 2})},
        [reverse](const Values& x) { return ir::CumProd(x[0], 1, reverse); });
  }
}

void AddIndexing(Cases& cases) {
  Add(
      cases, "take from a table", {Typed(DType::kI32, {-1, 4}), F32({6, 3})},
      [](const Values& x) { return ir::Take(x[1], x[0], 0); }, -3, 9);
  Add(
      cases, "take along the last axis", {F32({-1, 4, 5}), Typed(DType::kI64, {2, 2})},
      [](const Values& x) { return ir::Take(x[0], x[1], 2); }, -3, 9);
  Add(
      cases, "take along an axis in the middle", {F32({-1, 4, 5}), Typed(DType::kU8, {2})},
      [](const Values& x) { return ir::Take(x[0], x[1], 1); }, 0, 9);
  Add(
      cases, "take_along_axis", {F32({-1, 4, 5}), Typed(DType::kI32, {-1, 2, 5})},
      [](const Values& x) { return ir::TakeAlongAxis(x[0], x[1], 1); }, -3, 9);
  Add(
      cases, "gather of rows by two indices", {F32({3, 4, 5}), Typed(DType::kI32, {2, -1})},
      [](const Values& x) {
        // The components are on axis 0: the axes of the batch come second.
        const Value index = ir::Reshape(x[1], Shape{Rows(x[1]), x[1].shape().dim(1)});
        return ir::Gather(x[0], ir::Transpose(index, {1, 0}),
                          {.offset_dims = {0},
                           .collapsed_slice_dims = {0, 2},
                           .start_index_map = {2, 0},
                           .index_vector_dim = 1},
                          {1, 4, 1});
      },
      -3, 9);
  Add(cases, "a batch on axis 1", {F32({2, -1})}, [](const Values& x) {
    const int64_t columns = x[0].shape().dim(1);
    return ir::Transpose(x[0], {1, 0}) + ir::Iota(*x[0].graph(), F32({columns, 2}), 0);
  });
  Add(
      cases, "one_hot", {Typed(DType::kI32, {-1, 2})},
      [](const Values& x) { return ir::OneHot(x[0], 5, DType::kF32); }, -1, 6);
  cases.push_back({"sort", {F32({-1, 7})}, [](const Values& x) {
                     return Values{ir::Sort(x[0], 1), ir::ArgSort(ir::Round(x[0]), 1, true)};
                   }});
  cases.push_back({"top_k", {F32({-1, 7})}, [](const Values& x) {
                     const ir::TopKResult top = ir::TopK(x[0], 3);
                     return Values{top.values, top.indices};
                   }});
  Add(
      cases, "sort of uint8", {Typed(DType::kU8, {-1, 7})},
      [](const Values& x) { return ir::Sort(x[0], 1); }, 0, 200);
}

void AddControlFlow(Cases& cases) {
  for (const bool reverse : {false, true}) {
    const std::string name = reverse ? "reverse scan" : "scan";
    cases.push_back({name, {F32({-1, 5, 3}), F32({3, 3})}, [reverse](const Values& x) {
                       const Value rows = ir::Transpose(x[0], {1, 0, 2});
                       const Value zero = ir::Splat(*x[0].graph(), F32({Rows(x[0]), 3}), 0);
                       const ir::ScanOut done = ir::Scan(
                           {zero}, {rows}, {x[1]},
                           [](Graph&, const ir::ScanIn& in) {
                             const Value number = ir::Convert(in.index, DType::kF32);
                             const Value h =
                                 ir::Tanh(in.x[0] + ir::MatMul(in.state[0], in.constants[0])) +
                                 ir::BroadcastTo(number, in.x[0].shape());
                             return ir::ScanOut{.state = {h}, .y = {h, ir::ReduceSum(h, {1})}};
                           },
                           {.reverse = reverse});
                       return Values{done.state[0], done.y[0], done.y[1]};
                     }});
  }
  cases.push_back({"for", {F32({-1, 3})}, [](const Values& x) {
                     return ir::For(4, {x[0], x[0]}, [](Graph&, Value i, const Values& s) {
                       return Values{s[1], s[0] * ir::Convert(i, DType::kF32)};
                     });
                   }});
  Add(cases, "while", {F32({-1, 3})}, [](const Values& x) {
    const Value limit = ir::ReduceMax(ir::Constant(*x[0].graph(), ir::Array::Of<float>({1}, {90})));
    return ir::While(
        {ir::Abs(x[0]), ir::Splat(*x[0].graph(), F32({}), 1), limit},
        [](Graph&, const Values& s) { return ir::Less(s[1], s[2]); },
        [](Graph&, const Values& s) {
          return Values{s[0] + 1.0, s[1] * 3.0, s[2]};
        })[0];
  });
  Add(cases, "cond", {F32({-1, 3}), F32({})}, [](const Values& x) {
    const auto branch = [&](double limit) {
      return ir::Cond(
          ir::Greater(x[1], ir::SplatLike(x[1], limit)), {x[0], x[1]},
          [](Graph&, const Values& s) { return Values{s[0] * s[1]}; },
          [](Graph&, const Values& s) { return Values{ir::SplatLike(s[0], 3)}; })[0];
    };
    return branch(-9) + branch(9);
  });
}

}  // namespace

std::vector<OnnxCase> OnnxCases() {
  Cases cases;
  AddUnary(cases);
  AddBinary(cases);
  AddShapes(cases);
  AddProducts(cases);
  AddReductions(cases);
  AddIndexing(cases);
  AddControlFlow(cases);
  return cases;
}

std::unique_ptr<Graph> GraphOf(const OnnxCase& one, int64_t batch) {
  auto graph = std::make_unique<Graph>(one.name);
  Values x;
  for (TensorType type : one.inputs) {
    for (int i = 0; i < type.shape.rank(); ++i) {
      if (type.shape.dim(i) < 0) type.shape.set_dim(i, batch);
    }
    x.push_back(graph->Parameter(type, absl::StrCat("x", x.size())));
  }
  const Values results = one.build(x);
  std::vector<std::string> names;
  for (size_t i = 0; i < results.size(); ++i) names.push_back(absl::StrCat("y", i));
  graph->SetResults(results, names);
  return graph;
}

}  // namespace penstock::save::testing
