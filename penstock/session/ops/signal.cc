// Fourier transforms.
#include <vector>

#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/signal_ops.h"

namespace penstock::session::signal {

using internal::In;
using internal::Reject;
using ir::Value;
using ir::Values;

namespace {

bool HasAxes(const Value& x, int64_t axes) {
  if (x.rank() >= axes) return true;
  Reject(x, "expects at least ", axes, " axes, got ", x.type().ToString());
  return false;
}

Complex Pair(const Tensors& both) {
  return both.size() == 2 ? Complex{both[0], both[1]} : Complex();
}

using Transform = ir::Complex (*)(const ir::Complex& x, int64_t axes);
Complex AddTransform(absl::string_view type, const Complex& input, int64_t axes,
                     absl::string_view name, SourceLocation where, Transform transform) {
  return Pair(
      AddOps(type, {input.real, input.imag}, name, where, [axes, transform](In in) -> Values {
        if (!HasAxes(in[0], axes)) return Values(2);
        const ir::Complex y = transform({in[0], in[1]}, axes);
        return {y.real, y.imag};
      }));
}

// x with these extents of its last axes, cropped or padded by zeros.
Value WithLengths(Value x, const std::vector<int64_t>& lengths) {
  std::vector<ir::PadAxis> pad(x.rank());
  for (size_t i = 0; i < lengths.size(); ++i) {
    const size_t axis = static_cast<size_t>(x.rank()) - lengths.size() + i;
    pad[axis] = {0, lengths[i] - x.shape().dim(static_cast<int>(axis))};
  }
  return ir::Pad(x, 0, pad);
}

bool AreLengths(const Value& x, const std::vector<int64_t>& lengths, int64_t axes) {
  bool fit = lengths.empty() || static_cast<int64_t>(lengths.size()) == axes;
  for (const int64_t length : lengths) fit = fit && length > 0;
  if (!fit) Reject(x, "fft_length has a positive length for each of the last ", axes, " axes");
  return fit;
}

Complex AddRfft(absl::string_view type, const Tensor& input, int64_t axes,
                const std::vector<int64_t>& fft_length, absl::string_view name,
                SourceLocation where) {
  return Pair(AddOps(type, {input}, name, where, [axes, fft_length](In in) -> Values {
    if (!HasAxes(in[0], axes) || !AreLengths(in[0], fft_length, axes)) return Values(2);
    const ir::Complex y =
        ir::Rfft(fft_length.empty() ? in[0] : WithLengths(in[0], fft_length), axes);
    return {y.real, y.imag};
  }));
}

Tensor AddIrfft(absl::string_view type, const Complex& input, int64_t axes,
                const std::vector<int64_t>& fft_length, absl::string_view name,
                SourceLocation where) {
  return AddOp(type, {input.real, input.imag}, name, where, [axes, fft_length](In in) -> Value {
    if (!HasAxes(in[0], axes) || !AreLengths(in[0], fft_length, axes)) return Value();
    if (fft_length.empty()) return ir::Irfft({in[0], in[1]}, 2 * (in[0].shape().dim(-1) - 1), axes);
    std::vector<int64_t> bins = fft_length;
    bins.back() = bins.back() / 2 + 1;
    return ir::Irfft({WithLengths(in[0], bins), WithLengths(in[1], bins)}, fft_length.back(), axes);
  });
}

}  // namespace

#define PENSTOCK_TRANSFORM_(name_, axes_, function_)                                  \
  Complex name_(const Complex& input, absl::string_view name, SourceLocation where) { \
    return AddTransform(#name_, input, axes_, name, where, function_);                \
  }
PENSTOCK_TRANSFORM_(Fft, 1, ir::Fft)
PENSTOCK_TRANSFORM_(Fft2D, 2, ir::Fft)
PENSTOCK_TRANSFORM_(Fft3D, 3, ir::Fft)
PENSTOCK_TRANSFORM_(Ifft, 1, ir::Ifft)
PENSTOCK_TRANSFORM_(Ifft2D, 2, ir::Ifft)
PENSTOCK_TRANSFORM_(Ifft3D, 3, ir::Ifft)
#undef PENSTOCK_TRANSFORM_

Complex Rfft(const Tensor& input, const std::vector<int64_t>& fft_length, absl::string_view name,
             SourceLocation where) {
  return AddRfft("RFFT", input, 1, fft_length, name, where);
}

Complex Rfft2D(const Tensor& input, const std::vector<int64_t>& fft_length, absl::string_view name,
               SourceLocation where) {
  return AddRfft("RFFT2D", input, 2, fft_length, name, where);
}

Tensor Irfft(const Complex& input, const std::vector<int64_t>& fft_length, absl::string_view name,
             SourceLocation where) {
  return AddIrfft("IRFFT", input, 1, fft_length, name, where);
}

Tensor Irfft2D(const Complex& input, const std::vector<int64_t>& fft_length, absl::string_view name,
               SourceLocation where) {
  return AddIrfft("IRFFT2D", input, 2, fft_length, name, where);
}

}  // namespace penstock::session::signal
