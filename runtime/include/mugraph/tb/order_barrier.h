// The order barrier of ping-pong roles: kRoles mbarriers, one for each role.
//
// Work tile n of a block is that of the role n % kRoles, as its work tile n / kRoles, `round`. The end of phase
// n / kRoles of mbarrier (n + 1) % kRoles lets the role of work tile n + 1 go on.
#pragma once

#include "../arch/bulk_copy.h"

namespace mugraph {
namespace tb {

template <int kRoles>
struct OrderBarrier {
  uint64_t* const barriers;

  __device__ __forceinline__ explicit OrderBarrier(void* barriers) : barriers(static_cast<uint64_t*>(barriers)) {}

  // By one thread, before a barrier of the block. `warps` arrive in each phase.
  __device__ __forceinline__ void init(int warps) const {
    for (int role = 0; role < kRoles; ++role) mbarrier_init(barriers + role, warps);
    mbarrier_init_fence();
  }

  // All threads of a role wait for the one before; nobody is before the first work tile.
  __device__ __forceinline__ void wait(int role, int round) const {
    if (role > 0) {
      mbarrier_wait(barriers + role, round % 2);
    } else if (round > 0) {
      mbarrier_wait(barriers, (round - 1) % 2);
    }
  }

  // The calling warp of this role lets the next one go on.
  __device__ __forceinline__ void arrive(int role, int thread) const {
    __syncwarp();
    if (thread % 32 == 0) mbarrier_arrive(barriers + (role + 1) % kRoles);
  }
};

}  // namespace tb
}  // namespace mugraph
