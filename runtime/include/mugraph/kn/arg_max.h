// Places of the largest elements in runs of neighbours along one dimension of a whole tensor, as one kernel.
//
// Layouts, kCount and kStep are as in kn::Reduce. Of equal elements the first one counts, and a NaN is larger than all
// numbers.
#pragma once

#include "../arch/grid_dependency.h"
#include "../launch.h"
#include "group_sum.h"

namespace mugraph {
namespace kn {

// A number that is larger for a larger element, and of equal ones for the first: its order, then its place from the end.
__device__ __forceinline__ unsigned long long place_key(float value, uint32_t place) {
  const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 is +0
  const uint32_t order = value != value ? 0xffffffffu : bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(order) << 32 | (0xffffffffu - place);
}

template <int kLanes, long long kCount, long long kStep, class DstLayout, class SrcLayout, class D, class S>
__global__ void __launch_bounds__(kSumThreads) arg_max_kernel(D* dst, S const* src) {
  tb::grid_launch();
  tb::grid_wait();
  // Neighbouring threads read neighbours: elements of a run, or of the runs beside it.
  constexpr bool kIsAlong = kStep == 1;
  constexpr int kGroups = kSumThreads / kLanes;
  constexpr int kApart = kIsAlong ? 1 : kGroups;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = kIsAlong ? thread % kLanes : thread / kGroups;
  const int group = kIsAlong ? thread / kLanes : thread % kGroups;
  const long long output = static_cast<long long>(blockIdx.x) * kGroups + group;
  const bool is_active = output < size_of<DstLayout>;
  unsigned long long best = 0;
  if (is_active) {
    S const* const first = src + VectorOffsets<1, 1, SrcLayout>(static_cast<int>(output))(0);
#pragma unroll 4
    for (long long place = lane; place < kCount; place += kLanes) {
      const unsigned long long key = place_key(to_float(*(first + place * kStep)), static_cast<uint32_t>(place));
      best = key > best ? key : best;
    }
  }
  MUGRAPH_STATIC_SHARED unsigned long long parts[kSumThreads];
  parts[thread] = best;
  __syncthreads();
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2) {
    if (lane < half) {
      const unsigned long long other = parts[thread + half * kApart];
      if (other > parts[thread]) parts[thread] = other;
    }
    __syncthreads();
  }
  if (is_active && lane == 0) {
    const uint32_t place = 0xffffffffu - static_cast<uint32_t>(parts[thread]);
    *(dst + VectorOffsets<1, 1, DstLayout>(static_cast<int>(output))(0)) = static_cast<D>(place);
  }
}

template <long long kCount, long long kStep, class DstLayout, class SrcLayout>
struct ArgMax {
  static_assert(size_of<SrcLayout> == size_of<DstLayout>, "the source must say where each output's elements start");
  static_assert(kCount >= 1 && kCount < (1LL << 31), "places are counted in 32 bits");

  // dst(i) = the k < kCount for which src(i) + k * kStep is largest, on `queue`. Throws std::runtime_error where the
  // launch fails.
  template <class D, class S>
  static void run(Queue queue, D* dst, S const* src) {
    constexpr long long kOutputs = size_of<DstLayout>;
    constexpr int kWarp = power_of_two_from(kCount, 32);
    constexpr int kLanes = kOutputs * kWarp >= kBusyThreads ? kWarp : power_of_two_from(kCount, kSumThreads);
    constexpr long long kBlocks = ceil_div(kOutputs, static_cast<long long>(kSumThreads / kLanes));
    launch("kn::ArgMax", arg_max_kernel<kLanes, kCount, kStep, DstLayout, SrcLayout, D, S>,
           dim3(static_cast<unsigned>(kBlocks)), dim3(kSumThreads), 0, queue, dst, src);
  }
};

}  // namespace kn
}  // namespace mugraph
