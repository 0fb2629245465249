// Copies between shared memory and tiles whose rows start anywhere, in whole vectors.
//
// As CopyWithin, where shared memory keeps vectors of 16 bytes contiguous and aligned, and device memory keeps them
// contiguous alone.
#pragma once

#include "../ragged.h"
#include "../shifted_access.h"
#include "copy.h"

namespace mugraph {
namespace tb {

// The elements that exist of a vector from linear index `index` on.
template <int kVector, class... Dims, class... Counts>
__device__ __forceinline__ int existing_in_vector(uint32_t index, Counts... existing) {
  if constexpr (sizeof...(Dims) == 0) {
    return kVector;
  } else {
    return Within<Dims...>(existing...).template count<kVector>(index);
  }
}

// The loads of several vectors are issued before their stores.
template <int kThreads, int kVector, class DstLayout, class SrcLayout, class... Dims>
struct CopyShifted {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");
  static_assert(access_of<DstLayout, kVector>() == Access::kContiguous, "the destination must keep vectors whole");
  static_assert(Mode<typename LayoutParts<SrcLayout>::Linear>::kFirstStride == 1 &&
                    Mode<typename LayoutParts<SrcLayout>::Linear>::kFirstExtent % kVector == 0,
                "the source must keep vectors contiguous");
  // As many rounds of at most 4, all alike.
  static constexpr int kBatch = ceil_div(Partition::kRounds, ceil_div(Partition::kRounds, 4));

  // dst_shared(i) = src_global(i), 0 where `tensor`, which the tile is of, has no element. Needs a barrier after it.
  template <class T, class... Counts>
  static __device__ __forceinline__ void run(T* dst_shared, T const* src_global, Tensor<T> tensor, int thread,
                                             Counts... existing) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
#pragma unroll 1
    for (int first = 0; first < Partition::kRounds; first += kBatch) {
      const auto each = [&](auto const& function) {
        Partition::template each_owned<kBatch>(thread, first, function);
      };
      ShiftedLoad<T, kVector> loads[kBatch];
      each([&](int i) {
        const int count = existing_in_vector<kVector, Dims...>(
            static_cast<uint32_t>(thread + (first + i) * kThreads) * kVector, existing...);
        loads[i].issue(src_global + src_offsets(first + i), count, tensor);
      });
      each([&](int i) {
        Words<T, kVector> vector;
        loads[i].finish(src_global + src_offsets(first + i), vector);
        vector.store(dst_shared + dst_offsets(first + i));
      });
    }
  }
};

// Each thread stores the aligned 16 bytes that begin in its vector, of which some are in the next one of the row.
template <int kThreads, int kVector, class DstLayout, class SrcLayout, class... Dims>
struct StoreShifted {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  using Rows = Mode<typename LayoutParts<DstLayout>::Linear>;
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");
  static_assert(access_of<SrcLayout, kVector>() == Access::kContiguous, "the source must keep vectors whole");
  static_assert(Rows::kFirstStride == 1 && Rows::kFirstExtent % kVector == 0,
                "the destination must keep vectors contiguous");
  static constexpr int kOfRow = Rows::kFirstExtent / kVector;

  // dst_global(i) = src_shared(i), where the destination has an element.
  template <class T, class... Counts>
  static __device__ __forceinline__ void run(T* dst_global, T const* src_shared, int thread, Counts... existing) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> next_offsets(thread + 1);
#pragma unroll 2
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (!Partition::owns(thread, round)) continue;
      const int vector = thread + round * kThreads;
      const bool is_first = vector % kOfRow == 0, is_last = vector % kOfRow == kOfRow - 1;
      const auto count_at = [&](int at) {
        return existing_in_vector<kVector, Dims...>(static_cast<uint32_t>(at) * kVector, existing...);
      };
      const int count = count_at(vector), there = count + (is_last ? 0 : count_at(vector + 1));
      T* const target = dst_global + dst_offsets(round);
      const uint32_t past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(target) % 16);
      const int skipped = past == 0 ? 0 : kVector - static_cast<int>(past / sizeof(T));
      Words<T, kVector> own, next;
      own.load(src_shared + src_offsets(round));
      next = own;
      if (!is_last) next.load(src_shared + next_offsets(round));
      if (is_first) store_some(target, own, 0, skipped < count ? skipped : count);
      if (skipped + kVector <= there) {
        uint32_t words[8];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          words[i] = own.words[i];
          words[4 + i] = next.words[i];
        }
        shift(words, static_cast<uint32_t>(skipped * sizeof(T)), own.words);
        own.store(target + skipped);
      } else if (count > 0) {
        store_some(target, own, skipped, count);
        const int rest = there - kVector;
        store_some(target + kVector, next, 0, rest < skipped ? rest : skipped);
      }
    }
  }

 private:
  // The elements from `first` to `end` of a vector, one by one.
  template <class T>
  static __device__ __forceinline__ void store_some(T* target, Words<T, kVector> const& vector, int first, int end) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (first <= i && i < end) target[i] = vector.element(i);
    }
  }
};

}  // namespace tb
}  // namespace mugraph
