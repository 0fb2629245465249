"""Meshes of devices, and how tensors lie on them.

A function says which devices it is for, and each argument and result which of its dimensions the
axes of the mesh cut::

    func.func @f(%w: tensor<64x256xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>}) -> ...
        attributes {mugraph.mesh = [4]}

``--partition`` makes of it the program of each device, whose function also says
``mugraph.per_device``: its types are then those of one device's parts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.cute import Layout
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    op_label,
    shape_of,
    strides_of,
    value_label,
    with_layout,
)

MESH = "mugraph.mesh"
"""The attribute of a function: how many devices each axis of its mesh has."""
SHARDING = "mugraph.sharding"
"""The attribute of an argument or a result: how it lies on the mesh."""
PER_DEVICE = "mugraph.per_device"
"""The attribute of a function that is the program of each device."""

PART = "mugraph.part"
"""The attribute of an operator of a program of each device that computes a part of something.

Its numbers are the place of a member of a group whose part it is, and the axes of the group.  What
computes a part is a function of its own, which waits for that part alone.
"""

Axes = tuple[int, ...]
"""Axes of a mesh, by number; the first one counts most."""


class Part(NamedTuple):
    """Whose part of something an operator computes: of which place in groups along some axes."""

    place: int
    axes: Axes
    members: int = 1
    """Whose parts one kernel computes together: those of so many places."""

    @property
    def number(self) -> int:
        """Which of the parts that are computed together it is, or is of."""
        return self.place // self.members


def part_of(op: Operation) -> Part | None:
    """Whose part of something an operator computes; ``None`` if it computes all of it."""
    attribute = op.attributes.get(PART)
    if not isinstance(attribute, DenseArrayBase):
        return None
    place, members, *axes = extents_of(cast("DenseArrayBase[Any]", attribute))
    return Part(place, tuple(axes), members)


def set_part(op: Operation, part: Part) -> None:
    """Says whose part of something an operator computes."""
    op.attributes[PART] = integer_array([part.place, part.members, *part.axes])


@dataclass(frozen=True)
class Mesh:
    """Devices in a grid; their numbers count along the last axis first."""

    shape: tuple[int, ...]

    @property
    def devices(self) -> range:
        """The number of each device."""
        return range(math.prod(self.shape))

    def __str__(self) -> str:
        return "x".join(map(str, self.shape))

    def size(self, axes: Axes) -> int:
        """How many devices there are along some axes together."""
        return math.prod(self.shape[axis] for axis in axes)

    def place(self, device: int, axes: Axes) -> int:
        """The place of a device among those that differ along these axes only."""
        place = 0
        for axis in axes:
            step = math.prod(self.shape[axis + 1 :])
            place = place * self.shape[axis] + device // step % self.shape[axis]
        return place

    def groups(self, axes: Axes) -> Iterator[tuple[int, ...]]:
        """The groups of devices that differ along these axes only, each in the order of places."""
        others = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        together: dict[int, list[int]] = {}
        for device in self.devices:
            together.setdefault(self.place(device, others), []).append(device)
        for group in together.values():
            yield tuple(sorted(group, key=lambda device: self.place(device, axes)))


@dataclass(frozen=True)
class Sharding:
    """How a tensor lies on a mesh.

    ``split_axes`` holds for each dimension the axes that cut it, the outermost first; devices that
    differ along other axes hold the same.  Along ``partial`` axes they hold parts that have yet to
    be combined.
    """

    split_axes: tuple[Axes, ...]
    partial: Axes = ()
    combiner: Combiner = Combiner.SUM

    @classmethod
    def replicated(cls, rank: int) -> Sharding:
        """All of the tensor on each device."""
        return cls(((),) * rank)

    @property
    def axes(self) -> Axes:
        """All axes along which devices hold something else."""
        return (*itertools.chain.from_iterable(self.split_axes), *self.partial)

    def of_rank(self, rank: int) -> Sharding:
        """The same for so many dimensions: those that are not listed are not cut."""
        missing = ((),) * (rank - len(self.split_axes))
        return Sharding((*self.split_axes, *missing), self.partial, self.combiner)

    def parts(self, mesh: Mesh) -> tuple[int, ...]:
        """Into how many parts each dimension is cut."""
        return tuple(map(mesh.size, self.split_axes))

    def part_shape(self, shape: Sequence[int], mesh: Mesh) -> tuple[int, ...]:
        """The extents of one device's part; raises ``ShapeError`` where they do not divide."""
        for dim, (extent, parts) in enumerate(zip(shape, self.parts(mesh), strict=True)):
            if extent % parts:
                raise ShapeError(
                    f"dimension {dim} has {extent} elements, which {parts} devices cannot share "
                    "equally; pad the tensor, or leave the dimension whole"
                )
        return tuple(e // n for e, n in zip(shape, self.parts(mesh), strict=True))

    def whole_shape(self, part: Sequence[int], mesh: Mesh) -> tuple[int, ...]:
        """The extents of the tensor of which a device has such a part."""
        return tuple(e * n for e, n in zip(part, self.parts(mesh), strict=True))

    def start(self, part: Sequence[int], mesh: Mesh, device: int) -> tuple[int, ...]:
        """Where a device's part begins in the whole tensor."""
        places = (mesh.place(device, axes) for axes in self.split_axes)
        return tuple(e * place for e, place in zip(part, places, strict=True))

    def fault(self, rank: int, mesh: Mesh) -> str | None:
        """What is wrong with it for a tensor of so many dimensions; ``None`` where nothing is."""
        if len(self.split_axes) > rank:
            return (
                f"lists axes for {len(self.split_axes)} dimensions, but the tensor has {rank}; "
                "write one list a dimension"
            )
        seen: set[int] = set()
        for axis in self.axes:
            if not 0 <= axis < len(mesh.shape):
                return f"names axis {axis}, but the mesh {mesh} has axes 0 to {len(mesh.shape) - 1}"
            if axis in seen:
                return f"names axis {axis} twice; an axis cuts one dimension, once"
            seen.add(axis)
        return None

    def __str__(self) -> str:
        lists = ", ".join(_listed(axes) for axes in self.split_axes)
        partial = f" partial {self.combiner} {_listed(self.partial)}" if self.partial else ""
        return f"[{lists}]{partial}"


def _listed(axes: Axes) -> str:
    return f"[{', '.join(map(str, axes))}]"


@irdl_attr_definition
class ShardingAttr(Data[Sharding]):
    """How a tensor lies on a mesh: ``#kn.sharding<[[0], [1, 2]]>``.

    One list a dimension of the axes that cut it, the outermost first; dimensions at the end may be
    left out.  ``#kn.sharding<[[], []] partial sum [0]>`` are parts of a sum along axis 0.
    """

    name = "kn.sharding"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Sharding:
        """Parses the part in angle brackets."""

        def axes() -> Axes:
            return tuple(
                parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
                )
            )

        with parser.in_angle_brackets():
            split = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, axes)
            if parser.parse_optional_keyword("partial") is None:
                return Sharding(tuple(split))
            return Sharding(tuple(split), combiner=parser.parse_str_enum(Combiner), partial=axes())

    def print_parameter(self, printer: Printer) -> None:
        """Prints the part in angle brackets."""
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


def mesh_of(function: FuncOp) -> Mesh | None:
    """The mesh that a function is for; ``None`` where it says none.

    Raises ``VerifyException`` for what is no list of numbers of at least 1.
    """
    attribute = function.attributes.get(MESH)
    if attribute is None:
        return None
    entries = cast(ArrayAttr[Attribute], attribute).data if isinstance(attribute, ArrayAttr) else ()
    shape = [
        cast(IntegerAttr, each).value.data for each in entries if isinstance(each, IntegerAttr)
    ]
    if not shape or len(shape) != len(entries) or min(shape) < 1:
        raise VerifyException(
            f"{op_label(function)}: {MESH} is {attribute}; expected the number of devices along "
            "each axis, such as [4] or [2, 4]"
        )
    return Mesh(tuple(shape))


def mesh_attribute(mesh: Mesh) -> ArrayAttr[IntegerAttr]:
    """The attribute of a function for these devices."""
    return ArrayAttr([IntegerAttr(extent, i64) for extent in mesh.shape])


def is_per_device(function: FuncOp) -> bool:
    """Whether a function is the program of each device of its mesh."""
    return PER_DEVICE in function.attributes


def set_per_device(function: FuncOp) -> None:
    """Says that a function is the program of each device of its mesh."""
    function.attributes[PER_DEVICE] = UnitAttr()


def _sharding(
    attributes: ArrayAttr[DictionaryAttr] | None, index: int, type_: Attribute, mesh: Mesh, who: str
) -> Sharding | None:
    attribute = None if attributes is None else attributes.data[index].data.get(SHARDING)
    if attribute is None:
        return None
    if not isinstance(attribute, ShardingAttr) or not isinstance(type_, TensorType):
        raise VerifyException(
            f"{who}: {SHARDING} is {attribute}; expected #kn.sharding<[[0], []]>, of a tensor"
        )
    rank = len(shape_of(cast(Attribute, type_)))
    fault = attribute.data.fault(rank, mesh)
    if fault is not None:
        raise VerifyException(f"{who}: its sharding {attribute.data} {fault}")
    return attribute.data.of_rank(rank)


def argument_shardings(function: FuncOp, mesh: Mesh) -> list[Sharding | None]:
    """How each argument lies on the mesh; ``None`` where nothing is said.

    Raises ``VerifyException`` for axes that the mesh lacks, for one that is named twice, and for
    parts of a sum.
    """
    found: list[Sharding | None] = []
    for index, argument in enumerate(function.args):
        who = f"argument {index} ({value_label(argument)}) of {op_label(function)}"
        sharding = _sharding(function.arg_attrs, index, argument.type, mesh, who)
        if sharding is not None and sharding.partial:
            raise VerifyException(
                f"{who}: its sharding {sharding} is partial, which results may be; let whoever "
                "calls combine the parts, or give the program the operator that makes them"
            )
        found.append(sharding)
    return found


def result_shardings(function: FuncOp, mesh: Mesh) -> list[Sharding | None]:
    """How each result lies on the mesh; as :func:`argument_shardings`."""
    types = function.function_type.outputs.data
    return [
        _sharding(function.res_attrs, index, type_, mesh, f"result {index} of {op_label(function)}")
        for index, type_ in enumerate(types)
    ]


def with_shardings(
    attributes: ArrayAttr[DictionaryAttr] | None, shardings: Sequence[Sharding]
) -> ArrayAttr[DictionaryAttr]:
    """The attributes of arguments or results that lie so on the mesh."""
    known = attributes.data if attributes else [DictionaryAttr({})] * len(shardings)
    return ArrayAttr(
        [
            DictionaryAttr({**entry.data, SHARDING: ShardingAttr(sharding)})
            for entry, sharding in zip(known, shardings, strict=True)
        ]
    )


def part_type(type_: Attribute, sharding: Sharding, mesh: Mesh) -> Attribute:
    """The type of one device's part; raises ``ShapeError`` where extents do not divide.

    Where the type has a layout, the part lies in the same order of dimensions, without holes.
    """
    shape = sharding.part_shape(shape_of(type_), mesh)
    part = TensorType(element_type_of(type_), shape)
    layout = layout_of(type_)
    if layout is None:
        return part
    if shape == shape_of(type_):
        return type_
    strides, step = list(strides_of(layout)), 1
    for dim in sorted(range(len(shape)), key=lambda dim: (strides[dim], -dim)):
        strides[dim], step = step, step * shape[dim]
    return with_layout(part, Layout(shape, tuple(strides)))


@dataclass(frozen=True)
class DeviceProgram:
    """The program of each device: its mesh, and how its arguments and results lie there."""

    function: FuncOp
    mesh: Mesh
    arguments: tuple[Sharding, ...]
    results: tuple[Sharding, ...]

    @property
    def argument_types(self) -> list[TensorType[Attribute]]:
        """The types of the tensors of which arguments are parts."""
        return self._whole(self.function.function_type.inputs.data, self.arguments)

    @property
    def result_types(self) -> list[TensorType[Attribute]]:
        """The types of the tensors of which results are parts."""
        return self._whole(self.function.function_type.outputs.data, self.results)

    def _whole(
        self, types: Sequence[Attribute], shardings: Sequence[Sharding]
    ) -> list[TensorType[Attribute]]:
        return [
            TensorType(element_type_of(type_), sharding.whole_shape(shape_of(type_), self.mesh))
            for type_, sharding in zip(types, shardings, strict=True)
        ]


def device_program(function: FuncOp) -> DeviceProgram | None:
    """What a function says of the devices that run it; ``None`` where it is for one.

    What is not said to be cut is whole on each device.  Raises ``VerifyException`` where
    attributes say what cannot be.
    """
    if not is_per_device(function):
        return None
    mesh = mesh_of(function)
    if mesh is None:
        raise VerifyException(
            f"{op_label(function)} is the program of each device, but has no mesh; for "
            f"four devices add {MESH} = [4]"
        )
    for index, argument in enumerate(function.args):
        if not isinstance(argument.type, TensorType):
            raise VerifyException(
                f"argument {index} of {op_label(function)} is no tensor; devices share tensors only"
            )
    types = function.function_type
    found = [
        tuple(
            each or Sharding.replicated(len(shape_of(type_)))
            for each, type_ in zip(known, types_, strict=True)
        )
        for known, types_ in (
            (argument_shardings(function, mesh), types.inputs.data),
            (result_shardings(function, mesh), types.outputs.data),
        )
    ]
    return DeviceProgram(function, mesh, *found)
