"""Memory as bytes: the shared memory of blocks, tensors in device memory, copies in flight.

All blocks that run together are the first axis of every array.  Bytes that hold nothing yet are
:data:`POISON`: NaN in every element type, so whatever is computed from them is NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Attribute, SSAValue

from mugraph.dialects.cute import Layout
from mugraph.dialects.sched.accesses import StageReference
from mugraph.dialects.tensor_types import (
    AnyLayout,
    element_type_of,
    physical_elements,
    resolved_layout_of,
    shape_of,
    strides_of,
)
from mugraph.dialects.windows import Windows
from mugraph.runtime.interpreter.arithmetic import Array, storage_dtype
from mugraph.runtime.interpreter.components import existing_rows
from mugraph.runtime.strided import strided_view

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

POISON = 0xFF
"""The value of every byte that nothing was written to."""

_UNITS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),  # 16 bytes that numpy moves as they are
}
_LINE = 16


def unit_dtype(size: int) -> np.dtype[Any]:
    """The numpy type that moves ``size`` bytes (1, 2, 4, 8 or 16) as they are."""
    return _UNITS[size]


def poison(dtype: np.dtype[Any]) -> Array:
    """One element of poison."""
    return np.full(dtype.itemsize, POISON, np.uint8).view(dtype)


class Storage(ABC):
    """A buffer or a tile, of every block that runs: where accesses count from, and its memory."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The bytes of the memory that accesses must stay in."""

    @property
    @abstractmethod
    def space(self) -> str:
        """How errors name that memory."""

    @abstractmethod
    def starts(self, stage: StageReference, iteration: int, position: int = 0) -> IntArray:
        """The first byte of the stage or tile meant in an iteration: one, or one a block.

        In the loop of the blocks of the grid at ``position`` of the lists.
        """

    @abstractmethod
    def read(self, dtype: np.dtype[Any], offsets: IntArray, starts: IntArray) -> Array:
        """What lies at ``offsets``, in units of ``dtype`` from ``starts``: [blocks, ...]."""

    @abstractmethod
    def write(self, offsets: IntArray, starts: IntArray, values: Array) -> None:
        """Writes ``values``, [blocks, n], to ``offsets``, [n], counted as in :meth:`read`."""


class SharedMemory:
    """The shared memory of some blocks, ``[blocks, bytes]``, all of it poison at first."""

    def __init__(self, blocks: int, size: int) -> None:
        self.size = size
        """How many bytes a block may touch."""
        self.bytes = np.full((blocks, -(-size // _LINE) * _LINE), POISON, np.uint8)

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return self.bytes.shape[0]


@dataclass(frozen=True)
class SharedBuffer(Storage):
    """A buffer in shared memory: its offset, its stages and their size, in bytes.

    Stages go on from one block of the grid to the next, ``iterations`` later.
    """

    memory: SharedMemory
    offset: int
    stages: int
    stage_bytes: int
    iterations: int = 1

    @property
    def size(self) -> int:
        """The shared memory of a block."""
        return self.memory.size

    @property
    def space(self) -> str:
        """How errors name shared memory."""
        return "the block's shared memory"

    def starts(self, stage: StageReference, iteration: int, position: int = 0) -> IntArray:
        """The first byte of a stage, the same in every block."""
        before = position * self.iterations
        number = stage.stage_at(iteration, self.stages, before)
        return np.array([self.offset + number * self.stage_bytes])

    def read(self, dtype: np.dtype[Any], offsets: IntArray, starts: IntArray) -> Array:
        """What lies at ``offsets`` in every block."""
        return np.take(self.memory.bytes.view(dtype), offsets + starts // dtype.itemsize, axis=1)

    def write(self, offsets: IntArray, starts: IntArray, values: Array) -> None:
        """Writes to every block."""
        view = self.memory.bytes.view(values.dtype)
        rows = np.arange(self.memory.blocks)[:, None] * view.shape[1]
        at = rows + (offsets + starts // values.dtype.itemsize)
        view.reshape(-1)[at.reshape(-1)] = values.reshape(-1)


@dataclass
class DeviceTensor:
    """A tensor in device memory as its layout places it: one-dimensional, with its padding."""

    shape: tuple[int, ...]
    layout: AnyLayout
    elements: Array
    written: npt.NDArray[np.bool_] | None = None
    """Which elements the kernel wrote; ``None`` for a tensor that it only reads."""

    @classmethod
    def empty(cls, value: SSAValue) -> DeviceTensor:
        """A tensor of a parameter's type that nothing was written to."""
        count = physical_elements(resolved_layout_of(value))
        dtype = storage_dtype(element_type_of(value.type))
        elements = np.full(count * dtype.itemsize, POISON, np.uint8).view(dtype)
        layout = resolved_layout_of(value)
        return cls(shape_of(value.type), layout, elements, np.zeros(count, np.bool_))

    @classmethod
    def of(cls, value: SSAValue, array: Array) -> DeviceTensor:
        """A logical array, placed as the type of a kernel's parameter says; padding is poison."""
        layout = resolved_layout_of(value)
        dtype = storage_dtype(element_type_of(value.type))
        given = np.ascontiguousarray(array, dtype)
        if _is_row_major(given, strides_of(layout)):
            return cls(given.shape, layout, given.reshape(-1))
        tensor = cls.empty(value)
        tensor._logical_view(tensor.elements)[...] = given
        return cls(tensor.shape, layout, tensor.elements)

    def _logical_view(self, flat: Array) -> Array:
        return strided_view(flat, self.shape, strides_of(self.layout))

    def logical(self) -> Array:
        """The tensor as a logical array; what was never written is NaN."""
        return np.array(self._logical_view(self.elements))

    def logical_written(self) -> npt.NDArray[np.bool_]:
        """Where the logical array was written."""
        if self.written is None:
            return np.ones(self.shape, np.bool_)
        return np.array(self._logical_view(self.written))


def _is_row_major(array: Array, strides: Sequence[int]) -> bool:
    wanted = tuple(stride // array.itemsize for stride in array.strides)
    return all(
        extent == 1 or one == other
        for extent, one, other in zip(array.shape, wanted, strides, strict=True)
    )


def _as_units(elements: Array, dtype: np.dtype[Any]) -> Array:
    """The elements as units of ``dtype``; a last partial one is left out (no access has it)."""
    whole = elements.nbytes // dtype.itemsize * dtype.itemsize // elements.itemsize
    return elements[:whole].view(dtype)


@dataclass(frozen=True)
class DeviceTile(Storage):
    """The tiles that blocks see of a tensor: where they start, and how far an iteration moves."""

    tensor: DeviceTensor
    first: IntArray
    """The first byte of each block's tile in iteration 0, [positions, blocks]."""
    iteration_bytes: int = 0

    @property
    def size(self) -> int:
        """The bytes of the tensor, padding included."""
        return self.tensor.elements.nbytes

    @property
    def space(self) -> str:
        """How errors name the tensor."""
        return "the tensor in device memory"

    def starts(self, stage: StageReference, iteration: int, position: int = 0) -> IntArray:
        """The first byte of each block's tile."""
        return self.first[position] + stage.iteration_at(iteration) * self.iteration_bytes

    def read(self, dtype: np.dtype[Any], offsets: IntArray, starts: IntArray) -> Array:
        """What lies at ``offsets`` in each block's tile."""
        return _as_units(self.tensor.elements, dtype).take(_each_block(dtype, offsets, starts))

    def read_existing(
        self, dtype: np.dtype[Any], offsets: IntArray, starts: IntArray, exists: BoolArray
    ) -> Array:
        """As :meth:`read`, zero where ``exists``, [blocks, n], says that there is nothing."""
        at = np.where(exists, _each_block(dtype, offsets, starts), 0)
        values = _as_units(self.tensor.elements, dtype).take(at)
        values[~exists] = 0
        return values

    def write_existing(
        self, offsets: IntArray, starts: IntArray, values: Array, exists: BoolArray
    ) -> None:
        """As :meth:`write`, only where ``exists``, [blocks, n]."""
        self._write_at(
            _each_block(values.dtype, offsets, starts)[exists],
            np.broadcast_to(values, exists.shape)[exists],
        )

    def write(self, offsets: IntArray, starts: IntArray, values: Array) -> None:
        """Writes to each block's tile, and notes what was written."""
        self._write_at(_each_block(values.dtype, offsets, starts).reshape(-1), values.reshape(-1))

    def _write_at(self, at: IntArray, values: Array) -> None:
        tensor = self.tensor
        _as_units(tensor.elements, values.dtype)[at] = values
        if tensor.written is not None:
            count = values.dtype.itemsize // tensor.elements.itemsize
            for element in range(count):
                tensor.written[at * count + element] = True


@dataclass(frozen=True)
class WindowTile(DeviceTile):
    """Tiles of windows; starts and offsets are those that the windows would have in memory."""

    windows: Windows = field(kw_only=True)

    @property
    def size(self) -> int:
        """The bytes that the windows would take."""
        strides = self.windows.virtual_strides(strides_of(self.tensor.layout))
        return Layout(self.windows.shape, strides).cosize() * self.tensor.elements.itemsize

    def read(self, dtype: np.dtype[Any], offsets: IntArray, starts: IntArray) -> Array:
        """What lies at ``offsets`` in each block's tile, zero outside of the tensor."""
        return self.read_existing(dtype, offsets, starts, np.array(True))

    def read_existing(
        self, dtype: np.dtype[Any], offsets: IntArray, starts: IntArray, exists: BoolArray
    ) -> Array:
        """As :meth:`read`, zero also where ``exists``, [blocks, n], says that there is nothing."""
        together = dtype.itemsize // self.tensor.elements.itemsize
        virtual = _each_block(dtype, offsets, starts) * together
        tensor = self.tensor
        found = self.windows.offsets_in_memory(virtual, tensor.shape, strides_of(tensor.layout))
        holds = (found >= 0) & exists
        values = _as_units(tensor.elements, dtype).take(np.where(holds, found // together, 0))
        values[~holds] = 0
        return values


@dataclass(frozen=True)
class IndirectTile(DeviceTile):
    """Tiles whose rows numbers in device memory name; starts are those of a row."""

    numbers: DeviceTile = field(kw_only=True)
    """The tiles of the numbers, one for each row."""
    rows: int = field(kw_only=True)
    row_bytes: int = field(kw_only=True)

    def numbers_at(
        self, stage: StageReference, iteration: int, position: int, places: IntArray
    ) -> IntArray:
        """The numbers at these places of each block's tile of them: [blocks, n]."""
        starts = self.numbers.starts(stage, iteration, position)
        return self.numbers.read(self.numbers.tensor.elements.dtype, places, starts)

    def row_starts(self, numbers: IntArray) -> IntArray:
        """Where the rows start, in bytes, that numbers name.

        Raises ``ExecutionError`` for a number that names no row.
        """
        return existing_rows(self.rows, numbers) * self.row_bytes


def _each_block(dtype: np.dtype[Any], offsets: IntArray, starts: IntArray) -> IntArray:
    """Places in units of ``dtype``, [blocks, n]; starts are one a block, or one an access."""
    units = starts // dtype.itemsize
    return (units if units.ndim > 1 else units[:, None]) + offsets


Ending = Callable[[], None]
"""Does what an asynchronous operator has begun."""


@dataclass
class InFlight:
    """What some threads have begun and must wait for: not committed yet, or in groups in order.

    Each is the function that ends it: an asynchronous copy, or a product of warp groups.
    """

    uncommitted: list[Ending] = field(default_factory=list[Ending])
    groups: deque[list[Ending]] = field(default_factory=deque[list[Ending]])

    @property
    def under_way(self) -> int:
        """How many have not ended."""
        return len(self.uncommitted) + sum(map(len, self.groups))

    def commit(self, *last: Ending) -> None:
        """Closes a group, which may be empty, with what was begun last."""
        self.groups.append([*self.uncommitted, *last])
        self.uncommitted = []

    def wait(self, pending: int) -> None:
        """Ends all groups but the ``pending`` newest, oldest first."""
        while len(self.groups) > pending:
            for end in self.groups.popleft():
                end()


def element_dtype(type_: Attribute) -> np.dtype[Any]:
    """The numpy type of a buffer's elements; raises ``ExecutionError`` where there is none."""
    return storage_dtype(element_type_of(type_))
