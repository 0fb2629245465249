"""Roles that take blocks of the grid in turn: what interpreters and checker make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.rewriter import Rewriter

from mugraph.dialects import sched
from mugraph.passes.alternate_consumers import AlternateConsumersPass
from mugraph.passes.persist_blocks import PersistBlocksPass
from mugraph.passes.transpile import transpile_pipeline
from mugraph.runtime.interpreter import ExecutionError, execute_by_address, run_function
from mugraph.runtime.interpreter.address_level import Landing
from mugraph.tools.modules import make_context

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

ORDERS: list[str | int] = ["together", "forward", "reversed", 0, 1]
RUNS = [(order, landing) for order in ORDERS for landing in Landing]


def scheduled(blocks: int, turns: int = 2, pass_turn: str = "finished") -> ModuleOp:
    """So many blocks of the launch, with so many roles in turn."""
    context = make_context()
    module = Parser(context, GEMM).parse_module()
    options = {"pipeline": "channels", "bytes_in_flight": 8192, "check_hazards": False}
    for step in transpile_pipeline("sm_90a", **options):
        if isinstance(step, PersistBlocksPass):
            step = PersistBlocksPass(blocks=blocks)
        if step.name == "plan-stensor-memory":
            AlternateConsumersPass("sm_90a", turns, pass_turn).apply(context, module)
        step.apply(context, module)
    module.verify()
    kernel = kernel_of(module)
    assert kernel.persistent_blocks == blocks
    assert len(sched.roles_in_turn(kernel)) == (turns if turns > 1 else 0)
    return module


def kernel_of(module: ModuleOp) -> sched.KernelOp:
    return next(op for op in module.walk() if isinstance(op, sched.KernelOp))


@pytest.fixture(scope="module")
def alternating() -> ModuleOp:
    """One block of the launch for the whole grid, two roles with four blocks each."""
    return scheduled(1)


@pytest.fixture(scope="module")
def inputs() -> list[Array]:
    """Sums of their products are exact, in whatever order."""
    random = np.random.default_rng(5)
    extents = (128, 320), (320, 256)
    return [random.integers(-4, 5, extent).astype(np.float16) / 4 for extent in extents]


@pytest.fixture(scope="module")
def right(inputs: list[Array]) -> Array:
    a, b = (array.astype(np.float64) for array in inputs)
    return (a @ b).astype(np.float16)


def without(module: ModuleOp, chosen: Callable[[Operation], bool]) -> ModuleOp:
    """The module, the first operator that is chosen left out."""
    changed = module.clone()
    Rewriter.erase_op(next(op for op in changed.walk() if chosen(op)))
    return changed


def in_turn(kind: type[Operation], turn: int) -> Callable[[Operation], bool]:
    """Operators of a kind in the role with that turn."""

    def chosen(op: Operation) -> bool:
        role = sched.enclosing_role(op)
        return isinstance(op, kind) and role is not None and role.turn_number == turn

    return chosen


def runs(module: ModuleOp, inputs: list[Array]) -> list[Array | str]:
    """What comes in each order of warps and landing: a result, or the error."""
    found: list[Array | str] = []
    for order, landing in RUNS:
        try:
            run = execute_by_address(module, None, inputs, order=order, landing=landing)
            found.append(run.outputs[0])
        except ExecutionError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize(
    ("blocks", "turns", "pass_turn"),
    [(1, 2, "finished"), (1, 2, "issued"), (3, 2, "finished"), (5, 2, "issued"), (3, 3, "issued")],
)
def test_turns_give_the_same(
    blocks: int, turns: int, pass_turn: str, inputs: list[Array], right: Array
) -> None:
    module = scheduled(blocks, turns, pass_turn)
    (logical,) = run_function(module, None, inputs)
    np.testing.assert_array_equal(logical, right)
    for result in runs(module, inputs):
        np.testing.assert_array_equal(result, right)
