"""Writes a sum over devices in stages: parts for others, and a device's own with what it got."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xdsl.dialects.builtin import bf16, f16
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.reductions import COMBINING, Combiner
from mugraph.dialects.sharding import Part
from mugraph.dialects.tensor_types import element_type_of, layout_of, shape_of, strides_of
from mugraph.passes.program.overlap.cuts import Chain, are_ranges
from mugraph.passes.program.overlap.rewrite import insert, range_of, regrouped


class UnitRange(NamedTuple):
    """A range of a part, by the first of its units and how many these are."""

    start: int
    size: int

    def has(self, other: UnitRange) -> bool:
        """Whether another range lies in it."""
        return self.start <= other.start < self.start + self.size


class Ranges(NamedTuple):
    """In which ranges a device computes the part of a member, in units of a part's extent.

    Each range of its own part lies in one of the others' parts.
    """

    units: int
    others: tuple[UnitRange, ...]
    own: tuple[UnitRange, ...]


def _ranges(*counts: int) -> tuple[UnitRange, ...]:
    return tuple(UnitRange(sum(counts[:number]), count) for number, count in enumerate(counts))


WAYS = (
    Ranges(4, _ranges(2, 2), _ranges(2, 1, 1)),
    Ranges(8, _ranges(4, 4), _ranges(4, 2, 1, 1)),
    Ranges(2, _ranges(1, 1), _ranges(1, 1)),
)
"""Others' parts are in two ranges: one is copied while the next one is computed, and a device finds
it there when it comes to its own.  Its last range is small: nothing hides that one's copy."""


def ranges_of(op: kn.CollectiveOp, chain: Chain) -> list[Ranges]:
    """Ranges in which parts can be computed: each is a range of memory.

    A device's own part has other ranges than those of others where they are copied, too, and no
    others than those where not.
    """
    return [
        ranges
        for ranges in WAYS
        if (op.cut_dim is None) == (ranges.own != ranges.others)
        and all(
            are_ranges(value.type, along, op.devices * ranges.units)
            for value, along in chain.values
        )
    ]


def library_adds(op: kn.CollectiveOp, maker: Operation) -> bool:
    """Whether cuBLAS adds what a device got to what an operator makes of the sum's summand."""
    return (
        op.combination is Combiner.SUM
        and isinstance(maker, kn.MatmulOp)
        and set(maker.properties) <= {"operandSegmentSizes"}
        and len(shape_of(maker.result.type)) == 2
        and element_type_of(maker.lhs.type) in (f16, bf16)
        and len({element_type_of(v.type) for v in (*maker.operands, maker.result)}) == 1
        and all(layout_of(v.type) is None for v in (maker.lhs, maker.result))
        and ((layout := layout_of(maker.rhs.type)) is None or 1 in strides_of(layout))
    )


class _Stages:
    """Writes the operators of stages, which each device does in this order."""

    def __init__(self, op: kn.CollectiveOp, dim: int, chain: Chain, units: int) -> None:
        self._op = op
        self._dim = dim
        self._chain = chain
        self._units = units
        self._number = -1
        self._members: dict[tuple[SSAValue, int], SSAValue] = {}

    @property
    def part(self) -> Part:
        """The stage that is written."""
        return Part(self._number, ())

    def added(self, shift: int, taken: UnitRange, got: Mapping[UnitRange, SSAValue]) -> SSAValue:
        """A range of the part of the member so many places further: the next stage.

        It is added to what this device ``got`` of it.  What is for another member the device one
        place further copies, which adds to it in its turn: it is what this one gets.
        """
        self._number += 1
        addend = None
        for around, value in got.items():
            if around.has(taken):
                inner = UnitRange(taken.start - around.start, taken.size)
                addend = self._range(value, self._dim, inner, around.size)
        total = self._computed(shift, taken, addend)
        return total if shift == 0 else self._from_behind(total)

    def _computed(self, shift: int, taken: UnitRange, addend: SSAValue | None) -> SSAValue:
        made: dict[SSAValue, SSAValue] = {}
        for each, cut in self._chain.cuts.items():
            operands: list[SSAValue] = []
            for value, dim in zip(each.operands, cut.operands, strict=True):
                if dim is not None and value not in made:
                    whole = self._of_member(value, dim, shift)
                    made[value] = self._range(whole, dim, taken, self._units)
                # One operator may take all of what another one, or it itself, takes a range of.
                whole = regrouped(value, self._op, self.part) if dim is None else made[value]
                operands.append(whole)
            is_last = each.results[0] == self._op.input
            if addend is not None and is_last and library_adds(self._op, each):
                lhs, rhs = operands
                new = kn.MatmulAddOp(lhs, rhs, addend)
                addend = None
            else:
                results = zip(each.results, cut.results, strict=True)
                new = type(each).create(
                    operands=operands,
                    result_types=[self._type(result.type, dim, taken) for result, dim in results],
                    properties=each.properties.copy(),
                    attributes=each.attributes.copy(),
                )
            insert([new], self._op, [self.part])
            for old, result in zip(each.results, new.results, strict=True):
                result.name_hint = old.name_hint
                made[old] = result
        total = made[self._op.input]
        return total if addend is None else self._combined(total, addend)

    def _range(self, value: SSAValue, dim: int, taken: UnitRange, units: int) -> SSAValue:
        """A range of a tensor of so many units."""
        if taken.size == units:
            return value
        extent = shape_of(value.type)[dim] // units
        start = [extent * taken.start * (d == dim) for d in range(len(shape_of(value.type)))]
        piece = kn.SliceOp(value, start, range_of(value.type, dim, extent * taken.size))
        insert([piece], self._op, [self.part])
        return piece.result

    def _type(self, type_: Attribute, dim: int | None, taken: UnitRange) -> Attribute:
        units = self._op.devices * self._units
        extent = 0 if dim is None else shape_of(type_)[dim] // units * taken.size
        return range_of(type_, dim, extent)

    def _of_member(self, value: SSAValue, dim: int, shift: int) -> SSAValue:
        if (value, shift) not in self._members:
            op = self._op
            type_ = range_of(value.type, dim, shape_of(value.type)[dim] // op.devices)
            part = kn.AllSliceOp(value, op.grid_axes, dim, type_, shift)
            insert([part], op)
            self._members[value, shift] = part.result
        return self._members[value, shift]

    def _from_behind(self, value: SSAValue) -> SSAValue:
        """A copy of what the member one place before has of a value."""
        peer = kn.PeerOp(value, self._op.grid_axes, None, shift=self._op.devices - 1)
        copy = kn.CopyOp(peer.result, value.type)
        insert([peer], self._op)
        insert([copy], self._op, [self.part])
        return copy.result

    def _combined(self, one: SSAValue, other: SSAValue) -> SSAValue:
        """Their sum, or the larger elements, in the stage that is written."""
        assert self._op.combination is not None
        made = kn.BINARY_OPERATORS[COMBINING[self._op.combination]](one, other, one.type)
        insert([made], self._op, [self.part])
        return made.results[0]


def add_up(op: kn.CollectiveOp, dim: int, chain: Chain, ranges: Ranges) -> None:
    """Lets a device compute parts one after the other, its own at last, each added to what it got.

    The part of a member goes around: the device one place behind it begins, and each adds its own
    to what it got of the one before.  A range of it is copied as soon as it is there, and so are
    those of a device's sum where all need it.
    """
    stages = _Stages(op, dim, chain, ranges.units)
    got: dict[UnitRange, SSAValue] = {}
    for member in reversed(range(1, op.devices)):
        got = {taken: stages.added(member, taken, got) for taken in ranges.others}
    sums: list[SSAValue] = []
    gathered: list[list[SSAValue]] = [[] for _ in range(op.devices)]
    for taken in ranges.own:
        total = stages.added(0, taken, got)
        sums.append(total)
        if op.cut_dim is None:
            for place, copy in enumerate(_copies(op, total)):
                gathered[place].append(copy)
    pieces = sums if op.cut_dim is not None else [each for of in gathered for each in of]
    whole = pieces[0]
    if len(pieces) > 1:
        joined = kn.ConcatOp(pieces, dim, op.result.type)
        joined.result.name_hint = op.result.name_hint
        insert([joined], op)
        whole = joined.result
    Rewriter.replace_op(op, [], [whole])
    for each in reversed(chain.cuts):
        Rewriter.erase_op(each)


def _copies(op: kn.CollectiveOp, value: SSAValue) -> list[SSAValue]:
    """What each member of the group has of a value, copied here."""
    places = range(op.devices)
    peers = [kn.PeerOp(value, op.grid_axes, place) for place in places]
    copies: list[Operation] = [kn.CopyOp(peer.result, value.type) for peer in peers]
    insert(peers, op)
    insert(copies, op, [Part(place, op.grid_axes) for place in places])
    return [copy.results[0] for copy in copies]
