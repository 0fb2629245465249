"""Joins products that a schedule computes in pieces, as too many registers were taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.schedule.promote_registers.mma_analysis import operators_of


@dataclass(frozen=True)
class Piece:
    """A part of a product in registers of its own: cleared, computed, stored."""

    fragment: sched.EmptyOp
    fill: sched.FillOp
    mma: sched.MmaOp
    store: sched.StoreOp

    @property
    def operators(self) -> Sequence[Operation]:
        """Its operators, in the order of the text."""
        return (self.fragment, self.fill, self.mma, self.store)


def _piece_of(store: Operation) -> Piece | None:
    if not isinstance(store, sched.StoreOp) or store.at is None:
        return None
    fragment = store.source.owner
    if not isinstance(fragment, sched.EmptyOp):
        return None
    users = [use.operation for use in fragment.result.uses]
    fills = [user for user in users if isinstance(user, sched.FillOp)]
    products = [user for user in users if isinstance(user, sched.MmaOp)]
    if len(users) != 3 or len(fills) != 1 or len(products) != 1:
        return None
    if products[0].start != store.start:
        return None
    return Piece(fragment, fills[0], products[0], store)


def _products(kernel: sched.KernelOp) -> Iterator[list[Piece]]:
    """The pieces of each product, by where they are stored."""
    found: dict[SSAValue, list[Piece]] = {}
    for op in operators_of(kernel):
        piece = _piece_of(op)
        if piece is not None:
            found.setdefault(piece.store.destination, []).append(piece)
    for destination, pieces in found.items():
        first = pieces[0]
        covered = sum(_elements(piece.fragment.result) for piece in pieces)
        alike = all(
            piece.mma.lhs is first.mma.lhs
            and piece.mma.rhs is first.mma.rhs
            and piece.mma.ldmatrix == first.mma.ldmatrix
            and piece.store.epilogue == first.store.epilogue
            and piece.store.parent_op() is first.store.parent_op()
            for piece in pieces
        )
        if alike and covered == _elements(destination):
            yield pieces


def _elements(value: SSAValue) -> int:
    count = 1
    for extent in shape_of(value.type):
        count *= extent
    return count


def join_pieces(kernel: sched.KernelOp) -> sched.KernelOp | None:
    """Makes one product of the pieces of each; ``None`` where there are none."""
    joined = False
    for pieces in list(_products(kernel)):
        joined = True
        first = pieces[0]
        destination = first.store.destination
        type_ = first.fragment.result.type
        whole = sched.EmptyOp(
            sched.TileType.of(shape_of(destination.type), type_.element_type, type_.layout)
        )
        whole.result.name_hint = first.fragment.result.name_hint
        new = [
            whole,
            sched.FillOp(whole.result, 0.0),
            sched.MmaOp(first.mma.lhs, first.mma.rhs, whole.result, first.mma.ldmatrix),
            sched.StoreOp(whole.result, destination, epilogue_of(first.store)),
        ]
        Rewriter.insert_op(new, InsertPoint.before(first.fragment))
        for piece in pieces:
            for op in reversed(piece.operators):
                Rewriter.erase_op(op)
    return kernel if joined else None
