// Copies of a tile between layouts, by all threads of a block.
//
// DstLayout and SrcLayout are congruent over one iteration domain: linear index i of one is linear index i of the
// other, mode 0 innermost. Thread t moves the vectors t, t + kThreads, ... of kVector consecutive indices. Pointers
// are aligned to min(16, kVector * element size) bytes where the layout is contiguous.
#pragma once

#include "../arch/async_copy.h"
#include "../vector_access.h"

namespace mugraph {
namespace tb {

// dst(i) = src(i). Elements of one type are moved as they are; elements of two types are converted through float,
// rounding to nearest. The loads of several vectors are issued before their stores. Needs a barrier after it.
template <int kThreads, int kVector, class DstLayout, class SrcLayout>
struct Copy {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");
  static constexpr bool kIsContiguous = access_of<DstLayout, kVector>() == Access::kContiguous &&
                                        access_of<SrcLayout, kVector>() == Access::kContiguous;
  static constexpr int kBatch = kVector >= 8 || kVector == 1 ? 4 : 8;
  static constexpr int kUnroll = ceil_div(Partition::kRounds, kBatch) <= 4 ? 4 : 1;

  template <class D, class S>
  static __device__ __forceinline__ void run(D* dst, S const* src, int thread) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
#pragma unroll kUnroll
    for (int first = 0; first < Partition::kRounds; first += kBatch) {
      const auto each = [&](auto const& function) {
        Partition::template each_owned<kBatch>(thread, first, function);
      };
      if constexpr (cute::is_same<D, S>::value && kVector == 1) {
        D values[kBatch];
        each([&](int i) { values[i] = *(src + src_offsets(first + i)); });
        each([&](int i) { *(dst + dst_offsets(first + i)) = values[i]; });
      } else if constexpr (cute::is_same<D, S>::value && kIsContiguous) {
        Words<D, kVector> words[kBatch];
        each([&](int i) { words[i].load(src + src_offsets(first + i)); });
        each([&](int i) { words[i].store(dst + dst_offsets(first + i)); });
      } else {
        float values[kBatch][kVector];
        each([&](int i) { load_vector<SrcLayout, kVector>(src, src_offsets, first + i, values[i]); });
        each([&](int i) { store_vector<DstLayout, kVector>(dst, dst_offsets, first + i, values[i]); });
      }
    }
  }
};

// dst_shared(i) = src_global(i) by cp.async, one per vector, of kVector * sizeof(T) = 4, 8 or 16 bytes. Commits
// nothing: call commit_group() after the copies of a stage, wait_group<N>() and a barrier before reading it.
template <int kThreads, int kVector, class DstLayout, class SrcLayout>
struct CopyAsync {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");
  static_assert(kVector == 1 || access_of<DstLayout, kVector>() == Access::kContiguous,
                "the destination of an asynchronous copy must hold each vector in consecutive, aligned elements");
  static_assert(kVector == 1 || access_of<SrcLayout, kVector>() == Access::kContiguous,
                "the source of an asynchronous copy must hold each vector in consecutive, aligned elements");
  static constexpr int kUnroll = Partition::kRounds <= 16 ? 16 : 4;

  template <class T>
  static __device__ __forceinline__ void run(T* dst_shared, T const* src_global, int thread) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
#pragma unroll kUnroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (Partition::owns(thread, round)) {
        copy_async<kVector * static_cast<int>(sizeof(T))>(dst_shared + dst_offsets(round),
                                                          src_global + src_offsets(round));
      }
    }
  }
};

}  // namespace tb
}  // namespace mugraph
