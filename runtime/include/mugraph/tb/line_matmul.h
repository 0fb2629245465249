// Products of few rows by a matrix whose neighbours along n lie side by side: acc += A B, computed as the transposed
// product, by kWarpsN * kWarpsK warps of a block.
//
// ALayout is (M, K), BLayout is (N, K), in shared memory; N and K are multiples of 16. ldmatrix reads lines of 16 bytes of B
// and transposes pairs of them: a lane receives two neighbours along n of two neighbours along k. What the instruction takes
// as it is stored is read by pairs. A tile of an instruction has 16 columns of B, of which a lane has two neighbours (see
// Atom). Bytes of B are what `ThroughB` makes of them. Rows past the last one are replaced by one that exists, and so are
// columns; what they give is never stored. Each of the warps along k multiplies a pair of matrices of its own, which lie
// kApartA and kApartB elements apart.
#pragma once

#include "matmul_operand.h"
#include "mma_fragment.h"
#include "sum_chains.h"

namespace mugraph {
namespace tb {

template <int kWarpsM, int kWarpsN, class ALayout, class BLayout, bool kLdmatrixA, class Atom, int kWarpsK = 1,
          class ThroughB = ops::Chain<>, int kApartA = 0, int kApartB = 0>
struct LineMatmul {
  using A = MatmulOperand<false, kWarpsM, ALayout, kLdmatrixA, typename Atom::Instruction, kWarpsK, ops::Chain<>, kApartA>;
  using Parts = LayoutParts<BLayout>;
  using Columns = Mode<decltype(cute::layout<0>(typename Parts::Linear{}))>;
  using Depth = Mode<decltype(cute::layout<1>(typename Parts::Linear{}))>;
  static constexpr int kLine = 16, kStep = 16;  // columns of a line, and elements along k of an instruction
  static constexpr int kSteps = Depth::kSize / kStep;
  static_assert(kWarpsM == 1, "a warp has all rows");
  static_assert(kWarpsK == 1 || kApartB != 0, "warps along k have matrices of their own");
  static_assert(Depth::kSize == A::kK, "A (M, K) and B (N, K) must have the same K");
  static_assert(Columns::kSize % kLine == 0 && Depth::kSize % kStep == 0, "columns and depth are whole tiles");
  static_assert(Columns::kFirstStride == 1 && (Columns::kRank <= 1 || Columns::kFirstExtent % kLine == 0) &&
                    Depth::kModes.strides_divisible_by(kLine, 0) && Columns::kModes.strides_divisible_by(kLine, 1) &&
                    Parts::kOffset % kLine == 0 && Parts::kGranule % kLine == 0 && kApartB % kLine == 0,
                "neighbours along n lie side by side in lines of 16 bytes");
  using Sum = typename Atom::Sum;
  using Fragment = MmaFragment<kWarpsM, kWarpsN, A::kRows, Columns::kSize, Atom, kWarpsK>;
  static constexpr int kValues = Fragment::kValues;

  template <class TA, class TB>
  static __device__ __forceinline__ void mma(Sum (&acc)[kValues], TA const* a, TB const* b, int thread) {
    const int warp = thread / 32;
    if (warp >= kWarpsM * kWarpsN * kWarpsK) return;
    const int warp_k = kWarpsK == 1 ? 0 : warp / (kWarpsM * kWarpsN);
    const A rows(thread % 32, warp % kWarpsM, warp_k);
    const int first = warp / kWarpsM % kWarpsN * kLine;
    SumChains<Fragment, Atom, TB, kSteps> chains(acc);
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
      const int count = step + 1 < kSteps ? 2 : 1;
      uint32_t left[2][ceil_div(Fragment::kTilesM, 2)][4];
#pragma unroll
      for (int half = 0; half < count; ++half) {
#pragma unroll
        for (int i = 0; i < Fragment::kTilesM; i += 2) rows.template load<false>(left[half][i / 2], a, i, step + half);
      }
#pragma unroll
      for (int j = 0; j < Fragment::kTilesN; ++j) {
        const int column = first + j * kWarpsN * kLine;
        const bool exists = (j + 1) * kWarpsN * kLine <= Columns::kSize || column < Columns::kSize;
        uint32_t right[2][4];
        load(right, b, exists ? column : 0, step, count, warp_k, thread % 32);
#pragma unroll
        for (int half = 0; half < count; ++half) {
#pragma unroll
          for (int i = 0; i < Fragment::kTilesM; ++i) {
            Atom::mma(chains.of(half, i, j), right[half], left[half][i / 2][i % 2 * 2], left[half][i / 2][i % 2 * 2 + 1]);
          }
        }
      }
    }
    chains.add_up();
  }

 private:
  static __device__ __forceinline__ uint32_t offset(int column, int k, int warp_k) {
    return Parts::swizzle(Parts::kOffset + warp_k * kApartB + Columns::at(column) + Depth::at(k));
  }

  // The registers of one step of an instruction or of two, of a tile that begins at a column.
  template <class TB>
  static __device__ __forceinline__ void load(uint32_t (&registers)[2][4], TB const* b, int column, int step, int count,
                                              int warp_k, int lane) {
    if constexpr (sizeof(TB) == 1) {
      uint32_t pairs[4];
      if (count == 2) {
        ldmatrix_x4<true>(pairs, b + offset(column, step * kStep + lane, warp_k));
      } else {
        ldmatrix_x2<true>(pairs, b + offset(column, step * kStep + lane % kStep, warp_k));
      }
#pragma unroll
      for (int r = 0; r < 4 * count; ++r) {
        registers[r / 4][r % 4] = atoms::pack_column_of<Atom, ThroughB, TB>(pairs[r / 2], r % 2);
      }
    } else {
      static_assert(cute::is_same<TB, typename Atom::OperandB>::value, "B has bytes, or what the instruction takes");
#pragma unroll
      for (int pair = 0; pair < 2 * count; ++pair) {
        const int k = step * kStep + 8 * pair + 2 * (lane % 4);
        Words<TB, 2> even, odd;  // k, and the next one
        even.load(b + offset(column + 2 * (lane / 4), k, warp_k));
        odd.load(b + offset(column + 2 * (lane / 4), k + 1, warp_k));
        registers[pair / 2][pair % 2 * 2] = (even.words[0] & 0xffffu) | odd.words[0] << 16;
        registers[pair / 2][pair % 2 * 2 + 1] = even.words[0] >> 16 | (odd.words[0] & 0xffff0000u);
      }
    }
  }
};

}  // namespace tb
}  // namespace mugraph
