// Requests for device memory in the second-level cache (sm_90): hints, for which nothing waits.
#pragma once

namespace mugraph {
namespace tb {

// Of `bytes` from `begin` on, both multiples of 16; none if there are none. Source: PTX ISA, "cp.async.bulk.prefetch".
__device__ __forceinline__ void prefetch([[maybe_unused]] void const* begin, [[maybe_unused]] int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (bytes > 0) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(begin), "r"(bytes) : "memory");
#endif
}

}  // namespace tb
}  // namespace mugraph
