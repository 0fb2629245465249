// The accumulator of a Matmul: a (kM, kN) tile of floats in the registers of kWarpsM * kWarpsN warps.
//
// Warp w is (w % kWarpsM, w / kWarpsM). Its m tile i is rows (i * kWarpsM + wm) * 16 + [0, 16), its n tile j columns
// (j * kWarpsN + wn) * 8 + [0, 8). Value (i * kTilesN + j) * 4 + c of lane l is the element at row
// l / 4 + 8 (c / 2), column 2 (l % 4) + c % 2 of that 16x8 tile. Elements past kM or kN are never stored.
#pragma once

#include "../arch/tensor_core.h"
#include "../ops.h"
#include "../vector_access.h"

namespace mugraph {
namespace tb {

template <int kWarpsM, int kWarpsN, int kM, int kN>
struct MmaFragment {
  static_assert(kWarpsM >= 1 && kWarpsN >= 1 && kWarpsM * kWarpsN <= 32, "a block has 1 to 32 warps");
  static_assert(kM >= 1 && kN >= 1, "a matrix has at least one row and one column");
  static constexpr int kTilesM = ceil_div(ceil_div(kM, kAtomM), kWarpsM);
  static constexpr int kTilesN = ceil_div(ceil_div(kN, kAtomN), kWarpsN);
  static constexpr int kValues = kTilesM * kTilesN * 4;

  static __device__ __forceinline__ void clear(float (&acc)[kValues]) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) acc[i] = 0.0f;
  }

  // dst(m, n) = Epilogue(acc), rounded to nearest. CLayout is (M, N); where n is contiguous and pairs of columns are
  // aligned, two elements are stored at once.
  template <class Epilogue, class CLayout, class D>
  static __device__ __forceinline__ void store(D* dst, float const (&acc)[kValues], int thread) {
    write<false, Epilogue, CLayout>(dst, acc, thread);
  }

  // dst(m, n) = dst(m, n) + Epilogue(acc): an accumulator in shared memory.
  template <class Epilogue, class CLayout, class D>
  static __device__ __forceinline__ void update(D* dst, float const (&acc)[kValues], int thread) {
    write<true, Epilogue, CLayout>(dst, acc, thread);
  }

  // Row and column of value c of m tile i and n tile j, in the whole matrix.
  static __host__ __device__ constexpr int row_of(int thread, int i, int c) {
    return (i * kWarpsM + thread / 32 % kWarpsM) * kAtomM + thread % 32 / 4 + 8 * (c / 2);
  }
  static __host__ __device__ constexpr int column_of(int thread, int j, int c) {
    return (j * kWarpsN + thread / 32 / kWarpsM) * kAtomN + 2 * (thread % 4) + c % 2;
  }

  // Offsets of the elements of one thread in a (M, N) layout: the thread's part is computed once.
  template <class CLayout>
  class Offsets {
    using Parts = LayoutParts<CLayout>;
    static_assert(decltype(cute::rank(typename Parts::Linear{}))::value == 2, "the result's layout must be (M, N)");
    using Rows = Mode<decltype(cute::layout<0>(typename Parts::Linear{}))>;
    using Columns = Mode<decltype(cute::layout<1>(typename Parts::Linear{}))>;
    static_assert(Rows::kSize == kM && Columns::kSize == kN, "the result's layout must have the fragment's shape");
    static constexpr bool kIsLinear = Rows::kRank <= 1 && Columns::kRank <= 1;
    int thread_;
    uint32_t start_;

   public:
    static constexpr bool kHasPairs = Columns::kFirstStride == 1 && Columns::kFirstExtent % 2 == 0 &&
                                      Columns::kModes.strides_divisible_by(2, 1) &&
                                      Rows::kModes.strides_divisible_by(2, 0) && Parts::kOffset % 2 == 0 &&
                                      Parts::kGranule % 2 == 0;

    __host__ __device__ constexpr explicit Offsets(int thread)
        : thread_(thread),
          start_(Parts::kOffset + Rows::at(row_of(thread, 0, 0)) + Columns::at(column_of(thread, 0, 0))) {}

    __host__ __device__ constexpr SplitOffset operator()(int i, int j, int c) const {
      if constexpr (kIsLinear) {
        const uint32_t down = Rows::at(i * kWarpsM * kAtomM + 8 * (c / 2));
        return swizzled<Parts>(start_, down + Columns::at(j * kWarpsN * kAtomN + c % 2));
      } else {
        const uint32_t row = Rows::at(row_of(thread_, i, c));
        return {Parts::swizzle(Parts::kOffset + row + Columns::at(column_of(thread_, j, c))), 0};
      }
    }
  };

 private:
  template <bool kUpdate, class Epilogue, class CLayout, class D>
  static __device__ __forceinline__ void write(D* dst, float const (&acc)[kValues], int thread) {
    if (thread >= kWarpsM * kWarpsN * 32) return;
    const Offsets<CLayout> offsets(thread);
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
      for (int j = 0; j < kTilesN; ++j) {
#pragma unroll
        for (int c = 0; c < 4; c += 2) {
          const bool has_row = (i + 1) * kWarpsM * kAtomM <= kM || row_of(thread, i, c) < kM;
          float const* values = &acc[(i * kTilesN + j) * 4 + c];
          if constexpr (Offsets<CLayout>::kHasPairs) {
            if (has_row && has_column(thread, j, c)) {
              write_pair<kUpdate, Epilogue>(dst + offsets(i, j, c), values);
            }
          } else {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              if (has_row && has_column(thread, j, c + e)) {
                D& target = *(dst + offsets(i, j, c + e));
                const float result = Epilogue::apply(values[e]);
                target = from_float<D>(kUpdate ? to_float(target) + result : result);
              }
            }
          }
        }
      }
    }
  }

  static __device__ __forceinline__ bool has_column(int thread, int j, int c) {
    return (j + 1) * kWarpsN * kAtomN <= kN || column_of(thread, j, c) < kN;
  }

  template <bool kUpdate, class Epilogue, class D>
  static __device__ __forceinline__ void write_pair(D* target, float const* values) {
    float results[2] = {Epilogue::apply(values[0]), Epilogue::apply(values[1])};
    Words<D, 2> words;
    if constexpr (kUpdate) {
      float totals[2];
      words.load(target);
      words.to_floats(totals);
      results[0] += totals[0];
      results[1] += totals[1];
    }
    words.from_floats(results);
    words.store(target);
  }
};

}  // namespace tb
}  // namespace mugraph
