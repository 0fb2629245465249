"""What a kernel is under a partition: its loads, its work and what it keeps, for an estimate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.elementwise import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from mugraph.dialects.interfaces import HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.kn import Phase, phases_of
from mugraph.dialects.programming_model import GROUP_COLUMNS, SECTOR_BYTES
from mugraph.dialects.tensor_types import element_bytes_of, shape_of
from mugraph.passes.costs.kernels import INSTRUCTION, KernelShape, Load, PhaseWork, Product
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import Partition, tile_shape_of

WHOLE_STEPS = 3
"""Steps of an operator on whole rows, as a norm."""


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


def _work(space: TileSpace, partition: Partition, operators: Iterable[Operation]) -> PhaseWork:
    products: list[Product] = []
    elements = special = chained = sums = exchanges = 0
    derived: dict[SSAValue, tuple[int, int]] = {}
    passed_on = (0, 0)
    for op in operators:
        if not isinstance(op, HasTileIndices):
            continue
        tiles = [tile_shape_of(space, partition, value) for value in op.operands]
        sources = [derived[value] for value in op.operands if value in derived]
        if product_index(op) is not None:
            chained += bool(sources)
            passed_on = max([passed_on, *sources], key=math.prod)
            sources = [(tiles[0][-2], tiles[-1][-1])]
        if sources:
            derived.update(dict.fromkeys(op.results, sources[0]))
        if product_index(op) is not None:
            rows, columns = tiles[0][-2], tiles[-1][-1]
            m, n, k = INSTRUCTION.shape_mnk
            for lhs, rhs in matrices_of(op):
                steps = _padded(tile_shape_of(space, partition, lhs)[-1], k)
                count = math.prod(tiles[0][:-2]) * _padded(rows, m) * _padded(columns, n) * steps
                for_groups = _is_for_groups(lhs, rhs) and columns % GROUP_COLUMNS == 0
                products.append(Product(count, steps, rows if for_groups else 0))
            sums += math.prod(tiles[0][:-1]) * columns
        elif not (isinstance(op, tb.AccumulatorOp) and summed_by_product(op)):
            count = max(math.prod(shape) for shape in tiles)
            steps = WHOLE_STEPS if _makes_whole_rows(op) else 1
            exchanges += steps > 1
            elements += count * steps
            special += count * special_of(op)
    return PhaseWork(tuple(products), elements, special, chained, passed_on, sums, exchanges)


def _makes_whole_rows(op: Operation) -> bool:
    """Whether an operator makes of whole rows tiles of the same extents, as a norm."""
    return isinstance(op, HasTileIndices) and any(
        index.kind is IndexKind.WHOLE and index.result is not None for index in op.tile_indices()
    )


def special_of(op: Operation) -> int:
    """The instructions of special function units that an operator takes for an element."""
    if not isinstance(op, tb.UnaryOp | tb.BinaryOp):
        return 0
    return {**UNARY_FUNCTIONS, **BINARY_FUNCTIONS}[op.FUNCTION].special


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


def shape_under(space: TileSpace, partition: Partition) -> KernelShape:
    """What a kernel is under a partition."""
    loads: list[Load] = []
    kept = passed = stored = 0
    # Products, and what is computed of them, are in registers, where there are enough.
    of_products: set[SSAValue] = set()
    phases = phases_of(space.graph.body.block, space.graph.forloop_range)
    for op in phases:
        if isinstance(op, tb.InputOp):
            shape = tile_shape_of(space, partition, op.result)
            size = element_bytes_of(op.result.type)
            numbers = space.numbers[op.result]
            looped = any(n is not None and partition.cuts[n].looped for n in numbers)
            tensor = math.prod(shape_of(op.dtensor.type)) * size
            loads.append(Load(_sector_bytes(shape, size), tensor, looped, shape[-1] * size))
            kept += 0 if looped else math.prod(shape) * size
        elif isinstance(op, tb.OutputOp):
            shape = tile_shape_of(space, partition, op.stensor)
            stored += math.prod(shape) * element_bytes_of(op.dtensor_type)
        else:
            results = [tile_shape_of(space, partition, value) for value in op.results]
            size = sum(math.prod(shape) * 2 for shape in results)
            if product_index(op) is not None or of_products.intersection(op.operands):
                of_products.update(op.results)
                passed += size
            else:
                kept += size
    once = [op for op in phases if op.results and all(map(_is_the_same, op.results))]
    loop = [op for op, phase in phases.items() if phase is Phase.LOOP and op not in once]
    after = [op for op, phase in phases.items() if phase is Phase.AFTER or op in once]
    return KernelShape(
        math.prod(partition.grid),
        math.prod(partition.block),
        partition.forloop,
        tuple(loads),
        _work(space, partition, loop),
        _work(space, partition, after),
        stored,
        kept,
        passed,
    )


def _is_the_same(value: SSAValue) -> bool:
    """Whether a tile is the same in each iteration: loaded once, or computed of what is."""
    op = value.owner
    if isinstance(op, tb.InputOp):
        return op.loop_dim < 0
    if not isinstance(op, Operation) or isinstance(op, tb.AccumulatorOp):
        return False
    return bool(op.operands) and all(map(_is_the_same, op.operands))
