"""No loop moves a pointer that sums from before the loop, which the loop uses, are taken of.

ptxas 13.0 to 13.2 folds such a sum into the loop's addresses, as if the pointer stood still.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from mugraph.runtime.compile import compile_cubin
from mugraph.runtime.toolchain import ToolchainError, find_toolchain

KERNEL = """
#include "runtime.h"
using namespace cute;
using namespace mugraph;
__global__ void __launch_bounds__(256, 1) product(float const* w, float* out) {
  extern __shared__ __align__(128) char smem[];
  int const thread = threadIdx.x;
  float* const a = reinterpret_cast<float*>(smem);
  float* const b = reinterpret_cast<float*>(smem + 32768);
  using Tile = Layout<Shape<Int<64>, Int<32>>, Stride<Int<32>, Int<1>>>;
  using Weights = Layout<Shape<Int<64>, Int<32>>, Stride<Int<1>, Int<64>>>;
  using Swizzled = Swizzle<5, 0, 5>;
  tb::CopyAsync<256, 1, ComposedLayout<Swizzled, Int<0>, Tile>, Weights>::run(b, w, thread);
  tb::commit_group();
  if (thread < 64) a[thread] = w[thread];
  tb::wait_group<0>();
  __syncthreads();
  using Sums = tb::MmaFragment<1, 32, 1, 32, atoms::UniversalFMA_F32>;
  float sums[Sums::kValues];
  Sums::clear(sums);
  using A = Layout<Shape<Int<1>, Int<64>>, Stride<Int<64>, Int<1>>>;
  using B = Layout<Shape<Int<32>, Int<64>>, Stride<Int<1>, Int<32>>>;
  using SwizzledB = ComposedLayout<Swizzled, Int<0>, B>;
  tb::ScalarMatmul<1, 32, A, SwizzledB, atoms::UniversalFMA_F32>::mma(sums, a, b, thread);
  using Out = Layout<Shape<Int<1>, Int<32>>, Stride<Int<32>, Int<1>>>;
  Sums::store<ops::Chain<>, Out>(out, sums, thread);
}
"""
"""A product of one row, which every thread reads from the start of shared memory."""

DEFINITION = re.compile(r"\s+(?:@!?%p\d+ )?([a-z]\S*)\s+(%rd?\d+),\s*(.*);")


def moved_pointers(ptx: str) -> Iterator[str]:
    """Each use, inside of a loop that moves a register, of its sum with a constant from before."""
    lines = ptx.splitlines()
    places: dict[str, list[int]] = defaultdict(list)
    sums: dict[str, str] = {}
    labels: dict[str, int] = {}
    loops: list[range] = []
    for at, line in enumerate(lines):
        if label := re.match(r"(\$L\S+):", line):
            labels[label[1]] = at
        if (jump := re.search(r"\bbra\S*\s+(\$L\S+);", line)) and jump[1] in labels:
            loops.append(range(labels[jump[1]], at))
        if definition := DEFINITION.match(line):
            _, register, operands = definition.groups()
            places[register].append(at)
            if constant := re.fullmatch(r"(%rd?\d+), -?\d+", operands):
                sums[register] = constant[1]
    for register, base in sums.items():
        for loop in loops:
            before = len(places[register]) == 1 and places[register][0] < loop.start
            if before and any(at in loop for at in places[base]):
                used = re.compile(re.escape(register) + r"\b")
                yield from (lines[at].strip() for at in loop if used.search(lines[at]))


def test_products_of_one_row_do_not_move_the_start_of_shared_memory() -> None:
    try:
        toolchain = find_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    ptx = compile_cubin(KERNEL, flags=("-ptx",), toolchain=toolchain).read_text()
    assert "bra" in ptx
    assert [*moved_pointers(ptx)] == []


def test_a_pointer_that_moves_is_seen() -> None:
    loop = """
        mov.u32 \t%r1, smem;
        add.s32 \t%r2, %r1, 32768;
    $L__BB0_1:
        add.s32 \t%r3, %r2, %r9;
        add.s32 \t%r1, %r1, 16;
        @%p1 bra \t$L__BB0_1;
    """.replace("\n    $", "\n$")
    assert [*moved_pointers(loop)] == ["add.s32 \t%r3, %r2, %r9;"]
    assert not [*moved_pointers(loop.replace("%r1, %r1, 16", "%r4, %r4, 16"))]
