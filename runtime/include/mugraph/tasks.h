// Several kernels as one persistent kernel, whose blocks take those of all kernels as tasks, in an order that was fixed
// when they were compiled. Counters in device memory say how many tasks of each launch are done.
//
// All blocks must run at once: launch_program launches cooperatively, which fails where they cannot. It sets the
// counters to zero before, so that a CUDA graph of a call can be replayed. Counters only grow; whoever waits for all
// tasks of a launch sees what these have written, by loads and by bulk copies.
#pragma once

#include "arch/async_copy.h"
#include "arch/bulk_copy.h"
#include "launch.h"

namespace mugraph {
namespace tb {

// An operator: what its tasks do, with which operands, how many tasks there are, which block of the persistent kernel
// has the first one, and which counts they wait for: from `awaits` up to `end`.
struct Step {
  int kind, operands, tasks, first, awaits, end;
};
struct Count {
  int step;
  unsigned tasks;
};

// What others have written or read in device memory, as far as the thread knows of it, comes before bulk copies that the
// thread issues.
__device__ __forceinline__ void fence_of_bulk_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
}

// What happened before the tasks that have been counted is seen from here on. (A relaxed load and a fence behind it took
// longer on an H200.)
__device__ __forceinline__ unsigned acquire_count(unsigned const* counter) {
#if defined(__CUDA_ARCH__)
  unsigned count;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
  return count;
#elif defined(MUGRAPH_ACQUIRE_COUNT)
  return MUGRAPH_ACQUIRE_COUNT(counter);
#else
  return *counter;
#endif
}

__device__ __forceinline__ void count_task(unsigned* counter) {
#if defined(__CUDA_ARCH__)
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
#else
  ++*counter;
#endif
}

// The first task of a block in a step; the next one is as many behind as there are blocks.
__device__ __forceinline__ int first_task(Step const& step) {
  const int behind = static_cast<int>(blockIdx.x) - step.first;
  return behind < 0 ? behind + static_cast<int>(gridDim.x) : behind;
}

// The named barrier of all threads of a task; roles have those from 1 on.
inline constexpr int kTaskBarrier = 15;

// A task: which step it is of, and what it waits for.
struct Task {
  unsigned* counters;
  int step;
  Count const* first;
  Count const* end;

  // By every thread of a role that touches what others write: until all that the task needs is done.
  __device__ __forceinline__ void wait() const {
    for (Count const* each = first; each != end; ++each) {
      while (acquire_count(counters + each->step) < each->tasks) {
      }
    }
    fence_of_bulk_copies();
  }

  // By all threads of the task: one of them looks, so that counters are not asked by all warps of all blocks.
  __device__ __forceinline__ void wait_together(int threads) const {
    if (threadIdx.x == 0) wait();
    named_barrier(kTaskBarrier, threads);
  }

  // By all threads of the task: it is done. Others of the block may go on with the next one behind a barrier.
  __device__ __forceinline__ void count(int threads) const {
    commit_group();
    wait_group<0>();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    complete_bulk_stores();
    // The next task may fill shared memory by bulk copies.
    proxy_fence();
#endif
    named_barrier(kTaskBarrier, threads);
    if (threadIdx.x == 0) count_task(counters + step);
  }
};

}  // namespace tb

// Launches a persistent kernel of `steps` steps, whose counters are in device memory. Throws std::runtime_error where
// the launch fails, as it does where not all blocks can run at once.
template <class Operands>
void launch_program(char const* name, void (*kernel)(Operands), int blocks, int threads, std::size_t smem_bytes,
                    cudaStream_t stream, int steps, Operands const& operands) {
  check(cudaMemsetAsync(operands.counters, 0, steps * sizeof(unsigned), stream), "setting counters to zero");
  launch(name, kernel, dim3(blocks), dim3(threads), smem_bytes, cooperative(stream), operands);
}

}  // namespace mugraph
