// Pairs of whole numbers made of bits of bytes, without a conversion of each.
//
// A number of few bits, put into the low bits of the mantissa of a float of 16 bits whose last bit is 1 (128 as
// bfloat16_t, 1024 as half_t), is that float plus the number; what is then taken away leaves the number. All of that is
// exact, so that the result is the same as that of the functions in fp32.
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

// The float of T whose last bit is 1, in both halves of a word, and how many bits fit below it.
template <class T>
inline constexpr uint32_t kUnits = cute::is_same<T, half_t>::value ? 0x64006400u : 0x43004300u;
template <class T>
inline constexpr int kUnitBits = cute::is_same<T, half_t>::value ? 10 : 7;

// Whether a chain's numbers are made so, as pairs of T.
template <class T, class Through>
inline constexpr bool kMadeOfBits = (cute::is_same<T, half_t>::value || cute::is_same<T, bfloat16_t>::value) &&
                                    ByteChain<Through>::kIsOfByte && ByteChain<Through>::kCount <= kUnitBits<T>;

// Both halves plus the same number, a float of T; exact wherever it is used.
template <class T>
__device__ __forceinline__ uint32_t plus_in_halves(uint32_t pair, float number) {
  const uint32_t both = pack_pair<T>(number, number);
#if defined(__CUDA_ARCH__)
  uint32_t result;
  if constexpr (cute::is_same<T, half_t>::value) {
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(pair), "r"(both));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(0x3f803f80u), "r"(both));
  }
  return result;
#else
  const float2 values = unpack_pair<T>(pair), summands = unpack_pair<T>(both);
  return pack_pair<T>(values.x + summands.x, values.y + summands.y);
#endif
}

// The pair that `Through` makes of two bytes, which lie in the low bits of the halves of a word.
template <class T, class Through>
__device__ __forceinline__ uint32_t pair_of_bytes(uint32_t bytes) {
  using Made = ByteChain<Through>;
  static_assert(kMadeOfBits<T, Through>, "the functions make no whole numbers of few bits");
  constexpr uint32_t kMask = (1u << Made::kCount) - 1;
  const uint32_t shifted = (bytes + Made::kBefore * 0x10001u) >> Made::kFirst;
  constexpr float kUnit = cute::is_same<T, half_t>::value ? 1024.0f : 128.0f;
  return plus_in_halves<T>((shifted & kMask * 0x10001u) | kUnits<T>, Made::kAfter - kUnit);
}

}  // namespace mugraph
