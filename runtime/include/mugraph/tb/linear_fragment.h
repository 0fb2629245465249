// A tile of floats in the registers of a block, in the linear partition that Elementwise::accumulate fills.
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

  static __device__ __forceinline__ void clear(float (&acc)[kValues]) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) acc[i] = 0.0f;
  }

  // dst = Epilogue(acc), rounded to nearest.
  template <class Epilogue, class D>
  static __device__ __forceinline__ void store(D* dst, float const (&acc)[kValues], int thread) {
    const VectorOffsets<kThreads, kVector, DstLayout> dst_offsets(thread);
#pragma unroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (Partition::owns(thread, round)) {
        float values[kVector];
#pragma unroll
        for (int i = 0; i < kVector; ++i) values[i] = Epilogue::apply(acc[round * kVector + i]);
        store_vector<DstLayout, kVector>(dst, dst_offsets, round, values);
      }
    }
  }
};

// total += Epilogue(part), value by value: adds one iteration's fragment to the running one.
template <class Epilogue, int kValues>
__device__ __forceinline__ void accumulate(float (&total)[kValues], float const (&part)[kValues]) {
#pragma unroll
  for (int i = 0; i < kValues; ++i) total[i] += Epilogue::apply(part[i]);
}

}  // namespace tb
}  // namespace mugraph
