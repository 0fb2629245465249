"""What a function's C interface takes: names, extents, strides, element types, alignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from mugraph.codegen.cuda import workspace_bytes
from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.codegen.cuda.names import Names
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    element_type_of,
    op_label,
    physical_elements,
    resolved_layout_of,
    shape_of,
    strides_of,
)

ALIGNMENT = 16
"""The alignment in bytes that generated code expects of every tensor."""

WORKSPACE_ALIGNMENT = 256
"""The alignment in bytes of the workspace; what ``cudaMalloc`` gives."""

_OF_THE_INTERFACE = ("workspace", "workspace_bytes", "stream")
"""Parameters that every interface has, whose names no tensor may take."""


@dataclass(frozen=True)
class CTensor:
    """A tensor of the interface; strides in elements, ``span`` the bytes from first to last."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_type: str
    span: int
    alignment: int

    def __str__(self) -> str:
        return (
            f"{self.element_type} {dims(self.shape)}, strides "
            f"({', '.join(map(str, self.strides))}), {self.span} bytes, aligned to {self.alignment}"
        )


@dataclass(frozen=True)
class CInterface:
    """The C interface of one function; ``name`` starts the name of everything in it."""

    name: str
    inputs: tuple[CTensor, ...]
    outputs: tuple[CTensor, ...]
    workspace_bytes: int

    @property
    def tensors(self) -> tuple[CTensor, ...]:
        """The tensors in the order in which they are passed."""
        return (*self.inputs, *self.outputs)


def _tensor(value: SSAValue, name: str) -> CTensor:
    layout = resolved_layout_of(value)
    element_bytes = element_bytes_of(value.type)
    return CTensor(
        name,
        shape_of(value.type),
        strides_of(layout),
        str(element_type_of(value.type)),
        physical_elements(layout) * element_bytes,
        max(ALIGNMENT, element_bytes),
    )


def _named(values: Sequence[SSAValue], names: Names, fallback: str) -> list[tuple[SSAValue, str]]:
    return [
        (value, names.fresh(value.name_hint or f"{fallback}{index}"))
        for index, value in enumerate(values)
    ]


def interface_of(function: FuncOp, name: str | None = None) -> CInterface:
    """The C interface of a function whose layouts and device memory have been planned.

    ``name`` defaults to the function's.  Raises :class:`CodegenError` for a name that no C function
    can have, and where a result is not written by a kernel.
    """
    name = function.sym_name.data if name is None else name
    if Names().fresh(name) != name:
        raise CodegenError(
            f"'{name}' cannot start the names of a C interface; give another with --name, of "
            "letters, digits and single underscores"
        )
    names = Names()
    for taken in _OF_THE_INTERFACE:
        names.reserve(taken)
    returns = [op for op in function.body.block.ops if isinstance(op, ReturnOp)]
    if not returns or not returns[0].operands:
        raise CodegenError(f"{op_label(function)} has no result, so there is nothing to compile")
    return CInterface(
        name,
        tuple(_tensor(*pair) for pair in _named(function.body.block.args, names, "input")),
        tuple(_tensor(*pair) for pair in _named(returns[0].operands, names, "output")),
        workspace_bytes(function),
    )
