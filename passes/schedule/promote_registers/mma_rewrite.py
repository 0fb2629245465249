"""Writes the operators of a chain on fragments of tensor-core products."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import Epilogue, ScalarFunction
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of, shape_of
from mugraph.passes.schedule.promote_registers.mma_analysis import (
    Chain,
    Uses,
    has_columns,
    operators_of,
)

IDENTITY = ScalarFunction("identity")


def fragment_type(value: SSAValue, arrangement: TiledMmaAttr) -> sched.TileType:
    """The fragment that holds a value, in fp32 or i32: of a product, or of its rows."""
    shape = shape_of(value.type)
    layout = rows_of(arrangement, len(shape)) if shape[-1] == 1 else arrangement
    computed = i32 if is_integer(element_type_of(value.type)) else f32
    return sched.TileType.of(shape, computed, layout)


def rows_of(arrangement: TiledMmaAttr, rank: int) -> sched.SliceAttr:
    """Who holds the numbers of rows of a product of so many dimensions."""
    return sched.SliceAttr.of(arrangement, rank - 1)


def retyped(chain: Chain, arrangement: TiledMmaAttr) -> Chain:
    """The chain once its fragments have the arrangement, which they get."""
    moved: dict[SSAValue, SSAValue] = {}
    for value in chain.values:
        if isinstance(value.owner, sched.EmptyOp):
            type_ = fragment_type(value, arrangement)
            moved[value] = Rewriter.replace_value_with_new_type(value, type_)
    return replace(chain, values=frozenset(moved.get(value, value) for value in chain.values))


def loaded_type(value: SSAValue, arrangement: TiledMmaAttr) -> sched.TileType:
    """The fragment that a value is loaded to: as it is stored, where two elements share a register.

    A residual of 128 values beside as many sums fits a thread's registers only so.
    """
    computed = fragment_type(value, arrangement)
    stored = element_type_of(value.type)
    if computed.tiled_mma is None or element_bytes_of(value.type) != 2:
        return computed
    return sched.TileType.of(shape_of(value.type), stored, arrangement)


@dataclass
class ChainWriter:
    """Replaces the operators of one chain, in the order of the text."""

    kernel: sched.KernelOp
    chain: Chain
    arrangement: TiledMmaAttr
    fragments: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    written: list[Operation] = field(default_factory=list[Operation])
    """What the operator at hand becomes."""

    def run(self) -> None:
        """Rewrites the kernel."""
        self.chain = retyped(self.chain, self.arrangement)
        operators = operators_of(self.kernel)
        self.uses = Uses.of(operators)
        self.position = {op: index for index, op in enumerate(operators)}
        self.phase = {op: op.parent_op() for op in operators}
        for op in operators:
            if op not in self.chain.operators:
                continue
            self.written = []
            self.write(op)
            Rewriter.insert_op(self.written, InsertPoint.before(op))
            Rewriter.erase_op(op)
        self.store_before_readers()
        for value in self.chain.removed:
            if isinstance(value.owner, Operation):
                Rewriter.erase_op(value.owner)

    # Where values live.

    def users(self, value: SSAValue) -> list[Operation]:
        """All operators that read or write a value, in the order of the text."""
        both = {*self.uses.writers.get(value, []), *self.uses.readers.get(value, [])}
        return sorted(both, key=lambda op: self.position[op])

    def is_local(self, value: SSAValue) -> bool:
        """Whether a value is used in one phase only, and does not outlive an iteration."""
        users = self.users(value)
        one_phase = len({self.phase[op] for op in users}) == 1
        return one_phase and users[0] not in self.uses.readers.get(value, [])

    def fragment(self, value: SSAValue) -> SSAValue:
        """The registers that hold a value; made where it is written first."""
        if isinstance(value.owner, sched.EmptyOp):
            return value
        known = self.fragments.get(value)
        if known is None:
            op = sched.EmptyOp(fragment_type(value, self.arrangement))
            op.result.name_hint = value.name_hint
            known = self.fragments[value] = op.result
            if self.is_local(value):
                self.written.append(op)
            else:
                block = sched.computing_block(self.kernel)
                if isinstance(value.owner, Operation) and value.owner.parent_block() is block:
                    block.insert_op_after(op, value.owner)
                elif block.first_op is not None:
                    block.insert_op_before(op, block.first_op)
        return known

    def operand(self, source: SSAValue, destination: SSAValue) -> SSAValue:
        """The registers that hold a source of an operator; loaded where it stays in memory."""
        if source not in self.chain.loaded:
            return self.fragment(source)
        shape = shape_of(source.type)
        type_ = loaded_type(source, self.arrangement)
        if math.prod(shape) == 1:
            rows = (*shape_of(destination.type)[:-1], 1)
            type_ = sched.TileType.of(rows, f32, rows_of(self.arrangement, len(rows)))
        if has_columns(source, destination):
            along = sched.SliceAttr.of(self.arrangement, len(shape) - 2)
            type_ = sched.TileType.of(shape, f32, along)
        held = sched.EmptyOp(type_)
        held.result.name_hint = source.name_hint
        self.written += [held, sched.LoadOp(source, held.result)]
        return held.result

    def takes_over(self, source: SSAValue, value: SSAValue, op: Operation) -> bool:
        """Whether a value can have the registers of a source, which nobody needs after ``op``."""
        if value in self.fragments or isinstance(value.owner, sched.EmptyOp):
            return False
        if source.type != fragment_type(value, self.arrangement) and source not in self.fragments:
            return False
        held = self.fragment(source)
        if held.type != fragment_type(value, self.arrangement):
            return False
        same_owner = [known for known, at in self.fragments.items() if at is held]
        others = {user for known in (source, *same_owner) for user in self.users(known)}
        if any(self.position[user] > self.position[op] for user in others):
            return False
        is_repeated = isinstance(op.parent_op(), sched.ForloopOp)
        if is_repeated and not all(self.is_local(known) for known in (source, *same_owner)):
            return False
        return self.is_local(value)

    def store_if_kept(self, value: SSAValue) -> None:
        """Writes a value to its buffer too, where others read it there in the same phase.

        What others read only in later phases is stored before the first of them, see ``run``.
        """
        if value in self.chain.kept and not self.is_read_later(value):
            self.written.append(sched.StoreOp(self.fragment(value), value, Epilogue()))

    def outside_readers(self, value: SSAValue) -> list[Operation]:
        """The operators that read a value in memory, in the order of the text."""
        return [
            op
            for op in self.uses.readers.get(value, [])
            if op not in self.chain.operators or (isinstance(op, sched.MmaOp) and op.rhs is value)
        ]

    def is_read_later(self, value: SSAValue) -> bool:
        """Whether all that read a value in memory stand in one phase after those that write it."""
        writers = self.uses.writers.get(value, [])
        readers = self.outside_readers(value)
        last = max(self.position[op] for op in writers)
        phases = {self.phase[op] for op in readers}
        return (
            len(phases) == 1
            and all(self.phase[op] not in phases for op in writers)
            and all(self.position[op] > last for op in readers)
        )

    def store_before_readers(self) -> None:
        """Stores what is read in memory only after the phases in which it is written."""
        for value, held in self.fragments.items():
            if value not in self.chain.kept or not self.is_read_later(value):
                continue
            store = sched.StoreOp(held, value, Epilogue())
            Rewriter.insert_op(store, InsertPoint.before(self.outside_readers(value)[0]))

    # The operators.

    @singledispatchmethod
    def write(self, op: Operation) -> None:
        """Writes one operator of the chain."""
        raise AssertionError(f"{op.name} is in no chain")

    @write.register
    def _(self, op: sched.FillOp) -> None:
        value = op.value.value.data
        self.written.append(sched.FillOp(self.fragment(op.destination), value))
        self.store_if_kept(op.destination)

    @write.register
    def _(self, op: sched.StoreOp) -> None:
        epilogue = epilogue_of(op)
        if isinstance(op.destination.owner, Block) or self._only_kept(op):
            self.written.append(sched.StoreOp(op.source, op.destination, epilogue))
            return
        if not epilogue.accumulates and self.takes_over(op.source, op.destination, op):
            self.fragments[op.destination] = op.source
            if epilogue:
                self.map(IDENTITY, [op.source], op.destination, epilogue)
        else:
            self.map(IDENTITY, [op.source], op.destination, epilogue)
        self.store_if_kept(op.destination)

    def _only_kept(self, op: sched.StoreOp) -> bool:
        """Whether a fragment is only stored: nothing computes on what is written."""
        value = op.destination
        return value in self.chain.kept and not any(
            user in self.chain.operators and user is not op for user in self.users(value)
        )

    @write.register
    def _(self, op: sched.MapOp) -> None:
        sources = [self.operand(source, op.destination) for source in op.sources]
        epilogue, destination = epilogue_of(op), op.destination
        if not epilogue.accumulates:
            for source in op.sources:
                if source not in self.chain.loaded and self.takes_over(source, destination, op):
                    self.fragments[destination] = self.fragment(source)
                    break
        self.map(op.function.data, sources, destination, epilogue)
        self.store_if_kept(destination)

    @write.register
    def _(self, op: sched.MaskOp) -> None:
        source = self.fragment(op.source)
        if self.takes_over(op.source, op.destination, op):
            self.fragments[op.destination] = source
        held, epilogue = self.fragment(op.destination), epilogue_of(op)
        mask = sched.MaskOp(source, held, op.constant, op.ragged, Epilogue(), forms=op.forms())
        self.written.append(mask)
        if epilogue:
            self.map(IDENTITY, [held], op.destination, epilogue)
        self.store_if_kept(op.destination)

    @write.register
    def _(self, op: sched.ReduceOp) -> None:
        difference = op.difference
        source = self.fragment(op.source)
        destination = self.fragment(op.destination)
        self.written.append(
            sched.ReduceOp(
                source,
                destination,
                op.reduced_dim,
                epilogue_of(op),
                op.combination,
                None if difference is None else self.fragment(difference),
            )
        )
        self.store_if_kept(op.destination)
        if difference is not None:
            self.store_if_kept(difference)

    @write.register
    def _(self, op: sched.MmaOp) -> None:
        type_ = sched.TileType.of(
            shape_of(op.lhs.type), element_type_of(op.lhs.type), self.arrangement
        )
        operand = sched.EmptyOp(type_)
        operand.result.name_hint = op.lhs.name_hint
        self.written += [
            operand,
            sched.MapOp(IDENTITY, [self.fragment(op.lhs)], operand.result),
            sched.MmaOp(operand.result, op.rhs, op.accumulator, (False, op.ldmatrix[1])),
        ]

    def map(
        self,
        function: ScalarFunction,
        sources: list[SSAValue],
        destination: SSAValue,
        epilogue: Epilogue,
    ) -> None:
        """An element-wise operator on fragments."""
        held = self.fragment(destination)
        self.written.append(sched.MapOp(function, sources, held, epilogue))


def rewrite_chain(kernel: sched.KernelOp, chain: Chain, arrangement: TiledMmaAttr) -> None:
    """Moves the values of a chain to registers, arranged as ``arrangement`` says.

    Barriers stay where they are.
    """
    ChainWriter(kernel, chain, arrangement).run()
