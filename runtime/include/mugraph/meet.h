// Devices of one host wait for one another in a kernel, by flags in memory that all of them can address.
//
// Each device has one 32-bit flag a member, in memory of its own, which is written by that member alone: how often it
// has met. A device that meets says so in the flag that is its own at each other member, and waits until each member
// has said it as often as this one has. Counts go on from call to call and wrap around; none is ever reset, and a
// member that is ahead by one meeting is right. It cannot be ahead by two: it waits for this device in the next one.
//
// What kernels before it in the stream have written is seen by what a member starts behind its own meeting: flags are
// released and acquired at the scope of the system.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "arch/grid_dependency.h"
#include "launch.h"

namespace mugraph {

// Members of a group at most.
inline constexpr int kMostMembers = 32;

// The flags of each member, by place, as this device addresses them.
struct Flags {
  unsigned* of[kMostMembers];
};

__device__ __forceinline__ void release_flag(unsigned* flag, unsigned count) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(count) : "memory");
#else
  __atomic_store_n(flag, count, __ATOMIC_RELEASE);
#endif
}

__device__ __forceinline__ unsigned acquire_flag(unsigned const* flag) {
#if defined(__CUDA_ARCH__)
  unsigned count;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(count) : "l"(flag) : "memory");
  return count;
#else
  return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
#endif
}

__device__ __forceinline__ unsigned long long nanoseconds() {
#if defined(__CUDA_ARCH__)
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
#else
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1000000000ull * now.tv_sec + now.tv_nsec;
#endif
}

__device__ __forceinline__ void end_with_error() {
#if defined(__CUDA_ARCH__)
  asm volatile("trap;");
#else
  std::fflush(stdout);
  std::abort();
#endif
}

// What a member of a group meets the others with: the flags of each, its place, its own count, in its memory, and a
// limit, in nanoseconds. A device that waits longer says for whom, and in which meeting of its program, by `number`,
// and ends the kernel with an error; 0 waits for ever.
struct Member {
  Flags flags;
  int members;
  int place;
  unsigned* met;
  unsigned long long limit;
  int number;
};

// Says to the member at place `other` that this one has met `count` times, and waits until that one has.
__device__ __forceinline__ void meet_other(Member const& own, int other, unsigned count) {
  release_flag(own.flags.of[other] + own.place, count);
  unsigned const* const awaited = own.flags.of[own.place] + other;
  const unsigned long long start = nanoseconds();
  while (static_cast<int>(acquire_flag(awaited) - count) < 0) {
    if (own.limit != 0 && nanoseconds() - start > own.limit) {
      printf(
          "mugraph: in meeting %d of its program the device at place %d waits for the one at place %d, which has met "
          "%u of %u times.\n",
          own.number, own.place, other, acquire_flag(awaited), count);
      end_with_error();
    }
  }
}

// One block of kMostMembers threads.
__global__ void __launch_bounds__(kMostMembers) meet_kernel(Member own) {
  tb::grid_launch();
  tb::grid_wait();
  const int other = static_cast<int>(threadIdx.x);
  const unsigned count = *own.met + 1;
  // All threads have read the count before one of them writes it.
  __syncthreads();
  if (other < own.members && other != own.place) meet_other(own, other, count);
  __syncthreads();
  if (threadIdx.x == 0) *own.met = count;
}

// The member at `place`. `flags` are those of each member, by place, `met` is this device's own count: all of them are
// zero before the first meeting of any member. Throws std::runtime_error where there are too many.
inline Member member_of(unsigned* const* flags, int members, int place, unsigned* met, unsigned long long limit,
                        int number) {
  if (members > kMostMembers || place < 0 || place >= members) {
    throw std::runtime_error("mugraph: a meeting of " + std::to_string(members) +
                             " devices, of which this one is at place " + std::to_string(place) + "; at most " +
                             std::to_string(kMostMembers) + " can meet.");
  }
  Member own{{}, members, place, met, limit, number};
  for (int member = 0; member < members; ++member) own.flags.of[member] = flags[member];
  return own;
}

// Meets the other members on `queue` (member_of). Throws std::runtime_error where the launch fails.
inline void meet(Queue queue, unsigned* const* flags, int members, int place, unsigned* met,
                 unsigned long long limit = 0, int number = 0) {
  launch("mugraph::meet", meet_kernel, dim3(1), dim3(kMostMembers), 0, queue,
         member_of(flags, members, place, met, limit, number));
}

}  // namespace mugraph
