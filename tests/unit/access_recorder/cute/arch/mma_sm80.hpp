// Stands in for CuTe's mma.sync wrappers, which touch registers only.
#pragma once

#include <cstdint>

namespace cute {

template <class Sum>
struct Mma {
  static void fma(Sum&, Sum&, Sum&, Sum&, uint32_t const&, uint32_t const&, uint32_t const&, uint32_t const&,
                  uint32_t const&, uint32_t const&, Sum const&, Sum const&, Sum const&, Sum const&) {}
};

struct SM80_16x8x16_F32F16F16F32_TN : Mma<float> {};
struct SM80_16x8x16_F32BF16BF16F32_TN : Mma<float> {};
struct SM80_16x8x8_F32TF32TF32F32_TN : Mma<float> {};
struct SM80_16x8x32_S32S8S8S32_TN : Mma<uint32_t> {};

}  // namespace cute
