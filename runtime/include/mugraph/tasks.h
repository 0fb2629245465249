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

// Writes by the usual way come before what bulk copies read and write that are issued behind the barrier or the release
// that follows, and the other way round.
__device__ __forceinline__ void fence_of_bulk_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async;" ::: "memory");
#endif
}

// Loads that acquire would throw away what the multiprocessor has cached, each time.
__device__ __forceinline__ unsigned look_at_count(unsigned const* counter) {
#if defined(__CUDA_ARCH__)
  unsigned count;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
  return count;
#elif defined(MUGRAPH_LOOK_AT_COUNT)
  return MUGRAPH_LOOK_AT_COUNT(counter);
#else
  return *counter;
#endif
}

// What was counted before is seen from here on.
__device__ __forceinline__ void acquire_counts() {
#if defined(__CUDA_ARCH__)
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
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
    look();
    fence_of_bulk_copies();
  }

  // By all threads of the task: one of them looks, so that counters are not asked by all warps of all blocks.
  __device__ __forceinline__ void wait_together(int threads) const {
    if (threadIdx.x == 0) look();
    named_barrier(kTaskBarrier, threads);
    fence_of_bulk_copies();
  }

  // By all threads of the task: it is done. Others of the block may go on with the next one behind a barrier.
  __device__ __forceinline__ void count(int threads) const {
    commit_group();
    wait_group<0>();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    complete_bulk_stores();
#endif
    fence_of_bulk_copies();
    named_barrier(kTaskBarrier, threads);
    if (threadIdx.x == 0) count_task(counters + step);
  }

  __device__ __forceinline__ void look() const {
    for (Count const* each = first; each != end; ++each) {
      while (look_at_count(counters + each->step) < each->tasks) {
      }
    }
    if (first != end) acquire_counts();
  }
};

}  // namespace tb

// Launches a persistent kernel of `steps` steps, whose counters are in device memory. Throws std::runtime_error where
// the launch fails, as it does where not all blocks can run at once.
template <class Operands>
void launch_program(char const* name, void (*kernel)(Operands), int blocks, int threads, std::size_t smem_bytes,
                    cudaStream_t stream, int steps, Operands const& operands) {
  check(cudaMemsetAsync(operands.counters, 0, steps * sizeof(unsigned), stream), "setting counters to zero");
  Queue queue(stream);
  queue.is_cooperative = true;
  launch(name, kernel, dim3(blocks), dim3(threads), smem_bytes, queue, operands);
}

}  // namespace mugraph
