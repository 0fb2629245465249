"""Ping-pong roles: what interpreters and checker make of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from persistent_programs import (
    GEMM,
    ODD,
    Array,
    gemm_inputs,
    goes_wrong,
    kernel_of,
    runs,
    scheduled,
    without,
)
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from mugraph.dialects import sched
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.schedule.analysis.hazards import find_hazards, progress_of, read_program
from mugraph.passes.schedule.analysis.hazards.simulate import Simulation
from mugraph.runtime.interpreter import ExecutionError, run_function

LONG = (
    (
        GEMM.replace("128x320", "256x2048")
        .replace("320x256", "2048x512")
        .replace("128x256", "256x512")
    )
    .replace("grid [4, 2, 1]", "grid [8, 4, 1]")
    .replace("forloop 5", "forloop 32")
)
"""Lists long enough to repeat."""


@pytest.fixture(scope="module")
def alternating() -> ModuleOp:
    """One block of the launch for the whole grid, two roles with four blocks each."""
    return scheduled(1, 2)


@pytest.fixture(scope="module")
def inputs() -> list[Array]:
    return gemm_inputs()


@pytest.fixture(scope="module")
def right(inputs: list[Array]) -> Array:
    a, b = (array.astype(np.float64) for array in inputs)
    return (a @ b).astype(np.float16)


def in_role(kind: type[Operation], index: int) -> Callable[[Operation], bool]:
    """Operators of a kind in the role with that index."""

    def chosen(op: Operation) -> bool:
        role = sched.enclosing_role(op)
        return isinstance(op, kind) and role is not None and role.ping_pong_index == index

    return chosen


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("blocks", "consumers"),
    [(1, 2), (3, 2), (5, 2), (3, 3)],
)
def test_ping_pong_gives_the_same(
    blocks: int, consumers: int, inputs: list[Array], right: Array
) -> None:
    module = scheduled(blocks, consumers)
    (logical,) = run_function(module, None, inputs)
    np.testing.assert_array_equal(logical, right)
    for result in runs(module, inputs):
        np.testing.assert_array_equal(result, right)


def test_only_arrivals_let_a_role_go_on(
    alternating: ModuleOp, inputs: list[Array], right: Array
) -> None:
    """Stuck in every order, at both levels."""
    wrong = without(alternating, in_role(sched.OrderArriveOp, 0))
    message = (
        "role \"consumers_1\" waits in 'sched.order_wait' of %order of iteration 0 of block 1 of "
        "its list for block 0 to arrive"
    )
    assert all(isinstance(result, str) and message in result for result in runs(wrong, inputs))
    with pytest.raises(ExecutionError, match="for block 0 to arrive"):
        run_function(wrong, None, inputs)


@pytest.mark.parametrize(
    ("blocks", "consumers"),
    [(1, 2), (3, 2), (5, 2), (1, 3)],
)
def test_ping_pong_has_no_hazard(blocks: int, consumers: int) -> None:
    kernel = kernel_of(scheduled(blocks, consumers))
    assert not find_hazards(kernel)


def is_last_release(op: Operation) -> bool:
    return in_role(sched.ReleaseOp, 1)(op) and bool(op.properties.get("iteration"))


def is_first_acquire(op: Operation) -> bool:
    return isinstance(op, sched.AcquireOp) and op.fixed_iteration == 0


LEFT_OUT = {
    "await, first role": (in_role(sched.OrderWaitOp, 0), HazardKind.PROTOCOL),
    "await, second role": (in_role(sched.OrderWaitOp, 1), HazardKind.PROTOCOL),
    "pass, first role": (in_role(sched.OrderArriveOp, 0), HazardKind.DEADLOCK),
    "pass, second role": (in_role(sched.OrderArriveOp, 1), HazardKind.DEADLOCK),
    "release, second role": (in_role(sched.ReleaseOp, 1), HazardKind.DEADLOCK),
    "last release, second role": (is_last_release, HazardKind.DEADLOCK),
    "consume, second role": (in_role(sched.ConsumeOp, 1), HazardKind.IN_FLIGHT),
    "acquire of the first fill": (is_first_acquire, HazardKind.WRITE_AFTER_READ),
    "wait for stores, second role": (in_role(sched.BulkWaitOp, 1), HazardKind.IN_FLIGHT),
    "wait for products, second role": (in_role(sched.WarpgroupWaitOp, 1), HazardKind.IN_FLIGHT),
}


@pytest.mark.parametrize("step", LEFT_OUT)
def test_a_step_left_out_is_reported_and_harmful(
    step: str, alternating: ModuleOp, inputs: list[Array], right: Array
) -> None:
    chosen, kind = LEFT_OUT[step]
    wrong = without(alternating, chosen)
    assert kind in {finding.kind for finding in find_hazards(kernel_of(wrong))}
    assert goes_wrong(wrong, inputs, right)


def test_who_waits_for_whom_at_the_order_barrier(alternating: ModuleOp) -> None:
    wrong = without(alternating, in_role(sched.OrderArriveOp, 1))
    (finding,) = find_hazards(kernel_of(wrong))
    assert str(finding).startswith(
        "deadlock: role \"consumers_0\" waits in 'sched.order_wait' of %order (operator 2 of the "
        'prologue of role "consumers_0") for block 1 of the list to arrive; role '
        "\"consumers_1\" waits in 'sched.order_wait' of %order"
    )


def test_an_arrival_too_early(alternating: ModuleOp) -> None:
    """Before the loop: then nothing orders how the two roles read the ring."""
    changed = alternating.clone()
    early = next(op for op in changed.walk() if in_role(sched.OrderArriveOp, 0)(op))
    awaits = next(op for op in changed.walk() if in_role(sched.OrderWaitOp, 0)(op))
    early.detach()
    Rewriter.insert_op(early, InsertPoint.after(awaits))
    changed.verify()
    found = [finding for finding in find_hazards(kernel_of(changed))]
    assert {finding.kind for finding in found} == {HazardKind.PROTOCOL}
    assert "without having waited for what was in the stage before" in str(found[0])


def test_an_arrival_before_the_wait(alternating: ModuleOp) -> None:
    changed = alternating.clone()
    for index in (0, 1):
        early = next(op for op in changed.walk() if in_role(sched.OrderArriveOp, index)(op))
        awaits = next(op for op in changed.walk() if in_role(sched.OrderWaitOp, index)(op))
        early.detach()
        Rewriter.insert_op(early, InsertPoint.before(awaits))
    messages = [str(finding) for finding in find_hazards(kernel_of(changed))]
    assert any(
        "without having waited until the role before had arrived" in text for text in messages
    )


def test_an_order_that_is_not_set_up(alternating: ModuleOp) -> None:
    """No barrier stands between the mbarriers and the roles."""
    wrong = without(alternating, lambda op: isinstance(op, sched.BarrierOp))
    messages = [str(finding) for finding in find_hazards(kernel_of(wrong))]
    assert any("%order is set up by one thread" in text for text in messages)


@pytest.mark.parametrize("consumers", [1, 2])
def test_blocks_that_repeat_are_skipped(consumers: int) -> None:
    """With the same findings, of a right kernel and of one whose results are not waited for."""
    right = scheduled(1, consumers, text=LONG)
    wrong = without(right, lambda op: isinstance(op, sched.BulkWaitOp))
    for module in (right, wrong):
        program = read_program(kernel_of(module))
        assert program.lengths == (32,)
        some, every = Simulation(program), Simulation(program, every_iteration=True)
        assert [str(finding) for finding in some.run()] == [str(each) for each in every.run()]
        assert some.protocol.counts.total() * 3 < every.protocol.counts.total()
        assert some.protocol.ran == every.protocol.counts


def test_the_certificate_is_of_the_longest_list() -> None:
    kernel = kernel_of(scheduled(3, 2))
    program = read_program(kernel)
    assert program.lengths == (3, 2)
    progress = progress_of(program)
    assert progress is not None
    assert progress.blocks == 3
    assert progress.lines()[-1].startswith("in a block that takes 3 blocks of the grid")
    assert [ring.published for ring in progress.channels] == [3 * 5]
    # A publish, consume, acquire and release for each tile; three order waits and arrivals.
    assert progress.steps == 4 * 3 * 5 + 2 * 3


def test_rows_that_start_anywhere_are_stored_by_threads() -> None:
    """While others multiply; a result is written once the one before has been copied out."""
    module = scheduled(1, 2, ODD, stages=2)
    kernel = kernel_of(module)
    copies = [op for op in kernel.walk() if isinstance(op, sched.CopyOp)]
    assert len(copies) == 2 and all(op.is_shifted for op in copies)
    assert not list(find_hazards(kernel))
    random = np.random.default_rng(5)
    given = [random.integers(-4, 5, (128, extent)).astype(np.float16) / 4 for extent in (128, 251)]
    (result,) = run_function(module, None, given, level="address")
    np.testing.assert_array_equal(result, given[0] @ given[1])

    def before_store(op: Operation) -> bool:
        return isinstance(op, sched.BarrierOp) and isinstance(op.next_op, sched.StoreOp)

    (finding,) = find_hazards(kernel_of(without(module, before_store)))
    assert finding.kind is HazardKind.WRITE_AFTER_READ
