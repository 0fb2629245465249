// Products of two tiles in shared memory on the tensor cores: acc += A B, by kWarpsM * kWarpsN * kWarpsK warps of a
// block. Warps along k take the steps of the instruction in turn, and each has sums of its own; or each multiplies a pair
// of matrices of its own, which lie kApartA and kApartB elements apart.
//
// ALayout is (M, K), BLayout is (N, K); either mode of each may be the contiguous one, and no size need be a multiple
// of the instruction `Atom` (see atoms.h and matmul_operand.h). The accumulator is an MmaFragment of Atom::Sum, added up
// over k from low to high in steps of the instruction. Sources are of its operand type, or anything that is converted to
// it where kLdmatrix is false; of B's elements that is what `ThroughB` makes of them. Warps past
// those do nothing. The block has at least that many whole warps.
#pragma once

#include "matmul_operand.h"
#include "mma_fragment.h"

namespace mugraph {
namespace tb {

template <int kWarpsM, int kWarpsN, class ALayout, class BLayout, bool kLdmatrixA, bool kLdmatrixB,
          class Atom = atoms::SM80_16x8x16_F32F16F16F32_TN, int kWarpsK = 1, class ThroughB = ops::Chain<>,
          int kApartA = 0, int kApartB = 0>
struct Matmul {
  using A = MatmulOperand<true, kWarpsM, ALayout, kLdmatrixA, Atom, kWarpsK, ops::Chain<>, kApartA>;
  using B = MatmulOperand<false, kWarpsN, BLayout, kLdmatrixB, Atom, kWarpsK, ThroughB, kApartB>;
  using Sum = typename Atom::Sum;
  static_assert(A::kK == B::kK, "A (M, K) and B (N, K) must have the same K");
  static_assert((kApartA == 0) == (kApartB == 0), "warps along k have matrices of their own of both operands");
  using Fragment = MmaFragment<kWarpsM, kWarpsN, A::kRows, B::kRows, Atom, kWarpsK>;
  static constexpr int kValues = Fragment::kValues;

  // The operands of some k steps ahead are loaded while one step multiplies, as far as kAheadRegisters hold them; a
  // step with many products hides its own loads.
  static constexpr int kStepRegisters = 4 * (A::kTiles + ceil_div(B::kTiles, 2));
  static constexpr int kAheadRegisters = kValues >= 128 ? 32 : 64;
  static constexpr int kBuffers =
      4 * kStepRegisters <= kAheadRegisters ? 4 : (2 * kStepRegisters <= kAheadRegisters ? 2 : 1);
  // Unrolling is bounded so that a long K neither compiles slowly nor overflows the instruction cache. Next to a large
  // accumulator there is none: the compiler would load the operands of all unrolled steps first, and spill.
  static constexpr int kMmaPerStep = A::kTiles * B::kTiles;
  static constexpr int kUnrolledSteps = kMmaPerStep >= 64 ? 2 : (kMmaPerStep >= 16 ? 4 : 8);
  static constexpr int kUnroll = kValues >= 96 ? 1 : ceil_div(kUnrolledSteps, kBuffers);

  static __device__ __forceinline__ void clear(Sum (&acc)[kValues]) { Fragment::clear(acc); }

  template <class TA, class TB>
  static __device__ __forceinline__ void mma(Sum (&acc)[kValues], TA const* a, TB const* b, int thread) {
    const int warp = thread / 32;
    if (warp >= kWarpsM * kWarpsN * kWarpsK) return;
    const int warp_k = kWarpsK == 1 ? 0 : warp / (kWarpsM * kWarpsN);
    const A a_operand(thread % 32, warp % kWarpsM, warp_k);
    const B b_operand(thread % 32, kWarpsK == 1 ? warp / kWarpsM : warp / kWarpsM % kWarpsN, warp_k);
    Operands buffers[kBuffers];
#pragma unroll
    for (int step = 0; step + 1 < kBuffers && step < A::kSteps; ++step) {
      if (has_step(step, warp_k)) buffers[step].template load<false>(a_operand, b_operand, a, b, step);
    }
#pragma unroll kUnroll
    for (int first = 0; first < A::kSteps; first += kBuffers) {
#pragma unroll
      for (int i = 0; i < kBuffers; ++i) {
        const int ahead = first + i + kBuffers - 1;
        if (ahead < A::kSteps && has_step(ahead, warp_k)) {
          buffers[(i + kBuffers - 1) % kBuffers].template load<false>(a_operand, b_operand, a, b, ahead);
        }
        if (first + i < A::kSteps && has_step(first + i, warp_k)) buffers[i].multiply(acc);
      }
    }
    if constexpr (A::kTail != 0) {
      if (A::kTurns == 1 || warp_k == A::kFullSteps % A::kTurns) {
        buffers[0].template load<true>(a_operand, b_operand, a, b, A::kFullSteps / A::kTurns);
        buffers[0].multiply(acc);
      }
    }
  }

 private:
  // Whether a warp has a whole step of this number; those along k that come last may have one fewer.
  static __device__ __forceinline__ constexpr bool has_step(int step, int warp_k) {
    return (step + 1) * A::kTurns <= A::kFullSteps || step * A::kTurns + warp_k < A::kFullSteps;
  }

  // The registers of both operands for one k step.
  struct Operands {
    uint32_t a_tiles[A::kTiles][4];
    uint32_t b_tile_pairs[ceil_div(B::kTiles, 2)][4];

    template <bool kIsTail, class TA, class TB>
    __device__ __forceinline__ void load(A const& a_operand, B const& b_operand, TA const* a, TB const* b, int step) {
#pragma unroll
      for (int i = 0; i < A::kTiles; ++i) a_operand.template load<kIsTail>(a_tiles[i], a, i, step);
#pragma unroll
      for (int j = 0; j < B::kTiles; j += 2) b_operand.template load<kIsTail>(b_tile_pairs[j / 2], b, j, step);
    }

    __device__ __forceinline__ void multiply(Sum (&acc)[kValues]) const {
#pragma unroll
      for (int j = 0; j < B::kTiles; ++j) {
        uint32_t const* b_tile = &b_tile_pairs[j / 2][j % 2 * 2];
#pragma unroll
        for (int i = 0; i < A::kTiles; ++i) {
          Atom::mma(&acc[(i * B::kTiles + j) * 4], a_tiles[i], b_tile[0], b_tile[1]);
        }
      }
    }
  };
};

}  // namespace tb
}  // namespace mugraph
