"""Which dimensions of the tensors of a group of operators are one index, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue
from xdsl.utils.disjoint_set import IntDisjointSet

from mugraph.dialects.interfaces import HasTileIndices, IndexKind
from mugraph.dialects.kn import MaskOp, MovesElements
from mugraph.dialects.tensor_types import shape_of, value_label
from mugraph.passes.program.fuse_kernels.errors import NotFusedError


@dataclass
class GroupIndices:
    """The indices of a group, as in Einstein's notation; each is a number.

    Dimensions of one element have none.
    """

    extents: list[int] = field(default_factory=list[int])
    of_value: dict[SSAValue, tuple[int | None, ...]] = field(
        default_factory=dict[SSAValue, tuple[int | None, ...]]
    )
    combined: dict[int, list[Operation]] = field(default_factory=dict[int, list[Operation]])
    """The operators that sum over an index, or take the largest element along it."""
    scanned: set[int] = field(default_factory=set[int])
    """Indices along which an element depends on those before it: a loop takes one after another."""
    batched: set[int] = field(default_factory=set[int])
    """Indices of which a block has one place: of leading dimensions of matrix products, and of
    masks that have a length for each place."""
    moved: set[int] = field(default_factory=set[int])
    """Indices along which parts are cut out or put together: tiles have all of them."""

    @property
    def looped(self) -> list[int]:
        """The indices that a loop may walk along: those that operators combine."""
        return sorted({*self.combined} - self.moved)

    def of(self, value: SSAValue, index: int) -> int | None:
        """The dimension of a tensor that an index runs through."""
        numbers = self.of_value[value]
        return numbers.index(index) if index in numbers else None

    def parallel(self, stored: Sequence[SSAValue]) -> list[int]:
        """The indices that blocks may divide: all results have them, and nothing is combined."""
        return [
            number
            for number in range(len(self.extents))
            if number not in self.combined
            and number not in self.moved
            and all(number in self.of_value[value] for value in stored)
        ]

    def side_by_side(self, stored: Sequence[SSAValue]) -> frozenset[int]:
        """Indices of which each result has one of its own, so that an axis may cut all of them.

        None where results have no such indices: matrices of products come first, then long ones.
        """
        rows = [self.of_value[value] for value in stored]
        chosen: set[int] = set()
        for row in rows:
            own = [
                number
                for number in row
                if number is not None
                and number not in self.combined
                and number not in self.moved
                and not all(number in other for other in rows)
            ]
            if not own:
                return frozenset()
            chosen.add(max(own, key=lambda n: (n in self.batched, self.extents[n])))
        counts = [sum(number in chosen for number in row) for row in self.of_value.values()]
        is_one_each = all(sum(number in chosen for number in row) == 1 for row in rows)
        return frozenset(chosen) if is_one_each and max(counts) == 1 else frozenset()


def indices_of(operators: Sequence[HasTileIndices]) -> GroupIndices:
    """The indices of some operators, in the order of their data flow.

    Raises :class:`NotFusedError` where a tensor has one index twice.
    """
    first: dict[SSAValue, int] = {}
    """Of each tensor the number of its first dimension."""
    count = 0
    for op in operators:
        for value in (*op.operands, *op.results):
            if value not in first:
                first[value] = count
                count += len(shape_of(value.type))
    joined = IntDisjointSet(size=count)
    of_operators = [op.tile_indices() for op in operators]
    for op, own in zip(operators, of_operators, strict=True):
        for index in own:
            places = [first[value] + dim for value, dim in op.places(index)]
            for place in places[1:]:
                joined.union(places[0], place)
    found = GroupIndices()
    numbers: dict[int, int] = {}
    for value, place in first.items():
        _number(
            value, [joined[place + dim] for dim in range(len(shape_of(value.type)))], numbers, found
        )
    for op, own in zip(operators, of_operators, strict=True):
        for index in own:
            _note(op, index.kind, index.operands, index.result, found)
        numbered = {index.result for index in own}
        for result in op.results:
            own = enumerate(found.of_value[result])
            found.moved |= {n for dim, n in own if n is not None and dim not in numbered}
    return found


def _number(
    value: SSAValue, roots: Sequence[int], numbers: dict[int, int], found: GroupIndices
) -> None:
    """Numbers the dimensions of a tensor, of which those that are one index have one root."""
    own: list[int | None] = []
    for root, extent in zip(roots, shape_of(value.type), strict=True):
        if extent == 1:
            own.append(None)
            continue
        if root not in numbers:
            numbers[root] = len(numbers)
            found.extents.append(extent)
        own.append(numbers[root])
    several = [number for number in own if number is not None]
    if len(set(several)) < len(several):
        raise NotFusedError(f"{value_label(value)} would have the same index along two dimensions")
    found.of_value[value] = tuple(own)


def _note(
    op: Operation,
    kind: IndexKind,
    dims: Sequence[int | None],
    result: int | None,
    found: GroupIndices,
) -> None:
    """Notes what an operator does along an index."""
    numbers = {
        found.of_value[value][dim]
        for value, dim in zip(op.operands, dims, strict=True)
        if dim is not None
    } - {None}
    for number in numbers:
        if number is not None and isinstance(op, MovesElements) and kind is IndexKind.WHOLE:
            found.moved.add(number)
        elif number is not None and kind is not IndexKind.PARALLEL:
            found.combined.setdefault(number, []).append(op)
            if result is not None:
                found.scanned.add(number)
        elif (
            number is not None
            and None not in dims
            and (is_product(op) or (len(dims) > 1 and isinstance(op, MaskOp)))
        ):
            found.batched.add(number)


def is_product(op: Operation) -> bool:
    """Whether an operator sums products of the elements of two tensors."""
    return isinstance(op, HasTileIndices) and any(
        index.kind is IndexKind.SUMMED and len(index.operands) > 1 for index in op.tile_indices()
    )


def label(indices: GroupIndices, index: int) -> str:
    """How a message names an index: by the first tensor that has it."""
    value = next(v for v, numbers in indices.of_value.items() if index in numbers)
    return f"dimension {indices.of_value[value].index(index)} of {value_label(value)}"
