// Stands in for CuTe's mma.sync wrappers when kernels are emulated on the CPU: same names and parameters.
#pragma once

#include <cuda_fp16.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace cute {

namespace emulated {

inline float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Element `at` of the kPacked elements of a register, as a number.
struct F16 {
  static constexpr int kPacked = 2;
  static double element(uint32_t word, int at) {
    // Converting bits takes a CPU many instructions, and there are few numbers.
    static std::vector<float> const numbers = [] {
      std::vector<float> all(1u << 16);
      for (uint32_t i = 0; i < all.size(); ++i) {
        __half_raw bits;
        bits.x = static_cast<uint16_t>(i);
        all[i] = __half2float(__half(bits));
      }
      return all;
    }();
    return static_cast<double>(numbers[word >> (16 * at) & 0xffffu]);
  }
};

struct BF16 {
  static constexpr int kPacked = 2;
  static double element(uint32_t word, int at) {
    return static_cast<double>(as_float(at ? word & 0xffff0000u : word << 16));
  }
};

struct TF32 {
  static constexpr int kPacked = 1;
  static double element(uint32_t word, int) {
    const float value = as_float(word);
    if (value == value && (word & 0x1fffu)) emulator::fail("an operand of a TF32 instruction was not rounded to TF32");
    return static_cast<double>(value);
  }
};

struct S8 {
  static constexpr int kPacked = 4;
  static double element(uint32_t word, int at) { return static_cast<int8_t>(word >> (8 * at)); }
};

inline double sum(float value) { return value; }
inline double sum(uint32_t value) { return static_cast<int32_t>(value); }
inline void set(float& target, double value) { target = static_cast<float>(value); }
inline void set(uint32_t& target, double value) {
  target = static_cast<uint32_t>(static_cast<uint64_t>(static_cast<int64_t>(value)));
}

template <class Operand, class Sum, class OperandB = Operand>
struct Mma16x8 {
  static constexpr int kPacked = Operand::kPacked;

  struct Registers {
    uint32_t a[4];
    uint32_t b[2];
    Sum c[4];
  };

  struct Results {
    Sum d[4];
  };

  // The products of all lanes: each operand becomes numbers once.
  __attribute__((noinline, optimize("O2"))) static void multiply(std::array<Registers, 32> const& lanes,
                                                                std::array<Results, 32>& results) {
    double a[16][8 * kPacked];
    double b[8][8 * kPacked];
    for (int lane = 0; lane < 32; ++lane) {
      const int line = lane / 4;
      for (int at = 0; at < kPacked; ++at) {
        const int k = lane % 4 * kPacked + at;
        for (int half = 0; half < 2; ++half) {
          a[line][4 * kPacked * half + k] = Operand::element(lanes[lane].a[2 * half], at);
          a[line + 8][4 * kPacked * half + k] = Operand::element(lanes[lane].a[2 * half + 1], at);
          b[line][4 * kPacked * half + k] = OperandB::element(lanes[lane].b[half], at);
        }
      }
    }
    for (int lane = 0; lane < 32; ++lane) {
      for (int c = 0; c < 4; ++c) {
        double const* const row = a[lane / 4 + 8 * (c / 2)];
        double const* const column = b[2 * (lane % 4) + c % 2];
        double total = sum(lanes[lane].c[c]);
        for (int k = 0; k < 8 * kPacked; ++k) total += row[k] * column[k];
        set(results[lane].d[c], total);
      }
    }
  }

  static void fma(Sum& d0, Sum& d1, Sum& d2, Sum& d3, uint32_t const& a0, uint32_t const& a1, uint32_t const& a2,
                  uint32_t const& a3, uint32_t const& b0, uint32_t const& b1, Sum const& c0, Sum const& c1,
                  Sum const& c2, Sum const& c3) {
    const Registers registers{{a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3}};
    const Results results = emulator::execute_warp<Results>(registers, multiply);
    d0 = results.d[0];
    d1 = results.d[1];
    d2 = results.d[2];
    d3 = results.d[3];
  }
};

}  // namespace emulated

struct SM80_16x8x16_F32F16F16F32_TN : emulated::Mma16x8<emulated::F16, float> {};
struct SM80_16x8x16_F32BF16BF16F32_TN : emulated::Mma16x8<emulated::BF16, float> {};
struct SM80_16x8x8_F32TF32TF32F32_TN : emulated::Mma16x8<emulated::TF32, float> {};
struct SM80_16x8x32_S32S8S8S32_TN : emulated::Mma16x8<emulated::S8, uint32_t> {};

}  // namespace cute
