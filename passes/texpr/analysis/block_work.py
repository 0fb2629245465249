"""What a block of a mapped kernel does: instructions, traffic and waits, by enumeration."""

from __future__ import annotations

import itertools
import math
import re
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.ancestors import ancestors, enclosing
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.programming_model import (
    GROUP_THREADS,
    LINE_BYTES,
    SECTOR_BYTES,
    VECTOR_BYTES,
    WARP,
)
from mugraph.dialects.te.mapped import UNROLL
from mugraph.dialects.te.points import all_hold
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.costs.mapped_kernels import STORED_LINE_BYTES, BlockWork
from mugraph.passes.costs.work import WORKING_REGISTERS
from mugraph.passes.memory.wavefronts import lines, moved, sectors
from mugraph.passes.targets import MMA, WGMMA, Target
from mugraph.passes.texpr.analysis.access_costs import addresses_at, points_of
from mugraph.passes.texpr.analysis.domains import Access, Domain, accesses_of, domain_of
from mugraph.passes.texpr.analysis.numbers import is_number

IntArray = npt.NDArray[np.int64]

UNROLLED = 4
"""Iterations of a rolled loop whose loads nvcc issues together, where none is under a condition."""
_FREE = (te.ViewOp, te.ApplyOp)
"""What takes no instruction: reads of registers, and addresses."""
_MMA = re.compile(r"mma\.sync\.aligned\.m(\d+)n(\d+)k(\d+)\.row\.col\.\w+\.(\w+)")


def work_of(kernel: te.KernelOp, target: Target) -> BlockWork:
    """What a block of a kernel does: one inside the grid, a warp inside it taken for each."""
    return _Counter(kernel, target).work()


def new_bytes(kernel: te.KernelOp) -> int:
    """Bytes of the buffers in device memory that a kernel touches, each once."""
    buffers = {touch.buffer for touch in te.touches_in(kernel) if _is_in_device_memory(touch)}
    return sum(_size(buffer) for buffer in buffers)


def _is_rolled(op: Operation) -> TypeGuard[te.SeqOp]:
    return isinstance(op, te.SeqOp) and UNROLL not in op.attributes


def _is_in_device_memory(touch: te.Touch) -> bool:
    return touch.type.memory_space in (None, te.Space.GLOBAL)


def _size(buffer: SSAValue) -> int:
    type_ = buffer.type
    assert isinstance(type_, te.BufferType)
    return type_.elements * element_bytes_of(type_)


class _Counter:
    def __init__(self, kernel: te.KernelOp, target: Target) -> None:
        self.kernel = kernel
        self.target = target
        self.threads = kernel.threads.iterations
        self.warps = -(-self.threads // WARP)
        self.instructions = self.product_cycles = self.wavefronts = 0.0
        self.device_bytes = self.turns = self.atomic_turns = 0.0
        self.waits: dict[Block | Operation, float] = {}
        """Of the steps in each block of the program for what they load; of each wait for copies."""
        self.loaded: dict[tuple[Operation, SSAValue], tuple[IntArray, int]] = {}
        """The sectors of a buffer that a step loads, and how often a block comes to it."""
        self._times: dict[Block, float] = {}

    def work(self) -> BlockWork:
        """Counts all accesses and operators of the kernel."""
        accesses = accesses_of(self.kernel)
        for access in accesses:
            if access.type.memory_space is not te.Space.REGISTER:
                self._access(access, accesses)
        for sectors_, times in self.loaded.values():
            self.device_bytes += len(sectors_) * SECTOR_BYTES * times
        for op in self.kernel.threads.walk():
            self._operator(op)
        return BlockWork(
            self.threads,
            0 if self.kernel.smem is None else self.kernel.smem.value.data,
            self._registers(),
            *(self.instructions, self.product_cycles, self.wavefronts),
            *(self.device_bytes, sum(self.waits.values()), self.turns, self.atomic_turns),
        )

    def _access(self, access: Access, accesses: list[Access]) -> None:
        op = access.op
        size = element_bytes_of(access.type)
        if isinstance(op, te.BulkCopyOp):
            if _is_in_device_memory(access):
                self.device_bytes += self._times_of(op) * math.prod(op.extents) * size
            return
        found = None if isinstance(op, te.WarpgroupMmaOp) else self._points(access.domain)
        if found is None:
            return
        points, times = found
        width = min(math.prod(access.box) * size, VECTOR_BYTES)
        is_load = access.kind is te.AccessKind.READ and _is_in_device_memory(access)
        if is_load and not isinstance(op, te.AsyncCopy):
            self._load(access, addresses_at(access, points), width, times)
        points, warps = self._of_a_warp(access.domain, points)
        count = times * warps
        rows = addresses_at(access, points)
        if isinstance(op, te.AsyncCopy):
            side = next(one for one in accesses if one.op is op and one is not access)
            self._move(access, rows, width, count, addresses_at(side, points))
            return
        if access.type.memory_space is not te.Space.SHARED:
            self._device(access, rows, width, count)
        elif access.kind is te.AccessKind.READ and not self._is_written(access):
            for some, together in once_and_together(rows, width):
                self._move(access, some, together, count, None)
        else:
            self._move(access, rows, width, count, None)
        step = enclosing(op, te.StepOp)
        if is_load and step is not None:
            around = [one for one in ancestors(op) if step.is_ancestor(one)]
            turns = math.prod(one.iterations for one in around if _is_rolled(one))
            inside = itertools.takewhile(lambda one: not _is_rolled(one), around)
            if not any(isinstance(one, te.Conditional) for one in inside):
                turns = max(1.0, turns / UNROLLED)
            turns *= times
            # Steps beside each other load at once.
            home = step.parent_block()
            assert home is not None
            self.waits[home] = max(turns, self.waits.get(home, 0.0))

    def _device(self, access: Access, rows: IntArray, width: int, count: int) -> None:
        """Counts loads, stores and atomic operations of device memory by a warp.

        A compiler does not know where buffers begin, and leaves neighbours apart.  The first-level
        cache looks a line up at a time, and passes stores on.
        """
        loads = access.kind is te.AccessKind.READ
        if loads and not self._is_written(access):
            rows = np.unique(rows, axis=0)
        touched = float(np.sum(lines(rows))) * count
        self.instructions += len(rows) * count
        self.wavefronts += touched
        if not loads:
            # Sectors that are written whole are passed on as they are.
            written = (rows >= 0).sum(axis=1) * width
            whole = sectors(rows, width) * SECTOR_BYTES
            stored = np.where(written == whole, whole, lines(rows) * STORED_LINE_BYTES)
            self.device_bytes += float(np.sum(stored)) * count
        if access.combines is not None:
            self.atomic_turns += touched / max(1, _size(access.buffer) // LINE_BYTES)

    def _load(self, access: Access, rows: IntArray, width: int, times: int) -> None:
        """Notes the sectors that a step loads; the first-level cache keeps them until it ends."""
        used = rows[rows >= 0]
        touched = (used // SECTOR_BYTES, (used + width - 1) // SECTOR_BYTES)
        place = enclosing(access.op, te.StepOp) or self.kernel, access.buffer
        loaded, before = self.loaded.get(place, ((), 0))
        self.loaded[place] = np.unique(np.concatenate((loaded, *touched))), max(times, before)

    def _is_written(self, access: Access) -> bool:
        """Whether the step of an access writes its buffer, so that it is read anew."""
        step = enclosing(access.op, te.StepOp) or self.kernel
        touches = te.touches_in(step)
        return any(touch.buffer is access.buffer and touch.writes for touch in touches)

    def _points(self, domain: Domain) -> tuple[dict[SSAValue, IntArray], int] | None:
        """The values of all variables in a block, as :func:`points_of`.

        Two thirds of a power of two have no digit that is the first or the last of its dimension.
        """
        found = points_of(domain, self.kernel)
        if found is not None:
            found[0][self.kernel.variable] = np.array(self.kernel.iterations * 2 // 3)
        return found

    def _of_a_warp(
        self, domain: Domain, points: dict[SSAValue, IntArray]
    ) -> tuple[dict[SSAValue, IntArray], int]:
        """The points of one warp of those that come to an operator, and how many these are."""
        warps = points[self.kernel.threads.variable] // WARP
        come = np.unique(warps[np.broadcast_to(all_hold(domain.conditions, points), warps.shape)])
        taken = warps == (come[len(come) * 2 // 3] if len(come) else 0)
        return {name: one[taken] if one.ndim else one for name, one in points.items()}, len(come)

    def _move(
        self, access: Access, rows: IntArray, width: int, count: int, other: IntArray | None
    ) -> None:
        """Counts instructions of a warp, to which so many come."""
        if not len(rows):
            return
        is_shared = access.type.memory_space is te.Space.SHARED
        matrices = isinstance(access.op, te.AsmOp) and access.op.moves_matrices
        counted = moved(
            *(rows, width),
            shared=is_shared,
            writes=access.kind is not te.AccessKind.READ,
            other=other,
            collective=matrices,
        )
        traffic = float(np.sum(counted)) * count
        if is_shared or other is None:
            self.instructions += len(rows) * count
        if is_shared:
            self.wavefronts += traffic
        else:
            self.device_bytes += traffic * SECTOR_BYTES

    def _operator(self, op: Operation) -> None:
        match op:
            case te.StepOp():
                self.turns += self._times_of(op) / self.warps
            case te.WaitOp():
                turns = self._times_of(op) / self.warps
                self.waits[op] = turns / (op.in_flight.value.data + 1)
            case te.AsmOp() if found := _MMA.match(op.text.data):
                *extents, element = found.groups()
                rate = self.target.macs_a_cycle[MMA][element]
                macs = math.prod(map(int, extents))
                self.instructions += self._times_of(op)
                self.product_cycles += self._times_of(op) * macs / rate
            case te.WarpgroupMmaOp():
                atom = mma_atom(op.atom.data)
                rate = self.target.macs_a_cycle[WGMMA][atom.a_type]
                groups = self._times_of(op) * WARP / GROUP_THREADS
                self.product_cycles += groups * math.prod(atom.shape_mnk) / rate
            case _ if is_number(op) and not isinstance(op, _FREE) and not _is_fused(op):
                self.instructions += self._times_of(op)
            case _:
                pass

    def _times_of(self, op: Operation) -> float:
        """How many instructions all warps have of an operator."""
        block = op.parent_block()
        assert block is not None
        if block not in self._times:
            self._times[block] = self._count(op)
        return self._times[block]

    def _count(self, op: Operation) -> float:
        domain = domain_of(op)
        found = self._points(domain)
        if found is None:
            inside = [one for one in domain.loops if one not in (self.kernel, self.kernel.threads)]
            return float(math.prod(one.iterations for one in inside)) * self.warps
        points, times = found
        count = max(len(one) for one in points.values() if one.ndim)
        holds = np.broadcast_to(all_hold(domain.conditions, points), (count,))
        rows = holds.reshape(-1, self.threads)
        padded = np.pad(rows, ((0, 0), (0, -self.threads % WARP)))
        warps = padded.reshape(len(rows), -1, WARP).any(axis=2)
        return float(warps.sum()) * times

    def _registers(self) -> int:
        """What a thread holds at once: each buffer from what uses it first to what does last."""
        return WORKING_REGISTERS + _held_in(self.kernel.threads.body.block)


def _held_in(block: Block) -> int:
    """The most registers of buffers that are made in a block, and in those in it, at one time."""
    held = [max((_held_in(one.block) for one in op.regions), default=0) for op in block.ops]
    places = {op: place for place, op in enumerate(block.ops)}
    for op in block.ops:
        if isinstance(op, te.NewOp) and op.result.type.memory_space is te.Space.REGISTER:
            around = ((use.operation, *ancestors(use.operation)) for use in op.result.uses)
            used = [places[one] for each in around for one in each if one in places]
            for place in range(min(used, default=0), max(used, default=-1) + 1):
                held[place] += -(-_size(op.result) // 4)
    return max(held, default=0)


def once_and_together(rows: IntArray, width: int) -> list[tuple[IntArray, int]]:
    """What a compiler makes of a warp's loads of shared memory that nothing writes meanwhile.

    Each address is loaded once, and neighbours of every lane at once, up to 16 bytes: addresses
    ``[instructions, 32]`` and the bytes of each.
    """
    if not len(rows):
        return []
    rows = np.unique(rows, axis=0)
    wide = VECTOR_BYTES // width
    if wide == 1 or len(rows) < wide or (rows < 0).any():
        return [(rows, width)]
    follows = (np.diff(rows, axis=0) == width).all(axis=1)
    aligned = (rows % VECTOR_BYTES == 0).all(axis=1)
    at = np.flatnonzero(aligned[: len(rows) - wide + 1])
    at = at[[bool(follows[one : one + wide - 1].all()) for one in at]]
    in_vectors = np.zeros(len(rows), np.bool_)
    for offset in range(wide):
        in_vectors[at + offset] = True
    return [(rows[at], VECTOR_BYTES), (rows[~in_vectors], width)]


def _is_fused(op: Operation) -> bool:
    """Whether a product is part of the sum that uses it, or a constant takes no instruction."""
    if isinstance(op, arith.ConstantOp):
        return True
    users = [use.operation for use in op.results[0].uses] if isinstance(op, arith.MulfOp) else []
    return len(users) == 1 and isinstance(users[0], arith.AddfOp)
