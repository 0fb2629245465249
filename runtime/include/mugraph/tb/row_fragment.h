// Numbers of the rows of a product's accumulator, and what threads compute on both without memory.
//
// A thread holds a number for each row of which it holds values in an MmaFragment of kWarpsM x 1 warps: number
// i * Atom::kRowSlots + s is that of slot s of its m tile i (Atom::slot_of). The Atom::kRowLanes lanes that share a row
// either all hold the row's number, or each a part of it.
#pragma once

#include "mma_fragment.h"

namespace mugraph {
namespace tb {

template <int kWarpsM, int kM, class Atom>
struct RowFragment {
  static constexpr int kThreads = kWarpsM * Atom::kThreads;
  static constexpr int kTilesM = ceil_div(ceil_div(kM, Atom::kM), kWarpsM);
  static constexpr int kValues = kTilesM * Atom::kRowSlots;
  static constexpr int kLanes = Atom::kRowLanes;

  template <class T>
  static __device__ __forceinline__ void fill(T (&rows)[kValues], float number) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) rows[i] = from_number<T>(number);
  }

  static __host__ __device__ constexpr int row_slot_of(int value) { return value; }

  // dst(m, 0) = Epilogue(rows), by the first lane of those that share a row. Layout is (M, 1).
  template <class Epilogue, class Layout, class D, class T>
  static __device__ __forceinline__ void store(D* dst, T const (&rows)[kValues], int thread) {
    using Parts = LayoutParts<Layout>;
    using Rows = Mode<decltype(cute::layout<0>(typename Parts::Linear{}))>;
    static_assert(Rows::kSize == kM, "the result's layout must have the fragment's rows");
    if (thread >= kThreads || thread % kLanes != 0) return;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
      for (int c = 0; c < Atom::kValues; ++c) {
        if (c > 0 && Atom::slot_of(c) == Atom::slot_of(c - 1)) continue;
        const int row = (i * kWarpsM + thread / Atom::kThreads) * Atom::kM + Atom::row_of(thread % Atom::kThreads, c);
        if ((i + 1) * kWarpsM * Atom::kM <= kM || row < kM) {
          using N = Number<D, T>;
          const N number = Epilogue::apply(to_number<N>(rows[i * Atom::kRowSlots + Atom::slot_of(c)]));
          dst[Parts::swizzle(Parts::kOffset + Rows::at(row))] = from_number<D>(number);
        }
      }
    }
  }

  // rows = Epilogue(src(m, 0)), the same number in all lanes that share a row; 0 past those that exist. Layout is (M,
  // 1).
  template <class Epilogue, class Layout, class T, class S>
  static __device__ __forceinline__ void load(T (&rows)[kValues], S const* src, int thread, int existing = kM) {
    using Parts = LayoutParts<Layout>;
    using Rows = Mode<decltype(cute::layout<0>(typename Parts::Linear{}))>;
    static_assert(Rows::kSize == kM, "the source's layout must have the fragment's rows");
    if (thread >= kThreads) return;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
      for (int c = 0; c < Atom::kValues; ++c) {
        if (c > 0 && Atom::slot_of(c) == Atom::slot_of(c - 1)) continue;
        const int row = (i * kWarpsM + thread / Atom::kThreads) * Atom::kM + Atom::row_of(thread % Atom::kThreads, c);
        float number = 0.0f;
        const bool exists = existing == kM ? (i + 1) * kWarpsM * Atom::kM <= kM || row < kM : row < existing;
        if (exists) {
          number = to_number<float>(src[Parts::swizzle(Parts::kOffset + Rows::at(row))]);
        }
        rows[i * Atom::kRowSlots + Atom::slot_of(c)] = from_number<T>(Epilogue::apply(number));
      }
    }
  }
};

// A number for each column of which a thread holds values in an MmaFragment of kWarpsN warps along n: number
// j * Atom::kColumnSlots + s is that of slot s of its n tile j. With kWarpsK each of the warps along k has numbers of its
// own.
template <int kWarpsM, int kWarpsN, int kN, class Atom, int kWarpsK = 1>
struct ColumnFragment {
  static constexpr int kTilesN = ceil_div(ceil_div(kN, Atom::kN), kWarpsN);
  static constexpr int kValues = kTilesN * Atom::kColumnSlots;

  // columns = Epilogue(src(0, n)), of 0 past those that exist; Layout is (1, N). Those of part p lie kPartStride * p
  // elements further on.
  template <class Epilogue, class Layout, int kPartStride = 0, class S>
  static __device__ __forceinline__ void load(float (&columns)[kValues], S const* src, int thread, int existing = kN) {
    using Parts = LayoutParts<Layout>;
    using Columns = Mode<decltype(cute::layout<1>(typename Parts::Linear{}))>;
    static_assert(Columns::kSize == kN, "the source's layout must have the fragment's columns");
    constexpr int kThreadsOfPart = kWarpsM * kWarpsN * Atom::kThreads;
    if (kWarpsK > 1 && thread >= kThreadsOfPart * kWarpsK) return;
    const int first = Parts::kOffset + (kWarpsK == 1 ? 0 : thread / kThreadsOfPart * kPartStride);
    const int warp = thread / Atom::kThreads / kWarpsM % kWarpsN;
#pragma unroll
    for (int j = 0; j < kTilesN; ++j) {
#pragma unroll
      for (int c = 0; c < Atom::kColumnSlots; ++c) {
        const int within = Atom::column_of(thread % Atom::kThreads, Atom::value_of_column_slot(c));
        const int column = (j * kWarpsN + warp) * Atom::kN + within;
        float number = 0.0f;
        if ((existing == kN && (j + 1) * kWarpsN * Atom::kN <= kN) || column < existing) {
          number = to_number<float>(src[Parts::swizzle(first + Columns::at(column))]);
        }
        columns[j * Atom::kColumnSlots + c] = Epilogue::apply(number);
      }
    }
  }
};

// A source of MapFragment that has a number for each column.
template <class T, int kCount>
struct ByColumn {
  T const (&numbers)[kCount];
};

template <class T, int kCount>
__device__ __forceinline__ ByColumn<T, kCount> by_column(T const (&numbers)[kCount]) {
  return {numbers};
}

// dst = Epilogue(Op(sources...)), value by value. Fragment is the destination's class; a source has its values, or a
// number for each of its rows. The destination may be one of the sources.
template <class Op, class Epilogue, class Fragment>
struct MapFragment {
  static constexpr int kValues = Fragment::kValues;

  template <class D, class... Sources>
  static __device__ __forceinline__ void store(D (&dst)[kValues], Sources const&... sources) {
    run<false>(dst, sources...);
  }

  // dst = dst + Epilogue(Op(sources...))
  template <class D, class... Sources>
  static __device__ __forceinline__ void update(D (&dst)[kValues], Sources const&... sources) {
    run<true>(dst, sources...);
  }

 private:
  template <class N, class S, int kCount>
  static __device__ __forceinline__ N held(S const (&source)[kCount], int value) {
    return to_number<N>(source[kCount == kValues ? value : Fragment::row_slot_of(value)]);
  }
  template <class N, class S, int kCount>
  static __device__ __forceinline__ N held(ByColumn<S, kCount> const& source, int value) {
    return to_number<N>(source.numbers[Fragment::column_slot_of(value)]);
  }

  template <class Source>
  struct Element;
  template <class S, int kCount>
  struct Element<S[kCount]> {
    using type = S;
  };
  template <class S, int kCount>
  struct Element<ByColumn<S, kCount>> {
    using type = S;
  };

  template <bool kUpdate, class D, class... Sources>
  static __device__ __forceinline__ void run(D (&dst)[kValues], Sources const&... sources) {
    using N = Number<D, typename Element<Sources>::type...>;
    constexpr int kStep = sizeof(D) == 2 && kValues % 2 == 0 ? 2 : 1;
#pragma unroll
    for (int value = 0; value < kValues; value += kStep) {
      N results[kStep];
#pragma unroll
      for (int e = 0; e < kStep; ++e) {
        results[e] = Epilogue::apply(Op::apply(held<N>(sources, value + e)...));
        if constexpr (kUpdate) results[e] = plus(to_number<N>(dst[value + e]), results[e]);
      }
      if constexpr (kStep == 2) {
        Words<D, 2> pair;
        pair.from_numbers(results);
        pair.store(&dst[value]);
      } else {
        dst[value] = from_number<D>(results[0]);
      }
    }
  }
};

// Combines what each thread holds of a row: every other column from the first to the last, and then both results, so that
// not every step waits for the one before. Where kShuffles, the lanes that share the row then combine theirs over the
// distances kRowLanes / 2, ..., 2, 1, and all of them have the result. Source is an MmaFragment, or a RowFragment of
// parts. All lanes of a warp must call.
template <class Combine, class Epilogue, bool kShuffles, class Source, class Rows>
struct ReduceFragmentRows {
  static constexpr int kValues = Rows::kValues;
  // Into how many parts the values of a row are dealt: values side by side lie in different ones.
  static constexpr int kParts = Source::kValues >= 8 * kValues ? 2 : 1;

  // rows = Epilogue(result)
  template <class S>
  static __device__ __forceinline__ void store(float (&rows)[kValues], S const (&source)[Source::kValues]) {
    float totals[kValues];
    reduce(totals, source);
#pragma unroll
    for (int i = 0; i < kValues; ++i) rows[i] = Epilogue::apply(totals[i]);
  }

  // rows = Combine(rows, Epilogue(result))
  template <class S>
  static __device__ __forceinline__ void update(float (&rows)[kValues], S const (&source)[Source::kValues]) {
    float totals[kValues];
    reduce(totals, source);
#pragma unroll
    for (int i = 0; i < kValues; ++i) rows[i] = Combine::apply(rows[i], Epilogue::apply(totals[i]));
  }

  // The same, and difference = the old number - the new one; 0 where the old one was -infinity.
  template <class S>
  static __device__ __forceinline__ void track(float (&rows)[kValues], float (&difference)[kValues],
                                               S const (&source)[Source::kValues]) {
    float totals[kValues];
    reduce(totals, source);
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      const float before = rows[i];
      rows[i] = Combine::apply(before, Epilogue::apply(totals[i]));
      difference[i] = before == Combine::identity() ? 0.0f : before - rows[i];
    }
  }

 private:
  // Whether values 2 i and 2 i + 1 are always of one row.
  static __host__ __device__ constexpr bool has_pairs(int count) {
    for (int value = 0; value + 1 < count; value += 2) {
      if (Source::row_slot_of(value) != Source::row_slot_of(value + 1)) return false;
    }
    return true;
  }

  template <class S>
  static __device__ __forceinline__ void reduce(float (&totals)[kValues], S const (&source)[Source::kValues]) {
    float parts[kParts][kValues];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) parts[part][i] = Combine::identity();
    }
#pragma unroll
    for (int value = 0; value < Source::kValues; ++value) {
      float& total = parts[value % kParts][Source::row_slot_of(value)];
      total = Combine::apply(total, to_number<float>(source[value]));
    }
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      totals[i] = parts[0][i];
#pragma unroll
      for (int part = 1; part < kParts; ++part) totals[i] = Combine::apply(totals[i], parts[part][i]);
    }
    if constexpr (kShuffles) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
#pragma unroll
        for (int distance = Rows::kLanes / 2; distance > 0; distance /= 2) {
          totals[i] = Combine::apply(totals[i], __shfl_xor_sync(0xffffffffu, totals[i], distance));
        }
      }
    }
  }
};

}  // namespace tb
}  // namespace mugraph
