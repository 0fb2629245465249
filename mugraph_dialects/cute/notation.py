"""Reading CuTe's notation: what ``str`` of a layout prints, and what CuTe itself prints.

::

    layout    ::= tuple ':' tuple
                | swizzle 'o' [integer 'o'] layout
    swizzle   ::= ('S' | 'Sw') '<' integer ',' integer ',' integer '>'
    tuple     ::= leaf | '(' [tuple (',' tuple)*] ')'
    leaf      ::= integer ('@' integer)*

Static integers may carry CuTe's underscore (``_8``) and white space is free.  A shape alone is the
dense column-major layout of it, as in CuTe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mugraph.dialects.cute.basis import ScaledBasis
from mugraph.dialects.cute.errors import LayoutError, NotationError
from mugraph.dialects.cute.int_tuple import Nested, _, is_tuple
from mugraph.dialects.cute.layout import Layout, is_layout
from mugraph.dialects.cute.swizzle import AnyLayout, ComposedLayout, Swizzle

T = TypeVar("T")


def static_text(value: Any) -> str:
    """CuTe's notation with its mark of what is known beforehand: ``(_4,_8):(_8,_1)``.

    Integers are static and have an underscore, in tuples, layouts and basis vectors; what stands
    for a number that differs from thread to thread has none: ``(_4,thread % 8)``.
    """
    if isinstance(value, ComposedLayout):
        offset = f"{static_text(value.offset)} o " if value.offset else ""
        return f"{value.swizzle} o {offset}{static_text(value.layout)}"
    if is_layout(value):
        return f"{static_text(value.shape)}:{static_text(value.stride)}"
    if is_tuple(value):
        return "(" + ",".join(static_text(part) for part in value) + ")"
    marked = isinstance(value, ScaledBasis | int)
    return f"_{value}" if marked else str(value)


MAX_DIGITS = 1000
"""How many digits an integer may have: more than any computation here makes use of."""


class Reader:
    """A cursor over a text, with CuTe's productions as methods.

    Every method raises NotationError at the character where the text stops making sense.
    """

    def __init__(self, text: str, position: int = 0):
        self.text = text
        self.position = position

    def error(self, message: str, position: int | None = None) -> NotationError:
        """The error to raise, at ``position`` or at the cursor."""
        return NotationError(message, self.text, self.position if position is None else position)

    def skip_space(self) -> None:
        """Move past white space."""
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def peek(self) -> str:
        """The next character after white space, or ``""`` at the end."""
        self.skip_space()
        return self.text[self.position : self.position + 1]

    def at_end(self) -> bool:
        """Whether only white space is left."""
        return self.peek() == ""

    def accept(self, symbol: str) -> bool:
        """Move past ``symbol`` if it comes next."""
        self.skip_space()
        if self.text.startswith(symbol, self.position):
            self.position += len(symbol)
            return True
        return False

    def expect(self, symbol: str, after: str) -> None:
        """Move past ``symbol``, which must come next."""
        if not self.accept(symbol):
            found = repr(self.peek()) if self.peek() else "the end"
            raise self.error(f"Expected '{symbol}' {after}, found {found}")

    def word(self) -> str:
        """The identifier that comes next, or ``""``; the cursor stays."""
        self.skip_space()
        end = self.position
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        word = self.text[self.position : end]
        return word if word[:1].isalpha() or word[:1] == "_" else ""

    def integer(self, what: str) -> int:
        """An integer, with or without sign, with or without CuTe's underscore."""
        self.skip_space()
        start = self.position
        negative = self.accept("-")
        self.accept("_")
        negative = self.accept("-") or negative
        digits = self.position
        while self.position < len(self.text) and self.text[self.position].isdecimal():
            self.position += 1
        if digits == self.position:
            found = repr(self.text[start]) if start < len(self.text) else "the end"
            raise self.error(f"Expected {what}, found {found}", start)
        if self.position - digits > MAX_DIGITS:
            raise self.error(f"An integer has at most {MAX_DIGITS} digits", start)
        value = int(self.text[digits : self.position])
        return -value if negative else value

    def nested(self, leaf: Callable[[], T], what: str) -> Nested[T]:
        """A nested tuple whose leaves ``leaf`` reads."""
        if not self.accept("("):
            return leaf()
        items: list[Nested[T]] = []
        if self.accept(")"):
            return ()
        while True:
            items.append(self.nested(leaf, what))
            if self.accept(","):
                continue
            self.expect(")", f"or ',' in a {what}")
            return tuple(items)

    def extent(self) -> int:
        """An integer of at least 1."""
        self.skip_space()
        start = self.position
        value = self.integer("an extent or '('")
        if value < 1:
            raise self.error("An extent must be at least 1", start)
        return value

    def coord(self) -> Any:
        """A coordinate, in which ``_`` may stand for a mode."""

        def leaf() -> int | None:
            self.skip_space()
            following = self.text[self.position + 1 : self.position + 2]
            if self.peek() == "_" and not (following.isdecimal() or following == "-"):
                self.position += 1
                return _
            return self.integer("an integer, '_' or '('")

        return self.nested(leaf, "coordinate")

    def stride_leaf(self) -> int | ScaledBasis:
        """A stride: an integer or a scaled basis vector such as ``1@0``."""
        value = self.integer("a stride or '('")
        modes: list[int] = []
        while self.accept("@"):
            modes.append(self.integer("a mode number"))
        return ScaledBasis(value, tuple(reversed(modes))) if modes else value

    def swizzle(self) -> Swizzle:
        """A swizzle, ``S<3,3,3>`` or ``Sw<3,3,3>``."""
        start = self.position
        if not (self.accept("Sw") or self.accept("S")):
            raise self.error("Expected a swizzle such as 'S<3,3,3>'")
        self.expect("<", "after 'S'")
        bits = self.integer("the number of bits")
        self.expect(",", "in a swizzle")
        base = self.integer("the base")
        self.expect(",", "in a swizzle")
        shift = self.integer("the shift")
        self.expect(">", "at the end of a swizzle")
        try:
            return Swizzle(bits, base, shift)
        except LayoutError as error:
            raise self.error(str(error), start) from None

    def plain_layout(self) -> Layout[Any]:
        """A layout without a swizzle; a shape alone is dense column-major."""
        shape = self.nested(self.extent, "shape")
        if not self.accept(":"):
            return Layout(shape)
        self.skip_space()
        start = self.position
        stride: Any = self.nested(self.stride_leaf, "stride")
        try:
            return Layout(shape, stride)
        except LayoutError as error:
            raise self.error(str(error), start) from None

    def layout(self) -> Layout[Any] | ComposedLayout:
        """A layout, swizzled or not."""
        if self.peek() != "S":
            return self.plain_layout()
        swizzle = self.swizzle()
        self.expect("o", "after a swizzle")
        start = self.position
        offset = 0
        if self._offset_follows():
            offset = self.integer("an offset")
            self.expect("o", "after the offset")
        try:
            return ComposedLayout(swizzle, offset, self.plain_layout())
        except NotationError:
            raise
        except LayoutError as error:
            raise self.error(str(error), start) from None

    def _offset_follows(self) -> bool:
        """Whether an integer and ``o`` come next; the cursor stays."""
        start = self.position
        try:
            self.integer("an offset")
            is_offset = self.accept("o")
        except NotationError:
            is_offset = False
        self.position = start
        return is_offset


def parse_layout(text: str) -> AnyLayout:
    """The layout that ``text`` denotes: ``(4,8):(8,1)`` or ``S<3,3,3> o (8,64):(64,1)``.

    Raises NotationError, which has the position, if it denotes none.
    """
    reader = Reader(text)
    layout = reader.layout()
    if not reader.at_end():
        raise reader.error(f"Expected the end of the layout, found {reader.peek()!r}")
    return layout
