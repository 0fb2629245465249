// Scalar functions on float, composed at compile time into operators and epilogues.
//
// Each has `static float apply(float...)`. Rounding: Add, Sub, Mul, Div, Square, Sqrt and MulScalar are one IEEE
// operation, rounded to nearest (unless a file is compiled with -use_fast_math). Exp is CUDA's expf, at most 2 ulp
// from e^x over the whole range. Silu is x / (1 + e^-x) with the fast division of CUDA, at most 5 ulp, and tends to
// -0 for x -> -infinity; silu(-infinity) itself is NaN, as the formula gives. A product that is added to something may
// be fused with the sum by the compiler, which leaves out its own rounding.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cuda_runtime.h>

#include <cstdint>
#endif

namespace mugraph {
namespace ops {

struct Exp {
  static __device__ __forceinline__ float apply(float x) { return expf(x); }
};

struct Silu {
  static __device__ __forceinline__ float apply(float x) { return __fdividef(x, 1.0f + expf(-x)); }
};

struct Square {
  static __device__ __forceinline__ float apply(float x) { return x * x; }
};

struct Sqrt {
  static __device__ __forceinline__ float apply(float x) { return sqrtf(x); }
};

// Multiplies by the float whose bits are kBits, so that no decimal text has to be parsed back exactly.
template <uint32_t kBits>
struct MulScalar {
  static __device__ __forceinline__ float apply(float x) { return x * __uint_as_float(kBits); }
};

struct Add {
  static __device__ __forceinline__ float apply(float x, float y) { return x + y; }
};

struct Sub {
  static __device__ __forceinline__ float apply(float x, float y) { return x - y; }
};

struct Mul {
  static __device__ __forceinline__ float apply(float x, float y) { return x * y; }
};

struct Div {
  static __device__ __forceinline__ float apply(float x, float y) { return x / y; }
};

// Unary functions, applied from left to right. Chain<> is the identity.
template <class... Functions>
struct Chain;

template <>
struct Chain<> {
  static __device__ __forceinline__ float apply(float x) { return x; }
};

template <class First, class... Rest>
struct Chain<First, Rest...> {
  static __device__ __forceinline__ float apply(float x) { return Chain<Rest...>::apply(First::apply(x)); }
};

}  // namespace ops
}  // namespace mugraph
