"""How devices can share an operator's work: what each has of the operands, and of the results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.element_types import rounds_for_good
from mugraph.dialects.interfaces import HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.tensor_types import element_type_of, shape_of


class DeviceCut(NamedTuple):
    """One index of an operator that devices can share: each computes what is of its part of it.

    ``operands`` and ``results`` hold the dimension that the index numbers, ``None`` where it
    numbers none: each device has all of that operand.  Results of an index with a ``combiner`` are
    parts, which have yet to be combined.
    """

    operands: tuple[int | None, ...]
    results: tuple[int | None, ...]
    combiner: Combiner | None = None


class HasDeviceCuts(Operation, Abstract):
    """An operator that says itself how devices can share its work.

    Others say it by their indices (``HasTileIndices``), or run whole on each device.
    """

    @abstractmethod
    def device_cuts(self) -> Sequence[DeviceCut]:
        """The indices that devices can share; extents need not divide."""


def device_cuts(op: Operation) -> Sequence[DeviceCut]:
    """The indices of an operator that devices can share; extents need not divide."""
    if isinstance(op, HasDeviceCuts):
        return op.device_cuts()
    if isinstance(op, HasTileIndices):
        return cuts_of_indices(op, op.tile_indices())
    return ()


def cuts_of_indices(op: Operation, indices: Sequence[TileIndex]) -> list[DeviceCut]:
    """Those of indices along which results have elements of their own, or add up.

    What is added up must not be rounded as a part of what the operator means.
    """
    found: list[DeviceCut] = []
    for index in indices:
        if index.kind is IndexKind.PARALLEL:
            dims = tuple(
                None if dim is None or _is_broadcast(op, number, index) else dim
                for number, dim in enumerate(index.operands)
            )
            found.append(DeviceCut(dims, (index.result,) * len(op.results)))
        elif index.kind is IndexKind.SUMMED and index.period == 1 and not is_rounded(op):
            found.append(DeviceCut(index.operands, (None,) * len(op.results), Combiner.SUM))
    return found


def is_rounded(op: Operation) -> bool:
    """Whether rounding a result is a part of what the operator means."""
    operands = [element_type_of(operand.type) for operand in op.operands]
    return any(rounds_for_good(element_type_of(result.type), operands) for result in op.results)


def _is_broadcast(op: Operation, operand: int, index: TileIndex) -> bool:
    """Whether an index passes over an operand, which has one element there."""
    dim = index.operands[operand]
    return index.broadcasts and dim is not None and shape_of(op.operands[operand].type)[dim] == 1


class MovesWholeElements(Operation, Abstract):
    """An operator that puts elements of its operands elsewhere, and computes nothing.

    Of parts of a sum, or of a maximum, in all operands it makes parts of the result's.
    """


def passes_parts(op: Operation, combiner: Combiner) -> Sequence[frozenset[int]]:
    """Sets of operands, parts of whose combination give parts of the results'.

    The others are whole on each device.
    """
    if isinstance(op, MovesWholeElements):
        return (frozenset(range(len(op.operands))),)
    if combiner is Combiner.SUM and isinstance(op, HasTileIndices) and not is_rounded(op):
        return op.linear_in()
    return ()
