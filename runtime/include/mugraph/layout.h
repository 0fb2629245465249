// What the headers need to know of a static CuTe layout, at compile time, and cheap element offsets at run time.
//
//   LayoutParts<L>            the swizzle, the constant offset and the linear part of L, and `swizzle(offset)`.
//   Mode<Linear>              one (possibly nested) linear mode, coalesced: `at(index)` and facts about its strides.
//   VectorOffsets<T, V, L>    the offsets of the vectors of V elements that one of T threads owns.
//
// All offsets count elements, and are unsigned so that divisions by constant powers of two become shifts.
#pragma once

#include "arch/cute.h"

namespace mugraph {

template <class T>
__host__ __device__ constexpr T ceil_div(T value, T divisor) {
  return (value + divisor - 1) / divisor;
}

// A static layout written out as numbers. Used in constant expressions only.
struct ModeList {
  static constexpr int kMax = 16;
  int rank = 0;
  int extent[kMax] = {};
  int stride[kMax] = {};

  // Appends a mode: extents of 1 vanish, and a mode that continues the one before it is merged into it.
  __host__ __device__ constexpr void append(int mode_extent, int mode_stride) {
    if (mode_extent == 1) return;
    if (rank > 0 && mode_stride == extent[rank - 1] * stride[rank - 1]) {
      extent[rank - 1] *= mode_extent;
      return;
    }
    extent[rank] = mode_extent;
    stride[rank] = mode_stride;
    ++rank;
  }

  // True where value(a + b) == value(a) + value(b) for every a < step and every multiple b of step.
  // A sum of indices then carries from no mode into the next; the last mode has nothing to carry into.
  __host__ __device__ constexpr bool splits_at(int step) const {
    int inner = 1;
    for (int i = 0; i < rank; ++i) {
      const bool is_last = i + 1 == rank;
      if (step % inner == 0 && (is_last || extent[i] % (step / inner) == 0)) return true;
      inner *= extent[i];
    }
    return rank == 0;
  }

  __host__ __device__ constexpr bool strides_divisible_by(int divisor, int first_mode) const {
    for (int i = first_mode; i < rank; ++i) {
      if (stride[i] % divisor != 0) return false;
    }
    return true;
  }
};

template <class Linear, int... I>
__host__ __device__ constexpr ModeList mode_list(cute::integer_sequence<int, I...>) {
  using Shape = decltype(cute::flatten_to_tuple(cute::shape(Linear{})));
  using Stride = decltype(cute::flatten_to_tuple(cute::stride(Linear{})));
  static_assert(sizeof...(I) <= ModeList::kMax, "a layout of more than 16 modes is not supported");
  ModeList modes;
  (modes.append(cute::tuple_element_t<I, Shape>::value, cute::tuple_element_t<I, Stride>::value), ...);
  return modes;
}

// One linear mode. `Linear` is a Layout without a swizzle, of any nesting.
template <class Linear>
struct Mode {
  static_assert(cute::is_static<Linear>::value, "the shape and the strides of a layout must be Int<> constants");
  using Flat = decltype(cute::flatten_to_tuple(cute::shape(Linear{})));
  static constexpr ModeList kModes = mode_list<Linear>(cute::make_int_sequence<cute::tuple_size<Flat>::value>{});
  static constexpr int kSize = decltype(cute::size(Linear{}))::value;
  static constexpr int kRank = kModes.rank;  // 0 where the extent is 1
  static constexpr int kFirstExtent = kRank == 0 ? 1 : kModes.extent[0];
  static constexpr int kFirstStride = kRank == 0 ? 0 : kModes.stride[0];

  __host__ __device__ static constexpr uint32_t at(uint32_t index) {
    if constexpr (kRank <= 1) {
      return index * static_cast<uint32_t>(kFirstStride);
    } else {
      return static_cast<uint32_t>(cute::coalesce(Linear{})(index));
    }
  }

  template <int kStep>
  static constexpr bool splits_at = kModes.splits_at(kStep);
};

template <class Layout>
struct LayoutParts;

template <class Shape, class Stride>
struct LayoutParts<cute::Layout<Shape, Stride>> {
  using Linear = cute::Layout<Shape, Stride>;
  static constexpr uint32_t kOffset = 0;
  // Adding a multiple of kPeriod before or after the swizzle is the same.
  static constexpr uint32_t kPeriod = 1;
  // Groups of kGranule elements (a power of two) stay contiguous and in order.
  static constexpr int kGranule = 1 << 20;
  __host__ __device__ static constexpr uint32_t swizzle(uint32_t offset) { return offset; }
};

template <int kBits, int kBase, int kShift, class Offset, class LinearLayout>
struct LayoutParts<cute::ComposedLayout<cute::Swizzle<kBits, kBase, kShift>, Offset, LinearLayout>> {
  using Linear = LinearLayout;
  static_assert(cute::is_static<Offset>::value, "the offset of a swizzled layout must be an Int<> constant");
  static constexpr uint32_t kOffset = Offset::value;
  static constexpr uint32_t kPeriod = kBits == 0 ? 1u : 1u << (kBase + kBits + (kShift < 0 ? -kShift : kShift));
  static constexpr int kGranule = kBits == 0 ? 1 << 20 : 1 << kBase;
  __host__ __device__ static constexpr uint32_t swizzle(uint32_t offset) {
    if constexpr (kBits == 0) {
      return offset;
    } else {
      return static_cast<uint32_t>(cute::Swizzle<kBits, kBase, kShift>::apply(offset));
    }
  }
};

template <class Layout>
inline constexpr int size_of = Mode<typename LayoutParts<Layout>::Linear>::kSize;

// An element offset in two parts. Added to a pointer one after the other, the constant becomes the immediate operand
// of the memory instruction, and the thread's part one address register shared by many accesses.
struct SplitOffset {
  uint32_t of_thread;
  uint32_t constant;
  __host__ __device__ constexpr uint32_t value() const { return of_thread + constant; }
};

template <class T>
__host__ __device__ constexpr T* operator+(T* base, SplitOffset offset) {
  return base + offset.of_thread + offset.constant;
}

// The swizzled offset start + moved of a layout: `moved` stays outside the swizzle where that makes no difference.
template <class Parts>
__host__ __device__ constexpr SplitOffset swizzled(uint32_t start, uint32_t moved) {
  if (moved % Parts::kPeriod == 0) return {Parts::swizzle(start), moved};
  return {Parts::swizzle(start + moved), 0};
}

// How a vector of kVector consecutive linear indices lies in memory.
enum class Access {
  kContiguous,  // at kVector consecutive, aligned elements
  kBroadcast,   // all at the same element
  kGather       // anywhere
};

template <class Layout, int kVector>
__host__ __device__ constexpr Access access_of() {
  using Parts = LayoutParts<Layout>;
  using Whole = Mode<typename Parts::Linear>;
  if (kVector == 1 || Whole::kFirstExtent % kVector != 0) return Access::kGather;
  if (Whole::kFirstStride == 0) return Access::kBroadcast;
  const bool is_aligned = Whole::kModes.strides_divisible_by(kVector, 1) && Parts::kOffset % kVector == 0;
  if (Whole::kFirstStride == 1 && is_aligned && Parts::kGranule % kVector == 0) return Access::kContiguous;
  return Access::kGather;
}

// Thread t of kThreads owns the vectors t, t + kThreads, t + 2 kThreads, ... of kVector linear indices each.
// `(round, element)` is the offset of an element of the vector t + round * kThreads. Where the layout splits at
// kThreads * kVector, the part that depends on the thread is computed once and `round` only adds a constant.
template <int kThreads, int kVector, class Layout>
class VectorOffsets {
  using Parts = LayoutParts<Layout>;
  using Whole = Mode<typename Parts::Linear>;
  static constexpr int kStep = kThreads * kVector;
  static constexpr bool kSplits = (Whole::kSize <= kStep || Whole::template splits_at<kStep>) &&
                                  (Whole::kRank <= 1 || Whole::kFirstExtent % kVector == 0);

 public:
  // `addend` is added before the swizzle: the offset of a slice of a larger layout.
  __host__ __device__ constexpr explicit VectorOffsets(int thread, uint32_t addend = 0)
      : thread_(static_cast<uint32_t>(thread)),
        start_(Parts::kOffset + addend + (kSplits ? Whole::at(static_cast<uint32_t>(thread) * kVector) : 0u)) {}

  __host__ __device__ constexpr SplitOffset operator()(int round, int element = 0) const {
    if constexpr (kSplits) {
      return swizzled<Parts>(start_, Whole::at(static_cast<uint32_t>(round) * kStep) + element * Whole::kFirstStride);
    } else {
      const uint32_t vector = thread_ + static_cast<uint32_t>(round) * kThreads;
      return {Parts::swizzle(start_ + Whole::at(vector * kVector + element)), 0};
    }
  }

 private:
  uint32_t thread_;
  uint32_t start_;
};

// The linear partition: kSize indices in vectors of kVector, dealt to kThreads threads in rounds.
template <int kThreads, int kVector, int kSize>
struct LinearPartition {
  static_assert(kThreads >= 1 && kThreads <= 1024, "a block has 1 to 1024 threads");
  static_assert(kVector >= 1 && (kVector & (kVector - 1)) == 0, "kVector must be a power of two");
  static_assert(kSize % kVector == 0, "the number of elements must be a multiple of kVector; print kVector 1 instead");
  static constexpr int kVectors = kSize / kVector;
  static constexpr int kRounds = ceil_div(kVectors, kThreads);

  __host__ __device__ static constexpr bool owns(int thread, int round) {
    return (round + 1) * kThreads <= kVectors || thread + round * kThreads < kVectors;
  }

  // Calls function(i) for those of the rounds first + i, i < kBatch, in which the thread owns a vector.
  template <int kBatch, class Function>
  static __device__ __forceinline__ void each_owned(int thread, int first, Function const& function) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i < kRounds && owns(thread, first + i)) function(i);
    }
  }
};

}  // namespace mugraph
