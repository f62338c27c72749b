#include "penstock/kernels/testing/random_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <tuple>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/gradients.h"
#include "penstock/ir/ops.h"
#include "penstock/kernels/testing/compare.h"

namespace penstock::kernels {
namespace {

using base::Array;
using base::DType;
using base::Shape;
using ir::Value;
using ir::Values;
using Ints = std::vector<int64_t>;

// Distribution of an argument's values.
enum class Numbers { kNormal, kOffset, kLarge, kTiny, kSubnormal, kTies };

// Draws the parameters of a case.
class Draw {
 public:
  explicit Draw(base::Random& random) : random_(random) {
    narrow = OneIn(2);
    if (OneIn(4)) numbers_ = static_cast<Numbers>(From(0, 5));
  }

  int64_t From(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(high - low + 1)));
  }
  bool OneIn(int64_t n) { return From(1, n) == 1; }
  int64_t Of(std::initializer_list<int64_t> list) {
    return list.begin()[From(0, static_cast<int64_t>(list.size()) - 1)];
  }

  DType dtype() const { return narrow ? DType::kBF16 : DType::kF32; }
  // plain: always normally distributed.
  Array Numbers_(const Shape& shape, DType dtype, bool plain = false) {
    std::vector<double> values(shape.num_elements());
    for (double& v : values) v = Number(plain ? Numbers::kNormal : numbers_);
    return *Array::Of<double>(shape, values).Cast(dtype);
  }

  bool narrow = false;

 private:
  double Number(Numbers numbers) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random_.Uniform();  // approximates a normal distribution
    switch (numbers) {
      case Numbers::kNormal:
        return sum;
      case Numbers::kOffset:
        return sum + 1000;
      case Numbers::kLarge:
        return sum * 1e4;
      case Numbers::kTiny:
        return sum * 1e-28;
      case Numbers::kSubnormal:
        return sum * 1e-38;
      case Numbers::kTies:
        return std::round(sum);
    }
    return sum;
  }

  base::Random& random_;
  Numbers numbers_ = Numbers::kNormal;
};

// ys, then the gradients of sum(ys * cotangents) with respect to xs.
Values WithGradients(const Values& ys, const Values& cotangents, const Values& xs) {
  Values products;
  for (size_t i = 0; i < ys.size(); ++i) {
    // Summed in at least f32.
    const DType wide = ys[i].dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
    products.push_back(ir::ReduceSum(ir::Convert(ys[i], wide) * ir::Convert(cotangents[i], wide)));
  }
  Value loss = products[0];
  for (size_t i = 1; i < products.size(); ++i) loss = loss + products[i];
  Values out = ys;
  for (const Value& gradient : ir::Gradients(loss, xs)) out.push_back(gradient);
  return out;
}

// A window over height and width, for a convolution or pooling.
struct Sliding {
  std::array<int64_t, 2> input, size, strides{1, 1}, dilation{1, 1}, low{0, 0}, high{0, 0};

  int64_t Output(int i) const {
    const int64_t reach = (size[i] - 1) * dilation[i] + 1, extent = input[i] + low[i] + high[i];
    return extent < reach ? 0 : (extent - reach) / strides[i] + 1;
  }
  // Padding of any kind; the input grows until there is an output.
  void DrawPadding(Draw& draw, int64_t largest) {
    const int64_t kind = draw.From(0, 3);
    for (int i = 0; i < 2; ++i) {
      if (kind == 1) {
        std::tie(low[i], high[i]) = ir::SamePadding(input[i], size[i], strides[i], dilation[i]);
      } else if (kind > 1) {
        const int64_t most = kind == 2 ? 3 : size[i] * dilation[i] + largest;
        low[i] = draw.From(0, most);
        high[i] = draw.From(0, most);
      }
      while (Output(i) == 0) ++input[i];
    }
  }
  std::string Text() const {
    const auto pair = [](const std::array<int64_t, 2>& p) { return absl::StrCat(p[0], ",", p[1]); };
    return absl::StrCat("input ", pair(input), " window ", pair(size), " strides ", pair(strides),
                        " dilation ", pair(dilation), " low ", pair(low), " high ", pair(high));
  }
};

// Maximum number of multiplications of a case, so that thousands run in minutes.
constexpr int64_t kMaxProducts = 4'000'000;

RandomKernel DrawConvolution(Draw& draw) {
  Sliding s;
  int64_t batch = draw.From(1, 17), groups = 1, channels = 0, filters = 0;
  if (draw.OneIn(3)) {  // shapes for Winograd's algorithm
    s.size = {3, 3};
    channels = 16 * draw.From(1, 6);
    filters = 16 * draw.From(1, 6);
    s.input = {draw.From(1, 24), draw.From(1, 24)};
    if (draw.OneIn(8)) s.strides = {draw.From(1, 2), 1};
  } else {
    s.input = {draw.From(1, 40), draw.From(1, 40)};
    if (draw.OneIn(3)) s.input = {draw.From(1, 6), draw.From(1, 6)};
    s.size[0] = draw.OneIn(4) ? 1 : draw.From(1, 7);
    s.size[1] = draw.OneIn(2) ? s.size[0] : draw.From(1, 7);
    if (draw.OneIn(2)) s.strides = {draw.From(1, 3), draw.From(1, 3)};
    if (draw.OneIn(2)) s.dilation = {draw.From(1, 4), draw.From(1, 4)};
    switch (draw.From(0, 4)) {
      case 0:  // depthwise
        groups = channels = draw.From(1, 40);
        filters = channels * draw.From(1, 3);
        break;
      case 1:
        groups = draw.From(1, 6);
        channels = groups * draw.From(1, 20);
        filters = groups * draw.From(1, 20);
        break;
      case 2:
        channels = draw.Of({16, 32, 64, 128, 256});
        filters = draw.Of({16, 32, 64, 100, 256});
        break;
      default:
        channels = draw.From(1, 80);
        filters = draw.From(1, 80);
    }
  }
  s.DrawPadding(draw, 2);
  while (batch > 1 &&
         batch * s.Output(0) * s.Output(1) * s.size[0] * s.size[1] * (channels / groups) * filters >
             kMaxProducts) {
    batch /= 2;
  }
  const bool bias = draw.OneIn(3), filters_first = draw.OneIn(3);
  const DType dtype = draw.dtype();
  RandomKernel made;
  made.text = absl::StrCat(filters_first ? "OIHW " : "", "convolution ", base::DTypeName(dtype),
                           " batch ", batch, " channels ", channels, " filters ", filters,
                           " groups ", groups, " ", s.Text(), bias ? " bias" : "");
  made.arguments = {
      draw.Numbers_({batch, s.input[0], s.input[1], channels}, dtype),
      draw.Numbers_(filters_first ? Shape{filters, channels / groups, s.size[0], s.size[1]}
                                  : Shape{s.size[0], s.size[1], channels / groups, filters},
                    dtype, true),
      draw.Numbers_({batch, s.Output(0), s.Output(1), filters}, dtype, true),
      draw.Numbers_({filters}, dtype)};
  made.build = [=](const Values& p) {
    ir::ConvolutionOptions options{.strides = {s.strides[0], s.strides[1]},
                                   .padding = {{s.low[0], s.high[0]}, {s.low[1], s.high[1]}},
                                   .rhs_dilation = {s.dilation[0], s.dilation[1]},
                                   .feature_group_count = groups};
    Value y =
        ir::Convolution(p[0], filters_first ? ir::Transpose(p[1], {2, 3, 1, 0}) : p[1], options);
    Values xs{p[0], p[1]};
    if (bias) {
      y = y + p[3];
      xs.push_back(p[3]);
    }
    return WithGradients({y}, {p[2]}, xs);
  };
  // With a bias, what is left to XLA is rounded to bf16 twice.
  made.tolerance = draw.narrow ? (bias ? 1.0 / 100 : 1.0 / 200) : 2e-5;
  return made;
}

RandomKernel DrawPooling(Draw& draw) {
  Sliding s;
  const int64_t batch = draw.From(1, 5), channels = draw.From(1, 40);
  s.input = {draw.From(1, 20), draw.From(1, 20)};
  s.size = {draw.From(1, 6), draw.From(1, 6)};
  if (draw.OneIn(8)) s.size = {draw.From(1, 30), draw.From(1, 30)};
  s.strides = {draw.From(1, 4), draw.From(1, 4)};
  if (draw.OneIn(4)) s.dilation = {draw.From(1, 3), draw.From(1, 3)};
  s.DrawPadding(draw, 0);
  const bool max = draw.OneIn(2);
  const DType dtype = draw.dtype();
  RandomKernel made;
  made.text = absl::StrCat(max ? "max" : "sum", " pooling ", base::DTypeName(dtype), " batch ",
                           batch, " channels ", channels, " ", s.Text());
  made.arguments = {draw.Numbers_({batch, s.input[0], s.input[1], channels}, dtype),
                    draw.Numbers_({batch, s.Output(0), s.Output(1), channels}, dtype, true)};
  made.build = [=](const Values& p) {
    const Value y = ir::ReduceWindow(
        p[0], max ? ir::WindowReducer::kMax : ir::WindowReducer::kSum,
        {.size = {1, s.size[0], s.size[1], 1},
         .strides = {1, s.strides[0], s.strides[1], 1},
         .dilation = {1, s.dilation[0], s.dilation[1], 1},
         .padding = {{0, 0}, {s.low[0], s.high[0]}, {s.low[1], s.high[1]}, {0, 0}}});
    // The maximum over a window of only padding is -inf.
    const Value finite = ir::Select(ir::IsFinite(y), y, ir::SplatLike(y, 0));
    Values out = WithGradients({finite}, {p[1]}, {p[0]});
    out.push_back(y);
    return out;
  };
  made.tolerance = draw.narrow ? 1.0 / 200 : 2e-6;
  return made;
}

RandomKernel DrawBatchNorm(Draw& draw) {
  const int64_t rank = draw.From(2, 5), features = draw.From(1, 70);
  const int64_t batch = draw.From(1, rank == 2 ? 200 : 9);
  Ints dims{batch};
  for (int64_t i = 2; i < rank; ++i) dims.push_back(draw.From(1, 12));
  dims.push_back(features);
  const bool mask = draw.OneIn(2), relu = draw.OneIn(2), scaled = draw.OneIn(2),
             residual = draw.OneIn(3), both_normed = draw.OneIn(4), first = draw.OneIn(2),
             statistics = draw.OneIn(2), read_twice = draw.OneIn(4);
  const double epsilon = draw.OneIn(2) ? 1e-3 : 1.1e-5;
  const DType dtype = draw.dtype();
  std::vector<double> rows(batch);
  for (double& row : rows) row = draw.OneIn(3) ? 0 : 1;
  if (draw.OneIn(6)) std::fill(rows.begin(), rows.end(), 0);
  RandomKernel made;
  made.text = absl::StrCat("batch norm ", base::DTypeName(dtype), " ", Shape(dims).ToString(),
                           mask ? " mask" : "", relu ? " relu" : "", scaled ? " scale" : "",
                           residual ? " residual" : "", both_normed ? " both" : "",
                           statistics ? " statistics" : "", read_twice ? " read twice" : "");
  const Shape per_feature{features};
  made.arguments = {draw.Numbers_(Shape(dims), dtype),
                    draw.Numbers_(per_feature, DType::kF32, true),
                    draw.Numbers_(per_feature, DType::kF32, true),
                    *Array::Of<double>({batch}, rows).Cast(DType::kF32),
                    draw.Numbers_(Shape(dims), dtype, true),
                    draw.Numbers_(Shape(dims), dtype, true),
                    draw.Numbers_(per_feature, DType::kF32, true)};
  const auto norm = [=](const Values& p, Value x, Value scale, Value offset) {
    return ir::BatchNormTraining(x, scale, offset, mask ? p[3] : Value(),
                                 {.axis = -1, .epsilon = epsilon});
  };
  const auto norm_of_first = [=](const Values& p) {
    return norm(p, p[0], scaled ? p[1] : Value(), scaled ? p[2] : Value());
  };
  const auto add_residual = [=](const Values& p, const Value& y) {
    const Value other = both_normed ? norm(p, p[5], p[1], Value()).y : p[5];
    return first ? y + other : other + y;
  };
  made.build = [=](const Values& p) {
    const auto r = norm_of_first(p);
    Value y = r.y;
    Values xs{p[0]};
    if (scaled) xs.insert(xs.end(), {p[1], p[2]});
    if (residual) {
      y = add_residual(p, y);
      xs.push_back(p[5]);
    }
    if (relu) y = ir::Relu(y);
    if (read_twice) y = y * r.y;
    Values ys{y}, cotangents{p[4]};
    if (statistics) {
      ys.insert(ys.end(), {r.mean, r.variance});
      cotangents.insert(cotangents.end(), {p[6], p[6]});
    }
    return WithGradients(ys, cotangents, xs);
  };
  if (relu) {
    made.relu_input = [=](const Values& p) {
      const Value y = norm_of_first(p).y;
      return residual ? add_residual(p, y) : y;
    };
    made.cotangent = 4;
  }
  made.tolerance = draw.narrow ? 1.0 / 64 : 2e-4;
  return made;
}

RandomKernel DrawProduct(Draw& draw) {
  // Axes by kind: 'b'atch, 'l'eft, 'r'ight, 'c'ontracted.
  std::string left, right;
  std::vector<std::pair<char, int64_t>> sizes;
  const auto add = [&](char kind, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const char axis = static_cast<char>(kind + i);  // 'b', 'c' / 'l', 'm' / 'r', 's' / 'x', 'y'
      const int64_t size = kind == 'b'     ? draw.From(1, 9)
                           : draw.OneIn(8) ? 1
                           : draw.OneIn(3) ? draw.From(1, 8)
                                           : draw.From(1, 300);
      sizes.push_back({axis, size});
      if (kind != 'r') left.push_back(axis);
      if (kind != 'l') right.push_back(axis);
    }
  };
  add('b', draw.OneIn(2) ? 0 : draw.From(1, 2));
  add('l', draw.From(0, 2));
  add('r', draw.From(0, 2));
  add('x', draw.OneIn(3) ? draw.From(0, 2) : 1);
  const auto products = [&] {
    double all = 1;
    for (const auto& [axis, size] : sizes) all *= static_cast<double>(size);
    return all;
  };
  while (products() > 4e6) {
    for (auto& [axis, size] : sizes) size = size > 3 ? size / 2 : size;
  }
  if (!draw.OneIn(3)) {
    for (std::string* axes : {&left, &right}) {
      for (size_t i = axes->size(); i > 1; --i) {
        std::swap((*axes)[i - 1], (*axes)[draw.From(0, static_cast<int64_t>(i) - 1)]);
      }
    }
  }
  const auto size_of = [&](char axis) {
    return std::find_if(sizes.begin(), sizes.end(), [&](auto& s) { return s.first == axis; })
        ->second;
  };
  ir::DotDimensions dims;
  Ints left_dims, right_dims, out_dims;
  for (const auto& [axis, size] : sizes) {
    const auto l = static_cast<int64_t>(left.find(axis)),
               r = static_cast<int64_t>(right.find(axis));
    if (axis < 'd') {
      dims.lhs_batch.push_back(l);
      dims.rhs_batch.push_back(r);
      out_dims.push_back(size);
    } else if (axis >= 'x') {
      dims.lhs_contracting.push_back(l);
      dims.rhs_contracting.push_back(r);
    }
  }
  for (char axis : left) {
    left_dims.push_back(size_of(axis));
    if (axis >= 'l' && axis < 'n') out_dims.push_back(size_of(axis));
  }
  for (char axis : right) {
    right_dims.push_back(size_of(axis));
    if (axis >= 'r' && axis < 't') out_dims.push_back(size_of(axis));
  }
  const DType dtype = draw.dtype();
  RandomKernel made;
  made.text = absl::StrCat("product ", base::DTypeName(dtype), " ", Shape(left_dims).ToString(),
                           left, " by ", Shape(right_dims).ToString(), right);
  made.arguments = {draw.Numbers_(Shape(left_dims), dtype), draw.Numbers_(Shape(right_dims), dtype),
                    draw.Numbers_(Shape(out_dims), dtype, true)};
  made.build = [=](const Values& p) {
    return WithGradients({ir::DotGeneral(p[0], p[1], dims)}, {p[2]}, {p[0], p[1]});
  };
  made.tolerance = draw.narrow ? 1.0 / 200 : 3e-6;
  return made;
}

RandomKernel DrawBias(Draw& draw) {
  Ints dims;
  for (int64_t i = draw.From(1, 3); i > 0; --i) dims.push_back(draw.From(1, 60));
  dims.push_back(draw.OneIn(4) ? 1 : draw.From(1, 300));
  while (Shape(dims).num_elements() < 32768) dims[0] *= 2;
  while (Shape(dims).num_elements() > 1'000'000) {
    for (int64_t& dim : dims) dim = (dim + 1) / 2;
  }
  const DType dtype = draw.dtype();
  RandomKernel made;
  made.text = absl::StrCat("bias ", base::DTypeName(dtype), " ", Shape(dims).ToString());
  made.arguments = {draw.Numbers_(Shape(dims), dtype), draw.Numbers_({dims.back()}, dtype),
                    draw.Numbers_(Shape(dims), dtype, true)};
  made.build = [=](const Values& p) {
    Values out = WithGradients({p[0] + p[1]}, {p[2]}, {p[1], p[0]});
    ir::Axes leading;
    for (int64_t axis = 0; axis + 1 < p[0].rank(); ++axis) leading.push_back(axis);
    out.push_back(ir::ReduceSum(p[0], leading));
    return out;
  };
  made.tolerance = draw.narrow ? 1.0 / 200 : 3e-5;
  return made;
}

using Build = std::function<Values(const Values&)>;

// The graph of `build` with the case's arguments converted to `wide`, or in their own types.
std::unique_ptr<ir::Graph> GraphOf(const RandomKernel& kernel, const Build& build,
                                   DType wide = DType::kInvalid) {
  auto graph = std::make_unique<ir::Graph>("random_kernel");
  Values values;
  for (const Array& argument : kernel.arguments) {
    const Value v =
        graph->Parameter({argument.dtype(), argument.shape()}, absl::StrCat("p", values.size()));
    values.push_back(wide == DType::kInvalid ? v : ir::Convert(v, wide));
  }
  const Values results = build(values);
  if (graph->status().ok()) graph->SetResults(results);
  return graph;
}

std::vector<double> Doubles(const Array& array) {
  const Array wide = *array.Cast(DType::kF64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

struct Errors {
  double greatest = 0;  // relative to the maximum element
  int64_t place = 0, not_finite = 0;
};

// A result whose elements are all below this is compared with an error relative to it: what is
// left of subnormal arguments depends on the instructions that a processor has.
constexpr double kMinMagnitude = 1e-30;

// Elements that are finite on only one side are counted as not_finite.
Errors ErrorsOf(const std::vector<double>& got, const std::vector<double>& want) {
  double largest = kMinMagnitude;
  for (double w : want) {
    if (std::isfinite(w)) largest = std::max(largest, std::abs(w));
  }
  Errors errors;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isfinite(got[i]) != std::isfinite(want[i])) {
      if (errors.not_finite++ == 0) errors.place = static_cast<int64_t>(i);
    } else if (std::isfinite(want[i]) && errors.not_finite == 0) {
      const double error = std::abs(got[i] - want[i]) / largest;
      if (error > errors.greatest) {
        errors.greatest = error;
        errors.place = static_cast<int64_t>(i);
      }
    }
  }
  return errors;
}

constexpr double kTimesXlas = 8;

absl::StatusOr<std::vector<Array>> Run(const absl::StatusOr<ir::Program>& program,
                                       const std::vector<Array>& arguments) {
  PENSTOCK_RETURN_IF_ERROR(program.status());
  return RunProgram(*program, arguments);
}

absl::StatusOr<std::vector<Array>> RunWithoutKernels(const RandomKernel& kernel, const Build& build,
                                                     DType wide) {
  const auto graph = GraphOf(kernel, build, wide);
  PENSTOCK_RETURN_IF_ERROR(graph->status());
  return Run(ir::PrintStableHlo(*graph), kernel.arguments);
}

// Sets the cotangent to 0 where the sign of relu's input is a matter of rounding.
absl::Status ClearCotangentNearZero(RandomKernel& kernel) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto inputs,
      RunWithoutKernels(
          kernel, [&](const Values& p) { return Values{kernel.relu_input(p)}; }, DType::kF64));
  const std::vector<double> input = Doubles(inputs[0]);
  double largest = 0;
  for (double v : input) largest = std::max(largest, std::abs(v));
  Array& cotangent = kernel.arguments[kernel.cotangent];
  std::vector<double> values = Doubles(cotangent);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::abs(input[i]) <= largest * kernel.tolerance) values[i] = 0;
  }
  PENSTOCK_ASSIGN_OR_RETURN(cotangent,
                            Array::Of<double>(cotangent.shape(), values).Cast(cotangent.dtype()));
  return absl::OkStatus();
}

}  // namespace

std::string CompareWithXla(RandomKernel kernel) {
  if (kernel.relu_input) {
    if (const absl::Status cleared = ClearCotangentNearZero(kernel); !cleared.ok()) {
      return cleared.ToString();
    }
  }
  const auto graph = GraphOf(kernel, kernel.build);
  if (!graph->status().ok()) return graph->status().ToString();
  const auto got = Run(TestLowering().Print(*graph), kernel.arguments);
  const auto want = RunWithoutKernels(kernel, kernel.build, DType::kF64);
  if (!got.ok()) return got.status().ToString();
  if (!want.ok()) return want.status().ToString();
  absl::StatusOr<std::vector<Array>> plain = std::vector<Array>();
  for (size_t r = 0; r < want->size(); ++r) {
    const std::vector<double> ours = Doubles((*got)[r]), right = Doubles((*want)[r]);
    const Errors errors = ErrorsOf(ours, right);
    if (errors.not_finite == 0 && errors.greatest <= kernel.tolerance) continue;
    if (plain->empty()) plain = RunWithoutKernels(kernel, kernel.build, DType::kF32);
    if (!plain.ok()) return plain.status().ToString();
    const Errors xlas = ErrorsOf(Doubles((*plain)[r]), right);
    if (errors.not_finite <= xlas.not_finite &&
        errors.greatest <= std::max(kernel.tolerance, kTimesXlas * xlas.greatest)) {
      continue;
    }
    return absl::StrCat(kernel.text, ": result ", r, ", ", (*got)[r].TypeString(), ": element ",
                        errors.place, " is ", ours[errors.place], ", XLA's in f64 ",
                        right[errors.place], "; maximum relative error ", errors.greatest,
                        " (XLA's in f32: ", xlas.greatest, ", tolerance ", kernel.tolerance, "), ",
                        errors.not_finite,
                        " elements finite on one side only (XLA's in f32: ", xlas.not_finite, ")");
  }
  return "";
}

RandomKernel DrawRandomKernel(base::Random& random) {
  Draw draw(random);
  switch (draw.From(0, 5)) {
    case 0:
      return DrawPooling(draw);
    case 1:
      return DrawBatchNorm(draw);
    case 2:
      return DrawProduct(draw);
    case 3:
      return DrawBias(draw);
    default:
      return DrawConvolution(draw);
  }
}

}  // namespace penstock::kernels
