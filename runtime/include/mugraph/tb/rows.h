// Rows of a fragment: reductions of what a block holds in registers, each lane of a row with the result.
//
// A tile of kSize elements is dealt out as in LinearFragment; every kExtent neighbours are a row. The kLanes
// neighbouring threads that hold elements of a row hold one value of it each: value v of thread t is that of row
// v * (kThreads / kLanes) + t / kLanes. Threads have whole vectors of a row, the same number (kRounds) of each; of a
// single row some may have fewer.
//
// In a fixed order: a lane adds the halves of each vector to each other until one number is left, then its vectors from
// the first to the last; lanes combine pairwise over the distances 16, ..., 2, 1, and warps' numbers from memory.
#pragma once

#include "linear_fragment.h"
#include "reduce_sum.h"

namespace mugraph {
namespace tb {

template <int kThreadCount, int kVectorLength, int kSize, int kExtent>
struct LinearRows {
  static constexpr int kThreads = kThreadCount;
  static constexpr int kVector = kVectorLength;
  static constexpr int kVectors = kExtent / kVector;
  static constexpr int kLanes = kVectors <= kThreads && kThreads % kVectors == 0 ? kVectors : kThreads;
  static constexpr int kRounds = ceil_div(kVectors, kLanes);
  static constexpr int kCount = kSize / kExtent;
  static constexpr int kGroups = kThreads / kLanes;
  static constexpr int kValues = ceil_div(kCount, kGroups);
  static constexpr int kWarps = kLanes / 32;
  static constexpr int kHeld = kValues * kRounds * kVector;
  static_assert(kSize % kExtent == 0 && kExtent % kVector == 0, "a row has whole vectors");
  static_assert((kVectors % kLanes == 0 || kCount == 1) && kThreads % kLanes == 0, "rows must be shared out evenly");

  static __host__ __device__ constexpr int row_of(int thread, int value) { return value * kGroups + thread / kLanes; }
  static __host__ __device__ constexpr bool has(int thread, int value) {
    return (value + 1) * kGroups <= kCount || row_of(thread, value) < kCount;
  }
  // Whether a thread has the vector of a round of a row that it has.
  static __host__ __device__ constexpr bool has_vector(int thread, int round) {
    return (round + 1) * kLanes <= kVectors || thread % kLanes + round * kLanes < kVectors;
  }
};

template <class Combine, class Epilogue, class Rows>
struct ReduceRows {
  static_assert(Rows::kLanes % 32 == 0 || (Rows::kLanes < 32 && (Rows::kLanes & (Rows::kLanes - 1)) == 0),
                "a row is shared by whole warps, or by a power of two of threads");

  // results = Epilogue(result), of rows within a warp.
  template <class D, class S>
  static __device__ __forceinline__ void assign(D (&results)[Rows::kValues], S const (&held)[Rows::kHeld], int thread) {
    shuffled(held, thread, [&](int value, D total) { results[value] = Epilogue::apply(total); });
  }

  // results = Combine(results, Epilogue(result))
  template <class D, class S>
  static __device__ __forceinline__ void update(D (&results)[Rows::kValues], S const (&held)[Rows::kHeld], int thread) {
    shuffled(held, thread, [&](int value, D total) {
      results[value] = combine<Combine>(results[value], static_cast<D>(Epilogue::apply(total)));
    });
  }

  // The same, and differences = the old results - the new ones; 0 where they were -infinity.
  template <class D, class S>
  static __device__ __forceinline__ void track(D (&results)[Rows::kValues], D (&differences)[Rows::kValues],
                                               S const (&held)[Rows::kHeld], int thread) {
    shuffled(held, thread, [&](int value, D total) { track_value(results[value], differences[value], total); });
  }

  // parts[row][warp] = what each warp makes of its part of the row. TargetLayout is over the parts, a row's side by
  // side. Needs a barrier after it.
  template <class TargetLayout, class D, class S>
  static __device__ __forceinline__ void write_parts(D* parts, S const (&held)[Rows::kHeld], int thread) {
    static_assert(Rows::kLanes % 32 == 0, "parts are those of whole warps");
    each_lane<D, 32>(held, thread, [&](int value, D total) {
      if (thread % 32 == 0 && Rows::has(thread, value)) {
        const int part = Rows::row_of(thread, value) * Rows::kWarps + thread % Rows::kLanes / 32;
        *(parts + VectorOffsets<1, 1, TargetLayout>(part)(0)) = total;
      }
    });
  }

  // results = Epilogue(result) of what lies in memory. SourceLayout is that of Reduce.
  template <class SourceLayout, class D, class S>
  static __device__ __forceinline__ void assign_from(D (&results)[Rows::kValues], S const* source, int thread) {
    from_memory<SourceLayout, D>(source, thread,
                                 [&](int value, D total) { results[value] = Epilogue::apply(total); });
  }

  template <class SourceLayout, class D, class S>
  static __device__ __forceinline__ void update_from(D (&results)[Rows::kValues], S const* source, int thread) {
    from_memory<SourceLayout, D>(source, thread, [&](int value, D total) {
      results[value] = combine<Combine>(results[value], static_cast<D>(Epilogue::apply(total)));
    });
  }

  template <class SourceLayout, class D, class S>
  static __device__ __forceinline__ void track_from(D (&results)[Rows::kValues], D (&differences)[Rows::kValues],
                                                    S const* source, int thread) {
    from_memory<SourceLayout, D>(source, thread, [&](int value, D total) {
      track_value(results[value], differences[value], total);
    });
  }

 private:
  template <class D>
  static __device__ __forceinline__ void track_value(D& result, D& difference, D total) {
    const D before = result;
    result = combine<Combine>(before, static_cast<D>(Epilogue::apply(total)));
    difference = before == Combine::identity() ? 0.0f : before - result;
  }

  // The halves of a vector combined until one number is left.
  template <int kLength, class N>
  static __device__ __forceinline__ N halved(N (&values)[kLength]) {
#pragma unroll
    for (int half = kLength / 2; half > 0; half /= 2) {
#pragma unroll
      for (int i = 0; i < half; ++i) values[i] = combine<Combine>(values[i], values[i + half]);
    }
    return values[0];
  }

  // Calls function(value, total), with the total over kLanes neighbouring threads.
  template <class N, int kLanes, class S, class Function>
  static __device__ __forceinline__ void each_lane(S const (&held)[Rows::kHeld], int thread, Function const& function) {
    constexpr int kVector = Rows::kVector;
    constexpr int kTail = Rows::kThreads % 32;
    const unsigned mask = kTail != 0 && thread >= Rows::kThreads - kTail ? (1u << kTail) - 1u : 0xffffffffu;
    N totals[Rows::kValues];
#pragma unroll
    for (int value = 0; value < Rows::kValues; ++value) {
      totals[value] = identity<Combine, N>();
      if (Rows::has(thread, value)) {
#pragma unroll
        for (int round = 0; round < Rows::kRounds; ++round) {
          if (!Rows::has_vector(thread, round)) continue;
          N values[kVector];
#pragma unroll
          for (int i = 0; i < kVector; ++i) {
            values[i] = to_number<N>(held[(value * Rows::kRounds + round) * kVector + i]);
          }
          const N part = halved(values);
          totals[value] = round == 0 ? part : combine<Combine>(totals[value], part);
        }
      }
    }
    // The rows' shuffles side by side.
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int value = 0; value < Rows::kValues; ++value) {
        totals[value] = combine<Combine>(totals[value], __shfl_xor_sync(mask, totals[value], distance));
      }
    }
#pragma unroll
    for (int value = 0; value < Rows::kValues; ++value) function(value, totals[value]);
  }

  template <class S, class Function>
  static __device__ __forceinline__ void shuffled(S const (&held)[Rows::kHeld], int thread, Function const& function) {
    static_assert(Rows::kLanes <= 32, "lanes of several warps combine through memory");
    each_lane<Number<S>, Rows::kLanes>(held, thread, function);
  }

  template <class SourceLayout, class N, class S, class Function>
  static __device__ __forceinline__ void from_memory(S const* source, int thread, Function const& function) {
    using Results = cute::Layout<cute::Shape<cute::Int<Rows::kCount>>, cute::Stride<cute::Int<1>>>;
    using Of = Reduce<Combine, ops::Chain<>, Rows::kThreads, 1, Results, SourceLayout>;
    using Slice = typename Of::template Slice<SourceLayout>::type;
    constexpr int kVector = Of::template vector_length<static_cast<int>(sizeof(S))>();
    constexpr int kSteps = Of::Reduced::kSize / kVector;
#pragma unroll
    for (int value = 0; value < Rows::kValues; ++value) {
      N totals[kVector];
#pragma unroll
      for (int i = 0; i < kVector; ++i) totals[i] = identity<Combine, N>();
      if (Rows::has(thread, value)) {
        const VectorOffsets<1, kVector, Slice> offsets(0, Of::Outputs::at(Rows::row_of(thread, value)));
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          N values[kVector];
          load_vector<Slice, kVector>(source, offsets, step, values);
#pragma unroll
          for (int i = 0; i < kVector; ++i) totals[i] = step == 0 ? values[i] : combine<Combine>(totals[i], values[i]);
        }
      }
      function(value, halved(totals));
    }
  }
};

// dst(row) = Epilogue(value), by the first lane of each row.
template <class Epilogue, class Rows, class TargetLayout, class D, class S>
__device__ __forceinline__ void store_rows(D* dst, S const (&held)[Rows::kValues], int thread) {
  if (thread % Rows::kLanes != 0) return;
#pragma unroll
  for (int value = 0; value < Rows::kValues; ++value) {
    if (Rows::has(thread, value)) {
      using N = Number<D, S>;
      *(dst + VectorOffsets<1, 1, TargetLayout>(Rows::row_of(thread, value))(0)) =
          from_number<D>(Epilogue::apply(to_number<N>(held[value])));
    }
  }
}

}  // namespace tb
}  // namespace mugraph
