"""A product in persistent blocks, and how the tests of these run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from hazard_kernels import kernel_of
from schedules import passes_as_written
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.rewriter import Rewriter

from mugraph.dialects import sched
from mugraph.reading import make_context
from mugraph.runtime.interpreter import ExecutionError, execute_by_address
from mugraph.runtime.interpreter.address_level import Landing

Array = npt.NDArray[Any]

GEMM = """
func.func @gemm(%a: tensor<128x320xf16>, %b: tensor<320x256xf16>) -> tensor<128x256xf16> {
  %o = kn.customized %a, %b grid [4, 2, 1] block [128, 1, 1] forloop 5 {
  ^bb0(%da: tensor<128x320xf16>, %db: tensor<320x256xf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<128x320xf16> -> !tb.stensor<64x64xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<320x256xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sa, %sb : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> \
!tb.stensor<64x64xf16>
    %total = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %total omap [1, 0, -1] : !tb.stensor<64x64xf16> -> tensor<128x256xf16>
  } : (tensor<128x320xf16>, tensor<320x256xf16>) -> tensor<128x256xf16>
  func.return %o : tensor<128x256xf16>
}
"""
"""Eight blocks of the grid, and rings of three stages, which do not divide the five iterations."""

ROWS = """
func.func @rows(%a: tensor<128x256xf16>, %b: tensor<256x256xf16>) -> tensor<128x256xf16> {
  %o = kn.customized %a, %b grid [4, 2, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%da: tensor<128x256xf16>, %db: tensor<256x256xf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<128x256xf16> -> !tb.stensor<64x128xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<256x256xf16> -> !tb.stensor<128x64xf16>
    %m = tb.matmul %sa, %sb
      : (!tb.stensor<64x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<64x64xf16>
    %sum = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %sum omap [1, 0, -1] : !tb.stensor<64x64xf16> -> tensor<128x256xf16>
  } : (tensor<128x256xf16>, tensor<256x256xf16>) -> tensor<128x256xf16>
  func.return %o : tensor<128x256xf16>
}
"""
"""Two rows of four blocks; those of a row have the tiles of A in common, of two boxes each."""

ODD = """
func.func @odd(%a: tensor<128x128xf16>, %b: tensor<128x251xf16, #cute.layout<(128,251):(1,128)>>)
    -> tensor<128x251xf16, #cute.layout<(128,251):(251,1)>> {
  %o = kn.customized %a, %b grid [4, 2, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%da: tensor<128x128xf16>, %db: tensor<128x251xf16, #cute.layout<(128,251):(1,128)>>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<128x128xf16> -> !tb.stensor<64x64xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0
      : tensor<128x251xf16, #cute.layout<(128,251):(1,128)>> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sa, %sb
      : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    %sum = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %sum omap [1, 0, -1]
      : !tb.stensor<64x64xf16> -> tensor<128x251xf16, #cute.layout<(128,251):(251,1)>>
  } : (tensor<128x128xf16>, tensor<128x251xf16, #cute.layout<(128,251):(1,128)>>)
    -> tensor<128x251xf16, #cute.layout<(128,251):(251,1)>>
  func.return %o : tensor<128x251xf16, #cute.layout<(128,251):(251,1)>>
}
"""
"""Rows of the result start anywhere, so that threads store them; as many iterations as stages."""

ORDERS: list[str | int] = ["together", "forward", "reversed", 0, 1]
RUNS = [(order, landing) for order in ORDERS for landing in Landing]
"""The orders of warps, and when copies land."""


def scheduled(
    blocks: int | None,
    consumers: int = 1,
    text: str = GEMM,
    cluster: int = 1,
    stages: int = 3,
) -> ModuleOp:
    """Persistent with so many blocks of the launch, or not; with so many ping-pong roles."""
    context = make_context()
    module = Parser(context, text).parse_module()
    steps = passes_as_written(
        loads="tma",
        stages=(stages,),
        ping_pong=consumers,
        blocks=blocks or 0,
        cluster=cluster,
        without=() if blocks else ("persist-blocks",),
    )
    for step in steps:
        step.apply(context, module)
    module.verify()
    kernel = kernel_of(module)
    assert kernel.persistent_blocks == blocks
    assert len(sched.ping_pong_roles(kernel)) == (consumers if consumers > 1 else 0)
    return module


def gemm_inputs() -> list[Array]:
    """Sums of their products are exact, in whatever order."""
    random = np.random.default_rng(5)
    extents = (128, 320), (320, 256)
    return [random.integers(-4, 5, extent).astype(np.float16) / 4 for extent in extents]


def without(module: ModuleOp, chosen: Callable[[Operation], bool]) -> ModuleOp:
    """The module, the first operator that is chosen left out."""
    changed = module.clone()
    Rewriter.erase_op(next(op for op in changed.walk() if chosen(op)))
    return changed


def runs(module: ModuleOp, inputs: list[Array]) -> Iterator[Array | str]:
    """What comes in each order of warps and landing: a result, or the error."""
    for order, landing in RUNS:
        try:
            run = execute_by_address(module, None, inputs, order=order, landing=landing)
            yield run.outputs[0]
        except ExecutionError as error:
            yield str(error)


def goes_wrong(module: ModuleOp, inputs: list[Array], right: Array) -> bool:
    """Whether in some order of warps and landing another result comes than should, or none."""
    return any(
        isinstance(result, str) or not np.array_equal(result, right)
        for result in runs(module, inputs)
    )


__all__ = [
    "GEMM",
    "ODD",
    "ROWS",
    "RUNS",
    "Array",
    "gemm_inputs",
    "goes_wrong",
    "kernel_of",
    "runs",
    "scheduled",
    "without",
]
