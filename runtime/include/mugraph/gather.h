// Copies ranges of this device's memory and of others' in one kernel, at the end of a program, where multiprocessors have
// nothing else to do: it begins as soon as devices have met, where a copy engine waits for some microseconds.
#pragma once

#include <stdexcept>
#include <string>

#include "arch/grid_dependency.h"
#include "launch.h"

namespace mugraph {

// Ranges at most.
inline constexpr int kMostRanges = 64;
inline constexpr int kGatherThreads = 512;

// Ranges of whole 16 bytes.
struct Ranges {
  uint4* to[kMostRanges];
  uint4 const* from[kMostRanges];
  unsigned long long count[kMostRanges];
};

// The first `far` ranges are of other devices: so many blocks copy these, and the others the rest meanwhile. What lies
// behind a link takes long to come, so a thread loads several elements before it stores the first of them.
__global__ void __launch_bounds__(kGatherThreads) gather_kernel(Ranges ranges, int far, int all, int far_blocks) {
  constexpr int kAtOnce = 4;
  tb::grid_launch();
  tb::grid_wait();
  const bool is_far = static_cast<int>(blockIdx.x) < far_blocks;
  const unsigned long long blocks = is_far ? far_blocks : gridDim.x - far_blocks;
  const unsigned long long block = is_far ? blockIdx.x : blockIdx.x - far_blocks;
  const unsigned long long step = blocks * kGatherThreads;
  const int end = is_far ? far : all;
  for (int range = is_far ? 0 : far; range < end; ++range) {
    uint4* const to = ranges.to[range];
    uint4 const* const from = ranges.from[range];
    const unsigned long long count = ranges.count[range];
    for (unsigned long long at = block * kGatherThreads + threadIdx.x; at < count; at += kAtOnce * step) {
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
}

// Copies `far` ranges of other devices and `near` ones of this: `addresses` are, for each, where it goes and where it
// is, `sizes` its bytes, whole 16 of them. Throws std::runtime_error where the launch fails.
inline void gather(Queue queue, void* const* addresses, unsigned long long const* sizes, int far, int near,
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
  const int far_blocks = far > 0 ? multiprocessors : 0;
  const int near_blocks = near > 0 ? multiprocessors : 0;
  launch("mugraph::gather", gather_kernel, dim3(far_blocks + near_blocks), dim3(kGatherThreads), 0, queue, ranges, far,
         far + near, far_blocks);
}

}  // namespace mugraph
