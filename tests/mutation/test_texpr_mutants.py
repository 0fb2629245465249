"""Mutants of the synchronisation of tensor expressions are reported; here some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from texpr_mutants import (
    EQUAL,
    EXAMPLES,
    LEFT,
    PROGRAMS,
    REPORTED,
    Mutant,
    lowered,
    mutants_of,
    score,
    what_runs_show,
)
from texpr_order import touch_alike
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mugraph.dialects import te
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards

FEWER = {"removed", "weakened", "of fewer threads"}
OTHERS = {"other phase", "other mbarrier", "other arrivals", "other bytes"}
WHOLE = (te.CommitOp, te.WarpgroupFenceOp, te.WarpgroupCommitOp, te.WarpgroupWaitOp)
"""What all threads of a warp, or each thread with copies, must come to."""


@cache
def without_hazards(name: str, number: int) -> ModuleOp:
    """An example with its kernels, which have no hazard themselves."""
    module = lowered(name, PROGRAMS[name][number])
    for kernel in module.walk():
        if isinstance(kernel, te.KernelOp):
            assert find_texpr_hazards(kernel) == []
    return module


def mutants(
    name: str,
    number: int = 0,
    wanted: Callable[[str, Operation], bool] = lambda kind, op: True,
) -> Iterator[Mutant]:
    """The mutants of the kernels of an example, or those that are wanted."""
    for kernel in list(without_hazards(name, number).clone().walk()):
        if isinstance(kernel, te.KernelOp):
            yield from mutants_of(kernel, wanted)


def is_chosen(kind: str, op: Operation) -> bool:
    """Whether every mutant of a kind is reported."""
    return kind in FEWER | OTHERS


def is_of_some_threads(kind: str, op: Operation) -> bool:
    """Whether threads leave out what all of a warp must come to, or an mbarrier is made twice."""
    return (kind == "of some threads" and isinstance(op, WHOLE)) or (
        kind == "doubled" and isinstance(op, te.MbarrierInitOp)
    )


@pytest.mark.parametrize(
    ("name", "every"), [("transpose", 1), ("scan", 1), ("life", 1), ("heat", 1), ("gemm_sm90", 17)]
)
def test_no_mutant_is_missed(name: str, every: int) -> None:
    tried = 0
    for number, mutant in enumerate(mutants(name, wanted=is_chosen)):
        if number % every == 0:
            tried += 1
            assert mutant.is_reported, f"{mutant.kind}: {mutant.op}"
    assert tried


@pytest.mark.parametrize(("name", "number", "every"), [("gemm_shared", 2, 3), ("life", 0, 1)])
def test_what_is_not_reported_is_proved_equal(name: str, number: int, every: int) -> None:
    chosen = [one.verdict for n, one in enumerate(mutants(name, number)) if n % every == 0]
    assert LEFT not in chosen
    assert EQUAL in chosen


RELAY = """
fn relay(x: f32[2, 32]): f32[32] {
    par 1 |block| #grid {
        new row: f32[32] #shared
        new first: mbarrier[1] #arrivals(32)
        new second: mbarrier[1] #arrivals(32)
        fully par 96 |t| #align(32) #block {
            if t < 32 {
                ONE
                row[t] = x[0, t]
                mbarrier.arrive(first[0])
            }
            if t >= 32 and t < 64 {
                OTHER
                row[t - 32] = x[1, t - 32]
                mbarrier.arrive(second[0])
            }
            if t >= 64 {
                mbarrier.wait(first[0], 0)
                mbarrier.wait(second[0], 0)
                result[95 - t] = row[t - 64]
            }
        }
    }
}
"""


def test_kernels_without_hazards_that_write_in_another_order_are_not_equal() -> None:
    """Two warps write one row, one behind the other: which is the second differs."""
    waits = {"ONE": "mbarrier.wait(second[0], 0)", "OTHER": "mbarrier.wait(first[0], 0)"}
    kernels: list[te.KernelOp] = []
    for late, wait in waits.items():
        text = RELAY.replace(late, wait)
        module = lowered("relay", {}, text.replace("ONE", "").replace("OTHER", ""))
        (kernel,) = (op for op in module.walk() if isinstance(op, te.KernelOp))
        assert find_texpr_hazards(kernel) == []
        kernels.append(kernel)
    assert touch_alike(kernels[0], kernels[0].clone())
    assert not touch_alike(*kernels)


@pytest.mark.parametrize(("name", "number"), [("gemm_mma", 1), ("gemm_sm90", 1)])
def test_instructions_that_some_threads_leave_out(name: str, number: int) -> None:
    found = [mutant.is_reported for mutant in mutants(name, number, is_of_some_threads)]
    assert found and all(found)


@pytest.mark.skipif(not THOROUGH, reason="lowers every example: make fuzz")
def test_there_are_a_thousand_mutants_of_all_examples_whose_threads_wait() -> None:
    total = sum(
        sum(1 for _ in mutants(name, number))
        for name, several in PROGRAMS.items()
        for number in range(len(several))
    )
    assert total >= 1000
    # Of the others none has a barrier.
    for path in EXAMPLES.glob("*.te"):
        if path.stem not in PROGRAMS:
            kernels = lowered(path.stem, OTHER_SIZES.get(path.stem, {})).walk()
            assert not any(isinstance(op, te.BarrierOp) for op in kernels)


OTHER_SIZES = {
    "vector_add": {"N": 1000},
    "gemm": {"M": 12, "N": 10, "K": 5},
    "softmax": {"M": 2, "N": 500},
    "layer_norm": {"M": 2, "N": 500},
    "stencil": {"H": 9, "W": 13},
    "stencil_3d": {"Z": 6, "Y": 32, "X": 128, "LEVELS": 3},
    "batched_4x4": {"B": 20},
}


@pytest.mark.skipif(not THOROUGH, reason="compiles every mutant: make fuzz")
@pytest.mark.parametrize("name", ["transpose", "scan", "life", "heat"])
def test_what_is_not_reported_is_harmless(name: str, needs_emulator: None, tmp_path: Path) -> None:
    module = lowered(name, PROGRAMS[name][0])
    scored = [one for one in score(name, module, control=1) if one.verdict != REPORTED]
    programs = [one.module for one in scored if one.module is not None]
    assert len(programs) == len(scored)
    assert not any(what_runs_show(module, programs, 8, tmp_path))


@pytest.mark.skipif(not THOROUGH, reason="compiles every mutant: make fuzz")
@pytest.mark.parametrize("name", ["transpose", "scan"])
def test_what_is_removed_is_seen_in_runs(name: str, needs_emulator: None, tmp_path: Path) -> None:
    module = lowered(name, PROGRAMS[name][0])
    scored = [one for one in score(name, module, control=1) if one.kind == "removed"]
    programs = [one.module for one in scored if one.module is not None]
    assert len(programs) == len(scored)
    assert all(what_runs_show(module, programs, 8, tmp_path))
