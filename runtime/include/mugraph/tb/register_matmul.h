// Products whose left matrix is in registers: acc += A B, by kWarpsM warps of a block, side by side along m.
//
// A is an MmaFragment of Atom::OperandA with kK columns: accumulators side by side are operand A of the instruction,
// value by value (mugraph_dialects/cute/chaining.py proves it for an atom). BLayout is (N, K) as in matmul.h.
#pragma once

#include "matmul_operand.h"
#include "mma_fragment.h"

namespace mugraph {
namespace tb {

template <int kWarpsM, int kM, int kK, class Atom>
struct RegisterOperand {
  static constexpr int kStep = 8 * Atom::kPacked;
  static_assert(Atom::kPacked == 2 && kK % kStep == 0, "operands in registers are of 16 bits and whole instructions");
  using Fragment = MmaFragment<kWarpsM, 1, kM, kK, Atom>;
  using T = typename Atom::OperandA;
  static constexpr int kValues = Fragment::kValues;
  static constexpr int kSteps = kK / kStep;

  // The first of the eight values of a thread in m tile i and the k step.
  static __host__ __device__ constexpr int first_of(int i, int step) { return (i * kSteps + step) * 8; }

  static __device__ __forceinline__ void get(uint32_t (&registers)[4], T const (&a)[kValues], int i, int step) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      Words<T, 2> pair;
      pair.load(&a[first_of(i, step) + 2 * q]);
      registers[q] = pair.words[0];
    }
  }

  // Loads A, of layout (M, K) in shared memory.
  template <class ALayout, bool kLdmatrix>
  static __device__ __forceinline__ void load(T (&a)[kValues], T const* source, int thread) {
    using Loader = MatmulOperand<true, kWarpsM, ALayout, kLdmatrix, Atom>;
    static_assert(Loader::kRows == kM && Loader::kK == kK, "the layout must have the fragment's extents");
    const int warp = thread / 32;
    if (warp >= kWarpsM) return;
    const Loader loader(thread % 32, warp, 0);
#pragma unroll
    for (int i = 0; i < Fragment::kTilesM; ++i) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint32_t registers[4];
        loader.template load<false>(registers, source, i, step);
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          Words<T, 2> pair;
          pair.words[0] = registers[q];
          pair.store(&a[first_of(i, step) + 2 * q]);
        }
      }
    }
  }
};

template <int kWarpsM, int kM, class BLayout, bool kLdmatrixB, class Atom, class ThroughB = ops::Chain<>>
struct RegisterMatmul {
  using B = MatmulOperand<false, 1, BLayout, kLdmatrixB, Atom, 1, ThroughB>;
  using A = RegisterOperand<kWarpsM, kM, B::kK, Atom>;
  using Sum = typename Atom::Sum;
  using Fragment = MmaFragment<kWarpsM, 1, kM, B::kRows, Atom>;

  template <class TB>
  static __device__ __forceinline__ void mma(Sum (&acc)[Fragment::kValues], typename A::T const (&a)[A::kValues],
                                             TB const* b, int thread) {
    const int warp = thread / 32;
    if (warp >= kWarpsM) return;
    const B b_operand(thread % 32, 0, 0);
    // Everything is unrolled: which register holds what of A must be known.
#pragma unroll
    for (int step = 0; step < A::kSteps; ++step) {
#pragma unroll
      for (int j = 0; j < B::kTiles; j += 2) {
        uint32_t pair[4];
        b_operand.template load<false>(pair, b, j, step);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (j + half >= B::kTiles) continue;
#pragma unroll
          for (int i = 0; i < Fragment::kTilesM; ++i) {
            uint32_t left[4];
            A::get(left, a, i, step);
            Atom::mma(&acc[(i * B::kTiles + j + half) * Atom::kValues], left, pair[2 * half], pair[2 * half + 1]);
          }
        }
      }
    }
  }
};

}  // namespace tb
}  // namespace mugraph
