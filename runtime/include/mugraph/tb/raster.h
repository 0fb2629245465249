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

// The same where a call has any number of rows: the last group of each plane, along z, may be smaller.
template <int kRows>
__device__ __forceinline__ uint3 block_in(unsigned place, unsigned columns, unsigned rows) {
  const unsigned plane = place / (columns * rows);
  const unsigned inside = place % (columns * rows);
  const unsigned first = inside / (kRows * columns) * kRows;
  const unsigned height = rows - first < kRows ? rows - first : kRows;
  const unsigned in_group = inside - first * columns;
  return {in_group / height, first + in_group % height, plane};
}

template <int kRows>
__device__ __forceinline__ uint3 rastered_block() {
  uint3 block = block_in<kRows>(blockIdx.x + gridDim.x * blockIdx.y, gridDim.x, gridDim.y);
  block.z = blockIdx.z;
  return block;
}

template <int kRows>
__device__ __forceinline__ uint3 grouped_block() {
  uint3 block = block_at<kRows>(blockIdx.x + gridDim.x * blockIdx.y, gridDim.x, gridDim.y);
  block.z = blockIdx.z;
  return block;
}

// The block of the grid that a warp is, of kTogether blocks of one warp each that are launched as one.
template <int kTogether>
__device__ __forceinline__ uint3 packed_block() {
  return {blockIdx.x * kTogether + threadIdx.x / 32, blockIdx.y, blockIdx.z};
}

// The column and row that start as number `number` of so many rows: in groups of kColumns columns, from a group's last
// row on.
template <int kColumns>
__device__ __forceinline__ uint2 descending(unsigned number, unsigned rows) {
  const unsigned in_group = number % (kColumns * rows);
  return {number / (kColumns * rows) * kColumns + in_group % kColumns, rows - 1 - in_group / kColumns};
}

template <int kColumns>
__device__ __forceinline__ uint3 descending_block() {
  const uint2 place = descending<kColumns>(blockIdx.x + gridDim.x * blockIdx.y, gridDim.y);
  return {place.x, place.y, blockIdx.z};
}

// The same of planes, along z, whose columns x and y number, y faster.
template <int kColumns>
__device__ __forceinline__ uint3 descending_plane() {
  const unsigned number = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const uint2 place = descending<kColumns>(number, gridDim.z);
  return {place.x / gridDim.y, place.x % gridDim.y, place.y};
}

}  // namespace tb
}  // namespace mugraph
