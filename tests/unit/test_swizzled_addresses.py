"""Threads read all elements of a swizzled buffer that a loop written out in part asks for.

nvcc 13.0 reads element 0 in the place of some, where bits are masked before they are shifted.
"""

from __future__ import annotations

import re

import pytest

from mugraph.runtime.compile import compile_cubin
from mugraph.runtime.toolchain import ToolchainError, find_toolchain

KERNEL = """
#include "te.h"
__global__ void product(float const* __restrict__ a, float* __restrict__ result) {
  extern __shared__ __align__(128) char smem[];
  float* const u = reinterpret_cast<float*>(smem + 0);
  float* const v = reinterpret_cast<float*>(smem + 4096);
  int const thread = static_cast<int>(threadIdx.x);
  u[thread] = a[thread];
  v[thread] = a[thread];
  __syncthreads();
  alignas(16) float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  #pragma unroll
  for (int j_next = 0; j_next < 4; ++j_next) {
    int const j = thread % 16 * 4 + j_next;
    for (int k_first = 0; k_first < 4; ++k_first) {
      alignas(16) float part[4];
      mugraph::te::copy<4>(part, &u[thread / 16 * 16 + k_first * 4]);
      #pragma unroll
      for (int k_next = 0; k_next < 4; ++k_next) {
        int const k = k_first * 4 + k_next;
        c[j_next] += part[k_next] * v[mugraph::te::swizzle<5, 0, 5>(k * 64 + j)];
      }
    }
  }
  mugraph::te::copy<4>(&result[thread * 4], c);
}
"""


def test_addresses_of_swizzled_elements_are_all_computed() -> None:
    try:
        toolchain = find_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    ptx = compile_cubin(KERNEL, flags=("-ptx",), toolchain=toolchain).read_text()
    loads = re.findall(r"ld\.shared\.f32\s+%f\d+, \[(.*)\];", ptx)
    assert not [one for one in loads if one.startswith("smem")]
    assert len(loads) == 4 * 16
