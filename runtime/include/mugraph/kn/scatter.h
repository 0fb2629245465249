// Rows put into a table where a tensor of numbers says, as one kernel: elements move as they are.
//
// All layouts are congruent over the iteration domain of the new rows (mode 0 innermost). RowLayout says where an
// element is in its row of the table, and NumberLayout where the number of its row is. A number below 0 counts from the
// end; rows whose number names none are left out.
#pragma once

#include "gather.h"

namespace mugraph {
namespace kn {

template <int kVector_, long long kRows, long long kRowStride, class SrcLayout, class RowLayout, class NumberLayout,
          class T, class Index>
struct ScatterPart {
  static constexpr int kElements = size_of<SrcLayout>, kVector = kVector_;
  bool is_wide;
  T* table;
  T const* src;
  Index const* numbers;

  template <int kLength>
  __device__ __forceinline__ void run(int vector) const {
    const long long number = *(numbers + VectorOffsets<1, kLength, NumberLayout>(vector)(0));
    const long long row = number < 0 ? number + kRows : number;
    if (row < 0 || row >= kRows) return;
    T const* const source = src + VectorOffsets<1, kLength, SrcLayout>(vector)(0);
    T* const target = table + row * kRowStride + VectorOffsets<1, kLength, RowLayout>(vector)(0);
    move_vector<kLength>(target, source);
  }
};

template <long long kRows, long long kRowStride, class SrcLayout, class RowLayout, class NumberLayout>
struct Scatter {
  static_assert(size_of<SrcLayout> == size_of<RowLayout> && size_of<SrcLayout> == size_of<NumberLayout>,
                "the layouts must have equally many elements");

  // The table's element RowLayout(i) of row numbers[NumberLayout(i)] = src(i), on `queue`. Throws std::runtime_error
  // where the launch fails.
  template <class T, class Index>
  static void run(Queue queue, T* table, T const* src, Index const* numbers) {
    launch_part("kn::Scatter", queue, part(table, src, numbers));
  }

  // The same as a part of a launch.
  template <class T, class Index>
  static auto part(T* table, T const* src, Index const* numbers) {
    constexpr int kVector = Gather<kRows, kRowStride, SrcLayout, RowLayout,
                                   NumberLayout>::template vector_length<static_cast<int>(sizeof(T))>();
    const bool is_wide = is_aligned_for<SrcLayout, kVector>(src) && is_aligned_for<RowLayout, kVector>(table);
    return ScatterPart<kVector, kRows, kRowStride, SrcLayout, RowLayout, NumberLayout, T, Index>{is_wide, table, src,
                                                                                                 numbers};
  }
};

}  // namespace kn
}  // namespace mugraph
