"""The type of threadblock-graph values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import ArrayAttr, IntAttr, NoneAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import (
    parse_layout_attribute,
    parse_shaped_type_parameters,
    print_shaped_type_parameters,
)
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.element_types import verify_element_type
from mugraph.dialects.tensor_types import dims, verify_distinct_addresses, verify_layout_fits


@irdl_attr_definition
class STensorType(ParametrizedAttribute, TypeAttribute):
    """A tile in shared memory: ``!tb.stensor<16x128xf16, S<3,3,4> o (16,128):(128,1)>``.

    The layout, in elements, is absent until ``--resolve-layout``; ``--plan-swizzle`` composes a
    swizzle with it or pads its strides.
    """

    name = "tb.stensor"

    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    layout: Attribute

    def __init__(
        self,
        shape: Sequence[int],
        element_type: Attribute,
        layout: LayoutAttr | NoneAttr | None = None,
    ) -> None:
        super().__init__(
            ArrayAttr([IntAttr(extent) for extent in shape]), element_type, layout or NoneAttr()
        )

    @classmethod
    @cache
    def of(cls, shape: tuple[int, ...], element_type: Attribute) -> STensorType:
        """A tile's type without a layout: one for all tiles alike, and so it is verified once."""
        return cls(shape, element_type)

    def get_shape(self) -> tuple[int, ...]:
        """The extents of the tile."""
        return tuple(extent.data for extent in self.shape.data)

    def get_element_type(self) -> Attribute:
        """The type in which elements are stored."""
        return self.element_type

    def with_layout(self, layout: LayoutAttr | NoneAttr) -> STensorType:
        """The same tile with another layout."""
        return STensorType(self.get_shape(), self.element_type, layout)

    def verify(self) -> None:
        """Checks extents, element type, and that the layout has one mode a dimension."""
        if not self.shape.data or any(extent.data < 1 for extent in self.shape.data):
            raise VerifyException(
                f"!tb.stensor of {dims(self.get_shape())}: every extent must be at least 1"
            )
        verify_element_type("!tb.stensor", self.element_type)
        if isinstance(self.layout, LayoutAttr):
            verify_layout_fits("!tb.stensor", self.get_shape(), self.layout.data)
            verify_distinct_addresses("!tb.stensor", self.layout.data)
        elif not isinstance(self.layout, NoneAttr):
            raise VerifyException(f"!tb.stensor: {self.layout} is not a layout")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses ``<16x128xf16, layout>``."""
        return parse_shaped_type_parameters(parser, parse_layout_attribute)

    def print_parameters(self, printer: Printer) -> None:
        """Prints what :meth:`parse_parameters` parses."""
        print_shaped_type_parameters(printer, self.get_shape(), self.element_type, self.layout)
