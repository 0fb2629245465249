// Rows of a table that a tensor of numbers names, as one kernel: elements move as they are.
//
// All layouts are congruent over the iteration domain of the result (mode 0 innermost). RowLayout says where an element
// is in its row, and NumberLayout where the number of its row is; a number outside 0 to kRows - 1 stands for the nearest.
#pragma once

#include "copy.h"

namespace mugraph {
namespace kn {

template <int kVector, long long kRows, long long kRowStride, class DstLayout, class RowLayout, class NumberLayout,
          class T, class Index>
__global__ void __launch_bounds__(kCopyThreads) gather_kernel(T* dst, T const* table, Index const* numbers) {
  tb::grid_launch();
  tb::grid_wait();
  const long long vector = static_cast<long long>(blockIdx.x) * kCopyThreads + threadIdx.x;
  if (vector >= size_of<DstLayout> / kVector) return;
  const int place = static_cast<int>(vector);
  const long long number = *(numbers + VectorOffsets<1, kVector, NumberLayout>(place)(0));
  const long long row = number < 0 ? 0 : number < kRows ? number : kRows - 1;
  T* const target = dst + VectorOffsets<1, kVector, DstLayout>(place)(0);
  T const* const source = table + row * kRowStride + VectorOffsets<1, kVector, RowLayout>(place)(0);
  move_vector<kVector>(target, source);
}

template <long long kRows, long long kRowStride, class DstLayout, class RowLayout, class NumberLayout>
struct Gather {
  static_assert(size_of<DstLayout> == size_of<RowLayout> && size_of<DstLayout> == size_of<NumberLayout>,
                "the layouts must have equally many elements");

  // dst(i) = the table's element RowLayout(i) of row numbers[NumberLayout(i)], on `queue`. Throws std::runtime_error
  // where the launch fails.
  template <class T, class Index>
  static void run(Queue queue, T* dst, T const* table, Index const* numbers) {
    constexpr int kVector = vector_length<static_cast<int>(sizeof(T))>();
    if (kVector > 1 && is_aligned_for<DstLayout, kVector>(dst) && is_aligned_for<RowLayout, kVector>(table)) {
      launch_vectors<kVector>(queue, dst, table, numbers);
    } else {
      launch_vectors<1>(queue, dst, table, numbers);
    }
  }

  // The longest vector of a copy of rows that lies in one of them and starts where vectors do.
  template <int kBytes, int kMax = Copy<DstLayout, RowLayout>::template vector_length<kBytes>()>
  static constexpr int vector_length() {
    if constexpr (kMax == 1) {
      return 1;
    } else {
      const bool fits = kRowStride % kMax == 0 && access_of<NumberLayout, kMax>() == Access::kBroadcast;
      return fits ? kMax : vector_length<kBytes, kMax / 2>();
    }
  }

 private:
  template <int kVector, class T, class Index>
  static void launch_vectors(Queue queue, T* dst, T const* table, Index const* numbers) {
    const int blocks = ceil_div(size_of<DstLayout> / kVector, kCopyThreads);
    launch("kn::Gather", gather_kernel<kVector, kRows, kRowStride, DstLayout, RowLayout, NumberLayout, T, Index>,
           dim3(static_cast<unsigned>(blocks)), dim3(kCopyThreads), 0, queue, dst, table, numbers);
  }
};

}  // namespace kn
}  // namespace mugraph
