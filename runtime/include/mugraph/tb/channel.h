// A channel between roles of a block: a ring of kStages stages of shared memory, each with two mbarriers.
//
// The tiles of iteration k go through stage k % kStages. *full* ends a phase when the producer has published the stage
// and its bytes have come, *empty* when every consuming warp has released it. Phases of an mbarrier alternate in parity,
// from 0 on: the stage of iteration k is full at the end of phase k / kStages.
#pragma once

#include "../arch/bulk_copy.h"
#include "stage.h"

namespace mugraph {
namespace tb {

// kBlocks blocks of a cluster that fill each other's stages release them in all of them.
template <int kStages, int kBlocks = 1>
struct Channel {
  uint64_t* const full_barriers;

  __device__ __forceinline__ explicit Channel(void* barriers) : full_barriers(static_cast<uint64_t*>(barriers)) {}

  // By one thread, before a barrier of the block. `warps` release each stage.
  __device__ __forceinline__ void init(int warps) const {
    for (int stage = 0; stage < kStages; ++stage) {
      mbarrier_init(full_barriers + stage, 1);
      mbarrier_init(full_barriers + kStages + stage, warps > 0 ? warps * kBlocks : 1);
    }
    mbarrier_init_fence();
  }

  // By a warp, once no thread uses it: the memory may hold something else.
  __device__ __forceinline__ void end(int lane) const {
    for (int barrier = lane; barrier < 2 * kStages; barrier += 32) mbarrier_invalidate(full_barriers + barrier);
  }

  __device__ __forceinline__ uint64_t* full(Stage<kStages> stage) const { return full_barriers + stage.index(); }
  __device__ __forceinline__ uint64_t* empty(Stage<kStages> stage) const { return full(stage) + kStages; }

  // Producer: what was in the stage before has been read. A new mbarrier has ended a phase of parity 1 already.
  __device__ __forceinline__ void acquire(Stage<kStages> stage) const {
    mbarrier_wait(empty(stage), stage.parity() ^ 1);
  }

  // Producer: the stage is full once `bytes` have come.
  __device__ __forceinline__ void publish(Stage<kStages> stage, uint32_t bytes) const {
    mbarrier_arrive_expect(full(stage), bytes);
  }

  // Consumer: waits until the stage is full.
  __device__ __forceinline__ void consume(Stage<kStages> stage) const { mbarrier_wait(full(stage), stage.parity()); }

  // Consumer: the calling warp has read the stage.
  __device__ __forceinline__ void release(Stage<kStages> stage, int thread) const {
    __syncwarp();
    if constexpr (kBlocks > 1) {
      if (thread % 32 < kBlocks) mbarrier_arrive_at(empty(stage), thread % 32);
    } else {
      if (thread % 32 == 0) mbarrier_arrive(empty(stage));
    }
  }
};

}  // namespace tb
}  // namespace mugraph
