"""What each operator of a schedule touches, as arrays of offsets: computed once an operator.

Everything follows from the accesses that the operator declares
(:mod:`mugraph.dialects.sched.accesses`).  Offsets are ``[values, threads]``: a thread's values in
the order in which the header library keeps them in registers, -1 where the thread has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import DiagnosticException

from mugraph.dialects import sched
from mugraph.dialects.cute.thread_values import ThreadValues
from mugraph.dialects.sched.accesses import AccessKind, HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.mappings import IDLE, IntArray
from mugraph.dialects.sched.quad_store import held_before
from mugraph.dialects.sched.types import Distribution
from mugraph.dialects.tensor_types import op_label, shape_of, value_label
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.memory import element_dtype, unit_dtype

Threads = slice
"""The threads of a block that run an operator at once: all of them, or a warp."""

Plan = TypeVar("Plan")
PlannedOp = TypeVar("PlannedOp", bound=Operation)


def accesses_of(op: HasThreadAccesses) -> Sequence[ThreadAccess]:
    """What an operator declares; raises ``ExecutionError`` where its accesses are not modelled."""
    try:
        return op.thread_accesses()
    except DiagnosticException as error:
        raise ExecutionError(str(error)) from error


@dataclass(frozen=True, eq=False)
class ThreadOffsets:
    """The offsets of some threads, without those that are idle."""

    shape: tuple[int, int]
    """Values and threads, idle ones counted."""
    active: npt.NDArray[np.bool_] | None
    """Who takes part, [values, threads]; ``None`` where all do."""
    offsets: IntArray
    """The offsets of those that take part, in the order of values, then threads."""

    def compressed(self, values: Array) -> Array:
        """[blocks, values, threads] as [blocks, n], without idle threads."""
        flat = values.reshape(values.shape[0], -1)
        return flat if self.active is None else flat[:, self.active.reshape(-1)]

    def expanded(self, values: Array, idle: Array) -> Array:
        """[blocks, n] as [blocks, values, threads], with ``idle`` where threads are idle."""
        if self.active is None:
            return values.reshape(-1, *self.shape)
        full = np.empty((values.shape[0], *self.shape), values.dtype)
        full[...] = idle
        full[:, self.active] = values
        return full


@dataclass(frozen=True, eq=False)
class AccessPlan:
    """One access of an operator, in units of ``dtype`` from the start of the stage or tile."""

    access: ThreadAccess
    dtype: np.dtype[Any]
    offsets: IntArray
    first_byte: int
    last_byte: int
    """The range of bytes that the access touches, from the start."""
    _of_threads: dict[tuple[int, int], ThreadOffsets] = field(
        default_factory=dict[tuple[int, int], ThreadOffsets]
    )

    @property
    def label(self) -> str:
        """How errors name the access."""
        access = self.access
        value = value_label(access.value)
        return f"{op_label(access.operation)}: '{access.instruction}' of {value}"

    def of(self, threads: Threads) -> ThreadOffsets:
        """The offsets of some threads."""
        key = (threads.start, threads.stop)
        known = self._of_threads.get(key)
        if known is None:
            chosen = self.offsets[:, threads]
            active = chosen != IDLE
            whole = bool(active.all())
            shape = (chosen.shape[0], chosen.shape[1])
            known = ThreadOffsets(shape, None if whole else active, chosen[active])
            self._of_threads[key] = known
        return known


def _extent(access: ThreadAccess) -> tuple[int, int]:
    """The first and the last byte that an access touches, from the start."""
    active = access.offsets[access.offsets != IDLE]
    if not active.size:
        return 0, -1
    first, last = int(active.min()), int(active.max())
    size = access.element_bytes
    if np.any(active * size % access.access_bytes):
        raise ExecutionError(
            f"{op_label(access.operation)}: '{access.instruction}' of {value_label(access.value)} "
            f"is not aligned to {access.access_bytes} bytes"
        )
    return first * size, (last + access.width) * size - 1


def plan_vectors(access: ThreadAccess) -> AccessPlan:
    """An access by whole instructions: one value an instruction, moved as it is."""
    first, last = _extent(access)
    offsets = np.where(access.offsets == IDLE, IDLE, access.offsets // access.width)
    return AccessPlan(access, unit_dtype(access.access_bytes), offsets, first, last)


def plan_elements(access: ThreadAccess, values: int | None = None) -> AccessPlan:
    """An access by elements; where it has fewer than ``values``, vectors are broadcast."""
    first, last = _extent(access)
    threads = access.offsets.shape[1]
    offsets = access.elements().transpose(0, 2, 1).reshape(-1, threads)
    if values is not None and offsets.shape[0] != values:
        offsets = np.repeat(offsets, values // offsets.shape[0], axis=0)
    return AccessPlan(access, element_dtype(access.value.type), offsets, first, last)


@dataclass(frozen=True, eq=False)
class CopyPlan:
    """A copy: both sides move the same units."""

    source: AccessPlan
    destination: AccessPlan

    @classmethod
    def build(cls, op: sched.CopyOp) -> CopyPlan:
        """By whole vectors where both sides have the same ones, otherwise by elements."""
        source, destination, *_ = accesses_of(op)
        if op.checked_dims:
            # Of a vector at the end of a ragged tile only some elements are moved.
            return cls(plan_elements(source), plan_elements(destination))
        if source.access_bytes == destination.access_bytes and source.width == destination.width:
            return cls(plan_vectors(source), plan_vectors(destination))
        return cls(plan_elements(source), plan_elements(destination))

    @classmethod
    def of_bulk(cls, op: sched.BulkCopyOp) -> CopyPlan:
        """The chunks of a bulk copy, the same ones on both sides."""
        source, destination = accesses_of(op)
        by = plan_elements if op.ragged() else plan_vectors
        return cls(by(source), by(destination))


@dataclass(frozen=True, eq=False)
class ComputePlan:
    """An operator that reads buffers element by element and writes one, or a fragment."""

    sources: tuple[AccessPlan, ...]
    destination: AccessPlan | None

    @classmethod
    def build(cls, op: HasThreadAccesses, values: int | None = None) -> ComputePlan:
        """The plan of an operator whose threads hold ``values`` values each.

        An accumulating epilogue reads where it writes, so that its read is left out here.
        """
        accesses = accesses_of(op)
        writes = [access for access in accesses if access.kind is AccessKind.WRITE]
        written = {access.operand for access in writes}
        return cls(
            tuple(plan_elements(a, values) for a in accesses if a.operand not in written),
            plan_elements(writes[0], values) if writes else None,
        )

    @classmethod
    def of_move(cls, op: sched.MoveOp) -> ComputePlan:
        """The plan of an operator that moves elements."""
        return cls.build(op, op.partition.data.values_per_thread(shape_of(op.part.type)))

    @classmethod
    def of_parts(cls, op: sched.ReduceOp) -> ComputePlan:
        """The plan of a sum of parts, one source each."""
        assert isinstance(op.distribution, Distribution)  # verified
        return cls.build(op, op.distribution.thread_values(shape_of(op.destination.type)).values)


@dataclass(frozen=True, eq=False)
class StorePlan:
    """A store of a fragment: where its elements go, and which value of which thread each was.

    ``held`` are the values and the threads, [elements, threads], where lanes exchange what they
    hold; ``None`` where each thread writes its own.  ``own`` are the numbers of these; ``None``
    stands for all.
    """

    destination: AccessPlan
    held: tuple[IntArray, IntArray] | None
    own: Sequence[int] | None = None

    @classmethod
    def build(cls, op: sched.StoreOp) -> StorePlan:
        """The plan of a store."""
        access = accesses_of(op)[-1]
        source = op.source.type
        if not op.by_quads or not isinstance(source, sched.TileType):
            return cls(plan_elements(access), None, op.values_written)
        idle = access.offsets.shape[1] - source.thread_values().threads
        value, lane = (
            np.pad(held.reshape(-1, held.shape[-1]), ((0, 0), (0, idle)))
            for held in held_before(source.thread_values())
        )
        return cls(plan_elements(access), (value, lane))

    def of_registers(self, registers: Array, threads: Threads) -> Array:
        """What some threads write, [blocks, elements, threads]."""
        if self.held is None:
            own = registers if self.own is None else registers[:, self.own]
            return own[:, :, threads]
        value, lane = self.held
        return registers[:, value[:, threads], lane[:, threads]]


@lru_cache
def existing(held: ThreadValues, block: int) -> npt.NDArray[np.bool_]:
    """Which values of the threads of a block exist, ``[values, threads]``."""
    return np.pad(held.exists(), ((0, 0), (0, block - held.threads)))


@dataclass(frozen=True, eq=False)
class HeldOperand:
    """An operand in registers; ``of_value`` says which one each value of the operator takes."""

    of_value: IntArray

    def of_registers(self, registers: Array) -> Array:
        """The operand of each value, [blocks, values, threads]."""
        return registers[:, self.of_value]


@dataclass(frozen=True, eq=False)
class ElementwisePlan:
    """An element-wise operator, or a mask: operands in memory and in registers."""

    sources: tuple[AccessPlan | HeldOperand, ...]
    destination: AccessPlan | None
    active: npt.NDArray[np.bool_]
    """Which values exist, ``[values, threads]``."""

    @classmethod
    def build(cls, op: sched.MapOp | sched.MaskOp) -> ElementwisePlan:
        """The plan of an operator."""
        block = sched.enclosing_threads(op)
        shape = shape_of(op.destination.type)
        held = _distribution_of(op).thread_values(shape)
        active = existing(held, block)
        accesses = accesses_of(op)
        last = len(op.operands) - 1
        values = active.shape[0]
        read = {a.operand: a for a in accesses if a.kind is AccessKind.READ and a.operand != last}
        writes = [access for access in accesses if access.kind is AccessKind.WRITE]
        return cls(
            tuple(
                plan_elements(read[operand], values) if operand in read else _held(value, held)
                for operand, value in enumerate(op.operands[:last])
            ),
            plan_elements(writes[0], values) if writes else None,
            active,
        )


def _distribution_of(op: sched.MapOp | sched.MaskOp) -> Distribution:
    assert isinstance(op.distribution, Distribution)  # verified
    return op.distribution


def _held(value: SSAValue, whole: ThreadValues) -> HeldOperand:
    """A fragment as an operand: one that is held as the operator is dealt out, or rows of it."""
    assert isinstance(value.type, sched.TileType)  # in memory, it would be read
    return HeldOperand(value.type.thread_values().value_of(whole))


@dataclass(frozen=True, eq=False)
class ReducePlan:
    """A reduction: ``source`` has rounds * elements values a thread, ``destination`` rounds."""

    source: AccessPlan
    destination: AccessPlan
    difference: AccessPlan | None

    @property
    def rounds(self) -> int:
        """How many sums a group of lanes computes."""
        return self.destination.offsets.shape[0]

    @classmethod
    def build(cls, op: sched.ReduceOp) -> ReducePlan:
        """The plan of a reduction."""
        source, *accesses = accesses_of(op)
        destination = next(a for a in accesses if a.kind is AccessKind.WRITE and a.operand == 1)
        differences = [plan_elements(a) for a in accesses if a.operand == 2]
        return cls(
            plan_elements(source),
            plan_elements(destination),
            differences[0] if differences else None,
        )


@dataclass
class Plans:
    """The plans of operators, each made when it is first asked for.

    They hold as long as the operators do not change.
    """

    _known: dict[Operation, Any] = field(default_factory=dict[Operation, Any])

    def of(self, op: PlannedOp, build: Callable[[PlannedOp], Plan]) -> Plan:
        """The plan of an operator, which ``build`` makes; always the same for an operator."""
        if op not in self._known:
            self._known[op] = build(op)
        return self._known[op]
