"""What a mapping costs: the exact sectors and wavefronts of the accesses of a band."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.ancestors import ancestors, enclosing
from mugraph.dialects.programming_model import VECTOR_BYTES
from mugraph.dialects.te.points import all_hold, first_numbers
from mugraph.dialects.te.sizes import ends_of, factors_of_strides
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.costs.memory import DEVICE_INSTRUCTION
from mugraph.passes.memory.wavefronts import (
    WARP,
    group_wavefronts,
    lanes_together,
    sectors,
)
from mugraph.passes.texpr.analysis.contents import sources_of, stand_ins
from mugraph.passes.texpr.analysis.evaluate import Along, holds_alike, starts_vector
from mugraph.passes.texpr.te_map.bands import Band
from mugraph.passes.texpr.te_map.search import Batch

IntArray = npt.NDArray[np.int64]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class BandAccess(te.Touch):
    """An access of a band to memory."""

    op: Operation
    repeats: int
    """How often an iteration of the band comes to it."""
    conditions: tuple[te.IfOp, ...]
    """What it is under in the band."""
    is_direct: bool
    """Whether it stands in the band itself, or under conditions in it, so that neighbours may be
    accessed at once."""
    is_copied: bool
    """Whether it is read by asynchronous copies, ahead of a loop's iterations."""

    @property
    def kind_of_cost(self) -> Hashable:
        """Accesses of one band and width that are equal in this cost the same."""
        whole = isinstance(self.op, te.AsmOp)
        where = (self.type, self.expressions, tuple(self.indices), self.conditions)
        return *where, self.extents, self.box, self.repeats, whole


def places_of(band: Band, spaces: dict[SSAValue, te.Space]) -> list[BandAccess]:
    """The accesses of a band to buffers in device and shared memory."""
    found: list[BandAccess] = []
    loop = enclosing(band.loops[0], te.SeqOp)
    of_prefetch = loop is not None and loop.ahead is not None
    for op in band.body.walk():
        for touch in _touches(op):
            if spaces.get(touch.buffer, te.Space.REGISTER) is te.Space.REGISTER:
                continue
            around = list(takewhile(lambda one: one is not band.loops[-1], ancestors(op)))
            repeats = math.prod(one.iterations for one in around if isinstance(one, te.LoopOp))
            conditions = [one for one in around if isinstance(one, te.IfOp)]
            is_direct = len(conditions) == len(around) and not isinstance(op, (te.AsmOp, te.RedOp))
            is_copied = (
                of_prefetch and isinstance(op, te.ViewOp) and _only_goes_to_shared(op, spaces)
            )
            found.append(
                BandAccess(
                    **vars(touch),
                    op=op,
                    repeats=repeats,
                    conditions=tuple(conditions),
                    is_direct=is_direct,
                    is_copied=is_copied,
                )
            )
    return found


def _only_goes_to_shared(op: te.ViewOp, spaces: dict[SSAValue, te.Space]) -> bool:
    """Whether what is read is only written to buffers in shared memory."""
    users = [use.operation for use in op.result.uses]
    return all(
        isinstance(one, te.BindOp) and spaces.get(one.buffer) is te.Space.SHARED for one in users
    )


def _touches(op: Operation) -> Sequence[te.Touch]:
    """What an operator touches, by contents where they are its indices."""
    if isinstance(op, te.AccessOp):
        return [op.exact_touch()]
    return op.touches() if isinstance(op, te.HasTouches) else ()


def width_of(band: Band, place: BandAccess, vector: Sequence[int]) -> int:
    """How many elements an access takes at once, of a thread's neighbours along each index."""
    if isinstance(place.op, te.AsmOp):
        return math.prod(place.box)
    count = math.prod(vector)
    size = element_bytes_of(place.type)
    if count == 1 or not place.is_direct or count * size > VECTOR_BYTES:
        return 1
    along = next(dimension for dimension, one in enumerate(vector) if one > 1)
    leaves = {band.loops[along].variable: Along(1, count)}
    if len(place.conditions) > 1 or not all(
        holds_alike(one, leaves, count) for one in place.conditions
    ):
        return 1
    contents = [one for one in place.indices if isinstance(one.owner, te.IndexOfOp)]
    if band.loops[along].variable in sources_of(contents):
        return 1
    shape = place.type.get_shape()
    strides = factors_of_strides(place.buffer) if ends_of(place.buffer) else None
    starts = starts_vector(place.expressions, place.indices, shape, leaves, count, strides)
    return count if starts else 1


def served_together(
    band: Band, vector: Sequence[int], places: Sequence[BandAccess]
) -> tuple[int, ...]:
    """The lanes that a wavefront of some access serves, ascending, a warp at last."""
    found = {WARP}
    for place in places:
        if place.type.memory_space is te.Space.SHARED:
            bytes_ = width_of(band, place, vector) * element_bytes_of(place.type)
            found.add(lanes_together(min(bytes_, VECTOR_BYTES)))
    return tuple(sorted(found))


class Counter:
    """Counts what the accesses of a band take under every class of a batch.

    All instructions are counted, with the variables of loops in the band and around it at all of
    their values, where that is at most ``most`` elements a class; else evenly spaced instructions,
    and variables that do not fit at 0.
    """

    def __init__(self, band: Band, places: Sequence[BandAccess], batch: Batch, most: int) -> None:
        self.band = band
        self.batch = batch
        lanes = batch.lanes.shape[2]
        padded = -(-lanes // WARP) * WARP
        width = math.prod(batch.deal.vector)
        kept = batch.rest.shape[2]
        others: list[te.LoopOp] = []
        for loop in _others(band, places):
            count = math.prod(one.iterations for one in (*others, loop))
            if width * padded * kept * count <= most:
                others.append(loop)
        self.is_exact = kept == batch.instructions and others == _others(band, places)
        count = math.prod(loop.iterations for loop in others)
        self.scale = batch.instructions / kept / count
        self.points: dict[SSAValue, IntArray] = {}
        number = np.tile(np.arange(count), kept)
        for loop in others:
            count //= loop.iterations
            self.points[loop.variable] = (number // count % loop.iterations).reshape(1, 1, -1, 1)
        repeats = len(number) // kept
        neighbours = np.arange(width).reshape(1, -1, 1, 1)
        shape = (len(batch.numbers), width, len(number), padded)
        idle = np.zeros(shape, np.bool_)
        idle[..., lanes:] = True
        for dimension, loop in enumerate(band.loops):
            lane = np.pad(batch.lanes[:, dimension], ((0, 0), (0, padded - lanes)))
            rest = np.repeat(batch.rest[:, dimension], repeats, axis=1)
            index = rest[:, None, :, None] + lane[:, None, None, :]
            if batch.deal.vector[dimension] > 1:
                index = index + neighbours
            self.points[loop.variable] = index
            idle |= index >= batch.deal.extents[dimension]
        self.idle = idle

    def numbers(self, place: BandAccess) -> IntArray:
        """The element that each lane accesses, ``[class, neighbour, instruction, lane]``."""
        points = {**self.points, **stand_ins(place.indices, self.points)}
        return np.broadcast_to(first_numbers(place, points), self.idle.shape)

    def idle_in(self, place: BandAccess) -> npt.NDArray[np.bool_]:
        """The lanes that an access leaves out."""
        return self.idle | ~all_hold(place.conditions, self.points)

    def cost(self, place: BandAccess, addresses: IntArray, width: int) -> FloatArray:
        """Sectors or wavefronts of an access, and its instructions: ``[class, 2]``.

        ``addresses`` are in elements, as ``numbers``.
        """
        bytes_, at = self._bytes(place, addresses, width)
        active = np.not_equal(at.max(axis=1), -1)
        if place.type.memory_space is te.Space.SHARED:
            lanes = lanes_together(min(bytes_, VECTOR_BYTES))
            traffic = group_wavefronts(at, min(bytes_, VECTOR_BYTES), lanes).sum(axis=1)
        else:
            traffic = DEVICE_INSTRUCTION * active
            if place.is_copied:  # lanes that write together ask for their sectors
                lanes = lanes_together(min(bytes_, VECTOR_BYTES))
                together = sectors(at.reshape(-1, lanes), bytes_)
                traffic = traffic + together.reshape(len(at), -1).sum(axis=1)
            else:
                traffic = traffic + sectors(at, bytes_)
        return self._sum(place, traffic, active)

    def least(self, place: BandAccess, width: int) -> FloatArray:
        """What an access to shared memory takes at least: no bank is asked twice."""
        bytes_, at = self._bytes(place, np.zeros(self.idle.shape, np.int64), width)
        lanes = lanes_together(min(bytes_, VECTOR_BYTES))
        groups = np.not_equal(at.reshape(len(at), -1, lanes).max(axis=2), -1)
        traffic: IntArray = groups.sum(axis=1)
        return self._sum(place, traffic, np.greater(traffic, 0))

    def _bytes(self, place: BandAccess, addresses: IntArray, width: int) -> tuple[int, IntArray]:
        size = element_bytes_of(place.type)
        idle = self.idle_in(place)
        if width > 1 and not isinstance(place.op, te.AsmOp):
            addresses, idle = addresses[:, :1], idle[:, :1]
        return width * size, np.where(idle, -1, addresses * size).reshape(-1, WARP)

    def _sum(
        self, place: BandAccess, traffic: IntArray, active: npt.NDArray[np.bool_]
    ) -> FloatArray:
        classes = len(self.batch.numbers)
        both = [one.reshape(classes, -1).sum(axis=1) for one in (traffic, active)]
        return np.stack(both, axis=1) * (self.scale * place.repeats)


def _others(band: Band, places: Sequence[BandAccess]) -> list[te.LoopOp]:
    """The loops in a band, then those around it, whose variables accesses depend on."""
    own = {loop.variable for loop in band.loops}
    used: dict[SSAValue, None] = {}
    for place in places:
        for values in (place.indices, *(list(one.indices) for one in place.conditions)):
            used |= dict.fromkeys(one for one in sources_of(values) if one not in own)
    loops: list[te.LoopOp] = []
    for variable in used:
        parent = None if isinstance(variable.owner, Operation) else variable.owner.parent_op()
        if isinstance(parent, te.LoopOp):
            loops.append(parent)
    return sorted(loops, key=lambda loop: not band.loops[0].is_ancestor(loop))
