// Loads and stores of short vectors as 2-, 4-, 8- and 16-byte accesses, and their conversion to and from float.
//
// Narrowing conversions round to nearest even. A pointer to kVector elements must be aligned to
// min(16, kVector * sizeof(element)) bytes.
#pragma once

#include <cuda_fp16.h>

#include "layout.h"

namespace mugraph {

using cutlass::half_t;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(half_t value) { return __half2float(value.to_half()); }

template <class T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (cute::is_same<T, half_t>::value) {
    return half_t(__float2half_rn(value));
  } else {
    return T(value);
  }
}

__device__ __forceinline__ uint32_t pack_half2(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<uint32_t const&>(pair);
}

__device__ __forceinline__ float2 unpack_half2(uint32_t word) {
  return __half22float2(reinterpret_cast<__half2 const&>(word));
}

// kVector elements of type T in registers, as they lie in memory.
template <class T, int kVector>
struct Words {
  static constexpr int kBytes = kVector * static_cast<int>(sizeof(T));
  static_assert(kBytes >= 4, "a vector of less than four bytes is accessed as scalars");
  uint32_t words[kBytes / 4];

  __device__ __forceinline__ void load(T const* source) {
    if constexpr (kBytes % 16 == 0) {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i) {
        const uint4 chunk = reinterpret_cast<uint4 const*>(source)[i];
        words[4 * i] = chunk.x;
        words[4 * i + 1] = chunk.y;
        words[4 * i + 2] = chunk.z;
        words[4 * i + 3] = chunk.w;
      }
    } else if constexpr (kBytes == 8) {
      const uint2 chunk = *reinterpret_cast<uint2 const*>(source);
      words[0] = chunk.x;
      words[1] = chunk.y;
    } else {
      words[0] = *reinterpret_cast<uint32_t const*>(source);
    }
  }

  __device__ __forceinline__ void store(T* target) const {
    if constexpr (kBytes % 16 == 0) {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i) {
        reinterpret_cast<uint4*>(target)[i] =
            make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
      }
    } else if constexpr (kBytes == 8) {
      *reinterpret_cast<uint2*>(target) = make_uint2(words[0], words[1]);
    } else {
      *reinterpret_cast<uint32_t*>(target) = words[0];
    }
  }

  __device__ __forceinline__ void to_floats(float (&values)[kVector]) const {
    if constexpr (cute::is_same<T, half_t>::value) {
#pragma unroll
      for (int i = 0; i < kVector / 2; ++i) {
        const float2 pair = unpack_half2(words[i]);
        values[2 * i] = pair.x;
        values[2 * i + 1] = pair.y;
      }
    } else {
      static_assert(cute::is_same<T, float>::value, "vectors hold half_t or float");
#pragma unroll
      for (int i = 0; i < kVector; ++i) values[i] = __uint_as_float(words[i]);
    }
  }

  __device__ __forceinline__ void from_floats(float const (&values)[kVector]) {
    if constexpr (cute::is_same<T, half_t>::value) {
#pragma unroll
      for (int i = 0; i < kVector / 2; ++i) words[i] = pack_half2(values[2 * i], values[2 * i + 1]);
    } else {
      static_assert(cute::is_same<T, float>::value, "vectors hold half_t or float");
#pragma unroll
      for (int i = 0; i < kVector; ++i) words[i] = __float_as_uint(values[i]);
    }
  }
};

// Reads the vector `round` of an operand as floats: one vector access where it is contiguous, one scalar where it is
// broadcast, element by element otherwise.
template <class Layout, int kVector, class T, class Offsets>
__device__ __forceinline__ void load_vector(T const* source, Offsets const& offsets, int round,
                                            float (&values)[kVector]) {
  constexpr Access kAccess = access_of<Layout, kVector>();
  if constexpr (kAccess == Access::kContiguous) {
    Words<T, kVector> words;
    words.load(source + offsets(round));
    words.to_floats(values);
  } else if constexpr (kAccess == Access::kBroadcast) {
    const float value = to_float(*(source + offsets(round)));
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = value;
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = to_float(*(source + offsets(round, i)));
  }
}

template <class Layout, int kVector, class T, class Offsets>
__device__ __forceinline__ void store_vector(T* target, Offsets const& offsets, int round,
                                             float const (&values)[kVector]) {
  constexpr Access kAccess = access_of<Layout, kVector>();
  static_assert(kAccess != Access::kBroadcast, "a destination must not have stride 0");
  if constexpr (kAccess == Access::kContiguous) {
    Words<T, kVector> words;
    words.from_floats(values);
    words.store(target + offsets(round));
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) *(target + offsets(round, i)) = from_float<T>(values[i]);
  }
}

}  // namespace mugraph
