"""Arrays of any library as pointers, and what is wrong with those that do not fit."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from mugraph.codegen.c_abi import CInterface, CTensor
from mugraph.dialects.element_types import DESCRIPTIONS
from mugraph.dialects.named_extents import ExtentError
from mugraph.dialects.tensor_types import dims, row_major_strides
from mugraph.errors import UserError

Array = npt.NDArray[Any]

CPU = -1
"""The device number of host memory."""


class ArgumentError(UserError, ValueError):
    """An argument of a kernel that is not what the kernel was compiled for."""


@dataclass(frozen=True)
class ArrayView:
    """An array as it lies in memory; strides in elements, ``device`` a GPU's number or ``CPU``."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_type: str
    device: int
    owner: Any
    """What keeps the memory alive."""


def strides_fit(shape: Sequence[int], strides: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether elements lie where they are expected; where an extent is 1 its stride is not used."""
    return 0 in shape or all(
        extent == 1 or stride == wanted
        for extent, stride, wanted in zip(shape, strides, expected, strict=True)
    )


def check_view(role: str, index: int, tensor: CTensor, view: ArrayView) -> ArrayView:
    """The array in the tensor's extents: extents of 1 may stand elsewhere in its own.

    ``role`` is "input" or "output"; the device is the caller's business.  Raises
    :class:`ArgumentError` unless the array is what the kernel was compiled for.
    """
    what = f"{role} {index} ('{tensor.name}')"
    own, wanted = (
        [(extent, step) for extent, step in zip(one.shape, one.strides, strict=True) if extent != 1]
        for one in (view, tensor)
    )
    if [extent for extent, _step in own] != [extent for extent, _step in wanted]:
        raise ArgumentError(f"{what} has shape {dims(view.shape)}, expected {dims(tensor.shape)}")
    if view.element_type != tensor.element_type:
        raise ArgumentError(
            f"{what} has elements of type {view.element_type}, expected {tensor.element_type}; "
            "convert it"
        )
    if own != wanted and 0 not in view.shape:
        raise ArgumentError(
            f"{what} has strides {view.strides}, expected {tensor.strides}, in elements; pass a "
            "copy laid out so, or fix the strides when the graph is built"
        )
    if view.pointer % tensor.alignment:
        raise ArgumentError(
            f"{what} is at {view.pointer:#x}, which is not a multiple of {tensor.alignment} bytes"
        )
    return replace(view, shape=tensor.shape, strides=tensor.strides)


def check_apart(interface: CInterface, inputs: Sequence[int], outputs: Sequence[int]) -> None:
    """Raises ``ArgumentError`` for an output where an input lies that the kernel reads besides.

    Arrays are given by their addresses.
    """
    for index, pointer in enumerate(outputs):
        if not pointer or pointer not in inputs:
            continue
        written = interface.in_place.get(index)
        for number, other in enumerate(inputs):
            if other == pointer and number != written:
                name = interface.inputs[number].name
                raise ArgumentError(
                    f"output {index} ('{interface.outputs[index].name}') lies where input {number} "
                    f"('{name}') does, which is read besides; pass an array of its own"
                )


def check_count(name: str, what: str, expected: int, got: int) -> None:
    """Raises ``ArgumentError`` where a call gives more or fewer of what is taken than ``expected``.

    ``what`` is one of them, such as an input.
    """
    if got != expected:
        many = what if expected == 1 else f"{what}s"
        raise ArgumentError(f"{name} takes {expected} {many}, got {got}")


def sizes_of_arrays(interface: CInterface, inputs: Sequence[Any]) -> dict[str, int]:
    """The values of named extents, from the inputs of a call.

    Raises ``ArgumentError`` where inputs disagree, for a value that cannot be, and for what is no
    array.
    """
    check_count(interface.name, "input", len(interface.inputs), len(inputs))
    for index, (tensor, array) in enumerate(zip(interface.inputs, inputs, strict=True)):
        if not hasattr(array, "shape"):
            raise _no_array("input", index, tensor, array)
    try:
        return interface.sizes_of([tuple(array.shape) for array in inputs])
    except ExtentError as error:
        raise ArgumentError(f"{interface.name}: {error}") from error


def view_of(role: str, index: int, tensor: CTensor, array: Any, stream: int | None) -> ArrayView:
    """An array of any library as a view, not yet checked.

    ``stream`` is the CUDA stream that will use it; its producer is made to wait for by DLPack.
    Raises :class:`ArgumentError` for what is no array.
    """
    is_written = role == "output"
    try:
        if isinstance(array, np.ndarray):
            return _from_numpy(cast(Array, array), is_written)
        if is_torch_tensor(array) and array.device.type in ("cpu", "cuda"):
            pointer = place_of(role, index, tensor, array) if tensor.is_part else array.data_ptr()
            return _from_torch(array, pointer)
        interface = getattr(array, "__cuda_array_interface__", None)
        if interface is not None:
            return _from_cuda_array_interface(array, interface, is_written)
        if hasattr(array, "__dlpack__"):
            return _from_dlpack(array, stream)
    except ArgumentError:
        raise
    except (BufferError, RuntimeError, ValueError) as error:  # as libraries say that it is none
        raise ArgumentError(f"{role} {index} ('{tensor.name}'): {error}") from error
    raise _no_array(role, index, tensor, array)


def _no_array(role: str, index: int, tensor: CTensor, array: Any) -> ArgumentError:
    return ArgumentError(
        f"{role} {index} ('{tensor.name}') is a {type(array).__name__}; expected an array with "
        "__dlpack__ or __cuda_array_interface__, such as a torch.Tensor"
    )


ELEMENT_TYPES = {str(type_): known.array for type_, known in DESCRIPTIONS.items()}
"""What NumPy (with ml_dtypes) and torch call each element type."""

_NAMES = {name: element_type for element_type, name in ELEMENT_TYPES.items()}


def is_torch_tensor(array: Any) -> bool:
    """Whether it is a tensor of torch, which is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def place_of(role: str, index: int, tensor: CTensor, array: Any) -> int:
    """The address of a part of a tensor of torch, which may have no elements.

    Raises ``ArgumentError`` unless there is memory for all that kernels may read behind it.
    """
    storage = array.untyped_storage()
    start = array.storage_offset() * array.element_size()
    if (room := storage.nbytes() - start) < tensor.span:
        raise ArgumentError(
            f"{role} {index} ('{tensor.name}') has memory for {room} bytes, expected "
            f"{tensor.span}: kernels may read behind a bound; pass a part of a tensor of the "
            "largest extents"
        )
    return storage.data_ptr() + start


def _from_torch(array: Any, pointer: int) -> ArrayView:
    """A tensor by torch's own account of it: DLPack has no 8-bit floating-point types there."""
    name = str(array.dtype).removeprefix("torch.")
    return ArrayView(
        pointer,
        tuple(array.shape),
        tuple(array.stride()),
        _NAMES.get(name, name),
        array.get_device(),
        array,
    )


def numpy_of(view: ArrayView) -> Array:
    """An array in host memory, of one of our element types, as NumPy sees it, without a copy."""
    dtype = np.dtype(ELEMENT_TYPES[view.element_type])
    reach = sum((extent - 1) * step for extent, step in zip(view.shape, view.strides, strict=True))
    size = (reach + 1) * dtype.itemsize if 0 not in view.shape else 0
    buffer: Any = (ctypes.c_char * size).from_address(view.pointer)
    steps = [step * dtype.itemsize for step in view.strides]
    return np.ndarray(view.shape, dtype, buffer, strides=steps)


def with_strides(array: Array, tensor: CTensor) -> Array:
    """The array, copied where its elements do not lie as the tensor's do."""
    steps = tuple(step * array.itemsize for step in tensor.strides)
    if strides_fit(array.shape, array.strides, steps):
        return array
    laid_out = np.ndarray(array.shape, array.dtype, np.empty(tensor.span, np.uint8), 0, steps)
    laid_out[...] = array
    return laid_out


def torch_of(array: Array, element_type: str) -> Any:
    """A NumPy array of one of our element types as a tensor of torch, without a copy."""
    torch = sys.modules["torch"]
    # torch.from_numpy knows none of the types of ml_dtypes.
    integers = torch.from_numpy(array.view(f"i{array.itemsize}"))
    return integers.view(getattr(torch, ELEMENT_TYPES[element_type]))


def _in_elements(shape: Sequence[int], steps: Sequence[int], size: int) -> tuple[int, ...]:
    """Strides in bytes as strides in elements; ``BufferError`` where an element lies in between."""
    size = size or 1  # no element type of ours has none
    for dim, (extent, step) in enumerate(zip(shape, steps, strict=True)):
        if step % size and extent > 1:
            raise BufferError(
                f"its elements of {size} bytes are {step} bytes apart along dimension {dim}; pass "
                "a copy"
            )
    return tuple(step // size for step in steps)


def _require_writable(is_writable: bool, is_written: bool) -> None:
    if is_written and not is_writable:
        raise BufferError("it is read-only; pass an array that may be written to")


def _in_order(name: str, dtype: str) -> str:
    """What an element type is called, as ``dtype``, its type string, says the order of bytes."""
    swapped = ">" if sys.byteorder == "little" else "<"
    return f"{name} with swapped bytes" if dtype.startswith(swapped) else name


def _from_numpy(array: Array, is_written: bool) -> ArrayView:
    """An array in host memory; read-only ones too, unless they are written."""
    _require_writable(array.flags.writeable, is_written)
    return ArrayView(
        array.ctypes.data,
        array.shape,
        _in_elements(array.shape, array.strides, array.itemsize),
        _in_order(_NAMES.get(array.dtype.name, array.dtype.name), array.dtype.str),
        CPU,
        array,
    )


_TYPE_STRINGS = {
    **{"f2": "f16", "f4": "f32", "f8": "f64", "i1": "i8", "i4": "i32", "i8": "i64"},
    **{"b1": "i1", "u1": "ui8"},
}


def _from_cuda_array_interface(
    array: Any, interface: dict[str, Any], is_written: bool
) -> ArrayView:
    """Version 3 of the interface, as Numba documents it."""
    _require_writable(not interface["data"][1], is_written)
    type_string: str = interface["typestr"]
    size = int(type_string[2:])
    shape = tuple(int(extent) for extent in interface["shape"])
    strides = interface.get("strides")
    return ArrayView(
        int(interface["data"][0]),
        shape,
        row_major_strides(shape) if strides is None else _in_elements(shape, strides, size),
        _in_order(_TYPE_STRINGS.get(type_string[1:], type_string), type_string),
        _device_of(array),
        array,
    )


def _device_of(array: Any) -> int:
    """The GPU that an array says it is on; 0 where it does not say."""
    device = getattr(array, "device", None)
    number = getattr(device, "id", getattr(device, "index", None))
    return number if isinstance(number, int) else 0


class _DLDevice(ctypes.Structure):
    _fields_: ClassVar = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_: ClassVar = [
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    ]


class _DLTensor(ctypes.Structure):
    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DL_CPU, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED = 1, 2, 3, 13
_DL_TYPES = {known.dlpack: str(type_) for type_, known in DESCRIPTIONS.items()}

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _from_dlpack(array: Any, stream: int | None) -> ArrayView:
    """The unversioned capsule, whose producer frees it with the capsule."""
    on_gpu = array.__dlpack_device__()[0] in (_DL_CUDA, _DL_CUDA_MANAGED)
    # 1 is DLPack's number for the default stream.
    capsule = array.__dlpack__(stream=(stream or 1)) if on_gpu else array.__dlpack__()
    tensor = _DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[dim] for dim in range(tensor.ndim))
    strides = (
        tuple(tensor.strides[dim] for dim in range(tensor.ndim))
        if tensor.strides
        else row_major_strides(shape)
    )
    kind = (tensor.dtype.code, tensor.dtype.bits)
    return ArrayView(
        (tensor.data or 0) + tensor.byte_offset,
        shape,
        strides,
        _DL_TYPES.get(kind, f"DLPack code {kind[0]} of {kind[1]} bits"),
        tensor.device.device_id if on_gpu else CPU,
        capsule,
    )
