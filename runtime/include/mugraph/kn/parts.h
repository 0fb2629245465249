// Kernels of the runtime as parts of a launch: what each thread does, so that several of them can be one kernel.
//
// A part has kElements elements, which its threads move or compute in vectors of kVector elements where is_wide says that
// all pointers are aligned for them, otherwise one by one; run<kLength>(i) is vector i of that length. Parts of one launch
// run side by side: none may read what another one writes.
#pragma once

#include "../arch/grid_dependency.h"
#include "../launch.h"
#include "group_sum.h"

namespace mugraph {
namespace kn {

inline constexpr int kPartThreads = 256;

template <int kLength, class Part>
__device__ __forceinline__ void run_block(Part const& part, int block) {
  const long long vector = static_cast<long long>(block) * kPartThreads + threadIdx.x;
  if (vector < Part::kElements / kLength) part.template run<kLength>(static_cast<int>(vector));
}

template <class Part>
__host__ __device__ __forceinline__ int blocks_of(Part const& part) {
  return ceil_div(Part::kElements / (part.is_wide ? Part::kVector : 1), kPartThreads);
}

// The same of the length that the part's pointers allow.
template <class Part>
__device__ __forceinline__ void run_block_of(Part const& part, int block) {
  if (part.is_wide) {
    run_block<Part::kVector>(part, block);
  } else {
    run_block<1>(part, block);
  }
}

// Runs a block of a part, unless it is behind that part's blocks; returns its number among the blocks behind.
template <class Part>
__device__ __forceinline__ int run_if_of(Part const& part, int block) {
  const int blocks = blocks_of(part);
  if (block >= 0 && block < blocks) run_block_of(part, block);
  return block - blocks;
}

template <int kLength, class Part>
__global__ void __launch_bounds__(kPartThreads) part_kernel(Part part) {
  tb::grid_launch();
  tb::grid_wait();
  run_block<kLength>(part, static_cast<int>(blockIdx.x));
}

template <class... Parts>
__global__ void __launch_bounds__(kPartThreads) parts_kernel(Parts... parts) {
  tb::grid_launch();
  tb::grid_wait();
  int block = static_cast<int>(blockIdx.x);
  ((block = run_if_of(parts, block)), ...);
}

// One part as a kernel of its own, on `queue`. Throws std::runtime_error where the launch fails.
template <class Part>
void launch_part(char const* name, Queue queue, Part part) {
  const dim3 grid(static_cast<unsigned>(blocks_of(part)));
  if (part.is_wide) {
    launch(name, part_kernel<Part::kVector, Part>, grid, dim3(kPartThreads), 0, queue, part);
  } else {
    launch(name, part_kernel<1, Part>, grid, dim3(kPartThreads), 0, queue, part);
  }
}

// Several parts as one kernel, on `queue`. Throws std::runtime_error where the launch fails.
template <class... Parts>
void launch_parts(Queue queue, Parts... parts) {
  const dim3 grid(static_cast<unsigned>((blocks_of(parts) + ...)));
  launch("kn::launch_parts", parts_kernel<Parts...>, grid, dim3(kPartThreads), 0, queue, parts...);
}

}  // namespace kn
}  // namespace mugraph
