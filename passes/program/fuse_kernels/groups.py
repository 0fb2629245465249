"""Which operators of a program share a kernel: the partition of least estimated time.

A partition of a program into kernels, in an order in which they can run, is a way through its
*prefixes*: sets of operators with all that they depend on.  A step from one prefix to a longer one
is a kernel.  The way of least time is found by dynamic programming.  What a step takes is first
bounded from below, by its launch and by the bytes that it moves; a kernel is built and estimated
only where it lies on the best way so far.  When nothing on the best way is a bound, it is the best.

Views are free: a prefix has all views of what it computes.  In a kernel are those only that stand
between its operators.

A program with too many prefixes is searched a window at a time: the first half of the best way
through it stays, and the next window begins where that ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.kn import ElementwiseOp, MovesElements, ReductionOp, RegroupOp, ViewOp
from mugraph.dialects.tensor_types import element_bytes_of, shape_of
from mugraph.passes.program.fuse_kernels.regroup import is_view
from mugraph.passes.program.fuse_kernels.sums import can_share

MOST_PREFIXES = 600
"""Prefixes that are looked at in one search."""
MOST_OPERATORS = 26
"""Operators of one kernel; views do not count."""
WINDOW = 40
"""Operators of a window of a program with more prefixes: some that fill two kernels."""

Group = int
"""A set of operators, as bits."""
Structure = tuple[Hashable, ...]
"""What groups that are computed alike have in common."""


class Program:
    """The operators of a function that may share kernels, in order, and what depends on what."""

    def __init__(self, operators: Sequence[Operation]) -> None:
        self.operators = operators
        self.is_exact = True
        """Whether all prefixes have been looked at."""
        place = {op: number for number, op in enumerate(operators)}
        self.users: dict[SSAValue, Group] = {}
        """What uses a tensor."""
        self.kept: set[SSAValue] = set()
        """Results that others than these operators use, or nothing."""
        for number, op in enumerate(operators):
            for value in op.operands:
                self.users[value] = self.users.get(value, 0) | 1 << number
            for result in op.results:
                if any(use.operation not in place for use in result.uses) or not result.uses:
                    self.kept.add(result)
        self.needed: list[Group] = []
        """What each operator uses directly."""
        self.tied: list[Group] = []
        """What has an operand in common with each operator, or uses it, or is used by it."""
        for op in operators:
            owners = {value.owner for value in op.operands}
            needed = sum(
                1 << place[owner]
                for owner in owners
                if isinstance(owner, Operation) and owner in place
            )
            self.needed.append(needed)
            for value in (*op.operands, *op.results):
                needed |= self.users.get(value, 0)
            self.tied.append(needed)
        self.views: Group = sum(1 << place[op] for op in operators if is_view(op))
        self.views_of: list[Group] = [0] * len(operators)
        """The views of what each operator computes, and views of them."""
        for number in reversed(range(len(operators))):
            for view in bits(self.views & ~((1 << number + 1) - 1)):
                if self.needed[view] == 1 << number:
                    self.views_of[number] |= 1 << view | self.views_of[view]
        self.units = self._units()

    def _units(self) -> list[tuple[Group, Group]]:
        """Operators that a search takes together, with their views, and what those need before.

        An element-wise operator is in one unit with the operator that alone computes its operand,
        where a cut between the two could gain nothing: that one's result is no smaller, and a
        kernel that has both loads nothing that is not there already.
        """
        unit_of = [1 << number for number in range(len(self.operators))]
        for number, op in enumerate(self.operators):
            before = self._joined(op)
            if before is not None:
                joined = unit_of[number] | unit_of[self.operators.index(before)]
                for member in bits(joined):
                    unit_of[member] = joined
        units: list[tuple[Group, Group]] = []
        for unit in dict.fromkeys(unit_of):
            members = list(bits(unit))
            whole = unit | sum({self.views_of[member] for member in members})
            needed = 0
            for member in members:
                needed |= self.needed[member]
            units.append((whole, needed & ~unit))
        return units

    def _joined(self, op: Operation) -> Operation | None:
        """The operator before an element-wise one from which nothing is gained by a cut."""
        if not isinstance(op, ElementwiseOp):
            return None
        others = [value for value in op.operands if not _is_given(value)]
        if len(others) != 1 or not others[0].has_one_use():
            return None
        (value,) = others
        source = value.owner
        if value in self.kept or not isinstance(source, (ElementwiseOp, ReductionOp)):
            return None
        if not (can_share(op) and can_share(source)):
            return None
        same = shape_of(value.type) == shape_of(op.result.type)
        sizes = [element_bytes_of(each.type) for each in (value, op.result)]
        return source if same and sizes[1] <= sizes[0] else None

    def is_between(self, op: Operation, group: Group) -> bool:
        """Whether an operator is a view of what a group computes, for others of the group."""
        made = {result for each in self.members(group) for result in each.results}
        return (
            is_view(op)
            and made.issuperset(op.operands)
            and any(self.users.get(result, 0) & group for result in op.results)
        )

    def size(self, group: Group) -> int:
        """How many operators a group has; views do not count."""
        return (group & ~self.views).bit_count()

    def users_of(self, value: SSAValue) -> list[Operation]:
        """The operators that use a tensor."""
        return self.members(self.users.get(value, 0))

    def could_follow(self, op: Operation, group: Group) -> bool:
        """Whether an element-wise operator is left out that uses what a group makes, or is given.

        Or one that moves elements, or a view that others use.
        """
        if op in self.members(group):
            return False
        if isinstance(op, (RegroupOp, ViewOp)):
            return bool(self.users.get(op.result))
        made = {result for each in self.members(group) for result in each.results}
        return isinstance(op, (ElementwiseOp, MovesElements)) and all(
            value in made or _is_given(value) for value in op.operands
        )

    def stored(self, group: Group) -> list[SSAValue]:
        """The results of a group's operators that others use."""
        return [
            result
            for op in self.members(group)
            for result in op.results
            if result in self.kept or self.users[result] & ~group
        ]

    def loaded(self, group: Group) -> list[SSAValue]:
        """What operators of a group use of others."""
        members = self.members(group)
        inside = {result for op in members for result in op.results}
        return [value for op in members for value in op.operands if value not in inside]

    def structure(self, group: Group) -> tuple[Structure, list[SSAValue]]:
        """What a group computes, whatever its values are called, and what it uses of others."""
        loaded = list(dict.fromkeys(self.loaded(group)))
        stored = {*self.stored(group)}
        names: dict[SSAValue, int] = {value: -1 - number for number, value in enumerate(loaded)}
        described: list[Hashable] = [value.type for value in loaded]
        for op in self.members(group):
            names |= {result: len(names) for result in op.results}
            described.append(
                (
                    op.name,
                    tuple(op.properties.items()),
                    tuple(names[value] for value in op.operands),
                    tuple((result.type, result in stored) for result in op.results),
                )
            )
        return tuple(described), loaded

    def members(self, group: Group) -> list[Operation]:
        """The operators of a group."""
        return [self.operators[number] for number in bits(group)]

    def is_connected(self, group: Group) -> bool:
        """Whether operators of a group are tied to one another, all of them together."""
        reached = group & -group
        while True:
            grown = reached
            for number in bits(reached):
                grown |= self.tied[number] & group
            if grown == reached:
                return reached == group
            reached = grown

    def is_convex(self, group: Group) -> bool:
        """Whether nothing outside of a group lies on a way from one of its operators to another."""
        after = 0
        for number, needed in enumerate(self.needed):
            if group >> number & 1:
                if needed & after:
                    return False
            elif needed & (group | after):
                after |= 1 << number
        return True

    def first_prefix(self) -> Group:
        """The views of arguments."""
        views = [number for number in bits(self.views) if not self.needed[number]]
        return sum(1 << number | self.views_of[number] for number in views)

    def without_loose_views(self, group: Group) -> Group:
        """A group but for views that none of its other operators uses."""
        for number in reversed(list(bits(group & self.views))):
            users = sum({self.users.get(result, 0) for result in self.operators[number].results})
            if not users & group:
                group ^= 1 << number
        return group

    def prefixes(self, start: Group, length: int, room: int) -> list[Group] | None:
        """Prefixes that have so many operators more than one of them, short ones first.

        Views do not count.  Of many of one length, ``room`` that are nearest to the program's
        order.  ``None`` where there are more than :data:`MOST_PREFIXES`.
        """
        found: list[Group] = []
        layer: set[Group] = {start}
        for _ in range(length + 1):
            found += sorted(layer)
            if not layer:
                break
            if len(found) > MOST_PREFIXES:
                return None
            longer = {
                prefix | unit
                for prefix in layer
                for unit, needed in self.units
                if unit & ~prefix and needed & ~prefix == 0
            }
            layer = set(sorted(longer)[:room])
        return found


def _is_given(value: SSAValue) -> bool:
    """Whether a tensor is an argument of the function, or a view of one."""
    op = value.owner
    if isinstance(op, (RegroupOp, ViewOp)):
        return _is_given(op.input)
    return not isinstance(op, Operation)


def bits(group: Group) -> Iterator[int]:
    """The numbers of the operators of a group."""
    while group:
        lowest = group & -group
        yield lowest.bit_length() - 1
        group ^= lowest


class Step(NamedTuple):
    """A way from one prefix to a longer one."""

    before: Group
    group: Group
    """What a kernel computes."""
    views: Group
    """Views of that which others use."""


def _first_half(way: Sequence[Step]) -> list[Step]:
    """The steps, at least one, that have no more than half of the operators of a window."""
    counts = list(accumulate(step.group.bit_count() for step in way))
    return [
        step
        for place, (step, count) in enumerate(zip(way, counts, strict=True))
        if place == 0 or count <= WINDOW // 2
    ]


@dataclass
class Search:
    """The search for the partition of least time.

    ``bound`` is what a group adds to a program's time at least, infinite where it cannot be a
    kernel; ``sharper_bound`` another one, for those that may be on the best way; ``cost`` is what
    it adds, infinite where it turns out not to be one.  ``impossible`` are groups that no kernel
    has among others; it grows while bounds are asked for.
    """

    program: Program
    bound: Callable[[Group], float]
    sharper_bound: Callable[[Group], float]
    cost: Callable[[Group], float]
    impossible: Sequence[Group] = ()
    known: dict[Group, float] = field(default_factory=dict[Group, float])
    """The costs that were asked for."""
    bounds: dict[Group, float] = field(default_factory=dict[Group, float])
    sharpened: set[Group] = field(default_factory=set[Group])

    def run(self) -> list[Group]:
        """The groups, in an order in which they can run."""
        done = self.program.first_prefix()
        groups = [1 << view for view in bits(done)]
        whole = (1 << len(self.program.operators)) - 1
        while done != whole:
            steps = self._steps(self._window(done))
            way = self._refined(steps)
            if next(reversed(steps)) != whole:
                way = _first_half(way)
            for step in way:
                groups += [step.group, *(1 << view for view in bits(step.views))]
                done |= step.group | step.views
        for group in groups:
            self.cost(group)
        return groups

    def _window(self, done: Group) -> list[Group]:
        """The prefixes beyond one that are searched next: all, or those of a window."""
        count = len(self.program.operators)
        every = self.program.prefixes(done, count, MOST_PREFIXES)
        if every is not None:
            return every
        self.program.is_exact = False
        window = self.program.prefixes(done, WINDOW, MOST_PREFIXES // (WINDOW + 1))
        assert window is not None, "a window has few prefixes"
        return window

    def _refined(self, steps: Mapping[Group, Sequence[Step]]) -> list[Step]:
        """The way of least time, all of whose costs are known."""
        while True:
            way = self._best_way(steps)
            open_ = [step.group for step in way if step.group not in self.known]
            if not open_:
                return way
            bounded = [group for group in open_ if group not in self.sharpened]
            count = len(self.impossible)
            for group in bounded:
                self.bounds[group] = max(self.bounds[group], self.sharper_bound(group))
            self.sharpened.update(bounded)
            self._rule_out(self.impossible[count:])
            if not bounded:
                self.known.update((group, self.cost(group)) for group in open_)

    def _steps(self, prefixes: Sequence[Group]) -> dict[Group, list[Step]]:
        """For each prefix the ways to it."""
        steps: dict[Group, list[Step]] = {}
        for place, prefix in enumerate(prefixes):
            steps[prefix] = []
            for before in prefixes[:place]:
                if before & ~prefix:
                    continue
                group = self.program.without_loose_views(prefix & ~before)
                if self._bound(group) < math.inf:
                    steps[prefix].append(Step(before, group, prefix & ~before & ~group))
        return steps

    def _bound(self, group: Group) -> float:
        """What a group takes at least, asked for once."""
        if group not in self.bounds:
            few = self.program.size(group) <= MOST_OPERATORS
            possible = few and self.program.is_connected(group)
            possible = possible and all(part & ~group for part in self.impossible)
            self.bounds[group] = self.bound(group) if possible else math.inf
        return self.bounds[group]

    def _rule_out(self, impossible: Sequence[Group]) -> None:
        """No group is a kernel that has one of these."""
        for part in impossible:
            for group in self.bounds:
                if not part & ~group:
                    self.bounds[group] = math.inf

    def _best_way(self, steps: Mapping[Group, Sequence[Step]]) -> list[Step]:
        """The way of least time to a longest prefix, as far as it is known."""
        start = next(iter(steps))
        least: dict[Group, float] = {start: 0.0}
        last: dict[Group, Step] = {}
        for prefix, ways in steps.items():
            for step in ways:
                group = step.group
                time = least.get(step.before, math.inf) + self.known.get(group, self.bounds[group])
                if time < least.get(prefix, math.inf):
                    least[prefix], last[prefix] = time, step
        longest = max(map(self.program.size, steps))
        ends = (prefix for prefix in least if self.program.size(prefix) == longest)
        way: list[Step] = []
        prefix = min(ends, key=least.__getitem__)
        while prefix != start:
            way.append(last[prefix])
            prefix = last[prefix].before
        return way[::-1]


__all__ = ["Group", "Program", "Search", "bits"]
