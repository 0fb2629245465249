"""What a kernel is under a partition: its loads, its work and what it keeps, for an estimate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

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


def _is_exchanged(factor: SSAValue) -> bool:
    """Whether a factor of a product is computed, element by element, of tiles of the loop."""
    return not (isinstance(factor.owner, tb.InputOp) or _is_the_same(factor)) and not (
        _follows_product(factor)
    )


def _follows_product(value: SSAValue) -> bool:
    """Whether a tile is computed, element by element, of a product and perhaps of other tiles."""
    op = value.owner
    if not isinstance(op, Operation) or product_index(op) is not None:
        return isinstance(op, Operation)
    return isinstance(op, tb.ElementwiseOp) and any(map(_follows_product, op.operands))


def _scales_a_product(op: Operation) -> bool:
    """Whether an operator multiplies a product by a number, as exponentials of it then do."""
    is_scale = isinstance(op, tb.UnaryOp) and op.FUNCTION == "mul_scalar"
    return is_scale and _is_of_product(op.results[0])


class _Operator(NamedTuple):
    """What an estimate needs of an operator that computes, however its tiles are cut."""

    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    factors: tuple[tuple[SSAValue, bool], ...]
    """Of products: each left matrix, and whether warp groups could multiply it as it is."""
    steps: int
    """For each element; 0 where a product adds up what an accumulator keeps, or what is done with
    its elements anyhow scales them."""
    special: int
    exchanged: int
    """Results, and factors of products, that pass through shared memory to other threads."""

    @classmethod
    def of(cls, op: Operation) -> _Operator:
        """An operator's part of a model."""
        factors: list[tuple[SSAValue, bool]] = []
        if product_index(op) is not None:
            factors = [(lhs, _is_for_groups(lhs, rhs)) for lhs, rhs in matrices_of(op)]
        steps = WHOLE_STEPS if _makes_whole_rows(op) else 1
        if (isinstance(op, tb.AccumulatorOp) and summed_by_product(op)) or _scales_a_product(op):
            steps = 0
        exchanged = sum(map(_is_exchanged, op.operands)) if factors else int(steps > 1)
        operands, results = (*op.operands,), (*op.results,)
        return cls(operands, results, tuple(factors), steps, special_of(op), exchanged)


class _Loaded(NamedTuple):
    """What an estimate needs of a tile that is loaded."""

    tile: SSAValue
    numbers: tuple[int | None, ...]
    """Of the tile's dimensions."""
    element_bytes: int
    tensor_bytes: int


class KernelModel(NamedTuple):
    """What a kernel is, to ask what it becomes under one partition after another.

    It holds while the graph of its ``space`` is not rewritten.
    """

    space: TileSpace
    loaded: tuple[_Loaded, ...]
    stored: tuple[tuple[SSAValue, int], ...]
    """Each tile that is stored, and the bytes of its elements."""
    of_products: tuple[SSAValue, ...]
    """Products, and what is computed of them: in registers, where there are enough."""
    others: tuple[SSAValue, ...]
    """What else is computed."""
    accumulators: tuple[SSAValue, ...]
    loop: tuple[_Operator, ...]
    after: tuple[_Operator, ...]

    @classmethod
    def of(cls, space: TileSpace) -> KernelModel:
        """The model of a graph."""
        phases = phases_of(space.graph.body.block, space.graph.forloop_range)
        loaded: list[_Loaded] = []
        stored: list[tuple[SSAValue, int]] = []
        of_products: dict[SSAValue, None] = {}
        others: list[SSAValue] = []
        for op in phases:
            if isinstance(op, tb.InputOp):
                size = element_bytes_of(op.result.type)
                tensor = math.prod(shape_of(op.dtensor.type)) * size
                loaded.append(_Loaded(op.result, space.numbers[op.result], size, tensor))
            elif isinstance(op, tb.OutputOp):
                stored.append((op.stensor, element_bytes_of(op.dtensor_type)))
            elif product_index(op) is not None or any(v in of_products for v in op.operands):
                of_products.update(dict.fromkeys(op.results))
            else:
                others += op.results
        accumulators = tuple(op.result for op in phases if isinstance(op, tb.AccumulatorOp))
        once = [op for op in phases if op.results and all(map(_is_the_same, op.results))]
        loop = [op for op, phase in phases.items() if phase is Phase.LOOP and op not in once]
        after = [op for op, phase in phases.items() if phase is Phase.AFTER or op in once]
        return cls(
            space,
            tuple(loaded),
            tuple(stored),
            tuple(of_products),
            tuple(others),
            accumulators,
            _computing(loop),
            _computing(after),
        )

    def under(self, partition: Partition) -> TiledKernel:
        """The kernel under a partition."""
        return TiledKernel(self, partition)


@dataclass(frozen=True)
class TiledKernel:
    """A kernel under a partition; each part of what it becomes is found when it is asked for."""

    model: KernelModel
    partition: Partition

    @cached_property
    def shapes(self) -> Mapping[SSAValue, tuple[int, ...]]:
        """The extents of all tiles."""
        return tile_shapes(self.model.space, self.partition)

    @cached_property
    def idle(self) -> KernelShape:
        """What the kernel loads, keeps and stores, as if it computed nothing."""
        model, partition, shapes = self.model, self.partition, self.shapes
        loads: list[Load] = []
        kept = 2 * sum(math.prod(shapes[value]) for value in model.others)
        for tile, numbers, size, tensor in model.loaded:
            shape = shapes[tile]
            looped = any(n is not None and partition.cuts[n].looped for n in numbers)
            loads.append(Load(_sector_bytes(shape, size), tensor, looped, shape[-1] * size))
            kept += 0 if looped else math.prod(shape) * size
        nothing = PhaseWork((), 0)
        return KernelShape(
            math.prod(partition.grid),
            math.prod(partition.block),
            partition.forloop,
            tuple(loads),
            nothing,
            nothing,
            sum(math.prod(shapes[tile]) * size for tile, size in model.stored),
            kept,
            2 * sum(math.prod(shapes[value]) for value in model.of_products),
        )

    @cached_property
    def shape(self) -> KernelShape:
        """What the kernel is."""
        loop, after = _work(self.model.loop, self.shapes), _work(self.model.after, self.shapes)
        return self.idle._replace(loop=loop, after=after)

    @cached_property
    def sums(self) -> int:
        """The elements of all accumulators of a block."""
        return sum(math.prod(self.shapes[value]) for value in self.model.accumulators)


def shape_under(space: TileSpace, partition: Partition) -> KernelShape:
    """What a kernel is under a partition."""
    return KernelModel.of(space).under(partition).shape


def _computing(operators: Iterable[Operation]) -> tuple[_Operator, ...]:
    return tuple(_Operator.of(op) for op in operators if isinstance(op, HasTileIndices))


def _work(operators: Iterable[_Operator], shapes: Mapping[SSAValue, tuple[int, ...]]) -> PhaseWork:
    products: list[Product] = []
    elements = special = chained = sums = exchanges = 0
    derived: dict[SSAValue, tuple[int, int]] = {}
    passed_on = (0, 0)
    for op in operators:
        tiles = [shapes[value] for value in op.operands]
        exchanges += op.exchanged
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
