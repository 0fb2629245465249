"""Layouts and tiled MMAs as xDSL attributes, written in CuTe's own notation.

::

    #cute.layout<(16,4096):(4096,1)>
    #cute.layout<S<3,3,3> o (8,64):(64,1)>
    #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,2,1)>

``parse_layout_parameter`` and ``print_layout_parameter`` are for layouts inside other attributes
and types, such as ``!tb.stensor<16x128xf16, S<3,3,4> o (16,128):(128,1)>``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.cute.atoms.copy import CopyAtom, copy_atom
from mugraph.dialects.cute.atoms.mma import MmaAtom, mma_atom
from mugraph.dialects.cute.basis import ScaledBasis
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import Nested
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.cute.swizzle import AnyLayout, ComposedLayout, Swizzle
from mugraph.dialects.cute.thread_values import ThreadValues, accumulator_values
from mugraph.dialects.cute.tiled import TiledMma

T = TypeVar("T")


def _parse_nested(parser: AttrParser, leaf: Callable[[], T], what: str) -> Nested[T]:
    if parser.parse_optional_punctuation("(") is None:
        return leaf()
    items: list[Nested[T]] = []
    if parser.parse_optional_punctuation(")") is not None:
        return ()
    while True:
        items.append(_parse_nested(parser, leaf, what))
        if parser.parse_optional_punctuation(",") is None:
            parser.parse_punctuation(")", f" or ',' in a {what}")
            return tuple(items)


def _parse_swizzle_parameters(parser: AttrParser) -> Swizzle:
    """``<bits,base,shift>``: what follows the ``S``."""
    start = parser.pos
    numbers: list[int] = []
    parser.parse_punctuation("<", " after 'S'")
    for name in ("number of bits", "base", "shift"):
        if numbers:
            parser.parse_punctuation(",", " in a swizzle")
        numbers.append(parser.parse_integer(context_msg=f" for the {name} of a swizzle"))
    end = parser.pos
    parser.parse_punctuation(">", " at the end of a swizzle")
    try:
        return Swizzle(*numbers)
    except LayoutError as error:
        parser.raise_error(str(error), start, end)


def _parse_plain_layout(parser: AttrParser, first: int | None = None) -> Layout[int]:
    """``shape:stride``; ``first`` is the shape if it was a plain integer, already read."""
    start = parser.pos

    def extent() -> int:
        at = parser.pos
        value = parser.parse_integer(allow_boolean=False, context_msg=" for an extent of a layout")
        if value < 1:
            parser.raise_error(f"an extent must be at least 1, not {value}", at, parser.pos)
        return value

    def stride() -> int:
        return parser.parse_integer(allow_boolean=False, context_msg=" for a stride of a layout")

    shape = first if first is not None else _parse_nested(parser, extent, "shape")
    parser.parse_punctuation(":", " between the shape and the strides of a layout")
    strides = _parse_nested(parser, stride, "stride")
    try:
        return Layout(shape, strides)
    except LayoutError as error:
        parser.raise_error(str(error), start, parser.pos)


def parse_layout_parameter(parser: AttrParser) -> AnyLayout:
    """Parse a layout in CuTe's notation, swizzled or not, at the parser's position.

    Reports errors at their place through ``parser.raise_error``.
    """
    start = parser.pos
    if parser.parse_optional_keyword("S") is None:
        return _parse_plain_layout(parser)
    swizzle = _parse_swizzle_parameters(parser)
    parser.parse_keyword("o", " between a swizzle and its layout")
    number = parser.parse_optional_integer(allow_boolean=False)
    offset = 0
    if number is not None and parser.parse_optional_keyword("o") is not None:
        offset, number = number, None
    try:
        return ComposedLayout(swizzle, offset, _parse_plain_layout(parser, number))
    except LayoutError as error:
        parser.raise_error(str(error), start, parser.pos)


def print_layout_parameter(printer: Printer, layout: AnyLayout) -> None:
    """Print a layout as :func:`parse_layout_parameter` reads it."""
    printer.print_string(str(layout))


@irdl_attr_definition
class LayoutAttr(Data[AnyLayout]):
    """A CuTe layout: ``#cute.layout<(4,8):(8,1)>``, or swizzled.

    As a tensor's encoding it is the layout of the tensor's elements in units of elements; the
    ops that use it check it against the tensor's shape.
    """

    name = "cute.layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> AnyLayout:
        """Parse ``<layout>``."""
        with parser.in_angle_brackets():
            return parse_layout_parameter(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print ``<layout>``."""
        with printer.in_angle_brackets():
            print_layout_parameter(printer, self.data)

    def verify(self) -> None:
        """Reject strides that are not integers."""
        inner: Any = self.data.layout if isinstance(self.data, ComposedLayout) else self.data
        for step in cast("Layout[Any]", inner).flat_stride:
            if isinstance(step, ScaledBasis):
                raise VerifyException(
                    f"{self.data} maps to coordinates; a layout attribute holds integer strides"
                )


@irdl_attr_definition
class TiledMmaAttr(ParametrizedAttribute):
    """An MMA atom repeated over warps: ``#cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,2,1)>``.

    The tuple says how many atoms (each with its own threads) lie side by side along M, N and K,
    in column-major order of their threads.
    """

    name = "cute.tiled_mma"

    atom_name: StringAttr
    thr_layout_mnk: ArrayAttr[IntAttr]

    def __init__(self, atom: str, thr_layout: tuple[int, int, int] = (1, 1, 1)):
        super().__init__(StringAttr(atom), ArrayAttr([IntAttr(extent) for extent in thr_layout]))

    @property
    def atom(self) -> str:
        """The atom's name, a key of the atom table."""
        return self.atom_name.data

    @property
    def tiled_mma(self) -> TiledMma:
        """The tiled MMA, whose layouts partition tensors."""
        return TiledMma(self.atom, self.thr_layout)

    @property
    def thr_layout(self) -> tuple[int, int, int]:
        """The number of atoms side by side along M, N and K."""
        m, n, k = (extent.data for extent in self.thr_layout_mnk)
        return (m, n, k)

    def thread_values(self, shape: Sequence[int]) -> ThreadValues:
        """Which element of an accumulator each value of each thread is."""
        return accumulator_values(mma_atom(self.atom), self.thr_layout, shape)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse ``<atom, (m,n,k)>``; the tuple may be left out where it is ``(1,1,1)``."""
        with parser.in_angle_brackets():
            atom = _parse_atom(parser, "an MMA atom", mma_atom)
            extents = [1, 1, 1]
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_punctuation("(", " of the atoms along M, N and K")
                for mode, axis in enumerate("MNK"):
                    if mode:
                        parser.parse_punctuation(",", " between the atoms along M, N and K")
                    start = parser.pos
                    extents[mode] = parser.parse_integer(
                        allow_boolean=False, context_msg=f" for the number of atoms along {axis}"
                    )
                    if extents[mode] < 1:
                        parser.raise_error(
                            f"the number of atoms along {axis} must be at least 1, not "
                            f"{extents[mode]}",
                            start,
                            parser.pos,
                        )
                parser.parse_punctuation(")", " after the atoms along M, N and K")
        return (StringAttr(atom), ArrayAttr([IntAttr(extent) for extent in extents]))

    def print_parameters(self, printer: Printer) -> None:
        """Print ``<atom, (m,n,k)>``."""
        with printer.in_angle_brackets():
            m, n, k = self.thr_layout
            printer.print_string(f"{self.atom}, ({m},{n},{k})")

    def verify(self) -> None:
        """Check that the atom is known, and the numbers of atoms."""
        _verify_atom(self.atom, mma_atom)
        if len(self.thr_layout_mnk) != 3 or any(e.data < 1 for e in self.thr_layout_mnk):
            raise VerifyException(
                f"the atoms along M, N and K must be three integers of at least 1, not "
                f"{tuple(extent.data for extent in self.thr_layout_mnk)}"
            )


class AtomNameAttr(Data[str]):
    """An instruction by its name in a table."""

    FIND: ClassVar[Callable[[str], object]]
    """The instruction of a name; raises LayoutError for one that is not in the table."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        """Parse ``<name>``, a name of the table."""
        with parser.in_angle_brackets():
            return _parse_atom(parser, "an atom", cls.FIND)

    def print_parameter(self, printer: Printer) -> None:
        """Print ``<name>``."""
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    def verify(self) -> None:
        """Check that the atom is known."""
        _verify_atom(self.data, type(self).FIND)


def _parse_atom(parser: AttrParser, what: str, find: Callable[[str], object]) -> str:
    start = parser.pos
    name = parser.parse_identifier(f" for the name of {what}")
    try:
        find(name)
    except LayoutError as error:
        parser.raise_error(str(error), start, parser.pos)
    return name


def _verify_atom(name: str, find: Callable[[str], object]) -> None:
    try:
        find(name)
    except LayoutError as error:
        raise VerifyException(str(error)) from None


@irdl_attr_definition
class MmaAtomAttr(AtomNameAttr):
    """A matrix multiply instruction: ``#cute.mma_atom<SM80_16x8x16_F32F16F16F32_TN>``."""

    name = "cute.mma_atom"
    FIND = staticmethod(mma_atom)

    @property
    def atom(self) -> MmaAtom:
        """The instruction: its shape, types and thread-value layouts."""
        return mma_atom(self.data)


@irdl_attr_definition
class CopyAtomAttr(AtomNameAttr):
    """A copy instruction: ``#cute.copy_atom<SM75_U32x4_LDSM_N>``."""

    name = "cute.copy_atom"
    FIND = staticmethod(copy_atom)

    @property
    def atom(self) -> CopyAtom:
        """The instruction: its width and thread-value layouts."""
        return copy_atom(self.data)
