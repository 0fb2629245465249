// Sums and maxima over groups of neighbouring threads, and what kernels that reduce share.
#pragma once

#include "../ops.h"
#include "../vector_access.h"

// Static shared memory of a kernel; the CPU emulator of the self-tests has a spelling of its own.
#if !defined(MUGRAPH_STATIC_SHARED)
#define MUGRAPH_STATIC_SHARED __shared__
#endif

namespace mugraph {
namespace kn {

// Threads of a block that sums, unless one group of lanes needs more.
inline constexpr int kSumThreads = 256;

// As many threads as keep a large GPU busy: more lanes share a sum where there are fewer sums.
inline constexpr long long kBusyThreads = 1 << 17;

__host__ __device__ constexpr int power_of_two_from(long long least, int most) {
  int power = 1;
  while (power < least && power < most) power *= 2;
  return power;
}

// What Combine makes of the values of kLanes neighbouring threads, for each of them. kLanes is a power of two that divides the threads of the
// block, all of which must call. Lanes combine pairwise over the distances 16, ..., 2, 1 and warps from the first to the
// last, so the result is the same bits each time. A block that calls twice needs a barrier in between.
template <class Combine, int kThreads, int kLanes>
__device__ __forceinline__ float combine_lanes(float value) {
  static_assert(kLanes >= 1 && (kLanes & (kLanes - 1)) == 0 && kThreads % kLanes == 0 && kThreads % 32 == 0,
                "a group of lanes must be a power of two that divides the block");
#pragma unroll
  for (int distance = (kLanes < 32 ? kLanes : 32) / 2; distance > 0; distance /= 2) {
    value = Combine::apply(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  if constexpr (kLanes > 32) {
    MUGRAPH_STATIC_SHARED float of_warp[kThreads / 32];
    const int thread = static_cast<int>(threadIdx.x);
    if (thread % 32 == 0) of_warp[thread / 32] = value;
    __syncthreads();
    const int first = thread / kLanes * (kLanes / 32);
    value = of_warp[first];
#pragma unroll
    for (int warp = 1; warp < kLanes / 32; ++warp) value = Combine::apply(value, of_warp[first + warp]);
  }
  return value;
}

// A vector of kVector elements as floats: by the widest accesses, or one element at a time where the pointer is not
// aligned for them. The values are the same.
template <bool kWide, class Layout, int kVector, class T, class Offsets>
__device__ __forceinline__ void load_elements(T const* source, Offsets const& offsets, int round,
                                              float (&values)[kVector]) {
  if constexpr (kWide) {
    load_vector<Layout, kVector>(source, offsets, round, values);
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = to_float(*(source + offsets(round, i)));
  }
}

template <bool kWide, class Layout, int kVector, class T, class Offsets>
__device__ __forceinline__ void store_elements(T* target, Offsets const& offsets, int round,
                                               float const (&values)[kVector]) {
  if constexpr (kWide) {
    store_vector<Layout, kVector>(target, offsets, round, values);
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) *(target + offsets(round, i)) = from_float<T>(values[i]);
  }
}

// Whether a pointer is aligned for vectors of kVector elements, where a layout has such vectors.
template <class Layout, int kVector, class T>
bool is_aligned_for(T const* pointer) {
  constexpr std::size_t kBytes = kVector * sizeof(T) < 16 ? kVector * sizeof(T) : 16;
  return access_of<Layout, kVector>() != Access::kContiguous ||
         reinterpret_cast<std::uintptr_t>(pointer) % kBytes == 0;
}

}  // namespace kn
}  // namespace mugraph
