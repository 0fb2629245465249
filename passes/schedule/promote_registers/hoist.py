"""Operators that compute the same in every iteration run once, before the loop."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.interfaces import read_by, written_by
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import LINE_BYTES
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import bytes_of, shape_of
from mugraph.passes.schedule.promote_registers.mma_analysis import Uses, phases_of_kernel


def invariant_operators(kernel: sched.KernelOp) -> list[Operation]:
    """The operators of the loop whose operands do not change in it, in the order of the text.

    Element-wise operators, masks of places in the tile, reductions, and moves of parts of buffers,
    such as those of a rotation; no moves where a role loads.  Attention of 8 x 32 heads with
    rotated queries, multiplied by warp groups, was wrong so on an H200: ptxas gave the registers of
    the queries to probabilities (``mugraph::keep`` prevents it since, untimed;
    ``benchmarks/results/models_shared_heads_h200.md``).
    """
    phases = list(phases_of_kernel(kernel))
    loop = next((phase for phase in phases if isinstance(phase, sched.ForloopOp)), None)
    if loop is None or loop.trip_count == 1:
        return []
    place = {op: at for at, op in enumerate(loop.body.block.ops)}
    uses = Uses.of([op for op in kernel.walk() if op.parent_op() is not kernel])
    # Loops of other roles, too, bring tiles anew: a channel can have one stage.
    loops = [op for op in kernel.walk() if isinstance(op, sched.ForloopOp)]
    in_loops = Uses.of([op for each in loops for op in each.walk()])
    has_roles = any(sched.roles_of(kernel))
    found = {
        op
        for op in place
        if _computes_alike(op) and not (has_roles and isinstance(op, sched.MoveOp))
    }

    def is_made_alike(value: SSAValue) -> bool:
        """Whether nothing else writes a buffer, and several operators only parts of it, unread."""
        writers = uses.writers[value]
        if not found.issuperset(writers):
            return False
        readers = [at for op in uses.readers.get(value, ()) if (at := place.get(op)) is not None]
        moved = all(isinstance(op, sched.MoveOp) for op in writers)
        return len(writers) == 1 or (
            moved and max(place[op] for op in writers) < min(readers, default=len(place))
        )

    def is_there(value: SSAValue, reader: Operation) -> bool:
        """Whether a buffer has its elements before an operator, the same in every iteration."""
        writers = in_loops.writers.get(value, ())
        return found.issuperset(writers) and all(place[op] < place[reader] for op in writers)

    def stays(op: Operation) -> bool:
        return all(map(is_made_alike, written_by(op))) and all(
            _is_buffer(value) and is_there(value, op) for value in read_by(op)
        )

    while changing := {op for op in found if not stays(op)}:
        found -= changing
    return [op for op in place if op in found]


def _computes_alike(op: Operation) -> bool:
    """Whether an operator computes buffers from its operands alone, in any iteration."""
    if not isinstance(op, sched.MapOp | sched.ReduceOp | sched.MoveOp) and not _is_still_mask(op):
        return False
    return not epilogue_of(op).accumulates and all(map(_is_buffer, written_by(op)))


def _is_still_mask(op: Operation) -> bool:
    """Whether an operator masks the same elements in every block and iteration."""
    if not isinstance(op, sched.MaskOp) or op.ragged:
        return False
    rank = len(shape_of(op.source.type))
    return not any(step for form in op.forms() for step in form.coefficients[rank:])


def _is_buffer(value: SSAValue) -> bool:
    """Whether a value is a buffer that is the same in every iteration unless it is written."""
    return isinstance(value.owner, sched.AllocOp) and value.owner.stage_count == 1


def _computation(op: Operation, same: dict[SSAValue, SSAValue]) -> Hashable:
    """What an operator computes of which buffers; equal where results are."""
    operands = [v.type if v in written_by(op) else same.get(v, v) for v in op.operands]
    return type(op), tuple(sorted(op.properties.items())), tuple(operands)


def share_after_loop(kernel: sched.KernelOp, hoisted: Sequence[Operation]) -> None:
    """Takes numbers that operators after the loop compute again from those before it.

    Only of buffers that nothing after the loop writes, but for those that it computes again.
    """
    known = {_computation(op, {}): op for op in hoisted}
    phases = phases_of_kernel(kernel)
    late = next((phase for phase in phases if isinstance(phase, sched.EpilogueOp)), None)
    if late is None or not known:
        return
    uses = Uses.of([op for op in kernel.walk() if op.parent_op() is not kernel])
    same: dict[SSAValue, SSAValue] = {}
    again: list[Operation] = []
    written_late = Uses.of(list(late.walk())).writers
    for op in late.body.block.ops:
        changed = any(v in written_late and v not in same for v in read_by(op))
        before = None if changed else known.get(_computation(op, same))
        if before is not None and all(len(uses.writers[v]) == 1 for v in written_by(op)):
            same |= zip(written_by(op), written_by(before), strict=True)
            again.append(op)
    for op in reversed(again):
        for value in written_by(op):
            if bytes_of(value.type) <= LINE_BYTES:  # larger ones would stay during the loop
                value.replace_uses_with_if(same[value], lambda use, op=op: use.operation is not op)
        if all(value.has_one_use() for value in written_by(op)):  # what nothing reads any more
            allocs = [value.owner for value in written_by(op)]
            Rewriter.erase_op(op)
            for alloc in allocs:
                assert isinstance(alloc, Operation)
                Rewriter.erase_op(alloc)


def hoist_invariant(kernel: sched.KernelOp) -> None:
    """Moves what every iteration computes alike to the end of the prologue."""
    found = invariant_operators(kernel)
    phases = phases_of_kernel(kernel)
    prologue = next((phase for phase in phases if isinstance(phase, sched.PrologueOp)), None)
    if prologue is not None:
        for op in found:
            op.detach()
            prologue.body.block.add_op(op)
        share_after_loop(kernel, found)
