"""What warps do to a shared buffer, kept so that any layout of the buffer can be tried on it.

A :class:`Pattern` is an access of an operator: which coordinates the lanes of every warp
instruction want, whatever the layout.  A scheduled operator's patterns are read from its access
streams; one of a µGraph only declares along which dimension its threads step, and in what chunks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mugraph.dialects import sched
from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.interfaces import SharedAccess
from mugraph.dialects.sched.accesses import AccessError, AccessKind, Proxy
from mugraph.dialects.sched.mappings import IntArray, linear_offsets, read_only, swizzled
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    resolved_layout_of,
    shape_of,
    strides_of,
)
from mugraph.passes.memory.memory_access import executions_of_block, other_side, warp_addresses
from mugraph.passes.memory.wavefronts import (
    MATRIX_ROW_BYTES,
    WARP,
    group_wavefronts,
    lanes_together,
)


class Instruction(Enum):
    """How a warp's addresses are served."""

    LOAD = "load"
    STORE = "store"
    LDMATRIX = "ldmatrix"
    COPY = "cp.async"


class Pattern(NamedTuple):
    """An access to a buffer by warps, for any layout of it.

    ``coordinates[instruction, lane, dimension]``, -1 for an idle lane; ``width`` elements from
    there on along the innermost dimension; a block executes all of them ``executions`` times.
    ``floors[instruction, group]`` are wavefronts that the other side of a ``cp.async`` takes.
    """

    label: str
    instruction: Instruction
    width: int
    element_bytes: int
    coordinates: IntArray
    executions: int
    floors: IntArray | None = None

    @property
    def access_bytes(self) -> int:
        """The bytes that one lane moves with one instruction."""
        return self.width * self.element_bytes

    @property
    def lanes(self) -> int:
        """How many lanes are served together."""
        return 8 if self.instruction is Instruction.LDMATRIX else lanes_together(self.access_bytes)

    def key(self) -> tuple[object, ...]:
        """Equal for patterns that cost the same under every layout."""
        floors = None if self.floors is None else (self.floors.shape, self.floors.tobytes())
        return (
            self.instruction,
            self.width,
            self.element_bytes,
            self.coordinates.shape,
            self.coordinates.tobytes(),
            self.executions,
            floors,
        )


def offsets_under(coordinates: IntArray, strides: Sequence[int]) -> IntArray:
    """Offsets in elements of coordinates under plain strides; -1 for idle lanes."""
    offsets = coordinates @ np.array(strides, dtype=np.int64)
    return np.where(coordinates[..., 0] < 0, -1, offsets)


def decoded(offsets: IntArray, shape: Sequence[int], strides: Sequence[int]) -> IntArray | None:
    """The coordinates of offsets under plain strides, ``[..., dimension]``.

    ``None`` where some offset is not the place of an element or strides interleave dimensions.
    """
    rest = np.where(offsets < 0, 0, offsets)
    coordinates = np.zeros((*offsets.shape, len(shape)), dtype=np.int64)
    order = sorted(range(len(shape)), key=lambda dim: (strides[dim], -dim), reverse=True)
    for dim in order:
        if shape[dim] == 1 or strides[dim] == 0:
            continue
        digit, rest = np.divmod(rest, strides[dim])
        if (digit >= shape[dim]).any():
            return None
        coordinates[..., dim] = digit
    if rest.any():
        return None
    coordinates[offsets < 0] = -1
    return coordinates


def decoded_nested(offsets: IntArray, shape: Sequence[int], layout: Layout[int]) -> IntArray | None:
    """As :func:`decoded`, under a layout of which dimensions may be nested."""
    elements = math.prod(shape)
    # The layout counts its first dimension fastest.
    places = linear_offsets(layout, np.arange(elements, dtype=np.int64))
    element_at = np.full(max(layout.cosize(), int(offsets.max(initial=0)) + 1), -1, dtype=np.int64)
    element_at[places] = np.arange(elements)
    found = element_at[np.maximum(offsets, 0)]
    if (found[offsets >= 0] < 0).any():
        return None
    coordinates = np.stack(np.unravel_index(np.maximum(found, 0), tuple(shape), order="F"), axis=-1)
    coordinates[offsets < 0] = -1
    return coordinates


def offsets_along(coordinates: IntArray, layout: Layout[int]) -> IntArray:
    """As :func:`offsets_under`, under a layout of which dimensions may be nested."""
    offsets = np.zeros(coordinates.shape[:-1], dtype=np.int64)
    for dim, mode in enumerate(layout):
        offsets += linear_offsets(mode, np.maximum(coordinates[..., dim], 0))
    return np.where(coordinates[..., 0] < 0, -1, offsets)


def pattern_of(access: sched.ThreadAccess, layout: AnyLayout, executions: int) -> Pattern | None:
    """An access of a scheduled operator; ``None`` where its offsets are not those of elements."""
    if isinstance(layout, ComposedLayout) and layout.offset:
        return None
    shape = shape_of(access.value.type)
    rows = warp_addresses(access, 0)
    offsets = np.where(rows < 0, -1, rows // access.element_bytes)
    plain = np.where(offsets < 0, -1, swizzled(layout, np.maximum(offsets, 0)))
    if is_plain_enough(layout):
        coordinates = decoded(plain, shape, strides_of(layout))
    else:
        coordinates = decoded_nested(plain, shape, base_layout(layout))
    if coordinates is None:
        return None
    instruction = Instruction.LOAD if access.kind is AccessKind.READ else Instruction.STORE
    floors: IntArray | None = None
    source = other_side(access)
    if access.warp_collective:
        instruction = Instruction.LDMATRIX
    elif source is not None and access.proxy is Proxy.ASYNC_COPY:
        instruction = Instruction.COPY
        lanes = lanes_together(access.access_bytes)
        floors = group_wavefronts(warp_addresses(source, 0), access.access_bytes, lanes)
    label = f"{access.operation.name} {access.instruction}"
    return Pattern(
        label, instruction, access.width, access.element_bytes, coordinates, executions, floors
    )


def scheduled_patterns(kernel: sched.KernelOp) -> dict[sched.AllocOp, list[Pattern] | None]:
    """The accesses to each shared buffer of a kernel, in order; ``None`` where one is not modelled.

    Fills are left out: they write all bytes of a buffer, in any layout.  So are bulk copies.
    """
    patterns: dict[sched.AllocOp, list[Pattern] | None] = {}
    for op in kernel.body.walk():
        if not isinstance(op, sched.HasThreadAccesses):
            continue
        buffers = [value.owner for value in op.operands if isinstance(value.owner, sched.AllocOp)]
        try:
            accesses = op.thread_accesses() if buffers else ()
        except AccessError:
            patterns.update(dict.fromkeys(buffers, None))
            continue
        for access in accesses:
            owner = access.value.owner
            if not isinstance(owner, sched.AllocOp) or access.stage.every_stage:
                continue
            found = patterns.setdefault(owner, [])
            if access.proxy is Proxy.BULK_COPY:
                continue  # by whole lines, in every layout that such copies can have
            if found is None:
                continue
            layout = resolved_layout_of(access.value)
            executions = executions_of_block(access)
            pattern = pattern_of(access, layout, executions)
            if pattern is None:
                patterns[owner] = None
            elif len(pattern.coordinates):  # of some tiles no element exists
                found.append(pattern)
    return patterns


SAMPLE = 8
"""Instructions that stand for all of a declared access."""


@lru_cache(512)
def _declared_coordinates(shape: tuple[int, ...], inner: int, walk: int, chunk: int) -> IntArray:
    """Lanes that step along ``walk``, then inwards to outwards, in chunks along ``inner``."""
    steps = [chunk if dim == inner else 1 for dim in range(len(shape))]
    counts = [-(-extent // step) for extent, step in zip(shape, steps, strict=True)]
    others = [dim for dim in reversed(range(len(shape))) if dim not in (walk, inner)]
    order = [walk, *([inner] if inner != walk else []), *others]
    index = np.arange(WARP * SAMPLE, dtype=np.int64)
    coordinates = np.zeros((len(index), len(shape)), dtype=np.int64)
    for dim in order:
        index, digit = np.divmod(index, counts[dim])
        coordinates[:, dim] = digit * steps[dim]
    coordinates[index > 0] = -1
    rows = coordinates.reshape(SAMPLE, WARP, len(shape))
    return read_only(rows[(rows[..., 0] >= 0).any(axis=1)])


def declared_pattern(
    access: SharedAccess, shape: tuple[int, ...], inner: int, element_bytes: int
) -> Pattern:
    """What an operator that is not scheduled yet says of an access, as warps would do it."""
    # A last chunk may reach into the padding of its row, as the last line of ``ldmatrix`` does.
    width = max(1, min(access.chunk, MATRIX_ROW_BYTES // element_bytes))
    rows = _declared_coordinates(shape, inner, access.walk, width)
    label = f"along dimension {access.walk} by {width}"
    return Pattern(label, Instruction.STORE, width, element_bytes, rows, 1)


def is_plain_enough(layout: AnyLayout) -> bool:
    """Whether a layout is strides with perhaps a swizzle: no constant, no nested dimension."""
    if isinstance(layout, ComposedLayout) and layout.offset:
        return False
    plain: Layout[int] = base_layout(layout)
    return plain.depth <= 1
