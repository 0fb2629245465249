// Copies of tiles whose rows numbers in memory name: pages of a cache, rows of a table of embeddings.
//
// As Copy, CopyAsync and their forms for ragged tiles. SrcLayout says where an element lies in its row, and NumberLayout
// where the number of its row is; both are congruent to DstLayout, and vectors lie in one row. A number that names no row
// stands for the nearest that there is.
//
// Windows are copied in the same way: each vector is a row of its own, found by arithmetic, and zeros where it is outside
// of the tensor.
#pragma once

#include "copy_within.h"

namespace mugraph {
namespace tb {

// The row, of kRows, that a number names.
template <int64_t kRows>
__host__ __device__ constexpr int64_t row_of(int64_t number) {
  return number < 0 ? 0 : number < kRows ? number : kRows - 1;
}

// The rows of a tensor, kStride elements apart, that the numbers of a tile name.
template <int kThreads, int kVector, class NumberLayout, int64_t kRows, int64_t kStride>
class NamedRows {
  int const* numbers_;
  VectorOffsets<kThreads, kVector, NumberLayout> offsets_;

 public:
  __device__ __forceinline__ NamedRows(int const* numbers, int thread) : numbers_(numbers), offsets_(thread) {}

  // How far the row of the thread's vector of a round is from the first.
  __device__ __forceinline__ int64_t operator()(int round) const {
    return row_of<kRows>(*(numbers_ + offsets_(round))) * kStride;
  }

  // The same of a row that is written; -1 where its number names none.
  __device__ __forceinline__ int64_t written(int round) const {
    const int64_t number = *(numbers_ + offsets_(round));
    return number >= 0 && number < kRows ? number * kStride : -1;
  }
};

// A dimension of a tensor: its extent, how far neighbours are apart in memory, and where windows begin.
template <int64_t kExtent, int64_t kStride, int64_t kOrigin>
struct TensorDim {
  static constexpr int64_t extent = kExtent, stride = kStride, origin = kOrigin;
};

// kExtent places along a dimension of the tensor, kStep elements apart.
template <int64_t kExtent, int kDim, int64_t kStep>
struct WindowMode {
  static constexpr int64_t extent = kExtent, step = kStep;
  static constexpr int dim = kDim;
};

// A dimension of what is seen, of which the first mode counts fastest. Of the tile's elements every kBefore-th is the
// next along it, and there are kTile.
template <int64_t kBefore, int64_t kTile, class... Modes>
struct SeenDim {
  template <class Places>
  static __device__ __forceinline__ void add(Places& places, int element, int start) {
    int rest = start + element / static_cast<int>(kBefore) % static_cast<int>(kTile);
    (add_mode<Modes>(places, rest), ...);
  }

 private:
  template <class Mode, class Places>
  static __device__ __forceinline__ void add_mode(Places& places, int& rest) {
    constexpr int kExtent = static_cast<int>(Mode::extent);
    places.at[Mode::dim] += rest % kExtent * static_cast<int>(Mode::step);
    rest /= kExtent;
  }
};

// Where the first element of a tile is along each dimension of what is seen.
template <int kRank>
struct Starts {
  int at[kRank];
};

template <class... Dims>
struct TensorDims;

// Where the vectors of a tile of windows lie in the tensor.
template <int kThreads, int kVector, class Source, class... Seen>
class WindowPlaces;

template <int kThreads, int kVector, class... Dims, class... Seen>
class WindowPlaces<kThreads, kVector, TensorDims<Dims...>, Seen...> {
  Starts<static_cast<int>(sizeof...(Seen))> starts_;
  int thread_;

 public:
  __device__ __forceinline__ WindowPlaces(Starts<static_cast<int>(sizeof...(Seen))> const& starts, int thread)
      : starts_(starts), thread_(thread) {}

  // How far the thread's vector of a round is from the tensor's first element; -1 where it is outside.
  __device__ __forceinline__ int64_t operator()(int round) const {
    Starts<static_cast<int>(sizeof...(Dims))> places{{static_cast<int>(Dims::origin)...}};
    const int element = (thread_ + round * kThreads) * kVector;
    int dim = 0;
    (Seen::add(places, element, starts_.at[dim++]), ...);
    dim = 0;
    bool exists = true;
    int64_t offset = 0;
    (take<Dims>(places.at[dim++], exists, offset), ...);
    return exists ? offset : -1;
  }

 private:
  template <class Dim>
  static __device__ __forceinline__ void take(int place, bool& exists, int64_t& offset) {
    exists = exists && place >= 0 && place < Dim::extent;
    offset += place * Dim::stride;
  }
};

// dst_shared(i) = src_global(i) of the row that i's number names, 0 where the source has no element.
template <int kThreads, int kVector, class DstLayout, class SrcLayout, class Rows, class... Dims>
struct CopyThrough {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");
  static constexpr bool kIsContiguous =
      kVector == 1 || (access_of<DstLayout, kVector>() == Access::kContiguous &&
                       access_of<SrcLayout, kVector>() == Access::kContiguous);
  static constexpr int kUnroll = Partition::kRounds <= 8 ? 8 : 2;

  // The vector of a round, of which `count` elements exist; with kFill, zeros in place of the others.
  template <bool kFill, class D, class S, class DstOffsets, class SrcOffsets>
  static __device__ __forceinline__ void move(D* dst, DstOffsets const& dst_offsets, S const* src,
                                              SrcOffsets const& src_offsets, int round, int count) {
    if constexpr (cute::is_same<D, S>::value && kIsContiguous && kVector > 1) {
      if (count == kVector) {
        Words<D, kVector> words;
        words.load(src + src_offsets(round));
        words.store(dst + dst_offsets(round));
        return;
      }
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i < count) {
        move_element(*(dst + dst_offsets(round, i)), *(src + src_offsets(round, i)));
      } else if constexpr (kFill) {
        *(dst + dst_offsets(round, i)) = from_bits<D>(0);
      }
    }
  }

  // By loads and stores. `where` has the numbers of the rows, or the starts of windows. Needs a barrier after it.
  template <class D, class S, class Where, class... Counts>
  static __device__ __forceinline__ void run(D* dst, S const* src, Where where, int thread, Counts... existing) {
    const Rows rows(where, thread);
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
#pragma unroll kUnroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (!Partition::owns(thread, round)) continue;
      const int count = count_of(thread, round, existing...);
      const int64_t at = count == 0 ? -1 : rows(round);
      if (at < 0) {
        const Number<D, S> zeros[kVector] = {};
        store_vector<DstLayout, kVector>(dst, dst_offsets, round, zeros);
        continue;
      }
      move<true>(dst, dst_offsets, src + at, src_offsets, round, count);
    }
  }

  // dst_global(i) of the row that i's number names = src_shared(i); nothing where the number names none.
  template <class D, class S, class... Counts>
  static __device__ __forceinline__ void store(D* dst, S const* src, int const* numbers, int thread,
                                               Counts... existing) {
    const Rows rows(numbers, thread);
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
#pragma unroll kUnroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (!Partition::owns(thread, round)) continue;
      const int count = count_of(thread, round, existing...);
      const int64_t at = count == 0 ? -1 : rows.written(round);
      if (at >= 0) move<false>(dst + at, dst_offsets, src, src_offsets, round, count);
    }
  }

  // By cp.async, one a vector that exists whole, or not at all. Commits nothing, as CopyAsync.
  template <class T, class Where, class... Counts>
  static __device__ __forceinline__ void run_async(T* dst_shared, T const* src, Where where, int thread,
                                                   Counts... existing) {
    static_assert(kIsContiguous, "an asynchronous copy needs vectors of consecutive, aligned elements");
    const Rows rows(where, thread);
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
#pragma unroll kUnroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (!Partition::owns(thread, round)) continue;
      const int whole = count_of(thread, round, existing...);
      const int64_t at = whole == 0 ? -1 : rows(round);
      const int count = at < 0 ? 0 : whole;
      T const* const row = count == 0 ? src : src + at;
      if (count == 0 || count == kVector) {
        copy_async_or_zero<kVector * static_cast<int>(sizeof(T))>(dst_shared + dst_offsets(round),
                                                                  row + src_offsets(round), count > 0);
      } else {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          *(dst_shared + dst_offsets(round, i)) = i < count ? *(row + src_offsets(round, i)) : from_bits<T>(0);
        }
      }
    }
  }

 private:
  template <class... Counts>
  static __device__ __forceinline__ int count_of(int thread, int round, Counts... existing) {
    if constexpr (sizeof...(Dims) == 0) {
      return kVector;
    } else {
      const Within<Dims...> within(existing...);
      return within.template count<kVector>(static_cast<uint32_t>(thread + round * kThreads) * kVector);
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

}  // namespace tb
}  // namespace mugraph
