"""Checks that need no order: addresses within what was planned, alignment, one writer a byte."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute import Layout
from mugraph.dialects.ragged import ragged_dims
from mugraph.dialects.sched.accesses import AccessKind, ThreadAccess
from mugraph.dialects.sched.mappings import IDLE
from mugraph.dialects.tensor_types import (
    op_label,
    physical_elements,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.schedule.analysis.hazards.footprints import SEVERAL
from mugraph.passes.schedule.analysis.hazards.program import Program, ProgramPoint, Touch

BASE_ALIGNMENT = 16
"""Bytes to which every block's shared memory and every argument of a kernel is aligned."""


def check_bounds(program: Program) -> Iterator[Finding]:
    """Everything of a kernel that is wrong whatever the order of its operators."""
    yield from _check_buffers(program)
    for place, access in program.accesses:
        check = _check_device_access if access.in_device_memory else _check_shared_access
        yield from check(program, place, access)
    for touch in program.touches:
        if touch.is_write and touch.footprint.is_shared:
            yield _two_writers(program, touch)


def _check_buffers(program: Program) -> Iterator[Finding]:
    smem = program.kernel.smem_bytes
    words = {
        keeper: (keeper.byte_offset or 0, (keeper.byte_offset or 0) + keeper.barrier_bytes())
        for keeper in (*program.channels, *program.order_barriers)
    }
    used = {touch.buffer for touch in program.touches}
    for buffer in program.buffers:
        offset = buffer.byte_offset or 0
        end = offset + buffer.total_bytes()
        if smem is not None and end > smem:
            yield Finding(
                HazardKind.OUT_OF_BOUNDS,
                (buffer,),
                f"{value_label(buffer.result)} takes bytes {offset} to {end - 1} of shared memory; "
                f"the block of {op_label(program.kernel)} has {smem}",
                address=end - 1,
            )
        for channel, (first, last) in words.items():
            if buffer in used and offset < last and first < end:
                yield Finding(
                    HazardKind.OVERWRITTEN,
                    (buffer, channel),
                    f"{value_label(buffer.result)} takes bytes {offset} to {end - 1} of shared "
                    f"memory; the mbarriers of {value_label(channel.result)} are bytes {first} to "
                    f"{last - 1}, for the whole kernel",
                    address=max(offset, first),
                )
    for (channel, (first, last)), (other, (start, end)) in itertools.combinations(words.items(), 2):
        if first < end and start < last:
            yield Finding(
                HazardKind.OVERWRITTEN,
                (other, channel),
                f"the mbarriers of {value_label(channel.result)}, bytes {first} to {last - 1} of "
                f"shared memory, overlap those of {value_label(other.result)}, bytes {start} to "
                f"{end - 1}",
                address=max(first, start),
            )


def _first_thread(access: ThreadAccess, condition: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """The first thread for which an access meets a condition, and its offset in elements."""
    row, thread = (int(index) for index in np.argwhere(condition)[0])
    return thread, int(access.offsets[row, thread])


def _wrong(
    kind: HazardKind,
    place: ProgramPoint,
    access: ThreadAccess,
    what: str,
    thread: int | None = None,
    address: int | None = None,
) -> Finding:
    """A finding on an access by itself; ``what`` follows who reads or writes."""
    message = f"{place.describe()} {_verb(access)} {what}"
    return Finding(kind, (place.operation,), message, () if thread is None else (thread,), address)


def _check_shared_access(
    program: Program, place: ProgramPoint, access: ThreadAccess
) -> Iterator[Finding]:
    buffer = access.value.owner
    if not isinstance(buffer, sched.AllocOp):
        return
    offset = buffer.byte_offset or 0
    size = buffer.total_bytes() if access.stage.every_stage else buffer.stage_bytes()
    limit = size // access.element_bytes
    if int(access.offsets.max(initial=0)) + access.width > limit:
        past = access.offsets + access.width > limit
        if past.any():
            thread, start = _first_thread(access, past)
            address = offset + (start + access.width) * access.element_bytes - 1
            what = (
                f"{access.access_bytes} bytes from byte {start * access.element_bytes} of a stage "
                f"of {value_label(access.value)} in thread {thread}; the stage has {size} bytes"
            )
            yield _wrong(HazardKind.OUT_OF_BOUNDS, place, access, what, thread, address)
    yield from _check_alignment(place, access, [(offset, "the buffer's offset")])


class _Walk(NamedTuple):
    """How far the start of a tile moves: ``steps`` times ``stride`` elements along something."""

    steps: int
    stride: int
    name: str


def _check_device_access(
    program: Program, place: ProgramPoint, access: ThreadAccess
) -> Iterator[Finding]:
    walks = list(_walks(program, access))
    argument = _argument_of(access.value)
    span = physical_elements(resolved_layout_of(argument))
    owner = access.value.owner
    if isinstance(owner, sched.LocalTileOp) and owner.windows is not None:
        # Copies look at each place, so that the windows alone must suffice.
        span = Layout(owner.tensor_shape, owner.tile_strides()).cosize()
    furthest = sum(walk.steps * walk.stride for walk in walks)
    yield from _check_predicate(place, access)
    is_whole = access.predicate is None
    if is_whole and furthest + int(access.offsets.max(initial=0)) + access.width > span:
        past = (access.offsets != IDLE) & (access.offsets + (furthest + access.width) > span)
        if past.any():
            thread, start = _first_thread(access, past)
            where = ", ".join(f"{walk.name} {walk.steps}" for walk in walks if walk.steps)
            last = (furthest + start + access.width) * access.element_bytes - 1
            what = (
                f"up to byte {last} of {value_label(argument)} in thread {thread}"
                f"{' at ' if where else ''}{where}; the tensor spans "
                f"{span * access.element_bytes} bytes"
            )
            yield _wrong(HazardKind.OUT_OF_BOUNDS, place, access, what, thread, last)
    size = access.element_bytes
    starts = [(walk.stride * size, f"the step along {walk.name}") for walk in walks if walk.steps]
    yield from _check_alignment(place, access, starts)


def _check_predicate(place: ProgramPoint, access: ThreadAccess) -> Iterator[Finding]:
    """Elements of a ragged tile that do not exist must be left out.

    Those that are not left out may lie in another row of the tensor, where addresses alone tell
    nothing; those that exist lie in the tensor, whatever block and iteration.
    """
    owner = access.value.owner
    if not isinstance(owner, sched.LocalTileOp):
        return
    predicate = access.predicate
    checked = () if predicate is None else [entry.dim for entry in predicate.ragged]
    for entry in ragged_dims(owner.bounds()):
        if entry.dim not in checked:
            what = (
                f"all elements of {value_label(access.value)} along dimension {entry.dim}, of "
                f"which some do not exist: the tensor ends after {entry.bound.extent} elements"
            )
            yield _wrong(HazardKind.OUT_OF_BOUNDS, place, access, what)


def _argument_of(value: SSAValue) -> SSAValue:
    owner = value.owner
    return owner.source if isinstance(owner, sched.LocalTileOp) else value


def _walks(program: Program, access: ThreadAccess) -> Iterator[_Walk]:
    owner = access.value.owner
    if not isinstance(owner, sched.LocalTileOp):
        return
    grid = program.kernel.grid_dim
    for axis, extent, stride in zip("xyz", grid, owner.block_strides(), strict=True):
        yield _Walk(extent - 1 if stride else 0, stride, f"block {axis}")
    stride = owner.iteration_stride()
    yield _Walk(_last_iteration(program, access) if stride else 0, stride, "iteration")
    if owner.through is not None:
        # A number may name any row.
        rows = shape_of(owner.source.type)[0]
        stride = strides_of(resolved_layout_of(owner.source))[0]
        yield _Walk(rows - 1, stride, "row")


def _last_iteration(program: Program, access: ThreadAccess) -> int:
    """The last iteration whose tile an access means; copies ahead stop at the loop's end."""
    if access.stage.iteration is not None:
        return access.stage.iteration
    iterations = [segment.iterations or 1 for segment in program.segments]
    return max(iterations, default=1) - 1


def _check_alignment(
    place: ProgramPoint, access: ThreadAccess, starts: list[tuple[int, str]]
) -> Iterator[Finding]:
    size = access.access_bytes
    at_once = f"{value_label(access.value)} {size} bytes at once"
    if size & (size - 1) or size > BASE_ALIGNMENT:
        what = f"{at_once}; a thread moves 1, 2, 4, 8 or 16"
        yield _wrong(HazardKind.MISALIGNED, place, access, what)
        return
    for start, name in starts:
        if start % size:
            what = f"{at_once}, but {name} is {start} bytes, which {size} does not divide"
            yield _wrong(HazardKind.MISALIGNED, place, access, what, address=start)
    if access.width == 1:
        return
    odd = (access.offsets % access.width != 0) & (access.offsets != IDLE)
    if odd.any():
        thread, start = _first_thread(access, odd)
        address = start * access.element_bytes
        what = (
            f"{at_once}, but thread {thread} does so at byte {address} of it, which {size} does "
            "not divide"
        )
        yield _wrong(HazardKind.MISALIGNED, place, access, what, thread, address)


def _verb(access: ThreadAccess) -> str:
    return "reads" if access.kind is AccessKind.READ else "writes"


def _two_writers(program: Program, touch: Touch) -> Finding:
    position = touch.footprint.low + int(np.argmax(touch.footprint.owners == SEVERAL))
    threads = touch.threads_at(program.granule, position)
    address = (touch.base + position) * program.granule
    return Finding(
        HazardKind.WRITE_AFTER_WRITE,
        (touch.place.operation,),
        f"{touch.place.describe()} writes {value_label(touch.access.value)} at byte {address} of "
        f"shared memory both in thread {threads[0]} and in thread {threads[1]}",
        (threads[0], threads[1]),
        address,
    )
