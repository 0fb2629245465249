"""When the operators of a threadblock graph run: before the for-loop, in it, or after it."""

from __future__ import annotations

from enum import Enum

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects.interfaces import CarriesState
from mugraph.dialects.tb import (
    AccumulatorOp,
    InputOp,
    MaskOp,
    OutputOp,
    ReductionMaxOp,
    STensorType,
    epilogue_of,
)


class Phase(Enum):
    """Before the loop, once an iteration, or after the loop."""

    BEFORE = "before"
    LOOP = "loop"
    AFTER = "after"


def accumulates(op: Operation) -> bool:
    """Whether the operator runs in the loop while its result exists only after it."""
    return isinstance(op, AccumulatorOp) or epilogue_of(op).accumulates


def is_loop_invariant_input(value: SSAValue) -> bool:
    """Whether a value is a tile that is loaded once, before the loop, and kept."""
    owner = value.owner
    return isinstance(owner, InputOp) and owner.loop_dim < 0


def loop_invariant_tiles(body: Block) -> set[SSAValue]:
    """Tiles that are the same in every iteration: those loaded once, and what is made of them."""
    invariant: set[SSAValue] = set()
    for op in body.ops:
        if isinstance(op, InputOp):
            is_invariant = op.loop_dim < 0
        else:
            moves = isinstance(op, MaskOp) and op.moves
            falls = isinstance(op, ReductionMaxOp) and op.falls_at_first
            differs = moves or falls or accumulates(op) or isinstance(op, CarriesState)
            is_invariant = invariant.issuperset(op.operands) and not differs
        if is_invariant:
            invariant.update(op.results)
    return invariant


def phases_of(body: Block, iterations: int) -> dict[Operation, Phase]:
    """The phase of each operator of a threadblock graph, in order.

    Tiles that the loop does not move are loaded before it.  An operator runs after the loop if one
    of its operands exists only then, or if it makes what is the same in all of several iterations
    for operators after the loop alone; outputs without ``fordim`` always do, those with it never.
    Everything else runs in the loop.
    """
    phases: dict[Operation, Phase] = {}
    late: set[SSAValue] = set()
    for op in body.ops:
        if isinstance(op, InputOp):
            phases[op] = Phase.BEFORE if op.loop_dim < 0 else Phase.LOOP
        elif isinstance(op, OutputOp):
            phases[op] = Phase.AFTER if op.loop_dim < 0 else Phase.LOOP
        elif any(value in late for value in op.operands):
            phases[op] = Phase.AFTER
            late.update(op.results)
        else:
            phases[op] = Phase.LOOP
            if accumulates(op):
                late.update(op.results)
    invariant = loop_invariant_tiles(body) if iterations > 1 else set[SSAValue]()
    for op in reversed(phases):
        if phases[op] is Phase.LOOP and op.results and invariant.issuperset(op.results):
            users = {phases[use.operation] for value in op.results for use in value.uses}
            if users == {Phase.AFTER}:
                phases[op] = Phase.AFTER
    return phases


def running_maxima(body: Block, iterations: int) -> list[ReductionMaxOp]:
    """The maxima that an iteration makes of those of the iteration before.

    Of several iterations none is that is the same in all of them, or is taken after the loop.
    """
    maxima = [op for op in body.ops if isinstance(op, ReductionMaxOp)]
    if not maxima or iterations == 1:
        return maxima
    same, phases = loop_invariant_tiles(body), phases_of(body, iterations)
    return [op for op in maxima if op.maximum not in same and phases[op] is Phase.LOOP]


def used_after_the_loop(body: Block, iterations: int) -> dict[SSAValue, list[Operation]]:
    """Tiles of the loop body that operators after the loop use, with these operators.

    After several iterations such a tile would be that of the last one, which is no graph, unless it
    is the same in all of them, and then it is not among those found; after a single one it is
    whole.
    """
    kept = loop_invariant_tiles(body) if iterations > 1 else set[SSAValue]()
    late: set[SSAValue] = set()
    found: dict[SSAValue, list[Operation]] = {}
    for op, phase in phases_of(body, iterations).items():
        if phase is Phase.AFTER or accumulates(op):
            late.update(op.results)
        for value in op.operands if phase is Phase.AFTER else ():
            is_tile = isinstance(value.type, STensorType) and not is_loop_invariant_input(value)
            if is_tile and value not in late and value not in kept:
                found.setdefault(value, []).append(op)
    return found
