// The row of a tile that another kernel still wrote when the tile was copied to shared memory.
#pragma once

#include "copy.h"

namespace mugraph {
namespace tb {

// Where in a tile that begins at row `start` the row of a table of kRows rows is that a number names; one below 0 counts
// from the end. Below 0 where it names none, or one in front of the tile.
template <long long kRows, class Number>
__device__ __forceinline__ long long row_in_tile(Number const* number, int start) {
  const long long given = *number;
  const long long row = given < 0 ? given + kRows : given;
  return row < kRows ? row - start : -1;
}

// dst_shared(i) = src_global(i) by cp.async, for the elements of one row of the kRows rows of a tile, of kRowElements
// indices each; for none where the tile has no such row. The thread that moved a vector by CopyAsync moves it again: it
// must have waited for that. Commits nothing.
template <int kThreads, int kVector, class DstLayout, class SrcLayout, int kRowElements, int kRows>
struct CopyRow {
  static constexpr int kVectors = kRowElements / kVector;
  static_assert(kRowElements % kVector == 0, "a vector must not belong to two rows");

  template <class T>
  static __device__ __forceinline__ void run(T* dst_shared, T const* src_global, int thread, long long row) {
    if (row < 0 || row >= kRows) return;
    const int first = static_cast<int>(row) * kVectors;
    // The first vector of the row that is the thread's: vectors are dealt out in turn.
    const int own = (thread - first % kThreads + kThreads) % kThreads;
#pragma unroll 1
    for (int at = own; at < kVectors; at += kThreads) {
      const VectorOffsets<kThreads, kVector, DstLayout> dst(first + at);
      const VectorOffsets<kThreads, kVector, SrcLayout> src(first + at);
      copy_async<kVector * static_cast<int>(sizeof(T))>(dst_shared + dst(0), src_global + src(0));
    }
  }
};

}  // namespace tb
}  // namespace mugraph
