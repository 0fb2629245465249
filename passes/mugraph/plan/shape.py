"""What a kernel is under a partition: its loads, its work and what it keeps, for an estimate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.kn.idle_iterations import largest_in_tiles, masks_that_idle, share_that_counts
from mugraph.dialects.linear_forms import LinearForm, at_lengths
from mugraph.dialects.maps import Slicing
from mugraph.dialects.programming_model import (
    REGISTER_BYTES,
    SECTOR_BYTES,
    VECTOR_BYTES,
)
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    shape_of,
)
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.loads import Load, Loads
from mugraph.passes.costs.work import (
    INSTRUCTION,
    ROW_VECTOR,
    RUN_CONVERSION_ISSUES,
    Held,
    PhaseWork,
    Product,
)
from mugraph.passes.mugraph.plan.held_tiles import Span, reduces_rows, spans_of
from mugraph.passes.mugraph.plan.moved import Moved
from mugraph.passes.mugraph.plan.narrow import is_in_registers
from mugraph.passes.mugraph.plan.operators import LoopPhases, OperatorWork, computing
from mugraph.passes.mugraph.plan.partitions import parallel_dimensions
from mugraph.passes.mugraph.retile.apply_partition import loop_dim_of, map_of
from mugraph.passes.mugraph.retile.dimensions import TileSpace, product_index
from mugraph.passes.mugraph.retile.partition import Partition

MOST_BETWEEN = 64
"""Elements of a thread that element-wise operators and reductions pass on in registers."""
MOVES = 2
"""Times that elements of several matrices in a tile are moved before they are multiplied, unless
warps share the pairs of matrices."""


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


def is_read_by_elements(op: Operation) -> bool:
    """Whether only element-wise operators and reductions read what an element-wise one computes."""
    users = [use.operation for result in op.results for use in result.uses]
    return (
        isinstance(op, tb.ElementwiseOp)
        and bool(users)
        and all(isinstance(user, tb.ReductionOp | tb.ElementwiseOp) for user in users)
    )


def _sector_bytes(shape: Sequence[int], element_bytes: int, row: int) -> int:
    sectors = -(-row * element_bytes // SECTOR_BYTES)
    return math.prod(shape) // row * sectors * SECTOR_BYTES


class KernelModel(NamedTuple):
    """What a kernel with a loop along some dimensions is, to ask what it becomes under partitions.

    It holds while the graph of its ``space`` is not rewritten.
    """

    space: TileSpace
    tiles: Mapping[Alike, Sequence[SSAValue]]
    """All tiles, those that are alike together."""
    loaded: tuple[Moved, ...]
    stored: tuple[Moved, ...]
    of_products: tuple[SSAValue, ...]
    """What the loop computes of products, and does not keep: in registers, where there are enough.

    Sums stay there, and what follows the loop has the memory of its tiles.
    """
    between: tuple[SSAValue, ...]
    """What element-wise operators compute for others and for reductions: in registers, where a
    thread has few elements."""
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
    masks: tuple[tuple[tb.MaskOp, Sequence[LinearForm]], ...]
    """Those without whose tiles an iteration changes nothing, and what is not negative inside."""
    spans: tuple[Span, ...]
    """What threads hold, and when, where there are no products; none where they cannot."""
    parallel: tuple[int, ...]
    """One dimension of each group that blocks may divide."""
    kernels: dict[Partition, TiledKernel]
    """Those that were asked for."""

    @classmethod
    def of(cls, space: TileSpace, looped: frozenset[int]) -> KernelModel:
        """The model of a graph whose loop goes along some dimensions, found once."""
        known = space.models.get(looped)
        if not isinstance(known, KernelModel):
            known = space.models[looped] = cls._of(space, looped)
        return known

    @classmethod
    def _of(cls, space: TileSpace, looped: frozenset[int]) -> KernelModel:
        phases = LoopPhases.of(space, looped)
        loaded: list[Moved] = []
        stored: list[Moved] = []
        of_products: dict[SSAValue, None] = {}
        between: list[SSAValue] = []
        others: list[SSAValue] = []
        for op in space.graph.body.block.ops:
            if isinstance(op, tb.InputOp):
                loaded.append(Moved.of(space, op))
            elif isinstance(op, tb.OutputOp):
                stored.append(Moved.of(space, op))
            elif product_index(op) is not None or any(v in of_products for v in op.operands):
                of_products.update(dict.fromkeys(op.results))
            else:
                among = between if is_read_by_elements(op) else others
                among += [result for result in op.results if not is_in_registers(result)]
        tiles: dict[Alike, list[SSAValue]] = {}
        for value, numbers in space.numbers.items():
            tiles.setdefault(Alike(shape_of(value.type), numbers), []).append(value)
        return cls(
            space,
            tiles,
            tuple(loaded),
            tuple(stored),
            tuple(v for v in of_products if v.owner in phases.loop and v not in phases.sums),
            tuple(between),
            tuple(others),
            tuple(
                (value, element_bytes_of(value.type))
                for value in of_products
                if looped and value in phases.same
            ),
            phases.sums,
            computing(phases.loop, phases),
            computing(phases.after, phases),
            tuple((mask, mask.forms()) for mask in masks_that_idle(space.graph)),
            () if of_products or not reduces_rows(space) else spans_of(space),
            tuple(map(min, parallel_dimensions(space))),
            {},
        )

    def under(self, partition: Partition) -> TiledKernel:
        """The kernel under a partition."""
        known = self.kernels.get(partition)
        if known is None:
            known = self.kernels[partition] = TiledKernel(self, partition)
        return known


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
        most = MOST_BETWEEN * math.prod(partition.block)
        between = (math.prod(shapes[value]) for value in model.between)
        kept = 2 * sum(math.prod(shapes[value]) for value in model.others)
        kept += 2 * sum(elements for elements in between if elements > most)
        kept += sum(math.prod(shapes[value]) * size for value, size in model.once)
        for load in model.loaded:
            tile, size, tensor = load.tile, load.element_bytes, load.tensor_bytes
            shape, looped = shapes[tile], load.is_looped(partition)
            # Bulk copies write zeros for what pads the rows of products, which takes as long.
            there = shape if model.space.products else load.existing(shape)
            loaded = _sector_bytes(there, size, load.row(there))
            padding = (math.prod(there) - math.prod(load.existing(shape))) * size
            aligned = load.alignment(shape)
            # Threads that multiply load what bulk copies do not bring.
            row = load.row_bytes(shape)
            beside = looped and load.scales_products and min(row, aligned) < VECTOR_BYTES
            in_parts = load.cuts_lines(partition, shape)
            how = beside, in_parts, load.has_columns
            loads.append(Load(loaded, tensor, looped, row, aligned, padding, *how))
            kept += 0 if looped else math.prod(shape) * size
        nothing = PhaseWork((), 0)
        stored = [
            math.prod(tile.existing(shapes[tile.tile]))
            * tile.element_bytes
            * (partition.forloop if tile.is_looped(partition) else 1)
            for tile in model.stored
        ]
        again = [
            tile.tile in (other.tile for other in model.stored[:n])
            for n, tile in enumerate(model.stored)
        ]
        return KernelShape(
            math.prod(partition.grid),
            math.prod(partition.block),
            partition.forloop,
            Loads(loads),
            nothing,
            nothing,
            sum(stored),
            kept,
            2 * sum(math.prod(shapes[value]) for value in model.of_products),
            self.share,
            self.held,
            self.masks_ends,
            sum(compress(stored, again)),
            self._is_ragged(model.space.numbers[tile.tile][-1] for tile in model.stored),
        )

    @cached_property
    def masks_ends(self) -> bool:
        """Whether what the loop cuts ends in ragged tiles, which no mask of places leaves out."""
        if self.model.masks:
            return False
        return self._is_ragged(self.partition.looped())

    def _is_ragged(self, numbers: Iterable[int | None]) -> bool:
        """Whether the last tile along one of some dimensions has fewer elements than others."""
        dimensions, partition = self.model.space.dimensions, self.partition
        known = [number for number in numbers if number is not None]
        splits = [partition.split(number, dimensions[number].extent) for number in known]
        return any(split.bound() is not None for split in splits)

    @cached_property
    def held(self) -> Held | None:
        """What threads hold of tiles in a block of one iteration; ``None`` where they cannot."""
        spans = self.model.spans
        if not spans:
            return None
        elements = [math.prod(self.shapes[span.tile]) for span in spans]
        largest = max(elements)
        broadcast = [
            isinstance(span.tile.owner, tb.InputOp) and count < largest
            for span, count in zip(spans, elements, strict=True)
        ]
        held = [
            (span.first, span.last, count * span.element_bytes)
            for span, count, is_broadcast in zip(spans, elements, broadcast, strict=True)
            if not is_broadcast
        ]
        peak = max(
            max(
                sum(size for first, last, size in held if first < place <= last),
                sum(size for first, last, size in held if first <= place < last),
            )
            for place in {place for first, last, _ in held for place in (first, last)}
        )
        staged = sum(
            count * span.element_bytes
            for span, count, is_broadcast in zip(spans, elements, broadcast, strict=True)
            if is_broadcast
        )
        padded = [
            math.gcd(load.tensor_shape[-1], ROW_VECTOR)
            for load in self.model.loaded
            if self.shapes[load.tile][-1] > load.tensor_shape[-1] > 1
        ]
        return Held(peak, staged, largest, min(padded, default=0))

    @cached_property
    def share(self) -> float:
        """The part of its iterations of which masks leave something."""
        partition, forms = self.partition, list[LinearForm]()
        if partition.forloop == 1:
            return 1.0
        for mask, own in self.model.masks:
            tile, extents = self.shapes[mask.result], mask.slicing().shape
            map_ = map_of(self.model.space, mask.result, mask.map_, partition)
            loop_dim = loop_dim_of(self.model.space, mask.result, mask.loop_dim, partition)
            slicing = Slicing(extents, map_, loop_dim, partition.grid, partition.forloop, tile)
            forms += largest_in_tiles(tb.forms_in_tiles(own, slicing), tile)
        # At the largest values of lengths, for which there is room.
        lengths = [length.largest for length in self.model.space.graph.held_lengths]
        forms = at_lengths(forms, lengths)
        return share_that_counts(forms, partition.grid, partition.forloop) if forms else 1.0

    @cached_property
    def shape(self) -> KernelShape:
        """What the kernel is."""
        derived: dict[SSAValue, tuple[int, int]] = {}
        loop = _work(self.model.loop, self.shapes, derived)
        # Single warps put sums of the loop in order for what follows at the cost of an exchange.
        if not all(product.fills_groups() for product in loop.products):
            derived = {}
        after = _work(self.model.after, self.shapes, derived)
        if not self.idle.loading.comes_in_bulk:
            loop, after = loop.by_warps(), after.by_warps()
        return self.idle._replace(loop=loop, after=after)

    @cached_property
    def sums(self) -> int:
        """The elements of all accumulators of a block."""
        return sum(math.prod(self.shapes[value]) for value in self.model.sums)

    @cached_property
    def shared_sums(self) -> int:
        """Those of them that products after the loop take as their left matrices."""
        factors = [factor for op in self.model.after for factor in op.factors]
        return min(sum(math.prod(self.shapes[factor.lhs]) for factor in factors), self.sums)


def shape_under(space: TileSpace, partition: Partition) -> KernelShape:
    """What a kernel is under a partition."""
    return KernelModel.of(space, partition.looped()).under(partition).shape


def _bytes_with_sums(
    op: OperatorWork,
    shapes: Mapping[SSAValue, tuple[int, ...]],
    derived: Mapping[SSAValue, tuple[int, int]],
) -> int:
    """What a product multiplies that is in shared memory, and its sums in f32."""
    # What is made of another product, or of narrow numbers, threads may have in registers.
    multiplied = op.operands[:-1] if op.conversion else op.operands
    tiles = [value for value in multiplied if value not in derived]
    operands = sum(math.prod(shapes[tile]) * element_bytes_of(tile.type) for tile in tiles)
    return operands + REGISTER_BYTES * math.prod(shapes[op.results[0]])


def _work(
    operators: Sequence[OperatorWork],
    shapes: Mapping[SSAValue, tuple[int, ...]],
    derived: dict[SSAValue, tuple[int, int]],
) -> PhaseWork:
    """The work of a phase; ``derived`` are extents of the product that each tile is made of."""
    products: list[Product] = []
    reduced: list[tuple[int, int]] = []
    elements = special = chained = sums = exchanges = moved = 0
    pairs = 1
    passed_on = (0, 0)
    for op in operators:
        tiles = [shapes[value] for value in op.operands]
        exchanges += op.exchanged
        reduced += [(math.prod(tiles[0]) // tiles[0][dim], tiles[0][dim]) for dim in op.row_dims]
        sources = [derived[value] for value in op.operands if value in derived]
        if op.factors:
            follows = bool(sources)
            chained += follows
            passed_on = max([passed_on, *sources], key=math.prod)
            rows, columns = tiles[0][-2], tiles[-1][-1]
            sources = [(rows, columns)]
            m, n, k = INSTRUCTION.shape_mnk
            converted, conversion = math.prod(tiles[-1]) if op.conversion else 0, op.conversion
            matrices = math.prod(tiles[0][:-2])
            by_runs = op.reads_runs(rows, tiles[0][-1], matrices)
            if by_runs:
                m, n, conversion = n, m, RUN_CONVERSION_ISSUES
            for factor in op.factors:
                depth = shapes[factor.lhs][-1]
                steps = math.ceil(depth / k)
                count = matrices * math.ceil(rows / m) * math.ceil(columns / n) * steps
                group_rows = rows if factor.is_whole(columns, depth) else 0
                swaps = factor.swaps(rows, columns, depth, matrices)
                if swaps:
                    group_rows = columns
                each = Product(
                    count,
                    steps,
                    group_rows,
                    factor.element,
                    factor.promoted,
                    columns,
                    follows,
                    converted,
                    conversion,
                    swaps and not factor.converted,
                    (rows, columns, depth),
                    _bytes_with_sums(op, shapes, derived) if op.transformed else 0,
                    math.ceil(rows / m) if by_runs else 1,
                )
                products.append(each)
            promoted = any(factor.promoted for factor in op.factors)
            results = math.prod(tiles[0][:-1]) * columns
            sums += (1 + promoted) * results
            if promoted and op.adds_up:
                elements += results
            if op.conversion and matrices > 1:
                # Each is cut out and written to shared memory first, or has warps of its own.
                made = MOVES * math.prod(tiles[-1])
                if op.sliced:
                    pairs, moved = matrices, moved + made
                else:
                    elements, exchanges = elements + made, exchanges + matrices
        elif op.steps and not (op.sums and tiles[0] == shapes[op.results[0]]):
            count = max(math.prod(shape) for shape in tiles)
            elements += count * op.steps
            special += count * op.special
        if sources:
            derived.update(dict.fromkeys(op.results, sources[0]))
    if not chained:
        products = [product._replace(columns=0) for product in products]
    work = PhaseWork(tuple(products), elements, special, chained, passed_on, sums, exchanges)
    joins_state = any(op.joins_state for op in operators)
    return work._replace(rows=tuple(reduced), pairs=pairs, moved=moved, joins_state=joins_state)
