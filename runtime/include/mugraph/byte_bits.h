// Pairs of numbers made of bits of bytes, without a conversion of each.
//
// A number of few bits, put into the low bits of the mantissa of a float of 16 bits whose last bit is 1 (128 as
// bfloat16_t, 1024 as half_t), is that float plus the number; what is then taken away leaves the number. Of the eight bits
// of a byte a bfloat16_t has room for seven; the last one is put into its exponent, so that it is 128 or 256. All of that
// is exact, so that the result is the same as that of the functions in fp32.
#pragma once

#include "numbers.h"
#include "ops.h"

namespace mugraph {

// The whole number that a float is, given by its bits; kNoNumber where it is a fraction or too large for a byte.
inline constexpr int kNoNumber = 1 << 20;

constexpr int small_whole(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 23 & 0xffu) - 127;
  const uint32_t mantissa = (bits & 0x7fffffu) | 0x800000u;
  if ((bits & 0x7fffffffu) == 0) return 0;
  if (exponent < 0 || exponent > 8 || (mantissa & ((1u << (23 - exponent)) - 1)) != 0) return kNoNumber;
  const int magnitude = static_cast<int>(mantissa >> (23 - exponent));
  return bits >> 31 ? -magnitude : magnitude;
}

// What a chain of functions makes of a byte: kCount bits from kFirst on of the byte plus kBefore, plus kAfter.
template <int kBeforeBits, int kFirstBit, int kBits, int kAfterBits>
struct BitsOfByte {
  static constexpr int kBefore = kBeforeBits, kFirst = kFirstBit, kCount = kBits, kAfter = kAfterBits;
  static constexpr bool kIsOfByte = kBefore >= 0 && kBefore < 256 && kFirst + kCount <= 8 && kAfter >= -256 && kAfter <= 0;
};

template <class Through>
struct ByteChain : BitsOfByte<0, 8, 8, 0> {};  // another one

template <>
struct ByteChain<ops::Chain<>> : BitsOfByte<128, 0, 8, -128> {};

template <uint32_t kFirst, uint32_t kCount>
struct ByteChain<ops::Chain<ops::Bits<kFirst, kCount>>>
    : BitsOfByte<0, small_whole(kFirst), small_whole(kCount), 0> {};

template <uint32_t kFirst, uint32_t kCount, uint32_t kAfter>
struct ByteChain<ops::Chain<ops::Bits<kFirst, kCount>, ops::AddScalar<kAfter>>>
    : BitsOfByte<0, small_whole(kFirst), small_whole(kCount), small_whole(kAfter)> {};

template <uint32_t kBefore, uint32_t kFirst, uint32_t kCount, uint32_t kAfter>
struct ByteChain<ops::Chain<ops::AddScalar<kBefore>, ops::Bits<kFirst, kCount>, ops::AddScalar<kAfter>>>
    : BitsOfByte<small_whole(kBefore), small_whole(kFirst), small_whole(kCount), small_whole(kAfter)> {};

// Which four bits of a byte a chain of functions looks up as a code of NF4; another chain has none.
template <class Through>
struct CodeOfByte {
  static constexpr int kFirst = kNoNumber;
};

template <uint32_t kFirstBit, uint32_t kCount>
struct CodeOfByte<ops::Chain<ops::Bits<kFirstBit, kCount>, ops::Nf4>> {
  static constexpr int kFirst = small_whole(kCount) == 4 ? small_whole(kFirstBit) : kNoNumber;
};

// Whether a chain's numbers are looked up in pairs of T, by `nf4_pair`.
template <class T, class Through>
inline constexpr bool kLookedUp = (cute::is_same<T, half_t>::value || cute::is_same<T, bfloat16_t>::value) &&
                                  (CodeOfByte<Through>::kFirst == 0 || CodeOfByte<Through>::kFirst == 4);

// How many bits fit below the float of T whose last bit is 1.
template <class T>
inline constexpr int kUnitBits = cute::is_same<T, half_t>::value ? 10 : 7;

// Whether what a chain adds before flips the highest of its bits: what that carries is left out.
template <class Through>
inline constexpr bool kFlips =
    ByteChain<Through>::kBefore == 1 << (ByteChain<Through>::kFirst + ByteChain<Through>::kCount - 1);

// Whether a chain's numbers have one bit more than fit below a T: bytes with a sign, or without.
template <class T, class Through, class Made = ByteChain<Through>>
inline constexpr bool kHasTopBit =
    Made::kFirst == 0 && Made::kCount == 8 && kUnitBits<T> == 7 &&
    (kFlips<Through> ? Made::kAfter == -128 : Made::kBefore == 0 && Made::kAfter == 0);

// Whether a chain's numbers are made so, as pairs of T.
template <class T, class Through>
inline constexpr bool kMadeOfBits =
    (cute::is_same<T, half_t>::value || cute::is_same<T, bfloat16_t>::value) && ByteChain<Through>::kIsOfByte &&
    (ByteChain<Through>::kCount <= kUnitBits<T> || kHasTopBit<T, Through>);

// a * factor + b in both halves of words, a number for both; exact wherever it is used.
template <class T>
__device__ __forceinline__ uint32_t fma_in_halves(uint32_t a, float factor, uint32_t b) {
  const uint32_t factors = pack_pair<T>(factor, factor);
#if defined(__CUDA_ARCH__)
  uint32_t result;
  if constexpr (cute::is_same<T, half_t>::value) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(factors), "r"(b));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(factors), "r"(b));
  }
  return result;
#else
  const float2 left = unpack_pair<T>(a), right = unpack_pair<T>(b);
  return pack_pair<T>(left.x * factor + right.x, left.y * factor + right.y);
#endif
}

// Both halves plus the same number.
template <class T>
__device__ __forceinline__ uint32_t plus_in_halves(uint32_t pair, float number) {
  return fma_in_halves<T>(pair, 1.0f, pack_pair<T>(number, number));
}

// Two bytes, the low ones of a word, as the low bytes of its halves.
__device__ __forceinline__ uint32_t spread_bytes(uint32_t bytes) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(bytes, 0, 0x4140);
#else
  return (bytes & 0xffu) | (bytes & 0xff00u) << 8;
#endif
}

// The same of the high ones of a word.
__device__ __forceinline__ uint32_t spread_high_bytes(uint32_t bytes) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(bytes, 0, 0x4342);
#else
  return spread_bytes(bytes >> 16);
#endif
}

// (bits & kMask) ^ kFlipped in both halves, by one instruction.
template <uint32_t kMask, uint32_t kFlipped>
__device__ __forceinline__ uint32_t masked(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(bits), "r"(kMask * 0x10001u), "r"(kFlipped * 0x10001u));
  return result;
#else
  return (bits & kMask * 0x10001u) ^ kFlipped * 0x10001u;
#endif
}

// Of each of four places that nibbles of `places` name, the byte there: those of `low` are 0 to 3, of `high` 4 to 7.
__device__ __forceinline__ uint32_t bytes_at(uint32_t low, uint32_t high, uint32_t places) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(low, high, places);
#else
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t place = places >> 4 * i & 7u;
    result |= ((place < 4 ? low : high) >> 8 * (place % 4) & 0xffu) << 8 * i;
  }
  return result;
#endif
}

// The numbers of NF4 as T: bytes of four of them from kFirst on, the low or the high ones.
template <class T>
constexpr uint32_t nf4_bits(int code) {
  const uint32_t bits = ops::kNf4Bits[code], magnitude = bits & 0x7fffffffu;
  if (magnitude == 0) return 0;
  if (cute::is_same<T, bfloat16_t>::value) return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const uint32_t rebased = magnitude - (112u << 23);
  return bits >> 31 << 15 | (rebased + 0xfffu + (rebased >> 13 & 1u)) >> 13;
}

template <class T>
constexpr uint32_t nf4_bytes(int first, int high) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word |= (nf4_bits<T>(first + i) >> 8 * high & 0xffu) << 8 * i;
  return word;
}

// What the codes of NF4 in bits kFirst to kFirst + 3 of two bytes mean, the low bytes of a word or the high ones. All four
// codes of both bytes are looked up at once, so that the other two cost nothing more where they are wanted, too: eight
// numbers by the low three bits of a code, byte by byte, twice, and the fourth bit chooses.
template <class T, int kFirst, bool kHigh>
__device__ __forceinline__ uint32_t nf4_pair(uint32_t bytes) {
  constexpr uint32_t kLow[4] = {nf4_bytes<T>(0, 0), nf4_bytes<T>(4, 0), nf4_bytes<T>(8, 0), nf4_bytes<T>(12, 0)};
  constexpr uint32_t kUpper[4] = {nf4_bytes<T>(0, 1), nf4_bytes<T>(4, 1), nf4_bytes<T>(8, 1), nf4_bytes<T>(12, 1)};
  constexpr int kShift = kHigh ? 16 : 0;
  const uint32_t places = (bytes & 0x77777777u) >> kShift;
  const uint32_t half = ((bytes >> 1 & 0x44444444u) | 0x32103210u) >> kShift;
  const uint32_t low = bytes_at(bytes_at(kLow[0], kLow[1], places), bytes_at(kLow[2], kLow[3], places), half);
  const uint32_t upper = bytes_at(bytes_at(kUpper[0], kUpper[1], places), bytes_at(kUpper[2], kUpper[3], places), half);
  return bytes_at(low, upper, kFirst == 0 ? 0x6240u : 0x7351u);
}

// The pair that `Through` makes of two bytes, the low ones of the halves of a word.
template <class T, class Through>
__device__ __forceinline__ uint32_t pair_of_spread(uint32_t spread) {
  using Made = ByteChain<Through>;
  static_assert(kMadeOfBits<T, Through>, "the functions make no whole numbers of few bits");
  constexpr bool kIsHalf = cute::is_same<T, half_t>::value;
  constexpr uint32_t kUnitBitsOfT = kIsHalf ? 0x6400u : 0x4300u;
  constexpr float kUnit = kIsHalf ? 1024.0f : 128.0f;
  if constexpr (kHasTopBit<T, Through>) {
    const uint32_t low = masked<0x7fu, kUnitBitsOfT>(spread), top = masked<0x80u, kUnitBitsOfT>(spread);
    return kFlips<Through> ? fma_in_halves<T>(top, -1.0f, low)
                           : fma_in_halves<T>(plus_in_halves<T>(top, -2.0f * kUnit), 1.0f, low);
  } else {
    constexpr uint32_t kMask = (1u << Made::kCount) - 1, kTop = kFlips<Through> ? 1u << (Made::kCount - 1) : 0u;
    const uint32_t added = kFlips<Through> ? spread : spread + Made::kBefore * 0x10001u;
    return plus_in_halves<T>(masked<kMask, kUnitBitsOfT ^ kTop>(added >> Made::kFirst), Made::kAfter - kUnit);
  }
}

}  // namespace mugraph
