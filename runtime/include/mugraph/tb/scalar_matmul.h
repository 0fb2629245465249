// Products of two tiles in shared memory by fused multiply-adds: acc += A B, by kThreadsM * kThreadsN threads of a block.
//
// ALayout is (M, K), BLayout is (N, K), both of any strides. The accumulator is an MmaFragment of Atom, which is
// atoms::UniversalFMA_F32 (plain fp32; every element type is converted to it exactly) or atoms::UniversalFMA_S32.
// Thread t is (t % kThreadsM, t / kThreadsM) and computes the rows and columns that are multiples of kThreadsM and
// kThreadsN from its own, k from low to high. Threads past kThreadsM * kThreadsN do nothing.
#pragma once

#include "mma_fragment.h"

namespace mugraph {
namespace tb {

template <int kThreadsM, int kThreadsN, class ALayout, class BLayout, class Atom>
struct ScalarMatmul {
  using AParts = LayoutParts<ALayout>;
  using BParts = LayoutParts<BLayout>;
  using ARows = Mode<decltype(cute::layout<0>(typename AParts::Linear{}))>;
  using BRows = Mode<decltype(cute::layout<0>(typename BParts::Linear{}))>;
  using ADepth = Mode<decltype(cute::layout<1>(typename AParts::Linear{}))>;
  using BDepth = Mode<decltype(cute::layout<1>(typename BParts::Linear{}))>;
  static_assert(ADepth::kSize == BDepth::kSize, "A (M, K) and B (N, K) must have the same K");
  using Fragment = MmaFragment<kThreadsM, kThreadsN, ARows::kSize, BRows::kSize, Atom>;
  using Sum = typename Atom::Sum;
  static constexpr int kValues = Fragment::kValues;
  static constexpr int kTilesM = Fragment::kTilesM;
  static constexpr int kTilesN = Fragment::kTilesN;
  static constexpr int kUnroll = kValues >= 64 ? 1 : kValues >= 16 ? 2 : 4;

  template <class TA, class TB>
  static __device__ __forceinline__ void mma(Sum (&acc)[kValues], TA const* a, TB const* b, int thread) {
    if (thread >= kThreadsM * kThreadsN) return;
    const int m = thread % kThreadsM;
    const int n = thread / kThreadsM;
    // Where every thread begins at the same place, NVVM moves this pointer on in the register that addresses of other
    // buffers are sums of, and ptxas 13.0 to 13.2 takes these sums again inside of the loop, of the moved pointer.
    if constexpr (kThreadsM == 1) a += recomputed(0);
    if constexpr (kThreadsN == 1) b += recomputed(0);
#pragma unroll kUnroll
    for (int k = 0; k < ADepth::kSize; ++k) {
      Sum b_values[kTilesN];
#pragma unroll Fragment::kUnrollN
      for (int j = 0; j < kTilesN; ++j) {
        b_values[j] = Atom::operand(b[offset<BParts, BRows, BDepth>(n + j * kThreadsN, k)]);
      }
#pragma unroll Fragment::kUnrollM
      for (int i = 0; i < kTilesM; ++i) {
        const Sum a_value = Atom::operand(a[offset<AParts, ARows, ADepth>(m + i * kThreadsM, k)]);
#pragma unroll Fragment::kUnrollN
        for (int j = 0; j < kTilesN; ++j) {
          Sum& sum = acc[i * kTilesN + j];
          sum = Atom::fma(a_value, b_values[j], sum);
        }
      }
    }
  }

 private:
  // Rows past the last one are replaced by it: what they give is never stored.
  template <class Parts, class Rows, class Depth>
  static __host__ __device__ constexpr uint32_t offset(int row, int k) {
    const int existing = row < Rows::kSize ? row : Rows::kSize - 1;
    return Parts::swizzle(Parts::kOffset + Rows::at(existing) + Depth::at(k));
  }
};

}  // namespace tb
}  // namespace mugraph
