// Products of two tiles in shared memory on the tensor cores: acc += A B, by kWarpsM * kWarpsN warps of a block.
//
// ALayout is (M, K), BLayout is (N, K); either mode of each may be the contiguous one, and no size need be a multiple
// of the 16x8x16 instruction (see matmul_operand.h). The accumulator is an MmaFragment: fp32, added up over k from low
// to high in steps of 16. Sources are half_t, or anything that converts to float where kLdmatrix is false. Warps past
// kWarpsM * kWarpsN do nothing. The block has at least that many whole warps.
#pragma once

#include "matmul_operand.h"
#include "mma_fragment.h"

namespace mugraph {
namespace tb {

template <int kWarpsM, int kWarpsN, class ALayout, class BLayout, bool kLdmatrixA, bool kLdmatrixB>
struct Matmul {
  using A = MatmulOperand<true, kWarpsM, ALayout, kLdmatrixA>;
  using B = MatmulOperand<false, kWarpsN, BLayout, kLdmatrixB>;
  static_assert(A::kK == B::kK, "A (M, K) and B (N, K) must have the same K");
  using Fragment = MmaFragment<kWarpsM, kWarpsN, A::kRows, B::kRows>;
  static constexpr int kValues = Fragment::kValues;
  // Unrolling is bounded so that a long K neither compiles slowly nor overflows the instruction cache.
  static constexpr int kMmaPerStep = A::kTiles * B::kTiles;
  static constexpr int kUnroll = kMmaPerStep >= 64 ? 1 : (kMmaPerStep >= 16 ? 4 : 8);

  static __device__ __forceinline__ void clear(float (&acc)[kValues]) { Fragment::clear(acc); }

  template <class TA, class TB>
  static __device__ __forceinline__ void mma(float (&acc)[kValues], TA const* a, TB const* b, int thread) {
    const int warp = thread / 32;
    if (warp >= kWarpsM * kWarpsN) return;
    const A a_operand(thread % 32, warp % kWarpsM);
    const B b_operand(thread % 32, warp / kWarpsM);
#pragma unroll kUnroll
    for (int step = 0; step < A::kSteps; ++step) multiply<false>(acc, a_operand, b_operand, a, b, step);
    if constexpr (A::kTail != 0) multiply<true>(acc, a_operand, b_operand, a, b, A::kSteps);
  }

 private:
  template <bool kIsTail, class TA, class TB>
  static __device__ __forceinline__ void multiply(float (&acc)[kValues], A const& a_operand, B const& b_operand,
                                                  TA const* a, TB const* b, int step) {
    uint32_t a_registers[A::kTiles][4];
#pragma unroll
    for (int i = 0; i < A::kTiles; ++i) a_operand.template load<kIsTail>(a_registers[i], a, i, step);
#pragma unroll
    for (int j = 0; j < B::kTiles; j += 2) {
      uint32_t b_registers[4];
      b_operand.template load<kIsTail>(b_registers, b, j, step);
#pragma unroll
      for (int i = 0; i < A::kTiles; ++i) {
        mma_16x8x16(&acc[(i * B::kTiles + j) * 4], a_registers[i], b_registers[0], b_registers[1]);
      }
      if (j + 1 < B::kTiles) {
#pragma unroll
        for (int i = 0; i < A::kTiles; ++i) {
          mma_16x8x16(&acc[(i * B::kTiles + j + 1) * 4], a_registers[i], b_registers[2], b_registers[3]);
        }
      }
    }
  }
};

}  // namespace tb
}  // namespace mugraph
