"""What accesses to memory the operators make, for given strides of their tensors.

:func:`layout_costs` says it of an operator; what the accesses do is counted as the finished
kernel's are (:mod:`.access_work`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.cute.atoms import loads_as_stored
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.kn import accumulates
from mugraph.dialects.named_extents import named_extents, said_extents
from mugraph.dialects.partition import (
    VECTOR_BYTES,
    LinearPartition,
    PartitionedOperand,
    choose_lanes,
    choose_move_partition,
    choose_partition,
    result_order,
    widest_vector,
)
from mugraph.dialects.pieces import Move
from mugraph.dialects.programming_model import SECTOR_BYTES
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tb import STensorType
from mugraph.dialects.tensor_types import (
    AnyLayout,
    bytes_of,
    element_bytes_of,
    element_type_of,
    innermost_dimension,
    shape_of,
    strides_of,
)
from mugraph.passes.memory.wavefronts import WARP, WAVEFRONT_BYTES
from mugraph.passes.mugraph.resolve_layout.access_work import (
    AccessWork,
    ProductPartition,
    Sums,
    Tile,
    copy_work,
    fragment_work,
    kernel_operand_work,
    operand_work,
    partitioned_work,
    reduction_result_work,
    reduction_source_work,
)
from mugraph.passes.mugraph.resolve_layout.problem import has_layouts
from mugraph.passes.mugraph.resolve_layout.site import Site

Strides: TypeAlias = tuple[int, ...]
READ_AGAIN = 6
"""How often cuBLAS reads columns that it has no fast kernels for, by what it takes."""
ACCUMULATOR_BYTES = 4
"""Sums that stay in shared memory are fp32."""


@dataclass(frozen=True)
class SharedUse:
    """Accesses to one shared tensor: what one launch does for any layout it may be swizzled to."""

    value: SSAValue
    work: Callable[[AnyLayout], AccessWork]


@dataclass(frozen=True)
class LaunchUses:
    """What one launch does for given strides: in shared memory by tensor, and otherwise."""

    shared: Sequence[SharedUse] = ()
    other: AccessWork = field(default_factory=AccessWork)


@dataclass(frozen=True)
class AccessCosts:
    """Accesses of one operator that depend on the strides of ``values`` together.

    ``uses`` takes their strides in order.  ``least`` is what a launch does at least for one of them
    of given strides, whatever those of the others are.
    """

    values: tuple[SSAValue, ...]
    uses: Callable[[Sequence[Strides]], LaunchUses]
    least: Callable[[SSAValue, Strides], AccessWork] = lambda value, strides: AccessWork()


def shared_use(
    value: SSAValue,
    work: Callable[[Tile], AccessWork],
    times: int,
    element_bytes: int | None = None,
) -> SharedUse:
    """Accesses to one tensor, done ``times`` a launch, ``work`` each."""
    shape, size = shape_of(value.type), element_bytes or element_bytes_of(value.type)
    return SharedUse(value, lambda layout: work(Tile(shape, layout, size)).times(times))


def least_work(value: SSAValue, shape: Sequence[int], strides: Strides, times: int) -> AccessWork:
    """What it takes to touch so much of a shared tensor ``times`` a launch, each element once.

    With vectors as wide as its rows allow, and without conflicts.
    """
    operand = PartitionedOperand(tuple(shape), strides, element_bytes_of(value.type))
    elements = math.prod(shape)
    vector = widest_vector(operand)
    return AccessWork(
        wavefronts=math.ceil(elements * operand.element_bytes / WAVEFRONT_BYTES),
        instructions=math.ceil(elements / (vector * WARP)),
    ).times(times)


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


def partitioned(
    values: Sequence[SSAValue],
    domain: tuple[int, ...],
    threads: int,
    executions: int,
    use: Callable[[SSAValue, LinearPartition], SharedUse],
    choose: Callable[[Sequence[PartitionedOperand]], LinearPartition] | None = None,
    result_bytes: int | None = None,
) -> AccessCosts:
    """Tensors whose elements threads share in the same way, which their strides choose.

    ``executions`` is how often a launch touches each at least, ``result_bytes`` are those of an
    element of the first.
    """

    def operand(value: SSAValue, own: Strides) -> PartitionedOperand:
        return operand_of(value, own, result_bytes if value is values[0] else None)

    def uses(strides: Sequence[Strides]) -> LaunchUses:
        operands = [operand(value, own) for value, own in zip(values, strides, strict=True)]
        partition = choose(operands) if choose else choose_partition(domain, operands, threads)
        return LaunchUses([use(value, partition) for value in values])

    def least(value: SSAValue, own: Strides) -> AccessWork:
        touched = tuple(map(min, shape_of(value.type), domain))
        return least_work(value, touched, own, executions)

    return AccessCosts(tuple(values), uses, least)


def walked_alone(op: Operation, value: SSAValue, site: Site) -> AccessCosts:
    """One tensor that all threads walk through on their own account."""
    shape, writes = shape_of(value.type), value in op.results

    def use(value: SSAValue, partition: LinearPartition) -> SharedUse:
        def work(tile: Tile) -> AccessWork:
            return partitioned_work(tile, shape, partition, writes=writes)

        return shared_use(value, work, site.executions(op))

    return partitioned([value], shape, site.threads, site.executions(op), use)


def elementwise_costs(
    op: Operation, values: Sequence[SSAValue], site: Site
) -> Sequence[AccessCosts]:
    """An element-wise operator: ``values`` are its result and its operands."""
    result = values[0]
    if result in site.fragments:
        return []
    domain, executions = shape_of(result.type), site.executions(op)
    in_registers = op in site.in_registers
    sums_in_memory = accumulates(op) and not in_registers
    result_bytes = ACCUMULATOR_BYTES if sums_in_memory else None
    times = site.blocks if in_registers else executions

    def use(value: SSAValue, partition: LinearPartition) -> SharedUse:
        def reads(tile: Tile) -> AccessWork:
            return partitioned_work(tile, domain, partition, writes=False)

        def writes(tile: Tile) -> AccessWork:
            written = partitioned_work(tile, domain, partition, writes=True)
            return written + reads(tile) if sums_in_memory else written

        if value is result:
            return shared_use(value, writes, times, result_bytes)
        return shared_use(value, reads, executions)

    least = min(executions, times)
    return [partitioned(values, domain, site.threads, least, use, result_bytes=result_bytes)]


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

    shape_of_value = dict(zip(values, shapes, strict=True))

    def inner_of(own: Strides) -> int:
        inner = innermost_dimension(domain, own)
        return len(domain) - 1 if inner is None else inner

    def is_contiguous(value: SSAValue, own: Strides, inner: int) -> bool:
        return own[inner] == 1 or shape_of_value[value][inner] == 1

    def work(value: SSAValue, own: Strides, inner: int, *, is_wide: bool) -> AccessWork:
        size, vector = element_bytes_of(value.type), VECTOR_BYTES // widest if is_wide else 1
        return kernel_operand_work(shape_of_value[value], own, domain, inner, size, vector)

    def uses(strides: Sequence[Strides]) -> LaunchUses:
        inner = inner_of(strides[0])
        tensors = list(zip(values, strides, strict=True))
        is_wide = all(is_contiguous(*tensor, inner) for tensor in tensors)
        total = AccessWork()
        for tensor in tensors:
            total += work(*tensor, inner, is_wide=is_wide)
        return LaunchUses(other=total)

    def least(value: SSAValue, own: Strides) -> AccessWork:
        inners = [inner_of(own)] if value is values[0] else range(len(domain))
        works = (
            work(value, own, inner, is_wide=is_contiguous(value, own, inner)) for inner in inners
        )
        return min(works, key=lambda work: (work.sectors, work.instructions))

    return AccessCosts(tuple(values), uses, least)


@layout_costs.register
def _(op: kn.MatmulOp, site: Site) -> Sequence[AccessCosts]:
    # cuBLAS takes each operand either way; what it cannot take is a hard constraint.
    function = op.parent_op()
    extents = named_extents(function).values() if isinstance(function, FuncOp) else ()
    said = {extent.largest for extent in said_extents(extents) if not extent.is_fixed}
    return [_library_costs(op.lhs, -1, said), _library_costs(op.rhs, -2, said)]


def _library_costs(value: SSAValue, depth: int, said: Container[int]) -> AccessCosts:
    """An operand of a product by cuBLAS, as if it was read more often where cuBLAS is slow.

    It has slow kernels for columns of which a matrix has no multiple of 16 bytes, padded or not:
    197 x 3072 x 768 took 22.6 us on an H200 and 7.5 with rows, 1500 x 3072 x 768 46.0 and 14.1.
    Where their number is the largest that a call may ``say``, a call may have any number.
    """
    (other,) = {-1, -2} - {depth}
    count = shape_of(value.type)[other]
    is_even = count * element_bytes_of(value.type) % VECTOR_BYTES == 0 and count not in said
    again = AccessWork(sectors=READ_AGAIN * bytes_of(value.type) // SECTOR_BYTES)

    def uses(strides: Sequence[Strides]) -> LaunchUses:
        is_fast = is_even or strides[0][depth] == 1
        return LaunchUses(other=AccessWork() if is_fast else again)

    return AccessCosts((value,), uses)


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

    def choose(operands: Sequence[PartitionedOperand]) -> LinearPartition:
        return choose_move_partition(operands[0], operands[1], start, site.threads)

    def use(value: SSAValue, partition: LinearPartition) -> SharedUse:
        first = start if value is whole else ()

        def work(tile: Tile) -> AccessWork:
            writes = value is destination
            return partitioned_work(tile, shape, partition, writes=writes, start=first)

        return shared_use(value, work, site.executions(op))

    return partitioned((part, whole), shape, site.threads, site.executions(op), use, choose)


@layout_costs.register
def _(op: tb.MatmulOp, site: Site) -> Sequence[AccessCosts]:
    warps, executions, threads = site.warps_of(op), site.executions(op), site.threads
    sharing = ProductPartition(warps.atom, warps.m, warps.n, warps.k)
    as_stored = loads_as_stored(warps.atom, element_type_name(element_type_of(op.lhs.type)))
    in_registers = op in site.in_registers
    sums_in_memory = accumulates(op) and not in_registers

    def load(value: SSAValue, is_a: bool) -> AccessCosts:
        def work(tile: Tile) -> AccessWork:
            return operand_work(tile, sharing, is_a=is_a, as_stored=as_stored, threads=threads)

        return AccessCosts((value,), lambda _: LaunchUses([shared_use(value, work, executions)]))

    def store(tile: Tile) -> AccessWork:
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
    loads = [load(op.lhs, True), load(op.rhs, False)]
    if op.result in site.fragments:
        return loads
    return [*loads, AccessCosts((op.result,), lambda _: LaunchUses([stored]))]


@layout_costs.register
def _(op: tb.AnyReductionOp, site: Site) -> Sequence[AccessCosts]:
    groups, sums_up, executions = op.groups(), accumulates(op), site.executions(op)
    results = shape_of(op.result.type)
    lanes = choose_lanes(math.prod(results), groups.count, site.threads)
    result_bytes = ACCUMULATOR_BYTES if sums_up else None

    def order_of(own: Strides) -> tuple[int, ...]:
        return result_order(operand_of(op.result, own, result_bytes))

    def use(value: SSAValue, order: tuple[int, ...]) -> SharedUse:
        sums = Sums(groups, op.reduced_dim, lanes, LinearPartition(site.threads, 1, order))

        def read(tile: Tile) -> AccessWork:
            return reduction_source_work(tile, results, sums)

        def write(tile: Tile) -> AccessWork:
            return reduction_result_work(tile, sums, accumulates=sums_up)

        if value is op.result:
            return shared_use(value, write, executions, result_bytes)
        return shared_use(value, read, executions)

    def uses(strides: Sequence[Strides]) -> LaunchUses:
        return LaunchUses([use(value, order_of(strides[1])) for value in (op.input, op.result)])

    def least(value: SSAValue, own: Strides) -> AccessWork:
        return least_work(value, shape_of(value.type), own, executions)

    return [AccessCosts((op.input, op.result), uses, least)]


def _copy_costs(
    op: tb.InputOp | tb.OutputOp, stensor: SSAValue, site: Site, *, stores: bool
) -> Sequence[AccessCosts]:
    executions = site.executions(op)
    iterations = max(1, executions // site.blocks)

    def uses(strides: Sequence[Strides]) -> LaunchUses:
        copy = op.tile_copy(strides[0], strides[1])

        def work(tile: Tile) -> AccessWork:
            return copy_work(copy, tile.layout, site.threads, iterations, stores=stores)

        return LaunchUses([shared_use(stensor, work, executions)])

    return [AccessCosts((op.dtensor, stensor), uses)]


@layout_costs.register
def _(op: tb.InputOp, site: Site) -> Sequence[AccessCosts]:
    # A tile that nothing reads is not loaded.
    return [] if op.result.first_use is None else _copy_costs(op, op.result, site, stores=False)


@layout_costs.register
def _(op: tb.OutputOp, site: Site) -> Sequence[AccessCosts]:
    return _copy_costs(op, op.stensor, site, stores=True)
