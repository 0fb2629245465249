// Copies of ragged tiles: what does not exist in device memory is not touched.
//
// As Copy and CopyAsync, with the elements that exist along Dims given by their counts. A vector that exists whole is
// moved whole; of one at the end of the tensor the elements that exist are moved one by one.
#pragma once

#include "../ragged.h"
#include "copy.h"

namespace mugraph {
namespace tb {

template <int kThreads, int kVector, class DstLayout, class SrcLayout, class... Dims>
struct CopyWithin {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");
  static constexpr int kUnroll = Partition::kRounds <= 8 ? 8 : 2;
  static constexpr int kBatch = kVector == 1 ? 8 : 4;
  static constexpr bool kIsContiguous = Copy<kThreads, kVector, DstLayout, SrcLayout>::kIsContiguous;

  // dst_shared(i) = src_global(i), 0 where the source has no element. Needs a barrier after it.
  template <class D, class S, class... Counts>
  static __device__ __forceinline__ void load(D* dst_shared, S const* src_global, int thread, Counts... existing) {
    const Within<Dims...> within(existing...);
    run<true>(dst_shared, src_global, thread, within, ends_in_part<kVector, Dims...>(existing...));
  }

  // dst_global(i) = src_shared(i), where the destination has an element.
  template <class D, class S, class... Counts>
  static __device__ __forceinline__ void store(D* dst_global, S const* src_shared, int thread, Counts... existing) {
    const Within<Dims...> within(existing...);
    run<false>(dst_global, src_shared, thread, within, ends_in_part<kVector, Dims...>(existing...));
  }

 private:
  template <bool kFill, class D, class S>
  static __device__ __forceinline__ void run(D* dst, S const* src, int thread, Within<Dims...> const& within,
                                             bool may_be_part) {
    if constexpr (cute::is_same<D, S>::value && (kVector == 1 || kIsContiguous)) {
      run_in_batches<kFill>(dst, src, thread, within, may_be_part);
    } else {
      run_one_by_one<kFill>(dst, src, thread, within);
    }
  }

  // The loads of several vectors are issued before their stores.
  template <bool kFill, class T>
  static __device__ __forceinline__ void run_in_batches(T* dst, T const* src, int thread,
                                                        Within<Dims...> const& within, bool may_be_part) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
#pragma unroll(Partition::kRounds <= 2 * kBatch ? 2 : 1)
    for (int first = 0; first < Partition::kRounds; first += kBatch) {
      const auto each = [&](auto const& function) {
        Partition::template each_owned<kBatch>(thread, first, function);
      };
      Words<T, kVector> vectors[kBatch];
      int counts[kBatch];
      each([&](int i) {
        counts[i] = within.template count<kVector>(static_cast<uint32_t>(thread + (first + i) * kThreads) * kVector);
        vectors[i] = {};
        if (counts[i] == kVector) {
          vectors[i].load(src + src_offsets(first + i));
        } else if (may_be_part) {
          vectors[i].load_first(src + src_offsets(first + i), counts[i]);
        }
      });
      each([&](int i) {
        if (kFill || counts[i] == kVector) {
          vectors[i].store(dst + dst_offsets(first + i));
        } else {
#pragma unroll
          for (int e = 0; e < kVector; ++e) {
            if (e < counts[i]) *(dst + dst_offsets(first + i, e)) = vectors[i].element(e);
          }
        }
      });
    }
  }

  template <bool kFill, class D, class S>
  static __device__ __forceinline__ void run_one_by_one(D* dst, S const* src, int thread,
                                                        Within<Dims...> const& within) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
#pragma unroll kUnroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (!Partition::owns(thread, round)) continue;
      const int count = within.template count<kVector>(static_cast<uint32_t>(thread + round * kThreads) * kVector);
      if (count == kVector) {
        move_whole(dst, src, dst_offsets, src_offsets, round);
      } else if (kFill && count == 0) {
        const Number<D, S> zeros[kVector] = {};
        store_vector<DstLayout, kVector>(dst, dst_offsets, round, zeros);
      } else if (count > 0) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          if (i < count) {
            move_element(*(dst + dst_offsets(round, i)), *(src + src_offsets(round, i)));
          } else if (kFill) {
            *(dst + dst_offsets(round, i)) = from_bits<D>(0);
          }
        }
      }
    }
  }

  template <class D, class S, class DstOffsets, class SrcOffsets>
  static __device__ __forceinline__ void move_whole(D* dst, S const* src, DstOffsets const& dst_offsets,
                                                    SrcOffsets const& src_offsets, int round) {
    if constexpr (kVector == 1) {
      move_element(*(dst + dst_offsets(round)), *(src + src_offsets(round)));
    } else {
      Number<D, S> values[kVector];
      load_vector<SrcLayout, kVector>(src, src_offsets, round, values);
      store_vector<DstLayout, kVector>(dst, dst_offsets, round, values);
    }
  }

  template <class D, class S>
  static __device__ __forceinline__ void move_element(D& dst, S const& src) {
    if constexpr (cute::is_same<D, S>::value) {
      dst = src;
    } else {
      dst = from_number<D>(to_number<Number<D, S>>(src));
    }
  }
};

// dst_shared(i) = src_global(i) by cp.async, 0 where the source has no element. The elements of a vector that does not
// exist whole are stored by the thread itself, those of several vectors at once. Commits nothing, as CopyAsync.
template <int kThreads, int kVector, class DstLayout, class SrcLayout, class... Dims>
struct CopyAsyncWithin {
  using Whole = CopyAsync<kThreads, kVector, DstLayout, SrcLayout>;
  using Partition = typename Whole::Partition;
  static constexpr int kBatch = 8;

  template <class T, class... Counts>
  static __device__ __forceinline__ void run(T* dst_shared, T const* src_global, int thread, Counts... existing) {
    const Within<Dims...> within(existing...);
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
    const auto count_of = [&](int round) {
      return within.template count<kVector>(static_cast<uint32_t>(thread + round * kThreads) * kVector);
    };
    const bool may_be_part = ends_in_part<kVector, Dims...>(existing...);
    const auto is_part = [&](int count) { return may_be_part && 0 < count && count < kVector; };
    bool has_parts = false;
#pragma unroll Whole::kUnroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (!Partition::owns(thread, round)) continue;
      const int count = count_of(round);
      if (is_part(count)) {
        has_parts = true;
      } else {
        copy_async_or_zero<kVector * static_cast<int>(sizeof(T))>(dst_shared + dst_offsets(round),
                                                                  src_global + src_offsets(round), count > 0);
      }
    }
    if (!has_parts) return;
#pragma unroll 1
    for (int first = 0; first < Partition::kRounds; first += kBatch) {
      const auto each = [&](auto const& function) {
        Partition::template each_owned<kBatch>(thread, first, function);
      };
      Words<T, kVector> vectors[kBatch];
      each([&](int i) {
        const int count = count_of(first + i);
        if (is_part(count)) vectors[i].load_first(src_global + src_offsets(first + i), count);
      });
      each([&](int i) {
        if (is_part(count_of(first + i))) vectors[i].store(dst_shared + dst_offsets(first + i));
      });
    }
  }
};

}  // namespace tb
}  // namespace mugraph
