"""Groups of operators that compute the same of the same types, in whatever order they stand.

What is found of one holds for all of them: its kernel, what that takes, or that there is none.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.elementwise import COMMUTATIVE
from mugraph.dialects.kn import ElementwiseOp
from mugraph.passes.program.fuse_kernels.groups import Group, Program, bits

Structure = tuple[Hashable, ...]
"""What groups that are computed alike have in common."""


class Described(NamedTuple):
    """A group without its names; tensors are in the same order in all groups that are alike."""

    structure: Structure
    ordered: Sequence[int]
    """The numbers of its operators, in the same order too."""
    loaded: Sequence[SSAValue]
    """What it uses of others."""
    stored: Sequence[SSAValue]
    """Its results that others use."""


class Structures:
    """What groups of a program are alike.

    ``numbers`` are those of kinds of operators and of types, to compare them fast; programs that
    share them have structures in common.
    """

    def __init__(self, program: Program, numbers: dict[Hashable, int]) -> None:
        self.program = program
        self.numbers = numbers
        self.kinds = [
            self._number((op.name, *op.properties.items(), *op.result_types))
            for op in program.operators
        ]
        for op in program.operators:
            for value in op.operands:
                self._number(value.type)  # whatever group is looked at first
        self.known: dict[Group, Described] = {}

    def _number(self, what: Hashable) -> int:
        return self.numbers.setdefault(what, len(self.numbers))

    def kinds_of(self, group: Group) -> tuple[int, ...]:
        """The kinds of a group's operators, which are the same in all groups that are alike."""
        return tuple(sorted([self.kinds[number] for number in bits(group)]))

    def of(self, group: Group) -> Described:
        """A group without its names."""
        if group not in self.known:
            self.known[group] = self._described(group)
        return self.known[group]

    def _described(self, group: Group) -> Described:
        stored = {*self.program.stored(group)}
        keys = self._keys(group, stored)
        ordered = self._ordered(group, keys)
        names: dict[SSAValue, int] = {}
        loaded: list[SSAValue] = []
        described: list[Hashable] = []
        for number in ordered:
            op = self.program.operators[number]
            operands = self._operands(op, group, keys)
            for value in operands:
                if value not in names:
                    names[value] = -1 - len(loaded)
                    loaded.append(value)
                    described.append(self._number(value.type))
            own = [names[value] for value in operands]
            for result in op.results:
                names[result] = len(names)
            kept = tuple(result in stored for result in op.results)
            described.append((self.kinds[number], *own, *kept))
        results = [
            result
            for number in ordered
            for result in self.program.operators[number].results
            if result in stored
        ]
        return Described(tuple(described), ordered, loaded, results)

    def _inside(self, value: SSAValue, group: Group) -> int | None:
        """The number of the operator of a group that computes a tensor."""
        number = self.program.places.get(value.owner)
        return number if number is not None and group >> number & 1 else None

    def _key(self, value: SSAValue, group: Group, keys: Mapping[int, int]) -> tuple[bool, int]:
        """What a tensor is known by: what computes it, or its type."""
        source = self._inside(value, group)
        return source is None, self._number(value.type) if source is None else keys[source]

    def _operands(self, op: Operation, group: Group, keys: Mapping[int, int]) -> Sequence[SSAValue]:
        """The operands, in an order of their own where they may change places."""
        if isinstance(op, ElementwiseOp) and op.FUNCTION in COMMUTATIVE:
            return sorted(op.operands, key=lambda value: self._key(value, group, keys))
        return op.operands

    def _keys(self, group: Group, stored: Container[SSAValue]) -> dict[int, int]:
        """What operators of a group compute, each as a number."""
        keys: dict[int, int] = {}
        for number in bits(group):
            op = self.program.operators[number]
            operands = self._operands(op, group, keys)
            sources = (self._key(value, group, keys) for value in operands)
            kept = (result in stored for result in op.results)
            keys[number] = hash((self.kinds[number], *sources, *kept))
        return keys

    def _ordered(self, group: Group, keys: Mapping[int, int]) -> list[int]:
        """The numbers of a group's operators, in an order that does not depend on where they stand.

        Each behind what it uses, by what it is computed of and what is computed of it.
        """
        program, left = self.program, list(bits(group))
        after: dict[int, int] = {}
        for number in reversed(left):
            users = sorted(
                (keys[user], after[user], place)
                for user in bits(program.used_by[number] & group)
                for place, value in enumerate(self._operands(program.operators[user], group, keys))
                if self._inside(value, group) == number
            )
            after[number] = hash((keys[number], *users))
        ordered: list[int] = []
        done = 0
        while left:
            ready = (n for n in left if not program.needed[n] & group & ~done)
            first = min(ready, key=lambda n: (keys[n], after[n], n))
            ordered.append(first)
            done |= 1 << first
            left.remove(first)
        return ordered
