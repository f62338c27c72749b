// Fast Fourier transforms. A complex number is a pair of real values everywhere in the graph;
// StableHLO's complex types occur only within the lines that one operation prints.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

int TransformedAxes(const Node& node) {
  return static_cast<int>(node.attributes.Get<int64_t>("axes"));
}

// Length of irfft's result along the last axis; the number of bins does not determine it.
int64_t RealLength(const Node& node) { return node.attributes.Get<int64_t>("length"); }

// Number of elements that a transform sums, `last` of them along the last axis.
double CountTransformed(const TensorType& type, int axes, int64_t last) {
  double count = static_cast<double>(last);
  for (int axis = -axes; axis < -1; ++axis) count *= static_cast<double>(type.shape.dim(axis));
  return count;
}

absl::Status CheckTransform(const Node& node) {
  const TensorType& type = node.operands[0].type();
  if (type.dtype != DType::kF32 && type.dtype != DType::kF64) {
    return OpError(node,
                   absl::StrCat("expects f32 or f64, got ", type.ToString(), "; use Convert"));
  }
  if (!(node.operands.back().type() == type)) {
    return OpError(
        node, absl::StrCat("expects real and imaginary parts of one type, got ", TypesOf(node)));
  }
  const int64_t axes = node.attributes.Get<int64_t>("axes");
  if (axes < 1 || axes > 3 || axes > type.shape.rank()) {
    return OpError(
        node, absl::StrCat("transforms the last 1 to 3 axes, not ", axes, " of ", type.ToString()));
  }
  for (int axis = -static_cast<int>(axes); axis < 0; ++axis) {
    if (type.shape.dim(axis) > 0) continue;
    return OpError(node, absl::StrCat("has no elements to transform along axis ",
                                      type.shape.rank() + axis, " of ", type.ToString()));
  }
  return absl::OkStatus();
}

InferResult InferFft(const Node& node) {
  if (absl::Status status = CheckTransform(node); !status.ok()) return status;
  return std::vector<TensorType>(2, node.operands[0].type());
}

InferResult InferRfft(const Node& node) {
  if (absl::Status status = CheckTransform(node); !status.ok()) return status;
  TensorType bins = node.operands[0].type();
  bins.shape.set_dim(bins.shape.rank() - 1, bins.shape.dim(-1) / 2 + 1);
  return std::vector<TensorType>(2, bins);
}

InferResult InferIrfft(const Node& node) {
  if (absl::Status status = CheckTransform(node); !status.ok()) return status;
  TensorType real = node.operands[0].type();
  const int64_t length = RealLength(node), bins = real.shape.dim(-1);
  if (length < 1) return OpError(node, absl::StrCat("returns 1 or more values, not ", length));
  if (length / 2 + 1 != bins) {
    return OpError(node,
                   absl::StrCat(length, " real values have ", length / 2 + 1, " bins, got ",
                                real.ToString(), "; use SliceAxis to crop or Pad to add zeros"));
  }
  real.shape.set_dim(real.shape.rank() - 1, length);
  return std::vector<TensorType>{real};
}

// Prints a transform from real parts to real parts; `kind` is StableHLO's name of it.
void PrintTransform(Printer& printer, const Node& node, absl::string_view kind) {
  const auto complex_of = [](const TensorType& type) {
    return MlirType(type, absl::StrCat("complex<", base::DTypeStableHlo(type.dtype), ">"));
  };
  // Every line has its location, by which traces and a plugin's errors are attributed to the layer.
  const auto write = [&](const std::string& text) {
    const std::string name = printer.FreshName();
    printer.CloseLine(absl::StrCat(name, " = stablehlo.", text));
    return name;
  };
  const TensorType &in = node.operands[0].type(), &out = node.results[0];
  std::string x = printer.Name(node.operands[0]), from = MlirType(in);
  if (node.operands.size() == 2) {
    from = complex_of(in);
    x = write(absl::StrCat("complex ", printer.Names(node.operands), " : ", from));
  }
  // Lengths are those of the side that may be real: the number of bins does not determine them.
  const bool has_real_result = node.results.size() == 1;
  const Shape& whole = has_real_result ? out.shape : in.shape;
  const auto lengths = whole.dims().last(TransformedAxes(node));
  if (std::any_of(lengths.begin(), lengths.end(), [](int64_t d) { return d < 0; })) {
    printer.Fail(node, "the length of a transform cannot be the batch size");
  }
  const std::string to = has_real_result ? MlirType(out) : complex_of(out);
  const std::string y = write(absl::StrCat(
      "fft ", x, ", type = ", kind, ", length = ", MlirList(lengths), " : (", from, ") -> ", to));
  if (has_real_result) return printer.NameResults({y});
  std::vector<std::string> parts(2);
  for (int i = 0; i < 2; ++i) {
    if (!printer.IsUsed(i)) continue;
    parts[i] =
        write(absl::StrCat(i == 0 ? "real " : "imag ", y, " : (", to, ") -> ", MlirType(out)));
  }
  printer.NameResults(std::move(parts));
}

Complex EmitPair(const OpDef& op, const Values& operands, const Attributes& attributes) {
  for (const Value& v : operands) {
    if (!v.valid()) return {};
  }
  const Values parts = operands[0].graph()->Emit(op, operands, attributes);
  return parts.empty() ? Complex() : Complex{parts[0], parts[1]};
}

Complex CotangentPair(const GradientArgs& g) {
  const auto part = [&](int i) {
    return g.cotangents[i].valid() ? g.cotangents[i] : SplatLike(g.results[i], 0);
  };
  return {part(0), part(1)};
}

// Gradient: the transform's matrix is symmetric, so its adjoint is its conjugate, and conj(F) z is
// F applied to z with real and imaginary parts exchanged, exchanged back. Without scaling.
Values ConjugateGradient(const GradientArgs& g) {
  const Complex c = CotangentPair(g);
  const Complex turned = EmitPair(*g.node.op, {c.imag, c.real}, g.node.attributes);
  return {turned.imag, turned.real};
}

const OpDef kFft = {
    .name = "penstock.fft",
    .infer = InferFft,
    .gradient = ConjugateGradient,
    .print = [](Printer& printer, const Node& node) { PrintTransform(printer, node, "FFT"); },
    .expensive = true};

const OpDef kIfft = {
    .name = "penstock.ifft",
    .infer = InferFft,
    .gradient = ConjugateGradient,
    .print = [](Printer& printer, const Node& node) { PrintTransform(printer, node, "IFFT"); },
    .expensive = true};

// Whether the last bin has no mirror image. Of `length` real values, only the first bin and, if the
// length is even, the last have none; all others stand for two.
bool LastBinIsEdge(int64_t length) { return length % 2 == 0; }

// Bins multiplied by `edge` or, if they stand for two, by `middle`.
Complex ScaleBins(const Complex& x, int64_t length, double edge, double middle) {
  if (!x.real.valid()) return {};
  const int64_t last = LastBinIsEdge(length) ? 1 : 0;
  const TensorType inner{x.real.dtype(), {x.real.shape().dim(-1) - 1 - last}};
  const Value scale = Pad(Splat(*x.real.graph(), inner, middle), edge, {{.low = 1, .high = last}});
  return {x.real * scale, x.imag * scale};
}

// x[n] = Re sum over bins of c[k] e^(2 pi i k n / length): what irfft does, but that irfft divides
// and counts all bins in the middle twice.
Values RfftGradient(const GradientArgs& g) {
  const int axes = TransformedAxes(g.node);
  const TensorType& type = g.operand(0).type();
  const int64_t length = type.shape.dim(-1);
  const double count = CountTransformed(type, axes, length);
  return {Irfft(ScaleBins(CotangentPair(g), length, count, count / 2), length, axes)};
}

const OpDef kRfft = {
    .name = "penstock.rfft",
    .infer = InferRfft,
    .gradient = RfftGradient,
    .print = [](Printer& printer, const Node& node) { PrintTransform(printer, node, "RFFT"); },
    .expensive = true};

Values IrfftGradient(const GradientArgs& g) {
  const int axes = TransformedAxes(g.node);
  const int64_t length = RealLength(g.node);
  const double share = 1 / CountTransformed(g.operand(0).type(), axes, length);
  const Complex bins = ScaleBins(Rfft(g.cotangent(), axes), length, share, 2 * share);
  return {bins.real, bins.imag};
}

// irfft of bins that are consistent with real values. Platforms differ for others
// (pytorch/pytorch#154496, ROCm/rocFFT#287).
const OpDef kHermitianIrfft = {
    .name = "penstock.hermitian_irfft",
    .infer = InferIrfft,
    .print = [](Printer& printer, const Node& node) { PrintTransform(printer, node, "IRFFT"); },
    .expensive = true};

// Element i of each axis but the last is that of -i.
Value NegateFrequencies(Value x, int axes) {
  for (int axis = -axes; axis < -1; ++axis) {
    const int64_t extent = x.shape().dim(axis);
    if (extent <= 2) continue;  // 0 and the middle are their own images
    x = Concatenate({SliceAxis(x, axis, 0, 1), Reverse(SliceAxis(x, axis, 1, extent), {axis})},
                    axis);
  }
  return x;
}

// One part of the bins, real (`sign` 1) or imaginary (-1): the edges are replaced by the mean of
// themselves and the conjugate of their image, as they are for real values. That is also what is
// left of them where the transform along the last axis drops an imaginary part.
Value HermitianPart(Value part, int64_t length, int axes, double sign) {
  const int64_t bins = part.shape().dim(-1);
  const auto edge = [&](int64_t bin) {
    const Value x = SliceAxis(part, -1, bin, bin + 1);
    if (axes == 1) return sign > 0 ? x : SplatLike(x, 0);
    return (x + sign * NegateFrequencies(x, axes)) * 0.5;
  };
  const int64_t end = LastBinIsEdge(length) ? bins - 1 : bins;
  Values joined{edge(0)};
  if (end > 1) joined.push_back(SliceAxis(part, -1, 1, end));
  if (end < bins) joined.push_back(edge(end));
  return Concatenate(joined, -1);
}

const OpDef kIrfft = {.name = "penstock.irfft",
                      .infer = InferIrfft,
                      .gradient = IrfftGradient,
                      .decompose = [](Graph&, const Node& node, const Values& in) -> Values {
                        const int axes = TransformedAxes(node);
                        const int64_t length = RealLength(node);
                        return {EmitOne(kHermitianIrfft,
                                        {HermitianPart(in[0], length, axes, 1),
                                         HermitianPart(in[1], length, axes, -1)},
                                        node.attributes)};
                      },
                      .expensive = true};

}  // namespace

Complex Fft(const Complex& x, int64_t axes) {
  return EmitPair(kFft, {x.real, x.imag}, {{"axes", axes}});
}

Complex Ifft(const Complex& x, int64_t axes) {
  return EmitPair(kIfft, {x.real, x.imag}, {{"axes", axes}});
}

Complex Rfft(Value x, int64_t axes) { return EmitPair(kRfft, {x}, {{"axes", axes}}); }

Value Irfft(const Complex& x, int64_t length, int64_t axes) {
  return EmitOne(kIrfft, {x.real, x.imag}, {{"axes", axes}, {"length", length}});
}

OpList FftOps() {
  static constexpr const OpDef* kOps[] = {&kFft, &kIfft, &kRfft, &kIrfft, &kHermitianIrfft};
  return kOps;
}

}  // namespace penstock::ir
