// The number of a thread among those that run the same code.
#pragma once

#include "cute.h"

namespace mugraph {

// The same number, which the compiler may take to be one of kThreads: what only threads past a bound skip, none does.
template <int kThreads>
__device__ __forceinline__ int thread_of(int number) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(number >= 0 && number < kThreads);
#endif
  return number;
}

}  // namespace mugraph
