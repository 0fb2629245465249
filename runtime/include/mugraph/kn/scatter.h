// Rows put into a table where a tensor of numbers says, as one kernel: elements move as they are.
//
// All layouts are congruent over the iteration domain of the new rows (mode 0 innermost). RowLayout says where an
// element is in its row of the table, and NumberLayout where the number of its row is. A number below 0 counts from the
// end; rows whose number names none are left out.
#pragma once

#include "gather.h"

namespace mugraph {
namespace kn {

template <int kVector, long long kRows, long long kRowStride, class SrcLayout, class RowLayout, class NumberLayout,
          class T, class Index>
__global__ void __launch_bounds__(kCopyThreads) scatter_kernel(T* table, T const* src, Index const* numbers) {
  tb::grid_launch();
  tb::grid_wait();
  const long long vector = static_cast<long long>(blockIdx.x) * kCopyThreads + threadIdx.x;
  if (vector >= size_of<SrcLayout> / kVector) return;
  const int place = static_cast<int>(vector);
  const long long number = *(numbers + VectorOffsets<1, kVector, NumberLayout>(place)(0));
  const long long row = number < 0 ? number + kRows : number;
  if (row < 0 || row >= kRows) return;
  T const* const source = src + VectorOffsets<1, kVector, SrcLayout>(place)(0);
  T* const target = table + row * kRowStride + VectorOffsets<1, kVector, RowLayout>(place)(0);
  move_vector<kVector>(target, source);
}

template <long long kRows, long long kRowStride, class SrcLayout, class RowLayout, class NumberLayout>
struct Scatter {
  static_assert(size_of<SrcLayout> == size_of<RowLayout> && size_of<SrcLayout> == size_of<NumberLayout>,
                "the layouts must have equally many elements");

  // The table's element RowLayout(i) of row numbers[NumberLayout(i)] = src(i), on `queue`. Throws std::runtime_error
  // where the launch fails.
  template <class T, class Index>
  static void run(Queue queue, T* table, T const* src, Index const* numbers) {
    constexpr int kVector = Gather<kRows, kRowStride, SrcLayout, RowLayout,
                                   NumberLayout>::template vector_length<static_cast<int>(sizeof(T))>();
    if (kVector > 1 && is_aligned_for<SrcLayout, kVector>(src) && is_aligned_for<RowLayout, kVector>(table)) {
      launch_vectors<kVector>(queue, table, src, numbers);
    } else {
      launch_vectors<1>(queue, table, src, numbers);
    }
  }

 private:
  template <int kVector, class T, class Index>
  static void launch_vectors(Queue queue, T* table, T const* src, Index const* numbers) {
    const int blocks = ceil_div(size_of<SrcLayout> / kVector, kCopyThreads);
    launch("kn::Scatter", scatter_kernel<kVector, kRows, kRowStride, SrcLayout, RowLayout, NumberLayout, T, Index>,
           dim3(static_cast<unsigned>(blocks)), dim3(kCopyThreads), 0, queue, table, src, numbers);
  }
};

}  // namespace kn
}  // namespace mugraph
