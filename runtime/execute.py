"""Running and timing a compiled µGraph on a GPU, with numpy arrays in and out.

Tensors cross in their *physical* form, the flat memory that a CuTe layout describes.  What no
element maps to (padding) is filled with NaN, as are outputs and workspace before a run, so that a
kernel that reads or leaves what it should not gives NaN.  A tensor of which the signature promises
less than 16 bytes of alignment starts at an address that is aligned to no more than that.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mugraph.dialects.alignment import DEFAULT_ALIGNMENT
from mugraph.dialects.cute import Layout
from mugraph.dialects.named_extents import (
    NamedExtent,
    Names,
    rooms_of_call,
    sized,
    sizes_of_call,
)
from mugraph.dialects.tensor_types import row_major_strides, strides_of
from mugraph.errors import UserError
from mugraph.runtime.batch import MEMBER_VARIABLE
from mugraph.runtime.interpreter.arithmetic import convert
from mugraph.runtime.strided import strided_view

Array = npt.NDArray[Any]

POISON = 0xFF
"""The byte that memory is filled with: NaN in every floating-point type."""

GUARD_BYTES = 256
"""Poisoned bytes before and after each output and the workspace, which no kernel may change."""

TIMED_BYTES = 200 * 2**20
"""What the copies of the tensors add up to when timing, so that the L2 holds none of the next."""

MOST_COPIES = 1024
FEWEST_CALLS = 16
"""Calls in the CUDA graph that is timed, at least."""

SAMPLE_MICROSECONDS = 1000
"""How long one timed sample lasts, at least."""


class DeviceError(UserError):
    """The GPU, or the driver, reported an error; the text has CUDA's name for it."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as the generated code sees it: extents, element type, layout in elements."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout[int]
    alignment: int = DEFAULT_ALIGNMENT
    """The bytes that its start is promised to be a multiple of."""
    names: Names = ()
    """Of dimensions whose extent a call says: what it is called, ``""`` for others."""
    room: int = 0
    """Elements that it has memory for at least: kernels may read behind a bound, up to a bucket."""

    @property
    def offset(self) -> int:
        """Bytes past an allocation's start where it is placed, so that no more than the promise
        holds."""
        return self.alignment if self.alignment < DEFAULT_ALIGNMENT else 0

    @property
    def physical_bytes(self) -> int:
        """The bytes that the layout spans, or there is room for."""
        own = self.layout.cosize() if math.prod(self.shape) else 0
        return max(own, self.room) * self.dtype.itemsize

    def to_physical(self, array: Array) -> Array:
        """The tensor's flat memory with the array's elements in it, padding poisoned."""
        memory = np.full(self.physical_bytes, POISON, np.uint8).view(self.dtype)
        if array.size:
            view = _view_of(memory, self.layout)
            view[...] = convert(np.asarray(array), self.dtype).reshape(view.shape)
        return memory

    def at(self, sizes: Mapping[str, int], rooms: Mapping[str, int]) -> TensorSpec:
        """The tensor of a call with these extents, and with room for so many elements.

        It is row-major where it is at the largest ones.
        """
        shape = sized(self.names, self.shape, sizes)
        if shape == self.shape:
            return self
        # Layouts have elements; a tensor may have none.
        extents = tuple(max(extent, 1) for extent in shape)
        strides, room = strides_of(self.layout), self.room
        if strides == row_major_strides(self.shape):
            in_room = sized(self.names, self.shape, rooms)
            strides, room = row_major_strides([max(e, 1) for e in in_room]), math.prod(in_room)
        return replace(self, shape=shape, layout=Layout(extents, strides), room=room)


@dataclass(frozen=True)
class Signature:
    """What a generated ``_execute_mugraph`` takes: its tensors in order, and its workspace."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    workspace_bytes: int
    extents: tuple[NamedExtent, ...] = ()
    """What a call says besides: the values of named extents."""
    values: tuple[int, ...] = ()

    def of_call(self, inputs: Sequence[Array]) -> Signature:
        """The signature of a call with these inputs.

        Raises ``ExtentError`` where they do not fit.
        """
        if not self.extents or len(inputs) != len(self.inputs):
            return self
        names, given = ([spec.names for spec in own] for own in (self.inputs, self.outputs))
        sizes = sizes_of_call(self.extents, names, [array.shape for array in inputs], given)
        rooms = rooms_of_call(self.extents, sizes)
        taken, given = (
            tuple(spec.at(sizes, rooms) for spec in own) for own in (self.inputs, self.outputs)
        )
        return replace(self, inputs=taken, outputs=given, values=tuple(sizes.values()))


@dataclass(frozen=True)
class Timing:
    """Microseconds of one call, over the samples."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median over the samples."""
        return float(np.median(self.samples))


def from_physical(memory: Array, layout: Layout[int], shape: Sequence[int]) -> Array:
    """The array of extents ``shape`` whose elements ``layout`` finds in the flat memory."""
    if not math.prod(shape):
        return np.empty(tuple(shape), memory.dtype)
    return np.ascontiguousarray(_view_of(memory, layout)).reshape(tuple(shape))


def _expect_gaps_unwritten(memory: npt.NDArray[np.uint8], spec: TensorSpec, what: str) -> None:
    """Raises ``DeviceError`` where bytes that no element maps to are not poisoned.

    The elements themselves become poison.
    """
    if not memory.size:
        return
    poison = np.full(spec.dtype.itemsize, POISON, np.uint8).view(spec.dtype)
    _view_of(memory.view(spec.dtype), spec.layout)[...] = poison
    if (memory != POISON).any():
        raise DeviceError(f"the generated code wrote into the gaps of the layout of {what}.")


def _view_of(memory: Array, layout: Layout[int]) -> Array:
    """A strided view with one axis a leaf of the layout, in the order of a row-major array.

    A nested mode counts its leftmost leaf fastest, so its leaves are reversed.
    """
    extents: list[int] = []
    strides: list[int] = []
    for mode in layout:
        extents += reversed(mode.flat_shape)
        strides += reversed(mode.flat_stride)
    if any(stride < 0 for stride in strides):
        raise ValueError(f"the layout {layout} has a negative stride, which no tensor has")
    return strided_view(memory, extents, strides)


_POINTER = ctypes.c_void_p
_POINTERS = ctypes.POINTER(ctypes.c_void_p)
_TENSORS = [_POINTERS, ctypes.c_int, _POINTERS, ctypes.c_int]
_ARGUMENT_TYPES: dict[str, list[Any]] = {
    "initialize": [ctypes.c_int],
    "allocate": [_POINTERS, ctypes.c_size_t],
    "free": [_POINTER],
    "upload": [_POINTER, _POINTER, ctypes.c_size_t],
    "download": [_POINTER, _POINTER, ctypes.c_size_t],
    "copy_on_device": [_POINTER, _POINTER, ctypes.c_size_t],
    "fill": [_POINTER, ctypes.c_int, ctypes.c_size_t],
    "execute": [*_TENSORS, _POINTER],
    "time": [
        *_TENSORS,
        *(ctypes.c_int, _POINTER, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.POINTER(ctypes.c_float),
    ],
}


class _Launcher:
    """The functions of ``launcher.cu`` in one shared object; errors become ``DeviceError``."""

    def __init__(self, path: Path, member: int | None = None):
        self._library = ctypes.CDLL(str(path))
        self._member = member
        self._library.mugraph_last_error.restype = ctypes.c_char_p
        for name, types in _ARGUMENT_TYPES.items():
            getattr(self._library, f"mugraph_{name}").argtypes = types

    def call(self, name: str, *arguments: Any) -> None:
        """Call ``mugraph_<name>``; raises ``DeviceError`` with its message if it fails."""
        if self._member is not None:
            ctypes.c_int.in_dll(self._library, MEMBER_VARIABLE).value = self._member
        if getattr(self._library, f"mugraph_{name}")(*arguments) != 0:
            message = cast(bytes, self._library.mugraph_last_error())
            raise DeviceError(f"{message.decode(errors='replace')}.")


class _DeviceMemory:
    """Allocations on the GPU, freed together."""

    def __init__(self, launcher: _Launcher):
        self._launcher = launcher
        self._pointers: list[int] = []

    def _allocate(self, size: int) -> int:
        pointer = ctypes.c_void_p()
        self._launcher.call("allocate", ctypes.byref(pointer), size)
        address = cast(int, pointer.value)
        self._pointers.append(address)
        return address

    def of(self, array: Array, offset: int = 0) -> int:
        """The array's bytes on the GPU, so many bytes behind the start of an allocation."""
        pointer = self._allocate(max(array.nbytes, 1) + offset) + offset
        self._launcher.call("upload", pointer, array.ctypes.data, array.nbytes)
        return pointer

    def copy_of(self, source: int, size: int, offset: int = 0) -> int:
        """A copy of what is on the GPU."""
        pointer = self._allocate(max(size, 1) + offset) + offset
        self._launcher.call("copy_on_device", pointer, source, size)
        return pointer

    def unwritten(self, size: int, offset: int = 0) -> int:
        """So many bytes as they come."""
        return self._allocate(max(size, 1) + offset) + offset

    def poisoned(self, size: int, offset: int = 0) -> int:
        """So many poisoned bytes, between two guards."""
        pointer = self._allocate(size + offset + 2 * GUARD_BYTES)
        self._launcher.call("fill", pointer, POISON, size + offset + 2 * GUARD_BYTES)
        return pointer + offset + GUARD_BYTES

    def read(self, pointer: int, size: int, what: str) -> npt.NDArray[np.uint8]:
        """The bytes of a ``poisoned`` allocation; ``DeviceError`` if a guard was written."""
        memory = np.empty(size + 2 * GUARD_BYTES, np.uint8)
        self._launcher.call("download", memory.ctypes.data, pointer - GUARD_BYTES, memory.nbytes)
        if (memory[:GUARD_BYTES] != POISON).any():
            raise DeviceError(f"the generated code wrote before the start of {what}.")
        if (memory[GUARD_BYTES + size :] != POISON).any():
            raise DeviceError(f"the generated code wrote behind the end of {what}.")
        return memory[GUARD_BYTES : GUARD_BYTES + size]

    def expect_unchanged(self, pointer: int, array: Array, what: str) -> None:
        """Raises ``DeviceError`` where what was made by ``of`` has other bytes now."""
        memory = np.empty(array.nbytes, np.uint8)
        self._launcher.call("download", memory.ctypes.data, pointer, memory.nbytes)
        if (memory != array.reshape(-1).view(np.uint8)).any():
            raise DeviceError(f"the generated code changed {what}.")

    def free(self) -> None:
        """Free everything."""
        while self._pointers:
            self._launcher.call("free", self._pointers.pop())


@dataclass(frozen=True)
class TimedCalls:
    """Tensors of calls on the GPU, of so many calls that L2 has lost each before its next use."""

    signature: Signature
    sources: Sequence[int]
    """Addresses of the inputs, and of the numbers that a call says, one call after another."""
    targets: Sequence[int]
    copies: int
    numbers: ctypes.Array[ctypes.c_int64]
    """What a call says besides."""
    memory: _DeviceMemory

    def suit(self, signature: Signature) -> bool:
        """Whether a µGraph with this signature takes and gives such tensors."""
        own = self.signature
        return (own.inputs, own.outputs) == (signature.inputs, signature.outputs)


class CudaModule:
    """A compiled µGraph, loaded into this process.

    ``member`` is the number of one in a batch (:func:`mugraph.runtime.batch.batch_source`).
    Raises ``DeviceError`` where there is no usable GPU.
    """

    def __init__(
        self, path: Path, signature: Signature, device: int = 0, member: int | None = None
    ):
        self.signature = signature
        self._launcher = _Launcher(path, member)
        self._launcher.call("initialize", device)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run once on arrays of the signature's extents; returns the outputs.

        Raises ``DeviceError`` on any CUDA error, when bytes before or behind an output or the
        workspace, or in the gaps of an output's layout, were written, and when an input was.
        """
        signature = self.signature.of_call(inputs)
        arrays = _physical_inputs(signature, inputs)
        with self._memory() as memory:
            sources = _placed(signature, memory, arrays)
            targets = [
                memory.poisoned(spec.physical_bytes, spec.offset) for spec in signature.outputs
            ]
            workspace = memory.poisoned(signature.workspace_bytes)
            self._execute(sources, targets, workspace, signature.values)
            outputs: list[Array] = []
            for index, (spec, target) in enumerate(zip(signature.outputs, targets, strict=True)):
                raw = memory.read(target, spec.physical_bytes, f"output {index}")
                outputs.append(from_physical(raw.view(spec.dtype), spec.layout, spec.shape).copy())
                _expect_gaps_unwritten(raw, spec, f"output {index}")
            memory.read(workspace, signature.workspace_bytes, "the workspace")
            for index, (source, array) in enumerate(zip(sources, arrays, strict=True)):
                memory.expect_unchanged(source, array, f"input {index}")
        return outputs

    def _execute(
        self,
        sources: Sequence[int],
        targets: Sequence[int],
        workspace: int,
        values: Sequence[int],
    ) -> None:
        """Calls the kernels on these addresses and values of extents, and waits for them."""
        numbers = (ctypes.c_int64 * len(values))(*values)
        sources = [*sources, *_places(numbers)]
        self._launcher.call(
            "execute",
            *(_pointers(sources), len(sources)),
            *(_pointers(targets), len(targets)),
            workspace,
        )

    def launch(self, inputs: Sequence[Array]) -> None:
        """Run once on outputs and a workspace that nothing wrote before, and read nothing back.

        A checker of uninitialised memory then sees every read of what no kernel has written.
        Raises ``DeviceError`` on any CUDA error.
        """
        signature = self.signature.of_call(inputs)
        arrays = _physical_inputs(signature, inputs)
        with self._memory() as memory:
            sources = _placed(signature, memory, arrays)
            targets = [
                memory.unwritten(spec.physical_bytes, spec.offset) for spec in signature.outputs
            ]
            workspace = memory.unwritten(signature.workspace_bytes)
            self._execute(sources, targets, workspace, signature.values)

    def time(self, inputs: Sequence[Array], sample_count: int = 41) -> Timing:
        """Time one call with its tensors out of the L2 cache.

        A CUDA graph of at least 16 calls goes round copies of all inputs and outputs that add up
        to ``TIMED_BYTES`` (or ``MOST_COPIES`` of them, if the tensors are small).
        """
        calls = self.timed_calls(inputs)
        try:
            return self.time_calls(calls, sample_count)
        finally:
            calls.memory.free()

    def timed_calls(self, inputs: Sequence[Array]) -> TimedCalls:
        """What :meth:`time_calls` takes; its memory stays until it is freed."""
        signature = self.signature.of_call(inputs)
        arrays = _physical_inputs(signature, inputs)
        numbers = (ctypes.c_int64 * len(signature.values))(*signature.values)
        size = sum(spec.physical_bytes for spec in (*signature.inputs, *signature.outputs))
        copies = max(1, min(MOST_COPIES, math.ceil(TIMED_BYTES / max(size, 1))))
        memory = _DeviceMemory(self._launcher)
        try:
            first = _placed(signature, memory, arrays)
            sources = [*first, *_places(numbers)]
            for _ in range(copies - 1):
                sources += [
                    memory.copy_of(source, array.nbytes, spec.offset)
                    for source, array, spec in zip(first, arrays, signature.inputs, strict=True)
                ]
                sources += _places(numbers)
            targets = [
                memory.poisoned(spec.physical_bytes, spec.offset)
                for _ in range(copies)
                for spec in signature.outputs
            ]
        except DeviceError:
            memory.free()
            raise
        return TimedCalls(signature, sources, targets, copies, numbers, memory)

    def time_calls(self, timed: TimedCalls, sample_count: int = 41) -> Timing:
        """Time one call with tensors that a µGraph of such a signature was given."""
        signature, numbers = timed.signature, timed.numbers
        calls = math.ceil(FEWEST_CALLS / timed.copies) * timed.copies
        with self._memory() as memory:
            workspace = memory.poisoned(self.signature.workspace_bytes)

            def sample(replays: int, count: int) -> list[float]:
                microseconds = (ctypes.c_float * count)()
                self._launcher.call(
                    "time",
                    *(_pointers(timed.sources), len(signature.inputs) + len(numbers)),
                    *(_pointers(timed.targets), len(signature.outputs)),
                    *(timed.copies, workspace, calls, replays, count, microseconds),
                )
                return list(microseconds)

            estimate = max(sample(1, 3))
            replays = max(1, math.ceil(SAMPLE_MICROSECONDS / max(estimate * calls, 1.0)))
            return Timing(tuple(sample(replays, sample_count)))

    @contextmanager
    def _memory(self) -> Generator[_DeviceMemory]:
        memory = _DeviceMemory(self._launcher)
        try:
            yield memory
        finally:
            memory.free()


def _pointers(addresses: Sequence[int]) -> Any:
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _places(numbers: ctypes.Array[ctypes.c_int64]) -> list[int]:
    """The addresses of numbers in host memory."""
    start = ctypes.addressof(numbers)
    return [start + 8 * index for index in range(len(numbers))]


def _placed(signature: Signature, memory: _DeviceMemory, arrays: Sequence[Array]) -> list[int]:
    return [
        memory.of(array, spec.offset) for array, spec in zip(arrays, signature.inputs, strict=True)
    ]


def _physical_inputs(signature: Signature, inputs: Sequence[Array]) -> list[Array]:
    specs = signature.inputs
    shapes = [array.shape for array in inputs]
    if shapes != [spec.shape for spec in specs]:
        expected = ", ".join(str(spec.shape) for spec in specs)
        raise ValueError(f"inputs of shapes {shapes} were given; the kernel takes {expected}")
    return [spec.to_physical(array) for array, spec in zip(inputs, specs, strict=True)]
