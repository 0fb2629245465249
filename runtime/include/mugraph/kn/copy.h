// Copies of a whole tensor, or of a part of one, to another layout: elements move as they are.
//
// Both layouts are congruent over one iteration domain (mode 0 innermost). Each thread moves one vector, of at most 16
// bytes, where both layouts keep it contiguous and the pointers are aligned for it. Rows that start at no multiples of 8
// bytes are moved to aligned ones in vectors of 16, which are shifted on the way. Otherwise threads move single elements.
#pragma once

#include "../arch/grid_dependency.h"
#include "../launch.h"
#include "../shifted_access.h"
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

// Rows of kRow elements, which are contiguous and start anywhere in the source, at whole vectors in the destination.
// What pads a row of the destination is not written.
template <int kVector, int kRow, int kEach, class DstLayout, class SrcLayout, class T>
__global__ void __launch_bounds__(kCopyThreads) copy_rows_kernel(T* dst, T const* src, Tensor<T> tensor) {
  tb::grid_launch();
  tb::grid_wait();
  constexpr int kOfRow = ceil_div(kRow, kVector);
  constexpr int kVectors = size_of<DstLayout> / kRow * kOfRow;
  ShiftedLoad<T, kVector> loads[kEach];
  const int first = blockIdx.x * (kCopyThreads * kEach) + threadIdx.x;
  const auto each = [&](auto const& function) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int vector = first + i * kCopyThreads;
      const int column = vector % kOfRow * kVector;
      if (vector < kVectors) function(loads[i], vector / kOfRow * kRow + column, cute::min(kRow - column, kVector));
    }
  };
  each([&](auto& load, int at, int count) {
    load.issue(src + VectorOffsets<1, 1, SrcLayout>(at)(0), count, tensor);
  });
  each([&](auto& load, int at, int count) {
    Words<T, kVector> vector;
    load.finish(src + VectorOffsets<1, 1, SrcLayout>(at)(0), vector);
    T* const target = dst + VectorOffsets<1, 1, DstLayout>(at)(0);
    if (count == kVector) {
      vector.store(target);
    } else {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (e < count) target[e] = vector.element(e);
      }
    }
  });
}

template <class DstLayout, class SrcLayout>
struct Copy {
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");

  // dst(i) = src(i), on `queue`. Throws std::runtime_error where the launch fails.
  template <class T>
  static void run(Queue queue, T* dst, T const* src) {
    constexpr int kVector = vector_length<static_cast<int>(sizeof(T))>();
    constexpr int kWhole = 16 / static_cast<int>(sizeof(T));
    const bool narrow = kVector * static_cast<int>(sizeof(T)) < 8;
    const bool in_rows = narrow && has_rows<kWhole>() && reinterpret_cast<uintptr_t>(dst) % 16 == 0;
    if (in_rows) {
      launch_rows<kWhole>(queue, dst, src);
    } else if (kVector > 1 && is_aligned_for<DstLayout, kVector>(dst) && is_aligned_for<SrcLayout, kVector>(src)) {
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
  using Dst = Mode<typename LayoutParts<DstLayout>::Linear>;
  using Src = Mode<typename LayoutParts<SrcLayout>::Linear>;
  // Elements of a row, and vectors from which on each thread moves several.
  static constexpr int kRow = Dst::kFirstExtent < Src::kFirstExtent ? Dst::kFirstExtent : Src::kFirstExtent;
  static constexpr int kMany = 1 << 20;

  // Whether rows of the source are contiguous, and those of the destination start at whole vectors.
  template <int kVector>
  static constexpr bool has_rows() {
    return kVector > 1 && Dst::kFirstStride == 1 && Src::kFirstStride == 1 && kRow >= kVector &&
           kRow == Dst::kFirstExtent && Src::kFirstExtent % kRow == 0 && Dst::kModes.strides_divisible_by(kVector, 1);
  }

  template <int kVector, class T>
  static void launch_rows(Queue queue, T* dst, T const* src) {
    constexpr int kVectors = size_of<DstLayout> / kRow * ceil_div(kRow, kVector);
    constexpr int kEach = kVectors >= kMany ? 4 : 1;
    constexpr int kBlocks = ceil_div(kVectors, kCopyThreads * kEach);
    const Tensor<T> tensor{src, src + static_cast<int64_t>(cute::cosize(typename LayoutParts<SrcLayout>::Linear{}))};
    launch("kn::Copy", copy_rows_kernel<kVector, kRow, kEach, DstLayout, SrcLayout, T>,
           dim3(static_cast<unsigned>(kBlocks)), dim3(kCopyThreads), 0, queue, dst, src, tensor);
  }

  template <int kVector, class T>
  static void launch_vectors(Queue queue, T* dst, T const* src) {
    const int blocks = ceil_div(size_of<DstLayout> / kVector, kCopyThreads);
    launch("kn::Copy", copy_kernel<kVector, DstLayout, SrcLayout, T>, dim3(static_cast<unsigned>(blocks)),
           dim3(kCopyThreads), 0, queue, dst, src);
  }
};

}  // namespace kn
}  // namespace mugraph
