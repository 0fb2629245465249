// Stands in for CuTe's ldmatrix wrappers when kernels are emulated on the CPU: same names and parameters.
#pragma once

#include <cute/numeric/numeric_types.hpp>

namespace cute {

struct SM75_U32x2_LDSM_N {
  static void copy(uint128_t const& line, uint32_t& d0, uint32_t& d1) {
    uint32_t registers[2];
    emulator::ldmatrix<2, false>(&line, registers);
    d0 = registers[0];
    d1 = registers[1];
  }
};

struct SM75_U32x4_LDSM_N {
  static void copy(uint128_t const& line, uint32_t& d0, uint32_t& d1, uint32_t& d2, uint32_t& d3) {
    uint32_t registers[4];
    emulator::ldmatrix<4, false>(&line, registers);
    d0 = registers[0];
    d1 = registers[1];
    d2 = registers[2];
    d3 = registers[3];
  }
};

struct SM75_U16x4_LDSM_T {
  static void copy(uint128_t const& line, uint32_t& d0, uint32_t& d1) {
    uint32_t registers[2];
    emulator::ldmatrix<2, true>(&line, registers);
    d0 = registers[0];
    d1 = registers[1];
  }
};

struct SM75_U16x8_LDSM_T {
  static void copy(uint128_t const& line, uint32_t& d0, uint32_t& d1, uint32_t& d2, uint32_t& d3) {
    uint32_t registers[4];
    emulator::ldmatrix<4, true>(&line, registers);
    d0 = registers[0];
    d1 = registers[1];
    d2 = registers[2];
    d3 = registers[3];
  }
};

}  // namespace cute
