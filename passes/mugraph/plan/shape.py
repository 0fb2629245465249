"""What a kernel is under a partition: its loads, its work and what it keeps, for an estimate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.cute.atoms import warpgroup_family
from mugraph.dialects.element_types import operand_names
from mugraph.dialects.elementwise import FUNCTIONS
from mugraph.dialects.interfaces import HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.kn.idle_iterations import (
    largest_in_tiles,
    masks_that_idle,
    share_that_counts,
)
from mugraph.dialects.linear_forms import LinearForm, at_lengths
from mugraph.dialects.maps import Slicing
from mugraph.dialects.programming_model import GROUP_COLUMNS, SECTOR_BYTES
from mugraph.dialects.tensor_types import element_bytes_of, shape_of
from mugraph.passes.costs.kernels import INSTRUCTION, KernelShape, Load, PhaseWork, Product
from mugraph.passes.mugraph.plan.narrow import (
    adds_scaled,
    is_in_registers,
    is_narrow,
    is_on_the_way,
    is_read_in_place,
)
from mugraph.passes.mugraph.retile.apply_partition import loop_dim_of, map_of
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import Partition

WHOLE_STEPS = 3
"""Steps of an operator on whole rows, as a norm."""


MOVES = 2
"""Times that elements of several matrices in a tile are moved before they are multiplied."""


class Alike(NamedTuple):
    """Extents and dimensions of tiles: those that have the same stay alike in any partition."""

    shape: tuple[int, ...]
    numbers: tuple[int | None, ...]

    def under(self, extents: Sequence[int | None]) -> tuple[int, ...]:
        """Their extents where those of dimensions are ``extents``, ``None`` for what stays."""
        return tuple(
            extent if number is None or (cut := extents[number]) is None else cut
            for extent, number in zip(self.shape, self.numbers, strict=True)
        )


def _sector_bytes(shape: Sequence[int], element_bytes: int) -> int:
    row = -(-shape[-1] * element_bytes // SECTOR_BYTES) * SECTOR_BYTES
    return math.prod(shape[:-1]) * row


def _padded(extent: int, multiple: int) -> int:
    return -(-extent // multiple)


def product_index(op: Operation) -> TileIndex | None:
    """The index that a product of two tiles is summed over; ``None`` for other operators."""
    if not isinstance(op, HasTileIndices) or isinstance(op, tb.AccumulatorOp | tb.ElementwiseOp):
        return None
    if len(op.operands) < 2:
        return None
    for index in op.tile_indices():
        if index.kind is IndexKind.SUMMED and sum(dim is not None for dim in index.operands) > 1:
            return index
    return None


RUNNING_MAXIMUM_STEPS, RUNNING_MAXIMUM_EXCHANGES = 2, 4
"""What a running maximum of loaded tiles takes in an iteration beside the exponential.

Steps of an element: the maximum and the difference; times that numbers go to other threads.
"""


def _makes_whole_rows(op: Operation) -> bool:
    """Whether an operator makes of whole rows tiles of the same extents, as a norm."""
    if not isinstance(op, HasTileIndices) or isinstance(op, tb.ElementwiseOp):
        return False
    return any(
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


class Factor(NamedTuple):
    """A left matrix of a product, and how warp groups could multiply it."""

    lhs: SSAValue
    fits_groups: bool
    """Whether they could, as both matrices are."""
    element: str
    """The type whose rate they then have."""
    promoted: bool
    """Whether they hold the sums of an iteration beside those of the loop."""

    @classmethod
    def of(cls, lhs: SSAValue, rhs: SSAValue, phases: LoopPhases) -> Factor:
        """The left one of two matrices.  F32 counts as f16, which it is not multiplied as."""
        family = warpgroup_family(*operand_names(lhs, rhs))
        element = INSTRUCTION.a_type if family is None else family.a_type
        fits = _is_for_groups(lhs, rhs, phases)
        promotes = fits and family is not None and family.sum_bits is not None and phases.promotes
        return cls(lhs, fits, element, promotes)


def _is_for_groups(lhs: SSAValue, rhs: SSAValue, phases: LoopPhases) -> bool:
    """Whether warp groups could multiply two matrices as they are.

    They read a right matrix from shared memory, as it is loaded.  The left one is loaded, too, or
    is in registers: what another product gives, or what is computed once, before the loop.
    """
    return isinstance(rhs.owner, tb.InputOp) and (
        isinstance(lhs.owner, tb.InputOp) or _is_of_product(lhs) or lhs in phases.same
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


def _is_exchanged(factor: SSAValue, phases: LoopPhases) -> bool:
    """Whether a factor of a product is computed, element by element, of tiles of the loop.

    Threads themselves make what they multiply of numbers of few bits.
    """
    if isinstance(factor.owner, tb.InputOp) or factor in phases.same or is_read_in_place(factor):
        return False
    return not _follows_product(factor) and not is_narrow(factor)


def _follows_product(value: SSAValue) -> bool:
    """Whether a tile is computed, element by element, of a product and perhaps of other tiles."""
    op = value.owner
    if not isinstance(op, Operation) or product_index(op) is not None:
        return isinstance(op, Operation)
    return isinstance(op, tb.ElementwiseOp) and any(map(_follows_product, op.operands))


def _has_running_maximum(op: Operation, phases: LoopPhases) -> bool:
    """Whether ``--online-softmax`` may put a running maximum of loaded tiles before an operator."""
    is_exponential = isinstance(op, tb.UnaryOp) and op.FUNCTION == "exp"
    return is_exponential and op in phases.loop and not _follows_product(op.operands[0])


def _reduced_dim(op: Operation) -> int | None:
    """Along which dimension an operator adds up elements of its operand; ``None`` for others."""
    if not isinstance(op, HasTileIndices) or isinstance(op, tb.ElementwiseOp):
        return None
    if product_index(op) is not None or _follows_product(op.operands[0]):
        return None
    summed = (index for index in op.tile_indices() if index.kind is IndexKind.SUMMED)
    return next((index.operands[0] for index in summed), None)


def _scales_a_product(op: Operation) -> bool:
    """Whether an operator multiplies a product by a number, as exponentials of it then do."""
    is_scale = isinstance(op, tb.UnaryOp) and op.FUNCTION == "mul_scalar"
    return is_scale and _is_of_product(op.results[0])


class OperatorWork(NamedTuple):
    """What an estimate needs of an operator that computes, however its tiles are cut."""

    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    factors: tuple[Factor, ...]
    """Of products."""
    steps: int
    """For each element; 0 where a product adds up what an accumulator keeps, or what is done with
    its elements anyhow scales them."""
    special: int
    exchanged: int
    """Results, and factors of products, that pass through shared memory to other threads."""
    row_dims: tuple[int, ...]
    """Dimensions of the first operand, not of a product, along which its elements are combined."""
    converts: bool = False
    """Whether threads make what they multiply of numbers of few bits."""
    sums: bool = False
    """Whether it is a sum over a dimension, which of one element is nothing."""

    @classmethod
    def of(cls, op: Operation, phases: LoopPhases) -> OperatorWork:
        """An operator's part of a model."""
        factors: list[Factor] = []
        if product_index(op) is not None:
            factors = [Factor.of(lhs, rhs, phases) for lhs, rhs in matrices_of(op)]
        steps = WHOLE_STEPS if _makes_whole_rows(op) else 1
        if (isinstance(op, tb.AccumulatorOp) and summed_by_product(op)) or _scales_a_product(op):
            steps = 0
        if adds_scaled(op) or is_on_the_way(op) or all(map(is_read_in_place, op.results)):
            steps = 0
        exchanged = int(steps > 1)
        if factors:
            exchanged = sum(_is_exchanged(operand, phases) for operand in op.operands)
        reduced = _reduced_dim(op)
        row_dims = () if reduced is None else (reduced,)
        if _has_running_maximum(op, phases):
            steps += RUNNING_MAXIMUM_STEPS
            exchanged += RUNNING_MAXIMUM_EXCHANGES
            row_dims = (len(shape_of(op.operands[0].type)) - 1,)
        operands, results = (*op.operands,), (*op.results,)
        converts = bool(factors) and is_narrow(op.operands[-1])
        return cls(
            operands,
            results,
            tuple(factors),
            steps,
            special_of(op),
            exchanged,
            row_dims,
            converts,
            isinstance(op, tb.ReductionOp),
        )


class _Moved(NamedTuple):
    """What an estimate needs of a tile that is loaded or stored."""

    tile: SSAValue
    numbers: tuple[int, ...]
    """Of the tile's dimensions that may be cut otherwise."""
    element_bytes: int
    tensor_bytes: int
    stays_looped: bool
    """Whether the loop cuts another one, as rows of parts beside rows of what is no part."""

    @classmethod
    def of(cls, space: TileSpace, op: tb.InputOp | tb.OutputOp) -> _Moved:
        """The tile of an operator, between shared memory and a tensor."""
        is_input = isinstance(op, tb.InputOp)
        tile, type_ = (op.result, op.result.type) if is_input else (op.stensor, op.dtensor_type)
        numbers, size = space.numbers[tile], element_bytes_of(type_)
        free = [n for n in numbers if n is not None and not space.dimensions[n].fixed]
        stays = op.loop_dim >= 0 and numbers[op.loop_dim] not in (*free, None)
        return cls(tile, tuple(free), size, math.prod(op.tensor_shape) * size, stays)

    def is_looped(self, partition: Partition) -> bool:
        """Whether each iteration moves another one."""
        return self.stays_looped or any(partition.cuts[number].looped for number in self.numbers)


class LoopPhases(NamedTuple):
    """What a loop along some dimensions computes in each iteration, and what once."""

    loop: tuple[Operation, ...]
    after: tuple[Operation, ...]
    """Also what is computed once, before the loop."""
    same: frozenset[SSAValue]
    """Tiles that are the same in each iteration."""
    sums: tuple[SSAValue, ...]
    """What is kept over all iterations."""
    promotes: bool
    """Whether sums of few bits are added up in f32, iteration by iteration."""

    @classmethod
    def of(cls, space: TileSpace, looped: frozenset[int]) -> LoopPhases:
        """Of the loop that a graph has, or of one along other dimensions that it may be given.

        In a graph whose loop moves no tile, what is summed along these dimensions is not
        accumulated yet; it is where a sum over one of them is.
        """
        ops = [op for op in space.graph.body.block.ops if op.results]
        inputs = [op for op in ops if isinstance(op, tb.InputOp)]
        is_written = any(op.loop_dim >= 0 for op in inputs)
        same: set[SSAValue] = set()
        same.update(op.result for op in inputs if not _has_one_of(space, op.results, looped))
        late: set[SSAValue] = set()
        loop: list[Operation] = []
        after: list[Operation] = []
        sums: list[SSAValue] = []
        for op in ops:
            if isinstance(op, tb.InputOp):
                continue
            accumulates = isinstance(op, tb.AccumulatorOp)
            if not accumulates and same.issuperset(op.operands) and op.operands:
                same.update(op.results)
                after.append(op)
            elif not late.isdisjoint(op.operands):
                late.update(op.results)
                after.append(op)
            else:
                loop.append(op)
                if accumulates or not (is_written or _has_one_of(space, op.results, looped)):
                    late.update(op.results)
                    sums += op.results[:1]
        promotes = space.graph.decided.promote is not False
        return cls(tuple(loop), tuple(after), frozenset(same), tuple(sums), promotes)


def _has_one_of(space: TileSpace, values: Iterable[SSAValue], numbers: frozenset[int]) -> bool:
    return any(not numbers.isdisjoint(space.numbers[value]) for value in values)


class KernelModel(NamedTuple):
    """What a kernel with a loop along some dimensions is, to ask what it becomes under partitions.

    It holds while the graph of its ``space`` is not rewritten.
    """

    space: TileSpace
    tiles: Mapping[Alike, Sequence[SSAValue]]
    """All tiles, those that are alike together."""
    loaded: tuple[_Moved, ...]
    stored: tuple[_Moved, ...]
    of_products: tuple[SSAValue, ...]
    """Products, and what is computed of them: in registers, where there are enough."""
    others: tuple[SSAValue, ...]
    """What else is computed."""
    once: tuple[tuple[SSAValue, int], ...]
    """Each product that is the same in all iterations, and the bytes of its elements.

    It is computed before the loop, and what the loop reads of it is kept.
    """
    sums: tuple[SSAValue, ...]
    """What is kept over all iterations."""
    loop: tuple[OperatorWork, ...]
    after: tuple[OperatorWork, ...]
    masks: tuple[tb.MaskOp, ...]
    """Those without whose tiles an iteration changes nothing."""

    @classmethod
    def of(cls, space: TileSpace, looped: frozenset[int]) -> KernelModel:
        """The model of a graph whose loop goes along some dimensions."""
        phases = LoopPhases.of(space, looped)
        loaded: list[_Moved] = []
        stored: list[_Moved] = []
        of_products: dict[SSAValue, None] = {}
        others: list[SSAValue] = []
        for op in space.graph.body.block.ops:
            if isinstance(op, tb.InputOp):
                loaded.append(_Moved.of(space, op))
            elif isinstance(op, tb.OutputOp):
                stored.append(_Moved.of(space, op))
            elif product_index(op) is not None or any(v in of_products for v in op.operands):
                of_products.update(dict.fromkeys(op.results))
            else:
                others += [result for result in op.results if not is_in_registers(result)]
        tiles: dict[Alike, list[SSAValue]] = {}
        for value, numbers in space.numbers.items():
            tiles.setdefault(Alike(shape_of(value.type), numbers), []).append(value)
        return cls(
            space,
            tiles,
            tuple(loaded),
            tuple(stored),
            tuple(of_products),
            tuple(others),
            tuple(
                (value, element_bytes_of(value.type))
                for value in of_products
                if looped and value in phases.same
            ),
            phases.sums,
            _computing(phases.loop, phases),
            _computing(phases.after, phases),
            tuple(masks_that_idle(space.graph)),
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
        partition = self.partition
        extents = [
            None if dimension.fixed else partition.tile(number, dimension.extent)
            for number, dimension in enumerate(self.model.space.dimensions)
        ]
        shapes: dict[SSAValue, tuple[int, ...]] = {}
        for alike, values in self.model.tiles.items():
            shapes.update(dict.fromkeys(values, alike.under(extents)))
        return shapes

    @cached_property
    def idle(self) -> KernelShape:
        """What the kernel loads, keeps and stores, as if it computed nothing."""
        model, partition, shapes = self.model, self.partition, self.shapes
        loads: list[Load] = []
        kept = 2 * sum(math.prod(shapes[value]) for value in model.others)
        kept += sum(math.prod(shapes[value]) * size for value, size in model.once)
        for load in model.loaded:
            tile, _, size, tensor, _ = load
            shape, looped = shapes[tile], load.is_looped(partition)
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
            sum(
                math.prod(shapes[tile.tile])
                * tile.element_bytes
                * (partition.forloop if tile.is_looped(partition) else 1)
                for tile in model.stored
            ),
            kept,
            2 * sum(math.prod(shapes[value]) for value in model.of_products),
            self.share,
        )

    @cached_property
    def share(self) -> float:
        """The part of its iterations of which masks leave something."""
        partition, forms = self.partition, list[LinearForm]()
        if partition.forloop == 1:
            return 1.0
        for mask in self.model.masks:
            tile, extents = self.shapes[mask.result], mask.slicing().shape
            map_ = map_of(self.model.space, mask.result, mask.map_, partition)
            loop_dim = loop_dim_of(self.model.space, mask.result, mask.loop_dim, partition)
            slicing = Slicing(extents, map_, loop_dim, partition.grid, partition.forloop, tile)
            forms += largest_in_tiles(tb.forms_in_tiles(mask.forms(), slicing), tile)
        # At the largest values of lengths, for which there is room.
        lengths = [length.largest for length in self.model.space.graph.held_lengths]
        forms = at_lengths(forms, lengths)
        return share_that_counts(forms, partition.grid, partition.forloop) if forms else 1.0

    @cached_property
    def shape(self) -> KernelShape:
        """What the kernel is."""
        loop, after = _work(self.model.loop, self.shapes), _work(self.model.after, self.shapes)
        return self.idle._replace(loop=loop, after=after)

    @cached_property
    def sums(self) -> int:
        """The elements of all accumulators of a block."""
        return sum(math.prod(self.shapes[value]) for value in self.model.sums)


def shape_under(space: TileSpace, partition: Partition) -> KernelShape:
    """What a kernel is under a partition."""
    return KernelModel.of(space, partition.looped()).under(partition).shape


def _computing(operators: Iterable[Operation], phases: LoopPhases) -> tuple[OperatorWork, ...]:
    return tuple(OperatorWork.of(op, phases) for op in operators if isinstance(op, HasTileIndices))


def _work(
    operators: Iterable[OperatorWork], shapes: Mapping[SSAValue, tuple[int, ...]]
) -> PhaseWork:
    products: list[Product] = []
    reduced: list[tuple[int, int]] = []
    elements = special = chained = sums = exchanges = 0
    derived: dict[SSAValue, tuple[int, int]] = {}
    passed_on = (0, 0)
    for op in operators:
        tiles = [shapes[value] for value in op.operands]
        exchanges += op.exchanged
        reduced += [(math.prod(tiles[0]) // tiles[0][dim], tiles[0][dim]) for dim in op.row_dims]
        sources = [derived[value] for value in op.operands if value in derived]
        if op.factors:
            chained += bool(sources)
            passed_on = max([passed_on, *sources], key=math.prod)
            rows, columns = tiles[0][-2], tiles[-1][-1]
            sources = [(rows, columns)]
            m, n, k = INSTRUCTION.shape_mnk
            for lhs, fits_groups, element, promoted in op.factors:
                steps = _padded(shapes[lhs][-1], k)
                count = math.prod(tiles[0][:-2]) * _padded(rows, m) * _padded(columns, n) * steps
                for_groups = fits_groups and columns % GROUP_COLUMNS == 0
                products.append(Product(count, steps, rows if for_groups else 0, element, promoted))
            sets = 1 + any(factor.promoted for factor in op.factors)
            sums += sets * math.prod(tiles[0][:-1]) * columns
            matrices = math.prod(tiles[0][:-2])
            if op.converts and matrices > 1:
                # Each is cut out and written to shared memory first.
                elements += MOVES * math.prod(tiles[-1])
                exchanges += matrices
        elif op.steps and not (op.sums and tiles[0] == shapes[op.results[0]]):
            count = max(math.prod(shape) for shape in tiles)
            elements += count * op.steps
            special += count * op.special
        if sources:
            derived.update(dict.fromkeys(op.results, sources[0]))
    return PhaseWork(
        tuple(products), elements, special, chained, passed_on, sums, exchanges, tuple(reduced)
    )
