// Fourier transforms: tf.signal.* under TensorFlow's names in CamelCase; float32, or float64 (not
// on TPUs).
//
//   tf::signal::Complex spectrum = tf::signal::Rfft(waves);       // [batch, length / 2 + 1]
//   tf::Tensor power = tf::Square(spectrum.real) + tf::Square(spectrum.imag);
//
// Graphs have no complex types: a complex tensor is a pair of real ones (ir/ops.h).
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/session/graph.h"

namespace penstock::session::signal {

struct Complex {
  Tensor real, imag;
};
// Transforms of the last one, two or three axes; the inverse ones divide by the number of elements.
Complex Fft(const Complex& input, absl::string_view name = "",
            SourceLocation where = SourceLocation::Current());
Complex Fft2D(const Complex& input, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());
Complex Fft3D(const Complex& input, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());
Complex Ifft(const Complex& input, absl::string_view name = "",
             SourceLocation where = SourceLocation::Current());
Complex Ifft2D(const Complex& input, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
Complex Ifft3D(const Complex& input, absl::string_view name = "",
               SourceLocation where = SourceLocation::Current());
// Transforms of real values: the first length / 2 + 1 bins of the last axis. fft_length: the
// extents to which the input is cropped or padded by zeros before.
Complex Rfft(const Tensor& input, const std::vector<int64_t>& fft_length = {},
             absl::string_view name = "", SourceLocation where = SourceLocation::Current());
Complex Rfft2D(const Tensor& input, const std::vector<int64_t>& fft_length = {},
               absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// Their inverses: fft_length real values on the last axis, by default 2 * (bins - 1).
Tensor Irfft(const Complex& input, const std::vector<int64_t>& fft_length = {},
             absl::string_view name = "", SourceLocation where = SourceLocation::Current());
Tensor Irfft2D(const Complex& input, const std::vector<int64_t>& fft_length = {},
               absl::string_view name = "", SourceLocation where = SourceLocation::Current());

}  // namespace penstock::session::signal
