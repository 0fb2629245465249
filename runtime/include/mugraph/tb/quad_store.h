// Writes an MmaFragment to memory in vectors of 16 bytes: the four lanes that hold a row exchange what they hold.
//
// Of eight neighbouring columns a lane holds two. Four such blocks are transposed among the lanes of a quad by four
// shuffles, after which each lane has one block whole: rows of device memory are written in whole sectors. Of a last
// group of fewer blocks the first lanes have one each.
#pragma once

#include "mma_fragment.h"

namespace mugraph {
namespace tb {

// Where the rows of a tile are written: each in its place in the tile.
struct RowsOfTile {
  __device__ __forceinline__ int64_t operator()(int) const { return 0; }
};

// Each where the number says that memory has for it, of kRows rows kStride elements apart; -1 for none of them. Numbers
// of neighbouring rows are kStep apart.
template <int64_t kRows, int64_t kStride, int kStep>
struct RowsWritten {
  int const* numbers;

  __device__ __forceinline__ int64_t operator()(int row) const {
    const int64_t number = *(numbers + row * kStep);
    return number >= 0 && number < kRows ? number * kStride : -1;
  }
};

// dst(m, n) = Epilogue(acc), rounded to nearest. CLayout is (M, N) with n contiguous, rows at multiples of 16 bytes, and
// N a multiple of what the warps' instructions cover; elements of D have 16 bits. All threads of the fragment's warps call.
template <class Fragment, class Atom, int kRows, class CLayout>
struct QuadStore {
  using Parts = LayoutParts<CLayout>;
  using Rows = Mode<decltype(cute::layout<0>(typename Parts::Linear{}))>;
  using Columns = Mode<decltype(cute::layout<1>(typename Parts::Linear{}))>;
  static_assert(Columns::kFirstStride == 1 && Columns::kFirstExtent % 8 == 0 &&
                    Columns::kModes.strides_divisible_by(8, 1) && Rows::kModes.strides_divisible_by(8, 0) &&
                    Parts::kGranule % 8 == 0 && Parts::kOffset % 8 == 0,
                "eight neighbouring columns must be contiguous and aligned");
  static_assert(Atom::kN % 8 == 0, "the instruction's lanes must hold pairs of columns of an 8-column block");
  static constexpr int kBlocksOfTile = Atom::kN / 8;
  static constexpr int kBlocks = Fragment::kTilesN * kBlocksOfTile;
  static constexpr int kGroups = (kBlocks + 3) / 4;
  static constexpr int kHalves = 2;  // a lane has values of rows r and r + 8

  template <class Epilogue, class D, class V, class Where = RowsOfTile>
  static __device__ __forceinline__ void run(D* dst, V const (&acc)[Fragment::kValues], int thread,
                                             Where where = Where{}) {
    static_assert(sizeof(D) == 2, "elements of 16 bits make vectors of eight");
    if (thread >= Fragment::kThreads) return;
    const int place = thread % 4;
    int64_t starts[Fragment::kTilesM * kHalves];
#pragma unroll
    for (int i = 0; i < Fragment::kTilesM * kHalves; ++i) {
      const int row = Fragment::row_of(thread, i / kHalves, 2 * (i % kHalves));
      starts[i] = where(row < kRows ? row : kRows - 1);
    }
#pragma unroll
    for (int i = 0; i < Fragment::kTilesM; ++i) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const int row = Fragment::row_of(thread, i, 2 * half);
        const int64_t start = starts[i * kHalves + half];
        const bool exists = ((i + 1) * Fragment::kRowsOfStep <= kRows || row < kRows) && start >= 0;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          uint32_t words[4];
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            words[e] = 0;
            if (group * 4 + e >= kBlocks) continue;
            V const* values = &acc[value_of(i, group * 4 + e, half)];
            words[e] = bits_of(from_float<D>(Epilogue::apply(static_cast<float>(values[0])))) |
                       bits_of(from_float<D>(Epilogue::apply(static_cast<float>(values[1])))) << 16;
          }
          transpose(words, place);
          const int block = group * 4 + place;
          if (exists && block < kBlocks) {
            const int column = Fragment::column_of(thread - place, block / kBlocksOfTile, block % kBlocksOfTile * 4);
            D* const target = dst + start + Parts::swizzle(Parts::kOffset + Rows::at(row) + Columns::at(column));
            *reinterpret_cast<uint4*>(target) = make_uint4(words[0], words[1], words[2], words[3]);
          }
        }
      }
    }
  }

 private:
  // The first of the two values in a block of a row.
  static __host__ __device__ constexpr int value_of(int i, int block, int half) {
    return (i * Fragment::kTilesN + block / kBlocksOfTile) * Atom::kValues + block % kBlocksOfTile * 4 + 2 * half;
  }

  // Lane s of a quad gets word s of every lane, in the lanes' order.
  static __device__ __forceinline__ void transpose(uint32_t (&words)[4], int place) {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
      const bool is_upper = (place & distance) != 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if ((i & distance) != 0) continue;
        const uint32_t given = is_upper ? words[i] : words[i + distance];
        const uint32_t taken = __shfl_xor_sync(0xffffffffu, given, distance);
        (is_upper ? words[i] : words[i + distance]) = taken;
      }
    }
  }
};

}  // namespace tb
}  // namespace mugraph
