"""What a kernel is under a partition: its loads, its work and what it keeps, for an estimate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.elementwise import FUNCTIONS
from mugraph.dialects.interfaces import HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.kn import Phase, phases_of
from mugraph.dialects.programming_model import GROUP_COLUMNS, SECTOR_BYTES
from mugraph.dialects.tensor_types import element_bytes_of, shape_of
from mugraph.passes.costs.kernels import INSTRUCTION, KernelShape, Load, PhaseWork, Product
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import Partition

WHOLE_STEPS = 3
"""Steps of an operator on whole rows, as a norm."""


def tile_shapes(space: TileSpace, partition: Partition) -> dict[SSAValue, tuple[int, ...]]:
    """The extents of all tiles under a partition."""
    extents = [
        None if dimension.fixed else partition.split(number, dimension.extent).tile
        for number, dimension in enumerate(space.dimensions)
    ]
    return {
        value: tuple(
            extent if number is None or (cut := extents[number]) is None else cut
            for extent, number in zip(shape_of(value.type), numbers, strict=True)
        )
        for value, numbers in space.numbers.items()
    }


def _sector_bytes(shape: Sequence[int], element_bytes: int) -> int:
    row = -(-shape[-1] * element_bytes // SECTOR_BYTES) * SECTOR_BYTES
    return math.prod(shape[:-1]) * row


def _padded(extent: int, multiple: int) -> int:
    return -(-extent // multiple)


def product_index(op: Operation) -> TileIndex | None:
    """The index that a product of two tiles is summed over; ``None`` for other operators."""
    if not isinstance(op, HasTileIndices) or isinstance(op, tb.AccumulatorOp):
        return None
    for index in op.tile_indices():
        if index.kind is IndexKind.SUMMED and sum(dim is not None for dim in index.operands) > 1:
            return index
    return None


def _makes_whole_rows(op: Operation) -> bool:
    """Whether an operator makes of whole rows tiles of the same extents, as a norm."""
    return isinstance(op, HasTileIndices) and any(
        index.kind is IndexKind.WHOLE and index.result is not None for index in op.tile_indices()
    )


def special_of(op: Operation) -> int:
    """The instructions of special function units that an operator takes for an element."""
    return FUNCTIONS[op.FUNCTION].special if isinstance(op, tb.ElementwiseOp) else 0


def matrices_of(op: Operation) -> Sequence[tuple[SSAValue, SSAValue]]:
    """The pairs of matrices whose products an operator adds up."""
    if isinstance(op, tb.ConcatThenMatmulOp):
        return op.products()
    lhs, rhs = op.operands
    return [(lhs, rhs)]


def _is_for_groups(lhs: SSAValue, rhs: SSAValue) -> bool:
    """Whether warp groups could multiply two matrices as they are.

    They read a right matrix from shared memory, as it is loaded.  The left one is loaded, too, or
    is in registers: what another product gives, or what is computed once, before the loop.
    """
    return isinstance(rhs.owner, tb.InputOp) and (
        isinstance(lhs.owner, tb.InputOp) or _is_of_product(lhs) or _is_the_same(lhs)
    )


def _is_of_product(value: SSAValue) -> bool:
    """Whether a tile is what is computed, element by element, of one product."""
    op = value.owner
    while isinstance(op, Operation) and product_index(op) is None and len(op.operands) == 1:
        op = op.operands[0].owner
    return isinstance(op, Operation) and product_index(op) is not None


def summed_by_product(op: tb.AccumulatorOp) -> bool:
    """Whether an accumulator keeps what a product adds up anyway."""
    source = op.operands[0].owner
    is_product = isinstance(source, Operation) and product_index(source) is not None
    return is_product and op.adds and not op.reduces_last()


@dataclass(frozen=True)
class _Operator:
    """What an estimate needs of an operator that computes, however its tiles are cut."""

    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    factors: tuple[tuple[SSAValue, bool], ...]
    """Of products: each left matrix, and whether warp groups could multiply it as it is."""
    steps: int
    """For each element; 0 where a product adds up what an accumulator keeps."""
    special: int

    @classmethod
    def of(cls, op: Operation) -> _Operator:
        """An operator's part of a model."""
        factors: list[tuple[SSAValue, bool]] = []
        if product_index(op) is not None:
            factors = [(lhs, _is_for_groups(lhs, rhs)) for lhs, rhs in matrices_of(op)]
        steps = WHOLE_STEPS if _makes_whole_rows(op) else 1
        if isinstance(op, tb.AccumulatorOp) and summed_by_product(op):
            steps = 0
        return cls((*op.operands,), (*op.results,), tuple(factors), steps, special_of(op))


@dataclass(frozen=True)
class KernelModel:
    """What a kernel is, to ask what it becomes under one partition after another.

    It holds while the graph of its ``space`` is not rewritten.
    """

    space: TileSpace
    operators: tuple[Operation, ...]
    of_products: Set[Operation]
    """The products, and what is computed of them: in registers, where there are enough."""
    loop: tuple[_Operator, ...]
    after: tuple[_Operator, ...]

    @classmethod
    def of(cls, space: TileSpace) -> KernelModel:
        """The model of a graph."""
        phases = phases_of(space.graph.body.block, space.graph.forloop_range)
        of_products: set[Operation] = set()
        for op in phases:
            if product_index(op) is not None or of_products.intersection(
                value.owner for value in op.operands
            ):
                of_products.add(op)
        once = [op for op in phases if op.results and all(map(_is_the_same, op.results))]
        loop = [op for op, phase in phases.items() if phase is Phase.LOOP and op not in once]
        after = [op for op, phase in phases.items() if phase is Phase.AFTER or op in once]
        return cls(space, tuple(phases), of_products, _computing(loop), _computing(after))

    def under(self, partition: Partition) -> KernelShape:
        """What the kernel is under a partition."""
        shapes = tile_shapes(self.space, partition)
        loads: list[Load] = []
        kept = passed = stored = 0
        for op in self.operators:
            if isinstance(op, tb.InputOp):
                shape = shapes[op.result]
                size = element_bytes_of(op.result.type)
                numbers = self.space.numbers[op.result]
                looped = any(n is not None and partition.cuts[n].looped for n in numbers)
                tensor = math.prod(shape_of(op.dtensor.type)) * size
                loads.append(Load(_sector_bytes(shape, size), tensor, looped, shape[-1] * size))
                kept += 0 if looped else math.prod(shape) * size
            elif isinstance(op, tb.OutputOp):
                stored += math.prod(shapes[op.stensor]) * element_bytes_of(op.dtensor_type)
            else:
                size = sum(math.prod(shapes[value]) * 2 for value in op.results)
                if op in self.of_products:
                    passed += size
                else:
                    kept += size
        return KernelShape(
            math.prod(partition.grid),
            math.prod(partition.block),
            partition.forloop,
            tuple(loads),
            _work(self.loop, shapes),
            _work(self.after, shapes),
            stored,
            kept,
            passed,
        )

    def sums_under(self, partition: Partition) -> int:
        """The elements of all accumulators of a block under a partition."""
        shapes = tile_shapes(self.space, partition)
        tiles = [shapes[op.result] for op in self.operators if isinstance(op, tb.AccumulatorOp)]
        return sum(map(math.prod, tiles))


def shape_under(space: TileSpace, partition: Partition) -> KernelShape:
    """What a kernel is under a partition."""
    return KernelModel.of(space).under(partition)


def _computing(operators: Iterable[Operation]) -> tuple[_Operator, ...]:
    return tuple(_Operator.of(op) for op in operators if isinstance(op, HasTileIndices))


def _work(operators: Iterable[_Operator], shapes: Mapping[SSAValue, tuple[int, ...]]) -> PhaseWork:
    products: list[Product] = []
    elements = special = chained = sums = exchanges = 0
    derived: dict[SSAValue, tuple[int, int]] = {}
    passed_on = (0, 0)
    for op in operators:
        tiles = [shapes[value] for value in op.operands]
        sources = [derived[value] for value in op.operands if value in derived]
        if op.factors:
            chained += bool(sources)
            passed_on = max([passed_on, *sources], key=math.prod)
            rows, columns = tiles[0][-2], tiles[-1][-1]
            sources = [(rows, columns)]
            m, n, k = INSTRUCTION.shape_mnk
            for lhs, fits_groups in op.factors:
                steps = _padded(shapes[lhs][-1], k)
                count = math.prod(tiles[0][:-2]) * _padded(rows, m) * _padded(columns, n) * steps
                for_groups = fits_groups and columns % GROUP_COLUMNS == 0
                products.append(Product(count, steps, rows if for_groups else 0))
            sums += math.prod(tiles[0][:-1]) * columns
        elif op.steps:
            count = max(math.prod(shape) for shape in tiles)
            exchanges += op.steps > 1
            elements += count * op.steps
            special += count * op.special
        if sources:
            derived.update(dict.fromkeys(op.results, sources[0]))
    return PhaseWork(tuple(products), elements, special, chained, passed_on, sums, exchanges)


def _is_the_same(value: SSAValue) -> bool:
    """Whether a tile is the same in each iteration: loaded once, or computed of what is."""
    op = value.owner
    if isinstance(op, tb.InputOp):
        return op.loop_dim < 0
    if not isinstance(op, Operation) or isinstance(op, tb.AccumulatorOp):
        return False
    return bool(op.operands) and all(map(_is_the_same, op.operands))
