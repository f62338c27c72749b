// Counter-based random numbers: Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011) in integer operations, so that every device gives the same
// bits. The formulas are JAX's with jax_threefry_partitionable: element i of any shape is the hash
// of the 64-bit number i.
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"

namespace penstock::ir {
namespace {

Value RotateLeft(Value x, int bits) {
  return Or(ShiftLeft(x, SplatLike(x, bits)), ShiftRightLogical(x, SplatLike(x, 32 - bits)));
}

// The block function: key (scalars k0, k1), counters (x0, x1 of one shape).
std::pair<Value, Value> Threefry(Value k0, Value k1, Value x0, Value x1) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const Value keys[3] = {k0, k1, Xor(Xor(k0, k1), SplatLike(k0, 0x1BD11BDA))};
  x0 = x0 + keys[0];
  x1 = x1 + keys[1];
  for (int group = 0; group < 5; ++group) {
    for (int rotation : kRotations[group % 2]) {
      x0 = x0 + x1;
      x1 = Xor(RotateLeft(x1, rotation), x0);
    }
    x0 = x0 + keys[(group + 1) % 3];
    x1 = x1 + (keys[(group + 2) % 3] + static_cast<double>(group + 1));
  }
  return {x0, x1};
}

bool CheckKey(Value key) {
  if (!key.valid()) return false;
  if (key.type() == TensorType{DType::kU32, {2}}) return true;
  key.graph()->Fail(absl::InvalidArgumentError(
      absl::StrCat("a random key is ui32[2], got ", key.type().ToString())));
  return false;
}

Value KeyPart(Value key, int i) { return Reshape(SliceAxis(key, 0, i, i + 1), Shape()); }

Value JoinKey(Value k0, Value k1) { return Concatenate({Reshape(k0, {1}), Reshape(k1, {1})}, 0); }

// The numbers 0, 1, 2, ... in row-major order of `shape`, as high and low halves.
std::pair<Value, Value> Counters(Graph& graph, const Shape& shape) {
  const int64_t n = shape.num_elements();
  const Value low = Reshape(Iota(graph, {DType::kU32, {std::max<int64_t>(n, 0)}}, 0), shape);
  if (n <= (int64_t{1} << 32)) return {SplatLike(low, 0), low};
  const Value wide = Reshape(Iota(graph, {DType::kU64, {n}}, 0), shape);
  return {Convert(ShiftRightLogical(wide, SplatLike(wide, 32)), DType::kU32),
          Convert(wide, DType::kU32)};
}

std::pair<Value, Value> HashOf(Value key, const Shape& shape) {
  const auto [high, low] = Counters(*key.graph(), shape);
  return Threefry(KeyPart(key, 0), KeyPart(key, 1), high, low);
}

bool CheckFloat(Value key, const TensorType& type, absl::string_view what) {
  if (!CheckKey(key)) return false;
  if (base::IsFloat(type.dtype)) return true;
  key.graph()->Fail(absl::InvalidArgumentError(
      absl::StrCat(what, ": expects a float type, got ", type.ToString())));
  return false;
}

// Bit layout of a float type, and the width of the random bits that fill its mantissa.
struct FloatBits {
  DType random, bits;
  int width, mantissa;  // of `random`, of the float
  double one;           // the bits of 1.0
};

FloatBits BitsOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {DType::kU64, DType::kU64, 64, 52, 0x3FF0000000000000p0};
    case DType::kF32:
      return {DType::kU32, DType::kU32, 32, 23, 0x3F800000p0};
    case DType::kF16:
      return {DType::kU16, DType::kU16, 16, 10, 0x3C00p0};
    default:
      return {DType::kU8, DType::kU16, 8, 7, 0x3F80p0};  // bfloat16
  }
}

// A scalar that double may not represent exactly.
template <typename T>
Value Integer(Graph& graph, DType dtype, T value) {
  return Constant(graph, *Array::Scalar(value).Cast(dtype));
}

}  // namespace

Value RandomKey(Graph& graph, uint64_t seed) {
  return Constant(graph, Array::Of<uint32_t>({2}, {static_cast<uint32_t>(seed >> 32),
                                                   static_cast<uint32_t>(seed)}));
}

std::pair<Value, Value> Threefry2x32(Value key, Value x0, Value x1) {
  if (!CheckKey(key) || !x0.valid() || !x1.valid()) return {};
  return Threefry(KeyPart(key, 0), KeyPart(key, 1), x0, x1);
}

Value FoldIn(Value key, Value data) {
  if (!CheckKey(key) || !data.valid()) return Value();
  if (data.rank() != 0 || !base::IsInteger(data.dtype())) {
    key.graph()->Fail(absl::InvalidArgumentError(
        absl::StrCat("fold_in: data is an integer scalar, got ", data.type().ToString())));
    return Value();
  }
  const Value low = Convert(data, DType::kU32);
  const auto [k0, k1] = Threefry(KeyPart(key, 0), KeyPart(key, 1), SplatLike(low, 0), low);
  return JoinKey(k0, k1);
}

Value FoldIn(Value key, uint32_t data) {
  if (!key.valid()) return Value();
  return FoldIn(key, Constant(*key.graph(), Array::Scalar(data)));
}

Values SplitKey(Value key, int count) {
  if (!CheckKey(key) || count < 1) return Values(std::max(count, 0));
  const auto [k0, k1] = HashOf(key, {count});
  Values keys;
  for (int i = 0; i < count; ++i)
    keys.push_back(JoinKey(SliceAxis(k0, 0, i, i + 1), SliceAxis(k1, 0, i, i + 1)));
  return keys;
}

Value RandomBits(Value key, const TensorType& type) {
  if (!CheckKey(key)) return Value();
  if (!base::IsInteger(type.dtype) || base::IsSigned(type.dtype)) {
    key.graph()->Fail(absl::InvalidArgumentError(
        absl::StrCat("random_bits: expects an unsigned type, got ", type.ToString())));
    return Value();
  }
  const auto [high, low] = HashOf(key, type.shape);
  if (type.dtype == DType::kU64) {
    const Value wide = Convert(high, DType::kU64);
    return Or(ShiftLeft(wide, SplatLike(wide, 32)), Convert(low, DType::kU64));
  }
  return Convert(Xor(high, low), type.dtype);
}

Value RandomUniform(Value key, const TensorType& type, double low, double high) {
  if (!CheckFloat(key, type, "random_uniform")) return Value();
  // Random mantissa bits under the exponent of 1 give [1, 2).
  const FloatBits f = BitsOf(type.dtype);
  const Value bits = Convert(RandomBits(key, {f.random, type.shape}), f.bits);
  if (!bits.valid()) return Value();
  const Value mantissa = ShiftRightLogical(bits, SplatLike(bits, f.width - f.mantissa));
  const Value unit = BitcastConvert(Or(mantissa, SplatLike(mantissa, f.one)), type.dtype) - 1.0;
  const Value least = SplatLike(unit, low);
  return Maximum(least, unit * (SplatLike(unit, high) - least) + least);
}

namespace {

// Standard normal numbers from uniform numbers within (low, high) of (-1, 1).
Value NormalFromUniform(Value key, const TensorType& type, double low, double high) {
  // The approximation is in single precision; narrower and wider types use it too.
  const TensorType single{DType::kF32, type.shape};
  const Value u = RandomUniform(key, single, low, high);
  if (!u.valid()) return Value();
  return Convert(ErfInv(u) * std::sqrt(2.0), type.dtype);
}

}  // namespace

Value RandomNormal(Value key, const TensorType& type, double mean, double stddev) {
  if (!CheckFloat(key, type, "random_normal")) return Value();
  const double above_minus_one = std::nextafter(-1.0f, 0.0f);
  return NormalFromUniform(key, type, above_minus_one, 1.0) * stddev + mean;
}

Value RandomTruncatedNormal(Value key, const TensorType& type, double mean, double stddev) {
  if (!CheckFloat(key, type, "random_truncated_normal")) return Value();
  const double limit = std::erf(2 / std::sqrt(2.0));
  const Value z = NormalFromUniform(key, type, -limit, limit);
  if (!z.valid()) return Value();
  const double inside = std::nextafter(2.0f, 0.0f);
  return Clamp(SplatLike(z, -inside), z, SplatLike(z, inside)) * stddev + mean;
}

Value RandomBernoulli(Value key, const Shape& shape, double probability) {
  const Value u = RandomUniform(key, {DType::kF32, shape});
  return u.valid() ? Less(u, SplatLike(u, probability)) : Value();
}

Value RandomInt(Value key, const TensorType& type, int64_t low, int64_t high) {
  if (!CheckKey(key)) return Value();
  Graph& graph = *key.graph();
  const int width = std::max(32, base::BitWidth(type.dtype));
  const bool is_signed = base::IsSigned(type.dtype);
  const int bits = base::BitWidth(type.dtype) - (is_signed ? 1 : 0);
  const int64_t max_high = bits >= 63 ? std::numeric_limits<int64_t>::max() : int64_t{1} << bits;
  const int64_t min_low =
      is_signed ? (bits == 63 ? std::numeric_limits<int64_t>::min() : -max_high) : 0;
  if (!base::IsInteger(type.dtype) || high <= low || low < min_low || high > max_high) {
    graph.Fail(absl::InvalidArgumentError(
        absl::StrCat("random_int: expects a range of numbers that the type holds, got ",
                     type.ToString(), " in [", low, ", ", high, ")")));
    return Value();
  }
  // Two draws are the two digits of a number below 2^(2 width), whose remainder is computed digit
  // by digit: the bias is as small as for numbers of twice the width.
  const DType dtype = width == 64 ? DType::kU64 : DType::kU32;
  const Values keys = SplitKey(key, 2);
  const Value upper = RandomBits(keys[0], {dtype, type.shape});
  const Value lower = RandomBits(keys[1], {dtype, type.shape});
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  Value offset = lower;
  if (width == 64 || span < uint64_t{1} << 32) {
    const uint64_t mask = width == 64 ? ~uint64_t{0} : 0xffffffff;
    const uint64_t half = (uint64_t{1} << (width / 2)) % span;
    const Value base = Integer(graph, dtype, ((half * half) & mask) % span);
    const Value n = Integer(graph, dtype, span);
    offset = Remainder(Remainder(upper, n) * base + Remainder(lower, n), n);
  }
  return Convert(offset, type.dtype) + Integer(graph, type.dtype, low);
}

}  // namespace penstock::ir
