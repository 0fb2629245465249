"""What accesses to memory move under a given layout: counts, for one execution by one block.

The mappings are those that schedules and the header library use
(:mod:`mugraph.dialects.sched.mappings`), and the counting that of
:mod:`mugraph.passes.memory.wavefronts`.  Nothing here knows of IR.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mugraph.dialects.copies import ASYNC_BYTES, TileCopy, copy_vector, global_innermost
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.atoms import MmaAtom
from mugraph.dialects.cute.thread_values import accumulator_values
from mugraph.dialects.partition import VECTOR_BYTES, LinearPartition, iteration_order
from mugraph.dialects.sched.mappings import (
    IntArray,
    ReduceSum,
    Stream,
    fragment_stream,
    iteration_layout,
    matrix_layout,
    read_only,
    reduce_destination_stream,
    reduce_source_stream,
    vector_stream,
    with_offset,
)
from mugraph.dialects.sched.operand_mappings import (
    MatmulOperand,
    ScalarOperand,
    element_stream,
    ldmatrix_streams,
    scalar_stream,
)
from mugraph.dialects.tb.reduction import Groups
from mugraph.dialects.tensor_types import AnyLayout, innermost_dimension, strides_of
from mugraph.passes.memory.wavefronts import (
    SECTOR_BYTES,
    WARP,
    distinct_instructions,
    group_wavefronts,
    ideal_wavefronts,
    lane_addresses,
    lanes_together,
    ldmatrix_wavefronts,
    load_wavefronts,
    sector_residues,
    sectors,
    store_wavefronts,
)
from mugraph.passes.schedule.plan_swizzle.choose import layout_of_rows

_CACHED = 1 << 15
_CACHED_ARRAYS = 256


@dataclass(frozen=True)
class AccessWork:
    """Sectors of device memory, wavefronts of shared memory, and warp instructions.

    ``latencies``: how often the block waits for device memory with nothing else to do.
    ``conflicts`` are the wavefronts beyond those that the bytes need.
    """

    sectors: float = 0
    wavefronts: float = 0
    instructions: float = 0
    latencies: float = 0
    conflicts: float = 0

    def __add__(self, other: AccessWork) -> AccessWork:
        return AccessWork(
            self.sectors + other.sectors,
            self.wavefronts + other.wavefronts,
            self.instructions + other.instructions,
            self.latencies + other.latencies,
            self.conflicts + other.conflicts,
        )

    def times(self, count: float) -> AccessWork:
        """The same work ``count`` times."""
        return AccessWork(
            self.sectors * count,
            self.wavefronts * count,
            self.instructions * count,
            self.latencies * count,
            self.conflicts * count,
        )


class Tile(NamedTuple):
    """A tensor in shared memory: its extents, its layout, and bytes an element."""

    shape: tuple[int, ...]
    layout: AnyLayout
    element_bytes: int

    @property
    def innermost(self) -> int | None:
        """The dimension of stride 1."""
        return innermost_dimension(self.shape, strides_of(self.layout))


@lru_cache(_CACHED)
def plain_layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    """The layout without a swizzle."""
    return Layout(shape, strides)


@lru_cache(_CACHED)
def swizzles_of(
    shape: tuple[int, ...], strides: tuple[int, ...], element_bytes: int
) -> tuple[AnyLayout, ...]:
    """The plain layout, then those that are planned where threads step from row to row.

    One for each width of access: 16, 8 and 4 bytes, as far as they differ.
    """
    layouts: list[AnyLayout] = [plain_layout(shape, strides)]
    for width in (16, 8, 4):
        chunk = width // element_bytes
        if chunk:
            chosen = layout_of_rows(shape, strides, element_bytes, chunk)
            if chosen not in layouts:
                layouts.append(chosen)
    return tuple(layouts)


def _loads(stream: Stream, element_bytes: int) -> AccessWork:
    addresses = lane_addresses(stream.offsets, element_bytes)
    size = stream.width * element_bytes
    return shared_work(load_wavefronts(addresses, size), addresses, size)


def _stores(stream: Stream, element_bytes: int) -> AccessWork:
    addresses = lane_addresses(stream.offsets, element_bytes)
    size = stream.width * element_bytes
    return shared_work(store_wavefronts(addresses, size), addresses, size)


def shared_work(wavefronts: IntArray, addresses: IntArray, size: int) -> AccessWork:
    """The work of instructions whose wavefronts are counted, each of ``size`` bytes a thread."""
    moved = int(wavefronts.sum())
    conflicts = max(0, moved - int(ideal_wavefronts(addresses, size).sum()))
    return AccessWork(wavefronts=moved, instructions=len(addresses), conflicts=conflicts)


@lru_cache(_CACHED)
def partitioned_work(
    tile: Tile,
    domain: tuple[int, ...],
    partition: LinearPartition,
    *,
    writes: bool,
    start: tuple[int, ...] = (),
) -> AccessWork:
    """The loads or stores of an operand of an operation over ``domain``, dealt out linearly.

    Where the operand is larger, of the part of it that begins at ``start``.
    """
    over = iteration_layout(tile.layout, tile.shape, domain, partition.order)
    if any(start):
        strides = strides_of(tile.layout)
        over = with_offset(over, sum(at * step for at, step in zip(start, strides, strict=True)))
    threads, vector = partition.threads, partition.vector
    stream = vector_stream(over, threads, vector, tile.element_bytes, block=threads)
    return (_stores if writes else _loads)(stream, tile.element_bytes)


class ProductPartition(NamedTuple):
    """The instruction of a matrix product, and how many warps lie along m, n and k.

    For an instruction of single threads, how many threads.
    """

    atom: MmaAtom
    m: int
    n: int
    k: int = 1


@lru_cache(_CACHED)
def operand_work(
    tile: Tile, product: ProductPartition, *, is_a: bool, as_stored: bool, threads: int
) -> AccessWork:
    """The loads of one operand of a matrix product, by ``ldmatrix`` where it can.

    ``as_stored``: whether the instruction takes the elements without a conversion of their width.
    """
    rank = len(tile.shape)
    matrix = matrix_layout(tile.layout, tile.shape, transposed=not is_a)
    if product.atom.is_scalar:
        scalar = ScalarOperand(is_a, product.m, product.n, matrix)
        return _loads(scalar_stream(scalar, block=threads), tile.element_bytes)
    mapping = MatmulOperand(is_a, product.m, product.n, matrix, product.atom.packed, product.k)
    innermost = tile.innermost
    by_lines = (
        as_stored
        and innermost is not None
        and innermost >= rank - 2
        and mapping.has_aligned_lines()
    )
    if not by_lines:
        return _loads(element_stream(mapping, block=threads), tile.element_bytes)
    total = AccessWork()
    for _, stream in ldmatrix_streams(mapping, block=threads):
        addresses = lane_addresses(stream.offsets, tile.element_bytes)
        total += shared_work(ldmatrix_wavefronts(addresses), addresses, VECTOR_BYTES)
    return total


@lru_cache(_CACHED)
def fragment_work(
    tile: Tile, product: ProductPartition, *, threads: int, accumulates: bool = False
) -> AccessWork:
    """The stores of the accumulator of a product, after loads where it is added to a sum."""
    *_, rows, columns = tile.shape
    held = accumulator_values(product.atom, (product.m, product.n, 1), (rows, columns))
    matrix = matrix_layout(tile.layout, tile.shape)
    stream = fragment_stream(held, matrix, block=threads)
    work = _stores(stream, tile.element_bytes)
    return work + _loads(stream, tile.element_bytes) if accumulates else work


class Sums(NamedTuple):
    """A reduction: which elements each result sums, and how threads share the work."""

    groups: Groups
    dim: int
    lanes: int
    partition: LinearPartition


@lru_cache(_CACHED)
def reduction_source_work(source: Tile, results: tuple[int, ...], sums: Sums) -> AccessWork:
    """The loads of a reduction's operand by the lanes that share each sum."""
    strides = list(strides_of(source.layout))
    step = sums.groups.step * strides[sums.dim]
    strides[sums.dim] *= sums.groups.start_step
    order = sums.partition.order
    reduction = ReduceSum(
        source.layout,
        Layout(sums.groups.count, step),
        Layout(tuple(results[d] for d in order), tuple(strides[d] for d in order)),
        sums.partition.threads,
        sums.lanes,
    )
    stream = reduce_source_stream(reduction, source.element_bytes, block=sums.partition.threads)
    return _loads(stream, source.element_bytes)


@lru_cache(_CACHED)
def reduction_result_work(result: Tile, sums: Sums, *, accumulates: bool) -> AccessWork:
    """The stores of the sums by one lane each, after loads where they are added to."""
    order, threads = sums.partition.order, sums.partition.threads
    outputs = Layout(tuple(result.shape[d] for d in order))
    # Only the number of outputs counts here, not where their operands lie.
    reduction = ReduceSum(outputs, Layout(1, 1), outputs, threads, sums.lanes)
    target = iteration_layout(result.layout, result.shape, result.shape, order)
    stream = reduce_destination_stream(reduction, target, block=threads)
    work = _stores(stream, result.element_bytes)
    return work + _loads(stream, result.element_bytes) if accumulates else work


@lru_cache(_CACHED)
def copy_work(
    copy: TileCopy, layout: AnyLayout, threads: int, iterations: int, *, stores: bool
) -> AccessWork:
    """A copy of a tile between device memory and shared memory, which has ``layout``.

    Sectors are those that an instruction touches: one that it asks for again, because its writes
    conflict, does not come from device memory again.  They are the mean over blocks and
    iterations, which differ in where a tile starts within a sector.  ``copy.tile_strides`` are
    those of the layout without its swizzle.
    """
    vector = copy_vector(copy)
    size = vector * copy.element_bytes
    order = iteration_order(copy.tile, global_innermost(copy))
    device = _DeviceSide(copy.tile, copy.strides, copy.element_bytes, order, vector, threads)
    sources = _device_accesses(device)
    shared = _copy_stream(layout, device)
    # A swizzle finer than the vectors rules out cp.async.
    if not stores and size in ASYNC_BYTES and shared.width == sources.width:
        targets = lane_addresses(shared.offsets, copy.element_bytes)
        written = group_wavefronts(targets, size, lanes_together(size))
        wavefronts: IntArray = np.maximum(written, _device_wavefronts(device, size)).sum(axis=1)
        own = shared_work(wavefronts, targets, size)
    else:
        own = (_loads if stores else _stores)(shared, copy.element_bytes)
        own += AccessWork(instructions=len(sources.addresses), latencies=0 if stores else 1)
    starts = start_residues(copy, iterations)
    moved = sum(times * _device_sectors(device, start) for start, times in starts.items())
    return own + AccessWork(sectors=moved / sum(starts.values()))


class _DeviceSide(NamedTuple):
    """The side of a copy in device memory, which is the same for all layouts of the tile."""

    tile: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int
    order: tuple[int, ...]
    vector: int
    threads: int


@dataclass(frozen=True, eq=False)
class _DeviceAccesses:
    """Addresses by warp instruction and lane; ``kinds`` are rows of which each stands for many."""

    width: int
    addresses: IntArray
    kinds: IntArray
    counts: IntArray


def _copy_stream(layout: AnyLayout, copy: _DeviceSide) -> Stream:
    over = iteration_layout(layout, copy.tile, copy.tile, copy.order)
    return vector_stream(over, copy.threads, copy.vector, copy.element_bytes, block=copy.threads)


@lru_cache(_CACHED_ARRAYS)
def _device_accesses(copy: _DeviceSide) -> _DeviceAccesses:
    """The accesses to a tile that starts at address 0."""
    stream = _copy_stream(Layout(copy.tile, copy.strides), copy)
    addresses = read_only(lane_addresses(stream.offsets, copy.element_bytes))
    distinct = distinct_instructions(addresses)
    if distinct is None:
        counts = np.ones(len(addresses), dtype=np.int64)
        return _DeviceAccesses(stream.width, addresses, addresses, counts)
    first, kind = distinct
    return _DeviceAccesses(stream.width, addresses, addresses[first], np.bincount(kind))


@lru_cache(_CACHED_ARRAYS)
def _device_wavefronts(copy: _DeviceSide, size: int) -> IntArray:
    """What the groups of ``cp.async`` take as if the tile lay in the 32 banks."""
    addresses = _device_accesses(copy).addresses
    return read_only(group_wavefronts(addresses, size, lanes_together(size)))


@lru_cache(_CACHED)
def _device_sectors(copy: _DeviceSide, start: int) -> int:
    """The sectors of a tile that starts ``start`` bytes into one."""
    accesses = _device_accesses(copy)
    moved = np.where(accesses.kinds < 0, -1, accesses.kinds + start)
    return int(sectors(moved, accesses.width * copy.element_bytes) @ accesses.counts)


def start_residues(copy: TileCopy, iterations: int) -> Counter[int]:
    """Where tiles start within a sector, in bytes, and how many blocks and iterations do so."""
    steps = (
        (iterations, copy.iteration_stride() * copy.element_bytes),
        *zip(
            copy.slicing.grid,
            (move * copy.element_bytes for move in copy.block_strides()),
            strict=True,
        ),
    )
    return sector_residues(steps)


@lru_cache(_CACHED)
def kernel_operand_work(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    domain: tuple[int, ...],
    inner: int,
    element_bytes: int,
    vector: int,
) -> AccessWork:
    """What a kernel of its own reads or writes of one tensor, for the whole launch.

    Neighbouring threads walk along ``inner`` of ``domain``.  Elements that lie one after the other
    share sectors; others bring a sector each, unless they are less than one apart.
    """
    # A sum reads more than it writes, a broadcast tensor is read more than once.
    elements = max(math.prod(domain), math.prod(shape))
    if shape[inner] == 1 and domain[inner] > 1:
        # One element for a whole row of threads: a sector a warp.
        return AccessWork(
            sectors=elements / (WARP * vector), instructions=elements / (WARP * vector)
        )
    distance = max(strides[inner], 1) * element_bytes if domain[inner] > 1 else element_bytes
    moved = elements * min(distance, SECTOR_BYTES) / SECTOR_BYTES
    width = vector if strides[inner] == 1 or domain[inner] == 1 else 1
    return AccessWork(sectors=moved, instructions=elements / (WARP * width))
