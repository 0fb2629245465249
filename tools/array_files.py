"""Inputs and outputs of µGraphs in .npy files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import FuncOp

from mugraph.dialects.functions import given_names, whole_argument_types
from mugraph.dialects.named_extents import (
    called_extents,
    extents_in,
    held_extents,
    named_extents,
    sized,
)
from mugraph.dialects.tensor_types import dims, element_type_of
from mugraph.runtime.interpreter.arithmetic import (
    STORAGE_DTYPES,
    convert,
    integer_limits,
    is_floating,
    is_whole,
    storage_dtype,
)
from mugraph.tools.diagnostics import ToolError, atomic_path

Array = npt.NDArray[Any]

NOT_IN_FILES = tuple(dtype for dtype in STORAGE_DTYPES.values() if dtype.kind == "V")
"""Types of numbers that .npy files have no name for."""


def sizes_for(function: FuncOp, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """The values that a command line gives to the named extents of a function.

    ``ToolError`` where one is missing, unknown or cannot be.  A bound may be missing: it is the
    largest value then.
    """
    extents = {each.name: each for each in called_extents(named_extents(function).values())}
    for name, size in sizes.items():
        if name not in extents:
            known = f"it has {', '.join(extents)}" if extents else "its sizes are in its types"
            raise ToolError(
                f"--size {name}={size}: @{function.sym_name.data} has no extent of this name; "
                f"{known}."
            )
    for name, extent in extents.items():
        if name not in sizes and extent.held is None:
            raise ToolError(f"@{function.sym_name.data} has '{name}'; write --size {name}=NUMBER.")
        if (fault := extent.fault(sizes.get(name, extent.largest))) is not None:
            raise ToolError(f"--size {name}={sizes[name]}: {fault}.")
    return sizes


def input_shape(function: FuncOp, index: int, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of an input at values of named extents."""
    type_ = whole_argument_types(function)[index]
    extents = named_extents(function)
    names = given_names(function)[index] if extents else ()
    held = {name: each.largest for name, each in held_extents(extents.values()).items()}
    return sized(names, extents_in(type_), {**held, **sizes})


def read_inputs(function: FuncOp, paths: Sequence[str], sizes: Mapping[str, int]) -> list[Array]:
    """The arrays of .npy files, one an argument; ``ToolError`` where they do not fit.

    ``sizes`` are the values of named extents.
    """
    types = whole_argument_types(function)
    if len(paths) != len(types):
        raise ToolError(
            f"--inputs has {len(paths)} files, but @{function.sym_name.data} takes {len(types)} "
            "tensors."
        )
    arrays: list[Array] = []
    for path, type_ in zip(paths, types, strict=True):
        try:
            with open(path, "rb") as file:
                array: Array = np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ToolError(f"{path} is no .npy file of numbers.") from error
        if isinstance(type_, IndexType):
            arrays.append(array)
            continue
        shape = input_shape(function, len(arrays), sizes)
        if array.shape != shape:
            raise ToolError(
                f"{path} holds an array of {dims(array.shape) or 'no dimensions'}; expected "
                f"{dims(shape)}."
            )
        arrays.append(_as_elements(path, array, storage_dtype(element_type_of(type_))))
    return arrays


def _as_elements(path: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers of a file in an element type; ``ToolError`` where they are of another kind.

    A .npy file has no name for bf16 and f8: their bytes, as numpy saves them, are taken as well.
    """
    if array.dtype.kind == "V" and dtype.kind in "Vf" and array.itemsize == dtype.itemsize:
        return array.view(dtype)
    if is_whole(dtype):
        if not is_whole(array.dtype):
            raise ToolError(f"{path} holds {array.dtype}; expected integers.")
        least, most = integer_limits(dtype)
        if array.size and not least <= array.min() <= array.max() <= most:
            raise ToolError(
                f"{path} holds integers from {array.min()} to {array.max()}; {dtype} has "
                f"{least} to {most}."
            )
        return array.astype(dtype)
    if not is_floating(array.dtype):
        raise ToolError(f"{path} holds {array.dtype}; expected floating-point numbers.")
    return convert(array, dtype)


def write_outputs(paths: Sequence[str], outputs: Sequence[Array]) -> None:
    """Write one .npy file an output; each appears whole or not at all.

    bf16 and f8, which such files cannot name, are written as f32, exactly.
    """
    for path, output in zip(paths, outputs, strict=True):
        if output.dtype in NOT_IN_FILES:
            output = output.astype(np.float32)
        with atomic_path(path) as temporary, open(temporary, "wb") as stream:
            np.save(stream, output)
