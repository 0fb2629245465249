// A constant in place of the elements of a ragged tile that do not exist.
//
// The value kept of an index is the source's where it exists, and the fp32 number of bits kBits elsewhere; then comes
// the Epilogue. Layouts and the mapping of threads are those of Elementwise.
#pragma once

#include "../ops.h"
#include "../ragged.h"
#include "../vector_access.h"
#include "places.h"

namespace mugraph {
namespace tb {

template <uint32_t kBits, class Epilogue, int kThreads, int kVector, class DstLayout, class SrcLayout, class... Dims>
struct Mask {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  static_assert(size_of<DstLayout> == size_of<SrcLayout>, "source and destination must have equally many elements");
  static constexpr int kValues = Partition::kRounds * kVector;
  static constexpr int kUnroll = kValues <= 64 ? Partition::kRounds : 1;

  // dst = Epilogue(masked src)
  template <class D, class S, class... Counts>
  static __device__ __forceinline__ void store(D* dst, int thread, S const* src, Counts... existing) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    using N = Number<D, S>;
    each<kUnroll, N>(src, thread, Within<Dims...>(existing...), [&](int round, N const(&values)[kVector]) {
      store_vector<DstLayout, kVector>(dst, dst_offsets, round, values);
    });
  }

  // dst = dst + Epilogue(masked src): an accumulator in shared memory.
  template <class D, class S, class... Counts>
  static __device__ __forceinline__ void update(D* dst, int thread, S const* src, Counts... existing) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
    using N = Number<D, S>;
    each<kUnroll, N>(src, thread, Within<Dims...>(existing...), [&](int round, N const(&values)[kVector]) {
      N totals[kVector];
      load_vector<DstLayout, kVector>(dst, dst_offsets, round, totals);
#pragma unroll
      for (int i = 0; i < kVector; ++i) totals[i] = plus(totals[i], values[i]);
      store_vector<DstLayout, kVector>(dst, dst_offsets, round, totals);
    });
  }

  // acc += Epilogue(masked src), acc in registers. DstLayout only gives the number of elements.
  template <class Sum, class S, class... Counts>
  static __device__ __forceinline__ void accumulate(Sum (&acc)[kValues], int thread, S const* src,
                                                    Counts... existing) {
    each<Partition::kRounds, Sum>(src, thread, Within<Dims...>(existing...),
                                  [&](int round, Sum const(&values)[kVector]) {
#pragma unroll
                                    for (int i = 0; i < kVector; ++i) {
                                      Sum& sum = acc[round * kVector + i];
                                      sum = plus(sum, values[i]);
                                    }
                                  });
  }

 private:
  template <int kUnrolled, class N, class S, class Function>
  static __device__ __forceinline__ void each(S const* src, int thread, Within<Dims...> const& within,
                                              Function const& function) {
    const VectorOffsets<kThreads, kVector, SrcLayout> src_offsets(thread);
#pragma unroll kUnrolled
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (!Partition::owns(thread, round)) continue;
      const int count = within.template count<kVector>(static_cast<uint32_t>(thread + round * kThreads) * kVector);
      N values[kVector];
      load_vector<SrcLayout, kVector>(src, src_offsets, round, values);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        values[i] = Epilogue::apply(i < count ? values[i] : static_cast<N>(__uint_as_float(kBits)));
      }
      function(round, values);
    }
  }
};

// The same of what threads hold of a product, the fragment's: elements of the first rows and columns exist, and those
// are kept of which all conditions hold.
template <uint32_t kBits, class Fragment>
struct MaskFragment {
  template <class T, class... Conditions>
  static __device__ __forceinline__ void store(T (&dst)[Fragment::kValues], T const (&src)[Fragment::kValues],
                                               int thread, int rows, int columns, Conditions... conditions) {
#pragma unroll
    for (int i = 0; i < Fragment::kValues; ++i) dst[i] = src[i];
    // Tiles before the last one are whole, and of most tiles a condition holds everywhere.
    const bool has_rows = rows >= Fragment::kRows, has_columns = columns >= Fragment::kColumns;
    const bool is_whole = has_rows && has_columns;
    if (is_whole && (conditions.template holds_everywhere<Fragment::kRows, Fragment::kColumns>() && ...)) return;
    using Atom = typename Fragment::Instruction;
    // The thread's first place, from which all others are constants apart.
    const int top = Fragment::row_of(thread, 0, 0), left = Fragment::column_of(thread, 0, 0);
#pragma unroll Fragment::kUnrollM
    for (int i = 0; i < Fragment::kTilesM; ++i) {
#pragma unroll Fragment::kUnrollN
      for (int j = 0; j < Fragment::kTilesN; ++j) {
#pragma unroll
        for (int c = 0; c < Atom::kValues; ++c) {
          const int row = top + Fragment::row_of(0, i, c), column = left + Fragment::column_of(0, j, c);
          const bool exists = (has_rows || row < rows) && (has_columns || column < columns);
          const bool is_kept = exists && (conditions.holds(row, column) && ...);
          T& value = dst[(i * Fragment::kTilesN + j) * Atom::kValues + c];
          if (!is_kept) value = static_cast<T>(__uint_as_float(kBits));
        }
      }
    }
  }
};

}  // namespace tb
}  // namespace mugraph
