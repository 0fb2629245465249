"""The accesses to memory that an operator of a schedule declares: its access streams.

An operator says for each operand in memory which element every thread of the block touches with
every instruction, in which order, and by which proxy.  The interpreter, the hazard checker and the
counter of bank conflicts read only this.  The mappings are those of the header library
(:mod:`mugraph.dialects.sched.mappings`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.ragged import RaggedDim
from mugraph.dialects.sched.local_tile import LocalTileOp
from mugraph.dialects.sched.mappings import (
    IDLE,
    Access,
    IntArray,
    MappingError,
    Stream,
    access_of,
    iteration_layout,
    vector_coordinates,
    vector_stream,
)
from mugraph.dialects.sched.role import enclosing_threads
from mugraph.dialects.sched.structure import AllocOp, enclosing_loop
from mugraph.dialects.sched.types import GlobalType
from mugraph.dialects.tensor_types import (
    AnyLayout,
    element_bytes_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)


class AccessError(DiagnosticException):
    """An operator's accesses cannot be given; the message names it and says why."""


class AccessKind(Enum):
    """What an access does with memory."""

    READ = "read"
    WRITE = "write"


class Proxy(Enum):
    """The path to memory; what one path wrote is visible to another only after a fence or wait."""

    GENERIC = "generic"
    ASYNC_COPY = "cp.async"
    BULK_COPY = "tma"
    WARPGROUP = "wgmma"


class StageReference(NamedTuple):
    """Which iteration's stage of a buffer, or tile of a tensor, an access means.

    In iteration ``it`` of the loop that of iteration ``it + ahead``, and where there is no such
    iteration the operator does nothing; outside the loop, or where it is given, that of
    ``iteration``.
    ``every_stage``: offsets run over all stages of the buffer, from its start.
    """

    ahead: int = 0
    iteration: int | None = None
    every_stage: bool = False

    def iteration_at(self, current: int) -> int:
        """The iteration meant when iteration ``current`` runs."""
        return current + self.ahead if self.iteration is None else self.iteration

    def happens_at(self, current: int, iterations: int) -> bool:
        """Whether the operator does anything in iteration ``current`` of ``iterations``."""
        return not self.ahead or 0 <= self.iteration_at(current) < iterations

    def stage_at(self, current: int, stages: int, before: int = 0) -> int:
        """The copy of a buffer of ``stages`` copies that offsets count from.

        ``before`` are the iterations of the blocks of the grid that the block has taken before.
        """
        return 0 if self.every_stage else (before + self.iteration_at(current)) % stages


@dataclass(frozen=True, eq=False)
class Predicate:
    """Which elements of an access to a ragged tile exist; those that do not are not touched.

    ``ragged`` are the dimensions that are looked at, ``strides`` the tile's along them, and
    ``coordinates`` where each access starts along each, ``[instructions, threads]``.  ``inner`` is
    the position in ``ragged`` of the dimension along which the elements of one access lie, -1
    where that dimension is not looked at.
    """

    ragged: tuple[RaggedDim, ...]
    strides: tuple[int, ...]
    coordinates: tuple[IntArray, ...]
    inner: int

    def existing(self, block: Sequence[int], iteration: int) -> tuple[int, ...]:
        """How many elements exist along each dimension in a block and an iteration."""
        return tuple(entry.bound.existing(block, iteration) for entry in self.ragged)

    def counts(self, existing: Sequence[int], width: int) -> IntArray:
        """How many of the ``width`` elements of each access exist, the first ones."""
        counts = np.full(self.coordinates[0].shape, width)
        for position, (along, count) in enumerate(zip(self.coordinates, existing, strict=True)):
            left = np.maximum(count - along, 0)
            if position == self.inner:
                counts = np.minimum(counts, left)
            else:
                counts = np.where(left > 0, counts, 0)
        return counts


@dataclass(frozen=True, eq=False)
class NamedRows:
    """Which rows the accesses to an indirect tile mean: numbers in memory name them.

    ``numbers[i, t]`` is where the number is that thread ``t`` needs for the i-th instruction,
    counted from the first number of the tile; ``stride`` is that of the rows, in elements.
    """

    numbers: IntArray
    stride: int


@dataclass(frozen=True, eq=False)
class ThreadAccess:
    """What the threads of a block do to one operand, with one kind of instruction.

    ``offsets[i, t]`` is the first of the ``width`` contiguous elements that thread ``t`` touches
    with the i-th instruction, counted in elements from the start of the buffer's stage or of the
    tensor's tile, after the swizzle; -1 where the thread is idle.  Rows are in program order.

    ``significant[i, t]`` is the number of leading elements whose values can reach a result: an
    access may read padding and neighbours that are thrown away.  ``None`` says all of them.

    ``warp_collective``: ``ldmatrix``.  A lane's offset is that of the line whose address it gives;
    every lane of the warp receives part of it, so all of them read.

    ``predicate``: which elements exist, where some do not in some blocks and iterations.

    ``rows``: which rows are meant, of a tile whose rows numbers in memory name; ``offsets`` count
    from the start of a row then.

    ``operand`` is the position of ``value`` among the operator's operands.

    ``keeps_elements``: a thread touches the same elements whatever the layout of the buffer;
    otherwise who touches what follows from addresses.
    """

    operation: Operation
    operand: int
    kind: AccessKind
    instruction: str
    stage: StageReference
    width: int
    offsets: IntArray
    significant: IntArray | None = None
    proxy: Proxy = Proxy.GENERIC
    warp_collective: bool = False
    keeps_elements: bool = True
    predicate: Predicate | None = None
    rows: NamedRows | None = None
    element_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "element_bytes", element_bytes_of(self.value.type))

    @property
    def value(self) -> SSAValue:
        """The buffer: a ``sched.alloc``, a ``sched.local_tile`` or an argument of the kernel."""
        return self.operation.operands[self.operand]

    @property
    def in_device_memory(self) -> bool:
        """Whether the buffer lies in device memory rather than in shared memory."""
        return isinstance(self.value.type, GlobalType)

    @property
    def access_bytes(self) -> int:
        """The bytes that one thread moves with one instruction."""
        return self.width * self.element_bytes

    @property
    def instructions(self) -> int:
        """How many instructions a thread executes, some of them idle."""
        return self.offsets.shape[0]

    def active(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Who takes part: ``[instructions, threads]``."""
        return self.offsets != IDLE

    def elements(self) -> IntArray:
        """The offset of every element, ``[instructions, threads, width]``; -1 where idle."""
        every = self.offsets[..., None] + np.arange(self.width)
        return np.where(self.offsets[..., None] == IDLE, IDLE, every)

    def significant_elements(self) -> IntArray:
        """As :meth:`elements`, -1 also where the value cannot reach a result."""
        if self.significant is None:
            return self.elements()
        counts = np.arange(self.width) < self.significant[..., None]
        return np.where(counts, self.elements(), IDLE)


class HasThreadAccesses(Operation, Abstract):
    """An operator of a schedule that touches shared or device memory."""

    @abstractmethod
    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """All its accesses: those that read in the order of the operands, then those that write.

        A thread reads what an instruction needs before it writes what follows from it; apart from
        that threads run at their own pace.  Raises ``AccessError`` where the runtime has no such
        access.
        """


def stage_reference(op: Operation, ahead: int = 0, iteration: int | None = None) -> StageReference:
    """What an operator means that runs ``ahead``, or is fixed to one iteration.

    Outside the loop, operators mean iteration 0 unless they say otherwise.
    """
    if iteration is None and enclosing_loop(op) is None:
        iteration = 0
    return StageReference(0 if iteration is not None else ahead, iteration)


def start_bytes(value: SSAValue, iteration: int, block: Sequence[int] = (0, 0, 0)) -> int:
    """Where the stage or tile of an iteration starts, in bytes.

    From the start of the block's shared memory, or of the kernel's argument for a tile; ``block``
    is the block's index along x, y and z.  With ``StageReference.every_stage`` pass iteration 0.
    Raises ``AccessError`` where the buffer has no offset yet.
    """
    owner = value.owner
    if isinstance(owner, LocalTileOp):
        moved = iteration * owner.iteration_stride()
        for index, stride in zip(block, owner.block_strides(), strict=True):
            moved += index * stride
        return start_bytes(owner.source, iteration, block) + moved * element_bytes_of(value.type)
    if not isinstance(owner, AllocOp):
        return 0
    if owner.byte_offset is None:
        raise AccessError(
            f"{value_label(value)} has no offset in shared memory; run --plan-stensor-memory first"
        )
    return owner.byte_offset + iteration % owner.stage_count * owner.stage_bytes()


_TYPES = {1: "b8", 2: "b16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}


def instruction_name(kind: AccessKind, value: SSAValue, size: int) -> str:
    """The plain load or store of ``size`` bytes a thread, as PTX calls it."""
    space = "global" if isinstance(value.type, GlobalType) else "shared"
    return f"{'ld' if kind is AccessKind.READ else 'st'}.{space}.{_TYPES[size]}"


def plain_access(
    op: Operation,
    operand: int,
    kind: AccessKind,
    stage: StageReference,
    stream: Stream,
    *,
    keeps_elements: bool = True,
) -> ThreadAccess:
    """An access by ordinary loads or stores."""
    value = op.operands[operand]
    size = stream.width * element_bytes_of(value.type)
    return ThreadAccess(
        op,
        operand,
        kind,
        instruction_name(kind, value, size),
        stage,
        stream.width,
        stream.offsets,
        stream.significant,
        keeps_elements=keeps_elements,
    )


@contextmanager
def naming_operand(op: Operation, value: SSAValue) -> Generator[None]:
    """Makes an ``AccessError`` of a ``MappingError``: it says of which operand it is."""
    try:
        yield
    except MappingError as error:
        raise AccessError(f"{op_label(op)}: {value_label(value)}: {error}") from error


def partitioned_stream(
    op: Operation,
    operand: int,
    partition: LinearPartition,
    domain: Sequence[int],
    *,
    apart: bool = False,
) -> Stream:
    """The accesses to one operand of an operator that deals out ``domain`` linearly."""
    value = op.operands[operand]
    layout = iteration_layout(
        resolved_layout_of(value), shape_of(value.type), domain, partition.order
    )
    with naming_operand(op, value):
        return vector_stream(
            layout,
            partition.threads,
            partition.vector,
            element_bytes_of(value.type),
            block=enclosing_threads(op),
            apart=apart,
        )


def partitioned_predicate(
    op: Operation,
    operand: int,
    partition: LinearPartition,
    domain: Sequence[int],
    ragged: Sequence[RaggedDim],
    *,
    apart: bool = False,
) -> Predicate | None:
    """Which elements of a linear partition's accesses exist; ``None`` where all of them do."""
    if not ragged:
        return None
    coordinates = partitioned_coordinates(op, operand, partition, domain, apart=apart)
    return predicate_of(ragged, op.operands[operand], coordinates, partition.inner)


def partitioned_coordinates(
    op: Operation,
    operand: int,
    partition: LinearPartition,
    domain: Sequence[int],
    *,
    apart: bool = False,
) -> Callable[[int], IntArray]:
    """Where a linear partition's accesses start along a dimension of an operand."""
    value = op.operands[operand]
    layout = iteration_layout(
        resolved_layout_of(value), shape_of(value.type), domain, partition.order
    )

    def coordinates(dim: int) -> IntArray:
        return vector_coordinates(
            layout,
            partition.threads,
            partition.vector,
            element_bytes_of(value.type),
            partition.order.index(dim),
            block=enclosing_threads(op),
            apart=apart,
        )

    return coordinates


def predicate_of(
    ragged: Sequence[RaggedDim], tile: SSAValue, coordinates: Callable[[int], IntArray], inner: int
) -> Predicate:
    """Which elements of a tile exist: ``coordinates`` are where accesses start along a dimension.

    Those of one access lie along ``inner``.
    """
    strides, dims = strides_of(resolved_layout_of(tile)), [entry.dim for entry in ragged]
    return Predicate(
        tuple(ragged),
        tuple(strides[dim] for dim in dims),
        tuple(map(coordinates, dims)),
        dims.index(inner) if inner in dims else -1,
    )


def named_rows(op: Operation, operand: int, partition: LinearPartition) -> NamedRows | None:
    """The rows that a linear partition's accesses to a tile mean; ``None`` where none are named."""
    tile = op.operands[operand].owner
    if not isinstance(tile, LocalTileOp) or tile.through is None:
        return None
    domain = shape_of(op.operands[operand].type)
    coordinates = partitioned_coordinates(op, operand, partition, domain)
    numbers = sum(
        stride * coordinates(dim)
        for dim, stride in enumerate(tile.number_strides()[: len(tile.numbers_shape)])
    )
    return NamedRows(np.asarray(numbers), strides_of(resolved_layout_of(tile.source))[0])


def partitioned_access(
    op: Operation,
    operand: int,
    kind: AccessKind,
    stage: StageReference,
    partition: LinearPartition,
    domain: Sequence[int],
    ragged: Sequence[RaggedDim] = (),
    *,
    apart: bool = False,
) -> ThreadAccess:
    """The loads or stores of a linear partition; only of what exists along ``ragged``.

    ``apart``: vectors of the operand start anywhere, and count as their elements.
    """
    stream = partitioned_stream(op, operand, partition, domain, apart=apart)
    access = plain_access(op, operand, kind, stage, stream)
    return replace(
        access,
        predicate=partitioned_predicate(op, operand, partition, domain, ragged, apart=apart),
        rows=named_rows(op, operand, partition),
    )


def async_access(
    op: Operation,
    operand: int,
    kind: AccessKind,
    stage: StageReference,
    partition: LinearPartition,
    domain: Sequence[int],
    ragged: Sequence[RaggedDim] = (),
) -> ThreadAccess:
    """One side of a ``cp.async``, one instruction a vector.

    Raises ``AccessError`` where vectors are not contiguous and aligned.
    """
    value = op.operands[operand]
    layout: AnyLayout = iteration_layout(
        resolved_layout_of(value), shape_of(value.type), domain, partition.order
    )
    if partition.vector > 1 and access_of(layout, partition.vector) is not Access.CONTIGUOUS:
        raise AccessError(
            f"{op_label(op)}: cp.async needs vectors of {partition.vector} contiguous, aligned "
            f"elements along dimension {partition.inner}, which {value_label(value)} does not have"
        )
    access = partitioned_access(op, operand, kind, stage, partition, domain, ragged)
    return replace(access, instruction=f"cp.async.{access.access_bytes}", proxy=Proxy.ASYNC_COPY)
