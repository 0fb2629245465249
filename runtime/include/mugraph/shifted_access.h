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

// One vector on its way. Several are issued before the first is finished, so that they wait together.
template <class T, int kVector>
class ShiftedLoad {
  static constexpr int kChunk = 16;
  static_assert(kVector * static_cast<int>(sizeof(T)) == kChunk, "a vector has the bytes of a chunk");
  uint32_t words_[8];
  uint32_t past_;
  int count_;
  bool whole_;

 public:
  // The first `count` elements from `source` on exist; the others become 0.
  __device__ __forceinline__ void issue(T const* source, int count, Tensor<T> const& tensor) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(source);
    past_ = static_cast<uint32_t>(address % kChunk);
    count_ = count;
    const uintptr_t first = address - past_;
    const uintptr_t second = past_ == 0 ? first : first + kChunk;
    whole_ = count == kVector && first >= reinterpret_cast<uintptr_t>(tensor.begin) &&
             second + kChunk <= reinterpret_cast<uintptr_t>(tensor.end);
    if (whole_) {
      put(0, *reinterpret_cast<uint4 const*>(first));
      put(4, *reinterpret_cast<uint4 const*>(second));
    }
  }

  __device__ __forceinline__ void finish(T const* source, Words<T, kVector>& vector) {
    if (whole_) {
      // By 8, by 4, and by less bytes.
#pragma unroll
      for (int i = 0; i < 6; ++i) words_[i] = past_ & 8 ? words_[i + 2] : words_[i];
#pragma unroll
      for (int i = 0; i < 5; ++i) words_[i] = past_ & 4 ? words_[i + 1] : words_[i];
      const uint32_t bits = past_ % 4 * 8;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        vector.words[i] = static_cast<uint32_t>((static_cast<uint64_t>(words_[i + 1]) << 32 | words_[i]) >> bits);
      }
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
