"""Which operators of a program share a kernel: the partition of least estimated time.

A partition of a program into kernels, in an order in which they can run, is a way through its
*prefixes*: sets of operators with all that they depend on.  A step from one prefix to a longer one
is a kernel.  The way of least time is found by dynamic programming.  What a step takes is first
bounded from below, by its launch and by the bytes that it moves; a kernel is built and estimated
only where it lies on the best way so far.  When nothing on the best way is a bound, it is the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.kn import ElementwiseOp, MovesElements, RegroupOp, ViewOp
from mugraph.passes.program.fuse_kernels.regroup import is_view

MOST_PREFIXES = 600
"""Prefixes of a program that are looked at; of longer programs only those nearest to its order."""
MOST_OPERATORS = 26
"""Operators of one kernel; views do not count."""

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
        self.views = sum(1 << n for op, n in place.items() if isinstance(op, (RegroupOp, ViewOp)))
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

    def prefixes(self) -> list[Group]:
        """The prefixes, short ones first; of a long program not all."""
        self.is_exact = True
        found: list[Group] = []
        layer: set[Group] = {0}
        while layer:
            found += sorted(layer)
            longer = {
                prefix | 1 << number
                for prefix in layer
                for number, needed in enumerate(self.needed)
                if not prefix >> number & 1 and needed & ~prefix == 0
            }
            room = max(MOST_PREFIXES // max(len(self.operators), 1), 1)
            # Of many, those in which the first operators are.
            layer = set(sorted(longer)[:room])
            self.is_exact = self.is_exact and len(layer) == len(longer)
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


@dataclass
class Search:
    """The search for the partition of least time.

    ``bound`` is what a group adds to a program's time at least, infinite where it cannot be a
    kernel; ``cost`` is what it adds, infinite where it turns out not to be one.
    """

    program: Program
    bound: Callable[[Group], float]
    cost: Callable[[Group], float]
    known: dict[Group, float] = field(default_factory=dict[Group, float])
    """The costs that were asked for."""

    def run(self) -> list[Group]:
        """The groups, in an order in which they can run."""
        steps = self._steps()
        while True:
            way = self._best_way(steps)
            open_ = [group for group in way if group not in self.known]
            if not open_:
                return way
            for group in open_:
                self.known[group] = self.cost(group)

    def _steps(self) -> dict[Group, list[tuple[Group, Group, float]]]:
        """For each prefix the ways to it: from which other one, by which group, and its bound."""
        prefixes = self.program.prefixes()
        steps: dict[Group, list[tuple[Group, Group, float]]] = {}
        bounds: dict[Group, float] = {}
        for place, prefix in enumerate(prefixes):
            steps[prefix] = []
            for before in prefixes[:place]:
                group = prefix & ~before
                if before & ~prefix or self.program.size(group) > MOST_OPERATORS:
                    continue
                if group not in bounds:
                    tied = self.program.is_connected(group)
                    bounds[group] = self.bound(group) if tied else math.inf
                if bounds[group] < math.inf:
                    steps[prefix].append((before, group, bounds[group]))
        return steps

    def _best_way(self, steps: dict[Group, list[tuple[Group, Group, float]]]) -> list[Group]:
        """The groups on the way of least time, as far as it is known."""
        least: dict[Group, float] = {0: 0.0}
        last: dict[Group, tuple[Group, Group]] = {}
        for prefix, ways in steps.items():
            for before, group, bound in ways:
                time = least.get(before, math.inf) + self.known.get(group, bound)
                if time < least.get(prefix, math.inf):
                    least[prefix], last[prefix] = time, (before, group)
        way: list[Group] = []
        prefix = next(reversed(steps))
        while prefix:
            prefix, group = last[prefix]
            way.append(group)
        return way[::-1]


__all__ = ["Group", "Program", "Search", "bits"]
