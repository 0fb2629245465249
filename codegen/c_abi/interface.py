"""What a function's C interface takes: names, extents, strides, element types, alignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from mugraph.codegen.cuda import workspace_bytes
from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.codegen.cuda.names import Names, sanitize
from mugraph.dialects.cute import Layout
from mugraph.dialects.te import BufferType, input_parameters, is_texpr, written_parameters
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    element_type_of,
    layout_of,
    op_label,
    physical_elements,
    resolved_layout_of,
    row_major_strides,
    shape_of,
    strides_of,
    value_label,
)

INTERFACE_VERSION = 1
"""The version of the rules of the C interface, which headers and manifests state."""

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
    """A tensor of a name; a parameter of a tensor expression without a layout is row-major."""
    if isinstance(value.type, IndexType):
        raise CodegenError(
            f"{value_label(value)} has type index, but C functions take tensors alone; print the "
            "kernel with -t cuda"
        )
    shape, layout = shape_of(value.type), layout_of(value.type)
    if layout is None and isinstance(value.type, BufferType):
        layout = Layout(shape, row_major_strides(shape))
    layout = layout or resolved_layout_of(value)
    element_bytes = element_bytes_of(value.type)
    return CTensor(
        name,
        shape,
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


def _texpr_interface(function: FuncOp, name: str, names: Names) -> CInterface:
    """The interface of a tensor expression: inputs but for the declared result; all it writes."""
    arguments = function.body.block.args
    given = [arguments[position] for position in input_parameters(function)]
    written = [arguments[position] for position in written_parameters(function)]
    if not written:
        raise CodegenError(f"{op_label(function)} writes nothing, so there is nothing to compile")
    inputs = tuple(_tensor(*pair) for pair in _named(given, names, "input"))
    suffix = {value: "_out" for value in written if value in given}
    outputs = tuple(
        _tensor(value, names.fresh(f"{value.name_hint or 'output'}{suffix.get(value, '')}"))
        for value in written
    )
    return CInterface(name, inputs, outputs, workspace_bytes(function))


def interface_of(function: FuncOp, name: str | None = None) -> CInterface:
    """The C interface of a function whose layouts and device memory have been planned.

    ``name`` defaults to the function's, made an identifier as in generated code: ``mugraph``
    becomes ``mugraph_v``.  Raises :class:`CodegenError` for a ``name`` that no C function can have,
    and where a result is not written by a kernel.
    """
    if name is None:
        name = sanitize(function.sym_name.data)
    elif sanitize(name) != name:
        raise CodegenError(
            f"'{name}' cannot start the names of a C interface; give another with --name, of "
            "letters, digits and single underscores"
        )
    names = Names()
    for taken in _OF_THE_INTERFACE:
        names.reserve(taken)
    if is_texpr(function):
        return _texpr_interface(function, name, names)
    returns = [op for op in function.body.block.ops if isinstance(op, ReturnOp)]
    if not returns or not returns[0].operands:
        raise CodegenError(f"{op_label(function)} has no result, so there is nothing to compile")
    return CInterface(
        name,
        tuple(_tensor(*pair) for pair in _named(function.body.block.args, names, "input")),
        tuple(_tensor(*pair) for pair in _named(returns[0].operands, names, "output")),
        workspace_bytes(function),
    )
