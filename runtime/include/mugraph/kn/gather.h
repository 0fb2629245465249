// Rows of a table that a tensor of numbers names, as one kernel: elements move as they are.
//
// All layouts are congruent over the iteration domain of the result (mode 0 innermost). RowLayout says where an element
// is in its row, and NumberLayout where the number of its row is; a number outside 0 to kRows - 1 stands for the nearest.
#pragma once

#include "copy.h"
#include "parts.h"

namespace mugraph {
namespace kn {

template <int kVector_, long long kRows, long long kRowStride, class DstLayout, class RowLayout, class NumberLayout,
          class T, class Index>
struct GatherPart {
  static constexpr int kElements = size_of<DstLayout>, kVector = kVector_;
  bool is_wide;
  T* dst;
  T const* table;
  Index const* numbers;

  template <int kLength>
  __device__ __forceinline__ void run(int vector) const {
    const long long number = *(numbers + VectorOffsets<1, kLength, NumberLayout>(vector)(0));
    const long long row = number < 0 ? 0 : number < kRows ? number : kRows - 1;
    T* const target = dst + VectorOffsets<1, kLength, DstLayout>(vector)(0);
    T const* const source = table + row * kRowStride + VectorOffsets<1, kLength, RowLayout>(vector)(0);
    move_vector<kLength>(target, source);
  }
};

template <long long kRows, long long kRowStride, class DstLayout, class RowLayout, class NumberLayout>
struct Gather {
  static_assert(size_of<DstLayout> == size_of<RowLayout> && size_of<DstLayout> == size_of<NumberLayout>,
                "the layouts must have equally many elements");

  // dst(i) = the table's element RowLayout(i) of row numbers[NumberLayout(i)], on `queue`. Throws std::runtime_error
  // where the launch fails.
  template <class T, class Index>
  static void run(Queue queue, T* dst, T const* table, Index const* numbers) {
    launch_part("kn::Gather", queue, part(dst, table, numbers));
  }

  // The same as a part of a launch.
  template <class T, class Index>
  static auto part(T* dst, T const* table, Index const* numbers) {
    constexpr int kVector = vector_length<static_cast<int>(sizeof(T))>();
    const bool is_wide = is_aligned_for<DstLayout, kVector>(dst) && is_aligned_for<RowLayout, kVector>(table);
    return GatherPart<kVector, kRows, kRowStride, DstLayout, RowLayout, NumberLayout, T, Index>{is_wide, dst, table,
                                                                                                numbers};
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
};

}  // namespace kn
}  // namespace mugraph
