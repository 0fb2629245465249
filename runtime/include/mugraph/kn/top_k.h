// The largest elements along one dimension of a whole tensor and their places, as one kernel, the largest first.
//
// Runs are as in scan.h. Of equal elements the first ones count, and a NaN is larger than all numbers: elements stand
// in the order of place_key, of which no two are equal. A block has one run. It finds the key of the last element that
// counts eight bits at a time, from the highest on, by counting the keys that agree in the bits before; it then collects
// the elements whose keys are at least that in shared memory and sorts them there.
#pragma once

#include "arg_max.h"
#include "scan.h"

namespace mugraph {
namespace kn {

// Elements of a run that one block sorts.
inline constexpr int kMostSorted = 4096;

using PlaceKey = unsigned long long;

// How many keys of a block have each value of eight of their bits, and which value the key that is looked for has.
struct KeyDigit {
  static constexpr int kBits = 8;
  static constexpr int kValues = 1 << kBits;
  int counts[kValues];
  int value;
  // Keys of this value that are still to be taken, and whether they are all of them.
  int missing;
  bool is_whole;

  __device__ __forceinline__ static int of(PlaceKey key, int shift) {
    return static_cast<int>(key >> shift) & (kValues - 1);
  }

  template <int kThreads>
  __device__ __forceinline__ void clear() {
    for (int i = static_cast<int>(threadIdx.x); i < kValues; i += kThreads) counts[i] = 0;
  }

  // The value of the key before which `before` larger ones stand. The threads of one warp call.
  __device__ __forceinline__ void find(int before) {
    constexpr int kEach = kValues / 32;
    const int lane = static_cast<int>(threadIdx.x);
    const int first = kValues - 1 - lane * kEach;
    int own = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) own += counts[first - i];
    int larger = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int others = __shfl_up_sync(0xffffffffu, larger, distance);
      if (lane >= distance) larger += others;
    }
    larger -= own;
    if (before < larger || before >= larger + own) return;
    int digit = first;
    for (; before >= larger + counts[digit]; --digit) larger += counts[digit];
    value = digit;
    missing = before - larger + 1;
    is_whole = missing == counts[digit];
  }
};

// Sorts kCount keys in shared memory, the largest first. All threads of the block call.
template <int kThreads, int kCount>
__device__ __forceinline__ void sort_keys(PlaceKey (&keys)[kCount]) {
  static_assert((kCount & (kCount - 1)) == 0, "bitonic sorting takes a power of two");
  for (int size = 2; size <= kCount; size *= 2) {
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int pair = static_cast<int>(threadIdx.x); pair < kCount / 2; pair += kThreads) {
        const int first = pair / distance * distance * 2 + pair % distance;
        const PlaceKey one = keys[first];
        const PlaceKey other = keys[first + distance];
        if ((one < other) == ((first & size) == 0)) {
          keys[first] = other;
          keys[first + distance] = one;
        }
      }
    }
  }
  __syncthreads();
}

template <int kThreads, long long kCount, int kTop, class Values, class Places, class Source, class T, class P>
__global__ void __launch_bounds__(kThreads) top_k_kernel(T* values, P* places, T const* src) {
  tb::grid_launch();
  tb::grid_wait();
  constexpr int kSorted = power_of_two_from(kTop, kMostSorted);
  MUGRAPH_STATIC_SHARED PlaceKey keys[kSorted];
  MUGRAPH_STATIC_SHARED KeyDigit digit;
  MUGRAPH_STATIC_SHARED int taken;
  const int thread = static_cast<int>(threadIdx.x);
  const int run = static_cast<int>(blockIdx.x);
  T const* const source = src + VectorOffsets<1, 1, typename Source::Starts>(run)(0);
  const auto key_at = [&](long long place) {
    return place_key(to_float(*(source + place * Source::kStep)), static_cast<uint32_t>(place));
  };
  PlaceKey least = 0;
  if constexpr (kTop < kCount) {
    int before = kTop - 1;
    for (int shift = 64 - KeyDigit::kBits; shift >= 0; shift -= KeyDigit::kBits) {
      digit.template clear<kThreads>();
      __syncthreads();
      // Bits that are known already; a shift by all bits would be none.
      const PlaceKey known = least >> shift >> KeyDigit::kBits;
      for (long long place = thread; place < kCount; place += kThreads) {
        const PlaceKey key = key_at(place);
        if (key >> shift >> KeyDigit::kBits == known) atomicAdd(&digit.counts[KeyDigit::of(key, shift)], 1);
      }
      __syncthreads();
      if (thread < 32) digit.find(before);
      __syncthreads();
      least |= static_cast<PlaceKey>(digit.value) << shift;
      before = digit.missing - 1;
      if (digit.is_whole) break;
    }
  }
  if (thread == 0) taken = 0;
  for (int i = kTop + thread; i < kSorted; i += kThreads) keys[i] = 0;
  __syncthreads();
  for (long long place = thread; place < kCount; place += kThreads) {
    const PlaceKey key = key_at(place);
    if (key >= least) keys[atomicAdd(&taken, 1)] = key;
  }
  sort_keys<kThreads>(keys);
  T* const value = values + VectorOffsets<1, 1, typename Values::Starts>(run)(0);
  P* const found = places + VectorOffsets<1, 1, typename Places::Starts>(run)(0);
  for (long long i = thread; i < kTop; i += kThreads) {
    const uint32_t place = 0xffffffffu - static_cast<uint32_t>(keys[i]);
    *(value + i * Values::kStep) = *(source + place * Source::kStep);
    *(found + i * Places::kStep) = static_cast<P>(place);
  }
}

template <long long kCount, int kTop, class Values, class Places, class Source>
struct TopK {
  static constexpr long long kRuns = size_of<typename Source::Starts>;
  static_assert(size_of<typename Values::Starts> == kRuns && size_of<typename Places::Starts> == kRuns,
                "all tensors must have as many runs");
  static_assert(kCount < (1LL << 31), "the elements of a run are counted in 32 bits");
  static_assert(kTop >= 1 && kTop <= kCount && kTop <= kMostSorted, "a block sorts at most kMostSorted elements");

  // values(i, j) and places(i, j) are those of the j-th largest src(i, ...) for j < kTop, on `queue`. Throws
  // std::runtime_error where the launch fails.
  template <class T, class P>
  static void run(Queue queue, T* values, P* places, T const* src) {
    // Four elements a thread, and no more threads than a large vocabulary keeps busy.
    constexpr int kThreads = power_of_two_from(ceil_div(kCount, 4LL), 512);
    constexpr int kLaunched = kThreads < 32 ? 32 : kThreads;
    launch("kn::TopK", top_k_kernel<kLaunched, kCount, kTop, Values, Places, Source, T, P>,
           dim3(static_cast<unsigned>(kRuns)), dim3(kLaunched), 0, queue, values, places, src);
  }
};

}  // namespace kn
}  // namespace mugraph
