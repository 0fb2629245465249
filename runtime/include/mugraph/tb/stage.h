// Which stage of a ring an iteration goes through, counted along a loop.
#pragma once

#if !defined(__CUDACC_RTC__)
#include <cstdint>
#endif

namespace mugraph {
namespace tb {

// A counter that the compiler must not see through. Where a loop is no longer than a ring, addresses of stages would be
// counted from the start of shared memory in its place; ptxas of CUDA 13.0 then takes the moving one for the start itself.
__device__ __forceinline__ void keep_counter(int& counter) {
#if defined(__CUDA_ARCH__)
  asm("" : "+r"(counter));
#else
  (void)counter;
#endif
}

// The place of iteration k in a ring of kStages stages: stage k % kStages, which k / kStages iterations used before.
//
// A loop counts it: what follows is found by a comparison, where a division would keep who waits for the stage waiting
// for longer. `by` and what is added are known to the compiler; k is so where it is no variable of a loop.
template <int kStages, bool kIsPowerOfTwo = (kStages & (kStages - 1)) == 0>
class Stage {
  int stage;
  uint32_t uses;  // modulo 2

 public:
  __device__ __forceinline__ constexpr Stage(int iteration)  // NOLINT: an iteration has one place
      : stage(iteration % kStages), uses(iteration / kStages % 2) {}

  __device__ __forceinline__ int index() const { return stage; }

  // The parity of the phase of the stage's mbarriers that the iteration is in.
  __device__ __forceinline__ uint32_t parity() const { return uses; }

  __device__ __forceinline__ Stage& operator+=(int by) {
    uses ^= by / kStages % 2;
    if (by % kStages != 0) {
      stage += by % kStages;
      if (stage >= kStages) {
        stage -= kStages;
        uses ^= 1;
      }
      keep_counter(stage);
    }
    return *this;
  }
  __device__ __forceinline__ Stage& operator++() { return *this += 1; }

  __device__ __forceinline__ Stage operator+(int ahead) const {
    Stage other = *this;
    return other += ahead;
  }

  // All stages used twice are the same place.
  __device__ __forceinline__ Stage operator-(int behind) const {
    constexpr int kPeriod = 2 * kStages;
    return *this + (kPeriod - behind % kPeriod) % kPeriod;
  }
};

// Of a power of two stages: the iteration has both in its bits.
template <int kStages>
class Stage<kStages, true> {
  int iteration;

 public:
  __device__ __forceinline__ constexpr Stage(int iteration) : iteration(iteration) {}  // NOLINT: as above

  __device__ __forceinline__ int index() const { return iteration & (kStages - 1); }
  __device__ __forceinline__ uint32_t parity() const { return iteration / kStages & 1; }

  __device__ __forceinline__ Stage& operator+=(int by) {
    iteration += by;
    keep_counter(iteration);
    return *this;
  }
  __device__ __forceinline__ Stage& operator++() { return *this += 1; }
  __device__ __forceinline__ Stage operator+(int ahead) const { return Stage(iteration + ahead); }
  __device__ __forceinline__ Stage operator-(int behind) const { return Stage(iteration - behind); }
};

}  // namespace tb
}  // namespace mugraph
