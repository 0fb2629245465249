// A row of a table, as what a kernel writes: where its elements are says a number in device memory.
#pragma once

#include "../layout.h"

namespace mugraph {
namespace tb {

// The row lies in pieces of kElements, kApart from each other; kRowStride from it lies the next of kRows rows. A number
// below 0 counts from the end; where it names no row, the elements are stored at `otherwise`, one behind the other.
template <class T, class Number, long long kRows, int kElements, long long kRowStride, long long kApart>
struct PlacedRow {
  T* otherwise;
  T* table;
  Number const* number;

  // A tile whose elements lie in several pieces.
  struct Tile {
    T* start;
    int first;
    bool placed;

    // Where element `offset` of the tile is, and those behind it in the same piece.
    __device__ __forceinline__ T* operator+(int offset) const {
      const int at = first + offset;
      return placed ? start + (at / kElements * kApart + at % kElements) : start + at;
    }
    __device__ __forceinline__ T* operator+(SplitOffset offset) const {
      return *this + static_cast<int>(offset.value());
    }
  };

  __host__ __device__ PlacedRow(T* otherwise_, T* table_, Number const* number_)
      : otherwise(otherwise_), table(table_), number(number_) {}

  // Where element `offset` is, and those behind it in the same piece.
  __device__ __forceinline__ T* operator+(int offset) const { return tile(offset) + 0; }

  // The tile whose first element is `offset`.
  __device__ __forceinline__ Tile tile(int offset) const {
    const long long given = *number;
    const long long row = given < 0 ? given + kRows : given;
    if (row < 0 || row >= kRows) return {otherwise, offset, false};
    return {table + row * kRowStride, offset, true};
  }
};

}  // namespace tb
}  // namespace mugraph
