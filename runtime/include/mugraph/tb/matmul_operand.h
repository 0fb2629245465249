// How a warp reads its tiles of a matmul operand, a (rows, K) layout in shared memory: rows are m for A and n for B.
//
// Tile t of a warp is rows (t * kWarps + warp) * kTileRows + [0, kTileRows), kTileRows = 16 for A, 8 for B; B tiles
// are read two at a time. Step s of warp w of the kWarpsK along k is step s * kWarpsK + w of the matrix, or, where kApart is
// not 0, step s of a matrix of its own, which begins w * kApart elements further on, before the swizzle. With kLdmatrix each lane gives ldmatrix the address of a 16-byte line: along k where k is
// contiguous, otherwise (elements of 16 bits only) along the rows, transposed on the way. Without, each lane reads its
// elements through the layout, those of a register at once where they are neighbours, else one by one. Elements that the
// instruction does not take as they are stored are converted in registers: float_e4m3_t and float_e5m2_t exactly to
// half_t, float to TF32, rounding to nearest; others become what `Through` makes of them in fp32, rounded to nearest.
//
// Sizes need not be multiples of the tile. Lines past the last row are replaced by a valid one: what they give only
// reaches results that are never stored. Lines past the last k are replaced likewise, and in the last k step
// `tail_mask` sets every element with k >= K to zero in registers, whatever the padding holds. A line that begins
// inside the matrix is read whole; therefore its 16 bytes must lie inside the buffer, also where the contiguous extent
// is not a multiple of a line.
#pragma once

#include "../arch/tensor_core.h"
#include "../atoms.h"
#include "../vector_access.h"

namespace mugraph {
namespace tb {

template <bool kIsA, int kWarps, class Layout, bool kLdmatrix, class Atom = atoms::SM80_16x8x16_F32F16F16F32_TN,
          int kWarpsK = 1, class Through = ops::Chain<>, int kApart = 0>
struct MatmulOperand {
  using Operand = cute::conditional_t<kIsA, typename Atom::OperandA, typename Atom::OperandB>;
  static constexpr int kPacked = Atom::kPacked;
  static constexpr int kStep = 8 * kPacked;  // elements along k of one instruction
  static constexpr int kLine = 4 * kPacked;  // and of one line of ldmatrix
  using Parts = LayoutParts<Layout>;
  static_assert(decltype(cute::rank(typename Parts::Linear{}))::value == 2,
                "the layout of a matmul operand must be (M, K) for A and (N, K) for B");
  using Rows = Mode<decltype(cute::layout<0>(typename Parts::Linear{}))>;
  using Depth = Mode<decltype(cute::layout<1>(typename Parts::Linear{}))>;
  static constexpr int kRows = Rows::kSize;
  static constexpr int kK = Depth::kSize;
  static constexpr int kTileRows = kIsA ? Atom::kM : Atom::kN;
  static constexpr int kRowStep = kWarps * kTileRows;  // rows from one tile of a warp to its next
  static constexpr int kTiles = ceil_div(ceil_div(kRows, kTileRows), kWarps);
  static constexpr int kTilesPerLoad = kIsA ? 1 : 2;
  static constexpr int kTurns = kApart == 0 ? kWarpsK : 1;  // warps that take the steps of a matrix in turn
  static constexpr int kWarpStep = kTurns * kStep;   // elements along k from one step of a warp to its next
  static constexpr int kFullSteps = kK / kStep;      // full k steps, of all warps that take them in turn
  static constexpr int kSteps = ceil_div(kFullSteps, kTurns);  // and of the first of them
  static constexpr int kTail = kK % kStep;           // elements along k in the last, partial step
  static constexpr bool kIsLinear = Rows::kRank <= 1 && Depth::kRank <= 1;

  // A mode whose first elements are consecutive; an extent of 1 counts as one where the other mode does not.
  static constexpr bool kKContiguous = Depth::kFirstStride == 1 || (Depth::kRank == 0 && Rows::kFirstStride != 1);
  static constexpr bool kTransposed = !kKContiguous;

  template <class Lines, class Others, int kLength>
  static __host__ __device__ constexpr bool has_aligned_lines() {
    const bool is_contiguous = Lines::kRank == 0 || Lines::kFirstStride == 1;
    const bool is_whole = Lines::kRank <= 1 || Lines::kFirstExtent % kLength == 0;
    return is_contiguous && is_whole && Lines::kModes.strides_divisible_by(kLength, 1) &&
           Others::kModes.strides_divisible_by(kLength, 0) && Parts::kOffset % kLength == 0 &&
           Parts::kGranule % kLength == 0 && kApart % kLength == 0;
  }
  static_assert(!kLdmatrix ||
                    (kTransposed ? has_aligned_lines<Rows, Depth, kLine>() : has_aligned_lines<Depth, Rows, kLine>()),
                "ldmatrix needs rows or k contiguous, and every other stride (and the swizzle) in multiples of a line");
  static_assert(!kLdmatrix || !kTransposed || kPacked == 2, "ldmatrix transposes elements of 16 bits only");
  // Elements that are read at once: those of a register, where they are neighbours.
  static constexpr bool kInWords = !kTransposed && kK % kPacked == 0 && has_aligned_lines<Depth, Rows, kPacked>();
  static constexpr int kRead = kInWords ? kPacked : 1;

  // Where the matrix of a warp along k begins, and the first k that it takes of it.
  static __host__ __device__ constexpr uint32_t matrix_of(int warp_k) { return Parts::kOffset + warp_k * kApart; }
  static __host__ __device__ constexpr int first_k(int warp_k) { return kApart == 0 ? warp_k * kStep : 0; }

  // The element at (row, k) after moving it inside the matrix.
  static __host__ __device__ constexpr int last_line_row() { return kTransposed ? (kRows - 1) / kLine * kLine : kRows - 1; }
  static __host__ __device__ constexpr int last_line_k() { return kTransposed ? kK - 1 : (kK - 1) / kLine * kLine; }

  // Bits to keep of a register of the tail whose elements are in the first or second half of a step.
  static __host__ __device__ constexpr uint32_t tail_mask(int lane, int half) {
    if (kLine * half + kLine <= kTail) return 0xffffffffu;
    const int left = kTail - (kPacked * (lane % 4) + kLine * half);
    if (left <= 0) return 0u;
    return left >= kPacked ? 0xffffffffu : 0xffffffffu >> (32 / kPacked * (kPacked - left));
  }

  // The offsets of the lines that one lane addresses.
  class LineOffsets {
    int row_;
    int k_;
    uint32_t matrix_;  // where the warp's matrix begins
    uint32_t start_;

   public:
    __host__ __device__ constexpr LineOffsets(int lane, int warp, int warp_k)
        : row_(ldmatrix_coordinate<kIsA, kTransposed, kPacked>(lane, kRowStep).row + warp * kTileRows),
          k_(ldmatrix_coordinate<kIsA, kTransposed, kPacked>(lane, kRowStep).k + first_k(warp_k)),
          matrix_(matrix_of(warp_k)),
          start_(matrix_ + Rows::at(row_) + Depth::at(k_)) {}

    // For tile (and, for B, tile + 1) and the warp's k step; kIsTail for the step that is not whole.
    template <bool kIsTail>
    __host__ __device__ constexpr SplitOffset offset(int tile, int step) const {
      const bool rows_exist = (tile + kTilesPerLoad) * kRowStep <= kRows;
      if (kIsLinear && !kIsTail && rows_exist) {
        const uint32_t along_rows = Rows::at(tile * kRowStep);
        const uint32_t along_k = Depth::at(step * kWarpStep);
        if constexpr (Depth::at(kWarpStep) % Parts::kPeriod == 0) {
          const SplitOffset first_step = swizzled<Parts>(start_, along_rows);
          return {first_step.of_thread, first_step.constant + along_k};
        } else {
          return swizzled<Parts>(start_ + along_k, along_rows);
        }
      }
      const int row = row_ + tile * kRowStep;
      const int k = k_ + step * kWarpStep;
      return {Parts::swizzle(matrix_ + Rows::at(rows_exist || row < last_line_row() ? row : last_line_row()) +
                             Depth::at(!kIsTail || k < last_line_k() ? k : last_line_k())),
              0};
    }
  };

  // The offset of an element of register q, or of the first of those that are read at once.
  template <bool kIsTail>
  static __host__ __device__ constexpr uint32_t element_offset(int lane, int warp, int warp_k, int tile, int step,
                                                               int q, int element) {
    const TileCoordinate first = register_coordinate<kIsA, kPacked>(lane, q, kRowStep);
    const bool rows_exist = (tile + kTilesPerLoad) * kRowStep <= kRows;
    const int row = first.row + warp * kTileRows + tile * kRowStep;
    const int k = first.k + element + first_k(warp_k) + step * kWarpStep;
    return Parts::swizzle(matrix_of(warp_k) + Rows::at(rows_exist || row < kRows ? row : kRows - 1) +
                          Depth::at(!kIsTail || k < kK ? k : kK - kRead));
  }

  // Whether what one step of the instruction reads along k is a part of a line that no swizzle takes apart.
  static constexpr bool kHasWholeSteps = kInWords && kIsLinear && has_aligned_lines<Depth, Rows, kStep>();

  int lane;
  int warp;
  int warp_k;
  LineOffsets lines;
  uint32_t start;  // of what the lane reads first

  __device__ __forceinline__ MatmulOperand(int lane_, int warp_, int warp_k_)
      : lane(lane_),
        warp(warp_),
        warp_k(warp_k_),
        lines(lane_, warp_, warp_k_),
        start(matrix_of(warp_k_) + Rows::at(lane_ / 4 + warp_ * kTileRows) +
              Depth::at(kPacked * (lane_ % 4) + first_k(warp_k_))) {}

  // The same as element_offset(), in parts where that is known when compiled.
  template <bool kIsTail>
  __device__ __forceinline__ SplitOffset element(int tile, int step, int q, int element) const {
    if (!kHasWholeSteps || kIsTail || (tile + kTilesPerLoad) * kRowStep > kRows) {
      return {element_offset<kIsTail>(lane, warp, warp_k, tile, step, q, element), 0};
    }
    const TileCoordinate origin = matrix_origin<kIsA, kPacked>(q, kRowStep);
    const uint32_t along_k = Depth::at(step * kWarpStep);
    const bool is_outside = Depth::at(kWarpStep) % Parts::kPeriod == 0;
    const SplitOffset line =
        swizzled<Parts>(is_outside ? start : start + along_k, Rows::at(tile * kRowStep + origin.row));
    return {line.of_thread, line.constant + (is_outside ? along_k : 0) + origin.k + element};
  }

  // Fills the registers of one A tile, or of the B tiles `tile` (0 and 1) and `tile` + 1 (2 and 3).
  template <bool kIsTail, class T>
  __device__ __forceinline__ void load(uint32_t (&registers)[4], T const* source, int tile, int step) const {
    const bool has_second = kIsA || tile + 1 < kTiles;
    if constexpr (kLdmatrix) {
      static_assert(cute::is_same<T, Operand>::value,
                    "ldmatrix loads what the instruction takes; print kLdmatrix false for other types");
      T const* line = source + lines.template offset<kIsTail>(tile, step);
      if (has_second) {
        ldmatrix_x4<kTransposed>(registers, line);
      } else {
        ldmatrix_x2<kTransposed>(registers, line);
      }
#pragma unroll
      for (int q = 0; q < (has_second ? 4 : 2); ++q) registers[q] = Atom::prepare(registers[q]);
    } else {
#pragma unroll
      for (int q = 0; q < (has_second ? 4 : 2); ++q) {
        T elements[kPacked];
#pragma unroll
        for (int e = 0; e < kPacked; e += kRead) {
          Words<T, kRead> read;
          read.load(source + element<kIsTail>(tile, step, q, e));
#pragma unroll
          for (int i = 0; i < kRead; ++i) elements[e + i] = read.element(i);
        }
        registers[q] = atoms::pack<Atom, kIsA, Through>(elements);
      }
    }
    if constexpr (kIsTail) {
#pragma unroll
      for (int q = 0; q < (has_second ? 4 : 2); ++q) registers[q] &= tail_mask(lane, kIsA ? q / 2 : q % 2);
    }
  }
};

}  // namespace tb
}  // namespace mugraph
