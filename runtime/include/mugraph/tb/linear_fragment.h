// A tile of sums (float or int32_t) in the registers of a block, in the linear partition that Elementwise::accumulate fills.
//
// Value round * kVector + i of thread t is linear index (t + round * kThreads) * kVector + i of DstLayout.
#pragma once

#include "../vector_access.h"

namespace mugraph {
namespace tb {

template <int kThreads, int kVector, class DstLayout>
struct LinearFragment {
  using Partition = LinearPartition<kThreads, kVector, size_of<DstLayout>>;
  static constexpr int kValues = Partition::kRounds * kVector;

  template <class Sum>
  static __device__ __forceinline__ void clear(Sum (&acc)[kValues]) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) acc[i] = Sum(0);
  }

  // dst = Epilogue(acc), rounded to nearest.
  template <class Epilogue, class D, class Sum>
  static __device__ __forceinline__ void store(D* dst, Sum const (&acc)[kValues], int thread) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
#pragma unroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (Partition::owns(thread, round)) {
        using N = Number<D, Sum>;
        N values[kVector];
#pragma unroll
        for (int i = 0; i < kVector; ++i) values[i] = Epilogue::apply(static_cast<N>(acc[round * kVector + i]));
        store_vector<DstLayout, kVector>(dst, dst_offsets, round, values);
      }
    }
  }
};

}  // namespace tb
}  // namespace mugraph
