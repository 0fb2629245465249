"""What a mapping costs: the exact sectors and wavefronts of the accesses of a band."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from mugraph.dialects.te import (
    AccessOp,
    AsmOp,
    BufferType,
    IfOp,
    RedOp,
    SectionOp,
    SeqOp,
    Space,
)
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.analysis.texpr.evaluate import (
    Along,
    Points,
    access_box,
    evaluate,
    numbers_at,
    starts_vector,
)
from mugraph.passes.analysis.wavefronts import (
    WARP,
    group_wavefronts,
    lanes_together,
    sectors,
)
from mugraph.passes.te_map.bands import Band
from mugraph.passes.te_map.family import BandMapping

IntArray = npt.NDArray[np.int64]
WIDEST = 16
"""The bytes that a thread accesses at once at most."""
DEVICE_INSTRUCTION = 4
"""What an instruction to device memory counts beside its sectors: 4 lines of 128 bytes are what
the widest one asks for."""
_WARPS = 8
"""The warps of a block whose accesses are counted."""

Cost = tuple[float, float]
"""Sectors and wavefronts, then instructions; of all iterations of a band."""


@dataclass(frozen=True)
class Place:
    """An access of a band to memory."""

    op: AccessOp | AsmOp
    operand: SSAValue
    buffer: SSAValue
    repeats: int
    """How often an iteration of the band comes to it."""
    is_direct: bool
    """Whether it stands in the band itself, so that neighbours may be accessed at once."""

    @property
    def type(self) -> BufferType:
        """The type of the buffer."""
        return cast(BufferType, self.buffer.type)

    @cached_property
    def box(self) -> tuple[tuple[AffineExpr, ...], list[SSAValue], tuple[int, ...]]:
        """Where the access begins, and its extents."""
        return access_box(self.op, self.operand)

    def numbers(self, points: Points) -> IntArray:
        """The row-major number of the first element, at all points."""
        expressions, operands, _ = self.box
        return numbers_at(expressions, operands, self.type.get_shape(), points)


def places_of(band: Band, spaces: dict[SSAValue, Space]) -> list[Place]:
    """The accesses of a band to buffers in device and shared memory."""
    found: list[Place] = []
    for op in band.body.walk():
        operands: list[SSAValue] = []
        if isinstance(op, AccessOp):
            operands = [op.buffer]
        elif isinstance(op, AsmOp):
            operands = [one for one in op.arguments if isinstance(one.type, BufferType)]
        for operand in operands:
            buffer = operand
            if isinstance(section := operand.owner, SectionOp):
                buffer = section.buffer
            if spaces.get(buffer, Space.REGISTER) is Space.REGISTER:
                continue
            repeats = 1
            parent = op.parent_op()
            while parent is not None and parent is not band.loops[-1]:
                if isinstance(parent, SeqOp):
                    repeats *= parent.iterations
                parent = parent.parent_op()
            is_direct = op.parent_block() is band.body and not isinstance(op, (AsmOp, RedOp))
            found.append(Place(cast("AccessOp | AsmOp", op), operand, buffer, repeats, is_direct))
    return found


@dataclass
class MappedBand:
    """The points at which the accesses of a band are counted, under one mapping."""

    band: Band
    mapping: BandMapping
    points: dict[SSAValue, IntArray] = field(default_factory=dict[SSAValue, IntArray])
    idle: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def __post_init__(self) -> None:
        mapping = self.mapping
        warps = min(_WARPS, max(1, mapping.threads // WARP))
        lanes = min(WARP, mapping.threads)
        thread = np.arange(warps * lanes).reshape(1, warps, lanes)
        vector = np.arange(mapping.vector).reshape(-1, 1, 1)
        idle = np.broadcast_to(
            thread >= mapping.busy_threads, (mapping.vector, warps, lanes)
        ).copy()
        first, second = AffineExpr.dimension(0), AffineExpr.dimension(1)
        for dimension, loop in enumerate(self.band.loops):
            steps = [AffineExpr.constant(0)] * len(mapping.step_radices(dimension))
            index = mapping.index(dimension, first, steps, second)
            values = _numeric(index, thread, vector)
            idle |= values >= mapping.extents[dimension]
            self.points[loop.variable] = values
        for op in self.band.body.ops:
            if isinstance(op, IfOp) and op.next_op is None and op.prev_op is None:
                for expression, equal in op.conditions():
                    value = evaluate(expression, list(op.indices), self.points)
                    idle |= (value != 0) if equal else (value < 0)
        self.idle = idle

    @property
    def executions(self) -> float:
        """How often each counted instruction runs, in all warps of the band."""
        mapping = self.mapping
        warps = max(1, mapping.threads // WARP)
        return mapping.steps * warps / min(_WARPS, warps)

    def numbers(self, place: Place) -> IntArray:
        """The element that each lane accesses, ``[vector, warp, lane]``."""
        return np.broadcast_to(place.numbers(self.points), self.idle.shape)

    def width(self, place: Place) -> int:
        """How many elements the access takes at once: the mapping's neighbours, or one."""
        if isinstance(place.op, AsmOp):
            return math.prod(place.box[2])
        vector = self.mapping.vector
        size = element_bytes_of(place.type)
        if vector == 1 or not place.is_direct or vector * size > WIDEST:
            return 1
        along = self.mapping.vector_dimension
        assert along is not None
        leaves = {self.band.loops[along].variable: Along(1, vector)}
        expressions, operands, _ = place.box
        shape, strides = place.type.get_shape(), place.type.strides()
        starts = starts_vector(expressions, operands, shape, leaves, vector, strides)
        return vector if starts else 1

    def cost(self, place: Place, addresses: IntArray, width: int) -> Cost:
        """The cost of an access whose offsets, in elements, are known."""
        size = element_bytes_of(place.type)
        bytes_ = width * size
        first = 0 if isinstance(place.op, AsmOp) or width == 1 else 1
        rows = addresses[:1] if first else addresses
        idle = self.idle[:1] if first else self.idle
        at = np.where(idle, -1, rows * size).reshape(-1, rows.shape[2])
        if at.shape[1] < WARP:
            at = np.pad(at, ((0, 0), (0, WARP - at.shape[1])), constant_values=-1)
        at = at[(at >= 0).any(axis=1)]
        times = self.executions * place.repeats
        if not len(at):
            return 0.0, 0.0
        if place.type.memory_space is Space.SHARED:
            lanes = lanes_together(min(bytes_, WIDEST))
            traffic = group_wavefronts(at, min(bytes_, WIDEST), lanes).sum()
        else:
            traffic = sectors(at, bytes_).sum() + DEVICE_INSTRUCTION * len(at)
        return float(traffic) * times, len(at) * times


def _numeric(expression: AffineExpr, thread: IntArray, vector: IntArray) -> IntArray:
    shape = np.broadcast_shapes(thread.shape, vector.shape)
    # Affine expressions evaluate arrays as they do integers.
    return np.broadcast_to(np.asarray(expression.eval(cast(Any, [thread, vector]), [])), shape)
