// dst(i) = value for every element of a layout, by all threads of a block. Padding is left alone.
//
// Thread t writes the vectors t, t + kThreads, ...; a vector is the widest of at most 16 bytes that the layout keeps
// contiguous. dst is aligned to 16 bytes.
#pragma once

#include "../vector_access.h"

namespace mugraph {

// The longest vector, a power of two up to kMax, that the layout holds contiguously and whose size divides its own.
template <class Layout, int kMax>
__host__ __device__ constexpr int widest_vector() {
  if constexpr (kMax == 1) {
    return 1;
  } else {
    if (size_of<Layout> % kMax == 0 && access_of<Layout, kMax>() == Access::kContiguous) return kMax;
    return widest_vector<Layout, kMax / 2>();
  }
}

namespace tb {

template <int kThreads, class Layout>
struct Fill {
  template <class D>
  static __device__ __forceinline__ void run(D* dst, float value, int thread) {
    constexpr int kVector = widest_vector<Layout, 16 / static_cast<int>(sizeof(D))>();
    using Partition = LinearPartition<kThreads, kVector, size_of<Layout>>;
    const VectorOffsets<kThreads, kVector, Layout> offsets(thread);
    float values[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = value;
#pragma unroll 8
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (Partition::owns(thread, round)) store_vector<Layout, kVector>(dst, offsets, round, values);
    }
  }
};

}  // namespace tb
}  // namespace mugraph
