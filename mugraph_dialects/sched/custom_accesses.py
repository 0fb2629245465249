"""Which elements the threads of a block touch in a step of a custom operator, by enumeration.

Indices are quasi-affine in the thread and in the variables of the loops around, so that all points
at which an access happens are known, and when: a thread runs the operators of a step in the order
of the text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import cast

import numpy as np
import numpy.typing as npt
from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects.ancestors import ancestors, enclosing
from mugraph.dialects.sched.accesses import (
    AccessError,
    ThreadAccess,
    instruction_name,
    stage_reference,
)
from mugraph.dialects.sched.accesses import AccessKind as MemoryAccess
from mugraph.dialects.sched.mappings import IDLE, IntArray, coordinate_offsets
from mugraph.dialects.te.accesses import AccessKind, AccessOp
from mugraph.dialects.te.conditions import WhenOp
from mugraph.dialects.te.indices import coordinates_of
from mugraph.dialects.te.loops import IfOp, SeqOp
from mugraph.dialects.te.points import all_hold, evaluate
from mugraph.dialects.te.types import BufferType
from mugraph.dialects.tensor_types import (
    AnyLayout,
    element_bytes_of,
    op_label,
    resolved_layout_of,
    row_major_strides,
    shape_of,
    value_label,
)

BoolArray = npt.NDArray[np.bool_]
MOST_POINTS = 1 << 24
"""How often the threads of a block together may come to an access."""
_STEPS = 16
"""Of so many steps footprints are kept: passes ask for those of a kernel again and again."""


@dataclass(frozen=True, eq=False)
class Footprint:
    """One access of a step to a buffer.

    ``coordinates`` has an array a dimension of the first element, ``[instructions, threads]``, and
    ``active`` who comes there; ``times`` is when, in a count that each thread has for itself.
    What is not ``certain`` stands under a condition on numbers, and may not happen.
    """

    op: AccessOp
    operand: int
    coordinates: tuple[IntArray, ...]
    active: BoolArray
    times: IntArray
    width: int
    certain: bool

    @property
    def reads(self) -> bool:
        """Whether the old element matters."""
        return self.op.kind is not AccessKind.WRITE

    @property
    def writes(self) -> bool:
        """Whether it changes the element."""
        return self.op.kind is not AccessKind.READ

    def numbers(self, shape: Sequence[int]) -> IntArray:
        """The row-major numbers of all elements, ``[instructions, threads, width]``."""
        number = np.zeros(self.active.shape, np.int64)
        for along, stride in zip(self.coordinates, row_major_strides(shape), strict=True):
            number = number + along * stride
        return number[..., None] + np.arange(self.width)


def _durations(block: Block, times: dict[Operation, int], start: int = 0) -> int:
    """Notes when each operator of a block comes first; returns how long the block takes."""
    length = 0
    for op in block.ops:
        times[op] = start + length
        if isinstance(op, SeqOp):
            length += op.iterations * _durations(op.body.block, times, start + length)
        elif isinstance(op, (IfOp, WhenOp)):
            length += _durations(op.body.block, times, start + length)
        else:
            length += 1
    return max(length, 1)


def _duration(block: Block) -> int:
    return _durations(block, {})


def footprints_of(op: Operation, body: Block, threads: int) -> list[Footprint]:
    """The accesses of a step to the buffers outside of it, in the order of the text.

    The arguments of its ``body`` are the thread's number and the buffers.
    """
    thread = body.args[0]
    buffers: list[SSAValue] = [*body.args[1:]]
    starts: dict[Operation, int] = {}
    _durations(body, starts)
    found: list[Footprint] = []
    for access in body.walk():
        if not isinstance(access, AccessOp) or access.buffer not in buffers:
            continue
        loops, conditions = _around(access, op)
        extents = [loop.iterations for loop in loops]
        if math.prod(extents) * threads > MOST_POINTS:
            raise AccessError(
                f"{op_label(op)}: its threads come to an access {math.prod(extents)} times each, "
                "too often to look at all of them"
            )
        grids = np.indices(extents, np.int64).reshape(len(extents), math.prod(extents), 1)
        points: dict[SSAValue, IntArray] = {
            loop.variable: grid for loop, grid in zip(loops, grids, strict=True)
        }
        points[thread] = np.arange(threads, dtype=np.int64)[None, :]
        shape = (math.prod(extents), threads)
        active = np.broadcast_to(all_hold(conditions, points), shape)
        times = np.full((shape[0], 1), starts[access])
        for loop in loops:
            times = times + points[loop.variable] * _duration(loop.body.block)
        buffer_shape = cast(BufferType, access.buffer.type).get_shape()
        coordinates = tuple(
            np.broadcast_to(evaluate(one, list(access.indices), points), shape)
            for one in coordinates_of(access.index_map.results, buffer_shape)
        )
        operand, width = buffers.index(access.buffer), access.width
        times = np.broadcast_to(times, shape)
        certain = enclosing(access, WhenOp) is None
        found.append(Footprint(access, operand, coordinates, active, times, width, certain))
    return found


def _around(access: AccessOp, op: Operation) -> tuple[list[SeqOp], list[IfOp]]:
    """The loops, the outermost first, and the conditions around an access."""
    around = [*takewhile(lambda one: one is not op, ancestors(access))][::-1]
    loops = [one for one in around if isinstance(one, SeqOp)]
    return loops, [one for one in around if isinstance(one, IfOp)]


@dataclass(frozen=True, eq=False)
class Footprints:
    """All accesses of a step, and which reads find what the same thread wrote before in it."""

    accesses: tuple[Footprint, ...]
    own: tuple[BoolArray | None, ...]
    """For each access where all it reads is the thread's own of this step; ``None`` for nowhere."""

    def reads_of(self, operand: int) -> bool:
        """Whether what a buffer held before matters."""
        return any(
            one.operand == operand
            and one.reads
            and bool((one.active if own is None else one.active & ~own).any())
            for one, own in zip(self.accesses, self.own, strict=True)
        )

    def writes_of(self, operand: int) -> bool:
        """Whether a buffer changes."""
        return any(one.operand == operand and one.writes for one in self.accesses)

    def written(self, operand: int, shape: Sequence[int]) -> BoolArray:
        """Which elements of a buffer are surely written, by their row-major numbers."""
        found = np.zeros(math.prod(shape), np.bool_)
        for one in self.accesses:
            if one.operand == operand and one.writes and one.certain:
                found[one.numbers(shape)[one.active].reshape(-1)] = True
        return found


def own_reads(accesses: Sequence[Footprint], shapes: Sequence[Sequence[int]]) -> Footprints:
    """Finds the reads whose elements their thread has written earlier in the step."""
    first: dict[int, IntArray] = {}
    for one in accesses:
        if not one.writes or one.reads or not one.certain:
            continue
        shape = shapes[one.operand]
        threads = one.active.shape[1]
        known = first.setdefault(
            one.operand, np.full((threads, math.prod(shape)), np.iinfo(np.int64).max)
        )
        numbers, active = one.numbers(shape), one.active[..., None]
        active = np.broadcast_to(active, numbers.shape)
        lanes = np.arange(threads, dtype=np.int64)[None, :, None]
        who: IntArray = np.broadcast_to(lanes, numbers.shape)
        when = np.broadcast_to(one.times[..., None], numbers.shape)
        np.minimum.at(known, (who[active], numbers[active]), when[active])
    own: list[BoolArray | None] = []
    for one in accesses:
        if not one.reads or one.operand not in first:
            own.append(None)
            continue
        numbers = np.where(one.active[..., None], one.numbers(shapes[one.operand]), 0)
        who = np.arange(one.active.shape[1], dtype=np.int64)[None, :, None]
        earlier: BoolArray = first[one.operand][who, numbers] < one.times[..., None]
        own.append(np.logical_and.reduce(earlier, axis=2))
    return Footprints(tuple(accesses), tuple(own))


@dataclass(frozen=True)
class _Step:
    """A step as it stands: equal to itself later if nothing changed that footprints depend on."""

    op: Operation
    body: Block
    threads: int
    shapes: Sequence[tuple[int, ...]]
    structure: Sequence[object]
    """The operators of the body, where they stand, and what they take and say."""

    @classmethod
    def of(
        cls, op: Operation, body: Block, threads: int, shapes: Sequence[tuple[int, ...]]
    ) -> _Step:
        """A step as it stands now."""
        structure: list[object] = [*body.arg_types]
        for inner in body.walk():
            structure += (inner, inner.parent, *inner.operands, *inner.result_types)
            structure += (dict(inner.properties), dict(inner.attributes))
        return cls(op, body, threads, shapes, structure)

    def __hash__(self) -> int:
        return hash(self.op)


@lru_cache(_STEPS)
def _footprints(step: _Step) -> Footprints:
    return own_reads(footprints_of(step.op, step.body, step.threads), step.shapes)


def footprints(
    op: Operation, body: Block, threads: int, shapes: Sequence[tuple[int, ...]]
) -> Footprints:
    """All accesses of a step to buffers of these shapes; found once while it stays as it is."""
    return _footprints(_Step.of(op, body, threads, shapes))


def come_first(
    reads: Sequence[Footprint],
    layout: AnyLayout,
    writes: Sequence[Footprint],
    other: AnyLayout,
) -> bool:
    """Whether every thread's last read at an offset is before its first write there."""
    never = np.iinfo(np.int64).max
    size = max(layout.cosize(), other.cosize())
    threads = max((one.active.shape[1] for one in (*reads, *writes)), default=0)
    first = np.full((threads, size), never)
    for one in writes:
        who, where, when = _moments(one, other)
        np.minimum.at(first, (who, where), when)
    for one in reads:
        who, where, when = _moments(one, layout)
        if bool((first[who, where] <= when).any()):
            return False
    return True


def _moments(one: Footprint, layout: AnyLayout) -> tuple[IntArray, IntArray, IntArray]:
    """Thread, offset and time of every element that an access touches."""
    shape = (*one.active.shape, one.width)
    active = np.broadcast_to(one.active[..., None], shape)
    *outer, inner = one.coordinates
    steps = np.arange(one.width, dtype=np.int64)
    coordinates = [*(along[..., None] for along in outer), inner[..., None] + steps]
    offsets = np.broadcast_to(coordinate_offsets(layout, coordinates), shape)
    lanes = np.arange(shape[1], dtype=np.int64)[None, :, None]
    who: IntArray = np.broadcast_to(lanes, shape)
    when: IntArray = np.broadcast_to(one.times[..., None], shape)
    return who[active], offsets[active], when[active]


def thread_accesses_of(op: Operation, footprints: Footprints) -> list[ThreadAccess]:
    """Reads in the order of the operands, then writes; not what a thread reads of its own."""
    reads: list[tuple[int, ThreadAccess]] = []
    writes: list[ThreadAccess] = []
    for one, own in zip(footprints.accesses, footprints.own, strict=True):
        if one.reads:
            active = one.active if own is None else one.active & ~own
            if active.any():
                reads.append((one.operand, _access(op, one, active, MemoryAccess.READ)))
        if one.writes and one.active.any():
            writes.append(_access(op, one, one.active, MemoryAccess.WRITE))
    reads.sort(key=lambda pair: pair[0])
    return [*(access for _, access in reads), *writes]


def _access(op: Operation, one: Footprint, active: BoolArray, kind: MemoryAccess) -> ThreadAccess:
    value = op.operands[one.operand]
    layout, shape = resolved_layout_of(value), shape_of(value.type)
    for dim, (along, extent) in enumerate(zip(one.coordinates, shape, strict=True)):
        last = one.width - 1 if dim == len(shape) - 1 else 0
        if active.any() and (
            int(along[active].min()) < 0 or int(along[active].max()) + last >= extent
        ):
            raise AccessError(
                f"{op_label(op)}: '{one.op.name}' leaves {value_label(value)}, which has "
                f"{extent} elements along dimension {dim}"
            )
    offsets = np.broadcast_to(coordinate_offsets(layout, one.coordinates), active.shape)
    for step in range(1, one.width):
        *outer, inner = one.coordinates
        if (coordinate_offsets(layout, (*outer, inner + step)) != offsets + step)[active].any():
            raise AccessError(
                f"{op_label(op)}: '{one.op.name}' takes {one.width} neighbours of "
                f"{value_label(value)}, which do not lie side by side in {layout}"
            )
    if one.width > 1 and (offsets[active] % one.width).any():
        raise AccessError(
            f"{op_label(op)}: '{one.op.name}' takes {one.width} neighbours of "
            f"{value_label(value)}, which in {layout} do not begin at a multiple of that"
        )
    size = one.width * element_bytes_of(value.type)
    return ThreadAccess(
        op,
        one.operand,
        kind,
        instruction_name(kind, value, size),
        stage_reference(op),
        one.width,
        np.where(active, offsets, IDLE),
    )
