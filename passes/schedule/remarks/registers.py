"""Remarks about values that pass through shared memory on their way from operator to operator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.interfaces import read_by, written_by
from mugraph.dialects.sched.accesses import AccessKind
from mugraph.dialects.sched.kernel import WARP
from mugraph.dialects.sched.mappings import IDLE, IntArray
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    element_type_of,
    op_label,
    shape_of,
)
from mugraph.passes.costs.kept_sums import register_limit
from mugraph.passes.schedule.analysis.registers import registers_needed
from mugraph.passes.schedule.analysis.remarks import Kind, Obstacle, Remark
from mugraph.passes.schedule.promote_registers import promote_registers
from mugraph.passes.schedule.remarks.scheduled import Scheduled, shown
from mugraph.passes.schedule.tile_values import tiles_by_registers


@dataclass(frozen=True)
class Passage:
    """What one operator writes to a buffer and another reads."""

    buffer: SSAValue
    writer: Operation
    reader: Operation


class Reach(IntEnum):
    """How far a value goes, the furthest first."""

    ROLES = 0
    WARPS = 1
    LANES = 2
    THREAD = 3


@dataclass(frozen=True)
class Exchange:
    """Why a value that passes is not held by the threads that use it."""

    reach: Reach
    why: Obstacle


def register_remarks(scheduled: Scheduled) -> Iterator[Remark]:
    """Of each buffer through which computed values pass: who reads what others wrote."""
    for value, found in passages(scheduled.kernel).items():
        known = [why for passage in found if (why := _obstacle(scheduled, passage)) is not None]
        if not known:
            continue
        loops = [sched.enclosing_loop(passage.reader) for passage in found]
        iterations = max(1 if loop is None else loop.iterations for loop in loops)
        often = "once" if iterations == 1 else f"in each of {iterations} iterations"
        lost = f"{shown(value)} passes through shared memory {often}"
        why = min(known, key=lambda exchange: exchange.reach).why
        yield scheduled.remark(Kind.REGISTERS, lost, why, shown(value))


def step_remarks(scheduled: Scheduled) -> Iterator[Remark]:
    """Unary operators of their own that could be steps of the operator whose result they read."""
    for value, found in passages(scheduled.kernel).items():
        writer, reader = found[0].writer, found[0].reader
        is_unary = isinstance(reader, sched.MapOp) and len(reader.sources) == 1
        if len(found) > 1 or not is_unary or isinstance(writer, sched.MaskOp):
            continue
        if sched.enclosing_loop(writer) is not sched.enclosing_loop(reader):
            continue  # what follows a sum over the iterations follows the loop
        why = Obstacle("--fuse-threadblock did not run", "run it before --lower-threadblock")
        if element_bytes_of(value.type) == 1:
            type_ = element_type_of(value.type)
            why = Obstacle(f"{shown(value)} is rounded to {type_}, which the µGraph asks for")
        lost = (
            f"{shown(value)} is read by a '{reader.name}' of its own, and not by a step of "
            f"the '{writer.name}' that writes it"
        )
        yield scheduled.remark(Kind.FUSION, lost, why, shown(value))


def passages(kernel: sched.KernelOp) -> dict[SSAValue, list[Passage]]:
    """The passages of each buffer that threads both compute and compute from.

    What is brought from device memory, or written there as it is, must pass, and so must parts of
    sums that warps combine.
    """
    writers: dict[SSAValue, Operation] = {}
    readers: dict[SSAValue, list[Operation]] = {}
    for op in kernel.body.walk():
        if isinstance(op, sched.CopyOp | sched.BulkCopyOp | sched.FillOp):
            continue
        reduces = isinstance(op, sched.ReduceOp)
        for value in written_by(op):
            if isinstance(value.type, sched.SharedType) and not (reduces and op.parts):
                writers[value] = op
        for value in read_by(op):
            if isinstance(value.type, sched.SharedType) and not (reduces and op.drops_dim):
                readers.setdefault(value, []).append(op)
    return {
        value: [Passage(value, writer, reader) for reader in readers[value]]
        for value, writer in writers.items()
        if value in readers
    }


def _obstacle(scheduled: Scheduled, passage: Passage) -> Exchange | None:
    """Why a value is not held by the threads that use it; ``None`` where that is not known."""
    writer, reader = passage.writer, passage.reader
    if isinstance(reader, sched.WarpgroupMmaOp):
        return Exchange(Reach.WARPS, Obstacle(f"'{reader.name}' reads it by descriptors"))
    if sched.enclosing_role(writer) is not sched.enclosing_role(reader):
        return Exchange(Reach.ROLES, Obstacle(f"'{reader.name}' reads it in another role"))
    try:
        written, writers = _threads_of(writer, passage.buffer, AccessKind.WRITE)
        read, readers = _threads_of(reader, passage.buffer, AccessKind.READ)
    except sched.AccessError:
        return None
    owners = np.full(max(written.max(), read.max()) + 1, IDLE, dtype=np.int64)
    owners[written] = writers
    of_read = np.where(owners[read] == IDLE, readers, owners[read])
    crosses = of_read // WARP != readers // WARP
    if crosses.any():
        first = int(np.argmax(crosses))
        wrote_it, reads_it = (int(of[first]) // WARP for of in (of_read, readers))
        reason = f"warp {reads_it} reads in '{reader.name}' what warp {wrote_it} wrote in"
        return Exchange(Reach.WARPS, Obstacle(f"{reason} '{writer.name}'", _whole_rows(writer)))
    if (of_read != readers).any():
        reason = f"lanes read in '{reader.name}' what other lanes of their warp wrote in"
        return Exchange(Reach.LANES, Obstacle(f"{reason} '{writer.name}'"))
    return Exchange(Reach.THREAD, _held_nowhere(scheduled, passage.buffer))


def _threads_of(op: Operation, buffer: SSAValue, kind: AccessKind) -> tuple[IntArray, IntArray]:
    """Elements of a buffer, and the thread that reads or writes each, in pairs."""
    accesses = op.thread_accesses() if isinstance(op, sched.HasThreadAccesses) else ()
    elements: list[IntArray] = []
    threads: list[IntArray] = []
    for access in accesses:
        if access.value is buffer and access.kind is kind:
            touched = access.significant_elements()
            every: IntArray = np.indices(touched.shape)[1]
            elements.append(touched[touched != IDLE])
            threads.append(every[touched != IDLE])
    if not elements:
        raise sched.AccessError(f"{op_label(op)} declares no accesses to {shown(buffer)}")
    return np.concatenate(elements), np.concatenate(threads)


def _whole_rows(writer: Operation) -> str:
    """The tile of a product whose rows would lie in one warp each, where they do not."""
    held = writer.operands[0].type
    mma = held.tiled_mma if isinstance(held, sched.TileType) else None
    if mma is None or mma.thr_layout[1:] == (1, 1):
        return ""
    atom = mma_atom(mma.atom)
    rows = math.prod(mma.thr_layout) * atom.shape_mnk[0]
    if atom.is_scalar or atom.swaps_operands or shape_of(held)[-2] >= rows:
        return ""
    return f"cut tiles of {rows} rows, so that each warp has whole ones"


def _held_nowhere(scheduled: Scheduled, buffer: SSAValue) -> Obstacle:
    """Why a value of which each thread reads only what it wrote is not in registers."""
    kernel, target = scheduled.kernel, scheduled.target
    trial = kernel.clone()
    with tiles_by_registers(trial):
        fits = promote_registers(trial, target)
    if fits:
        return Obstacle("--promote-registers did not run", "run it")
    limit = register_limit(kernel.threads, target.registers_per_multiprocessor)
    values = math.ceil(math.prod(shape_of(buffer.type)) / kernel.threads)
    needed = registers_needed(kernel) + values
    if needed > limit:
        return Obstacle(
            f"a thread would need about {needed} registers of {limit}",
            "give the block more threads, or cut smaller tiles",
        )
    return Obstacle("an operator that goes with those on it is dealt out in another way")
