// Sums or maxima over part of a tile, by all threads of a block, in fp32 (sums of int32_t, in int32_t) and in a fixed
// order.
//
// SrcLayout has two modes at top level: mode 0 runs over the elements that are added up (it may itself be nested),
// mode 1 over the outputs, in the linear order of DstLayout. So a sum over rows, over columns, over contiguous groups,
// over strided groups and over everything differ in the layout only.
//
// kLanes neighbouring threads share an output: group g = thread / kLanes sums the outputs g, g + groups, ... Lane l
// adds the elements of the vectors l, l + kLanes, ... from low to high index, starting from 0; then the lanes add
// pairwise over the distances kLanes / 2, ..., 2, 1. kVector, the vector length, follows from the layout (elements of
// at most 16 bytes, contiguous in mode 0), and so does not depend on the threads. Results are the same bits each time.
// src is aligned to 16 bytes. Every thread of the block must call.
#pragma once

#include "../ops.h"
#include "../vector_access.h"
#include "combining.h"

namespace mugraph {
namespace tb {

//
// Combine is ops::Add or ops::Max: what makes one number of two, and the identity from which it starts.
template <class Combine, class Epilogue, int kThreads, int kLanes, class DstLayout, class SrcLayout>
struct Reduce {
  using Parts = LayoutParts<SrcLayout>;
  static_assert(decltype(cute::rank(typename Parts::Linear{}))::value == 2,
                "the source layout must have two modes: the reduced elements and the outputs");
  static_assert(kLanes >= 1 && kLanes <= 32 && (kLanes & (kLanes - 1)) == 0,
                "kLanes must be a power of two of at most 32");
  static_assert(kLanes <= kThreads, "an output cannot be shared by more lanes than the block has threads");
  using ReducedLinear = decltype(cute::layout<0>(typename Parts::Linear{}));
  using Reduced = Mode<ReducedLinear>;
  using Outputs = Mode<decltype(cute::layout<1>(typename Parts::Linear{}))>;
  static_assert(Outputs::kSize == size_of<DstLayout>, "mode 1 of the source must run over the destination's elements");

  static constexpr int kGroups = kThreads / kLanes;
  static constexpr int kRounds = ceil_div(Outputs::kSize, kGroups);

  // The vector length for a source element of kBytes bytes.
  template <int kBytes, int kMax = 16 / kBytes>
  static __host__ __device__ constexpr int vector_length() {
    if constexpr (kMax == 1) {
      return 1;
    } else {
      const bool fits = Reduced::kSize % (kLanes * kMax) == 0 && Reduced::kFirstExtent % kMax == 0 &&
                        Reduced::kFirstStride == 1 && Reduced::kModes.strides_divisible_by(kMax, 1) &&
                        Outputs::kModes.strides_divisible_by(kMax, 0) && Parts::kOffset % kMax == 0 &&
                        Parts::kGranule % kMax == 0;
      return fits ? kMax : vector_length<kBytes, kMax / 2>();
    }
  }

  // The reduced elements of one output: mode 0 behind the swizzle of the whole layout.
  template <class Layout>
  struct Slice;
  template <class Shape, class Stride>
  struct Slice<cute::Layout<Shape, Stride>> {
    using type = ReducedLinear;
  };
  template <class Swizzle, class Offset, class Linear>
  struct Slice<cute::ComposedLayout<Swizzle, Offset, Linear>> {
    using type = cute::ComposedLayout<Swizzle, Offset, ReducedLinear>;
  };

  // dst = Epilogue(result)
  template <class D, class S>
  static __device__ __forceinline__ void store(D* dst, S const* src, int thread) {
    run<false, false, DstLayout, D>(dst, nullptr, src, thread);
  }

  // dst = Combine(dst, Epilogue(result))
  template <class D, class S>
  static __device__ __forceinline__ void update(D* dst, S const* src, int thread) {
    run<true, false, DstLayout, D>(dst, nullptr, src, thread);
  }

  // The same, and difference = the old dst - the new one, as they are stored; 0 where the old one was -infinity.
  template <class DifferenceLayout, class D, class E, class S>
  static __device__ __forceinline__ void track(D* dst, E* difference, S const* src, int thread) {
    run<true, true, DifferenceLayout>(dst, difference, src, thread);
  }

 private:
  // The lanes of the caller's warp that exist: all but in the last warp of an odd block.
  static __device__ __forceinline__ unsigned warp_mask(int thread) {
    constexpr int kTail = kThreads % 32;
    if (kTail != 0 && thread >= kThreads - kTail) return (1u << kTail) - 1u;
    return 0xffffffffu;
  }

  template <bool kUpdate, bool kTracks, class DifferenceLayout, class E, class D, class S>
  static __device__ __forceinline__ void run(D* dst, [[maybe_unused]] E* difference, S const* src, int thread) {
    using N = Number<D, S>;
    constexpr int kVector = vector_length<static_cast<int>(sizeof(S))>();
    using Partition = LinearPartition<kLanes, kVector, Reduced::kSize>;
    using SliceLayout = typename Slice<SrcLayout>::type;
    [[maybe_unused]] constexpr int kUnroll = ceil_div(16, kVector);
    const int group = thread / kLanes;
    const int lane = thread % kLanes;
    const unsigned mask = warp_mask(thread);
    const VectorOffsets<1, 1, DstLayout> dst_offsets(0);
    [[maybe_unused]] const VectorOffsets<1, 1, DifferenceLayout> difference_offsets(0);
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
      const int output = group + round * kGroups;
      const bool is_active = (kThreads % kLanes == 0 || group < kGroups) && output < Outputs::kSize;
      N total = identity<Combine, N>();
      if (is_active) {
        const VectorOffsets<kLanes, kVector, SliceLayout> offsets(lane, Outputs::at(output));
#pragma unroll kUnroll
        for (int step = 0; step < Partition::kRounds; ++step) {
          if (Partition::owns(lane, step)) {
            N values[kVector];
            load_vector<SliceLayout, kVector>(src, offsets, step, values);
#pragma unroll
            for (int i = 0; i < kVector; ++i) total = combine<Combine>(total, values[i]);
          }
        }
      }
#pragma unroll
      for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        total = combine<Combine>(total, __shfl_xor_sync(mask, total, distance));
      }
      if (is_active && lane == 0) {
        D& target = *(dst + dst_offsets(output));
        const N result = Epilogue::apply(total);
        if constexpr (kUpdate) {
          [[maybe_unused]] const N before = to_number<N>(target);
          target = from_number<D>(combine<Combine>(before, result));
          if constexpr (kTracks) {
            const float change = before == Combine::identity() ? 0.0f : before - to_number<float>(target);
            *(difference + difference_offsets(output)) = from_number<E>(change);
          }
        } else {
          target = from_number<D>(result);
        }
      }
    }
  }
};

template <class Epilogue, int kThreads, int kLanes, class DstLayout, class SrcLayout>
using ReduceSum = Reduce<ops::Add, Epilogue, kThreads, kLanes, DstLayout, SrcLayout>;

}  // namespace tb
}  // namespace mugraph
