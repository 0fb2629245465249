"""Where the atoms of tensors stand, so that operators find them in the same dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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


def depth_of(op: kn.MatmulOp, atoms: Atoms) -> tuple[Atom, list[Atom]]:
    """The atoms that a product sums over: that which matrices have, and the others.

    Matrices are numbered by the others, and their products are added up.  They have the innermost
    atom that fills an instruction, whose elements lie side by side and share the scale of a group,
    or else the longest.
    """
    depth = atoms.dims(op.lhs)[-1]
    if not depth:
        raise NotFusedError(f"{op_label(op)} sums over one element")
    chosen = max(reversed(depth), key=lambda atom: min(atom.extent, LEAST_DEPTH))
    return chosen, [atom for atom in depth if atom is not chosen]


def places_of(operators: Sequence[Operation], atoms: Atoms) -> dict[Tensor, Places]:
    """The places of all tensors that operators compute and load.

    Rows and columns of products are the last two dimensions.  Raises :class:`NotFusedError` where
    an atom would have two places.
    """
    computed = {result for op in operators for result in op.results}

    def tensor(value: SSAValue, user: Operation) -> Tensor:
        return (value, None) if value in computed else (value, user)

    tensors: dict[Tensor, list[Atom]] = {}
    lines = _Lines()
    for op in operators:
        (result,) = op.results
        for value in op.operands:
            tensors[tensor(value, op)] = atoms.all(value)
            for atom in atoms.all(value):
                if atom in atoms.all(result):
                    lines.tie((tensor(value, op), atom), ((result, None), atom))
            if isinstance(op, (kn.MovesElements, kn.ViewOp)):
                # A part of a dimension, or what parts are put together to, stands in its place.
                for own, new in zip(atoms.dims(value), atoms.dims(result), strict=True):
                    if len(own) == 1 and len(new) == 1:
                        lines.tie((tensor(value, op), own[0]), ((result, None), new[0]))
        tensors[result, None] = atoms.all(result)
    for op in operators:
        if isinstance(op, kn.MatmulOp):
            lhs, rhs = tensor(op.lhs, op), tensor(op.rhs, op)
            rows, columns = atoms.dims(op.lhs)[-2], atoms.dims(op.rhs)[-1]
            depth, others = depth_of(op, atoms)
            lines.place(lhs, depth, COLUMNS)
            lines.place(rhs, depth, ROWS)
            if others:
                products: Tensor = (op.result, op)
                tensors[products] = [*others, *atoms.all(op.result)]
                for atom in atoms.all(op.result):
                    lines.tie((products, atom), ((op.result, None), atom))
                for atom in others:
                    lines.tie((lhs, atom), (products, atom))
                    lines.tie((rhs, atom), (products, atom))
            for atom in rows[-1:]:
                lines.place(lhs, atom, ROWS)
            for atom in columns[-1:]:
                lines.place(rhs, atom, COLUMNS)
    return _placed(tensors, lines)


def _placed(tensors: Mapping[Tensor, Sequence[Atom]], lines: _Lines) -> dict[Tensor, Places]:
    """Gives what has no place yet the last one that is free, innermost atoms first."""
    beside: dict[tuple[Tensor, Atom], set[tuple[Tensor, Atom]]] = {}
    rows = {tensor: [lines.root((tensor, atom)) for atom in own] for tensor, own in tensors.items()}
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
        tensor: {atom: places[lines.root((tensor, atom))] for atom in own}
        for tensor, own in tensors.items()
    }
