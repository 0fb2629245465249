// The instructions of matrix products, by CuTe's names: their extents, who holds what, and how elements reach them.
//
// Instructions of a warp: kM = 16, kN = 8. A register of A or B holds kPacked elements, neighbours along k, and
// kK = 8 kPacked. Lane l holds, in
//   a[q]: A(row, k) ... with row = l / 4 + 8 (q % 2), k = kPacked (l % 4) + kK / 2 (q / 2)
//   b[q]: B(k, column) ... with column = l / 4, k = kPacked (l % 4) + kK / 2 q
//   d[c]: D(row, column) with row = l / 4 + 8 (c / 2), column = 2 (l % 4) + c % 2
// Products are exact; the sums of an instruction are formed in Sum. Those in float come in an order that the hardware
// chooses, truncated; those in int32_t are exact modulo 2^32.
//
// With swapped operands (kM = 8, kN = 16) the instruction computes the transposed product: its A is B, and its B is A.
//
// Instructions of a warp group (sm_90a): kM = 64, kN a multiple of 8, kK elements are 32 bytes. Their operands are
// matrices in shared memory, or A in registers; a generated file defines those it uses. Thread t holds, in
//   d[c]: D(row, column) with row = 16 (t / 32) + t % 32 / 4 + 8 (c / 2 % 2), column = 8 (c / 4) + 2 (t % 4) + c % 2
//
// Instructions of one thread: kM = kN = kK = 1, a fused multiply-add.
#pragma once

#include "arch/cute.h"
#include "byte_bits.h"
#include "numbers.h"
#include "ops.h"
#include "vector_access.h"

namespace mugraph {

// A float with 10 bits of mantissa, to nearest with ties away from zero, in the bits of a float.
__device__ __forceinline__ uint32_t round_to_tf32(float value) {
#if defined(__CUDA_ARCH__)
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#else
  const uint32_t bits = __float_as_uint(value);
  const bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
  return is_finite ? (bits + 0x1000u) & 0xffffe000u : bits;
#endif
}

namespace atoms {

struct OfWarp {
  static constexpr int kM = 16;
  static constexpr int kN = 8;
  static constexpr int kThreads = 32;
  static constexpr int kValues = 4;  // of D, a thread
  static constexpr bool kHasPairs = true;  // d[2 i] and d[2 i + 1] are neighbours in a row
  static __host__ __device__ constexpr int row_of(int lane, int c) { return lane / 4 + 8 * (c / 2); }
  static __host__ __device__ constexpr int column_of(int lane, int c) { return 2 * (lane % 4) + c % 2; }
  // A thread holds values of kRowSlots rows of D, each shared by kRowLanes neighbouring lanes.
  static constexpr int kRowSlots = 2;
  static constexpr int kRowLanes = 4;
  static __host__ __device__ constexpr int slot_of(int c) { return c / 2; }
  // And values of kColumnSlots columns.
  static constexpr int kColumnSlots = 2;
  static __host__ __device__ constexpr int column_slot_of(int c) { return c % 2; }
  // The first value in the column of a slot.
  static __host__ __device__ constexpr int value_of_column_slot(int slot) { return slot; }
};

// A register as it was loaded is one that the instruction takes.
struct TakesStored {
  static __device__ __forceinline__ uint32_t prepare(uint32_t stored) { return stored; }
};

// An instruction of a warp that adds up in float, by CuTe's wrapper of it.
template <class Wrapper, class TypeOfA, class TypeOfB = TypeOfA>
struct AddsFloats : OfWarp {
  using OperandA = TypeOfA;
  using OperandB = TypeOfB;
  using Sum = float;
  static_assert(sizeof(OperandA) == sizeof(OperandB), "both operands have elements of one size");
  static constexpr int kPacked = 4 / static_cast<int>(sizeof(OperandA));
  static __device__ __forceinline__ void mma(float* d, uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
    Wrapper::fma(d[0], d[1], d[2], d[3], a[0], a[1], a[2], a[3], b0, b1, d[0], d[1], d[2], d[3]);
  }
};

struct SM80_16x8x16_F32F16F16F32_TN : AddsFloats<cute::SM80_16x8x16_F32F16F16F32_TN, half_t>, TakesStored {};
struct SM80_16x8x16_F32BF16BF16F32_TN : AddsFloats<cute::SM80_16x8x16_F32BF16BF16F32_TN, bfloat16_t>, TakesStored {};
struct SM80_16x8x8_F32TF32TF32F32_TN : AddsFloats<cute::SM80_16x8x8_F32TF32TF32F32_TN, float> {
  static __device__ __forceinline__ uint32_t prepare(uint32_t stored) {
    return round_to_tf32(__uint_as_float(stored));
  }
};

// What threads hold of D where an instruction computes the transposed matrix.
template <class Instruction>
struct HoldsTransposed {
  static constexpr int kThreads = Instruction::kThreads;
  static constexpr int kValues = Instruction::kValues;
  static constexpr bool kHasPairs = false;
  static __host__ __device__ constexpr int row_of(int thread, int c) { return Instruction::column_of(thread, c); }
  static __host__ __device__ constexpr int column_of(int thread, int c) { return Instruction::row_of(thread, c); }
  static constexpr int kRowSlots = Instruction::kColumnSlots;  // shared by lanes that are no neighbours
  static __host__ __device__ constexpr int slot_of(int c) { return Instruction::column_slot_of(c); }
  static constexpr int kColumnSlots = Instruction::kRowSlots;
  static __host__ __device__ constexpr int column_slot_of(int c) { return Instruction::slot_of(c); }
  static __host__ __device__ constexpr int value_of_column_slot(int slot) { return 2 * slot; }
};

// An instruction whose operands change places.
template <class WarpInstruction>
struct TakesSwapped : TakesStored {
  using Instruction = WarpInstruction;
  using OperandA = typename Instruction::OperandB;
  using OperandB = typename Instruction::OperandA;
  using Sum = typename Instruction::Sum;
  static constexpr int kM = Instruction::kN;
  static constexpr int kN = Instruction::kM;
  static constexpr int kPacked = Instruction::kPacked;
};

// The same with swapped operands.
template <class Instruction>
struct SwapsOperands : TakesSwapped<Instruction>, HoldsTransposed<Instruction> {
  using Sum = typename Instruction::Sum;
  // b: registers of this product's B, the instruction's A.
  static __device__ __forceinline__ void mma(Sum* d, uint32_t const (&b)[4], uint32_t a0, uint32_t a1) {
    Instruction::mma(d, b, a0, a1);
  }
};

struct SM80_8x16x16_F32F16F16F32_SWAPPED : SwapsOperands<SM80_16x8x16_F32F16F16F32_TN> {};
struct SM80_8x16x16_F32BF16BF16F32_SWAPPED : SwapsOperands<SM80_16x8x16_F32BF16BF16F32_TN> {};

// The same for a B of bytes with neighbours along n side by side: of the 16 columns a lane holds those at 2 (l / 4) and
// 2 (l / 4) + 1. The instruction's rows are the even columns, and behind them the odd ones.
template <class Instruction>
struct SwapsPairs : TakesSwapped<Instruction> {
  using Sum = typename Instruction::Sum;
  static constexpr int kThreads = Instruction::kThreads;
  static constexpr int kValues = Instruction::kValues;
  static constexpr bool kHasPairs = true;
  static __host__ __device__ constexpr int row_of(int lane, int c) { return 2 * (lane % 4) + c / 2; }
  static __host__ __device__ constexpr int column_of(int lane, int c) { return 2 * (lane / 4) + c % 2; }
  static constexpr int kRowSlots = 2;  // shared by lanes that are no neighbours
  static __host__ __device__ constexpr int slot_of(int c) { return c / 2; }
  static constexpr int kColumnSlots = 2;
  static __host__ __device__ constexpr int column_slot_of(int c) { return c % 2; }
  static __host__ __device__ constexpr int value_of_column_slot(int slot) { return slot; }
  static __device__ __forceinline__ void mma(Sum* d, uint32_t const (&b)[4], uint32_t a0, uint32_t a1) {
    Sum sums[4] = {d[0], d[2], d[1], d[3]};
    Instruction::mma(sums, b, a0, a1);
    d[0] = sums[0];
    d[1] = sums[2];
    d[2] = sums[1];
    d[3] = sums[3];
  }
};

struct SM80_8x16x16_F32F16F16F32_PAIRS : SwapsPairs<SM80_16x8x16_F32F16F16F32_TN> {};
struct SM80_8x16x16_F32BF16BF16F32_PAIRS : SwapsPairs<SM80_16x8x16_F32BF16BF16F32_TN> {};

using E4M3 = float_e4m3_t;
using E5M2 = float_e5m2_t;
struct SM89_16x8x32_F32E4M3E4M3F32_TN : AddsFloats<cute::SM89_16x8x32_F32E4M3E4M3F32_TN, E4M3, E4M3>, TakesStored {};
struct SM89_16x8x32_F32E4M3E5M2F32_TN : AddsFloats<cute::SM89_16x8x32_F32E4M3E5M2F32_TN, E4M3, E5M2>, TakesStored {};
struct SM89_16x8x32_F32E5M2E4M3F32_TN : AddsFloats<cute::SM89_16x8x32_F32E5M2E4M3F32_TN, E5M2, E4M3>, TakesStored {};
struct SM89_16x8x32_F32E5M2E5M2F32_TN : AddsFloats<cute::SM89_16x8x32_F32E5M2E5M2F32_TN, E5M2, E5M2>, TakesStored {};

struct SM80_16x8x32_S32S8S8S32_TN : OfWarp, TakesStored {
  using OperandA = int8_t;
  using OperandB = int8_t;
  using Sum = int32_t;
  static constexpr int kPacked = 4;
  static __device__ __forceinline__ void mma(int32_t* d, uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
    uint32_t* const sums = reinterpret_cast<uint32_t*>(d);
    cute::SM80_16x8x32_S32S8S8S32_TN::fma(sums[0], sums[1], sums[2], sums[3], a[0], a[1], a[2], a[3], b0, b1, sums[0],
                                          sums[1], sums[2], sums[3]);
  }
};

// A product of two elements, as it is added to a sum.
template <class Sum, class A, class B>
__device__ __forceinline__ Sum product(A a, B b) {
  if constexpr (cute::is_same<Sum, int32_t>::value) {
    return static_cast<int32_t>(a) * static_cast<int32_t>(b);
  } else {
    return to_float(a) * to_float(b);
  }
}

template <class TypeOfA, class TypeOfB, class TypeOfSum, int kColumns>
struct OfWarpgroup {
  using OperandA = TypeOfA;
  using OperandB = TypeOfB;
  using Sum = TypeOfSum;
  static_assert(sizeof(OperandA) == sizeof(OperandB), "both operands have elements of one size");
  static constexpr int kM = 64;
  static constexpr int kN = kColumns;
  static constexpr int kK = 32 / static_cast<int>(sizeof(OperandA));
  static constexpr int kThreads = 128;
  static constexpr int kValues = kColumns / 2;
  static constexpr bool kHasPairs = true;
  static __host__ __device__ constexpr int row_of(int thread, int c) {
    return 16 * (thread / 32) + thread % 32 / 4 + 8 * (c / 2 % 2);
  }
  static __host__ __device__ constexpr int column_of(int thread, int c) { return 8 * (c / 4) + 2 * (thread % 4) + c % 2; }
  static constexpr int kRowSlots = 2;
  static constexpr int kRowLanes = 4;
  static __host__ __device__ constexpr int slot_of(int c) { return c / 2 % 2; }
  static constexpr int kColumnSlots = kColumns / 4;
  static __host__ __device__ constexpr int column_slot_of(int c) { return c / 4 * 2 + c % 2; }
  static __host__ __device__ constexpr int value_of_column_slot(int slot) { return slot / 2 * 4 + slot % 2; }

  // What the instruction adds to the values of the calling thread, for emulation on the host.
  template <class A, class B>
  static void emulate(Sum* d, A const& a, B const& b, int thread) {
    for (int c = 0; c < kValues; ++c) {
      for (int k = 0; k < kK; ++k) {
        d[c] = plus(d[c], product<Sum>(a.element(row_of(thread, c), k), b.element(column_of(thread, c), k)));
      }
    }
  }

  // The same where the sums of the first half of the columns are in `d`, the others in `e`.
  template <class A, class B>
  static void emulate(Sum* d, Sum* e, A const& a, B const& b, int thread) {
    Sum sums[kValues];
    for (int c = 0; c < kValues; ++c) sums[c] = c < kValues / 2 ? d[c] : e[c - kValues / 2];
    emulate(sums, a, b, thread);
    for (int c = 0; c < kValues; ++c) (c < kValues / 2 ? d[c] : e[c - kValues / 2]) = sums[c];
  }

  // The same with A in registers: the four lanes that share a row hold its elements, a pair of neighbours along k in
  // each register, those of a[q] at k = 2 (t % 4) + 8 (q / 2), of the rows of d[2 (q % 2)].
  template <class B>
  static __device__ void emulate(Sum* d, uint32_t const (&a)[4], B const& b, int thread) {
    static_assert(sizeof(OperandA) == 2, "matrices in registers are of 16 bits");
    OperandA rows[2][kK];
    for (int q = 0; q < 4; ++q) {
      for (int lane = 0; lane < 4; ++lane) {
        const uint32_t pair = __shfl_sync(0xffffffffu, a[q], thread % 32 / 4 * 4 + lane);
        for (int e = 0; e < 2; ++e) rows[q % 2][2 * lane + 8 * (q / 2) + e] = from_bits<OperandA>(pair >> 16 * e & 0xffff);
      }
    }
    for (int c = 0; c < kValues; ++c) {
      for (int k = 0; k < kK; ++k) {
        d[c] = plus(d[c], product<Sum>(rows[slot_of(c)][k], b.element(column_of(thread, c), k)));
      }
    }
  }
};

// The same with swapped operands: the hardware multiplies the transposed matrices, so that its 64 rows are columns of D,
// and rows of D, kRows of them, its columns. Thread t holds, in
//   d[c]: D(row, column) with row = 8 (c / 4) + 2 (t % 4) + c % 2, column = 16 (t / 32) + t % 32 / 4 + 8 (c / 2 % 2)
template <class TypeOfA, class TypeOfB, class TypeOfSum, int kRows>
struct OfSwappedWarpgroup : HoldsTransposed<OfWarpgroup<TypeOfB, TypeOfA, TypeOfSum, kRows>> {
  using Transposed = OfWarpgroup<TypeOfB, TypeOfA, TypeOfSum, kRows>;
  using OperandA = TypeOfA;
  using OperandB = TypeOfB;
  using Sum = TypeOfSum;
  static constexpr int kM = kRows;
  static constexpr int kN = Transposed::kM;
  static constexpr int kK = Transposed::kK;

  // What the instruction adds to the values of the calling thread, for emulation on the host; B may be in registers, as
  // the hardware's left matrix.
  template <class A, class B>
  static void emulate(Sum* d, A const& a, B const& b, int thread) {
    Transposed::emulate(d, b, a, thread);
  }
};

struct OfThread {
  static constexpr int kM = 1;
  static constexpr int kN = 1;
  static constexpr int kThreads = 1;
  static constexpr int kValues = 1;
  static constexpr bool kHasPairs = false;
  static __host__ __device__ constexpr int row_of(int, int) { return 0; }
  static __host__ __device__ constexpr int column_of(int, int) { return 0; }
  static constexpr int kRowSlots = 1;
  static constexpr int kRowLanes = 1;
  static __host__ __device__ constexpr int slot_of(int) { return 0; }
  static constexpr int kColumnSlots = 1;
  static __host__ __device__ constexpr int column_slot_of(int) { return 0; }
  static __host__ __device__ constexpr int value_of_column_slot(int) { return 0; }
};

struct UniversalFMA_F32 : OfThread {
  using Sum = float;
  static __device__ __forceinline__ float fma(float a, float b, float c) { return fmaf(a, b, c); }
  template <class T>
  static __device__ __forceinline__ float operand(T value) {
    return to_float(value);
  }
};

struct UniversalFMA_S32 : OfThread {
  using Sum = int32_t;
  static __device__ __forceinline__ int32_t fma(int32_t a, int32_t b, int32_t c) { return plus(a * b, c); }
  template <class T>
  static __device__ __forceinline__ int32_t operand(T value) {
    return static_cast<int32_t>(value);
  }
};

// Two numbers of f8, the low bytes of a word or the high ones, as a pair of f16.
template <class T, bool kHigh>
__device__ __forceinline__ uint32_t halves_of(uint32_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint32_t halves;
  if constexpr (cute::is_same<T, float_e4m3_t>::value) {
    asm("{\n.reg .b16 pair<2>;\nmov.b32 {pair0, pair1}, %1;\ncvt.rn.f16x2.e4m3x2 %0, pair%2;\n}\n" : "=r"(halves) : "r"(bytes), "n"(int(kHigh)));
  } else {
    asm("{\n.reg .b16 pair<2>;\nmov.b32 {pair0, pair1}, %1;\ncvt.rn.f16x2.e5m2x2 %0, pair%2;\n}\n" : "=r"(halves) : "r"(bytes), "n"(int(kHigh)));
  }
  return halves;
#else
  const __nv_fp8x2_storage_t pair = static_cast<__nv_fp8x2_storage_t>(kHigh ? bytes >> 16 : bytes & 0xffffu);
  const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(pair, kFp8Format<T>);
  return halves.x | static_cast<uint32_t>(halves.y) << 16;
#endif
}

// Two elements of 8 bits, the low ones of a word or the high ones, as a register of 16-bit elements: what `Through` makes of
// each.
template <class Operand, class Through, class T, bool kHigh = false>
__device__ __forceinline__ uint32_t convert_pair(uint32_t bytes) {
  if constexpr (cute::is_same<T, int8_t>::value && kLookedUp<Operand, Through>) {
    return nf4_pair<Operand, CodeOfByte<Through>::kFirst, kHigh>(bytes);
  } else if constexpr (cute::is_same<T, int8_t>::value && kMadeOfBits<Operand, Through>) {
    return pair_of_spread<Operand, Through>(kHigh ? spread_high_bytes(bytes) : spread_bytes(bytes));
  } else if constexpr (is_fp8<T>) {
    const uint32_t word = halves_of<T, kHigh>(bytes);
    if constexpr (cute::is_same<Operand, half_t>::value && cute::is_same<Through, ops::Chain<>>::value) return word;
    const float2 numbers = unpack_pair<half_t>(word);
    return pack_pair<Operand>(Through::apply(numbers.x), Through::apply(numbers.y));
  } else {
    const uint32_t pair = kHigh ? bytes >> 16 : bytes;
    return pack_pair<Operand>(Through::apply(to_float(from_bits<T>(pair))), Through::apply(to_float(from_bits<T>(pair >> 8))));
  }
}

// Packs kPacked elements of memory, neighbours along k, into a register of an instruction of a warp, of its A or its B:
// what `Through` makes of each.
template <class Atom, bool kIsA, class Through = ops::Chain<>, class T>
__device__ __forceinline__ uint32_t pack(T const (&elements)[Atom::kPacked]) {
  using Operand = cute::conditional_t<kIsA, typename Atom::OperandA, typename Atom::OperandB>;
  uint32_t word = 0;
  if constexpr (sizeof(T) == 1 && Atom::kPacked == 2) {
    word = convert_pair<Operand, Through, T>(bits_of(elements[0]) | bits_of(elements[1]) << 8);
  } else {
    constexpr int kBits = 32 / Atom::kPacked;
#pragma unroll
    for (int i = 0; i < Atom::kPacked; ++i) {
      if constexpr (cute::is_same<T, Operand>::value) {
        word |= bits_of(elements[i]) << (i * kBits % 32);
      } else {
        word |= bits_of(from_float<Operand>(Through::apply(to_float(elements[i])))) << (i * kBits % 32);
      }
    }
  }
  return Atom::prepare(word);
}

// The same of two elements, those at 2 * pair, of a vector for the B of an instruction of 16 bits.
template <class Atom, class Through, class T, int kCount>
__device__ __forceinline__ uint32_t pack_pair_of(Words<T, kCount> const& vector, int pair) {
  using Operand = typename Atom::OperandB;
  if constexpr (cute::is_same<T, Operand>::value) {
    return vector.words[pair];
  } else {
    static_assert(sizeof(T) == 1, "what is converted has 8 bits");
    const uint32_t word = vector.words[pair / 2];
    return pair % 2 == 0 ? convert_pair<Operand, Through, T>(word) : convert_pair<Operand, Through, T, true>(word);
  }
}

// The same of two bytes of a word, those with even numbers or those with odd ones.
template <class Atom, class Through, class T>
__device__ __forceinline__ uint32_t pack_column_of(uint32_t word, int odd) {
  using Operand = typename Atom::OperandB;
#if defined(__CUDA_ARCH__)
  const uint32_t columns = __byte_perm(word, 0, 0x3120);
#else
  const uint32_t columns = (word & 0xff0000ffu) | (word & 0xff00u) << 8 | (word & 0xff0000u) >> 8;
#endif
  return odd ? convert_pair<Operand, Through, T, true>(columns) : convert_pair<Operand, Through, T>(columns);
}

}  // namespace atoms
}  // namespace mugraph
