"""Buffers, where they live, and the levels of the machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Self

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntAttr,
    NoneAttr,
    StringAttr,
    f8E4M3FN,
    f8E5M2,
    f32,
    f64,
    i1,
    i8,
    i32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.cute.attributes import (
    LayoutAttr,
    parse_layout_parameter,
    print_layout_parameter,
)
from mugraph.dialects.element_types import HALF_TYPES, u8
from mugraph.dialects.tensor_types import row_major_strides, strides_of, verify_layout_fits

ELEMENT_TYPES: dict[str, Attribute] = {
    **{str(type_): type_ for type_ in (*HALF_TYPES, f32, f64, i32, i8)},
    "u8": u8,
    "f8e4m3": f8E4M3FN,
    "f8e5m2": f8E5M2,
    "bool": i1,
}
"""The types of elements and of scalars, by their names in `.te` text."""
EXTENDED_TYPES = (*HALF_TYPES, f8E4M3FN, f8E5M2)
"""Floating-point types of elements that are computed with in f32."""
REDUCED_TYPES = (*HALF_TYPES, f32, f64, i32)
"""Types of elements that reductions and atomic operations change."""


class Level(StrEnum):
    """Where the iterations of a ``te.par`` stay together, from the widest to the narrowest."""

    GRID = "grid"
    CLUSTER = "cluster"
    BLOCK = "block"
    WARP = "warp"
    THREAD = "thread"

    @property
    def depth(self) -> int:
        """0 for the grid, 4 for one thread."""
        return list(Level).index(self)


class Space(StrEnum):
    """The memory that a buffer is in."""

    GLOBAL = "global"
    CLUSTER = "cluster"
    """Shared memory of the blocks of a cluster: the first index is the block that has a part."""
    SHARED = "shared"
    REGISTER = "register"


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """A buffer: ``!te.buffer<64x32xf16, (64,32):(40,1), shared>``.

    Extents and element type, then a layout (row-major without gaps if absent) and a memory space
    (undecided if absent), both optional.  A buffer is a function of its coordinates; an access with
    a single index means the coordinate of that number in row-major order, whatever the layout.
    Of ``!te.buffer<8x64xf32, cluster>`` each of the 8 blocks of a cluster has 64 elements in its
    shared memory, and all blocks of the cluster reach them.
    """

    name = "te.buffer"

    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    layout: LayoutAttr | NoneAttr
    space: StringAttr | NoneAttr

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        element_type: Attribute,
        layout: LayoutAttr | None = None,
        space: Space | None = None,
    ) -> Self:
        """The type with these extents, element type, layout and space."""
        return cls(
            ArrayAttr([IntAttr(extent) for extent in shape]),
            element_type,
            NoneAttr() if layout is None else layout,
            NoneAttr() if space is None else StringAttr(str(space)),
        )

    def get_shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(extent.data for extent in self.shape.data)

    def get_element_type(self) -> Attribute:
        """The type of one element."""
        return self.element_type

    @property
    def elements(self) -> int:
        """How many coordinates there are."""
        return math.prod(self.get_shape())

    @property
    def elements_of_block(self) -> int:
        """How many of them the shared memory of one block has, of a buffer that is in it."""
        is_dealt = self.memory_space is Space.CLUSTER
        return math.prod(self.get_shape()[1:]) if is_dealt else self.elements

    @property
    def memory_space(self) -> Space | None:
        """Where the buffer lives; ``None`` where that is still to be decided."""
        return Space(self.space.data) if isinstance(self.space, StringAttr) else None

    def strides(self) -> tuple[int, ...]:
        """One stride a dimension, in elements; of the layout under the swizzle if there is one."""
        if isinstance(self.layout, LayoutAttr):
            return strides_of(self.layout.data)
        return row_major_strides(self.get_shape())

    def with_layout(self, layout: LayoutAttr) -> Self:
        """The same buffer with another layout."""
        return self.of(self.get_shape(), self.element_type, layout, self.memory_space)

    def with_space(self, space: Space) -> Self:
        """The same buffer in a memory space."""
        layout = self.layout if isinstance(self.layout, LayoutAttr) else None
        return self.of(self.get_shape(), self.element_type, layout, space)

    def verify(self) -> None:
        """Checks extents, element type, layout and space."""
        if not self.shape.data or any(extent.data < 1 for extent in self.shape.data):
            raise VerifyException(
                "!te.buffer: there must be at least one extent, and each at least 1"
            )
        if self.element_type not in ELEMENT_TYPES.values():
            raise VerifyException(
                f"!te.buffer: elements are {', '.join(ELEMENT_TYPES)}, not {self.element_type}"
            )
        if isinstance(self.layout, LayoutAttr):
            verify_layout_fits("!te.buffer", self.get_shape(), self.layout.data)
        if isinstance(self.space, StringAttr) and self.space.data not in list(Space):
            raise VerifyException(
                f"!te.buffer: a buffer is in {', '.join(Space)}, not in '{self.space.data}'"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses the part in angle brackets, with them."""
        layout: LayoutAttr | NoneAttr = NoneAttr()
        space: StringAttr | NoneAttr = NoneAttr()
        with parser.in_angle_brackets():
            shape, element_type = parser.parse_ranked_shape()
            while parser.parse_optional_punctuation(","):
                known = next((name for name in Space if parser.parse_optional_keyword(name)), None)
                if known is None:
                    layout = LayoutAttr(parse_layout_parameter(parser))
                else:
                    space = StringAttr(str(known))
        return ArrayAttr([IntAttr(extent) for extent in shape]), element_type, layout, space

    def print_parameters(self, printer: Printer) -> None:
        """Prints what ``parse_parameters`` parses."""
        with printer.in_angle_brackets():
            printer.print_dimension_list(self.get_shape())
            printer.print_string("x")
            printer.print_attribute(self.element_type)
            if isinstance(self.layout, LayoutAttr):
                printer.print_string(", ")
                print_layout_parameter(printer, self.layout.data)
            if isinstance(self.space, StringAttr):
                printer.print_string(f", {self.space.data}")
