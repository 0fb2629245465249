"""What a function's C interface takes: names, extents, strides, element types, alignments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mugraph.codegen.cuda import communicators_of, workspace_bytes
from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.codegen.cuda.names import Names, sanitize
from mugraph.dialects import kn, te
from mugraph.dialects.cute import Layout
from mugraph.dialects.functions import arguments_of, given_names, got_names, results_of
from mugraph.dialects.model_arguments import ModelArguments, model_arguments
from mugraph.dialects.named_extents import (
    NamedExtent,
    named_extents,
    rooms_of_call,
    sized,
    sizes_of_call,
)
from mugraph.dialects.tensor_types import (
    base_layout,
    dims,
    element_bytes_of,
    element_type_of,
    has_nested_modes,
    layout_of,
    leaves_in_memory,
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
    names: tuple[str, ...] = ()
    """Of dimensions whose extent a call says: what it is called, ``""`` for others.

    ``shape`` and ``span`` are of the largest values.
    """
    is_part: bool = False
    """Whether ``span`` goes on behind its elements, as a call gives a bound."""

    def __str__(self) -> str:
        most = "at most " if any(self.names) else ""
        return (
            f"{self.element_type} {self.extents}, strides "
            f"({', '.join(map(str, self.strides))}), {most}{self.span} bytes, aligned to "
            f"{self.alignment}"
        )

    @property
    def extents(self) -> str:
        """The extents in words."""
        if not any(self.names):
            return dims(self.shape)
        pairs = zip(self.names, self.shape, strict=True)
        return "x".join(name or str(extent) for name, extent in pairs)

    def at(self, sizes: Mapping[str, int], rooms: Mapping[str, int]) -> CTensor:
        """The tensor of a call with these extents, and with room for so many elements."""
        if not any(self.names):
            return self
        shape, room = (sized(self.names, self.shape, own) for own in (sizes, rooms))
        # The named dimension is the first one but for those of one element: bytes grow with it.
        span = self.span // math.prod(self.shape) * math.prod(room)
        is_row_major = self.strides == row_major_strides(self.shape)
        strides = row_major_strides(room) if is_row_major else self.strides
        is_part = room != shape
        return replace(self, shape=shape, strides=strides, span=span, names=(), is_part=is_part)


@dataclass(frozen=True)
class CCommunicator:
    """A communicator of NCCL that a call takes: of the devices that differ along axes."""

    name: str
    axes: tuple[int, ...]
    devices: int


@dataclass(frozen=True)
class CPeers:
    """Memory of the devices that differ along axes, which a call takes: each reads the others'."""

    name: str
    """Of the addresses of all members' memory."""
    place: str
    """Of the number that says which of the members a device is."""
    axes: tuple[int, ...]
    devices: int
    bytes: int
    """Of each member's memory."""


@dataclass(frozen=True)
class CInterface:
    """The C interface of one function; ``name`` starts the name of everything in it."""

    name: str
    inputs: tuple[CTensor, ...]
    outputs: tuple[CTensor, ...]
    workspace_bytes: int
    extents: tuple[NamedExtent, ...] = ()
    """What a call says besides: the values of named extents."""
    in_place: Mapping[int, int] = field(default_factory=dict[int, int])
    """Of outputs that may be written to an input itself, by number: which input.

    Only what changes is written then.
    """
    communicators: tuple[CCommunicator, ...] = ()
    """Of a program of each of several devices; members' ranks are their places in the group."""
    peers: tuple[CPeers, ...] = ()
    """Of a program of each of several devices of one host."""
    model: ModelArguments = field(default_factory=ModelArguments)
    """Which inputs are weights of a file, or kept from call to call."""

    def sizes_of(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """The values of the extents, from the inputs' extents.

        Raises ``ExtentError`` where these do not fit.
        """
        taken, given = ([each.names for each in own] for own in (self.inputs, self.outputs))
        return sizes_of_call(self.extents, taken, shapes, given)

    def at(self, sizes: Mapping[str, int]) -> CInterface:
        """The interface of a call with these extents."""
        rooms = rooms_of_call(self.extents, sizes)
        inputs, outputs = (
            tuple(tensor.at(sizes, rooms) for tensor in tensors)
            for tensors in (self.inputs, self.outputs)
        )
        return replace(self, inputs=inputs, outputs=outputs, extents=())

    @property
    def tensors(self) -> tuple[CTensor, ...]:
        """The tensors in the order in which they are passed."""
        return (*self.inputs, *self.outputs)


def _tensor(value: SSAValue, name: str, *, planned: bool = True) -> CTensor:
    """A tensor of a name; without a layout it is row-major if it is a parameter of a tensor
    expression, or nothing was planned."""
    if isinstance(value.type, IndexType):
        raise CodegenError(
            f"{value_label(value)} has type index, but C functions take tensors alone; print the "
            "kernel with -t cuda"
        )
    shape, layout = shape_of(value.type), layout_of(value.type)
    if layout is None and (isinstance(value.type, te.BufferType) or not planned):
        layout = Layout(shape, row_major_strides(shape))
    layout = layout or resolved_layout_of(value)
    element_bytes = element_bytes_of(value.type)
    if has_nested_modes(value.type):
        layout = Layout(*leaves_in_memory(base_layout(layout)))
        shape = layout.flat_shape
    return CTensor(
        name,
        shape,
        strides_of(layout),
        str(element_type_of(value.type)),
        physical_elements(layout) * element_bytes,
        max(ALIGNMENT, element_bytes),
    )


def _named(
    values: Sequence[SSAValue], names: Names, fallback: str, known: Sequence[SSAValue] = ()
) -> list[tuple[SSAValue, str]]:
    """A name for each value; one of those that are ``known`` gets its own with ``_out`` behind."""
    wishes = [value.name_hint or f"{fallback}{index}" for index, value in enumerate(values)]
    return [
        (value, names.fresh(f"{wish}_out" if value in known else wish))
        for value, wish in zip(values, wishes, strict=True)
    ]


def _in_place(returned: Sequence[SSAValue]) -> dict[int, int]:
    """Which argument each result may be written to, of those that may."""
    tables = {
        index: value.owner.table_to_write()
        for index, value in enumerate(returned)
        if isinstance(value.owner, kn.ScatterOp)
    }
    return {index: table.index for index, table in tables.items() if table is not None}


def interface_as_written(function: FuncOp, taken: Sequence[str] = ()) -> CInterface:
    """The interface of a function that no pass has planned, without a workspace.

    Tensors are laid out as their types say, or row-major.  None gets a name that is ``taken``.
    """
    names = Names()
    for name in taken:
        names.reserve(name)
    returned = function.body.block.last_op
    results = returned.operands if returned else ()
    pairs = _named(function.args, names, "input"), _named(results, names, "output")
    inputs, outputs = ([_tensor(*each, planned=False) for each in side] for side in pairs)
    name = sanitize(function.sym_name.data)
    inputs, outputs = _with_extents(function, inputs, outputs)
    extents = tuple(named_extents(function).values())
    return CInterface(name, inputs, outputs, 0, extents, _in_place(results))


def _with_extents(
    function: FuncOp, inputs: Sequence[CTensor], outputs: Sequence[CTensor]
) -> tuple[tuple[CTensor, ...], tuple[CTensor, ...]]:
    """Tensors that know which of their dimensions have names."""
    if not named_extents(function):
        return tuple(inputs), tuple(outputs)
    return (
        tuple(replace(t, names=n) for t, n in zip(inputs, given_names(function), strict=True)),
        tuple(replace(t, names=n) for t, n in zip(outputs, got_names(function), strict=True)),
    )


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
    arguments, results = arguments_of(function), results_of(function)
    if not results:
        raise CodegenError(f"{op_label(function)} has no result, so there is nothing to compile")
    extents = tuple(named_extents(function).values())
    for extent in extents:
        names.reserve(extent.name)
    inputs = [_tensor(*pair) for pair in _named(arguments, names, "input")]
    outputs = [_tensor(*pair) for pair in _named(results, names, "output", arguments)]
    inputs, outputs = _with_extents(function, inputs, outputs)
    needed, in_place = workspace_bytes(function), _in_place(results)
    if te.is_texpr(function):
        # What is read and written begins as a copy, unless both are one.
        in_place = {at: arguments.index(one) for at, one in enumerate(results) if one in arguments}
    groups = communicators_of(function)
    communicators = [
        CCommunicator(
            names.fresh("comm" if len(groups) == 1 else f"comm_{'_'.join(map(str, axes))}"),
            axes,
            devices,
        )
        for axes, devices in groups
    ]
    model = model_arguments(function)
    return CInterface(
        name,
        inputs,
        outputs,
        needed,
        extents,
        in_place,
        tuple(communicators),
        model=model,
    )
