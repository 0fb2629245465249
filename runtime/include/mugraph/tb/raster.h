// Which block of a grid a block is: blocks that start one after the other share what they load in the L2 cache.
#pragma once

#include "../arch/cute.h"

namespace mugraph {
namespace tb {

// The block that starts as number `place` of a grid of so many columns, along x, and rows, along y. The rows are in
// groups of kRows, which divides their number; blocks start down the columns of a group, then at the next group.
template <int kRows>
__device__ __forceinline__ uint3 block_at(unsigned place, unsigned columns, unsigned rows) {
  const unsigned group = place / (kRows * columns);
  const unsigned inside = place % (kRows * columns);
  const unsigned row = group * kRows + inside % kRows;
  return {inside / kRows, row % rows, row / rows};
}

template <int kRows>
__device__ __forceinline__ uint3 grouped_block() {
  uint3 block = block_at<kRows>(blockIdx.x + gridDim.x * blockIdx.y, gridDim.x, gridDim.y);
  block.z = blockIdx.z;
  return block;
}

}  // namespace tb
}  // namespace mugraph
