"""What a kernel reads after its wait for the kernels before it, nvcc leaves after the wait."""

from __future__ import annotations

import re

import pytest

from mugraph.reading import make_context, parse_text
from mugraph.runtime.compile import compile_cubin
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.toolchain import ToolchainError, find_toolchain

WAIT = "griddepcontrol.wait"

GRAPH = """
func.func @scores(%a: tensor<12x128x64xf32>, %bias: tensor<12x1x64xbf16> {mugraph.constant},
    %b: tensor<12x64x128xbf16>) -> tensor<12x128x128xf32> {
  %c = kn.customized %a, %bias, %b grid [12, 2, 2] block [128, 1, 1] forloop 1 {
  ^bb0(%0: tensor<12x128x64xf32>, %1: tensor<12x1x64xbf16>, %2: tensor<12x64x128xbf16>):
    %3 = tb.input %0 imap [0, 1, -1] : tensor<12x128x64xf32> -> !tb.stensor<1x64x64xf32>
    %4 = tb.input %1 imap [0, -1, -1] : tensor<12x1x64xbf16> -> !tb.stensor<1x1x64xbf16>
    %5 = tb.add %3, %4
      : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x1x64xbf16>) -> !tb.stensor<1x64x64xbf16>
    %6 = tb.input %2 imap [0, -1, 2] : tensor<12x64x128xbf16> -> !tb.stensor<1x64x64xbf16>
    %7 = tb.matmul %5, %6
      : (!tb.stensor<1x64x64xbf16>, !tb.stensor<1x64x64xbf16>) -> !tb.stensor<1x64x64xf32>
    tb.output %7 omap [0, 1, 2] : !tb.stensor<1x64x64xf32> -> tensor<12x128x128xf32>
  } : (tensor<12x128x64xf32>, tensor<12x1x64xbf16>, tensor<12x64x128xbf16>)
    -> tensor<12x128x128xf32>
  func.return %c : tensor<12x128x128xf32>
}
"""
"""Its kernel loads the bias before the wait, and %a into registers after it."""


def generated(arch: str) -> str:
    """The graph's CUDA."""
    context = make_context()
    return generate_cuda(parse_text(context, GRAPH, "scores.mlir"), context, arch).source


def head(source: str) -> list[str]:
    """The parameters of the kernel."""
    (found,) = re.findall(r"__global__.* \w*scores_custom0\((.*)\) \{", source)
    return found.split(", ")


def test_only_constant_inputs_promise_that_nothing_else_writes() -> None:
    restricted = ["__restrict__" in parameter for parameter in head(generated("sm_90a"))]
    assert restricted == [False, True, False, False]


def test_a_kernel_that_does_not_wait_is_alone() -> None:
    restricted = ["__restrict__" in parameter for parameter in head(generated("sm_80"))]
    assert restricted == [True] * 4


def test_no_load_of_what_the_kernel_before_may_write_passes_the_wait() -> None:
    try:
        toolchain = find_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    ptx = compile_cubin(generated("sm_90a"), flags=("-ptx",), toolchain=toolchain).read_text()
    assert ptx.count(WAIT) == 1
    before, after = ptx.split(WAIT)
    loads = re.findall(r"\bld\.global\S*", after)
    assert loads
    # ptxas moves loads of what nothing writes across the wait.
    assert [load for load in loads if ".nc" in load] == []
    # What comes before it is the bias, which nothing writes.
    assert all(".nc" in load for load in re.findall(r"\bld\.global\S*", before))
