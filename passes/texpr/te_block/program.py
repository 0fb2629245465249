"""From a function to the list of its parallel bands, and the buffers between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.passes.texpr.analysis.numbers import is_number, sink_numbers
from mugraph.passes.texpr.te_block.distribute import (
    Reduction,
    distribute,
    reads_of,
    take_out_reductions,
)
from mugraph.passes.texpr.te_inline import fold_sections, inline_calls
from mugraph.passes.texpr.te_map.bands import has_par
from mugraph.passes.texpr.unrolling import write_out

MOST_STEPS = 64
"""The parallel loops, one after another, that a block's program may have once it is written out."""


@dataclass(frozen=True)
class Program:
    """A copy of a function whose statements are buffers, bands, and reductions between them.

    ``parameters`` are the operands in order, ``results`` the results; ``buffers`` are those that
    bands share.
    """

    function: FuncOp
    parameters: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    items: tuple[te.ParOp | Reduction, ...]

    @property
    def buffers(self) -> list[te.NewOp]:
        """The buffers that the function makes outside of bands."""
        return [op for op in self.function.body.block.ops if isinstance(op, te.NewOp)]


def block_program(function: FuncOp, label: str, threads: int) -> Program:
    """The program of a block of so many threads that runs a function on its tiles.

    Calls are inlined; loops in order around parallel ones are written out, conditions around them
    decided; statements outside parallel loops are one thread's.  Raises ``PassFailedException``,
    with ``label`` for the operator's name, where there are too many steps.
    """
    copy = function.clone()
    inline_calls(copy, function)
    fold_sections(copy)
    block = copy.body.block
    if not write_out(block, has_par, 4 * MOST_STEPS):
        raise PassFailedException(
            f"{label}: a loop in order around parallel ones is too long to be written out: "
            f"{MOST_STEPS} steps are the most; put it inside the parallel loop"
        )
    _gather_serial(block, label)
    sink_numbers(block)
    items: list[te.ParOp | Reduction] = []
    for loop in [op for op in block.ops if isinstance(op, te.ParOp)]:
        for part in distribute(loop, threads):
            items += take_out_reductions(part, label)
    arguments = block.args
    places = range(len(arguments))
    program = Program(
        copy,
        tuple(arguments[place] for place in places if not te.is_result(copy, place)),
        tuple(arguments[place] for place in places if te.is_result(copy, place)),
        tuple(items),
    )
    if len(items) > MOST_STEPS:
        raise PassFailedException(
            f"{label}: written out, its loops in order around parallel ones make "
            f"{len(items)} steps of a block; {MOST_STEPS} are the most, so use fewer "
            "iterations or put the loop inside the parallel one"
        )
    return program


def _gather_serial(block: Block, label: str) -> None:
    """Makes a parallel loop of one iteration of statements that stand outside parallel loops."""
    group: list[Operation] = []
    for op in list(block.ops):
        if isinstance(op, te.NewOp) or (is_number(op) and not reads_of(op, group)):
            continue
        if not isinstance(op, (te.ParOp, ReturnOp)):
            group.append(op)
            continue
        if group:
            _wrap(group, label)
            group = []


def _wrap(group: Sequence[Operation], label: str) -> None:
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = "once"
    loop = te.ParOp(1, body)
    Rewriter.insert_op(loop, InsertPoint.before(group[0]))
    for op in group:
        op.detach()
        body.add_op(op)
    for op in group:
        for use in (use for result in op.results for use in result.uses):
            if not loop.is_ancestor(use.operation):
                raise PassFailedException(
                    f"{label}: '{op.name}' stands outside parallel loops, and what it gives is "
                    "used inside them; read the element where it is used"
                )
