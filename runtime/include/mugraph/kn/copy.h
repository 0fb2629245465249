// Copies of a whole tensor, or of a part of one, to another layout: elements move as they are.
//
// Both layouts are congruent over one iteration domain (mode 0 innermost). Each thread moves one vector, of at most 16
// bytes, where both layouts keep it contiguous and the pointers are aligned for it, otherwise single elements.
#pragma once

#include "../arch/grid_dependency.h"
#include "../launch.h"
#include "group_sum.h"

namespace mugraph {
namespace kn {

inline constexpr int kCopyThreads = 256;

// One vector of kVector elements, as the words that it consists of where there are several.
template <int kVector, class T>
__device__ __forceinline__ void move_vector(T* target, T const* source) {
  if constexpr (kVector == 1) {
    *target = *source;
  } else {
    Words<T, kVector> words;
    words.load(source);
    words.store(target);
  }
}

template <int kVector, class DstLayout, class SrcLayout, class T>
__global__ void __launch_bounds__(kCopyThreads) copy_kernel(T* dst, T const* src) {
  tb::grid_launch();
  tb::grid_wait();
  const long long vector = static_cast<long long>(blockIdx.x) * kCopyThreads + threadIdx.x;
  if (vector >= size_of<DstLayout> / kVector) return;
  T* const target = dst + VectorOffsets<1, kVector, DstLayout>(static_cast<int>(vector))(0);
  T const* const source = src + VectorOffsets<1, kVector, SrcLayout>(static_cast<int>(vector))(0);
  move_vector<kVector>(target, source);
}

template <class DstLayout, class SrcLayout>
struct Copy {
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");

  // dst(i) = src(i), on `queue`. Throws std::runtime_error where the launch fails.
  template <class T>
  static void run(Queue queue, T* dst, T const* src) {
    constexpr int kVector = vector_length<static_cast<int>(sizeof(T))>();
    if (kVector > 1 && is_aligned_for<DstLayout, kVector>(dst) && is_aligned_for<SrcLayout, kVector>(src)) {
      launch_vectors<kVector>(queue, dst, src);
    } else {
      launch_vectors<1>(queue, dst, src);
    }
  }

  // The longest vector of at least 4 and at most 16 bytes that both layouts keep contiguous.
  template <int kBytes, int kMax = 16 / kBytes>
  static constexpr int vector_length() {
    if constexpr (kMax * kBytes < 4 || kMax <= 1) {
      return 1;
    } else {
      const bool fits = size_of<DstLayout> % kMax == 0 && access_of<DstLayout, kMax>() == Access::kContiguous &&
                        access_of<SrcLayout, kMax>() == Access::kContiguous;
      return fits ? kMax : vector_length<kBytes, kMax / 2>();
    }
  }

 private:
  template <int kVector, class T>
  static void launch_vectors(Queue queue, T* dst, T const* src) {
    const int blocks = ceil_div(size_of<DstLayout> / kVector, kCopyThreads);
    launch("kn::Copy", copy_kernel<kVector, DstLayout, SrcLayout, T>, dim3(static_cast<unsigned>(blocks)),
           dim3(kCopyThreads), 0, queue, dst, src);
  }
};

}  // namespace kn
}  // namespace mugraph
