// The warp instructions of the Ampere tensor core, and who holds what in them.
//
// mma_16x8x16: D[16,8] += A[16,16] * B[16,8], A and B half_t, D float. Lane l of the warp holds, in
//   a[q]: A(row, k) and A(row, k + 1) with row = l / 4 + 8 (q % 2), k = 2 (l % 4) + 8 (q / 2)
//   b[q]: B(k, column) and B(k + 1, column) with column = l / 4, k = 2 (l % 4) + 8 q
//   d[c]: D(row, column) with row = l / 4 + 8 (c / 2), column = 2 (l % 4) + c % 2
// Products are exact; the sums of an instruction are formed in fp32 in an order the hardware chooses, and truncated.
//
// ldmatrix loads 8x8 matrices of half_t, four (or two) at a time: lane 8 q + i gives the address of line i of matrix
// q, 16 bytes. Lane l receives in register q the elements 2 (l % 4) and 2 (l % 4) + 1 of line l / 4; transposed, of
// lines 2 (l % 4) and 2 (l % 4) + 1 the element l / 4.
#pragma once

#include "cute.h"

namespace mugraph {

inline constexpr int kAtomM = 16;
inline constexpr int kAtomN = 8;
inline constexpr int kAtomK = 16;

__device__ __forceinline__ void mma_16x8x16(float* d, uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  cute::SM80_16x8x16_F32F16F16F32_TN::fma(d[0], d[1], d[2], d[3], a[0], a[1], a[2], a[3], b0, b1, d[0], d[1], d[2],
                                          d[3]);
}

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

// The matrix q of an operand: for A, the four 8x8 quarters of a 16x16 tile; for B, the two k halves of one 8x16 tile
// and then of the next tile of the same warp, pair_stride rows further.
template <bool kIsA>
__host__ __device__ constexpr TileCoordinate matrix_origin(int q, int pair_stride) {
  if (kIsA) return {(q % 2) * 8, (q / 2) * 8};
  return {(q / 2) * pair_stride, (q % 2) * 8};
}

// The first element of the line whose address `lane` gives to ldmatrix.
template <bool kIsA, bool kTransposed>
__host__ __device__ constexpr TileCoordinate ldmatrix_coordinate(int lane, int pair_stride) {
  const TileCoordinate origin = matrix_origin<kIsA>(lane / 8, pair_stride);
  if (kTransposed) return {origin.row, origin.k + lane % 8};
  return {origin.row + lane % 8, origin.k};
}

// The first of the two elements (consecutive along k) that `lane` holds in register q.
template <bool kIsA>
__host__ __device__ constexpr TileCoordinate register_coordinate(int lane, int q, int pair_stride) {
  const TileCoordinate origin = matrix_origin<kIsA>(q, pair_stride);
  return {origin.row + lane / 4, origin.k + 2 * (lane % 4)};
}

}  // namespace mugraph
