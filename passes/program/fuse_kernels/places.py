"""Where the atoms of tensors stand, so that operators find them in the same dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.program.fuse_kernels.atoms import Atom, Atoms
from mugraph.passes.program.fuse_kernels.errors import NotFusedError

Tensor = tuple[SSAValue, Operation | None]
"""What an operator computes, or what one loads: each may load a tensor as another view.

Beside its result a product has itself: the products that are still to be added up.
"""
Places = dict[Atom, int]
"""For each atom of a tensor the dimension that it is, counted from the end: -1, -2, ..."""
ROWS, COLUMNS = -2, -1
LEAST_DEPTH = 16
"""What an instruction multiplies at least along k, of elements of 16 bits."""


class _Lines:
    """Atoms of several tensors, as numbers, that stand in one dimension."""

    def __init__(self) -> None:
        self.numbers: dict[Tensor, int] = {}
        self.rows: list[dict[Atom, int]] = []
        """Of each tensor what its atoms are numbered."""
        self.parent: list[int] = []
        self.fixed: dict[int, int] = {}

    def of(self, tensor: Tensor, atoms: Sequence[Atom]) -> dict[Atom, int]:
        """The numbers of a tensor's atoms."""
        number = self.numbers.setdefault(tensor, len(self.rows))
        if number == len(self.rows):
            first = len(self.parent)
            self.parent += range(first, first + len(atoms))
            self.rows.append({atom: first + place for place, atom in enumerate(atoms)})
        return self.rows[number]

    def root(self, node: int) -> int:
        while (above := self.parent[node]) != node:
            node = above
        return node

    def tie(self, one: int, other: int) -> None:
        self.parent[self.root(one)] = self.root(other)

    def place(self, node: int, place: int) -> None:
        if self.fixed.setdefault(self.root(node), place) != place:
            raise NotFusedError("a dimension has the rows of one product, and not those of another")


def depth_of(op: kn.MatmulOp, atoms: Atoms) -> tuple[Atom, list[Atom]]:
    """The atoms that a product sums over: that which matrices have, and the others.

    Matrices are numbered by the others, and their products are added up.  They have the innermost
    atom that fills an instruction, whose elements lie side by side and share the scale of a group,
    or else the longest.
    """
    depth = atoms.dims(op.lhs)[-1]
    if not depth:
        raise NotFusedError(f"{op_label(op)} has a depth of 1, which this form does not support")
    chosen = max(reversed(depth), key=lambda atom: min(atom.extent, LEAST_DEPTH))
    return chosen, [atom for atom in depth if atom is not chosen]


def places_of(operators: Sequence[Operation], atoms: Atoms) -> dict[Tensor, Places]:
    """The places of all tensors that operators compute and load.

    Rows and columns of products are the last two dimensions.  Raises :class:`NotFusedError` where
    an atom would have two places.
    """
    computed = {result for op in operators for result in op.results}
    lines = _Lines()

    def row(value: SSAValue, user: Operation) -> dict[Atom, int]:
        tensor = (value, None) if value in computed else (value, user)
        return lines.of(tensor, atoms.all(value))

    for op in operators:
        (result,) = op.results
        loaded = [row(value, op) for value in op.operands]
        made = lines.of((result, None), atoms.all(result))
        for value, used in zip(op.operands, loaded, strict=True):
            for atom, node in used.items():
                if atom in made:
                    lines.tie(node, made[atom])
            if isinstance(op, (kn.MovesElements, kn.ViewOp)):
                # A part of a dimension, or what parts are put together to, stands in its place.
                for own, new in zip(atoms.dims(value), atoms.dims(result), strict=True):
                    if len(own) == 1 and len(new) == 1:
                        lines.tie(used[own[0]], made[new[0]])
                    elif len(own) == 1 and 1 < _extent(new) < _extent(own):
                        raise NotFusedError(
                            f"{op_label(op)} takes a part of a dimension, and a view splits that "
                            "part alone"
                        )
    for op in operators:
        if isinstance(op, kn.MatmulOp):
            lhs, rhs = row(op.lhs, op), row(op.rhs, op)
            rows, columns = atoms.dims(op.lhs)[-2], atoms.dims(op.rhs)[-1]
            depth, others = depth_of(op, atoms)
            lines.place(lhs[depth], COLUMNS)
            lines.place(rhs[depth], ROWS)
            if others:
                made = lines.of((op.result, None), ())
                products = lines.of((op.result, op), [*others, *made])
                for atom in made:
                    lines.tie(products[atom], made[atom])
                for atom in others:
                    lines.tie(lhs[atom], products[atom])
                    lines.tie(rhs[atom], products[atom])
            for atom in rows[-1:]:
                lines.place(lhs[atom], ROWS)
            for atom in columns[-1:]:
                lines.place(rhs[atom], COLUMNS)
    return _placed(lines)


def _extent(row: Sequence[Atom]) -> int:
    return math.prod(atom.extent for atom in row)


def _placed(lines: _Lines) -> dict[Tensor, Places]:
    """Gives what has no place yet the last one that is free, innermost atoms first."""
    beside: dict[int, set[int]] = {}
    rows = [[lines.root(node) for node in own.values()] for own in lines.rows]
    for row in rows:
        for root in row:
            beside.setdefault(root, set()).update(row)
    places = dict(lines.fixed)
    for row in sorted(rows, key=len, reverse=True):
        for root in reversed(row):
            taken = {places[n] for n in beside[root] if n != root and n in places}
            if root not in places:
                places[root] = next(n for n in range(-1, -2 - len(taken), -1) if n not in taken)
            elif places[root] in taken:
                raise NotFusedError(
                    "two dimensions of one tensor would have to be the rows of a product"
                )
    return {
        tensor: {
            atom: places[root] for atom, root in zip(lines.rows[number], rows[number], strict=True)
        }
        for tensor, number in lines.numbers.items()
    }
