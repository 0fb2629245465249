"""Where the atoms of tensors stand, so that operators find them in the same dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.program.fuse_kernels.atoms import Atom, Atoms
from mugraph.passes.program.fuse_kernels.errors import NotFusedError

Tensor = tuple[SSAValue, Operation | None]
"""What an operator computes, or what one loads: each may load a tensor as another view."""
Places = dict[Atom, int]
"""For each atom of a tensor the dimension that it is, counted from the end: -1, -2, ..."""
ROWS, COLUMNS = -2, -1


@dataclass
class _Lines:
    """Atoms of several tensors that stand in one dimension."""

    parent: dict[tuple[Tensor, Atom], tuple[Tensor, Atom]] = field(
        default_factory=dict[tuple[Tensor, Atom], tuple[Tensor, Atom]]
    )
    fixed: dict[tuple[Tensor, Atom], int] = field(default_factory=dict[tuple[Tensor, Atom], int])

    def root(self, node: tuple[Tensor, Atom]) -> tuple[Tensor, Atom]:
        while (above := self.parent.setdefault(node, node)) != node:
            node = above
        return node

    def tie(self, one: tuple[Tensor, Atom], other: tuple[Tensor, Atom]) -> None:
        self.parent[self.root(one)] = self.root(other)

    def place(self, tensor: Tensor, atom: Atom, place: int) -> None:
        root = self.root((tensor, atom))
        if self.fixed.setdefault(root, place) != place:
            raise NotFusedError("what is a row of one product is none of another one")


def places_of(operators: Sequence[Operation], atoms: Atoms) -> dict[Tensor, Places]:
    """The places of all tensors that operators compute and load.

    Rows and columns of products are the last two dimensions.  Raises :class:`NotFusedError` where
    an atom would have two places.
    """
    computed = {result for op in operators for result in op.results}

    def tensor(value: SSAValue, user: Operation) -> Tensor:
        return (value, None) if value in computed else (value, user)

    tensors: dict[Tensor, None] = {}
    lines = _Lines()
    for op in operators:
        (result,) = op.results
        for value in op.operands:
            tensors[tensor(value, op)] = None
            for atom in atoms.all(value):
                if atom in atoms.all(result):
                    lines.tie((tensor(value, op), atom), ((result, None), atom))
            if isinstance(op, (kn.MovesElements, kn.ViewOp)):
                # A part of a dimension, or what parts are put together to, stands in its place.
                for own, new in zip(atoms.dims(value), atoms.dims(result), strict=True):
                    if len(own) == 1 and len(new) == 1:
                        lines.tie((tensor(value, op), own[0]), ((result, None), new[0]))
        tensors[result, None] = None
    for op in operators:
        if isinstance(op, kn.MatmulOp):
            lhs, rhs = tensor(op.lhs, op), tensor(op.rhs, op)
            rows, depth = atoms.dims(op.lhs)[-2:]
            columns = atoms.dims(op.rhs)[-1]
            if len(depth) != 1:
                raise NotFusedError(f"{op_label(op)} sums over what is not one dimension")
            lines.place(lhs, depth[0], COLUMNS)
            lines.place(rhs, depth[0], ROWS)
            for atom in rows[-1:]:
                lines.place(lhs, atom, ROWS)
            for atom in columns[-1:]:
                lines.place(rhs, atom, COLUMNS)
    return _placed(tensors, atoms, lines)


def _placed(
    tensors: Sequence[Tensor] | dict[Tensor, None], atoms: Atoms, lines: _Lines
) -> dict[Tensor, Places]:
    """Gives what has no place yet the last one that is free, innermost atoms first."""
    beside: dict[tuple[Tensor, Atom], set[tuple[Tensor, Atom]]] = {}
    rows = {
        tensor: [lines.root((tensor, atom)) for atom in atoms.all(tensor[0])] for tensor in tensors
    }
    for row in rows.values():
        for root in row:
            beside.setdefault(root, set()).update(other for other in row if other != root)
    places = dict(lines.fixed)
    for row in sorted(rows.values(), key=len, reverse=True):
        for root in reversed(row):
            taken = {places[other] for other in beside[root] if other in places}
            if root not in places:
                places[root] = next(n for n in range(-1, -2 - len(taken), -1) if n not in taken)
            elif places[root] in taken:
                raise NotFusedError("two dimensions of a tensor would be rows of one product")
    return {
        tensor: {atom: places[lines.root((tensor, atom))] for atom in atoms.all(tensor[0])}
        for tensor in tensors
    }


__all__ = ["Places", "Tensor", "places_of"]
