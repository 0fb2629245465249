"""Products behind the program: what they hold must be left alone until a wait covers them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from schedules import passes_as_written
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.passes.schedule.analysis.hazards import find_hazards
from mugraph.reading import make_context, read_module

INPUTS = Path(__file__).parents[1] / "filecheck" / "passes" / "Inputs"


@pytest.fixture(scope="module")
def attention() -> ModuleOp:
    """Scores of an iteration, and beside them the product of what the iteration before left."""
    context = make_context()
    module = read_module(str(INPUTS / "warpgroup-attention.mlir"), context)
    for step in passes_as_written("sm_90a", loads="tma", online_softmax=True):
        step.apply(context, module)
    return module


def kernel_in(module: ModuleOp) -> sched.KernelOp:
    """A copy of the module's kernel, to be broken."""
    copy = module.clone()
    return next(op for op in copy.body.block.ops if isinstance(op, sched.KernelOp))


def in_the_loop(kernel: sched.KernelOp, kind: type[Operation], which: int = 0) -> Operation:
    """An operator of the loop of the role that computes."""
    loop = next(op for op in sched.roles_of(kernel)[0].walk() if isinstance(op, sched.ForloopOp))
    return [op for op in loop.body.block.ops if isinstance(op, kind)][which]


def weaken(kernel: sched.KernelOp, which: int, pending: int) -> None:
    """Lets so many products be unfinished behind one of the loop's waits."""
    wait = in_the_loop(kernel, sched.WarpgroupWaitOp, which)
    assert isinstance(wait, sched.WarpgroupWaitOp)
    wait.pending = IntegerAttr(pending, i64)


def require_found(
    kernel: sched.KernelOp, break_it: Callable[[sched.KernelOp], None], says: str
) -> None:
    """Breaks a kernel; what it may not do is found."""
    break_it(kernel)
    found = [one.message for one in find_hazards(kernel)]
    assert any(says in message for message in found), found


def without_the_first_wait(kernel: sched.KernelOp) -> None:
    in_the_loop(kernel, sched.WarpgroupWaitOp, 0).detach()


def without_the_second_wait(kernel: sched.KernelOp) -> None:
    in_the_loop(kernel, sched.WarpgroupWaitOp, 1).detach()


def a_weaker_wait(kernel: sched.KernelOp) -> None:
    weaken(kernel, 1, 1)


def weights_before_the_wait(kernel: sched.KernelOp) -> None:
    """What the product of the iteration before still reads from registers is written."""
    wait = in_the_loop(kernel, sched.WarpgroupWaitOp, 1)
    block = wait.parent_block()
    assert block is not None
    weights = next(
        op
        for op in block.ops
        if isinstance(op, sched.MapOp) and op.destination.name_hint == "weights"
    )
    weights.detach()
    block.insert_op_before(weights, wait)


def values_released_early(kernel: sched.KernelOp) -> None:
    wait = in_the_loop(kernel, sched.WarpgroupWaitOp, 1)
    release = in_the_loop(kernel, sched.ReleaseOp, 1)
    block = wait.parent_block()
    assert block is not None
    release.detach()
    block.insert_op_before(release, wait)


def test_as_it_is_nothing_is_found(attention: ModuleOp) -> None:
    assert find_hazards(kernel_in(attention)) == []


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (without_the_first_wait, "may still be adding"),
        (without_the_second_wait, "%numerator, to which"),
        (a_weaker_wait, "%numerator, to which"),
        (weights_before_the_wait, "writes %weights, which an asynchronous"),
        (values_released_early, "neither a barrier nor a channel orders them"),
    ],
)
def test_what_is_touched_too_early_is_found(
    attention: ModuleOp, break_it: Callable[[sched.KernelOp], None], says: str
) -> None:
    kernel = kernel_in(attention)
    require_found(kernel, break_it, says)


@pytest.fixture(scope="module")
def unrolled() -> ModuleOp:
    """Four iterations in a body, each product beside the sums of the one before."""
    context = make_context()
    module = read_module(str(INPUTS.parent / "unroll-products.mlir"), context)
    for step in passes_as_written("sm_90a", loads="tma"):
        step.apply(context, module)
    return module


def sums_before_they_are_there(kernel: sched.KernelOp) -> None:
    """One product more may be unfinished where its sums are read."""
    weaken(kernel, 2, 2)


def a_stage_that_a_product_reads_released(kernel: sched.KernelOp) -> None:
    """That of the next iteration, whose product is in flight."""
    release = in_the_loop(kernel, sched.ReleaseOp, 2)
    assert isinstance(release, sched.ReleaseOp)
    release.ahead = IntegerAttr(release.ahead_of + 1, i64)


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (sums_before_they_are_there, "may still be adding"),
        (a_stage_that_a_product_reads_released, "to be released by the readers of iteration 2"),
    ],
)
def test_products_of_one_body_are_told_apart(
    unrolled: ModuleOp, break_it: Callable[[sched.KernelOp], None], says: str
) -> None:
    kernel = kernel_in(unrolled)
    assert find_hazards(kernel) == []
    require_found(kernel, break_it, says)
