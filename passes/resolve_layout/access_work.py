"""What accesses to memory move under given strides: counts, for one execution by one block.

The mappings are those that schedules and the header library use
(:mod:`mugraph.dialects.sched.mappings`), and the counting that of
:mod:`mugraph.passes.analysis.wavefronts`.  An access to shared memory counts under the better of
its plain layout and that with the swizzle, or padding, that suits this access best: what remains
are conflicts that no swizzle removes.  Nothing here knows of IR.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mugraph.dialects.copies import ASYNC_BYTES, TileCopy, copy_vector, global_innermost
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.atoms import MmaAtom
from mugraph.dialects.partition import VECTOR_BYTES, LinearPartition, iteration_order
from mugraph.dialects.sched.mappings import (
    IntArray,
    MmaFragment,
    ReduceSum,
    Stream,
    iteration_layout,
    matrix_layout,
    mma_fragment_stream,
    reduce_destination_stream,
    reduce_source_stream,
    vector_stream,
)
from mugraph.dialects.sched.operand_mappings import (
    MatmulOperand,
    ScalarOperand,
    element_stream,
    ldmatrix_streams,
    scalar_stream,
)
from mugraph.dialects.tb.compute import Groups
from mugraph.dialects.tensor_types import AnyLayout, innermost_dimension
from mugraph.passes.analysis.wavefronts import (
    SECTOR_BYTES,
    WARP,
    copy_sectors,
    copy_wavefronts,
    ldmatrix_wavefronts,
    load_wavefronts,
    sectors,
    store_wavefronts,
)
from mugraph.passes.plan_swizzle.choose import SwizzleDemand, choose_swizzle

_CACHED = 4096


@dataclass(frozen=True)
class Work:
    """Sectors of device memory, wavefronts of shared memory, and warp instructions.

    ``latencies``: how often the block waits for device memory with nothing else to do.
    """

    sectors: float = 0
    wavefronts: float = 0
    instructions: float = 0
    latencies: float = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.sectors + other.sectors,
            self.wavefronts + other.wavefronts,
            self.instructions + other.instructions,
            self.latencies + other.latencies,
        )

    def times(self, count: float) -> Work:
        """The same work ``count`` times."""
        return Work(
            self.sectors * count,
            self.wavefronts * count,
            self.instructions * count,
            self.latencies * count,
        )


@dataclass(frozen=True)
class Tile:
    """A tensor in shared memory: its extents, strides in elements, and bytes an element."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int

    def layouts(self, walk: int, chunk: int) -> Iterator[AnyLayout]:
        """The plain layout, then that which planning gives to threads that step along ``walk``."""
        plain = Layout(self.shape, self.strides)
        yield plain
        demand = SwizzleDemand(
            self.shape, self.strides, self.element_bytes, chunk, frozenset([walk])
        )
        chosen = choose_swizzle(demand)
        if chosen != plain:
            yield chosen

    def with_element_bytes(self, element_bytes: int) -> Tile:
        """The same extents and strides for elements of another size."""
        return Tile(self.shape, self.strides, element_bytes)


def addresses_of(stream: Stream, element_bytes: int, start: int = 0) -> IntArray:
    """Byte addresses by warp instruction and lane, ``[instructions, 32]``; idle warps left out."""
    missing = -stream.offsets.shape[1] % WARP
    offsets = np.pad(stream.offsets, ((0, 0), (0, missing)), constant_values=-1)
    offsets = offsets.reshape(-1, WARP)
    offsets = offsets[(offsets >= 0).any(axis=1)]
    return np.where(offsets < 0, -1, start + offsets * element_bytes)


def _load(stream: Stream, element_bytes: int) -> Work:
    addresses = addresses_of(stream, element_bytes)
    wavefronts = load_wavefronts(addresses, stream.width * element_bytes)
    return Work(wavefronts=int(wavefronts.sum()), instructions=len(addresses))


def _store(stream: Stream, element_bytes: int) -> Work:
    addresses = addresses_of(stream, element_bytes)
    wavefronts = store_wavefronts(addresses, stream.width * element_bytes)
    return Work(wavefronts=int(wavefronts.sum()), instructions=len(addresses))


def _best(works: Iterator[Work]) -> Work:
    """The least wavefronts, then instructions; the first of equals."""
    return min(works, key=lambda work: (work.wavefronts, work.instructions))


@lru_cache(_CACHED)
def partitioned_work(
    tile: Tile, domain: tuple[int, ...], partition: LinearPartition, *, writes: bool
) -> Work:
    """The loads or stores of an operand of an operation over ``domain``, dealt out linearly."""
    count = _store if writes else _load

    def works() -> Iterator[Work]:
        for layout in tile.layouts(partition.inner, partition.vector):
            over = iteration_layout(layout, tile.shape, domain, partition.order)
            stream = vector_stream(
                over,
                partition.threads,
                partition.vector,
                tile.element_bytes,
                block=partition.threads,
            )
            yield count(stream, tile.element_bytes)

    return _best(works())


@dataclass(frozen=True)
class ProductPartition:
    """The instruction of a matrix product, and how many warps lie along m and n.

    For an instruction of single threads, how many threads.
    """

    atom: MmaAtom
    m: int
    n: int


@lru_cache(_CACHED)
def operand_work(
    tile: Tile, product: ProductPartition, *, is_a: bool, as_stored: bool, threads: int
) -> Work:
    """The loads of one operand of a matrix product, by ``ldmatrix`` where it can.

    ``as_stored``: whether the instruction takes the elements without a conversion of their width.
    """
    rank = len(tile.shape)
    innermost = innermost_dimension(tile.shape, tile.strides)
    walk = rank - 2 if innermost == rank - 1 else rank - 1

    def works() -> Iterator[Work]:
        for layout in tile.layouts(walk, VECTOR_BYTES // tile.element_bytes):
            matrix = matrix_layout(layout, tile.shape, transposed=not is_a)
            if product.atom.is_scalar:
                scalar = ScalarOperand(is_a, product.m, product.n, matrix)
                yield _load(scalar_stream(scalar, block=threads), tile.element_bytes)
                continue
            mapping = MatmulOperand(is_a, product.m, product.n, matrix, product.atom.packed)
            by_lines = (
                as_stored
                and innermost is not None
                and innermost >= rank - 2
                and mapping.has_aligned_lines()
            )
            if not by_lines:
                yield _load(element_stream(mapping, block=threads), tile.element_bytes)
                continue
            total = Work()
            for _, stream in ldmatrix_streams(mapping, block=threads):
                addresses = addresses_of(stream, tile.element_bytes)
                wavefronts = int(ldmatrix_wavefronts(addresses).sum())
                total += Work(wavefronts=wavefronts, instructions=len(addresses))
            yield total

    return _best(works())


@lru_cache(_CACHED)
def fragment_store_work(tile: Tile, product: ProductPartition, *, threads: int) -> Work:
    """The stores of the accumulator of a matrix product."""
    rank = len(tile.shape)
    innermost = innermost_dimension(tile.shape, tile.strides)
    walk = rank - 2 if innermost == rank - 1 else rank - 1
    *_, rows, columns = tile.shape
    fragment = MmaFragment(product.atom, product.m, product.n, rows, columns)

    def works() -> Iterator[Work]:
        for layout in tile.layouts(walk, VECTOR_BYTES // tile.element_bytes):
            matrix = matrix_layout(layout, tile.shape)
            yield _store(mma_fragment_stream(fragment, matrix, block=threads), tile.element_bytes)

    return _best(works())


@lru_cache(_CACHED)
def reduction_work(
    source: Tile,
    result: Tile,
    groups: Groups,
    dim: int,
    lanes: int,
    partition: LinearPartition,
    *,
    accumulates: bool,
) -> Work:
    """The loads of a sum's operand by the lanes that share it, and the stores of the sums."""

    def reads() -> Iterator[Work]:
        walk = dim if lanes > 1 else partition.inner
        for layout in source.layouts(walk, 1):
            strides = list(source.strides)
            step = groups.step * strides[dim]
            strides[dim] *= groups.start_step
            reduction = ReduceSum(
                layout,
                Layout(groups.count, step),
                Layout(
                    tuple(result.shape[d] for d in partition.order),
                    tuple(strides[d] for d in partition.order),
                ),
                partition.threads,
                lanes,
            )
            stream = reduce_source_stream(reduction, source.element_bytes, block=partition.threads)
            yield _load(stream, source.element_bytes)

    plain = Layout(source.shape, source.strides)
    reduction = ReduceSum(
        plain,
        Layout(groups.count, 1),
        Layout(tuple(result.shape[d] for d in partition.order)),
        partition.threads,
        lanes,
    )
    target = iteration_layout(
        Layout(result.shape, result.strides), result.shape, result.shape, partition.order
    )
    stream = reduce_destination_stream(reduction, target, block=partition.threads)
    sums = _store(stream, result.element_bytes)
    if accumulates:
        sums += _load(stream, result.element_bytes)
    return _best(reads()) + sums


@lru_cache(_CACHED)
def copy_work(copy: TileCopy, threads: int, iterations: int, *, stores: bool) -> Work:
    """A copy of a tile between device memory and shared memory.

    Sectors are the mean over blocks and iterations, which differ in where a tile starts within a
    sector.
    """
    vector = copy_vector(copy)
    while vector * copy.element_bytes > VECTOR_BYTES:
        vector //= 2
    size = vector * copy.element_bytes
    inner = global_innermost(copy)
    order = iteration_order(copy.tile, inner)

    def stream_of(layout: AnyLayout) -> Stream:
        over = iteration_layout(layout, copy.tile, copy.tile, order)
        return vector_stream(over, threads, vector, copy.element_bytes, block=threads)

    is_async = not stores and size in ASYNC_BYTES
    device = stream_of(Layout(copy.tile, copy.strides))
    starts = start_residues(copy, iterations)
    sources = addresses_of(device, copy.element_bytes)
    tile = Tile(copy.tile, copy.tile_strides, copy.element_bytes)
    executions = sum(starts.values())

    def works() -> Iterator[Work]:
        for layout in tile.layouts(inner, vector):
            shared = stream_of(layout)
            if is_async:
                targets = addresses_of(shared, copy.element_bytes)
                wavefronts = int(copy_wavefronts(targets, sources, size).sum())
                moved = sum(
                    times * int(copy_sectors(targets, _moved(sources, start), size).sum())
                    for start, times in starts.items()
                )
                yield Work(moved / executions, wavefronts, len(sources))
                continue
            own = (
                _load(shared, copy.element_bytes) if stores else _store(shared, copy.element_bytes)
            )
            size_of_access = device.width * copy.element_bytes
            moved = sum(
                times * int(sectors(_moved(sources, start), size_of_access).sum())
                for start, times in starts.items()
            )
            wait = 0 if stores else 1
            yield own + Work(moved / executions, 0, len(sources), wait)

    return _best(works())


def _moved(addresses: IntArray, by: int) -> IntArray:
    return np.where(addresses < 0, -1, addresses + by)


def start_residues(copy: TileCopy, iterations: int) -> Counter[int]:
    """Where tiles start within a sector, in bytes, and how many blocks and iterations do so."""
    counts = Counter([0])
    steps: Sequence[tuple[int, int]] = (
        (iterations, copy.iteration_stride()),
        *zip(copy.grid, copy.block_strides(), strict=True),
    )
    for extent, stride in steps:
        moves = Counter(
            index * stride * copy.element_bytes % SECTOR_BYTES for index in range(extent)
        )
        moved = Counter[int]()
        for start, times in counts.items():
            for move, number in moves.items():
                moved[(start + move) % SECTOR_BYTES] += times * number
        counts = moved
    return counts


@lru_cache(_CACHED)
def kernel_operand_work(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    domain: tuple[int, ...],
    inner: int,
    element_bytes: int,
    vector: int,
) -> Work:
    """What a kernel of its own reads or writes of one tensor, for the whole launch.

    Neighbouring threads walk along ``inner`` of ``domain``.  Elements that lie one after the other
    share sectors; others bring a sector each, unless they are less than one apart.
    """
    elements = 1
    for extent in domain:
        elements *= extent
    if shape[inner] == 1 and domain[inner] > 1:
        # One element for a whole row of threads: a sector a warp.
        return Work(sectors=elements / (WARP * vector), instructions=elements / (WARP * vector))
    distance = max(strides[inner], 1) * element_bytes if domain[inner] > 1 else element_bytes
    moved = elements * min(distance, SECTOR_BYTES) / SECTOR_BYTES
    width = vector if strides[inner] == 1 or domain[inner] == 1 else 1
    return Work(sectors=moved, instructions=elements / (WARP * width))
