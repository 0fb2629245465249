// Scalar functions on float, composed at compile time into operators and epilogues; the identity also on integers, and
// some on int64_t, modulo 2^64.
//
// Each has `static float apply(float...)`. Rounding: Add, Sub, Mul, Div, Square, Sqrt, Reciprocal, ReciprocalOrZero and MulScalar are one
// IEEE operation, rounded to nearest (unless a file is compiled with -use_fast_math). Exp, Log, Tanh and Pow are CUDA's
// expf, logf, tanhf and powf, at most 2, 1, 2 and 4 ulp off over the whole range; Rsqrt, Erf, Cos and Sin are rsqrtf,
// erff, cosf and sinf, at most 2 ulp off; Silu and Sigmoid divide by 1 + Exp with 2 ulp more; Softplus takes log1pf of
// Exp, with 2 ulp more; Gelu takes the normal distribution's tail, so that nothing cancels where 1 + erf would, and is at
// most 8 ulp off above -3 and 24 below. Silu and Gelu of -infinity are NaN, as their formulas give. Round, Floor, Bits, Fp4 and Nf4 are exact. Relu, Clamp, Max and Min compare, so that a NaN stays a NaN and -0 stays
// -0 inside the bounds; the sign of a Max of two zeros is that of either. A product that is added to something may be
// fused with the sum by the compiler, which leaves out its own rounding.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#endif

namespace mugraph {
namespace ops {

struct Exp {
  static __device__ __forceinline__ float apply(float x) { return expf(x); }
};

// 2 to the power of x by the instruction for it: at most 2 ulp off, and 0 below 2^-126.
__device__ __forceinline__ float power_of_two(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

// e to the power of x times the float whose bits are kBits, as a power of two of a multiple of x.
template <uint32_t kBits>
struct ScaledExp {
  static __device__ __forceinline__ float multiple() {
    return static_cast<float>(static_cast<double>(__uint_as_float(kBits)) * 1.4426950408889634);
  }
  static __device__ __forceinline__ float apply(float x) { return power_of_two(x * multiple()); }
};

// The same of x - y. The multiple of y is rounded on its own: it is computed once where y is the same.
template <uint32_t kBits>
struct ScaledExpDifference {
  static __device__ __forceinline__ float apply(float x, float y) {
    const float multiple = ScaledExp<kBits>::multiple();
    return power_of_two(fmaf(x, multiple, -(y * multiple)));
  }
};

// The same where y may be nearly the least number, as the largest of a row of a mask is whose elements are all the least:
// the multiple of it would be minus infinity. Any other multiple does then, as numbers so large differ by far more than
// what makes a power 0. Beside a comparison for each y it takes as long.
template <uint32_t kBits>
struct ScaledExpWideDifference {
  static __device__ __forceinline__ float apply(float x, float y) {
    const float usual = ScaledExp<kBits>::multiple();
    const float multiple = fabsf(y) < 0x1p100f ? usual : 0x1p-40f;
    return power_of_two(fmaf(x, multiple, -(y * multiple)));
  }
};

// A quotient at most 2 ulp off, of a divisor of at least 1; beyond 2^126 it is zero.
static __device__ __forceinline__ float quotient(float x, float divisor) {
#if defined(__CUDA_ARCH__)
  return __fdividef(x, divisor);
#else
  return x / divisor;
#endif
}

struct Silu {
  static __device__ __forceinline__ float apply(float x) { return quotient(x, 1.0f + expf(-x)); }
};

struct Sigmoid {
  static __device__ __forceinline__ float apply(float x) { return quotient(1.0f, 1.0f + expf(-x)); }
};

// How likely a normal variable is to be more than y >= 0: t exp(-y^2 / 2) exp2(R(t)) with t = 1 / (1 + 0.4 y). The
// polynomial R is fitted on Chebyshev nodes of y in [0, 14.5], to 9e-8 of the result (benchmarks/fit_gelu.py). It has no
// branch, and few registers: erfcf of 128 values of a thread, unrolled, spilled.
static __device__ __forceinline__ float normal_tail(float y) {
  const float t = quotient(1.0f, fmaf(y, 0.4f, 1.0f));
  float r = 0.275790231f;
  r = fmaf(r, t, -1.41183841f);
  r = fmaf(r, t, 2.81971713f);
  r = fmaf(r, t, -2.53615326f);
  r = fmaf(r, t, 0.788428274f);
  r = fmaf(r, t, -0.264325139f);
  r = fmaf(r, t, 0.537471343f);
  r = fmaf(r, t, 1.43842267f);
  r = fmaf(r, t, -2.64751272f);
  // What the square loses is added to its power, which is as large.
  const float square = y * y, half = -0.72134752f;
  r = fmaf(fmaf(y, y, -square), half, r);
  return t * power_of_two(fmaf(square, half, r));
}

struct Gelu {
  static __device__ __forceinline__ float apply(float x) {
    // Beyond 40 the tail is zero; the bound keeps its square finite, and its product with infinity. NaN stays NaN.
    const float y = fabsf(x) > 40.0f ? 40.0f : fabsf(x);
    return fmaf(x < 0.0f ? x : -y, normal_tail(y), fmaxf(x, 0.0f));
  }
};

struct Softplus {
  // With exp of the negative magnitude nothing overflows; a NaN reaches log1p.
  static __device__ __forceinline__ float apply(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
};

struct Tanh {
  static __device__ __forceinline__ float apply(float x) { return tanhf(x); }
};

struct Relu {
  static __device__ __forceinline__ float apply(float x) { return x < 0.0f ? 0.0f : x; }
};

struct Log {
  static __device__ __forceinline__ float apply(float x) { return logf(x); }
};

struct Square {
  static __device__ __forceinline__ float apply(float x) { return x * x; }
};

struct Sqrt {
  static __device__ __forceinline__ float apply(float x) { return sqrtf(x); }
};

struct Rsqrt {
  static __device__ __forceinline__ float apply(float x) {
#if defined(__CUDA_ARCH__)
    return rsqrtf(x);
#else
    return 1.0f / sqrtf(x);
#endif
  }
};

struct Abs {
  static __device__ __forceinline__ float apply(float x) { return fabsf(x); }
};

struct Erf {
  static __device__ __forceinline__ float apply(float x) { return erff(x); }
};

struct Cos {
  static __device__ __forceinline__ float apply(float x) { return cosf(x); }
};

struct Sin {
  static __device__ __forceinline__ float apply(float x) { return sinf(x); }
};

struct Round {
  static __device__ __forceinline__ float apply(float x) { return rintf(x); }
};

struct Floor {
  static __device__ __forceinline__ float apply(float x) { return floorf(x); }
};

// The low bits of a whole number from -2^21 to 2^21, in two's complement: it is added to a float whose last bit is 1.
static __device__ __forceinline__ uint32_t whole_bits(float x) { return __float_as_uint(x + 12582912.0f); }

// The whole number whose bits as a float are given.
constexpr uint32_t whole_of(uint32_t bits) {
  return bits == 0 ? 0 : ((bits & 0x7fffffu) | 0x800000u) >> (150 - (bits >> 23));
}

// Bits of a whole number of at most 22, as a number; where they begin and how many they are is given as floats.
template <uint32_t kFirst, uint32_t kCount>
struct Bits {
  static constexpr uint32_t kMask = (1u << whole_of(kCount)) - 1;
  static __device__ __forceinline__ float apply(float x) {
    // A float of 2^23 has the whole number in its low bits.
    return __uint_as_float((whole_bits(x) >> whole_of(kFirst) & kMask) | 0x4b000000u) - 8388608.0f;
  }
};

// What a code of fp4 (e2m1) means: it is a half with the lowest of its exponents.
struct Fp4 {
  static __device__ __forceinline__ float apply(float x) {
    const uint32_t code = whole_bits(x);
    const uint16_t half = static_cast<uint16_t>((code & 8u) << 12 | (code & 7u) << 9);
    return __half2float(reinterpret_cast<__half const&>(half)) * 16384.0f;
  }
};

// What codes of NF4 mean, as the bits of floats.
inline constexpr uint32_t kNf4Bits[16] = {0xbf800000u, 0xbf3239b1u, 0xbf066b30u, 0xbeca32a0u, 0xbe91a24du, 0xbe3d353fu,
                                          0xbdba7871u, 0x00000000u, 0x3da2faffu, 0x3e24cae3u, 0x3e7c04ddu, 0x3ead033au,
                                          0x3ee1a4b8u, 0x3f1007abu, 0x3f3913b3u, 0x3f800000u};

// What a code of NF4 means. Selections by the bits of the code: a table in memory would be read by each lane in turn.
struct Nf4 {
  template <int kFirst, int kCount>
  static __device__ __forceinline__ uint32_t bits(uint32_t code) {
    if constexpr (kCount == 1) {
      constexpr uint32_t kBits = kNf4Bits[kFirst];
      return kBits;
    } else {
      const uint32_t on = bits<kFirst + kCount / 2, kCount / 2>(code), off = bits<kFirst, kCount / 2>(code);
      return (code & kCount / 2) != 0 ? on : off;
    }
  }

  static __device__ __forceinline__ float apply(float x) { return __uint_as_float(bits<0, 16>(whole_bits(x))); }
};

// The largest power of two, from 2^-100 to 2^127, that is at most x; 2^-100 of NaN.
struct PowerBelow {
  static __device__ __forceinline__ float apply(float x) {
    const float within = fminf(fmaxf(x, 0x1p-100f), 0x1p127f);
    return __uint_as_float(__float_as_uint(within) & 0x7f800000u);
  }
};

struct Reciprocal {
  static __device__ __forceinline__ float apply(float x) { return 1.0f / x; }
};

struct ReciprocalOrZero {
  static __device__ __forceinline__ float apply(float x) { return x == 0.0f ? 0.0f : 1.0f / x; }
};

// Multiplies by the float whose bits are kBits, so that no decimal text has to be parsed back exactly.
template <uint32_t kBits>
struct MulScalar {
  static __device__ __forceinline__ float apply(float x) { return x * __uint_as_float(kBits); }
};

template <uint32_t kBits>
struct AddScalar {
  static __device__ __forceinline__ float apply(float x) { return x + __uint_as_float(kBits); }
};

template <uint32_t kBits>
struct Fill {
  static __device__ __forceinline__ float apply(float) { return __uint_as_float(kBits); }
  static __device__ __forceinline__ float apply(int64_t) { return __uint_as_float(kBits); }
};

// The nearest number between the floats whose bits are given.
template <uint32_t kLow, uint32_t kHigh>
struct Clamp {
  static __device__ __forceinline__ float apply(float x) {
    if (x < __uint_as_float(kLow)) return __uint_as_float(kLow);
    return x > __uint_as_float(kHigh) ? __uint_as_float(kHigh) : x;
  }
};

struct Add {
  static __device__ __forceinline__ float identity() { return 0.0f; }
  static __device__ __forceinline__ float apply(float x, float y) { return x + y; }
  static __device__ __forceinline__ int64_t apply(int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  }
};

struct Sub {
  static __device__ __forceinline__ float apply(float x, float y) { return x - y; }
  static __device__ __forceinline__ int64_t apply(int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) - static_cast<uint64_t>(y));
  }
};

struct Mul {
  static __device__ __forceinline__ float apply(float x, float y) { return x * y; }
  static __device__ __forceinline__ int64_t apply(int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  }
};

struct Div {
  static __device__ __forceinline__ float apply(float x, float y) { return x / y; }
};

struct Pow {
  static __device__ __forceinline__ float apply(float x, float y) { return powf(x, y); }
};

struct MulAdd {
  static __device__ __forceinline__ float apply(float x, float y, float z) { return x * y + z; }
};

struct Max {
  static __device__ __forceinline__ float identity() { return __uint_as_float(0xff800000u); }  // -infinity
  static __device__ __forceinline__ float apply(float x, float y) {
#if defined(__CUDA_ARCH__)
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
    return result;
#else
    return x > y || x != x ? x : y;
#endif
  }
  static __device__ __forceinline__ int64_t apply(int64_t x, int64_t y) { return x > y ? x : y; }
};

struct Min {
  static __device__ __forceinline__ float apply(float x, float y) { return -Max::apply(-x, -y); }
  static __device__ __forceinline__ int64_t apply(int64_t x, int64_t y) { return x < y ? x : y; }
};

struct Less {
  static __device__ __forceinline__ float apply(float x, float y) { return x < y ? 1.0f : 0.0f; }
  static __device__ __forceinline__ int64_t apply(int64_t x, int64_t y) { return x < y; }
};

struct LessEqual {
  static __device__ __forceinline__ float apply(float x, float y) { return x <= y ? 1.0f : 0.0f; }
  static __device__ __forceinline__ int64_t apply(int64_t x, int64_t y) { return x <= y; }
};

struct Where {
  static __device__ __forceinline__ float apply(float condition, float x, float y) {
    return condition != 0.0f ? x : y;
  }
  static __device__ __forceinline__ int64_t apply(int64_t condition, int64_t x, int64_t y) { return condition != 0 ? x : y; }
};

// Unary functions, applied from left to right. Chain<> is the identity.
template <class... Functions>
struct Chain;

template <>
struct Chain<> {
  template <class N>
  static __device__ __forceinline__ N apply(N x) {
    return x;
  }
};

template <class First, class... Rest>
struct Chain<First, Rest...> {
  static __device__ __forceinline__ float apply(float x) { return Chain<Rest...>::apply(First::apply(x)); }
};

// A function of what others make of a number.
template <class Function, class... Parts>
struct Composed {
  static __device__ __forceinline__ float apply(float x) { return Function::apply(Parts::apply(x)...); }
};

}  // namespace ops
}  // namespace mugraph
