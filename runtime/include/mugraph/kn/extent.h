// What a call says of extents: a number put where kernels read lengths, and copies of as many rows as there are.
#pragma once

#include <cstdint>

#include "../arch/grid_dependency.h"
#include "../launch.h"

namespace mugraph {
namespace kn {

inline constexpr int kRowThreads = 256;

// Templates, as a file that calls none of these should not have the kernels.
template <class T>
__global__ void put_number_kernel(T* place, T number) {
  tb::grid_launch();
  // A kernel of the call before may still read the last number.
  tb::grid_wait();
  *place = number;
}

template <class T>
void put_number(Queue queue, T* place, int number) {
  launch("kn::Extent", put_number_kernel<T>, dim3(1), dim3(1), 0, queue, place, static_cast<T>(number));
}

// Each thread moves 16 bytes, together where both sides begin at multiples of 16.
template <class T>
__global__ void __launch_bounds__(kRowThreads) copy_first_rows_kernel(T* to, T const* from, long long bytes) {
  char* const target = reinterpret_cast<char*>(to);
  char const* const source = reinterpret_cast<char const*>(from);
  tb::grid_launch();
  tb::grid_wait();
  const long long first = (static_cast<long long>(blockIdx.x) * kRowThreads + threadIdx.x) * 16;
  const bool even = (reinterpret_cast<uintptr_t>(target) | reinterpret_cast<uintptr_t>(source)) % 16 == 0;
  if (even && first + 16 <= bytes) {
    *reinterpret_cast<uint4*>(target + first) = *reinterpret_cast<uint4 const*>(source + first);
  } else {
    for (long long at = first; at < bytes && at < first + 16; ++at) target[at] = source[at];
  }
}

template <class T>
void copy_first_rows(Queue queue, T* target, T const* source, long long bytes) {
  const long long blocks = (bytes + 16 * kRowThreads - 1) / (16 * kRowThreads);
  launch("kn::CopyFirstRows", copy_first_rows_kernel<T>, dim3(static_cast<unsigned>(blocks)), dim3(kRowThreads), 0,
         queue, target, source, bytes);
}

}  // namespace kn
}  // namespace mugraph
