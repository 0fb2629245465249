// Stands in for CuTe's mma.sync wrappers of f8, which touch registers only.
#pragma once

#include "mma_sm80.hpp"

namespace cute {

struct SM89_16x8x32_F32E4M3E4M3F32_TN : Mma<float> {};
struct SM89_16x8x32_F32E4M3E5M2F32_TN : Mma<float> {};
struct SM89_16x8x32_F32E5M2E4M3F32_TN : Mma<float> {};
struct SM89_16x8x32_F32E5M2E5M2F32_TN : Mma<float> {};

}  // namespace cute
