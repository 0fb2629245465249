// Products of few rows by warps: acc += A B, computed as the transposed product, by kWarpsM * kWarpsN * kWarpsK warps of
// a block.
//
// ALayout is (M, K), BLayout is (N, K), in shared memory, with neighbours along k side by side. The columns of B are the
// 16 rows of an instruction, and up to 8 rows of A its columns, so that few rows fill it. In which order an instruction
// takes k makes no difference as long as it is the same for both matrices: lane l reads runs of kRun neighbours, those at
// (l % 4) * kRun, by vectors of 16 bytes, and step s takes numbers 4 s to 4 s + 3 of each run. Elements of B are what
// `ThroughB` makes of them. Rows and columns past the last one are replaced by it; what they give is never stored. Each of
// the warps along k multiplies a pair of matrices of its own, which lie kApartA and kApartB elements apart.
#pragma once

#include "../atoms.h"
#include "../vector_access.h"
#include "mma_fragment.h"
#include "sum_chains.h"

namespace mugraph {
namespace tb {

// The runs that a lane reads of a matrix whose rows are dealt to kWarps warps in tiles of kTileRows.
template <class T, class Layout, int kWarps, int kTileRows, int kApart>
struct OperandRuns {
  static constexpr int kRun = 16;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  using Parts = LayoutParts<Layout>;
  using Rows = Mode<decltype(cute::layout<0>(typename Parts::Linear{}))>;
  using Depth = Mode<decltype(cute::layout<1>(typename Parts::Linear{}))>;
  static constexpr int kRows = Rows::kSize;
  static constexpr int kK = Depth::kSize;
  static constexpr int kRounds = kK / (4 * kRun);
  static_assert(kK % (4 * kRun) == 0, "lanes read whole runs along k");
  static_assert(Rows::kRank <= 1 && Depth::kRank == 1 && Depth::kFirstStride == 1, "neighbours along k lie side by side");
  static_assert(Rows::kModes.strides_divisible_by(kVector, 0) && Parts::kOffset % kVector == 0 &&
                    Parts::kGranule % kVector == 0 && kApart % kVector == 0,
                "rows, and matrices, begin at multiples of 16 bytes");

  int row;
  uint32_t matrix;  // where the warp's matrix begins
  uint32_t start;   // of what the lane reads first

  __device__ __forceinline__ OperandRuns(int lane, int warp, int warp_k)
      : row(warp * kTileRows + lane / 4),
        matrix(Parts::kOffset + warp_k * kApart + lane % 4 * kRun),
        start(matrix + Rows::at(row)) {}

  // The run of `round` in the row that is `down` rows below the lane's first one.
  __device__ __forceinline__ void load(Words<T, kRun>& run, T const* source, int down, int round) const {
    const bool exists = down + kTileRows * kWarps <= kRows;
#pragma unroll
    for (int v = 0; v < kRun / kVector; ++v) {
      const uint32_t along = round * 4 * kRun + v * kVector;
      SplitOffset offset = swizzled<Parts>(start, Rows::at(down) + along);
      if (!exists) {
        const int existing = row + down < kRows ? row + down : kRows - 1;
        offset = {Parts::swizzle(matrix + Rows::at(existing) + along), 0};
      }
      Words<T, kVector> part;
      part.load(source + offset);
#pragma unroll
      for (int w = 0; w < 4; ++w) run.words[4 * v + w] = part.words[w];
    }
  }
};

template <int kWarpsM, int kWarpsN, class ALayout, class BLayout, class Atom, int kWarpsK = 1,
          class ThroughB = ops::Chain<>, int kApartA = 0, int kApartB = 0>
struct SwappedMatmul {
  using ModeOfA = Mode<decltype(cute::layout<0>(typename LayoutParts<ALayout>::Linear{}))>;
  using ModeOfB = Mode<decltype(cute::layout<0>(typename LayoutParts<BLayout>::Linear{}))>;
  using ModeOfK = Mode<decltype(cute::layout<1>(typename LayoutParts<BLayout>::Linear{}))>;
  static_assert(kWarpsK == 1 || kApartB != 0, "warps along k have matrices of their own");
  using Sum = typename Atom::Sum;
  using Fragment = MmaFragment<kWarpsM, kWarpsN, ModeOfA::kSize, ModeOfB::kSize, Atom, kWarpsK>;
  static constexpr int kValues = Fragment::kValues;

  template <class TA, class TB>
  static __device__ __forceinline__ void mma(Sum (&acc)[kValues], TA const* a, TB const* b, int thread) {
    using A = OperandRuns<TA, ALayout, kWarpsM, Atom::kM, kApartA>;
    using B = OperandRuns<TB, BLayout, kWarpsN, Atom::kN, kApartB>;
    static_assert(A::kK == B::kK, "A (M, K) and B (N, K) must have the same K");
    static_assert(cute::is_same<TA, typename Atom::OperandA>::value && Atom::kPacked == 2, "A is multiplied as it is stored");
    const int warp = thread / 32;
    if (warp >= kWarpsM * kWarpsN * kWarpsK) return;
    const int warp_k = kWarpsK == 1 ? 0 : warp / (kWarpsM * kWarpsN);
    const A rows(thread % 32, warp % kWarpsM, warp_k);
    const B columns(thread % 32, warp / kWarpsM % kWarpsN, warp_k);
    SumChains<Fragment, Atom, TB, ModeOfK::kSize / 16> chains(acc);
#pragma unroll
    for (int round = 0; round < A::kRounds; ++round) {
      Words<TA, A::kRun> left[Fragment::kTilesM];
#pragma unroll
      for (int i = 0; i < Fragment::kTilesM; ++i) rows.load(left[i], a, i * kWarpsM * Atom::kM, round);
#pragma unroll
      for (int j = 0; j < Fragment::kTilesN; ++j) {
        Words<TB, B::kRun> right[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) columns.load(right[half], b, j * kWarpsN * Atom::kN + 8 * half, round);
#pragma unroll
        for (int step = 0; step < B::kRun / 4; ++step) {
          uint32_t registers[4];
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            registers[q] = atoms::pack_pair_of<Atom, ThroughB>(right[q % 2], 2 * step + q / 2);
          }
#pragma unroll
          for (int i = 0; i < Fragment::kTilesM; ++i) {
            Atom::mma(chains.of(step, i, j), registers, left[i].words[2 * step], left[i].words[2 * step + 1]);
          }
        }
      }
    }
    chains.add_up();
  }
};

}  // namespace tb
}  // namespace mugraph
