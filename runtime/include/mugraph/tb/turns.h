// The order of roles that take blocks of the grid in turn: kTurns mbarriers, one for each role.
//
// The n-th block of the grid that a block takes is that of the role n % kTurns, as its block n / kTurns, `round`. The
// end of phase n / kTurns of mbarrier (n + 1) % kTurns lets the role of block n + 1 go on.
#pragma once

#include "../arch/bulk_copy.h"

namespace mugraph {
namespace tb {

template <int kTurns>
struct Turns {
  uint64_t* const barriers;

  __device__ __forceinline__ explicit Turns(void* barriers) : barriers(static_cast<uint64_t*>(barriers)) {}

  // By one thread, before a barrier of the block. `warps` pass each turn.
  __device__ __forceinline__ void init(int warps) const {
    for (int turn = 0; turn < kTurns; ++turn) mbarrier_init(barriers + turn, warps);
    mbarrier_init_fence();
  }

  // All threads of a role wait for the one before; nobody is before the first block.
  __device__ __forceinline__ void await(int turn, int round) const {
    if (turn > 0) {
      mbarrier_wait(barriers + turn, round % 2);
    } else if (round > 0) {
      mbarrier_wait(barriers, (round - 1) % 2);
    }
  }

  // The calling warp of this role lets the next one go on.
  __device__ __forceinline__ void pass(int turn, int thread) const {
    __syncwarp();
    if (thread % 32 == 0) mbarrier_arrive(barriers + (turn + 1) % kTurns);
  }
};

}  // namespace tb
}  // namespace mugraph
