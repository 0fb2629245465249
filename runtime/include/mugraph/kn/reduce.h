// Sums, or maxima, of runs of neighbours along one dimension of a whole tensor, as one kernel: one read, one write.
//
// DstLayout and SrcLayout are congruent over the outputs (mode 0 innermost): where output i is, and where the first
// element that it combines is. Its kCount elements are kStep apart; Index is the type that their offsets are counted in,
// 64 bits wide where 32 do not reach. Combine is ops::Add or ops::Max, of fp32, in an order that follows from the
// layouts and types alone, so results are the same bits each time, whatever the alignment of the pointers.
//
// Neighbours in memory that are combined (kStep 1) are shared out to lanes, vector by vector, which then combine by
// shuffles. Otherwise neighbouring threads have neighbouring outputs, and where outputs are few, rows of threads share
// the elements of each and combine through shared memory.
#pragma once

#include "../arch/grid_dependency.h"
#include "../launch.h"
#include "group_sum.h"

namespace mugraph {
namespace kn {

template <class Combine, int kVector, int kLanes, bool kWide, class Index, long long kCount, class DstLayout,
          class SrcLayout, class D, class S>
__global__ void __launch_bounds__(kSumThreads) reduce_along_kernel(D* dst, S const* src) {
  tb::grid_launch();
  tb::grid_wait();
  using Run = cute::Layout<cute::Shape<cute::Int<kVector>>, cute::Stride<cute::Int<1>>>;
  constexpr long long kGroups = kSumThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const long long output = blockIdx.x * kGroups + static_cast<int>(threadIdx.x) / kLanes;
  const bool is_active = output < size_of<DstLayout>;
  float total = Combine::identity();
  if (is_active) {
    S const* const first = src + VectorOffsets<1, 1, SrcLayout>(static_cast<int>(output))(0);
    const VectorOffsets<1, kVector, Run> offsets(0);
#pragma unroll 4
    for (Index vector = lane; vector < static_cast<Index>(kCount / kVector); vector += kLanes) {
      float values[kVector];
      load_elements<kWide, Run, kVector>(first + vector * kVector, offsets, 0, values);
#pragma unroll
      for (int i = 0; i < kVector; ++i) total = Combine::apply(total, values[i]);
    }
  }
  total = combine_lanes<Combine, kSumThreads, kLanes>(total);
  if (is_active && lane == 0) {
    *(dst + VectorOffsets<1, 1, DstLayout>(static_cast<int>(output))(0)) = from_float<D>(total);
  }
}

template <class Combine, int kVector, int kLanes, bool kWide, class Index, long long kCount, long long kStep,
          class DstLayout, class SrcLayout, class D, class S>
__global__ void __launch_bounds__(kSumThreads) reduce_across_kernel(D* dst, S const* src) {
  tb::grid_launch();
  tb::grid_wait();
  constexpr int kAcross = kSumThreads / kLanes;
  const int column = static_cast<int>(threadIdx.x) % kAcross;
  const int lane = static_cast<int>(threadIdx.x) / kAcross;
  const long long vector = static_cast<long long>(blockIdx.x) * kAcross + column;
  const bool is_active = vector < size_of<DstLayout> / kVector;
  float totals[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i) totals[i] = Combine::identity();
  if (is_active) {
    const VectorOffsets<1, kVector, SrcLayout> offsets(static_cast<int>(vector));
#pragma unroll 4
    for (Index element = lane; element < static_cast<Index>(kCount); element += kLanes) {
      float values[kVector];
      load_elements<kWide, SrcLayout, kVector>(src + element * static_cast<Index>(kStep), offsets, 0, values);
#pragma unroll
      for (int i = 0; i < kVector; ++i) totals[i] = Combine::apply(totals[i], values[i]);
    }
  }
  if constexpr (kLanes > 1) {
    MUGRAPH_STATIC_SHARED float parts[kLanes][kVector][kAcross];
#pragma unroll
    for (int i = 0; i < kVector; ++i) parts[lane][i][column] = totals[i];
    __syncthreads();
#pragma unroll
    for (int half = kLanes / 2; half > 0; half /= 2) {
      if (lane < half) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          float& part = parts[lane][i][column];
          part = Combine::apply(part, parts[lane + half][i][column]);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) totals[i] = parts[0][i][column];
  }
  if (is_active && lane == 0) {
    store_elements<kWide, DstLayout, kVector>(dst, VectorOffsets<1, kVector, DstLayout>(static_cast<int>(vector)), 0,
                                              totals);
  }
}

template <class Combine, class Index, long long kCount, long long kStep, class DstLayout, class SrcLayout>
struct Reduce {
  static_assert(size_of<SrcLayout> == size_of<DstLayout>, "the source must say where each output's elements start");
  static_assert(kCount >= 1 && kStep >= 0, "an output is made of at least one element");
  static constexpr long long kOutputs = size_of<DstLayout>;
  // Whether the elements of an output are neighbours in memory.
  static constexpr bool kIsAlong = kStep == 1 && kCount > 1;

  // dst(i) is what Combine makes of src(i) + k * kStep for k < kCount, on `queue`. Throws std::runtime_error where the launch fails.
  template <class D, class S>
  static void run(Queue queue, D* dst, S const* src) {
    constexpr int kVector = vector_length<static_cast<int>(sizeof(S))>();
    if constexpr (kIsAlong) {
      constexpr bool kHasVectors = kVector > 1;
      constexpr std::size_t kBytes = kVector * sizeof(S);
      if (kHasVectors && reinterpret_cast<std::uintptr_t>(src) % kBytes == 0) {
        launch_along<kVector, true>(queue, dst, src);
      } else {
        launch_along<kVector, false>(queue, dst, src);
      }
    } else {
      const bool is_aligned = is_aligned_for<SrcLayout, kVector>(src) && is_aligned_for<DstLayout, kVector>(dst);
      if (kVector > 1 && is_aligned) {
        launch_across<kVector, true>(queue, dst, src);
      } else {
        launch_across<kVector, false>(queue, dst, src);
      }
    }
  }

  // The longest vector of at most 16 bytes that the source has along the elements of an output, or along the outputs.
  template <int kBytes, int kMax = 16 / kBytes>
  static constexpr int vector_length() {
    if constexpr (kMax <= 1) {
      return 1;
    } else {
      using Outputs = Mode<typename LayoutParts<SrcLayout>::Linear>;
      const bool fits_along = kCount % kMax == 0 && Outputs::kModes.strides_divisible_by(kMax, 0);
      const bool fits_across = kStep % kMax == 0 && kOutputs % kMax == 0 &&
                               Mode<typename LayoutParts<DstLayout>::Linear>::kFirstExtent % kMax == 0 &&
                               access_of<SrcLayout, kMax>() == Access::kContiguous;
      return (kIsAlong ? fits_along : fits_across) ? kMax : vector_length<kBytes, kMax / 2>();
    }
  }

 private:
  template <int kVector, bool kWide, class D, class S>
  static void launch_along(Queue queue, D* dst, S const* src) {
    constexpr long long kVectors = kCount / kVector;
    constexpr int kWarp = power_of_two_from(kVectors, 32);
    constexpr int kLanes = kOutputs * kWarp >= kBusyThreads ? kWarp : power_of_two_from(kVectors, kSumThreads);
    constexpr long long kBlocks = ceil_div(kOutputs, static_cast<long long>(kSumThreads / kLanes));
    launch("kn::Reduce", reduce_along_kernel<Combine, kVector, kLanes, kWide, Index, kCount, DstLayout, SrcLayout, D, S>,
           dim3(static_cast<unsigned>(kBlocks)), dim3(kSumThreads), 0, queue, dst, src);
  }

  template <int kVector, bool kWide, class D, class S>
  static void launch_across(Queue queue, D* dst, S const* src) {
    constexpr long long kVectors = kOutputs / kVector;
    // At least 8 threads stay side by side: with their vectors they read whole sectors.
    constexpr int kMost = power_of_two_from(ceil_div(kCount, 4LL), 32);
    constexpr int kLanes = power_of_two_from(ceil_div(kBusyThreads, kVectors), kMost);
    constexpr long long kBlocks = ceil_div(kVectors, static_cast<long long>(kSumThreads / kLanes));
    launch("kn::Reduce",
           reduce_across_kernel<Combine, kVector, kLanes, kWide, Index, kCount, kStep, DstLayout, SrcLayout, D, S>,
           dim3(static_cast<unsigned>(kBlocks)), dim3(kSumThreads), 0, queue, dst, src);
  }
};

template <class Index, long long kCount, long long kStep, class DstLayout, class SrcLayout>
using ReduceSum = Reduce<ops::Add, Index, kCount, kStep, DstLayout, SrcLayout>;

}  // namespace kn
}  // namespace mugraph
