// cp.async: copies from global to shared memory that pass through no register and land when waited for (sm_80).
//
// A thread's copies since its last commit_group() are one group. wait_group<N>() returns when at most N of the
// calling thread's newest groups are still in flight; a barrier makes them visible to the other threads.
#pragma once

#include "cute.h"

namespace mugraph {

// kBytes is 4, 8 or 16; both addresses are multiples of kBytes. 16-byte copies do not allocate in the L1 cache.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared_target, void const* global_source) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if constexpr (kBytes == 16) {
    cute::SM80_CP_ASYNC_CACHEGLOBAL<uint4>::copy(*static_cast<uint4 const*>(global_source),
                                                 *static_cast<uint4*>(shared_target));
  } else if constexpr (kBytes == 8) {
    cute::SM80_CP_ASYNC_CACHEALWAYS<uint2>::copy(*static_cast<uint2 const*>(global_source),
                                                 *static_cast<uint2*>(shared_target));
  } else {
    cute::SM80_CP_ASYNC_CACHEALWAYS<uint32_t>::copy(*static_cast<uint32_t const*>(global_source),
                                                    *static_cast<uint32_t*>(shared_target));
  }
}

// As copy_async where `exists`; zeros otherwise, and the source is not read.
template <int kBytes>
__device__ __forceinline__ void copy_async_or_zero(void* shared_target, void const* global_source, bool exists) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if constexpr (kBytes == 16) {
    cute::SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint4>::copy(*static_cast<uint4 const*>(global_source),
                                                       *static_cast<uint4*>(shared_target), exists);
  } else if constexpr (kBytes == 8) {
    cute::SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint2>::copy(*static_cast<uint2 const*>(global_source),
                                                       *static_cast<uint2*>(shared_target), exists);
  } else {
    cute::SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint32_t>::copy(*static_cast<uint32_t const*>(global_source),
                                                          *static_cast<uint32_t*>(shared_target), exists);
  }
}

namespace tb {

__device__ __forceinline__ void commit_group() { cute::cp_async_fence(); }

template <int kInFlight>
__device__ __forceinline__ void wait_group() {
  cute::cp_async_wait<kInFlight>();
}

}  // namespace tb
}  // namespace mugraph
