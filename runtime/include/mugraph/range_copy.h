// Copies a range of another device's memory in a kernel. Where multiprocessors have nothing else to do it is there sooner
// than by a copy engine, which begins some microseconds after what stands before it.
#pragma once

#include "arch/grid_dependency.h"
#include "launch.h"

namespace mugraph {

inline constexpr int kRangeCopyThreads = 512;

// `count` pieces of 16 bytes. What lies behind a link takes long to come, so a thread loads several of them before it
// stores the first.
__global__ void __launch_bounds__(kRangeCopyThreads)
    range_copy_kernel(uint4* to, uint4 const* from, unsigned long long count) {
  constexpr int kAtOnce = 4;
  tb::grid_launch();
  tb::grid_wait();
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * kRangeCopyThreads;
  const unsigned long long first = static_cast<unsigned long long>(blockIdx.x) * kRangeCopyThreads + threadIdx.x;
  for (unsigned long long at = first; at < count; at += kAtOnce * step) {
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

// Copies `bytes`, a multiple of 16, between addresses that are multiples of 16, in so many blocks. Throws
// std::runtime_error where the launch fails.
inline void range_copy(Queue queue, void* to, void const* from, unsigned long long bytes, int blocks) {
  launch("mugraph::range_copy", range_copy_kernel, dim3(blocks), dim3(kRangeCopyThreads), 0, queue,
         static_cast<uint4*>(to), static_cast<uint4 const*>(from), bytes / sizeof(uint4));
}

}  // namespace mugraph
