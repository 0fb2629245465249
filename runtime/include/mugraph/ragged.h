// Ragged tiles: those whose partition does not divide, so that some of their elements do not exist.
//
// A tile has its full extents in shared memory. Along each ragged dimension only the first `existing` elements are
// real; how many depends on the block and, in the loop, on the iteration.
#pragma once

#include "layout.h"

namespace mugraph {

// Along one mode of an iteration domain: kBefore elements lie in the modes before it, kExtent in the mode itself.
template <int kBefore, int kExtent>
struct Along {
  // Whether of some vectors a part exists: kVector does not divide what exists along mode 0.
  template <int kVector>
  static __host__ __device__ constexpr bool ends_in_part(int existing) {
    return kBefore == 1 && existing % kVector != 0;
  }

  // How many of kVector neighbours from linear index `index` on exist, the first ones; vectors lie along mode 0.
  template <int kVector>
  static __host__ __device__ constexpr int count(uint32_t index, int existing) {
    const int left = existing - static_cast<int>(index / kBefore % kExtent);
    if (left <= 0) return 0;
    return kBefore == 1 && left < kVector ? left : kVector;
  }
};

// Whether of some vectors a part exists, along any of several dimensions. Known where kernels are compiled, mostly, so
// that nothing is left of what parts of vectors take.
template <int kVector, class... Dims, class... Counts>
__host__ __device__ constexpr bool ends_in_part(Counts... existing) {
  return (Dims::template ends_in_part<kVector>(existing) || ...);
}

// The elements that exist along several dimensions.
template <class... Dims>
class Within {
  int existing_[sizeof...(Dims)];

 public:
  template <class... Counts>
  __host__ __device__ constexpr explicit Within(Counts... existing) : existing_{existing...} {
    static_assert(sizeof...(Counts) == sizeof...(Dims), "one count for each ragged dimension");
  }

  template <int kVector>
  __host__ __device__ constexpr int count(uint32_t index) const {
    int result = kVector;
    int dim = 0;
    ((result = cute::min(result, Dims::template count<kVector>(index, existing_[dim++]))), ...);
    return result;
  }
};

namespace tb {

// How many elements of a tile exist: block `block` owns kStep of `extent` elements from block * kStep on, iteration
// `iteration` those from iteration * kTile on, at most kTile.
template <int64_t kStep, int kTile>
__host__ __device__ constexpr int existing_of(uint32_t block, int iteration, int64_t extent) {
  int64_t owned = extent - static_cast<int64_t>(block) * kStep;
  if (owned > kStep) owned = kStep;
  const int64_t left = owned - static_cast<int64_t>(iteration) * kTile;
  return left <= 0 ? 0 : left < kTile ? static_cast<int>(left) : kTile;
}

template <int64_t kExtent, int64_t kStep, int kTile>
__host__ __device__ constexpr int existing(uint32_t block, int iteration) {
  return existing_of<kStep, kTile>(block, iteration, kExtent);
}

}  // namespace tb
}  // namespace mugraph
