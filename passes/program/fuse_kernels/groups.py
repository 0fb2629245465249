"""Which operators of a program share a kernel: the partition of least estimated time.

A partition of a program into kernels, in an order in which they can run, is a way through its
*prefixes*: sets of operators with all that they depend on.  A step from one prefix to a longer one
is a kernel.  The way of least time is found by dynamic programming.  What a step takes is first
bounded from below, by its launch and by the bytes that it moves; a kernel is built and estimated
only where it lies on the best way so far.  When nothing on the best way is a bound, it is the best.

Views are free: a prefix has all views of what it computes.  In a kernel are those only that stand
between its operators.  A view that needs a copy is an operator as others are.

A program with too many prefixes is searched a window at a time: the first half of the best way
through it stays, and the next window begins where that ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.element_types import rounds_for_good
from mugraph.dialects.kn import (
    ElementwiseOp,
    MaskOp,
    MatmulOp,
    MovesElements,
    ReductionOp,
    RegroupOp,
    ViewOp,
)
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of, shape_of
from mugraph.passes.program.fuse_kernels.copied import is_copied
from mugraph.passes.program.fuse_kernels.regroup import is_view
from mugraph.passes.program.fuse_kernels.sums import can_share

MOST_PREFIXES = 600
"""Prefixes of one segment that are all looked at."""
MOST_OPERATORS = 40
"""Operators of one kernel; views do not count."""
ROOM = 14
"""Prefixes of one length in a search that would have more."""

Group = int
"""A set of operators, as bits."""


class Unit(NamedTuple):
    """Operators that a search takes together, with their views."""

    whole: Group
    needed: Group
    """What must be there before."""


class Segment(NamedTuple):
    """A part of a program that is searched after all that comes before it."""

    start: Group
    """The prefix before it."""
    units: Sequence[Unit]


class Program:
    """The operators of a function that may share kernels, in order, and what depends on what."""

    def __init__(self, operators: Sequence[Operation], *, apart: bool = False) -> None:
        self.operators = operators
        self.is_exact = True
        """Whether all prefixes have been looked at."""
        place = {op: number for number, op in enumerate(operators)}
        self.places: dict[object, int] = {**place}
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
        self.used_by: list[Group] = [
            sum(
                {
                    1 << place[use.operation]
                    for each in op.results
                    for use in each.uses
                    if use.operation in place
                }
            )
            for op in operators
        ]
        """What uses the results of each operator."""
        copied = {op for op in operators if is_copied(op)}
        self.views: Group = sum(
            1 << place[op] for op in operators if is_view(op) and op not in copied
        )
        self.products: Group = sum(1 << place[op] for op in operators if isinstance(op, MatmulOp))
        self.moving: Group = sum(
            1 << place[op]
            for op in operators
            if isinstance(op, (RegroupOp, ViewOp)) and op not in copied
        )
        """What stands in a kernel only between others of it."""
        self.sharing: Group = sum(
            1 << place[op] for op in operators if can_share(op) or op in copied
        )
        """What may share a kernel with others; of :attr:`moving` that depends on where it is."""
        self.views_of: list[Group] = [0] * len(operators)
        """The views of what each operator computes, and views of them."""
        for view in reversed([*bits(self.views)]):
            if self.needed[view].bit_count() == 1:
                self.views_of[self.needed[view].bit_length() - 1] |= 1 << view | self.views_of[view]
        self.copied: Group = sum({1 << place[op] | self.views_of[place[op]] for op in copied})
        """Views that need a copy, and views of them: a kernel computes none, so it stores none."""
        spread = self._in_order(self._units(apart=apart, spread=True))
        self.units = self._units(apart=apart, spread=False) if spread is None else spread
        self.segments: Sequence[Segment] = [Segment(self.first_prefix(), self.units)]
        """The parts in which it is searched, one after another."""

    def _in_order(self, units: Sequence[Unit]) -> list[Unit] | None:
        """Units so that each needs earlier ones only, as far as possible in the order given.

        ``None`` where they need one another.
        """
        done, left, ordered = self.first_prefix(), list(units), list[Unit]()
        while unit := next((unit for unit in left if not unit.needed & ~done), None):
            done |= unit.whole
            left.remove(unit)
            ordered.append(unit)
        return None if left else ordered

    def _units(self, *, apart: bool, spread: bool) -> list[Unit]:
        """Operators that a search takes together; each on its own if they are to be ``apart``.

        An element-wise operator is in one unit with the operator that alone computes its operand,
        or alone uses its result, where a cut between the two could gain nothing.
        """
        unit_of = [1 << number for number in range(len(self.operators))]
        for number, op in enumerate(self.operators):
            before, user = self._joined(op), self._spread_for(op) if spread else None
            for other in () if apart else (before, user):
                if other is None:
                    continue
                if other is user and self._reduces(unit_of[number]):
                    continue  # what uses it would need a loop of its own
                joined = unit_of[number] | unit_of[self.places[other]]
                for member in bits(joined):
                    unit_of[member] = joined
        units: list[Unit] = []
        for unit in dict.fromkeys(unit_of):
            if not unit & ~self.views:
                continue  # views belong to what they are views of
            members = list(bits(unit))
            whole = unit | sum({self.views_of[member] for member in members})
            needed = 0
            for member in members:
                needed |= self.needed[member]
            units.append(Unit(whole, needed & ~unit))
        return units

    def _reduces(self, group: Group) -> bool:
        """Whether operators of a group combine elements along a dimension."""
        return any(isinstance(op, ReductionOp) for op in self.members(group))

    def _spread_for(self, op: Operation) -> Operation | None:
        """What alone uses an element-wise operator's result, if that is larger than its operands.

        A kernel that has both then loads less than one that has the user alone.  A product may
        compute its operands more than once, and a scan in a loop one element after another: they
        are not joined.  Masks of a product's operand up to a length are: loads end there instead.
        """
        if not isinstance(op, (ElementwiseOp, MaskOp)) or not op.result.has_one_use():
            return None
        (use,) = op.result.uses
        user = use.operation
        if op.result in self.kept or not (can_share(op) and can_share(user)):
            return None
        if isinstance(op, MaskOp) and op.lengths and isinstance(user, MatmulOp):
            return user
        if isinstance(user, ReductionOp):
            types = [element_type_of(value.type) for value in (user.result, user.input)]
            parts = shape_of(user.result.type)[user.reduced_dim]
            if parts != 1 or rounds_for_good(types[0], types[1:]):
                return None  # it is a kernel of its own
        elif not isinstance(user, (ElementwiseOp, MaskOp)):
            return None
        operands = sum(math.prod(shape_of(value.type)) for value in {*op.operands})
        return user if operands < 2 * math.prod(shape_of(op.result.type)) else None

    def _joined(self, op: Operation) -> Operation | None:
        """The operator before an element-wise one from which nothing is gained by a cut.

        That one's result is no smaller, and a kernel that has both loads nothing that is not there
        already.
        """
        if not isinstance(op, ElementwiseOp):
            return None
        others = [value for value in op.operands if not is_given(value)]
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

    def may_share(self, group: Group) -> bool:
        """Whether operators may share a kernel: a view only between others of it."""
        asked = self.moving | self.copied
        return not group & ~self.sharing & ~self.moving and all(
            self._may_be_in(group, number) for number in bits(group & asked)
        )

    def obstacles(self, group: Group) -> list[Operation]:
        """The operators for which a group may share no kernel."""
        return [self.operators[each] for each in bits(group) if not self._may_be_in(group, each)]

    def _may_be_in(self, group: Group, number: int) -> bool:
        """Whether an operator of a group may share a kernel with the others."""
        if self.copied >> number & 1 and not self._is_used_within(number, group):
            return False
        if self.moving >> number & 1:
            return self._is_between(number, group)
        return bool(self.sharing >> number & 1)

    def _is_used_within(self, number: int, group: Group) -> bool:
        """Whether operators of a group alone use the results of one."""
        is_kept = any(result in self.kept for result in self.operators[number].results)
        return not is_kept and not self.used_by[number] & ~group

    def _is_between(self, number: int, group: Group) -> bool:
        """Whether an operator is a view of what a group computes, for others of the group."""
        op = self.operators[number]
        return (
            bool(self.views >> number & 1)
            and not self.needed[number] & ~group
            and all(value.owner in self.places for value in op.operands)
            and bool(self.used_by[number] & group)
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
        if group >> self.places[op] & 1:
            return False
        if isinstance(op, (RegroupOp, ViewOp)):
            return bool(self.users.get(op.result))
        return isinstance(op, (ElementwiseOp, MovesElements)) and all(
            is_given(value) or group >> self.places.get(value.owner, len(self.operators)) & 1
            for value in op.operands
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
        end = len(self.operators)
        return [
            value
            for op in self.members(group)
            for value in op.operands
            if not group >> self.places.get(value.owner, end) & 1
        ]

    def members(self, group: Group) -> list[Operation]:
        """The operators of a group."""
        return [self.operators[number] for number in bits(group)]

    def is_connected(self, group: Group) -> bool:
        """Whether operators of a group are tied to one another, all of them together."""
        reached = new = group & -group
        while new:
            lowest = new & -new
            grown = self.tied[lowest.bit_length() - 1] & group & ~reached
            reached |= grown
            new ^= lowest | grown
        return reached == group

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
        views = group & self.views
        while views:
            number = views.bit_length() - 1
            views ^= 1 << number
            if not self.used_by[number] & group:
                group ^= 1 << number
        return group

    def has_few_prefixes(self) -> bool:
        """Whether all of each segment may be looked at in a search."""
        return all(
            _longer(start, units, MOST_PREFIXES, MOST_PREFIXES) is not None
            for start, units in self.segments
        )

    def prefixes(self, start: Group, units: Sequence[Unit]) -> list[Group]:
        """Prefixes that have some units more than one of them, short ones first.

        All of them, up to :data:`MOST_PREFIXES`; else of many of one length :data:`ROOM` that are
        nearest to the program's order.
        """
        found = _longer(start, units, MOST_PREFIXES, MOST_PREFIXES)
        if found is None:
            self.is_exact = False
            found = _longer(start, units, ROOM, ROOM * (len(units) + 1))
        assert found is not None
        return found


def _longer(start: Group, units: Sequence[Unit], room: int, most: int) -> list[Group] | None:
    """Prefixes beyond one, at most so many of a length; ``None`` where there are too many."""
    found: list[Group] = []
    layer: set[Group] = {start}
    while layer:
        longer = {
            prefix | unit.whole
            for prefix in layer
            for unit in units
            if unit.whole & ~prefix and unit.needed & ~prefix == 0
        }
        layer = set(sorted(longer)[:room])
        found += sorted(layer)
        if len(found) > most:
            return None
    return found


def is_given(value: SSAValue) -> bool:
    """Whether a tensor is an argument of the function, or a view of one."""
    op = value.owner
    if isinstance(op, (RegroupOp, ViewOp)):
        return is_given(op.input)
    return not isinstance(op, Operation)


def bits(group: Group) -> Iterator[int]:
    """The numbers of the operators of a group."""
    while group:
        lowest = group & -group
        yield lowest.bit_length() - 1
        group ^= lowest
