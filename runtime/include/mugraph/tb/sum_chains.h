// Sums of a warp's products by f8 that becomes f16, in two chains where it has few tiles and eight steps along k or more: an
// instruction waits for the one before it that adds to the same sums, and steps along k take the chains in turn. Where a
// conversion takes several instructions, these are executed meanwhile.
#pragma once

#include "../atoms.h"

namespace mugraph {
namespace tb {

template <class Fragment, class Atom, class T, int kSteps>
class SumChains {
  using Sum = typename Atom::Sum;
  static constexpr int kValues = Fragment::kValues;
  static constexpr bool kIsFast = is_fp8<T> && cute::is_same<typename Atom::OperandB, half_t>::value;
  static constexpr bool kHasTwo = kIsFast && Fragment::kTilesM * Fragment::kTilesN <= 2 && kSteps >= 8;
  Sum (&first_)[kValues];
  Sum second_[kHasTwo ? kValues : 1];

 public:
  __device__ __forceinline__ explicit SumChains(Sum (&sums)[kValues]) : first_(sums) {
#pragma unroll
    for (Sum& sum : second_) sum = Sum(0);
  }

  // The sums that a step along k adds to, of tile (i, j).
  __device__ __forceinline__ Sum* of(int step, int i, int j) {
    const int start = (i * Fragment::kTilesN + j) * Atom::kValues;
    return kHasTwo && step % 2 == 1 ? &second_[start] : &first_[start];
  }

  // All sums are in the first chain then.
  __device__ __forceinline__ void add_up() {
    if constexpr (kHasTwo) {
#pragma unroll
      for (int v = 0; v < kValues; ++v) first_[v] += second_[v];
    }
  }
};

}  // namespace tb
}  // namespace mugraph
