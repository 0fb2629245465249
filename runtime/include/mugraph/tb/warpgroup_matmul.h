// Products by warp groups: acc += A B, by kGroupsM * kGroupsN groups of four warps.
//
// B, and A unless it is in registers, are tiles in shared memory. ALayout is (M, K), BLayout is (N, K), swizzled over rows of 32, 64 or 128 bytes; either mode of each may be the one
// along the rows, and a tile wider than a row is boxes of whole rows side by side. Buffers start at multiples of eight
// rows. The accumulator is an MmaFragment of `Atom`. kByAll: the groups are all threads that get here. kFresh: acc = A B,
// whatever acc was.
#pragma once

#include "../arch/warpgroup.h"
#include "../layout.h"
#include "matmul_operand.h"
#include "mma_fragment.h"

namespace mugraph {
namespace tb {

// How an instruction reads kLines lines of an operand, 32 bytes along k, of a tile with this layout (lines, k).
template <class T, class OperandLayout, int kLines>
struct WarpgroupOperand {
  using Parts = LayoutParts<OperandLayout>;
  using Linear = typename Parts::Linear;
  static_assert(decltype(cute::rank(Linear{}))::value == 2, "an operand's layout must be (lines, k)");
  using Lines = Mode<decltype(cute::layout<0>(Linear{}))>;
  using Depth = Mode<decltype(cute::layout<1>(Linear{}))>;
  static constexpr bool kTransposed = Lines::kFirstStride == 1;
  static_assert(kTransposed || Depth::kFirstStride == 1, "lines or k must be contiguous");
  static_assert(!kTransposed || sizeof(T) == 2, "elements that have not 16 bits are neighbours along k");
  static constexpr int kRows = kTransposed ? Depth::kSize : Lines::kSize;
  static constexpr int kSpan = kTransposed ? Lines::kFirstExtent : Depth::kFirstExtent;
  static constexpr int kSwizzleBits = kSpan * sizeof(T) == 128 ? 3 : kSpan * sizeof(T) == 64 ? 2 : 1;
  static_assert(kSpan * sizeof(T) == (16 << kSwizzleBits), "rows must have 32, 64 or 128 bytes");
  static_assert(Parts::kPeriod * sizeof(T) == (128 << kSwizzleBits) &&
                    Parts::kGranule * sizeof(T) == 16,
                "the swizzle must be that of the rows: 16-byte units, exclusive or with the row's number");
  static_assert((kTransposed ? Depth::kFirstStride : Lines::kFirstStride) == kSpan, "rows must follow each other");
  static constexpr int kSideBytes = [] {
    const ModeList modes = kTransposed ? Lines::kModes : Depth::kModes;
    return modes.rank > 1 ? modes.stride[1] * static_cast<int>(sizeof(T)) : 16;
  }();
  using Matrix = SharedMatrix<T, kTransposed, kSwizzleBits, 8 * kSpan * static_cast<int>(sizeof(T)), kSideBytes>;

  // The part that begins at first + line, k: multiples of the instruction's extents, of which first may be anything.
  static __device__ __forceinline__ Matrix at(T const* tile, int first, int line, int k) {
    const uint32_t offset = Lines::at(static_cast<uint32_t>(line)) + Depth::at(static_cast<uint32_t>(k));
    return {tile + Lines::at(static_cast<uint32_t>(first)), static_cast<int>(offset)};
  }
};

// Before products are added to a fragment, or written to one that is fresh: the instruction leaves out what it held,
// which emulation on the host does not.
template <bool kFresh, class Fragment>
__device__ __forceinline__ void prepare(typename Fragment::Sum (&acc)[Fragment::kValues]) {
#if !defined(__CUDA_ARCH__)
  if (kFresh) Fragment::clear(acc);
#endif
  pin(acc);
}

template <int kGroupsM, int kGroupsN, class ALayout, class BLayout, class Atom, bool kByAll = false>
struct WarpgroupMatmul {
  using TA = typename Atom::OperandA;
  using TB = typename Atom::OperandB;
  using Sum = typename Atom::Sum;
  using A = WarpgroupOperand<TA, ALayout, Atom::kM>;
  using B = WarpgroupOperand<TB, BLayout, Atom::kN>;
  static_assert(A::Depth::kSize == B::Depth::kSize, "A (M, K) and B (N, K) must have the same K");
  using Fragment = MmaFragment<kGroupsM, kGroupsN, A::Lines::kSize, B::Lines::kSize, Atom>;
  static_assert(A::Lines::kSize % (kGroupsM * Atom::kM) == 0 && B::Lines::kSize % (kGroupsN * Atom::kN) == 0 &&
                    A::Depth::kSize % Atom::kK == 0,
                "the groups' instructions must divide the product");
  static constexpr int kValues = Fragment::kValues;

  // acc += A B, finished when it returns.
  template <bool kFresh = false>
  static __device__ __forceinline__ void mma(Sum (&acc)[kValues], TA const* a, TB const* b, int thread) {
    issue<kFresh>(acc, a, b, thread);
    wait_products<0>();
    pin(acc);
  }

  // Starts acc += A B, as one group: acc, a and b are in use until wait_products() says that it is finished.
  template <bool kFresh = false>
  static __device__ __forceinline__ void issue(Sum (&acc)[kValues], TA const* a, TB const* b, int thread) {
    // Of a single group, which all threads are in, the number is known: no thread asks another one.
    const int group = kByAll && kGroupsM * kGroupsN == 1 ? 0 : uniform(thread / Atom::kThreads);
    if (!kByAll && group >= kGroupsM * kGroupsN) return;
    prepare<kFresh, Fragment>(acc);
    begin_products();
#pragma unroll
    for (int k = 0; k < A::Depth::kSize; k += Atom::kK) {
#pragma unroll
      for (int i = 0; i < Fragment::kTilesM; ++i) {
#pragma unroll
        for (int j = 0; j < Fragment::kTilesN; ++j) {
          Atom::mma(acc + (i * Fragment::kTilesN + j) * Atom::kValues,
                    A::at(a, group % kGroupsM * Atom::kM, i * kGroupsM * Atom::kM, k),
                    B::at(b, group / kGroupsM * Atom::kN, j * kGroupsN * Atom::kN, k), thread % Atom::kThreads,
                    !kFresh || k > 0);
        }
      }
    }
    commit_products();
  }

  // The same with the sums of the first half of the columns in `left`, the others in `right`; two products with one A.
  static __device__ __forceinline__ void mma(Sum (&left)[kValues / 2], Sum (&right)[kValues / 2], TA const* a,
                                             TB const* b, int thread) {
    issue(left, right, a, b, thread);
    wait_products<0>();
    pin(left);
    pin(right);
  }

  static __device__ __forceinline__ void issue(Sum (&left)[kValues / 2], Sum (&right)[kValues / 2], TA const* a,
                                               TB const* b, int thread) {
    static_assert(kGroupsN == 1 && Fragment::kTilesN == 1, "one instruction must have all columns");
    const int group = kByAll && kGroupsM == 1 ? 0 : uniform(thread / Atom::kThreads);
    if (!kByAll && group >= kGroupsM) return;
    pin(left);
    pin(right);
    begin_products();
#pragma unroll
    for (int k = 0; k < A::Depth::kSize; k += Atom::kK) {
#pragma unroll
      for (int i = 0; i < Fragment::kTilesM; ++i) {
        constexpr int kHalf = Atom::kValues / 2;
        Atom::mma(left + i * kHalf, right + i * kHalf, A::at(a, group * Atom::kM, i * kGroupsM * Atom::kM, k),
                  B::at(b, 0, 0, k), thread % Atom::kThreads);
      }
    }
    commit_products();
  }
};

// The same with A in registers, by kGroupsM groups side by side along m.
//
// A is an MmaFragment of Atom::OperandA of the same groups: accumulators are operand A of the instruction, value by value
// (mugraph_dialects/cute/chaining.py proves it for an atom).
template <int kGroupsM, int kM, class BLayout, class Atom, bool kByAll = false>
struct RegisterWarpgroupMatmul {
  using T = typename Atom::OperandA;
  using TB = typename Atom::OperandB;
  using Sum = typename Atom::Sum;
  using B = WarpgroupOperand<TB, BLayout, Atom::kN>;
  static_assert(sizeof(T) == 2, "accumulators are operand A of 16 bits");
  using Fragment = MmaFragment<kGroupsM, 1, kM, B::Lines::kSize, Atom>;
  static constexpr int kSteps = B::Depth::kSize / Atom::kK;
  static constexpr int kWords = 4;  // of A, in a step
  static_assert(B::Lines::kSize % Atom::kN == 0 && B::Depth::kSize % Atom::kK == 0 && kM % (kGroupsM * Atom::kM) == 0,
                "the groups' instructions must divide the product");
  static constexpr int kValues = Fragment::kValues;
  static constexpr int kValuesOfA = Fragment::kTilesM * kSteps * 2 * kWords;

  // acc += A B, finished when it returns.
  template <bool kFresh = false>
  static __device__ __forceinline__ void mma(Sum (&acc)[kValues], T const (&a)[kValuesOfA], TB const* b, int thread) {
    issue<kFresh>(acc, a, b, thread);
    wait_products<0>();
    pin(acc);
  }

  // Starts acc += A B, as one group: acc, a and b are in use until wait_products() says that it is finished.
  template <bool kFresh = false>
  static __device__ __forceinline__ void issue(Sum (&acc)[kValues], T const (&a)[kValuesOfA], TB const* b,
                                               int thread) {
    if (!kByAll && uniform(thread / Atom::kThreads) >= kGroupsM) return;
    uint32_t words[Fragment::kTilesM][kSteps][kWords];
#pragma unroll
    for (int i = 0; i < Fragment::kTilesM; ++i) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int q = 0; q < kWords; ++q) {
          Words<T, 2> pair;
          pair.load(&a[((i * kSteps + step) * kWords + q) * 2]);
          words[i][step][q] = pair.words[0];
        }
      }
    }
    prepare<kFresh, Fragment>(acc);
    pin(words);
    begin_products();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < Fragment::kTilesM; ++i) {
#pragma unroll
        for (int j = 0; j < Fragment::kTilesN; ++j) {
          Atom::mma(acc + (i * Fragment::kTilesN + j) * Atom::kValues, words[i][step],
                    B::at(b, 0, j * Atom::kN, step * Atom::kK), thread % Atom::kThreads, !kFresh || step > 0);
        }
      }
    }
    commit_products();
  }
};

// The same with swapped operands and B, the hardware's left matrix, in registers: what `Through` makes of the elements of
// a tile in shared memory, by kGroups groups side by side along n.
//
// Four warps hold operand A of the instruction as each holds that of WarpAtom, for its 16 of 64 rows. The elements of a
// step are converted while the hardware multiplies those of the steps before.
template <int kGroups, class ALayout, class BLayout, class WarpAtom, class Through, class Atom, bool kByAll = false>
struct ConvertingWarpgroupMatmul {
  using TA = typename Atom::OperandA;
  using Sum = typename Atom::Sum;
  using A = WarpgroupOperand<TA, ALayout, Atom::kM>;
  using B = MatmulOperand<true, 4 * kGroups, BLayout, false, WarpAtom, 1, Through>;
  using Fragment = MmaFragment<1, kGroups, A::Lines::kSize, B::kRows, Atom>;
  static_assert(A::Depth::kSize == B::kK && B::kStep == Atom::kK && B::kTail == 0 && B::kRows % (kGroups * Atom::kN) == 0 &&
                    A::Lines::kSize % Atom::kM == 0,
                "the groups' instructions must divide the product");
  static constexpr int kValues = Fragment::kValues;

  // acc += A B, finished when it returns.
  template <bool kFresh = false, class T>
  static __device__ __forceinline__ void mma(Sum (&acc)[kValues], TA const* a, T const* b, int thread) {
    if (!kByAll && uniform(thread / Atom::kThreads) >= kGroups) return;
    const B elements(thread % 32, thread / 32, 0);
    prepare<kFresh, Fragment>(acc);
    begin_products();
#pragma unroll
    for (int step = 0; step < B::kFullSteps; ++step) {
#pragma unroll
      for (int j = 0; j < Fragment::kTilesN; ++j) {
        uint32_t words[4];
        elements.template load<false>(words, b, j, step);
        begin_next_product(words);
#pragma unroll
        for (int i = 0; i < Fragment::kTilesM; ++i) {
          Atom::mma(acc + (i * Fragment::kTilesN + j) * Atom::kValues, A::at(a, 0, i * Atom::kM, step * Atom::kK),
                    words, thread % Atom::kThreads, !kFresh || step > 0);
        }
      }
    }
    commit_products();
    wait_products<0>();
    pin(acc);
  }
};

}  // namespace tb
}  // namespace mugraph
