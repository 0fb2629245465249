"""Registers that are loaded from shared memory one part of a step before they are used.

The step that uses the buffers of an iteration often is a loop over parts of them: instructions load
registers from shared memory, and others compute with them.  The loads of a part then stand before
the computation of the part before, those of the first part in the iteration before, so that threads
that have met at a barrier have something to compute at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.rewriter import InsertPoint

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te.mapped import OF_EACH_THREAD
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.te_map.steps import apply, under
from mugraph.passes.texpr.te_prefetch.stages import read_stage

_TURNS = 2
"""The fragments that are in registers: those computed with, and those loaded."""


@dataclass(frozen=True)
class Fragments:
    """A step that computes with the buffers of an iteration part by part."""

    step: te.StepOp
    parts: te.SeqOp
    registers: tuple[te.NewOp, ...]
    """What each part loads."""
    loads: tuple[Operation, ...]
    rest: tuple[Operation, ...]


def find_fragments(
    step: te.StepOp, loop: te.SeqOp, copied: Collection[SSAValue]
) -> Fragments | None:
    """The parts of a step that is the only one in a loop to use its buffers.

    Indices of the thread, then a loop of an even number of parts; each first loads registers of its
    own from shared memory, and does the rest without what it loads from, and without ``copied``.
    """
    body = list(step.body.block.ops)
    parts = body[-1] if body else None
    if not isinstance(parts, te.SeqOp) or parts.iterations % _TURNS:
        return None
    for op in body[:-1]:
        if not isinstance(op, (te.ApplyOp, te.IterationOp)):
            return None
        if loop.variable in variables_of(list(op.operands)):
            return None
    inner = list(parts.body.block.ops)
    registers = [op for op in inner if isinstance(op, te.NewOp)]
    if not registers or inner[: len(registers)] != registers:
        return None
    if any(new.result.type.memory_space is not te.Space.REGISTER for new in registers):
        return None
    own: set[SSAValue] = {new.result for new in registers}
    inner = inner[len(registers) :]
    count = 0
    while count < len(inner) and _only_loads(inner[count], own):
        count += 1
    loads, rest = inner[:count], inner[count:]
    read = {touch.buffer for op in loads for touch in te.touches_in(op)} - own | {*copied}
    if not loads or any(touch.buffer in read for op in rest for touch in te.touches_in(op)):
        return None
    if any(not isinstance(use, (te.AccessOp, te.SectionOp)) for new in own for use in _users(new)):
        return None
    return Fragments(step, parts, tuple(registers), tuple(loads), tuple(rest))


def _users(value: SSAValue) -> Iterator[Operation]:
    return (use.operation for use in value.uses)


def _only_loads(op: Operation, registers: set[SSAValue]) -> bool:
    """Whether an operator only reads shared memory and writes some registers."""
    allowed = (te.SeqOp, te.IfOp, te.ApplyOp, te.SectionOp, te.AsmOp, te.AccessOp)
    if any(not isinstance(one, allowed) for one in op.walk()):
        return False
    touches = list(te.touches_in(op))
    writes = {touch.buffer for touch in touches if touch.writes}
    reads = {touch.buffer for touch in touches if not touch.writes}
    from_shared = any(touch.type.memory_space is te.Space.SHARED for touch in touches)
    return from_shared and writes <= registers and not reads & registers


class FragmentWriter:
    """Writes the steps of a loop whose registers are loaded one part early."""

    def __init__(self, found: Fragments, loop: te.SeqOp) -> None:
        self.found = found
        self.loop = loop
        self.turns: dict[SSAValue, SSAValue] = {}
        for new in found.registers:
            type_ = new.result.type
            shape = (_TURNS, *type_.get_shape())
            made = te.NewOp(te.BufferType.of(shape, type_.element_type, None, te.Space.REGISTER))
            made.attributes[OF_EACH_THREAD] = UnitAttr()
            made.result.name_hint = new.result.name_hint
            Rewriter.insert_op(made, InsertPoint.before(loop))
            self.turns[new.result] = made.result

    def first(self) -> te.StepOp:
        """The loads of the first part of the first iteration."""
        step, block, values = self._step()
        zero = _part(0)
        block.add_ops([zero])
        self._add(block, self.found.loads, values | {self.loop.variable: zero.result}, zero.result)
        return step

    def all_but_last(self) -> te.StepOp:
        """The parts of an iteration but the last, each behind the loads of the part after it."""
        step, block, values = self._step()
        parts = self.found.parts
        inner = Block(arg_types=[IndexType()])
        part = inner.args[0]
        part.name_hint = parts.variable.name_hint
        block.add_op(te.SeqOp(parts.iterations - 1, inner))
        following = _next(part)
        inner.add_op(following)
        self._add(inner, self.found.loads, values, following.result)
        self._add(inner, self.found.rest, values, part)
        return step

    def last(self) -> te.StepOp:
        """The last part of an iteration, behind the loads of the first one of the next."""
        step, block, values = self._step()
        loop = self.loop
        limit = AffineExpr.dimension(0) * -1 + (loop.iterations - 2)
        ahead = under(block, [loop.variable], [limit])
        following, zero = _next(loop.variable), _part(0)
        ahead.add_ops([following, zero])
        moved = values | {loop.variable: following.result}
        self._add(ahead, self.found.loads, moved, zero.result)
        final = _part(self.found.parts.iterations - 1)
        block.add_op(final)
        self._add(block, self.found.rest, values, final.result)
        return step

    def _step(self) -> tuple[te.StepOp, Block, dict[SSAValue, SSAValue]]:
        """A step with the indices of the thread."""
        found = self.found
        values: dict[SSAValue, SSAValue] = {}
        block = Block(
            [op.clone(values) for op in found.step.body.block.ops if op is not found.parts]
        )
        return te.StepOp(found.step.title.data, block), block, values

    def _add(
        self,
        block: Block,
        ops: Sequence[Operation],
        values: dict[SSAValue, SSAValue],
        part: SSAValue,
    ) -> None:
        """Adds copies of operators for a part; its registers are those of its turn."""
        values = values | {self.found.parts.variable: part}
        held: list[te.NewOp] = []
        for new in self.found.registers:
            held.append(new.clone(values))
            block.add_op(held[-1])
        block.add_ops([op.clone(values) for op in ops])
        for new, copy in zip(self.found.registers, held, strict=True):
            read_stage(copy.result, self.turns[new.result], part, _TURNS)
            Rewriter.erase_op(copy)


def _part(number: int) -> te.ApplyOp:
    return apply(AffineExpr.constant(number), [], "part")


def _next(variable: SSAValue) -> te.ApplyOp:
    name = f"{variable.name_hint or 'i'}_next"
    return apply(AffineExpr.dimension(0) + 1, [variable], name)
