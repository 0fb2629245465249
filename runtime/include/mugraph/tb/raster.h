// Which block of a grid a block is: blocks that start one after the other share what they load in the L2 cache.
#pragma once

#include "../arch/cute.h"

namespace mugraph {
namespace tb {

// The grid's rows, along y, in groups of kRows; blocks start down the columns of a group, then at the next group.
// kRows divides the grid's extent along y.
template <int kRows>
__device__ __forceinline__ uint3 grouped_block() {
  const unsigned place = blockIdx.x + gridDim.x * blockIdx.y;
  const unsigned group = place / (kRows * gridDim.x);
  const unsigned inside = place % (kRows * gridDim.x);
  uint3 block = blockIdx;
  block.x = inside / kRows;
  block.y = group * kRows + inside % kRows;
  return block;
}

}  // namespace tb
}  // namespace mugraph
