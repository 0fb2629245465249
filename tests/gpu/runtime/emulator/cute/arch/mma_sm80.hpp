// Stands in for CuTe's mma.sync wrapper when kernels are emulated on the CPU: same name and parameters.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

namespace cute {

struct SM80_16x8x16_F32F16F16F32_TN {
  // Element `high` of the pair in a register, as a number.
  static double element(uint32_t pair, int high) {
    __half_raw bits;
    bits.x = static_cast<uint16_t>(high ? pair >> 16 : pair);
    return static_cast<double>(__half2float(__half(bits)));
  }

  static void fma(float& d0, float& d1, float& d2, float& d3, uint32_t const& a0, uint32_t const& a1,
                  uint32_t const& a2, uint32_t const& a3, uint32_t const& b0, uint32_t const& b1, float const& c0,
                  float const& c1, float const& c2, float const& c3) {
    struct Registers {
      uint32_t a[4];
      uint32_t b[2];
    };
    const auto lanes = emulator::exchange_warp(Registers{{a0, a1, a2, a3}, {b0, b1}});
    const int lane = emulator::block->current->thread % 32;
    double sums[4] = {c0, c1, c2, c3};
    for (int c = 0; c < 4; ++c) {
      const int row = lane / 4 + 8 * (c / 2);
      const int column = 2 * (lane % 4) + c % 2;
      for (int k = 0; k < 16; ++k) {
        const uint32_t a = lanes[row % 8 * 4 + k % 8 / 2].a[row / 8 + 2 * (k / 8)];
        const uint32_t b = lanes[column * 4 + k % 8 / 2].b[k / 8];
        sums[c] += element(a, k % 2) * element(b, k % 2);
      }
    }
    d0 = static_cast<float>(sums[0]);
    d1 = static_cast<float>(sums[1]);
    d2 = static_cast<float>(sums[2]);
    d3 = static_cast<float>(sums[3]);
  }
};

}  // namespace cute
