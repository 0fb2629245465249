// Copies to shared memory of tiles whose rows start anywhere, in whole vectors.
//
// As CopyWithin::load, where the destination keeps vectors of 16 bytes contiguous and aligned, and the source keeps
// them contiguous alone. The loads of several vectors are issued before their stores.
#pragma once

#include "../ragged.h"
#include "../shifted_access.h"
#include "copy.h"

namespace mugraph {
namespace tb {

template <int kThreads, int kVector, class DstLayout, class SrcLayout, class... Dims>
struct CopyShifted {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");
  static_assert(access_of<DstLayout, kVector>() == Access::kContiguous, "the destination must keep vectors whole");
  static_assert(Mode<typename LayoutParts<SrcLayout>::Linear>::kFirstStride == 1 &&
                    Mode<typename LayoutParts<SrcLayout>::Linear>::kFirstExtent % kVector == 0,
                "the source must keep vectors contiguous");
  static constexpr int kBatch = 4;

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
        const int count = count_of(static_cast<uint32_t>(thread + (first + i) * kThreads) * kVector, existing...);
        loads[i].issue(src_global + src_offsets(first + i), count, tensor);
      });
      each([&](int i) {
        Words<T, kVector> vector;
        loads[i].finish(src_global + src_offsets(first + i), vector);
        vector.store(dst_shared + dst_offsets(first + i));
      });
    }
  }

 private:
  template <class... Counts>
  static __device__ __forceinline__ int count_of(uint32_t index, Counts... existing) {
    if constexpr (sizeof...(Dims) == 0) {
      return kVector;
    } else {
      return Within<Dims...>(existing...).template count<kVector>(index);
    }
  }
};

}  // namespace tb
}  // namespace mugraph
