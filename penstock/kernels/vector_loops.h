// SIMD loops over the features of [rows, features], compiled for several instruction sets; the
// widest that the CPU supports is selected at run time.
//
//   struct Sum {
//     static void Run(const Args& args);
//   };
//   Dispatch<Sum>(args);
//
// Internal to room kernels.
#pragma once

#include <cstdint>
#include <cstring>

namespace penstock::kernels {

#define PENSTOCK_INLINE inline __attribute__((always_inline))
// Follows a lambda's parameters. The lambda is compiled for the instruction set of the enclosing
// loop.
#define PENSTOCK_INLINE_LAMBDA __attribute__((always_inline))
// Precedes a loop over registers. An array stays in registers only if no variable indexes it after
// unrolling.
#ifdef __clang__
#define PENSTOCK_UNROLL _Pragma("unroll")
#else
#define PENSTOCK_UNROLL _Pragma("GCC unroll 32")
#endif

// A vector of sixteen floats and its forms in memory. GCC's and Clang's vector extension maps it to
// the target's registers: one, two, or four.
inline constexpr int64_t kLanes = 16;
using Floats __attribute__((vector_size(64))) = float;
using Ints __attribute__((vector_size(64))) = int32_t;
using Bits __attribute__((vector_size(64))) = uint32_t;
using Halves __attribute__((vector_size(32))) = uint16_t;

struct Bf16 {
  uint16_t bits;
};

PENSTOCK_INLINE void Load(const float* from, Floats& to) { std::memcpy(&to, from, sizeof(to)); }
PENSTOCK_INLINE void Store(const Floats& from, float* to) { std::memcpy(to, &from, sizeof(from)); }
PENSTOCK_INLINE void Load(const Bf16* from, Floats& to) {
  Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
  to = __builtin_bit_cast(Floats, __builtin_convertvector(halves, Bits) << 16);
}
PENSTOCK_INLINE void Store(const Floats& from, Bf16* to) {
  const Bits bits = __builtin_bit_cast(Bits, from);
  const Bits nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;  // round half to even
  const Bits nan = bits >> 16 | 0x40;
  const Ints is_nan = from != from;
  const Bits keep = __builtin_bit_cast(Bits, is_nan);
  const Halves halves = __builtin_convertvector((nearest & ~keep) | (nan & keep), Halves);
  std::memcpy(to, &halves, sizeof(halves));
}

// Blend: to = mask ? a : b, by lane.
PENSTOCK_INLINE void Select(const Ints& mask, const Floats& a, const Floats& b, Floats& to) {
  const Ints x = __builtin_bit_cast(Ints, a), y = __builtin_bit_cast(Ints, b);
  to = __builtin_bit_cast(Floats, (x & mask) | (y & ~mask));
}

// Loads or stores the first `count` lanes; the others are 0, or are not written.
template <typename T>
PENSTOCK_INLINE void LoadPart(const T* from, int64_t count, Floats& to) {
  T part[kLanes] = {};
  std::memcpy(part, from, static_cast<size_t>(count) * sizeof(T));
  Load(part, to);
}
template <typename T>
PENSTOCK_INLINE void StorePart(const Floats& from, int64_t count, T* to) {
  T part[kLanes];
  Store(from, part);
  std::memcpy(to, part, static_cast<size_t>(count) * sizeof(T));
}

// Loads a whole vector, or its first lanes.
template <typename T>
PENSTOCK_INLINE void LoadLanes(const T* from, int64_t lanes, Floats& to) {
  if (lanes == kLanes) {
    Load(from, to);
  } else {
    LoadPart(from, lanes, to);
  }
}
template <typename T>
PENSTOCK_INLINE void StoreLanes(const Floats& from, int64_t lanes, T* to) {
  if (lanes == kLanes) {
    Store(from, to);
  } else {
    StorePart(from, lanes, to);
  }
}

// Calls the variant of Body::Run(args) compiled for the CPU's instruction set.
template <typename Body, typename Args>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma"))) void RunAvx512(const Args& args) {
  Body::Run(args);
}
template <typename Body, typename Args>
__attribute__((target("avx2,fma"))) void RunAvx2(const Args& args) {
  Body::Run(args);
}
// Whether the CPU has AVX-512: 32 registers of sixteen floats.
inline bool HasAvx512() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}
template <typename Body, typename Args>
void Dispatch(const Args& args) {
  if (HasAvx512()) {
    RunAvx512<Body>(args);
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    RunAvx2<Body>(args);
  } else {
    Body::Run(args);
  }
}

}  // namespace penstock::kernels
