// ldmatrix, and where the elements of a tensor-core operand come from; the products themselves are in atoms.h.
//
// ldmatrix loads 8x8 matrices of 16-bit elements, four (or two) at a time: lane 8 q + i gives the address of line i of
// matrix q, 16 bytes. Lane l receives in register q the elements 2 (l % 4) and 2 (l % 4) + 1 of line l / 4; transposed,
// of lines 2 (l % 4) and 2 (l % 4) + 1 the element l / 4. A line of other elements is moved the same way: four bytes to
// a register. With kPacked elements in a register, a line along k has 4 kPacked of them.
#pragma once

#include "cute.h"

namespace mugraph {

template <bool kTransposed>
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&registers)[4], void const* shared_line) {
  cute::uint128_t const& line = *static_cast<cute::uint128_t const*>(shared_line);
  if constexpr (kTransposed) {
    cute::SM75_U16x8_LDSM_T::copy(line, registers[0], registers[1], registers[2], registers[3]);
  } else {
    cute::SM75_U32x4_LDSM_N::copy(line, registers[0], registers[1], registers[2], registers[3]);
  }
}

// Fills registers 0 and 1. Only the addresses of lanes 0 to 15 are used; all must be valid.
template <bool kTransposed>
__device__ __forceinline__ void ldmatrix_x2(uint32_t (&registers)[4], void const* shared_line) {
  cute::uint128_t const& line = *static_cast<cute::uint128_t const*>(shared_line);
  if constexpr (kTransposed) {
    cute::SM75_U16x4_LDSM_T::copy(line, registers[0], registers[1]);
  } else {
    cute::SM75_U32x2_LDSM_N::copy(line, registers[0], registers[1]);
  }
}

// Where a lane's value lies within a tile; `row` counts along m for A and D, along n for B (stored as (N, K)).
struct TileCoordinate {
  int row;
  int k;
};

// The matrix q of an operand: for A, the four quarters of a 16 x kK tile; for B, the two k halves of one 8 x kK tile and
// then of the next tile of the same warp, pair_stride rows further.
template <bool kIsA, int kPacked>
__host__ __device__ constexpr TileCoordinate matrix_origin(int q, int pair_stride) {
  if (kIsA) return {(q % 2) * 8, (q / 2) * 4 * kPacked};
  return {(q / 2) * pair_stride, (q % 2) * 4 * kPacked};
}

// The first element of the line whose address `lane` gives to ldmatrix.
template <bool kIsA, bool kTransposed, int kPacked>
__host__ __device__ constexpr TileCoordinate ldmatrix_coordinate(int lane, int pair_stride) {
  const TileCoordinate origin = matrix_origin<kIsA, kPacked>(lane / 8, pair_stride);
  if (kTransposed) return {origin.row, origin.k + lane % 8};
  return {origin.row + lane % 8, origin.k};
}

// The first of the elements (consecutive along k) that `lane` holds in register q.
template <bool kIsA, int kPacked>
__host__ __device__ constexpr TileCoordinate register_coordinate(int lane, int q, int pair_stride) {
  const TileCoordinate origin = matrix_origin<kIsA, kPacked>(q, pair_stride);
  return {origin.row + lane / 4, origin.k + kPacked * (lane % 4)};
}

}  // namespace mugraph
