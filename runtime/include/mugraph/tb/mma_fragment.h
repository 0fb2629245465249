// The accumulator of a Matmul: a (kM, kN) tile of Atom::Sum in the registers of kWarpsM * kWarpsN warps.
//
// Warp w is (w % kWarpsM, w / kWarpsM). Its m tile i is rows (i * kWarpsM + wm) * Atom::kM + [0, Atom::kM), its n tile
// j columns (j * kWarpsN + wn) * Atom::kN + [0, Atom::kN). Value (i * kTilesN + j) * Atom::kValues + c of lane l is
// value c of lane l in that tile (see atoms.h). Elements past kM or kN are never stored. For an instruction of one
// thread (ScalarMatmul), read "thread" for "warp".
//
// With kWarpsK there are so many such tiles: warps kWarpsM * kWarpsN * p onwards hold part p, a sum over some of k.
#pragma once

#include "../arch/tensor_core.h"
#include "../atoms.h"
#include "../ops.h"
#include "../vector_access.h"

namespace mugraph {
namespace tb {

// The same number, of which the compiler knows nothing: addresses that follow from it are computed where they are used,
// and take no registers from before a loop to its end.
static __device__ __forceinline__ int recomputed(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

template <int kWarpsM, int kWarpsN, int kM, int kN, class Atom = atoms::SM80_16x8x16_F32F16F16F32_TN, int kWarpsK = 1>
struct MmaFragment {
  using Instruction = Atom;
  using Sum = typename Atom::Sum;
  static constexpr int kRows = kM, kColumns = kN;
  static constexpr int kThreadsOfPart = kWarpsM * kWarpsN * Atom::kThreads;
  static constexpr int kThreads = kThreadsOfPart * kWarpsK;
  static_assert(kWarpsM >= 1 && kWarpsN >= 1 && kWarpsK >= 1 && kThreads <= 1024, "a block has 1 to 1024 threads");
  static_assert(kM >= 1 && kN >= 1, "a matrix has at least one row and one column");
  static constexpr int kTilesM = ceil_div(ceil_div(kM, Atom::kM), kWarpsM);
  static constexpr int kTilesN = ceil_div(ceil_div(kN, Atom::kN), kWarpsN);
  static constexpr int kRowsOfStep = kWarpsM * Atom::kM;  // from one m tile of a warp to its next
  static constexpr int kValues = kTilesM * kTilesN * Atom::kValues;
  // Arrays of many values lie in local memory anyway; unrolling their loops would take the compiler too long.
  static constexpr int kUnrollM = kValues <= 512 ? kTilesM : 1;
  static constexpr int kUnrollN = kValues <= 512 ? kTilesN : 1;
  // Next to many values the compiler must neither load ahead all that is added to, nor begin the next product, nor keep
  // the addresses of every element from one iteration of a loop to the next.
  static constexpr bool kIsLarge = kValues >= 96 && Atom::kThreads == 32;
  static constexpr int kTilesAhead = 4;

  // Whole sums may be added up as another type.
  template <class T>
  static __device__ __forceinline__ void clear(T (&acc)[kValues]) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) acc[i] = T(0);
  }

  // Every value of a fragment of any type, values past kM and kN included.
  template <class T>
  static __device__ __forceinline__ void fill(T (&values)[kValues], float number) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] = from_number<T>(number);
  }

  // The same of the column of a value.
  static __host__ __device__ constexpr int column_slot_of(int value) {
    return value / Atom::kValues % kTilesN * Atom::kColumnSlots + Atom::column_slot_of(value % Atom::kValues);
  }

  // The position, among the numbers of a thread's rows, of the row of a value (see row_fragment.h).
  static __host__ __device__ constexpr int row_slot_of(int value) {
    return value / (kTilesN * Atom::kValues) * Atom::kRowSlots + Atom::slot_of(value % Atom::kValues);
  }

  // dst(m, n) = Epilogue(acc) of sums, or of what was computed of them, rounded to nearest. CLayout is (M, N); where n is
  // contiguous and pairs of columns are aligned, two elements are stored at once. Part p lies kPartStride * p elements further on, before the swizzle.
  template <class Epilogue, class CLayout, int kPartStride = 0, class D, class V>
  static __device__ __forceinline__ void store(D* dst, V const (&acc)[kValues], int thread) {
    write<false, Epilogue, CLayout, kPartStride>(dst, acc, thread);
  }

  // The same of the columns from kFirst on, as many as CLayout has.
  template <class Epilogue, class CLayout, int kFirst, class D, class V>
  static __device__ __forceinline__ void store_columns(D* dst, V const (&acc)[kValues], int thread) {
    constexpr int kColumns = decltype(cute::size<1>(typename LayoutParts<CLayout>::Linear{}))::value;
    static_assert(kWarpsN == 1 && kTilesN == 1 && kN == Atom::kN, "an instruction has all columns");
    static_assert(kN % kColumns == 0 && kFirst % kColumns == 0 && kFirst < kN, "parts are of one length");
    constexpr int kOwn = Atom::kValues * kColumns / kN, kBefore = Atom::kValues * kFirst / kN;
    static_assert(Atom::kValues * kColumns % kN == 0 && Atom::column_of(0, kOwn - 1) < kColumns,
                  "each thread has the columns of a part next to each other");
    // Of each m tile the values past kOwn are in columns that a part does not have.
    using Part = MmaFragment<kWarpsM, kWarpsN, kM, kColumns, Atom>;
    Part::template write<false, Epilogue, CLayout, 0>(dst, acc + kBefore, thread);
  }

  // dst(m, n) = dst(m, n) + Epilogue(acc): an accumulator in shared memory.
  template <class Epilogue, class CLayout, int kPartStride = 0, class D, class V>
  static __device__ __forceinline__ void update(D* dst, V const (&acc)[kValues], int thread) {
    write<true, Epilogue, CLayout, kPartStride>(dst, acc, thread);
  }

  // values = Epilogue(src(m, n)), Epilogue(0) past the rows and columns that exist; Layout is (M, N). Pairs are loaded
  // where they are stored as such. Part p lies kPartStride * p elements further on, before the swizzle.
  template <class Epilogue, class Layout, int kPartStride = 0, class T, class S>
  static __device__ __forceinline__ void load(T (&values)[kValues], S const* src, int thread, int rows = kM,
                                              int columns = kN) {
    if (thread >= kThreads) return;
    const Offsets<Layout, kPartStride> offsets(thread);
    constexpr int kStep = Atom::kValues % 2 == 0 && Offsets<Layout, kPartStride>::kHasPairs ? 2 : 1;
#pragma unroll kUnrollM
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll kUnrollN
      for (int j = 0; j < kTilesN; ++j) {
#pragma unroll
        for (int c = 0; c < Atom::kValues; c += kStep) {
          T* const target = &values[(i * kTilesN + j) * Atom::kValues + c];
          Words<S, kStep> words = {};
          const bool exists = has_row(thread, i, c, rows) && has_column(thread, j, c, columns);
          if (exists) words.load(src + offsets(i, j, c));
          set_values<Epilogue>(target, words);
        }
      }
    }
  }

  // The same of a whole matrix of 16-bit elements in shared memory, by ldmatrix: a thread has the values of 16 columns
  // after each other, and lines of 16 bytes are whole.
  template <class Epilogue, class Layout, class T, class S>
  static __device__ __forceinline__ void load_lines(T (&values)[kValues], S const* src, int thread) {
    using Parts = LayoutParts<Layout>;
    using Rows = Mode<decltype(cute::layout<0>(typename Parts::Linear{}))>;
    using Columns = Mode<decltype(cute::layout<1>(typename Parts::Linear{}))>;
    static_assert(sizeof(S) == 2 && Atom::kHasPairs && kWarpsN == 1 && kWarpsK == 1 && kTilesN * Atom::kValues % 8 == 0,
                  "threads hold pairs of 16-bit elements, of 16 columns after each other");
    static_assert(kM % kRowsOfStep == 0 && kN % (kTilesN * Atom::kN) == 0 && Rows::kRank <= 1, "tiles are whole");
    static_assert(Columns::kFirstStride == 1 && Columns::kFirstExtent % 16 == 0 && Parts::kGranule % 8 == 0 &&
                      Columns::kModes.strides_divisible_by(8, 1) && Rows::kModes.strides_divisible_by(8, 0) && Parts::kOffset % 8 == 0,
                  "lines of 16 bytes are whole");
    const int lane = thread % 32;
    const int row = row_of(thread - lane, 0, 0) + lane % 16;
    const uint32_t start = Parts::kOffset + Rows::at(row) + lane / 16 * 8;
#pragma unroll kUnrollM
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
      for (int c = 0; c < kTilesN * Atom::kValues; c += 8) {
        const uint32_t moved = Rows::at(i * kRowsOfStep) + Columns::at(2 * c);
        const uint32_t inside = moved % Parts::kPeriod;
        uint32_t registers[4];
        ldmatrix_x4<false>(registers, src + SplitOffset{Parts::swizzle(start + inside), moved - inside});
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          Words<S, 2> words;
          words.words[0] = registers[q];
          set_values<Epilogue>(&values[i * kTilesN * Atom::kValues + c + 2 * q], words);
        }
      }
    }
  }

  // Row and column of value c of m tile i and n tile j, in the whole matrix.
  static __host__ __device__ constexpr int row_of(int thread, int i, int c) {
    return (i * kWarpsM + thread / Atom::kThreads % kWarpsM) * Atom::kM + Atom::row_of(thread % Atom::kThreads, c);
  }
  static __host__ __device__ constexpr int column_of(int thread, int j, int c) {
    const int warp = kWarpsK == 1 ? thread / Atom::kThreads / kWarpsM : thread / Atom::kThreads / kWarpsM % kWarpsN;
    return (j * kWarpsN + warp) * Atom::kN + Atom::column_of(thread % Atom::kThreads, c);
  }

  // The part that a thread has values of.
  static __host__ __device__ constexpr int part_of(int thread) { return kWarpsK == 1 ? 0 : thread / kThreadsOfPart; }

  // Offsets of the elements of one thread in a (M, N) layout: the thread's part is computed once.
  template <class CLayout, int kPartStride = 0>
  class Offsets {
    using Parts = LayoutParts<CLayout>;
    static_assert(decltype(cute::rank(typename Parts::Linear{}))::value == 2, "the result's layout must be (M, N)");
    using Rows = Mode<decltype(cute::layout<0>(typename Parts::Linear{}))>;
    using Columns = Mode<decltype(cute::layout<1>(typename Parts::Linear{}))>;
    static_assert(Rows::kSize == kM && Columns::kSize == kN, "the result's layout must have the fragment's shape");
    static constexpr bool kIsLinear = Rows::kRank <= 1 && Columns::kRank <= 1;
    static_assert(kWarpsK == 1 || kPartStride != 0, "the parts of a fragment must lie side by side");
    int thread_;
    uint32_t start_;

   public:
    static constexpr bool kHasPairs = Atom::kHasPairs && Columns::kFirstStride == 1 && Columns::kFirstExtent % 2 == 0 &&
                                      Columns::kModes.strides_divisible_by(2, 1) &&
                                      Rows::kModes.strides_divisible_by(2, 0) && Parts::kOffset % 2 == 0 &&
                                      Parts::kGranule % 2 == 0 && kPartStride % 2 == 0;

    __host__ __device__ constexpr explicit Offsets(int thread)
        : thread_(thread),
          start_(Parts::kOffset + part_of(thread) * kPartStride + Rows::at(row_of(thread, 0, 0)) +
                 Columns::at(column_of(thread, 0, 0))) {}

    __host__ __device__ constexpr SplitOffset operator()(int i, int j, int c) const {
      if constexpr (kIsLinear) {
        const uint32_t down = Rows::at(i * kWarpsM * Atom::kM + Atom::row_of(0, c));
        return swizzled<Parts>(start_, down + Columns::at(j * kWarpsN * Atom::kN + Atom::column_of(0, c)));
      } else {
        const uint32_t row = part_of(thread_) * kPartStride + Rows::at(row_of(thread_, i, c));
        return {Parts::swizzle(Parts::kOffset + row + Columns::at(column_of(thread_, j, c))), 0};
      }
    }
  };

 private:
  template <int, int, int, int, class, int>
  friend struct MmaFragment;

  // target = Epilogue(words)
  template <class Epilogue, class T, class S, int kCount>
  static __device__ __forceinline__ void set_values(T* target, Words<S, kCount> const& words) {
    if constexpr (cute::is_same<T, S>::value && cute::is_same<Epilogue, ops::Chain<>>::value) {
#pragma unroll
      for (int e = 0; e < kCount; ++e) target[e] = words.element(e);
    } else {
      float numbers[kCount];
      words.to_numbers(numbers);
#pragma unroll
      for (int e = 0; e < kCount; ++e) target[e] = from_number<T>(Epilogue::apply(numbers[e]));
    }
  }

  // The compiler moves no access to shared memory past this; all lanes of a warp get here.
  static __device__ __forceinline__ void keep_order() { __syncwarp(); }

  template <bool kUpdate, class Epilogue, class CLayout, int kPartStride, class D, class V>
  static __device__ __forceinline__ void write(D* dst, V const* acc, int thread) {
    if (thread >= kThreads) return;
    if constexpr (kIsLarge) thread = recomputed(thread);
    const Offsets<CLayout, kPartStride> offsets(thread);
    constexpr int kStep = Atom::kValues % 2 == 0 ? 2 : 1;
#pragma unroll kUnrollM
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll kUnrollN
      for (int j = 0; j < kTilesN; ++j) {
        if constexpr (kUpdate && kIsLarge) {
          if (j % kTilesAhead == 0) keep_order();
        }
#pragma unroll
        for (int c = 0; c < Atom::kValues; c += kStep) {
          V const* values = &acc[(i * kTilesN + j) * Atom::kValues + c];
          if constexpr (Offsets<CLayout, kPartStride>::kHasPairs) {
            if (has_row(thread, i, c, kM) && has_column(thread, j, c, kN)) {
              write_pair<kUpdate, Epilogue>(dst + offsets(i, j, c), values);
            }
          } else {
#pragma unroll
            for (int e = 0; e < kStep; ++e) {
              if (has_row(thread, i, c + e, kM) && has_column(thread, j, c + e, kN)) {
                D& target = *(dst + offsets(i, j, c + e));
                using N = Number<D, V>;
                const N result = Epilogue::apply(static_cast<N>(values[e]));
                target = from_number<D>(kUpdate ? plus(to_number<N>(target), result) : result);
              }
            }
          }
        }
      }
    }
    if constexpr (kIsLarge) keep_order();
  }

  // Whether the row or column of a value is one of the first `count`, which are no more than the matrix has.
  static __device__ __forceinline__ bool has_row(int thread, int i, int c, int count) {
    return (i + 1) * kWarpsM * Atom::kM <= count || row_of(thread, i, c) < count;
  }
  static __device__ __forceinline__ bool has_column(int thread, int j, int c, int count) {
    return (j + 1) * kWarpsN * Atom::kN <= count || column_of(thread, j, c) < count;
  }

  template <bool kUpdate, class Epilogue, class D, class V>
  static __device__ __forceinline__ void write_pair(D* target, V const* values) {
    using N = Number<D, V>;
    N results[2] = {Epilogue::apply(static_cast<N>(values[0])), Epilogue::apply(static_cast<N>(values[1]))};
    Words<D, 2> words;
    if constexpr (kUpdate) {
      N totals[2];
      words.load(target);
      words.to_numbers(totals);
      results[0] = plus(totals[0], results[0]);
      results[1] = plus(totals[1], results[1]);
    }
    words.from_numbers(results);
    words.store(target);
  }
};

}  // namespace tb
}  // namespace mugraph
