// Programmatic dependent launch (sm_90): kernels that start while the one before them in the stream still runs.
//
// grid_wait() returns when all kernels before this one in the stream are complete and what they wrote is seen; at once
// in a kernel that was launched in the ordinary way, and before sm_90. grid_launch() lets the blocks of the next kernel
// start once all blocks of this one have called it or ended, if it was launched with mugraph::overlapping(stream).
//
// In every block of a kernel that is launched so some thread must call grid_wait(), even if nothing depends on it:
// otherwise this kernel could be complete, for the one after it, while one before it still runs.
#pragma once

namespace mugraph {
namespace tb {

__device__ __forceinline__ void grid_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#elif defined(MUGRAPH_GRID_WAIT)
  MUGRAPH_GRID_WAIT();
#endif
}

__device__ __forceinline__ void grid_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#elif defined(MUGRAPH_GRID_LAUNCH)
  MUGRAPH_GRID_LAUNCH();
#endif
}

}  // namespace tb
}  // namespace mugraph
