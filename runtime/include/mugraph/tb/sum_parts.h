// Sums of partial sums that lie side by side in shared memory: what warps along k hold of a product.
//
// Part p of kParts begins kPartStride elements behind part p - 1, counted before the swizzle. PartLayout is the layout
// of part 0 and congruent with DstLayout, mode 0 innermost. Thread t adds the vectors t, t + kThreads, ... of kVector
// consecutive indices, part by part from the first, so that results are the same bits each time.
#pragma once

#include "../ops.h"
#include "../vector_access.h"

namespace mugraph {
namespace tb {

template <class Epilogue, int kThreads, int kVector, class DstLayout, class PartLayout, int kParts, int kPartStride>
struct SumParts {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  using Parts = LayoutParts<PartLayout>;
  static_assert(size_of<PartLayout> == size_of<DstLayout>, "every part must have the destination's number of elements");
  static_assert(access_of<PartLayout, kVector>() != Access::kContiguous || kPartStride % kVector == 0,
                "parts must begin at whole vectors");
  static constexpr int kValues = Partition::kRounds * kVector;
  // So many parts are read before they are added.
  static constexpr int kBatch = ceil_div(32, kVector);

  // dst = Epilogue(sum)
  template <class D, class S>
  static __device__ __forceinline__ void store(D* dst, int thread, S const* parts) {
    run<false>(dst, thread, parts);
  }

  // dst = dst + Epilogue(sum)
  template <class D, class S>
  static __device__ __forceinline__ void update(D* dst, int thread, S const* parts) {
    run<true>(dst, thread, parts);
  }

  // acc += Epilogue(sum), acc in registers. DstLayout only gives the number of elements.
  template <class Sum, class S>
  static __device__ __forceinline__ void accumulate(Sum (&acc)[kValues], int thread, S const* parts) {
#pragma unroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (Partition::owns(thread, round)) {
        Sum sums[kVector];
        add(sums, thread, round, parts);
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          Sum& total = acc[round * kVector + i];
          total = plus(total, Epilogue::apply(sums[i]));
        }
      }
    }
  }

 private:
  template <bool kUpdate, class D, class S>
  static __device__ __forceinline__ void run(D* dst, int thread, S const* parts) {
    using N = Number<D, S>;
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
#pragma unroll 1
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (Partition::owns(thread, round)) {
        N results[kVector];
        add(results, thread, round, parts);
#pragma unroll
        for (int i = 0; i < kVector; ++i) results[i] = Epilogue::apply(results[i]);
        if constexpr (kUpdate) {
          N totals[kVector];
          load_vector<DstLayout, kVector>(dst, dst_offsets, round, totals);
#pragma unroll
          for (int i = 0; i < kVector; ++i) results[i] = plus(totals[i], results[i]);
        }
        store_vector<DstLayout, kVector>(dst, dst_offsets, round, results);
      }
    }
  }

  template <class N, class S>
  static __device__ __forceinline__ void add(N (&sums)[kVector], int thread, int round, S const* parts) {
#pragma unroll
    for (int first = 0; first < kParts; first += kBatch) {
      N values[kBatch][kVector];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (first + i < kParts) load_part(values[i], thread, round, parts, first + i);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (first + i < kParts) {
#pragma unroll
          for (int e = 0; e < kVector; ++e) sums[e] = first + i == 0 ? values[i][e] : plus(sums[e], values[i][e]);
        }
      }
    }
  }

  // Where parts lie whole periods of the swizzle apart, all of them share one offset.
  template <class N, class S>
  static __device__ __forceinline__ void load_part(N (&values)[kVector], int thread, int round, S const* parts,
                                                   int part) {
    if constexpr (kPartStride % Parts::kPeriod == 0) {
      const VectorOffsets<kThreads, kVector, PartLayout> offsets(thread);
      load_vector<PartLayout, kVector>(parts + part * kPartStride, offsets, round, values);
    } else {
      const VectorOffsets<kThreads, kVector, PartLayout> offsets(thread, part * kPartStride);
      load_vector<PartLayout, kVector>(parts, offsets, round, values);
    }
  }
};

}  // namespace tb
}  // namespace mugraph
