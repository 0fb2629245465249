"""When the operators of a threadblock graph run: before the for-loop, in it, or after it."""

from __future__ import annotations

from enum import Enum

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects.tb import AccumulatorOp, InputOp, OutputOp, STensorType, epilogue_of


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


def phases_of(body: Block) -> dict[Operation, Phase]:
    """The phase of each operator of a threadblock graph, in order.

    Tiles that the loop does not move are loaded before it.  An operator runs after the loop if one
    of its operands exists only then; outputs without ``fordim`` always do, those with it never.
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
    return phases


def used_after_the_loop(body: Block) -> dict[SSAValue, list[Operation]]:
    """Tiles of the loop body that operators after the loop use, with these operators.

    After several iterations such a tile would be that of the last one, which is no graph; after a
    single one it is whole.
    """
    late: set[SSAValue] = set()
    found: dict[SSAValue, list[Operation]] = {}
    for op, phase in phases_of(body).items():
        if phase is Phase.AFTER or accumulates(op):
            late.update(op.results)
        for value in op.operands if phase is Phase.AFTER else ():
            is_tile = isinstance(value.type, STensorType) and not is_loop_invariant_input(value)
            if is_tile and value not in late:
                found.setdefault(value, []).append(op)
    return found
