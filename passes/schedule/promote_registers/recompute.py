"""What threads compute of rows that they hold is computed again where it is read again.

An exponential, or a distance from a mean, is reduced as it is made.  Kept for what reads it behind
the reduction, it takes twice the registers of the 16-bit numbers that it is computed of.  Computed
anew of these it takes none: longer rows fit a block, and more blocks a multiprocessor.  Of a block
that has a multiprocessor alone the threads keep exponentials, where registers suffice.

Exponentials of 16-bit numbers less one of their row are taken as powers of two by the instruction
for these, whose error is far below that of the numbers: three instructions in place of nine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr, ScalarFunction
from mugraph.dialects.locations import inherit_location
from mugraph.dialects.programming_model import REGISTER_BYTES
from mugraph.dialects.sched.types import TileType
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import element_bytes_of, shape_of
from mugraph.passes.schedule.analysis.registers import runs_straight
from mugraph.passes.schedule.promote_registers.mma_peephole import with_powers_of_two
from mugraph.passes.schedule.promote_registers.uses import Uses, uses_of

Order = dict[Operation, int]
"""The operators of a kernel, in the order of the text."""


class Recomputed(NamedTuple):
    """A fragment that an operator computes, and who reads it behind a reduction."""

    fragment: sched.EmptyOp
    made_by: sched.MapOp
    late: tuple[Operation, ...]


class Renewed(NamedTuple):
    """A fragment that is read before and behind a reduction: what it gives, and who reads then."""

    fragment: SSAValue
    rows: SSAValue
    reader: Operation


def recompute(kernel: sched.KernelOp, *, exponentials: bool = True) -> None:
    """Computes again, behind a reduction, what is read both before and behind it.

    With ``exponentials`` false those are kept.  Operators name tiles by their registers.
    """
    if not runs_straight(kernel):
        return
    taken = find_exponentials(kernel)
    for op in taken:
        op.epilogue = EpilogueAttr(Epilogue(with_powers_of_two(epilogue_of(op).functions)))
    for fragment, made_by, late in find_recomputed(kernel):
        if made_by in taken and not exponentials:
            continue
        own, again = fragment.clone(), made_by.clone()
        own.result.name_hint = fragment.result.name_hint
        again.operands[len(again.operands) - 1] = own.result
        _insert_before(late[0], made_by, own, again)
        for reader in late:
            for index, operand in enumerate(reader.operands):
                if operand is fragment.result:
                    reader.operands[index] = own.result
    for fragment, rows, reader in tuple(find_renewed(kernel)):
        _insert_before(reader, reader, sched.RenewOp(fragment, rows))


def _insert_before(place: Operation, like: Operation, *added: Operation) -> None:
    assert place.parent is not None
    for op in added:
        inherit_location(op, like)
        place.parent.insert_op_before(op, place)


def find_exponentials(kernel: sched.KernelOp) -> list[sched.MapOp]:
    """The operators that take the exponential of a difference from narrow numbers that are held."""
    return [
        op
        for op in kernel.body.walk()
        if isinstance(op, sched.MapOp)
        and op.function.data.name == "sub"
        and epilogue_of(op).functions[:1] == (ScalarFunction("exp"),)
        and not epilogue_of(op).accumulates
        and isinstance(op.sources[0].type, TileType)
        and element_bytes_of(op.sources[0].type) < REGISTER_BYTES
    ]


def find_recomputed(kernel: sched.KernelOp) -> list[Recomputed]:
    """The fragments of a kernel that need not be kept."""
    uses, order = uses_of(kernel), _order_of(kernel)
    reductions = _reductions(order)
    return [
        found
        for value in uses
        if isinstance(value.owner, sched.EmptyOp)
        and (found := _recomputed(value.owner, uses, order, reductions)) is not None
    ]


def _recomputed(
    fragment: sched.EmptyOp, uses: Uses, order: Order, reductions: list[sched.ReduceOp]
) -> Recomputed | None:
    own, shape = uses[fragment.result], shape_of(fragment.result.type)
    writers = [use.operation for use in own if use.writes]
    readers = [use.operation for use in own if not use.writes]
    if len(writers) != 1 or not isinstance(maker := writers[0], sched.MapOp):
        return None
    sources = [value for value in maker.sources if shape_of(value.type) == shape]
    if epilogue_of(maker).accumulates or not all(map(_is_in_pairs, sources)):
        return None
    size = element_bytes_of(fragment.result.type)
    if sum(element_bytes_of(value.type) for value in sources) >= size:
        return None
    reduced = next((order[op] for op in reductions if order[op] > order[maker]), len(order))
    late = tuple(op for op in readers if order[op] > reduced)
    if not late or len(late) == len(readers):
        return None
    last = max(order[op] for op in late)
    changes = any(
        use.writes and order[maker] < order[use.operation] < last
        for source in maker.sources
        for use in uses[source]
    )
    return None if changes else Recomputed(fragment, maker, late)


def find_renewed(kernel: sched.KernelOp) -> Iterator[Renewed]:
    """The fragments of narrow numbers of which nothing should be remembered behind a reduction.

    A compiler of CUDA would keep them in fp32, too.
    """
    uses, order = uses_of(kernel), _order_of(kernel)
    reductions = _reductions(order)
    for value, own in uses.items():
        if not _is_in_pairs(value):
            continue
        readers = [use.operation for use in own if not use.writes]
        for before, after in itertools.pairwise(readers):
            between = [op for op in reductions if order[before] < order[op] < order[after]]
            if between:
                yield Renewed(value, between[-1].destination, after)


def _is_in_pairs(value: SSAValue) -> bool:
    """Whether threads hold vectors of narrow numbers, two or more in a register."""
    partition = value.type.partition if isinstance(value.type, TileType) else None
    narrow = element_bytes_of(value.type) < REGISTER_BYTES
    return partition is not None and partition.vector > 1 and narrow


def _order_of(kernel: sched.KernelOp) -> Order:
    return {op: place for place, op in enumerate(kernel.body.walk())}


def _reductions(order: Order) -> list[sched.ReduceOp]:
    """The reductions whose rows threads hold."""
    return [
        op
        for op in order
        if isinstance(op, sched.ReduceOp) and isinstance(op.destination.type, TileType)
    ]
