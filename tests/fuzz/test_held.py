"""Random programs whose extents memory holds: ``python -m fuzz.held -n 2000`` takes thousands."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from thorough import inputs
from xdsl.dialects.builtin import AffineSetAttr, ModuleOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from fuzz.held import check_held, draw_held
from mugraph.dialects import sched
from mugraph.dialects.linear_forms import set_of
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.compile import compile_pipeline
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function

Array = Any

SEED = 5
KEYS, TILE = 720, 144


@pytest.mark.parametrize("number", range(0, inputs(3, 60), inputs(2, 1)))
def test_programs_are_right_at_every_size(number: int) -> None:
    """What the builder refuses is no program."""
    program = draw_held(SEED, number)
    assert program is None or check_held(program) is None


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        # A loop that cannot be divided leaves no kernel, which would hold the copies of rows that
        # are tried while kernels are searched.
        (1, 362),
        # One row of 66 bytes that a number names is not copied 16 bytes at once.
        (90417, 57),
        # A call says how many rows there are, and a length in memory how many of them are not 0.
        (90417, 105),
        # Minus infinity less what lies behind the end is not minus infinity.
        (90417, 119),
        # One mask leaves 0 in a tile, and another one puts -1 there.
        (271102, 62),
        # A mask says a larger range of a length than the bound of a call.
        (271102, 90),
    ],
)
def test_programs_that_were_wrong_are_right(seed: int, number: int) -> None:
    program = draw_held(seed, number)
    assert program is not None
    assert check_held(program) is None


def attention() -> mi.KernelGraph:
    graph = mi.new_kernel_graph("attention")
    length = graph.new_input((1,), dtype=mi.int32)
    n = mi.Extent("n", largest=KEYS, held=length)
    q, k, v = graph.new_input((16, 32)), graph.new_input((n, 32)), graph.new_input((n, 16))
    graph.mark_output(graph.softmax(q @ graph.transpose(k, [1, 0]), 1) @ v)
    return graph


@cache
def scheduled() -> ModuleOp:
    module = attention().module()
    steps = compile_pipeline("sm_90a", Plan(forloop=KEYS // TILE, split_k=1))
    PassPipeline(steps).apply(make_context(), module)
    return module


def kernel_of(module: ModuleOp) -> sched.KernelOp:
    return next(op for op in module.ops if isinstance(op, sched.KernelOp))


def move_mask(module: ModuleOp, by: int) -> None:
    """Lets masks end later."""
    for op in kernel_of(module).walk():
        if isinstance(op, sched.MaskOp) and op.condition is not None:
            forms = [form + by for form in op.forms()]
            op.condition = AffineSetAttr(set_of(forms, len(shape_of(op.source.type))))


def move_trip_count(module: ModuleOp, by: int) -> None:
    """Lets loops run more iterations."""
    kernel = kernel_of(module)
    forms = [form + by * TILE for form in kernel.domain_forms()]
    kernel.domain = AffineSetAttr(set_of(forms, 4))


def leave_no_tail_out(module: ModuleOp, _: int) -> None:
    """Lets loads read what lies behind the end."""
    for op in kernel_of(module).walk():
        if isinstance(op, sched.LocalTileOp):
            op.end_along({})
    for op in kernel_of(module).walk():
        if isinstance(op, sched.CopyOp):
            op.leave_out()


@cache
def calls() -> list[tuple[list[Array], Array]]:
    """Arguments and results at sizes within a tile, at its end and behind it."""
    random, found = np.random.default_rng(0), list[tuple[list[Array], Array]]()
    for n in (1, TILE, TILE + 1, KEYS):
        q = random.standard_normal((16, 32)).astype(np.float16)
        k, v = (np.full((KEYS, width), np.nan, np.float16) for width in (32, 16))
        k[:n], v[:n] = (random.standard_normal(x[:n].shape) for x in (k, v))
        given: list[Array] = [np.array([n], np.int32), q, k, v]
        found.append((given, run_function(attention().module(), None, given, "float64")[0]))
    return found


def is_right(module: ModuleOp) -> bool:
    return all(
        np.allclose(run_function(module, None, given)[0], wanted, atol=2e-2)
        for given, wanted in calls()
    )


@pytest.mark.parametrize(
    ("change", "by", "harmless"),
    [
        (move_mask, 1, False),
        (move_mask, -1, False),
        (move_trip_count, -1, False),
        (move_trip_count, 1, True),
        (leave_no_tail_out, 0, False),
    ],
)
def test_mutants_are_told_apart(
    change: Callable[[ModuleOp, int], None], by: int, *, harmless: bool
) -> None:
    """An iteration more has masked tiles alone, and changes nothing."""
    module = scheduled().clone()
    assert kernel_of(module).domain is not None and is_right(module)
    change(module, by)
    module.verify()
    assert is_right(module) == harmless
