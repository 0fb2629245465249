// Stands in for CuTe's mma.sync wrappers of f8 when kernels are emulated on the CPU: same names and parameters.
#pragma once

#include "mma_sm80.hpp"

#include <cuda_fp8.h>

namespace cute {

namespace emulated {

// Element `at` of a register of four, as a number.
template <__nv_fp8_interpretation_t kFormat>
struct F8 {
  static constexpr int kPacked = 4;
  static double element(uint32_t word, int at) {
    static std::vector<double> const numbers = [] {
      std::vector<double> all(1u << 8);
      for (uint32_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<double>(__half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(i), kFormat))));
      }
      return all;
    }();
    return numbers[word >> (8 * at) & 0xffu];
  }
};

using E4M3 = F8<__NV_E4M3>;
using E5M2 = F8<__NV_E5M2>;

}  // namespace emulated

struct SM89_16x8x32_F32E4M3E4M3F32_TN : emulated::Mma16x8<emulated::E4M3, float> {};
struct SM89_16x8x32_F32E4M3E5M2F32_TN : emulated::Mma16x8<emulated::E4M3, float, emulated::E5M2> {};
struct SM89_16x8x32_F32E5M2E4M3F32_TN : emulated::Mma16x8<emulated::E5M2, float, emulated::E4M3> {};
struct SM89_16x8x32_F32E5M2E5M2F32_TN : emulated::Mma16x8<emulated::E5M2, float> {};

}  // namespace cute
