// Loads and stores of short vectors as 1- to 16-byte accesses, and their conversion to and from numbers.
//
// A pointer to kVector elements must be aligned to min(16, kVector * sizeof(element)) bytes.
#pragma once

#include "layout.h"
#include "numbers.h"

namespace mugraph {

// An argument of a kernel that points to a multiple of kBytes bytes, of which the compiler learns that: it makes one
// access of neighbours.  nvcc forgets what it learns of other pointers.
template <int kBytes, class T>
__device__ __forceinline__ T* aligned(T* pointer) {
  return static_cast<T*>(__builtin_assume_aligned(pointer, kBytes));
}

// kVector elements of type T in registers, as they lie in memory.
template <class T, int kVector>
struct Words {
  static constexpr int kBytes = kVector * static_cast<int>(sizeof(T));
  static constexpr bool kIsLong = sizeof(T) == 8;
  static constexpr int kPerWord = sizeof(T) >= 4 ? 1 : 4 / static_cast<int>(sizeof(T));
  static constexpr int kBits = 8 * static_cast<int>(sizeof(T));
  uint32_t words[ceil_div(kBytes, 4)];

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
    } else if constexpr (kBytes == 4) {
      words[0] = *reinterpret_cast<uint32_t const*>(source);
    } else if constexpr (kBytes == 2) {
      words[0] = *reinterpret_cast<uint16_t const*>(source);
    } else {
      words[0] = *reinterpret_cast<uint8_t const*>(source);
    }
  }

  // The first `count` elements one by one, and 0 in the place of the others.
  __device__ __forceinline__ void load_first(T const* source, int count) {
#pragma unroll
    for (int i = 0; i < ceil_div(kBytes, 4); ++i) words[i] = 0;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < count) {
        Words<T, 1> element;
        element.load(source + i);
        words[i / kPerWord] |= element.words[0] << (i % kPerWord * kBits);
      }
    }
  }

  // Makes all elements but the first `count` 0.
  __device__ __forceinline__ void keep_first(int count) {
#pragma unroll
    for (int i = 0; i < ceil_div(kBytes, 4); ++i) {
      const int kept = count * static_cast<int>(sizeof(T)) - 4 * i;
      words[i] = kept >= 4 ? words[i] : kept <= 0 ? 0 : words[i] & ((1u << 8 * kept) - 1);
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
    } else if constexpr (kBytes == 4) {
      *reinterpret_cast<uint32_t*>(target) = words[0];
    } else if constexpr (kBytes == 2) {
      *reinterpret_cast<uint16_t*>(target) = static_cast<uint16_t>(words[0]);
    } else {
      *reinterpret_cast<uint8_t*>(target) = static_cast<uint8_t>(words[0]);
    }
  }

  __device__ __forceinline__ T element(int i) const {
    if constexpr (kIsLong) {
      return static_cast<T>(static_cast<uint64_t>(words[2 * i + 1]) << 32 | words[2 * i]);
    } else {
      return from_bits<T>(words[i / kPerWord] >> (i % kPerWord * kBits));
    }
  }

  __device__ __forceinline__ void from_elements(T const* elements) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const uint32_t bits = bits_of(elements[i]) << (i % kPerWord * kBits);
      words[i / kPerWord] = i % kPerWord == 0 ? bits : words[i / kPerWord] | bits;
    }
  }

  template <class N>
  __device__ __forceinline__ void to_numbers(N (&values)[kVector]) const {
    if constexpr (sizeof(T) == 2 && kVector % 2 == 0) {
#pragma unroll
      for (int i = 0; i < kVector / 2; ++i) {
        const float2 pair = unpack_pair<T>(words[i]);
        values[2 * i] = pair.x;
        values[2 * i + 1] = pair.y;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        values[i] = to_number<N>(element(i));
      }
    }
  }

  template <class N>
  __device__ __forceinline__ void from_numbers(N const (&values)[kVector]) {
    if constexpr (sizeof(T) == 2 && kVector % 2 == 0) {
#pragma unroll
      for (int i = 0; i < kVector / 2; ++i) words[i] = pack_pair<T>(values[2 * i], values[2 * i + 1]);
    } else if constexpr (kIsLong) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const uint64_t bits = static_cast<uint64_t>(from_number<T>(values[i]));
        words[2 * i] = static_cast<uint32_t>(bits);
        words[2 * i + 1] = static_cast<uint32_t>(bits >> 32);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const uint32_t bits = bits_of(from_number<T>(values[i])) << (i % kPerWord * kBits);
        words[i / kPerWord] = i % kPerWord == 0 ? bits : words[i / kPerWord] | bits;
      }
    }
  }
};

// Reads the vector `round` of an operand as numbers: one vector access where it is contiguous, one scalar where it is
// broadcast, element by element otherwise.
template <class Layout, int kVector, class T, class Offsets, class N>
__device__ __forceinline__ void load_vector(T const* source, Offsets const& offsets, int round, N (&values)[kVector]) {
  constexpr Access kAccess = access_of<Layout, kVector>();
  if constexpr (kAccess == Access::kContiguous) {
    Words<T, kVector> words;
    words.load(source + offsets(round));
    words.to_numbers(values);
  } else if constexpr (kAccess == Access::kBroadcast) {
    const N value = to_number<N>(*(source + offsets(round)));
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = value;
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = to_number<N>(*(source + offsets(round, i)));
  }
}

// `target` is a pointer, or what gives one for each offset.
template <class Layout, int kVector, class Target, class Offsets, class N>
__device__ __forceinline__ void store_vector(Target target, Offsets const& offsets, int round,
                                             N const (&values)[kVector]) {
  using T = std::remove_pointer_t<decltype(target + 0)>;
  constexpr Access kAccess = access_of<Layout, kVector>();
  static_assert(kAccess != Access::kBroadcast, "a destination must not have stride 0");
  if constexpr (kAccess == Access::kContiguous) {
    Words<T, kVector> words;
    words.from_numbers(values);
    words.store(target + offsets(round));
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) *(target + offsets(round, i)) = from_number<T>(values[i]);
  }
}

}  // namespace mugraph
