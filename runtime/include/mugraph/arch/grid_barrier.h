// Where all blocks of a kernel that was launched cooperatively wait for each other.
#pragma once

#if defined(__CUDACC__)
#include <cooperative_groups.h>
#endif

namespace mugraph {
namespace te {

// All threads of the grid come here before one goes on, and see what the others have done to device memory.
__device__ __forceinline__ void sync_grid() {
#if defined(__CUDACC__)
  cooperative_groups::this_grid().sync();
#else
  cluster_barrier();
#endif
}

}  // namespace te
}  // namespace mugraph
