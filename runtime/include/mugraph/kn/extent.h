// A number that a call says, put where kernels read lengths.
#pragma once

#include "../arch/grid_dependency.h"
#include "../launch.h"

namespace mugraph {
namespace kn {

static __global__ void put_number_kernel(int* place, int number) {
  tb::grid_launch();
  // A kernel of the call before may still read the last number.
  tb::grid_wait();
  *place = number;
}

inline void put_number(Queue queue, int* place, int number) {
  launch("kn::Extent", put_number_kernel, dim3(1), dim3(1), 0, queue, place, number);
}

}  // namespace kn
}  // namespace mugraph
