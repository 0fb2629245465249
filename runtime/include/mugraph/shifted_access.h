// Loads of 16 bytes that start at any element: the aligned chunks around them, shifted in registers.
//
// Rows whose bytes 16 does not divide start anywhere. Chunks hold neighbours of what is loaded, too, but never what
// lies outside of the tensor: its first and last vectors may be loaded element by element.
#pragma once

#include "vector_access.h"

namespace mugraph {

// Where the elements of a tensor in device memory begin and end.
template <class T>
struct Tensor {
  T const* begin;
  T const* end;
};

// 16 of 32 bytes: those from byte `past` on, which is less than 16. The words are not kept.
__device__ __forceinline__ void shift(uint32_t (&words)[8], uint32_t past, uint32_t (&found)[4]) {
  // By 8, by 4, and by less bytes.
#pragma unroll
  for (int i = 0; i < 6; ++i) words[i] = past & 8 ? words[i + 2] : words[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) words[i] = past & 4 ? words[i + 1] : words[i];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    found[i] = static_cast<uint32_t>((static_cast<uint64_t>(words[i + 1]) << 32 | words[i]) >> past % 4 * 8);
  }
}

// One vector on its way. Several are issued before the first is finished, so that they wait together.
template <class T, int kVector>
class ShiftedLoad {
  static constexpr int kChunk = 16;
  static_assert(kVector * static_cast<int>(sizeof(T)) == kChunk, "a vector has the bytes of a chunk");
  uint32_t words_[8];
  uint32_t past_;
  int count_;
  bool inside_;

 public:
  // The first `count` elements from `source` on exist; the others become 0.
  __device__ __forceinline__ void issue(T const* source, int count, Tensor<T> const& tensor) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(source);
    past_ = static_cast<uint32_t>(address % kChunk);
    count_ = count;
    const uintptr_t first = address - past_;
    const uintptr_t second = past_ == 0 ? first : first + kChunk;
    inside_ = count > 0 && first >= reinterpret_cast<uintptr_t>(tensor.begin) &&
              second + kChunk <= reinterpret_cast<uintptr_t>(tensor.end);
    if (inside_) {
      put(0, *reinterpret_cast<uint4 const*>(first));
      put(4, *reinterpret_cast<uint4 const*>(second));
    }
  }

  __device__ __forceinline__ void finish(T const* source, Words<T, kVector>& vector) {
    if (inside_) {
      shift(words_, past_, vector.words);
      if (count_ < kVector) vector.keep_first(count_);
    } else {
      vector.load_first(source, count_);
    }
  }

 private:
  __device__ __forceinline__ void put(int at, uint4 chunk) {
    words_[at] = chunk.x;
    words_[at + 1] = chunk.y;
    words_[at + 2] = chunk.z;
    words_[at + 3] = chunk.w;
  }
};

}  // namespace mugraph
