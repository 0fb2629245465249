"""mg-layout: a calculator for CuTe layouts.

::

    $ mg-layout 'composition((6,2):(8,2), (4,3):(3,1))'
    ((2,2),3):((24,2),8)
    domain x
    ...

The first line is the result alone; the lines after it explain it.  Operations have CuTe's names;
``mg-layout --list`` shows them.  ``A o B`` is composition, ``<4:1,8:2>`` a tiler by mode.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import attrgetter, methodcaller
from types import NoneType
from typing import Any, NamedTuple, cast

from mugraph.dialects import cute
from mugraph.dialects.cute import grouping, recast, tensor
from mugraph.dialects.cute.errors import LayoutError, NotationError
from mugraph.dialects.cute.int_tuple import (
    flatten,
    is_tuple,
    product_each,
    rank,
    to_text,
)
from mugraph.dialects.cute.layout import Layout, is_identity_coordinate, is_layout
from mugraph.dialects.cute.notation import Reader
from mugraph.dialects.cute.swizzle import ComposedLayout, Swizzle
from mugraph.dialects.cute.tiling import tiler_to_text, zip_layouts
from mugraph.tools.diagnostics import ArgumentParser, run_tool


class Operation(NamedTuple):
    """A function by its CuTe name: the kinds of its arguments, and how many may be left out.

    Kinds: layout, plain (a layout without a swizzle), tiler, shape (of extents of at least 1),
    tuple (of any integers), coord, point (a coordinate without ``_``), integer, value (a layout or
    a swizzle), operand (a value or a tiler).
    A kind with ``*`` at the end takes all further arguments.
    """

    function: Callable[..., Any]
    kinds: tuple[str, ...]
    optional: int
    summary: str


def _named(function: Callable[..., Any], kinds: str, summary: str, optional: int = 0) -> Operation:
    return Operation(function, tuple(kinds.split()), optional, summary)


def _slice(coord: Any, layout: Any) -> Any:
    return layout.slice(coord)


def _slice_and_offset(coord: Any, layout: Any) -> Any:
    return layout.slice_and_offset(coord)


def _crd2idx(coord: Any, layout: Any) -> Any:
    return layout(coord)


def _get(layout: Any, *path: int) -> Any:
    try:
        return layout.get(*path)
    except IndexError as error:
        raise LayoutError(str(error)) from None


def _stride(layout: Any) -> Any:
    if isinstance(layout, ComposedLayout):
        raise LayoutError(f"{layout} has no strides: it is swizzled.")
    return layout.stride


OPERATIONS: dict[str, Operation] = {
    "coalesce": _named(cute.coalesce, "layout tuple", "fewest modes, the same function", 1),
    "filter": _named(cute.filter_layout, "layout tuple", "coalesce without strides of 0", 1),
    "filter_zeros": _named(cute.filter_zeros, "layout", "extent 1 where the stride is 0"),
    "flatten": _named(grouping.flatten_layout, "layout", "all leaves at the top"),
    "group": _named(grouping.group_modes, "layout integer integer", "modes b to e - 1 as one"),
    "select": _named(grouping.select_modes, "layout integer*", "the given modes"),
    "get": _named(_get, "layout integer*", "a mode, or a mode's mode"),
    "make_layout": _named(cute.make_layout, "plain*", "concatenation"),
    "make_ordered_layout": _named(cute.make_ordered_layout, "shape tuple", "dense, in an order"),
    "make_identity_layout": _named(cute.make_identity_layout, "shape", "coordinates themselves"),
    "make_fragment_like": _named(tensor.make_fragment_layout, "layout", "a copy in registers"),
    "composition": _named(cute.composition, "value operand", "A(B(c)): also written A o B"),
    "complement": _named(cute.complement, "layout shape", "what a layout leaves out", 1),
    "right_inverse": _named(cute.right_inverse, "layout", "A(R(i)) = i"),
    "left_inverse": _named(cute.left_inverse, "layout", "L(A(c)) = c"),
    "nullspace": _named(cute.nullspace, "plain", "the coordinates of stride 0"),
    "logical_divide": _named(cute.logical_divide, "layout tiler", "(tile, rest) by mode"),
    "zipped_divide": _named(cute.zipped_divide, "layout tiler", "((tiles), (rests))"),
    "tiled_divide": _named(cute.tiled_divide, "layout tiler", "((tiles), rest, rest, ...)"),
    "flat_divide": _named(cute.flat_divide, "layout tiler", "(tile, ..., rest, ...)"),
    "logical_product": _named(cute.logical_product, "layout tiler", "(block, copies)"),
    "zipped_product": _named(cute.zipped_product, "layout tiler", "((blocks), (copies))"),
    "tiled_product": _named(cute.tiled_product, "layout tiler", "((blocks), copies, ...)"),
    "flat_product": _named(cute.flat_product, "layout tiler", "(block, ..., copies, ...)"),
    "blocked_product": _named(cute.blocked_product, "layout plain", "copies side by side"),
    "raked_product": _named(cute.raked_product, "layout plain", "copies interleaved"),
    "tile_to_shape": _named(cute.tile_to_shape, "layout shape tuple", "repeat to a shape", 1),
    "zip": _named(zip_layouts, "plain plain", "pairs of modes"),
    "upcast": _named(recast.upcast, "layout integer", "elements n times as wide"),
    "downcast": _named(recast.downcast, "layout integer", "elements n times narrower"),
    "recast_layout": _named(
        recast.recast_layout, "layout integer integer", "elements of a to b bits"
    ),
    "max_common_layout": _named(recast.max_common_layout, "layout layout", "the longest vector"),
    "max_common_vector": _named(recast.max_common_vector, "layout layout", "its length"),
    "max_alignment": _named(recast.max_alignment, "layout", "aligned runs of n elements"),
    "slice": _named(_slice, "coord layout", "the modes at _"),
    "slice_and_offset": _named(_slice_and_offset, "coord layout", "and the index of the rest"),
    "crd2idx": _named(_crd2idx, "point layout", "the index of a coordinate"),
    "idx2crd": _named(cute.idx2crd, "integer shape", "the coordinate of an index"),
    "crd2crd": _named(cute.crd2crd, "point shape shape", "from one shape to another"),
    "size": _named(methodcaller("size"), "layout", "the number of coordinates"),
    "cosize": _named(methodcaller("cosize"), "layout", "one more than the last index"),
    "rank": _named(attrgetter("rank"), "layout", "the number of modes"),
    "depth": _named(attrgetter("depth"), "layout", "the levels of nesting"),
    "shape": _named(attrgetter("shape"), "layout", "the shape"),
    "stride": _named(_stride, "layout", "the strides"),
    "shape_div": _named(cute.shape_div, "shape shape", "division of shapes"),
    "compatible": _named(cute.compatible, "shape shape", "A's coordinates are B's"),
    "congruent": _named(cute.congruent, "shape shape", "the same nesting"),
    "weakly_congruent": _named(cute.weakly_congruent, "shape shape", "B refines A's nesting"),
}


class _Parser:
    """Reads and evaluates an expression; errors point at the character."""

    def __init__(self, text: str):
        self.reader = Reader(text)

    def whole(self) -> Any:
        """The value of the whole text."""
        value = self.expression()
        if not self.reader.at_end():
            raise self.reader.error(
                f"Expected the end of the expression, found {self.reader.peek()!r}"
            )
        return value

    def expression(self) -> Any:
        """A value, or ``A o B o C``: composition, from the right."""
        self.reader.skip_space()
        start = self.reader.position
        left = self.primary()
        if self.reader.word() != "o":
            return left
        self.reader.expect("o", "between two layouts")
        self.reader.skip_space()
        middle = self.reader.position
        right = self.expression()
        if isinstance(left, Swizzle) and isinstance(right, _Shifted):
            return self.guarded(start, lambda: ComposedLayout(left, right.offset, right.layout))
        if isinstance(left, int):
            return _Shifted(left, self.convert(right, "layout", middle))
        return self.apply("composition", [left, right], [start, middle])

    def primary(self) -> Any:
        """A call, a swizzle, a tiler, a layout, a tuple or a number."""
        reader = self.reader
        reader.skip_space()
        start = reader.position
        word = reader.word()
        if word in ("S", "Sw"):
            return reader.swizzle()
        if word and word[0].isalpha():
            return self.call(word)
        if reader.peek() == "<":
            reader.accept("<")
            return self.items(">", "tiler")
        value = self.nested()
        if not reader.accept(":"):
            return value
        stride: Any = reader.nested(reader.stride_leaf, "stride")
        return self.guarded(start, lambda: Layout(self.as_shape(value, start), stride))

    def nested(self) -> Any:
        """A tuple, whose items may be expressions, a number or ``_``."""
        reader = self.reader
        if reader.accept("("):
            return self.items(")", "tuple")
        return reader.coord()

    def items(self, closing: str, what: str) -> tuple[Any, ...]:
        """Expressions up to the closing bracket."""
        items: list[Any] = []
        if self.reader.accept(closing):
            return ()
        while True:
            items.append(self.expression())
            if self.reader.accept(","):
                continue
            self.reader.expect(closing, f"or ',' in a {what}")
            return tuple(items)

    def call(self, name: str) -> Any:
        """An operation and its arguments."""
        reader = self.reader
        start = reader.position
        if name not in OPERATIONS:
            import difflib

            near = difflib.get_close_matches(name, OPERATIONS, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; see mg-layout --list"
            raise reader.error(f"There is no operation {name!r}{hint}")
        reader.position += len(name)
        reader.expect("(", f"after {name}")
        arguments: list[Any] = []
        positions: list[int] = []
        while not reader.accept(")"):
            if arguments:
                reader.expect(",", f"or ')' in the arguments of {name}")
            reader.skip_space()
            positions.append(reader.position)
            arguments.append(self.expression())
        return self.apply(name, arguments, positions, start)

    def apply(
        self, name: str, arguments: list[Any], positions: list[int], start: int | None = None
    ) -> Any:
        """The operation's result on converted arguments."""
        operation = OPERATIONS[name]
        kinds = list(operation.kinds)
        where = positions[0] if start is None else start
        if kinds[-1].endswith("*"):
            last = kinds.pop().removesuffix("*")
            kinds += [last] * (len(arguments) - len(kinds))
        fewest = len(kinds) - operation.optional
        if not fewest <= len(arguments) <= len(kinds):
            count = str(fewest) if fewest == len(kinds) else f"{fewest} or {len(kinds)}"
            raise self.reader.error(
                f"{name} takes {count} arguments ({', '.join(operation.kinds)}), "
                f"not {len(arguments)}",
                where,
            )
        converted = [
            self.convert(argument, kind, position)
            for argument, kind, position in zip(arguments, kinds, positions, strict=False)
        ]
        return self.guarded(where, lambda: operation.function(*converted))

    def guarded(self, position: int, compute: Callable[[], Any]) -> Any:
        """The result, an error of the algebra pointing at ``position``."""
        try:
            return compute()
        except NotationError:
            raise
        except LayoutError as error:
            raise self.reader.error(str(error), position) from None

    def as_shape(self, value: Any, position: int) -> Any:
        """A tuple of extents."""
        if isinstance(value, int):
            return value
        if is_tuple(value):
            return tuple(self.as_shape(item, position) for item in value)
        raise self.reader.error(f"Expected a shape, found {_to_text(value)}", position)

    def convert(self, value: Any, kind: str, position: int) -> Any:
        """The argument as its kind; a shape stands for the dense layout where one is needed."""
        if kind == "integer" and isinstance(value, int):
            return value
        if kind in ("shape", "tuple"):
            plain = self.as_shape(value.shape if is_layout(value) else value, position)
            if kind == "shape" and any(extent < 1 for extent in flatten(plain)):
                raise self.reader.error("An extent must be at least 1", position)
            return plain
        if kind == "point" and _has_leaves(value, (int,)):
            return value
        if kind == "coord" and _has_leaves(value, (int, NoneType)):
            return value
        if kind in ("layout", "plain", "value", "operand"):
            if is_layout(value) or (isinstance(value, ComposedLayout) and kind != "plain"):
                return value
            if isinstance(value, Swizzle) and kind in ("value", "operand"):
                return value
            if (
                kind == "operand"
                and not _is_shape(value)
                and _has_leaves(value, (int, NoneType, Layout, ComposedLayout))
            ):
                return value
            if _is_shape(value):
                shape: Any = value
                return self.guarded(position, lambda: Layout(shape))
        if kind == "tiler" and _has_leaves(value, (int, NoneType, Layout, ComposedLayout)):
            return value
        if kind == "plain":
            kind = "layout without a swizzle"
        article = "an" if kind[0] in "aeiou" else "a"
        raise self.reader.error(f"Expected {article} {kind}, found {_to_text(value)}", position)


class _Shifted(NamedTuple):
    """``5 o layout``: what stands right of a swizzle with an offset."""

    offset: int
    layout: Any


def _has_leaves(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether a value is of one of the kinds, or a nested tuple of such."""
    if is_tuple(value):
        return all(_has_leaves(item, kinds) for item in value)
    return isinstance(value, kinds)


def _is_shape(value: Any) -> bool:
    return isinstance(value, int) or (is_tuple(value) and all(_is_shape(item) for item in value))


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_tuple(value) and any(isinstance(item, Layout | ComposedLayout) for item in value):
        return tiler_to_text(value)
    return to_text(value)


def _image(indices: Sequence[int]) -> str:
    """The image in a few words: a range, a stepped range, or the first elements."""
    values = sorted(set(indices))
    if len(values) == 1:
        return f"{{{values[0]}}}"
    step = values[1] - values[0]
    if all(b - a == step for a, b in pairwise(values)):
        if step == 1:
            return f"{values[0]} ... {values[-1]}, all {len(values)}"
        return f"{values[0]}, {values[1]} ... {values[-1]}, in steps of {step}: {len(values)}"
    shown = ", ".join(str(value) for value in values[:12])
    more = f", ... {values[-1]}" if len(values) > 12 else ""
    return f"{{{shown}{more}}}: {len(values)} of {values[-1] - values[0] + 1}"


def _table(layout: Any) -> list[str]:
    """The indices as a grid, if the layout is of rank 2 and small."""
    if rank(layout.shape) != 2 or not is_tuple(layout.shape):
        return []
    rows, columns = product_each(layout.shape)
    if rows > 16 or columns > 16:
        return []
    cells = [[_to_text(layout(i, j)) for j in range(columns)] for i in range(rows)]
    width = max(len(cell) for row in cells for cell in row)
    return ["table", *("  " + " ".join(cell.rjust(width) for cell in row) for row in cells)]


def explain(value: Any) -> list[str]:
    """Lines about a result: domain, codomain, whether it is injective, its image."""
    if not (is_layout(value) or isinstance(value, ComposedLayout)):
        return []
    layout = cast("Any", value)
    count = layout.size()
    modes = " x ".join(str(extent) for extent in product_each(layout.shape))
    extents = f"{modes}, " if layout.rank > 1 else ""
    lines = [f"domain     {to_text(layout.shape)}: {extents}{count} coordinates"]
    if is_layout(layout) and is_identity_coordinate(layout):
        return [*lines, "codomain   coordinates", *_table(layout)]
    lines.append(
        f"codomain   [0, {layout.cosize()})" if _counts_up(layout) else "codomain   integers"
    )
    if count > 1 << 16:
        return [*lines, f"injective  {_injectivity(layout)}"]
    indices = [layout(point) for point in range(count)]
    distinct = len(set(indices))
    injective = "yes" if distinct == count else f"no: {count} coordinates, {distinct} indices"
    if distinct == count and sorted(indices) == list(range(count)):
        injective = f"yes, a permutation of [0, {count})"
    return [*lines, f"injective  {injective}", f"image      {_image(indices)}", *_table(layout)]


def _injectivity(layout: Any) -> str:
    try:
        return "yes" if cute.is_injective(layout) else "no"
    except LayoutError:
        return "not known, the layout is too large"


def _counts_up(layout: Any) -> bool:
    plain = layout.layout if isinstance(layout, ComposedLayout) else layout
    return all(step >= 0 for step in plain.flat_stride)


def evaluate(text: str) -> Any:
    """The value of an expression.  Raises NotationError, with the character, where it has none."""
    parser = _Parser(text)
    value = parser.whole()
    if isinstance(value, _Shifted):
        raise parser.reader.error("An offset stands between a swizzle and a layout", 0)
    return value


def _list() -> str:
    rows = [(f"{name}({', '.join(row.kinds)})", row.summary) for name, row in OPERATIONS.items()]
    width = max(len(signature) for signature, _summary in rows)
    return "\n".join(f"{signature:{width}}  {summary}" for signature, summary in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 if the expression has a value, 1 if not."""
    return run_tool("mg-layout", lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = ArgumentParser(
        prog="mg-layout",
        description="A calculator for CuTe layouts. The first line of the output is the result.",
        epilog="Example: mg-layout 'composition((6,2):(8,2), (4,3):(3,1))'",
    )
    parser.add_argument("expression", nargs="?", help="a layout, or operations on layouts")
    parser.add_argument("--list", action="store_true", help="list the operations")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the result alone")
    options = parser.parse_args(arguments)
    if options.list:
        print(_list())
        return 0
    if options.expression is None:
        parser.error("give an expression, or --list")
    try:
        value = evaluate(options.expression)
    except NotationError as error:
        print(f"mg-layout: {error}", file=sys.stderr)
        return 1
    print(_to_text(value))
    if not options.quiet:
        for line in explain(value):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
