"""The layout problem, in a form that no solver owns.

Boolean variables say which dimension of a tensor is innermost (stride 1), whether a shared tensor
is laid out without padding, and which of its swizzles it will get.  Hard constraints are clauses (a
disjunction of literals) and groups (exactly or at most one variable holds).  A
preference is a clause that is broken only where the hard constraints leave no other way; a soft
cost is paid when all literals of a conjunction hold.  A solution breaks the fewest preferences
and, among those that do, pays the least.
``mugraph.passes.mugraph.resolve_layout`` builds the problem by asking the operators, and solves it.

Costs are the time that the accesses to memory take on the target, in picoseconds
(``mugraph.passes.mugraph.resolve_layout.exact``).  An operator that charges weights of its own does
so in that unit.

Source: Mirage's document "The CUDA Transpiler", "Layout Resolution".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from xdsl.ir import SSAValue


class Role(StrEnum):
    """What a variable of the layout problem says."""

    INNERMOST = "innermost"
    TIGHT = "tight"
    PERMUTED = "permuted"


class Variable(NamedTuple):
    """``role`` of dimension ``dim`` of tensor number ``owner``."""

    owner: int
    role: Role
    dim: int


class Literal(NamedTuple):
    """A variable, or its negation."""

    variable: Variable
    positive: bool = True

    def negated(self) -> Literal:
        """The opposite literal."""
        return Literal(self.variable, not self.positive)


class Clause(NamedTuple):
    """At least one of ``literals`` holds; ``reason`` tells a user who asks for that, and why."""

    literals: tuple[Literal, ...]
    reason: str


class SoftCost(NamedTuple):
    """``weight`` is paid when every literal of ``when`` holds; ``reason`` is for people."""

    weight: int
    when: tuple[Literal, ...]
    reason: str


class Bounded(NamedTuple):
    """Accesses with too many combinations of layouts to count them all, of some operators.

    ``price`` is what they cost where exactly these variables hold.
    """

    operators: tuple[str, ...]
    price: Callable[[AbstractSet[Variable]], int]


@dataclass
class LayoutProblem:
    """Variables, constraints and costs of one function; filled by the operators.

    Tensors are numbered in the order in which they are first mentioned.  Values that
    must share one layout (an operand of ``kn.customized`` and the block argument it binds) share a
    number.  Costs of ``lower_bounds`` stand for those of ``bounded`` while layouts are chosen.
    """

    variables: dict[Variable, None] = field(default_factory=dict[Variable, None])
    clauses: list[Clause] = field(default_factory=list[Clause])
    exactly_one: list[tuple[Variable, ...]] = field(default_factory=list[tuple[Variable, ...]])
    at_most_one: list[tuple[Variable, ...]] = field(default_factory=list[tuple[Variable, ...]])
    preferences: list[Clause] = field(default_factory=list[Clause])
    soft: list[SoftCost] = field(default_factory=list[SoftCost])
    lower_bounds: list[SoftCost] = field(default_factory=list[SoftCost])
    bounded: list[Bounded] = field(default_factory=list[Bounded])
    fixed_strides: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    _numbers: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    _next_number: int = 0

    def number_of(self, owner: SSAValue) -> int:
        """The number of a tensor; a new one for one not seen before."""
        if owner not in self._numbers:
            self._numbers[owner] = self._next_number
            self._next_number += 1
        return self._numbers[owner]

    def identify(self, value: SSAValue, with_value: SSAValue) -> None:
        """Says that ``value`` has the same layout as ``with_value``; before ``value`` is used."""
        number = self.number_of(with_value)
        if self._numbers.setdefault(value, number) != number:
            raise ValueError("a value that already has a number cannot take that of another")

    def innermost(self, value: SSAValue, dim: int) -> Literal:
        """``dim`` is the dimension of ``value`` with stride 1."""
        return self._literal(self.number_of(value), Role.INNERMOST, dim)

    def tight(self, value: SSAValue) -> Literal:
        """The rows of shared tensor ``value`` are not padded to 16 bytes."""
        return self._literal(self.number_of(value), Role.TIGHT, 0)

    def permuted(self, value: SSAValue, number: int) -> Literal:
        """Shared tensor ``value`` will get the ``number``-th of its swizzles, counted from 1.

        Nothing of it stays in the IR; it says what planning can make of a layout.
        """
        return self._literal(self.number_of(value), Role.PERMUTED, number)

    def require_any(self, *literals: Literal, reason: str) -> None:
        """Hard: at least one of the literals holds.  None at all cannot be satisfied.

        ``reason`` is half a sentence for the user whose layouts contradict it: which operator
        needs what of which operand.
        """
        self._mention(literals)
        self.clauses.append(Clause(literals, reason))

    def require_one(self, literals: Sequence[Literal]) -> None:
        """Hard: exactly one of these positive literals holds."""
        self._mention(literals)
        self.exactly_one.append(tuple(literal.variable for literal in literals))

    def require_at_most_one(self, literals: Sequence[Literal]) -> None:
        """Hard: at most one of these positive literals holds."""
        self._mention(literals)
        self.at_most_one.append(tuple(literal.variable for literal in literals))

    def prefer_any(self, *literals: Literal, reason: str) -> None:
        """At least one of the literals holds wherever the hard constraints leave a choice."""
        self._mention(literals)
        self.preferences.append(Clause(literals, reason))

    def charge(self, weight: int, *when: Literal, reason: str, is_bound: bool = False) -> None:
        """Soft: pay ``weight``, which is not negative, if all of ``when`` hold.

        A bound is what one of :attr:`bounded` costs at least.
        """
        if weight < 0:
            raise ValueError(f"the cost {weight} ({reason}) is negative")
        if weight:
            self._mention(when)
            costs = self.lower_bounds if is_bound else self.soft
            costs.append(SoftCost(weight, when, reason))

    def repeat(
        self,
        costs: Sequence[SoftCost],
        groups: Sequence[Sequence[Variable]],
        numbers: Mapping[int, int],
    ) -> None:
        """Costs, and groups of which at most one holds, once more, for tensors of other numbers."""
        others: dict[Literal, Literal] = {}
        for literal in itertools.chain.from_iterable(cost.when for cost in costs):
            if literal not in others:
                variable, positive = literal
                owner = numbers[variable.owner]
                others[literal] = Literal(variable._replace(owner=owner), positive)
        self._mention([*others.values()])
        self.soft += [
            SoftCost(weight, tuple([others[each] for each in when]), reason)
            for weight, when, reason in costs
        ]
        for group in groups:
            own = [Literal(each._replace(owner=numbers[each.owner])) for each in group]
            self.require_at_most_one(own)

    def fix_strides(self, value: SSAValue, strides: Sequence[int]) -> None:
        """The strides of ``value``, in elements, are given and not to be chosen."""
        self.fixed_strides[self.number_of(value)] = tuple(strides)

    def strides_fixed_for(self, value: SSAValue) -> tuple[int, ...] | None:
        """The strides given for ``value``, in elements, or ``None`` where they are to be chosen."""
        return self.fixed_strides.get(self.number_of(value))

    def _literal(self, owner: int, role: Role, dim: int) -> Literal:
        return Literal(Variable(owner, role, dim))

    def _mention(self, literals: Sequence[Literal]) -> None:
        for literal in literals:
            self.variables.setdefault(literal.variable)
