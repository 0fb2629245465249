"""Which parts of dimensions the tensors of a group number together, where it has views.

A reshape splits dimensions into *atoms*, or joins them: ``[rows, heads * d]`` becomes
``[rows, heads, d]``, a transpose puts them in another order.  Tensors that an operator numbers
together are split alike.  What no operator of the group needs apart stays one atom.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.interfaces import HasTileIndices
from mugraph.dialects.tensor_types import op_label, shape_of, value_label
from mugraph.passes.program.fuse_kernels.errors import NotFusedError


@dataclass(eq=False)
class Atom:
    """A dimension, or a part of one; it may turn out to be another one, or two."""

    extent: int
    parts: tuple[Atom, ...] = ()
    """What it is, outermost first; nothing where it is itself."""

    def leaves(self) -> list[Atom]:
        """The atoms that it consists of."""
        if not self.parts:
            return [self]
        return [leaf for part in self.parts for leaf in part.leaves()]


def leaves(atoms: Iterable[Atom]) -> list[Atom]:
    """The atoms that others consist of, in order."""
    found: list[Atom] = []
    for atom in atoms:
        if atom.parts:
            found += atom.leaves()
        else:
            found.append(atom)
    return found


def unify(one: Sequence[Atom], other: Sequence[Atom]) -> None:
    """Makes two rows of atoms the same, of which some are split for it.

    Raises :class:`NotFusedError` where their extents do not divide one another.
    """
    left, right = list(one), list(other)
    while left and right:
        left[-1:], right[-1:] = left[-1].leaves(), right[-1].leaves()
        large, small = left.pop(), right.pop()
        if large is small:
            continue
        rest = left
        if large.extent < small.extent:
            large, small, rest = small, large, right
        if large.extent == small.extent:
            small.parts = (large,)
            continue
        if large.extent % small.extent:
            raise NotFusedError(
                f"views split a dimension into runs of {large.extent} and of {small.extent} "
                "elements, and neither divides the other"
            )
        large.parts = (Atom(large.extent // small.extent), small)
        rest.append(large.parts[0])


@dataclass
class Atoms:
    """The atoms of the tensors of a group."""

    of_value: dict[SSAValue, tuple[list[Atom], ...]] = field(
        default_factory=dict[SSAValue, tuple[list[Atom], ...]]
    )
    rows: dict[SSAValue, list[Atom]] = field(default_factory=dict[SSAValue, list[Atom]])
    """All atoms of each tensor, once they are known."""

    @classmethod
    def of(cls, operators: Sequence[Operation]) -> Atoms:
        """Those of the tensors that operators use and compute, in the order of their data flow."""
        found = cls()
        for op in operators:
            tie(op, found)
        for value, dims in found.of_value.items():
            found.of_value[value] = tuple(map(leaves, dims))
            atoms = found.all(value)
            if len({*atoms}) < len(atoms):
                raise NotFusedError(
                    f"{value_label(value)} would have the same index along two dimensions"
                )
        while found.join_neighbours():
            pass
        found.rows = {value: [*itertools.chain(*dims)] for value, dims in found.of_value.items()}
        return found

    @classmethod
    def of_program(cls, operators: Sequence[Operation]) -> Atoms:
        """Those of all tensors of a program, split for all its views that can be understood."""
        found = cls()
        for op in operators:
            try:
                tie(op, found)
            except NotFusedError:
                continue
        return found

    def dims(self, value: SSAValue) -> tuple[list[Atom], ...]:
        """The atoms of each dimension; none of one element."""
        found = self.of_value.get(value)
        if found is None:
            extents = shape_of(value.type)
            found = tuple([Atom(each)] if each > 1 else [] for each in extents)
            self.of_value[value] = found
        return found

    def all(self, value: SSAValue) -> list[Atom]:
        """The atoms of a tensor, in row-major order."""
        row = self.rows.get(value)
        return leaves(itertools.chain(*self.dims(value))) if row is None else row

    def unify(self, one: tuple[SSAValue, int], other: tuple[SSAValue, int]) -> None:
        """Two dimensions are the same, unless one has one element."""
        if all(shape_of(value.type)[dim] > 1 for value, dim in (one, other)):
            unify(*(self.dims(value)[dim] for value, dim in (one, other)))

    def join_neighbours(self) -> bool:
        """Joins two atoms that all tensors have side by side in a dimension, if there are such."""
        after: dict[Atom, set[Atom | None]] = {}
        before: dict[Atom, set[Atom | None]] = {}
        rows = [dim for dims in self.of_value.values() for dim in dims]
        for row in rows:
            for place, atom in enumerate(row):
                after.setdefault(atom, set()).add(row[place + 1] if place + 1 < len(row) else None)
                before.setdefault(atom, set()).add(row[place - 1] if place else None)
        for outer, followers in after.items():
            (inner, *others) = followers
            if inner is not None and not others and before[inner] == {outer}:
                both = Atom(outer.extent * inner.extent)
                for row in rows:
                    if outer in row:
                        place = row.index(outer)
                        row[place : place + 2] = [both]
                return True
        return False


class SplitProducts:
    """Which products of a program a group cannot have, for a reason that is known early.

    A block has one of the matrices that a product falls into where a view splits its columns, so
    that all results must have the index of these matrices.
    """

    def __init__(self, operators: Sequence[Operation]) -> None:
        self.atoms = Atoms.of_program(operators)
        self.numbers: dict[Atom, int] = {}
        self.known: dict[SSAValue, int] = {}
        self.parts_of: dict[SSAValue, list[list[Atom]]] = {}
        self.split: dict[Operation, list[tuple[int, int]]] = {}
        """Of each product the rows and the columns that are split, and all but their last part."""
        for op in operators:
            if isinstance(op, kn.MatmulOp):
                rows = [leaves(row) for row in self.atoms.dims(op.result)[-2:]]
                self.split[op] = [
                    (self.bits(row), self.bits(row[:-1])) for row in rows if len(row) > 1
                ]

    def bits(self, row: Iterable[Atom]) -> int:
        """Atoms as bits."""
        return sum(1 << self.numbers.setdefault(atom, len(self.numbers)) for atom in row)

    def of(self, value: SSAValue) -> int:
        """The atoms of a tensor."""
        if value not in self.known:
            self.known[value] = self.bits(set(self.atoms.all(value)))
        return self.known[value]

    def parts(self, value: SSAValue) -> list[list[Atom]]:
        """The atoms of each dimension of a tensor."""
        if value not in self.parts_of:
            self.parts_of[value] = [leaves(dim) for dim in self.atoms.dims(value)]
        return self.parts_of[value]

    def refuse(self, operators: Sequence[Operation], stored: Sequence[SSAValue]) -> bool:
        """Whether a product is split within a group, and a result lacks its matrices."""
        split = [each for op in operators for each in self.split.get(op, ())]
        if not split:
            return False
        used = {self.of(value) for op in operators for value in (*op.operands, *op.results)}
        apart = [matrices for bits, matrices in split if any(0 < bits & own < bits for own in used)]
        return any(matrices & ~self.of(value) for matrices in apart for value in stored)


@singledispatch
def tie(op: Operation, atoms: Atoms) -> None:
    """Unifies the dimensions that an operator numbers together; views register a function.

    Raises :class:`NotFusedError` for an operator that does not say which.
    """
    if not isinstance(op, HasTileIndices):
        raise NotFusedError(f"{op_label(op)} has no rule for sharing a kernel")
    for value in (*op.operands, *op.results):
        atoms.dims(value)
    for index in op.tile_indices():
        rows = [atoms.dims(value)[dim] for value, dim in op.places(index)]
        for row in rows[1:]:
            unify(rows[0], row)


@tie.register
def _(op: kn.ReshapeOp, atoms: Atoms) -> None:
    unify(atoms.all(op.input), atoms.all(op.result))


@tie.register
def _(op: kn.TransposeOp, atoms: Atoms) -> None:
    for dim, own in enumerate(op.order):
        atoms.unify((op.input, own), (op.result, dim))


@tie.register
def _(op: kn.ViewOp, atoms: Atoms) -> None:
    if op.is_regrouped_in_order():
        unify(atoms.all(op.input), atoms.all(op.result))
        return
    sides = zip(shape_of(op.input.type), shape_of(op.result.type), strict=False)
    for dim, (own, extent) in enumerate(sides):
        if extent == own:
            atoms.unify((op.input, dim), (op.result, dim))
