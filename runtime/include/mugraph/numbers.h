// The element types of tensors, and their conversion to and from the numbers that kernels compute with.
//
// Elements are half_t, bfloat16_t, float, float_e4m3_t, float_e5m2_t, int8_t or int32_t. Kernels compute with `float`;
// sums of int32_t alone are int32_t, modulo 2^32. Narrowing conversions round to nearest even. The 8-bit types and
// int32_t saturate: what is larger than their largest number, infinities included, becomes that. NaN stays NaN, and
// becomes 0 in integers.
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

// What an operation on elements of these types computes with.
template <class... T>
using Number = cute::conditional_t<(cute::is_same<T, int32_t>::value && ...), int32_t, float>;

__device__ __forceinline__ float plus(float x, float y) { return x + y; }
__device__ __forceinline__ int32_t plus(int32_t x, int32_t y) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
}

// The bits of an element, of sizeof(T) bytes, in the low bits of a word, and back.
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
  } else {
    return T(value);
  }
}

// An element as a number of type N, and a number as an element.
template <class N, class T>
__device__ __forceinline__ N to_number(T value) {
  if constexpr (cute::is_same<N, T>::value) {
    return value;
  } else if constexpr (cute::is_same<N, int32_t>::value && cute::is_same<T, int8_t>::value) {
    return value;
  } else {
    static_assert(cute::is_same<N, float>::value, "only int32_t is computed with as an integer");
    return to_float(value);
  }
}

template <class T, class N>
__device__ __forceinline__ T from_number(N value) {
  if constexpr (cute::is_same<N, T>::value) {
    return value;
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
