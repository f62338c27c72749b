#include "tests/operations/operations.h"

namespace penstock::tests {
namespace {

using ir::Value;
using ir::Values;

ir::ConvolutionOptions::Dimensions DimensionsOf(const Call& c) {
  if (!c.options.contains("dimensions")) return {};
  const nlohmann::json& d = c.options.at("dimensions");
  return {.input_batch = d.at("input_batch"),
          .input_feature = d.at("input_feature"),
          .input_spatial = d.at("input_spatial").get<ir::Axes>(),
          .kernel_input_feature = d.at("kernel_input_feature"),
          .kernel_output_feature = d.at("kernel_output_feature"),
          .kernel_spatial = d.at("kernel_spatial").get<ir::Axes>(),
          .output_batch = d.at("output_batch"),
          .output_feature = d.at("output_feature"),
          .output_spatial = d.at("output_spatial").get<ir::Axes>()};
}

ir::ConvolutionOptions ConvolutionOptionsOf(const Call& c) {
  ir::ConvolutionOptions options{.strides = c.Ints("strides"),
                                 .lhs_dilation = c.Ints("lhs_dilation"),
                                 .rhs_dilation = c.Ints("rhs_dilation"),
                                 .feature_group_count = c.Int("feature_group_count"),
                                 .batch_group_count = c.Int("batch_group_count"),
                                 .dimensions = DimensionsOf(c)};
  if (!c.Flag("same")) {
    for (const auto& axis : c.options.at("padding")) options.padding.push_back({axis[0], axis[1]});
    return options;
  }
  const ir::ConvolutionOptions::Dimensions& d = options.dimensions;
  for (size_t i = 0; i < options.strides.size(); ++i) {
    const int axis = static_cast<int>(d.input_batch < 0 ? i + 1 : d.input_spatial[i]);
    const int of_kernel = static_cast<int>(d.input_batch < 0 ? i : d.kernel_spatial[i]);
    options.padding.push_back(ir::SamePadding(c.x[0].shape().dim(axis),
                                              c.x[1].shape().dim(of_kernel), options.strides[i],
                                              options.rhs_dilation[i]));
  }
  return options;
}

Values Convolution(const Call& c) {
  return {ir::Convolution(c.x[0], c.x[1], ConvolutionOptionsOf(c))};
}

Values ReduceWindow(const Call& c) {
  const std::string name = c.Text("reducer");
  const ir::WindowReducer reducer = name == "sum"   ? ir::WindowReducer::kSum
                                    : name == "max" ? ir::WindowReducer::kMax
                                                    : ir::WindowReducer::kMin;
  ir::WindowOptions options{
      .size = c.Ints("size"), .strides = c.Ints("strides"), .dilation = c.Ints("dilation")};
  for (const auto& axis : c.options.at("padding")) options.padding.push_back({axis[0], axis[1]});
  return {ir::ReduceWindow(c.x[0], reducer, options)};
}

Values Parts(const ir::Complex& z) { return {z.real, z.imag}; }

}  // namespace

OperationTable ContractionCalls() {
  return {
      {"DotGeneral",
       [](const Call& c) -> Values {
         return {ir::DotGeneral(c.x[0], c.x[1],
                                {.lhs_contracting = c.Ints("lhs_contracting"),
                                 .rhs_contracting = c.Ints("rhs_contracting"),
                                 .lhs_batch = c.Ints("lhs_batch"),
                                 .rhs_batch = c.Ints("rhs_batch")})};
       }},
      {"MatMul", [](const Call& c) -> Values { return {ir::MatMul(c.x[0], c.x[1])}; }},
      {"Cholesky", [](const Call& c) -> Values { return {ir::Cholesky(c.x[0])}; }},
      {"TriangularSolve",
       [](const Call& c) -> Values {
         return {ir::TriangularSolve(c.x[0], c.x[1],
                                     {.left_side = c.Flag("left_side"),
                                      .lower = c.Flag("lower"),
                                      .transpose = c.Flag("transpose"),
                                      .unit_diagonal = c.Flag("unit_diagonal")})};
       }},
      {"Fft",
       [](const Call& c) {
         return Parts(ir::Fft({c.x[0], c.x[1]}, c.Int("axes")));
       }},
      {"Ifft",
       [](const Call& c) {
         return Parts(ir::Ifft({c.x[0], c.x[1]}, c.Int("axes")));
       }},
      {"Rfft", [](const Call& c) { return Parts(ir::Rfft(c.x[0], c.Int("axes"))); }},
      {"Irfft",
       [](const Call& c) -> Values {
         return {ir::Irfft({c.x[0], c.x[1]}, c.Int("length"), c.Int("axes"))};
       }},
      {"Convolution", Convolution},
      {"SamePadding", Convolution},
      {"ConvolutionTranspose",
       [](const Call& c) -> Values {
         return {
             ir::ConvolutionTranspose(c.x[0], c.x[1], c.ShapeOf("input"), ConvolutionOptionsOf(c))};
       }},
      {"ReduceWindow", ReduceWindow},
  };
}

}  // namespace penstock::tests
