// Meets the other devices, and copies ranges of their memory and of this one's, in one kernel: at the end of a program,
// where multiprocessors have nothing else to do. A copy engine would begin some microseconds behind the meeting, and what
// follows some more behind the copy.
#pragma once

#include "meet.h"

namespace mugraph {

// Ranges at most.
inline constexpr int kMostRanges = 32;
inline constexpr int kGatherThreads = 512;

// Ranges of whole 16 bytes; those of other devices are first.
struct Ranges {
  uint4* to[kMostRanges];
  uint4 const* from[kMostRanges];
  unsigned long long count[kMostRanges];
};

// This block's share of a range, of so many blocks. What lies behind a link takes long to come, so a thread loads several
// elements before it stores the first of them.
__device__ __forceinline__ void copy_share(Ranges const& ranges, int range, unsigned block, unsigned blocks) {
  constexpr int kAtOnce = 4;
  uint4* const to = ranges.to[range];
  uint4 const* const from = ranges.from[range];
  const unsigned long long count = ranges.count[range], step = 1ull * blocks * kGatherThreads;
  for (unsigned long long at = 1ull * block * kGatherThreads + threadIdx.x; at < count; at += kAtOnce * step) {
    uint4 held[kAtOnce];
#pragma unroll
    for (int number = 0; number < kAtOnce; ++number) {
      if (at + number * step < count) held[number] = from[at + number * step];
    }
#pragma unroll
    for (int number = 0; number < kAtOnce; ++number) {
      if (at + number * step < count) to[at + number * step] = held[number];
    }
  }
}

// The first `far_blocks` blocks meet the others, each for itself, and copy the first `far` ranges; the rest copy the other
// ranges meanwhile. Behind this device's count there is, in its memory, the number of blocks that have read it: the last
// of them counts the meeting, and leaves zero.
__global__ void __launch_bounds__(kGatherThreads)
    gather_kernel(Member own, Ranges ranges, int far, int all, unsigned far_blocks) {
  tb::grid_launch();
  tb::grid_wait();
  if (blockIdx.x >= far_blocks) {
    for (int range = far; range < all; ++range) {
      copy_share(ranges, range, blockIdx.x - far_blocks, gridDim.x - far_blocks);
    }
    return;
  }
  const int other = static_cast<int>(threadIdx.x);
  const unsigned count = *own.met + 1;
  if (other < own.members && other != own.place) meet_other(own, other, count);
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(own.met + 1, 1u) == far_blocks - 1) {
    own.met[1] = 0;
    own.met[0] = count;
  }
  // Blocks begin with different ranges, so that every device is read by all others at all times, and no link is asked for
  // more than its share.
  for (int turn = 0; turn < far; ++turn) {
    copy_share(ranges, static_cast<int>((blockIdx.x + turn) % far), blockIdx.x, far_blocks);
  }
}

// Meets as `own`, behind whose count there is a number that is zero, and copies `far` ranges of other devices and `near`
// ones of this: `addresses` are, for each, where it goes and where it is, `sizes` its bytes, whole 16 of them. Throws
// std::runtime_error where the launch fails.
inline void gather(Queue queue, Member own, void* const* addresses, unsigned long long const* sizes, int far, int near,
                   int multiprocessors) {
  if (far + near > kMostRanges) {
    throw std::runtime_error("mugraph: " + std::to_string(far + near) + " ranges to copy; at most " +
                             std::to_string(kMostRanges) + " are copied at once.");
  }
  Ranges ranges{};
  for (int range = 0; range < far + near; ++range) {
    ranges.to[range] = static_cast<uint4*>(addresses[2 * range]);
    ranges.from[range] = static_cast<uint4 const*>(addresses[2 * range + 1]);
    ranges.count[range] = sizes[range] / sizeof(uint4);
  }
  const int far_blocks = multiprocessors / 2 + 1, near_blocks = near > 0 ? multiprocessors : 0;
  launch("mugraph::gather", gather_kernel, dim3(far_blocks + near_blocks), dim3(kGatherThreads), 0, queue, own, ranges,
         far, far + near, far_blocks);
}

}  // namespace mugraph
