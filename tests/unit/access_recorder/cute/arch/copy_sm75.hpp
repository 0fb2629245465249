// Stands in for CuTe's ldmatrix wrappers: records the line that each lane gives.
#pragma once

#include <cute/numeric/numeric_types.hpp>

namespace cute {

// Two matrices use the addresses of lanes 0 to 15 only.
inline void record_line(uint128_t const& line, recorder::Instruction instruction) {
  if (instruction == recorder::kLdmatrix2 && recorder::thread % 32 >= 16) return;
  recorder::record(&line, 16, false, instruction);
}

struct SM75_U32x2_LDSM_N {
  static void copy(uint128_t const& line, uint32_t&, uint32_t&) { record_line(line, recorder::kLdmatrix2); }
};

struct SM75_U16x4_LDSM_T {
  static void copy(uint128_t const& line, uint32_t&, uint32_t&) { record_line(line, recorder::kLdmatrix2); }
};

struct SM75_U32x4_LDSM_N {
  static void copy(uint128_t const& line, uint32_t&, uint32_t&, uint32_t&, uint32_t&) {
    record_line(line, recorder::kLdmatrix4);
  }
};

struct SM75_U16x8_LDSM_T {
  static void copy(uint128_t const& line, uint32_t&, uint32_t&, uint32_t&, uint32_t&) {
    record_line(line, recorder::kLdmatrix4);
  }
};

}  // namespace cute
