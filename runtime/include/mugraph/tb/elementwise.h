// Element-wise operations of a block on tiles: Op on one or more sources, then Epilogue, in fp32 (see numbers.h).
//
// All layouts are congruent over one iteration domain (mode 0 innermost); a broadcast source has stride 0 there.
// Thread t computes the vectors t, t + kThreads, ... of kVector consecutive indices. A source or destination that is
// contiguous along mode 0 is accessed a vector at a time, a broadcast source is read once per vector, anything else
// element by element. Results are rounded once, to nearest, when they are stored.
#pragma once

#include "../ops.h"
#include "../vector_access.h"

namespace mugraph {
namespace tb {

template <class Op, class Epilogue, int kThreads, int kVector, class DstLayout, class... SrcLayouts>
struct Elementwise {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  static_assert(((size_of<SrcLayouts> == size_of<DstLayout>) && ...),
                "every source must have the destination's number of elements; a broadcast source has stride 0");
  // Values that a thread holds in the linear partition: value round * kVector + i is element i of vector
  // thread + round * kThreads.
  static constexpr int kValues = Partition::kRounds * kVector;
  // Several vectors are read before the first of them is written: sources and destination could be the same memory
  // for all that the compiler knows, so it would not do it.
  static constexpr int kBatch = kVector >= 8 ? 2 : 4;
  static constexpr int kUnroll = kValues <= 64 ? ceil_div(Partition::kRounds, kBatch) : 1;

  // dst = Epilogue(Op(srcs...))
  template <class D, class... S>
  static __device__ __forceinline__ void store(D* dst, int thread, S const*... srcs) {
    using N = Number<D, S...>;
    const Sources sources(thread);
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
#pragma unroll kUnroll
    for (int first = 0; first < Partition::kRounds; first += kBatch) {
      N values[kBatch][kVector];
      Partition::template each_owned<kBatch>(
          thread, first, [&](int i) { sources.compute(values[i], first + i, srcs...); });
      Partition::template each_owned<kBatch>(
          thread, first, [&](int i) { store_vector<DstLayout, kVector>(dst, dst_offsets, first + i, values[i]); });
    }
  }

  // acc += Epilogue(Op(srcs...)), acc in registers. DstLayout only gives the number of elements.
  template <class Sum, class... S>
  static __device__ __forceinline__ void accumulate(Sum (&acc)[kValues], int thread, S const*... srcs) {
    const Sources sources(thread);
#pragma unroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (Partition::owns(thread, round)) {
        Sum values[kVector];
        sources.compute(values, round, srcs...);
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          Sum& sum = acc[round * kVector + i];
          sum = plus(sum, values[i]);
        }
      }
    }
  }

  // dst = dst + Epilogue(Op(srcs...)): an accumulator in shared memory, rounded to D at each call.
  template <class D, class... S>
  static __device__ __forceinline__ void update(D* dst, int thread, S const*... srcs) {
    using N = Number<D, S...>;
    const Sources sources(thread);
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
#pragma unroll kUnroll
    for (int first = 0; first < Partition::kRounds; first += kBatch) {
      N totals[kBatch][kVector];
      Partition::template each_owned<kBatch>(thread, first, [&](int i) {
        N values[kVector];
        sources.compute(values, first + i, srcs...);
        load_vector<DstLayout, kVector>(dst, dst_offsets, first + i, totals[i]);
#pragma unroll
        for (int e = 0; e < kVector; ++e) totals[i][e] = plus(totals[i][e], values[e]);
      });
      Partition::template each_owned<kBatch>(
          thread, first, [&](int i) { store_vector<DstLayout, kVector>(dst, dst_offsets, first + i, totals[i]); });
    }
  }

 private:
  // One source: its offsets and the vector read from it.
  template <class Layout>
  struct Source {
    VectorOffsets<kThreads, kVector, Layout> offsets;
    __device__ __forceinline__ explicit Source(int thread) : offsets(thread) {}
  };

  // Distinguishes sources of equal layout.
  template <int kIndex, class Layout>
  struct Indexed : Source<Layout> {
    using Source<Layout>::Source;
  };

  template <class Indices, class... Layouts>
  struct SourceList;

  template <int... I, class... Layouts>
  struct SourceList<cute::integer_sequence<int, I...>, Layouts...> : Indexed<I, Layouts>... {
    __device__ __forceinline__ explicit SourceList(int thread) : Indexed<I, Layouts>(thread)... {}

    template <class N, class... S>
    __device__ __forceinline__ void compute(N (&results)[kVector], int round, S const*... srcs) const {
      static_assert(sizeof...(S) == sizeof...(Layouts), "one pointer for each source layout");
      N operands[sizeof...(Layouts)][kVector];
      (load_vector<Layouts, kVector>(srcs, static_cast<Indexed<I, Layouts> const&>(*this).offsets, round, operands[I]),
       ...);
#pragma unroll
      for (int i = 0; i < kVector; ++i) results[i] = Epilogue::apply(Op::apply(operands[I][i]...));
    }
  };

  using Sources = SourceList<cute::make_int_sequence<sizeof...(SrcLayouts)>, SrcLayouts...>;
};

}  // namespace tb
}  // namespace mugraph
