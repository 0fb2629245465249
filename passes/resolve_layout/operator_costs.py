"""What accesses to memory the operators make, for given strides of their tensors.

:func:`layout_costs` says it of an operator; what the accesses do is counted as the finished
kernel's are (:mod:`.access_work`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.cute.atoms import loads_as_stored
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.kn import accumulates
from mugraph.dialects.partition import (
    VECTOR_BYTES,
    LinearPartition,
    PartitionedOperand,
    choose_lanes,
    choose_move_partition,
    choose_partition,
    result_order,
)
from mugraph.dialects.pieces import Move
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tb import STensorType
from mugraph.dialects.tensor_types import (
    AnyLayout,
    element_bytes_of,
    element_type_of,
    innermost_dimension,
    shape_of,
    strides_of,
)
from mugraph.passes.resolve_layout.access_work import (
    ProductPartition,
    Sums,
    Tile,
    Work,
    copy_work,
    fragment_work,
    kernel_operand_work,
    operand_work,
    partitioned_work,
    reduction_result_work,
    reduction_source_work,
)
from mugraph.passes.resolve_layout.problem import has_layouts
from mugraph.passes.resolve_layout.site import Site

Strides: TypeAlias = tuple[int, ...]
ACCUMULATOR_BYTES = 4
"""Sums that stay in shared memory are fp32."""


@dataclass(frozen=True)
class SharedUse:
    """Accesses to one shared tensor: what one launch does for any layout it may be swizzled to."""

    value: SSAValue
    work: Callable[[AnyLayout], Work]


@dataclass(frozen=True)
class Uses:
    """What one launch does for given strides: in shared memory by tensor, and otherwise."""

    shared: Sequence[SharedUse] = ()
    other: Work = field(default_factory=Work)


@dataclass(frozen=True)
class AccessCosts:
    """Accesses of one operator that depend on the strides of ``values`` together.

    ``uses`` takes their strides in order.
    """

    values: tuple[SSAValue, ...]
    uses: Callable[[Sequence[Strides]], Uses]


def shared_use(
    value: SSAValue,
    work: Callable[[Tile], Work],
    times: int,
    element_bytes: int | None = None,
) -> SharedUse:
    """Accesses to one tensor, done ``times`` a launch, ``work`` each."""
    shape, size = shape_of(value.type), element_bytes or element_bytes_of(value.type)
    return SharedUse(value, lambda layout: work(Tile(shape, layout, size)).times(times))


def operand_of(
    value: SSAValue, strides: Strides, element_bytes: int | None = None
) -> PartitionedOperand:
    """A shared tensor under candidate strides, as the choice of a partition sees it."""
    size = element_bytes or element_bytes_of(value.type)
    return PartitionedOperand(shape_of(value.type), strides, size)


def _shared(op: Operation) -> list[SSAValue]:
    """The shared tensors of an operator, its results first."""
    values = (*op.results, *op.operands)
    return [value for value in values if isinstance(value.type, STensorType)]


@singledispatch
def layout_costs(op: Operation, site: Site) -> Sequence[AccessCosts]:
    """The accesses of an operator, for any strides of its tensors.

    An operator without a function of its own counts as element-wise where the extents of its
    tensors broadcast; otherwise each of its tensors is walked along its innermost dimension.
    Operators of other dialects register theirs.
    """
    values = _shared(op)
    if values:
        try:
            domain = broadcast_shape([shape_of(value.type) for value in values])
        except ShapeError:
            return [walked_alone(op, value, site) for value in values]
        if domain == shape_of(values[0].type) and op.results:
            return elementwise_costs(op, values, site)
        return [walked_alone(op, value, site) for value in values]
    return kernel_costs(op)


def walked_alone(op: Operation, value: SSAValue, site: Site) -> AccessCosts:
    """One tensor that all threads walk through on their own account."""
    shape, writes = shape_of(value.type), value in op.results

    def uses(strides: Sequence[Strides]) -> Uses:
        partition = choose_partition(shape, [operand_of(value, strides[0])], site.threads)

        def work(tile: Tile) -> Work:
            return partitioned_work(tile, shape, partition, writes=writes)

        return Uses([shared_use(value, work, site.executions(op))])

    return AccessCosts((value,), uses)


def elementwise_costs(
    op: Operation, values: Sequence[SSAValue], site: Site
) -> Sequence[AccessCosts]:
    """An element-wise operator: ``values`` are its result and its operands."""
    result, *sources = values
    domain, executions = shape_of(result.type), site.executions(op)
    in_registers = op in site.in_registers
    sums_in_memory = accumulates(op) and not in_registers
    result_bytes = ACCUMULATOR_BYTES if sums_in_memory else None

    def uses(strides: Sequence[Strides]) -> Uses:
        operands = [operand_of(result, strides[0], result_bytes)]
        operands += [operand_of(v, own) for v, own in zip(sources, strides[1:], strict=True)]
        partition = choose_partition(domain, operands, site.threads)

        def reads(tile: Tile) -> Work:
            return partitioned_work(tile, domain, partition, writes=False)

        def writes(tile: Tile) -> Work:
            written = partitioned_work(tile, domain, partition, writes=True)
            return written + reads(tile) if sums_in_memory else written

        shared = [shared_use(value, reads, executions) for value in sources]
        times = site.blocks if in_registers else executions
        return Uses([*shared, shared_use(result, writes, times, result_bytes)])

    return [AccessCosts(tuple(values), uses)]


def kernel_costs(op: Operation) -> Sequence[AccessCosts]:
    """A kernel of its own that walks its result as it lies in memory, and its operands alike."""
    tensors = [value for value in (*op.results, *op.operands) if has_layouts(value.type)]
    if not tensors:
        return []
    rank = len(shape_of(tensors[0].type))
    alike = [value for value in tensors if len(shape_of(value.type)) == rank]
    return [walked_by_kernel(alike, [shape_of(value.type) for value in alike])]


def walked_by_kernel(values: Sequence[SSAValue], shapes: Sequence[tuple[int, ...]]) -> AccessCosts:
    """A kernel that walks the first of its tensors as it lies in memory, and the others alike.

    ``shapes`` are the extents that it touches of each.
    """
    domain = shapes[0]
    widest = max(element_bytes_of(value.type) for value in values)

    def uses(strides: Sequence[Strides]) -> Uses:
        inner = innermost_dimension(domain, strides[0])
        inner = len(domain) - 1 if inner is None else inner
        contiguous = all(
            own[inner] == 1 or shape[inner] == 1 for shape, own in zip(shapes, strides, strict=True)
        )
        vector = VECTOR_BYTES // widest if contiguous else 1
        total = Work()
        for value, shape, own in zip(values, shapes, strides, strict=True):
            size = element_bytes_of(value.type)
            total += kernel_operand_work(shape, own, domain, inner, size, vector)
        return Uses(other=total)

    return AccessCosts(tuple(values), uses)


@layout_costs.register
def _(op: kn.MatmulOp, site: Site) -> Sequence[AccessCosts]:
    # cuBLAS takes each operand either way; what it cannot take is a hard constraint.
    return []


@layout_costs.register
def _(op: kn.MovesElements, site: Site) -> Sequence[AccessCosts]:
    # Each part has a kernel of its own.
    moved = ((move, min(shape_of(value.type) for value in move[:2])) for move in op.moves())
    return [walked_by_kernel((to, source), (part, part)) for (source, to, _), part in moved]


@layout_costs.register
def _(op: tb.MovingOp, site: Site) -> Sequence[AccessCosts]:
    # A whole tile is touched once for each part, in the order that suits that part.
    return [_move_costs(op, move, site) for move in op.moves()]


def _move_costs(op: tb.MovingOp, move: Move, site: Site) -> AccessCosts:
    source, destination, start = move
    part, whole = move[:2] if isinstance(op, tb.ConcatOp) else (destination, source)
    shape = shape_of(part.type)

    def uses(strides: Sequence[Strides]) -> Uses:
        of_part, of_whole = (
            operand_of(v, own) for v, own in zip((part, whole), strides, strict=True)
        )
        partition = choose_move_partition(of_part, of_whole, start, site.threads)

        def work(value: SSAValue) -> Callable[[Tile], Work]:
            first = start if value is whole else ()
            return lambda tile: partitioned_work(
                tile, shape, partition, writes=value is destination, start=first
            )

        return Uses(
            [shared_use(value, work(value), site.executions(op)) for value in (part, whole)]
        )

    return AccessCosts((part, whole), uses)


@layout_costs.register
def _(op: tb.MatmulOp, site: Site) -> Sequence[AccessCosts]:
    warps, executions, threads = site.warps_of(op), site.executions(op), site.threads
    sharing = ProductPartition(warps.atom, warps.m, warps.n, warps.k)
    as_stored = loads_as_stored(warps.atom, element_type_name(element_type_of(op.lhs.type)))
    in_registers = op in site.in_registers
    sums_in_memory = accumulates(op) and not in_registers

    def load(value: SSAValue, is_a: bool) -> AccessCosts:
        def work(tile: Tile) -> Work:
            return operand_work(tile, sharing, is_a=is_a, as_stored=as_stored, threads=threads)

        return AccessCosts((value,), lambda _: Uses([shared_use(value, work, executions)]))

    def store(tile: Tile) -> Work:
        if warps.k > 1:
            # What writes the result is the sum over the warps along k, element by element.
            operand = operand_of(op.result, strides_of(tile.layout), tile.element_bytes)
            partition = choose_partition(tile.shape, [operand], threads)
            return partitioned_work(tile, tile.shape, partition, writes=True)
        return fragment_work(tile, sharing, threads=threads, accumulates=sums_in_memory)

    stored = shared_use(
        op.result,
        store,
        site.blocks if in_registers else executions,
        ACCUMULATOR_BYTES if sums_in_memory else None,
    )
    return [
        load(op.lhs, True),
        load(op.rhs, False),
        AccessCosts((op.result,), lambda _: Uses([stored])),
    ]


@layout_costs.register
def _(op: tb.AnyReductionOp, site: Site) -> Sequence[AccessCosts]:
    groups, sums_up, executions = op.groups(), accumulates(op), site.executions(op)
    results = shape_of(op.result.type)
    lanes = choose_lanes(math.prod(results), groups.count, site.threads)
    result_bytes = ACCUMULATOR_BYTES if sums_up else None

    def uses(strides: Sequence[Strides]) -> Uses:
        order = result_order(operand_of(op.result, strides[1], result_bytes))
        sums = Sums(groups, op.reduced_dim, lanes, LinearPartition(site.threads, 1, order))

        def read(tile: Tile) -> Work:
            return reduction_source_work(tile, results, sums)

        def write(tile: Tile) -> Work:
            return reduction_result_work(tile, sums, accumulates=sums_up)

        return Uses(
            [
                shared_use(op.input, read, executions),
                shared_use(op.result, write, executions, result_bytes),
            ]
        )

    return [AccessCosts((op.input, op.result), uses)]


def _copy_costs(
    op: tb.InputOp | tb.OutputOp, stensor: SSAValue, site: Site, *, stores: bool
) -> Sequence[AccessCosts]:
    executions = site.executions(op)
    iterations = max(1, executions // site.blocks)

    def uses(strides: Sequence[Strides]) -> Uses:
        copy = op.tile_copy(strides[0], strides[1])

        def work(tile: Tile) -> Work:
            return copy_work(copy, tile.layout, site.threads, iterations, stores=stores)

        return Uses([shared_use(stensor, work, executions)])

    return [AccessCosts((op.dtensor, stensor), uses)]


@layout_costs.register
def _(op: tb.InputOp, site: Site) -> Sequence[AccessCosts]:
    # A tile that nothing reads is not loaded.
    return [] if op.result.first_use is None else _copy_costs(op, op.result, site, stores=False)


@layout_costs.register
def _(op: tb.OutputOp, site: Site) -> Sequence[AccessCosts]:
    return _copy_costs(op, op.stensor, site, stores=True)
