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

// Each thread stores the aligned 16 bytes that begin in its vector, of which some are in the next one of the row. What
// is left of a row before its first aligned 16 bytes and behind its last ones, lanes side by side store one by one.
template <int kThreads, int kVector, class DstLayout, class SrcLayout, class... Dims>
struct StoreShifted {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  using Linear = typename LayoutParts<DstLayout>::Linear;
  // Rows are mode 0: several that follow each other in memory may each have an end.
  static constexpr int kColumns = decltype(cute::size<0>(Linear{}))::value, kOfRow = kColumns / kVector;
  static constexpr int kRows = size_of<DstLayout> / kColumns;
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");
  static_assert(access_of<SrcLayout, kVector>() == Access::kContiguous, "the source must keep vectors whole");
  static_assert(Mode<Linear>::kFirstStride == 1 && kColumns % kVector == 0 &&
                    Mode<Linear>::kFirstExtent % kColumns == 0,
                "the destination must keep vectors contiguous");
  // As many rounds of at most 4, all alike.
  static constexpr int kBatch = ceil_div(Partition::kRounds, ceil_div(Partition::kRounds, 4));

  // dst_global(i) = src_shared(i), where the destination has an element.
  template <class T, class... Counts>
  static __device__ __forceinline__ void run(T* dst_global, T const* src_shared, int thread, Counts... existing) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread), next_offsets(thread + 1);
    store_ends(dst_global, src_shared, thread, existing...);
#pragma unroll 1
    for (int first = 0; first < Partition::kRounds; first += kBatch) {
      const auto each = [&](auto const& function) {
        Partition::template each_owned<kBatch>(thread, first, function);
      };
      Words<T, kVector> own[kBatch], next[kBatch];
      each([&](int i) {
        own[i].load(src_shared + src_offsets(first + i));
        next[i] = own[i];
        const int vector = thread + (first + i) * kThreads;
        if (vector % kOfRow != kOfRow - 1) next[i].load(src_shared + next_offsets(first + i));
      });
      each([&](int i) {
        const int vector = thread + (first + i) * kThreads;
        T* const target = dst_global + dst_offsets(first + i);
        const int skipped = before_aligned(target);
        if (vector % kOfRow * kVector + skipped + kVector > existing_in_row(vector / kOfRow, existing...)) return;
        uint32_t words[8];
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          words[word] = own[i].words[word];
          words[4 + word] = next[i].words[word];
        }
        shift(words, static_cast<uint32_t>(skipped * static_cast<int>(sizeof(T))), own[i].words);
        own[i].store(target + skipped);
      });
    }
  }

 private:
  static constexpr int kLanes = kThreads < kVector ? kThreads : kVector;

  // The elements from one on up to a multiple of 16 bytes.
  template <class T>
  static __device__ __forceinline__ int before_aligned(T const* target) {
    const uint32_t past = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(target)) / sizeof(T);
    return static_cast<int>((0u - past) % kVector);
  }

  template <class... Counts>
  static __device__ __forceinline__ int existing_in_row(int row, Counts... existing) {
    return existing_in_vector<kColumns, Dims...>(static_cast<uint32_t>(row) * kColumns, existing...);
  }

  // kLanes lanes a row; some threads are left over where these do not divide them.
  template <class T, class... Counts>
  static __device__ __forceinline__ void store_ends(T* dst_global, T const* src_shared, int thread,
                                                    Counts... existing) {
    constexpr int kAtOnce = kThreads / kLanes;
    const VectorOffsets<1, 1, DstLayout> dst_offsets(0);
    const VectorOffsets<1, 1, SrcLayout> src_offsets(0);
#pragma unroll 4
    for (int first = 0; first < kRows; first += kAtOnce) {
      const int row = first + thread / kLanes;
      if (row >= kRows || thread >= kAtOnce * kLanes) continue;
      const int count = existing_in_row(row, existing...), start = row * kColumns;
      const int before = before_aligned(dst_global + dst_offsets(start)), head = before < count ? before : count;
      const int tail = (count - head) % kVector;
      for (int i = thread % kLanes; i < head + tail; i += kLanes) {
        const int at = start + (i < head ? i : count - tail + i - head);
        dst_global[dst_offsets(at).value()] = src_shared[src_offsets(at).value()];
      }
    }
  }
};

}  // namespace tb
}  // namespace mugraph
