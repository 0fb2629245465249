// The element types of tensors, and their conversion to and from the numbers that kernels compute with.
//
// Elements are half_t, bfloat16_t, float, float_e4m3_t, float_e5m2_t, int8_t, int32_t, int64_t or bool; of tensor
// expressions also double, which is computed with as such, and uint8_t. Kernels compute with `float`; sums of int32_t alone are int32_t, modulo 2^32, and functions of whole tensors of integers alone are
// int64_t, modulo 2^64. Narrowing conversions round to nearest even. The 8-bit types and integers saturate: what is
// larger than their largest number, infinities included, becomes that; but of integers, int32_t and int64_t are what
// they are modulo 2^32 and 2^64. NaN stays NaN, and becomes 0 in integers. A bool is false of 0 and true of everything
// else.
#pragma once

#include "arch/cute.h"

#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace mugraph {

using cutlass::bfloat16_t;
using cutlass::float_e4m3_t;
using cutlass::float_e5m2_t;
using cutlass::half_t;

template <class T>
inline constexpr bool is_fp8 = cute::is_same<T, float_e4m3_t>::value || cute::is_same<T, float_e5m2_t>::value;

template <class T>
inline constexpr __nv_fp8_interpretation_t kFp8Format = cute::is_same<T, float_e4m3_t>::value ? __NV_E4M3 : __NV_E5M2;

__device__ __forceinline__ float plus(float x, float y) { return x + y; }
__device__ __forceinline__ double plus(double x, double y) { return x + y; }
__device__ __forceinline__ int32_t plus(int32_t x, int32_t y) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
}
__device__ __forceinline__ int64_t plus(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
}

template <class T>
inline constexpr bool is_whole = cute::is_std_integral<T>::value;

// What an operation on elements of these types computes with.
template <class... T>
using Number = cute::conditional_t<
    (cute::is_same<T, int32_t>::value && ...), int32_t,
    cute::conditional_t<(is_whole<T> && ...) && (cute::is_same<T, int64_t>::value || ...), int64_t,
                        cute::conditional_t<(cute::is_same<T, double>::value && ...), double, float>>>;

// What functions of whole tensors compute with: of integers alone it is exact.
template <class... T>
using ExactNumber = cute::conditional_t<(is_whole<T> && ...), int64_t, float>;

// The bits of an element, of sizeof(T) <= 4 bytes, in the low bits of a word, and back.
template <class T>
__device__ __forceinline__ uint32_t bits_of(T value) {
  if constexpr (sizeof(T) == 4) {
    return reinterpret_cast<uint32_t const&>(value);
  } else if constexpr (sizeof(T) == 2) {
    return reinterpret_cast<uint16_t const&>(value);
  } else {
    return reinterpret_cast<uint8_t const&>(value);
  }
}

template <class T>
__device__ __forceinline__ T from_bits(uint32_t bits) {
  if constexpr (sizeof(T) == 4) {
    return reinterpret_cast<T const&>(bits);
  } else if constexpr (sizeof(T) == 2) {
    const uint16_t narrow = static_cast<uint16_t>(bits);
    return reinterpret_cast<T const&>(narrow);
  } else {
    const uint8_t narrow = static_cast<uint8_t>(bits);
    return reinterpret_cast<T const&>(narrow);
  }
}

template <class T>
__device__ __forceinline__ float to_float(T value) {
  if constexpr (cute::is_same<T, half_t>::value) {
    return __half2float(value.to_half());
  } else if constexpr (cute::is_same<T, bfloat16_t>::value) {
    return __uint_as_float(bits_of(value) << 16);
  } else if constexpr (is_fp8<T>) {
    const __nv_fp8_storage_t storage = static_cast<__nv_fp8_storage_t>(bits_of(value));
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(storage, kFp8Format<T>)));
  } else {
    return static_cast<float>(value);
  }
}

template <class T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (cute::is_same<T, half_t>::value) {
    return half_t(__float2half_rn(value));
  } else if constexpr (is_fp8<T>) {
    return from_bits<T>(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, kFp8Format<T>));
  } else if constexpr (cute::is_same<T, int32_t>::value) {
    return __float2int_rn(value);
  } else if constexpr (cute::is_same<T, int8_t>::value) {
    const int whole = __float2int_rn(value);
    return static_cast<int8_t>(whole < -128 ? -128 : whole > 127 ? 127 : whole);
  } else if constexpr (cute::is_same<T, int64_t>::value) {
    return value != value ? 0 : static_cast<int64_t>(__float2ll_rn(value));
  } else if constexpr (cute::is_same<T, bool>::value) {
    return value != 0.0f;
  } else {
    return T(value);
  }
}

// An element as a number of type N, and a number as an element; whole numbers modulo two to the power of their bits.
template <class N, class T>
__device__ __forceinline__ N to_number(T value) {
  if constexpr (cute::is_same<N, T>::value) {
    return value;
  } else if constexpr (is_whole<N> && is_whole<T>) {
    return static_cast<N>(value);
  } else {
    static_assert(cute::is_same<N, float>::value, "integers alone are computed with as such");
    return to_float(value);
  }
}

template <class T, class N>
__device__ __forceinline__ T from_number(N value) {
  if constexpr (cute::is_same<N, T>::value) {
    return value;
  } else if constexpr (is_whole<N> && cute::is_same<T, bool>::value) {
    return value != 0;
  } else if constexpr (is_whole<N> && is_whole<T> && sizeof(T) >= 4) {
    return static_cast<T>(value);
  } else {
    return from_float<T>(static_cast<float>(value));
  }
}

// Two neighbouring elements in one word, the first in the low half; T has 2 bytes.
template <class T>
__device__ __forceinline__ uint32_t pack_pair(float low, float high) {
  if constexpr (cute::is_same<T, half_t>::value) {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<uint32_t const&>(pair);
  } else {
    static_assert(cute::is_same<T, bfloat16_t>::value, "elements of 2 bytes are half_t or bfloat16_t");
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<uint32_t const&>(pair);
  }
}

template <class T>
__device__ __forceinline__ float2 unpack_pair(uint32_t word) {
  if constexpr (cute::is_same<T, half_t>::value) {
    return __half22float2(reinterpret_cast<__half2 const&>(word));
  } else {
    static_assert(cute::is_same<T, bfloat16_t>::value, "elements of 2 bytes are half_t or bfloat16_t");
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
  }
}

}  // namespace mugraph
