"""Programs of ``.te`` text on the way to kernels, for tests that compare all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mugraph.dialects import te
from mugraph.dialects.te.mapped import ScopeAttr
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards, unneeded_texpr_barriers
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.texpr import run_texpr


def kernel_of_each_step(
    module: ModuleOp, inputs: Sequence[Any], assert_same: Callable[[Any, Any], None]
) -> te.KernelOp:
    """The kernel that a program becomes, whose result is the same after each pass.

    Threads run in two orders.
    """
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    expected = run_texpr(function, inputs, seed=None).outputs["result"]
    for lowering in TeLowerPass("sm_90a").passes():
        lowering.apply(Context(), module)
        module.verify()
        for seed in (0, 1):
            assert_same(run_texpr(function, inputs, seed=seed).outputs["result"], expected)
    (kernel,) = (op for op in module.walk() if isinstance(op, te.KernelOp))
    return kernel


def assert_each_is_needed(
    kernel: te.KernelOp, barriers: Sequence[te.BarrierOp], scope: te.Scope
) -> None:
    """No barrier is one too many, and none can be one of a block alone."""
    assert unneeded_texpr_barriers(kernel) == []
    for barrier in barriers:
        barrier.scope = ScopeAttr(te.Scope.BLOCK)
        assert find_texpr_hazards(kernel)
        barrier.scope = ScopeAttr(scope)
