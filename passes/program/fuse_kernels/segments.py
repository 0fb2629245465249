"""Parts of a program that are searched one after another, and which of them are alike.

What flows through a program passes *waists*, such as the residual stream between two layers: a
prefix that all else needs.  Every other prefix is shorter or longer than it, so that the program
has as many prefixes as its segments between waists have together, and not their product.

What stands beside that stream restricts no waist: what only prepares an operand is taken in the
segment of its first user, and what nothing of the stream uses in that of its last operand.  What
segments use that no kernel spans, such as a mask for all layers, is stored whatever kernel computes
it: it comes as early as what it needs allows, before the segments of its users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.passes.program.fuse_kernels.groups import (
    MOST_OPERATORS,
    Group,
    Program,
    Segment,
    Unit,
    bits,
    is_given,
)

Parts = Callable[[SSAValue], Sequence[Sequence[Hashable]]]
"""The parts into which views split each dimension of a tensor; tensors have some in common."""
Look = tuple[Hashable, ...]
"""What operators are alike in, wherever they stand."""


class _Order(NamedTuple):
    """What depends on what among units, as bits."""

    direct: Sequence[Group]
    before: Sequence[Group]
    """All units that each needs, those too that others of them need."""
    after: Sequence[Group]
    sizes: Sequence[int]
    """How many operators each unit has."""

    @classmethod
    def of(cls, program: Program) -> _Order:
        """The order of a program's units, each of which needs earlier ones only."""
        units = program.units
        owner = {number: place for place, unit in enumerate(units) for number in bits(unit.whole)}
        direct = [
            _group({owner[number] for number in bits(unit.needed) if number in owner})
            for unit in units
        ]
        before, after = list(direct), [0] * len(units)
        for place, needed in enumerate(direct):
            for other in bits(needed):
                before[place] |= before[other]
        for place in reversed(range(len(units))):
            for other in bits(direct[place]):
                after[other] |= after[place] | 1 << place
        return cls(direct, before, after, [program.size(unit.whole) for unit in units])

    def streams(self) -> Iterator[Group]:
        """What leads from each unit to the one that depends on most; the longest first."""
        places = range(len(self.direct))
        last = max(places, key=lambda place: (self.before[place].bit_count(), place))
        found = self.before[last] | 1 << last
        streams = [found & self.after[first] | 1 << first for first in bits(found)]
        yield from sorted(streams, key=int.bit_count, reverse=True)

    def narrowest(self) -> Group:
        """The stream with most waists.

        What all layers use that does not follow from what flows through them, such as an embedding
        of the time, is not part of it.
        """
        best, most = 0, 0
        for stream in self.streams():
            if stream.bit_count() <= most:
                break
            count = len(self.waists(stream))
            if count > most:
                best, most = stream, count
        return best

    def waists(self, stream: Group) -> list[Group]:
        """What of the stream has been computed at each waist, short ones first; all at the last."""
        prefixes = sorted(
            (self.before[place] & stream for place in bits(stream)), key=int.bit_count
        )
        found, common = [stream], stream
        for size in reversed(range(1, len(prefixes))):
            common &= prefixes[size]  # what all that are longer have
            if common.bit_count() == size:
                found.append(common)
        return found[::-1]

    def segments(self, stream: Group) -> tuple[list[int], bool]:
        """The number of each unit's segment, and whether all units are of the stream."""
        waists = self.waists(stream)
        numbers = [0] * len(self.direct)  # odd ones; what is shared gets an even one before them
        for number, (waist, shorter) in enumerate(zip(waists, [0, *waists], strict=False)):
            for place in bits(waist & ~shorter):
                numbers[place] = 2 * number + 1
        joined = self._joined(stream)
        for place, needed in enumerate(self.direct):
            if stream >> place & 1:
                continue
            users = {numbers[user] for user in bits(joined[place])}
            if users:
                alone = not self.before[place] & stream
                numbers[place] = min(users) - (alone and self._are_far(users, numbers))
            else:
                numbers[place] = max((numbers[other] for other in bits(needed)), default=1)
        by_waists = _counted(numbers)
        self._move_shared(numbers)
        found = _counted(numbers)
        return found, stream == (1 << len(numbers)) - 1 and found == by_waists

    def _joined(self, stream: Group) -> list[Group]:
        """Where what each unit beside the stream computes enters it."""
        joined = [0] * len(self.direct)
        for place in reversed(range(len(self.direct))):
            entered = 1 << place if stream >> place & 1 else joined[place]
            for other in bits(self.direct[place]):
                joined[other] |= entered
        return joined

    def _move_shared(self, numbers: list[int]) -> None:
        """Moves what far segments use to the first even number behind what it needs."""
        users = [set[int]() for _ in numbers]
        for place, needed in enumerate(self.direct):
            for other in bits(needed):
                users[other].add(numbers[place])
        far = [self._are_far(each, numbers) for each in users]
        for place, needed in enumerate(self.direct):
            ready = max((numbers[other] for other in bits(needed)), default=0)
            if far[place] and ready < numbers[place] - 1:
                numbers[place] = ready + ready % 2

    def _are_far(self, users: Collection[int], numbers: Sequence[int]) -> bool:
        """Whether no kernel has operators of all of some segments."""
        if len(users) < 2:
            return False
        between = zip(numbers, self.sizes, strict=True)
        sizes = [size for number, size in between if min(users) < number <= max(users)]
        return sum(sizes) > MOST_OPERATORS


def _counted(numbers: Sequence[int]) -> list[int]:
    """The same order by numbers from 0 on."""
    place = {number: count for count, number in enumerate(sorted({*numbers}))}
    return [place[number] for number in numbers]


def _group(places: set[int]) -> Group:
    return sum(1 << place for place in places)


def in_segments(operators: Sequence[Operation], *, apart: bool = False) -> Program:
    """A program in segments, each of whose operators stand together.

    No two are searched as one if they are to be ``apart``.

    In one segment where there are no waists, or where all can be searched together and segments
    would leave prefixes out.  Where a segment has too many prefixes, the stream that has most
    waists is taken if the largest one has less than half as many units then.
    """
    program = Program(operators, apart=apart)
    if not program.units:
        return program
    order = _Order.of(program)
    numbers, is_all = order.segments(next(order.streams()))
    if not is_all and program.has_few_prefixes():
        return program
    found = _divided(program, numbers, apart=apart)
    if not found.has_few_prefixes():
        others, _ = order.segments(order.narrowest())
        if 2 * _largest(others) < _largest(numbers):
            found, is_all = _divided(program, others, apart=apart), False
    found.is_exact = is_all
    return found


def _largest(numbers: Sequence[int]) -> int:
    """How many units the largest segment has."""
    return max(Counter(numbers).values())


def _divided(program: Program, numbers: Sequence[int], *, apart: bool) -> Program:
    """A program whose units have the segments of these numbers."""
    operators = program.operators
    place = dict.fromkeys(range(len(operators)), -1)
    for unit, number in zip(program.units, numbers, strict=True):
        place.update(dict.fromkeys(bits(unit.whole), number))
    in_order = [operators[number] for number in sorted(place, key=place.__getitem__)]
    ordered, segment_of = Program(in_order, apart=apart), sorted(place.values())
    units: list[list[Unit]] = [[] for _ in range(max(numbers) + 1)]
    for unit in ordered.units:
        for number in dict.fromkeys(segment_of[each] for each in bits(unit.whole)):
            if number >= 0:
                units[number].append(unit)
    segments: list[Segment] = []
    counts = Counter(segment_of)
    start = counts[-1]
    for number, own in enumerate(units):
        segments.append(Segment((1 << start) - 1, own))
        start += counts[number]
    ordered.segments = segments
    return ordered


def look_of(program: Program, start: int, end: int, parts: Parts) -> Look:
    """What decides how operators may share kernels, of those from one number to another.

    Equal for parts of a program that differ in their place and in names alone: what they compute,
    of what, who uses it, and which dimensions of tensors are one.
    """
    given: dict[SSAValue, int] = {}
    atoms: dict[Hashable, int] = {}
    place = {op: number for number, op in enumerate(program.operators[start:end])}

    def shape(value: SSAValue) -> Look:
        rows = (tuple(atoms.setdefault(each, len(atoms)) for each in row) for row in parts(value))
        return value.type, *rows

    def operand(value: SSAValue) -> Look:
        owner = value.owner
        if isinstance(owner, Operation) and owner in place:
            return place[owner], [result is value for result in owner.results].index(True)
        if value in given:
            return (given[value], None)
        given[value] = len(given)
        return given[value], is_given(value), *shape(value)

    def user(op: Operation) -> Hashable:
        """Of a later one what is asked before a kernel may leave it out."""
        if op in place:
            return place[op]
        operands = tuple(
            place[value.owner]
            if isinstance(value.owner, Operation) and value.owner in place
            else is_given(value)
            for value in op.operands
        )
        return op.name, *(result in program.users for result in op.results), operands

    def described(op: Operation) -> Look:
        results = tuple(
            (*shape(result), result in program.kept, *map(user, program.users_of(result)))
            for result in op.results
        )
        properties = tuple(op.properties.items())
        return op.name, properties, tuple(map(operand, op.operands)), results

    return tuple(map(described, program.operators[start:end]))
