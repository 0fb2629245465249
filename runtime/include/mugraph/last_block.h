// The last of several blocks to end goes on with what all of them have computed.
#pragma once

#include "kn/group_sum.h"

namespace mugraph {
namespace tb {

// Counts up to `blocks`, then from zero on again; returns the count before. What happened before the counts that came
// earlier is seen behind it.
__device__ __forceinline__ unsigned count_block(unsigned* counter, unsigned blocks) {
#if defined(__CUDA_ARCH__)
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(blocks - 1)
               : "memory");
  return before;
#else
  const unsigned before = *counter;
  *counter = before + 1 == blocks ? 0 : before + 1;
  return before;
#endif
}

// By all threads of a block that are left: whether it is the last of `blocks` blocks that count here. It then sees what
// the others have written, and its shared memory is free. The counter is zero before the first one counts, and again
// once all have.
__device__ __forceinline__ bool is_last(unsigned* counter, unsigned blocks) {
  MUGRAPH_STATIC_SHARED int last;
  __syncthreads();
  if (threadIdx.x == 0) last = count_block(counter, blocks) == blocks - 1;
  __syncthreads();
  return last != 0;
}

}  // namespace tb
}  // namespace mugraph
