"""Columns of tiles that fill the rounds of blocks."""

from __future__ import annotations

import math

import pytest
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.mugraph.plan.filled_rounds import (
    FILLED_STEPS,
    LEAST_ALONE,
    LEAST_FILLED,
    Blocks,
    filled,
)
from mugraph.reading import make_context

MULTIPROCESSORS = 132


def narrow(rows: int, columns: Blocks, extent: int) -> list[Blocks]:
    """The cuts of columns beside so many blocks of rows that fill rounds better."""
    first, *others = filled(
        (Blocks(rows), columns), 1, extent=extent, others=1, at_once=MULTIPROCESSORS
    )
    assert first == (Blocks(rows), columns)
    return [cut for _, cut in others]


def test_tiles_are_as_narrow_as_their_rounds_let_them() -> None:
    # 74 blocks of 256 columns are a round; 132 of 144 are one, and 99 of 192.
    assert narrow(1, Blocks(74), 18944) == [Blocks(132, 144), Blocks(99, 192)]
    # A full round has nothing to fill, and tiles that are narrow already stay.
    assert narrow(4, Blocks(33), 33 * 128) == []
    assert narrow(1, Blocks(2), 2 * LEAST_FILLED) == []
    # Tiles longer than an instruction are others.
    assert narrow(1, Blocks(64), 18944) == []


@pytest.mark.parametrize("rows", [1, 2, 9, 25])
@pytest.mark.parametrize("extent", [3072, 5120, 8192, 18944, 28672])
def test_narrower_tiles_would_need_more_rounds(rows: int, extent: int) -> None:
    """Only of the widest tiles also those of more rounds are taken, if they stay wide."""

    def rounds(tile: int) -> int:
        return math.ceil(rows * math.ceil(extent / tile) / MULTIPROCESSORS)

    for tile in (256, 128):
        for cut in narrow(rows, Blocks(math.ceil(extent / tile), tile), extent):
            length = cut.tile or extent // cut.blocks
            steps = [step for step in FILLED_STEPS if length % step == 0 and length > step]
            fills = any(rounds(length - step) > rounds(length) for step in steps)
            assert fills or length == LEAST_FILLED
            assert LEAST_FILLED <= length < tile
            assert rounds(length) == rounds(tile) or (tile == 256 and length >= LEAST_ALONE)
            assert (cut.blocks - 1) * length < extent <= cut.blocks * length


def plan_of(rows: int, columns: int, depth: int) -> Plan:
    """The plan of a linear layer with a bias, whose weights are stored as PyTorch has them."""
    graph = mi.new_kernel_graph("linear")
    x, w = graph.new_input((rows, depth)), graph.new_input((columns, depth))
    graph.mark_output(x @ mi.transpose(w) + graph.new_input((columns,)))
    context, module = make_context(), graph.module()
    steps = compile_pipeline("sm_90a")
    names = [step.name for step in steps]
    PassPipeline(steps[: names.index("plan") + 1]).apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, CustomizedOp))
    return kernel.decided


def test_a_round_is_filled_by_tiles_of_other_columns() -> None:
    plan = plan_of(128, 18944, 3584)
    assert plan.grid == (132, 1, 1)
    assert plan.tile == (0, 144)
