// Element-wise operations and copies whose operands are in registers, in memory, or some in either, by all threads of a
// block.
//
// What a thread holds of a tile is that of LinearFragment: value round * kVector + i is element i of vector
// thread + round * kThreads. Vectors that a thread does not own are left alone.
#pragma once

#include "../ops.h"
#include "../ragged.h"
#include "../shifted_access.h"
#include "../vector_access.h"
#include "places.h"

namespace mugraph {
namespace tb {

// Operands of Map: each gives the kVector numbers of a round.

template <int kThreads, int kVector, class Layout, class T>
struct InMemory {
  using Element = T;
  T const* source;
  VectorOffsets<kThreads, kVector, Layout> offsets;

  template <class N>
  __device__ __forceinline__ void load(int round, N (&values)[kVector]) const {
    load_vector<Layout, kVector>(source, offsets, round, values);
  }
};

template <int kVector, class T, int kCount>
struct InRegisters {
  using Element = T;
  T const (&held)[kCount];

  template <class N>
  __device__ __forceinline__ void load(int round, N (&values)[kVector]) const {
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = to_number<N>(held[round * kVector + i]);
  }
};

// One value for kRounds rounds: that of the row in which their vectors lie.
template <int kVector, int kRounds, class T, int kCount>
struct InRows {
  using Element = T;
  T const (&held)[kCount];

  template <class N>
  __device__ __forceinline__ void load(int round, N (&values)[kVector]) const {
    const N value = to_number<N>(held[round / kRounds]);
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = value;
  }
};

template <int kThreads, int kVector, class Layout, class T>
__device__ __forceinline__ InMemory<kThreads, kVector, Layout, T> in_memory(T const* source, int thread) {
  return {source, VectorOffsets<kThreads, kVector, Layout>(thread)};
}

template <int kVector, class T, int kCount>
__device__ __forceinline__ InRegisters<kVector, T, kCount> in_registers(T const (&held)[kCount]) {
  return {held};
}

template <int kVector, int kRounds, class T, int kCount>
__device__ __forceinline__ InRows<kVector, kRounds, T, kCount> in_rows(T const (&held)[kCount]) {
  return {held};
}

// An operand with the fp32 number of bits kBits in place of the elements of a ragged tile that do not exist.
template <uint32_t kBits, int kThreads, int kVector, class Operand, class... Dims>
struct Masked {
  using Element = typename Operand::Element;
  Operand operand;
  int thread;
  Within<Dims...> within;

  template <class N>
  __device__ __forceinline__ void load(int round, N (&values)[kVector]) const {
    operand.load(round, values);
    const int count = within.template count<kVector>(static_cast<uint32_t>(thread + round * kThreads) * kVector);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (i >= count) values[i] = static_cast<N>(__uint_as_float(kBits));
    }
  }
};

template <uint32_t kBits, int kThreads, int kVector, class... Dims, class Operand, class... Counts>
__device__ __forceinline__ Masked<kBits, kThreads, kVector, Operand, Dims...> masked(Operand const& operand, int thread,
                                                                                     Counts... existing) {
  return {operand, thread, Within<Dims...>(existing...)};
}

// An operand with the fp32 number of bits kBits in place of elements of which a condition does not hold.
template <uint32_t kBits, int kThreads, int kVector, class Operand, class... Forms>
struct Kept {
  using Element = typename Operand::Element;
  Operand operand;
  int thread;
  int starts[sizeof...(Forms)];

  template <class N>
  __device__ __forceinline__ void load(int round, N (&values)[kVector]) const {
    operand.load(round, values);
    const int first = (thread + round * kThreads) * kVector;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      int form = 0;
      if (!(Condition<Forms>{starts[form++]}.holds(first + i) && ...)) {
        values[i] = static_cast<N>(__uint_as_float(kBits));
      }
    }
  }
};

template <uint32_t kBits, int kThreads, int kVector, class Operand, class... Forms>
__device__ __forceinline__ Kept<kBits, kThreads, kVector, Operand, Forms...> kept(Operand const& operand, int thread,
                                                                                  Condition<Forms>... conditions) {
  return {operand, thread, {conditions.start...}};
}

template <class Op, class Epilogue, int kThreads, int kVector, int kSize>
struct Map {
  using Partition = LinearPartition<kThreads, kVector, kSize>;
  static constexpr int kValues = Partition::kRounds * kVector;
  // Several vectors are read before the first of them is written, as in Elementwise.
  static constexpr int kBatch = kVector >= 8 ? 2 : 4;
  static constexpr int kUnroll = kValues <= 64 ? ceil_div(Partition::kRounds, kBatch) : 1;

  // held = Epilogue(Op(operands...))
  template <class D, class... Operands>
  static __device__ __forceinline__ void assign(D (&held)[kValues], int thread, Operands const&... operands) {
    using N = Number<D, typename Operands::Element...>;
    each<N>(
        thread,
        [&](int round, N const (&values)[kVector]) {
          if constexpr (sizeof(D) == 2 && kVector % 2 == 0) {
            // Two in a register, as they are loaded.
            Words<D, kVector> words;
            words.from_numbers(values);
#pragma unroll
            for (int i = 0; i < kVector; ++i) held[round * kVector + i] = words.element(i);
          } else {
#pragma unroll
            for (int i = 0; i < kVector; ++i) held[round * kVector + i] = from_number<D>(values[i]);
          }
        },
        operands...);
  }

  // held += Epilogue(Op(operands...))
  template <class D, class... Operands>
  static __device__ __forceinline__ void accumulate(D (&held)[kValues], int thread, Operands const&... operands) {
    each<D>(
        thread,
        [&](int round, D const (&values)[kVector]) {
#pragma unroll
          for (int i = 0; i < kVector; ++i) held[round * kVector + i] = plus(held[round * kVector + i], values[i]);
        },
        operands...);
  }

  // dst = Epilogue(Op(operands...))
  template <class DstLayout, class D, class... Operands>
  static __device__ __forceinline__ void store(D* dst, int thread, Operands const&... operands) {
    write<false, DstLayout>(dst, thread, operands...);
  }

  // dst = dst + Epilogue(Op(operands...)): an accumulator in shared memory, rounded to D at each call.
  template <class DstLayout, class D, class... Operands>
  static __device__ __forceinline__ void update(D* dst, int thread, Operands const&... operands) {
    write<true, DstLayout>(dst, thread, operands...);
  }

 private:
  template <class N, class... Operands>
  static __device__ __forceinline__ void compute(N (&results)[kVector], int round, Operands const&... operands) {
    N values[sizeof...(Operands)][kVector];
    int next = 0;
    (operands.load(round, values[next++]), ...);
    apply(results, values, cute::make_int_sequence<sizeof...(Operands)>{});
  }

  template <class N, int kCount, int... I>
  static __device__ __forceinline__ void apply(N (&results)[kVector], N const (&values)[kCount][kVector],
                                               cute::integer_sequence<int, I...>) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) results[i] = Epilogue::apply(Op::apply(values[I][i]...));
  }

  template <class N, class Function, class... Operands>
  static __device__ __forceinline__ void each(int thread, Function const& function, Operands const&... operands) {
#pragma unroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (Partition::owns(thread, round)) {
        N results[kVector];
        compute(results, round, operands...);
        function(round, results);
      }
    }
  }

  // Registers are indexed by the round, so that the loop over batches is unrolled where any operand is held.
  template <bool kUpdate, class DstLayout, class D, class... Operands>
  static __device__ __forceinline__ void write(D* dst, int thread, Operands const&... operands) {
    static_assert(size_of<DstLayout> == kSize, "the destination must have the number of elements that is dealt out");
    using N = Number<D, typename Operands::Element...>;
    const VectorOffsets<kThreads, kVector, DstLayout> offsets(thread);
#pragma unroll
    for (int first = 0; first < Partition::kRounds; first += kBatch) {
      N values[kBatch][kVector];
      Partition::template each_owned<kBatch>(thread, first, [&](int i) {
        compute(values[i], first + i, operands...);
        if constexpr (kUpdate) {
          N before[kVector];
          load_vector<DstLayout, kVector>(dst, offsets, first + i, before);
#pragma unroll
          for (int e = 0; e < kVector; ++e) values[i][e] = plus(before[e], values[i][e]);
        }
      });
      Partition::template each_owned<kBatch>(
          thread, first, [&](int i) { store_vector<DstLayout, kVector>(dst, offsets, first + i, values[i]); });
    }
  }
};

// The same value by value, of operands that are all held alike: rows of fragments.
template <class Op, class Epilogue, class D, int kValues, class... S>
__device__ __forceinline__ void map_values(D (&held)[kValues], S const (&... sources)[kValues]) {
  using N = Number<D, S...>;
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    held[i] = from_number<D>(Epilogue::apply(Op::apply(to_number<N>(sources[i])...)));
  }
}

template <class Op, class Epilogue, class D, int kValues, class... S>
__device__ __forceinline__ void accumulate_values(D (&held)[kValues], S const (&... sources)[kValues]) {
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    held[i] = plus(held[i], static_cast<D>(Epilogue::apply(Op::apply(to_number<D>(sources[i])...))));
  }
}

template <class D, int kValues>
__device__ __forceinline__ void fill_values(D (&held)[kValues], float value) {
#pragma unroll
  for (int i = 0; i < kValues; ++i) held[i] = from_number<D>(value);
}

// The same values, of which the compiler remembers nothing that it computed: not before `after` is known it computes that
// anew. Pairs of 16-bit elements are in a register.
template <class T, int kValues, class S, int kOthers>
__device__ __forceinline__ void renew(T (&held)[kValues], S const (&after)[kOthers]) {
  constexpr int kTogether = sizeof(T) < 4 && kValues % (4 / sizeof(T)) == 0 ? 4 / sizeof(T) : 1;
  const uint32_t known = bits_of(after[0]);
#pragma unroll
  for (int i = 0; i < kValues; i += kTogether) {
    Words<T, kTogether> words;
    words.from_elements(held + i);
    asm volatile("" : "+r"(words.words[0]) : "r"(known));
#pragma unroll
    for (int e = 0; e < kTogether; ++e) held[i + e] = words.element(e);
  }
}

// Copies between a tile in memory and the registers of a block; with Dims, of what exists of a ragged tile.
template <int kThreads, int kVector, class Layout, class... Dims>
struct HeldCopy {
  using Partition = LinearPartition<kThreads, kVector, size_of<Layout>>;
  static constexpr int kValues = Partition::kRounds * kVector;

  // held = src, 0 where the source has no element.
  template <class D, class S, class... Counts>
  static __device__ __forceinline__ void load(D (&held)[kValues], S const* src, int thread, Counts... existing) {
    if constexpr (sizeof...(Dims) > 0 && (kVector == 1 || access_of<Layout, kVector>() == Access::kContiguous)) {
      load_existing(held, src, thread, existing...);
    } else {
      load_each(held, src, thread, existing...);
    }
  }

  // The same of vectors that start anywhere; `tensor` is what the tile is of. All are asked for before the first is
  // shifted, but no more than kBatch: each has twice its registers until then.
  template <class T, class... Counts>
  static __device__ __forceinline__ void load_shifted(T (&held)[kValues], T const* src, Tensor<T> tensor, int thread,
                                                      Counts... existing) {
    static_assert(Mode<typename LayoutParts<Layout>::Linear>::kFirstStride == 1 &&
                      Mode<typename LayoutParts<Layout>::Linear>::kFirstExtent % kVector == 0,
                  "the source must keep vectors contiguous");
    constexpr int kBatch = ceil_div(Partition::kRounds, ceil_div(Partition::kRounds, 4));
    const VectorOffsets<kThreads, kVector, Layout> offsets(thread);
#pragma unroll
    for (int first = 0; first < Partition::kRounds; first += kBatch) {
      ShiftedLoad<T, kVector> loads[kBatch];
      Partition::template each_owned<kBatch>(thread, first, [&](int i) {
        loads[i].issue(src + offsets(first + i), count_of(thread, first + i, existing...), tensor);
      });
      Partition::template each_owned<kBatch>(thread, first, [&](int i) {
        Words<T, kVector> vector;
        loads[i].finish(src + offsets(first + i), vector);
#pragma unroll
        for (int e = 0; e < kVector; ++e) held[(first + i) * kVector + e] = vector.element(e);
      });
    }
  }

  // dst = held, where the destination, a pointer or what gives one for each offset, has an element.
  template <class Target, class S, class... Counts>
  static __device__ __forceinline__ void store(Target dst, S const (&held)[kValues], int thread, Counts... existing) {
    using D = std::remove_pointer_t<decltype(dst + 0)>;
    const VectorOffsets<kThreads, kVector, Layout> offsets(thread);
#pragma unroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (!Partition::owns(thread, round)) continue;
      const int count = count_of(thread, round, existing...);
      if (count == kVector) {
        using N = Number<D, S>;
        N values[kVector];
#pragma unroll
        for (int i = 0; i < kVector; ++i) values[i] = to_number<N>(held[round * kVector + i]);
        store_vector<Layout, kVector>(dst, offsets, round, values);
      } else if (ends_in_part<kVector, Dims...>(existing...)) {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          if (i < count) *(dst + offsets(round, i)) = convert<D>(held[round * kVector + i]);
        }
      }
    }
  }

 private:
  // All vectors are asked for before the first is looked at: what a branch does with one would wait for it.
  template <class D, class S, class... Counts>
  static __device__ __forceinline__ void load_existing(D (&held)[kValues], S const* src, int thread,
                                                       Counts... existing) {
    const VectorOffsets<kThreads, kVector, Layout> offsets(thread);
    Words<S, kVector> vectors[Partition::kRounds] = {};
#pragma unroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (Partition::owns(thread, round) && count_of(thread, round, existing...) == kVector) {
        vectors[round].load(src + offsets(round));
      }
    }
    if (ends_in_part<kVector, Dims...>(existing...)) {
#pragma unroll
      for (int round = 0; round < Partition::kRounds; ++round) {
        if (!Partition::owns(thread, round)) continue;
        const int count = count_of(thread, round, existing...);
        if (0 < count && count < kVector) vectors[round].load_first(src + offsets(round), count);
      }
    }
#pragma unroll
    for (int round = 0; round < Partition::kRounds; ++round) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) held[round * kVector + i] = convert<D>(vectors[round].element(i));
    }
  }

  template <class D, class S, class... Counts>
  static __device__ __forceinline__ void load_each(D (&held)[kValues], S const* src, int thread, Counts... existing) {
    const VectorOffsets<kThreads, kVector, Layout> offsets(thread);
#pragma unroll
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (!Partition::owns(thread, round)) continue;
      const int count = count_of(thread, round, existing...);
      if (count == kVector) {
        load_vector_as<D>(held, src, offsets, round);
      } else {
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          held[round * kVector + i] = i < count ? convert<D>(*(src + offsets(round, i))) : from_bits<D>(0);
        }
      }
    }
  }

  template <class... Counts>
  static __device__ __forceinline__ int count_of(int thread, int round, Counts... existing) {
    if constexpr (sizeof...(Dims) == 0) {
      return kVector;
    } else {
      return Within<Dims...>(existing...)
          .template count<kVector>(static_cast<uint32_t>(thread + round * kThreads) * kVector);
    }
  }

  template <class D, class S>
  static __device__ __forceinline__ D convert(S value) {
    if constexpr (cute::is_same<D, S>::value) {
      return value;
    } else {
      return from_number<D>(to_number<Number<D, S>>(value));
    }
  }

  template <class D, class S, class Offsets>
  static __device__ __forceinline__ void load_vector_as(D (&held)[kValues], S const* src, Offsets const& offsets,
                                                        int round) {
    if constexpr (cute::is_same<D, S>::value && sizeof(D) < 4 &&
                  access_of<Layout, kVector>() == Access::kContiguous) {
      // As they lie in memory; they become numbers where they are used.
      Words<S, kVector> words;
      words.load(src + offsets(round));
#pragma unroll
      for (int i = 0; i < kVector; ++i) held[round * kVector + i] = words.element(i);
    } else {
      using N = Number<D, S>;
      N values[kVector];
      load_vector<Layout, kVector>(src, offsets, round, values);
#pragma unroll
      for (int i = 0; i < kVector; ++i) held[round * kVector + i] = from_number<D>(values[i]);
    }
  }
};

}  // namespace tb
}  // namespace mugraph
