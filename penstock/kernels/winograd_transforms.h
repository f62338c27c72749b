// The three small matrices of Winograd's convolution F(4x4, 3x3), applied to sixteen features at a
// time.
//
// The 4x4 outputs of a 3x3 convolution depend on a patch of 6x6 inputs. With the polynomials'
// values at the points 0, a, -a, b, -b and infinity (Lavin and Gray, Fast algorithms for
// convolutional neural networks, 2015), in each of the two dimensions,
//
//   outputs = A' [ (G kernel G') * (B' patch B) ] A
//
// where * multiplies elementwise: 36 multiplications for 16 outputs instead of 144. The gradients
// are the adjoints: the kernel's is G' [ (A cotangent A') * (B' patch B) ] G.
//
// The points are 1/sqrt(2) and sqrt(2). With the usual 1 and 2, errors in f32 are seven to sixteen
// times those of a direct convolution; with these, one to four times (winograd_test).
//
// Internal to room kernels.
#pragma once

#include <cstdint>

#include "penstock/kernels/vector_loops.h"

namespace penstock::kernels {

inline constexpr int64_t kTile = 4;    // outputs of a tile in each dimension
inline constexpr int64_t kPatch = 6;   // inputs of a tile in each dimension
inline constexpr int64_t kPoints = 6;  // in each dimension

// Powers of the points a and b: a^2 = 1/2, b^2 = 2, so that a^2 b^2 = 1.
inline constexpr float kA = 0.707106781186547524f, kA2 = 0.5f, kA3 = 0.353553390593273762f;
inline constexpr float kB = 1.414213562373095049f, kB2 = 2.0f, kB3 = 2.828427124746190098f;
inline constexpr float kSumOfSquares = kA2 + kB2;
// Denominators of the rows of G: 2 a^2 (a^2 - b^2) and 2 b^2 (b^2 - a^2).
inline constexpr float kOfA = 1 / (2 * kA2 * (kA2 - kB2)), kOfB = 1 / (2 * kB2 * (kB2 - kA2));

// Multiplication of a patch by B'.
struct OfPatch {
  static constexpr int kFrom = 6, kTo = 6;
  PENSTOCK_INLINE static void Apply(const Floats in[6], Floats out[6]) {
    const Floats even_b = in[4] - kB2 * in[2], odd_b = in[3] - kB2 * in[1];
    const Floats even_a = in[4] - kA2 * in[2], odd_a = in[3] - kA2 * in[1];
    out[0] = (in[4] - kSumOfSquares * in[2]) + in[0];
    out[1] = even_b + kA * odd_b;
    out[2] = even_b - kA * odd_b;
    out[3] = even_a + kB * odd_a;
    out[4] = even_a - kB * odd_a;
    out[5] = (in[5] - kSumOfSquares * in[3]) + in[1];
  }
};

// Multiplication of products by A'.
struct ToOutputs {
  static constexpr int kFrom = 6, kTo = 4;
  PENSTOCK_INLINE static void Apply(const Floats in[6], Floats out[4]) {
    const Floats even_a = in[1] + in[2], odd_a = in[1] - in[2];
    const Floats even_b = in[3] + in[4], odd_b = in[3] - in[4];
    out[0] = in[0] + even_a + even_b;
    out[1] = kA * odd_a + kB * odd_b;
    out[2] = kA2 * even_a + kB2 * even_b;
    out[3] = (in[5] + kA3 * odd_a) + kB3 * odd_b;
  }
};

// Multiplication of a tile of cotangents by A.
struct OfCotangents {
  static constexpr int kFrom = 4, kTo = 6;
  PENSTOCK_INLINE static void Apply(const Floats in[4], Floats out[6]) {
    const Floats even_a = in[0] + kA2 * in[2], odd_a = kA * in[1] + kA3 * in[3];
    const Floats even_b = in[0] + kB2 * in[2], odd_b = kB * in[1] + kB3 * in[3];
    out[0] = in[0];
    out[1] = even_a + odd_a;
    out[2] = even_a - odd_a;
    out[3] = even_b + odd_b;
    out[4] = even_b - odd_b;
    out[5] = in[3];
  }
};

// Multiplication of a kernel by G.
struct OfKernel {
  static constexpr int kFrom = 3, kTo = 6;
  PENSTOCK_INLINE static void Apply(const Floats in[3], Floats out[6]) {
    const Floats even_a = kOfA * (in[0] + kA2 * in[2]), odd_a = (kOfA * kA) * in[1];
    const Floats even_b = kOfB * (in[0] + kB2 * in[2]), odd_b = (kOfB * kB) * in[1];
    out[0] = in[0];
    out[1] = even_a + odd_a;
    out[2] = even_a - odd_a;
    out[3] = even_b + odd_b;
    out[4] = even_b - odd_b;
    out[5] = in[2];
  }
};

// Multiplication of sums of products by G'.
struct ToKernel {
  static constexpr int kFrom = 6, kTo = 3;
  PENSTOCK_INLINE static void Apply(const Floats in[6], Floats out[3]) {
    const Floats even_a = kOfA * (in[1] + in[2]), even_b = kOfB * (in[3] + in[4]);
    out[0] = in[0] + even_a + even_b;
    out[1] = (kOfA * kA) * (in[1] - in[2]) + (kOfB * kB) * (in[3] - in[4]);
    out[2] = (in[5] + kA2 * even_a) + kB2 * even_b;
  }
};

// Applies a transform in both dimensions. load(row, column, Floats& to) and store(row, column,
// from).
template <typename Transform, typename Load, typename Store>
PENSTOCK_INLINE void InBothDimensions(const Load& load, const Store& store) {
  constexpr int kFrom = Transform::kFrom, kTo = Transform::kTo;
  Floats half[kTo][kFrom];
  PENSTOCK_UNROLL
  for (int column = 0; column < kFrom; ++column) {
    Floats in[kFrom], out[kTo];
    PENSTOCK_UNROLL
    for (int row = 0; row < kFrom; ++row) load(row, column, in[row]);
    Transform::Apply(in, out);
    PENSTOCK_UNROLL
    for (int row = 0; row < kTo; ++row) half[row][column] = out[row];
  }
  PENSTOCK_UNROLL
  for (int row = 0; row < kTo; ++row) {
    Floats out[kTo];
    Transform::Apply(half[row], out);
    PENSTOCK_UNROLL
    for (int column = 0; column < kTo; ++column) store(row, column, out[column]);
  }
}

}  // namespace penstock::kernels
