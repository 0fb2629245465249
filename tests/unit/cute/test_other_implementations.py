"""Agreement with NVIDIA's pycute and PyPI's tensor-layouts on random inputs of every operation.

The number of inputs of an operation is MUGRAPH_CUTE_INPUTS (default 1,000; `make fuzz` takes
10,000).  Both are test dependencies only.  Two answers agree if they are the same function of a 1-D
coordinate, of the same rank.  Where they do not, the disagreement must be one of those explained in
this file, and this library's answer must satisfy the operation's definition.
"""

from __future__ import annotations

import importlib
import os
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from sampling import POWERS, permuted_strides, random_layout, random_swizzled
from strategies import layouts

from mugraph.dialects import cute
from mugraph.dialects.cute import ComposedLayout, Layout, LayoutError, coalesce, recast
from mugraph.dialects.cute.f2 import LinearMap
from mugraph.dialects.cute.int_tuple import coordinates

COUNT = int(os.environ.get("MUGRAPH_CUTE_INPUTS", "1000"))
SMALL = (1, 2, 2, 3, 4)


def _divisors(number: int, most: int) -> list[int]:
    return [d for d in range(1, min(number, most) + 1) if number % d == 0]


def _tiler(rng: random.Random, of: int) -> Layout[int]:
    first = rng.choice(_divisors(of, 64))
    return Layout(first, rng.choice(_divisors(of // first, of)) if first > 1 else 0)


def _one(rng: random.Random) -> tuple[Any, ...]:
    return (random_layout(rng),)


def _two(rng: random.Random) -> tuple[Any, ...]:
    return (random_layout(rng), random_layout(rng))


def _with_target(rng: random.Random) -> tuple[Any, ...]:
    return (random_layout(rng), rng.choice((24, 64, 100, 240)))


def _divided(rng: random.Random) -> tuple[Any, ...]:
    layout = random_layout(rng)
    tiler = rng.choice((_tiler(rng, layout.size()), random_layout(rng, "padded", POWERS)))
    return (layout, tiler)


def _divided_by_mode(rng: random.Random) -> tuple[Any, ...]:
    layout = random_layout(rng, rank=rng.randint(1, 3))
    return (layout, tuple(_tiler(rng, mode.size()) for mode in layout))


def _multiplied(rng: random.Random) -> tuple[Any, ...]:
    block = random_layout(rng, rng.choice(("compact", "padded")), SMALL)
    return (block, random_layout(rng, None, SMALL))


def _products_by_mode(rng: random.Random) -> tuple[Any, ...]:
    block = random_layout(rng, "compact", SMALL, rng.randint(0, 3))
    return block, random_layout(rng, None, SMALL, rng.randint(0, 3))


def _cast(rng: random.Random) -> tuple[Any, ...]:
    return (random_layout(rng, "compact", (2, 3, 4, 8)), rng.choice((2, 4, 8)))


def _vectors(rng: random.Random) -> tuple[Any, ...]:
    layout = random_layout(rng, "compact", POWERS, 2)
    other = permuted_strides(rng, layout.shape, gaps=False)
    return (layout, Layout(layout.shape, other))


Make = Callable[[random.Random], tuple[Any, ...]]

# Name here: (inputs, name in pycute, name in tensor-layouts).
OPERATIONS: dict[str, tuple[Make, str | None, str | None]] = {
    "coalesce": (_one, "coalesce", "coalesce"),
    "filter_layout": (_one, "filter", None),
    "nullspace": (_one, None, "nullspace"),
    "composition": (_two, "composition", "compose"),
    "complement": (_with_target, "complement", "complement"),
    "right_inverse": (_one, "right_inverse", "right_inverse"),
    "left_inverse": (_one, "left_inverse", "left_inverse"),
    "logical_divide": (_divided, "logical_divide", "logical_divide"),
    "zipped_divide": (_divided_by_mode, "zipped_divide", "zipped_divide"),
    "tiled_divide": (_divided_by_mode, "tiled_divide", "tiled_divide"),
    "flat_divide": (_divided_by_mode, None, "flat_divide"),
    "logical_product": (_multiplied, "logical_product", "logical_product"),
    "zipped_product": (_multiplied, "zipped_product", "zipped_product"),
    "tiled_product": (_multiplied, "tiled_product", "tiled_product"),
    "flat_product": (_multiplied, None, "flat_product"),
    "blocked_product": (_products_by_mode, None, "blocked_product"),
    "raked_product": (_products_by_mode, None, "raked_product"),
    "upcast": (_cast, None, "upcast"),
    "downcast": (_cast, None, "downcast"),
    "max_common_vector": (_vectors, None, "max_common_vector"),
}


OTHER_RANKS = {
    # It drops modes of extent 1, and unpacks a tile or rest that is a tuple of one mode.
    ("tensor-layouts", name)
    for name in ("nullspace", "tiled_divide", "flat_divide")
}
"""The operations whose results have other ranks than CuTe's in a library."""


def _operation(name: str) -> Any:
    return getattr(cute, name, None) or getattr(recast, name)


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, (tuple, list)) else value


def _from(result: Any) -> Any:
    if isinstance(result, int):
        return result
    return Layout(_as_tuple(result.shape), _as_tuple(result.stride))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, int) or isinstance(b, int):
        return a == b
    return coalesce(a) == coalesce(b) or (a.size() == b.size() and a.indices() == b.indices())


def _equals_definition(name: str, arguments: tuple[Any, ...], result: Any) -> bool:
    """Whether a result satisfies the definition of an operation on which others disagree."""
    a = arguments[0]
    if name == "composition":
        b = arguments[1]
        return all(result(c) == a(b(c)) for c in coordinates(b.shape))
    if name in ("logical_divide", "zipped_divide", "tiled_divide", "flat_divide"):
        return _divide_equals_definition(name, a, arguments[1], result)
    if name == "right_inverse":
        return all(a(result(i)) == i for i in range(result.size()))
    if name == "left_inverse":
        # Coordinates of modes of stride 0 count as 0.
        kept = [
            i
            for i in range(a.size())
            if all(d != 0 or c == 0 for c, d in zip(_digits(i, a), a.flat_stride, strict=True))
        ]
        return all(result(a(i)) == i for i in kept)
    if name in ("zipped_product", "tiled_product", "logical_product", "flat_product"):
        expected = cute.logical_product(*arguments)
        return result.indices() == expected.indices()
    return False


def _digits(point: int, layout: Layout[int]) -> list[int]:
    digits: list[int] = []
    for extent in layout.flat_shape:
        digits.append(point % extent)
        point //= extent
    return digits


def _divide_equals_definition(name: str, a: Any, tiler: Any, result: Any) -> bool:
    if name == "logical_divide":
        rest = cute.complement(tiler, a.size())
        pairs = [(i, j) for j in range(rest.size()) for i in range(tiler.size())]
        return all(result(i, j) == a(tiler(i) + rest(j)) for i, j in pairs)
    return result.indices() == cute.zipped_divide(a, tiler).indices()


def _explanation(library: str, name: str, arguments: tuple[Any, ...], theirs: Any) -> str | None:
    """Why a library's answer (a layout or an exception) differs; None if that is not known."""
    a = arguments[0]
    if name == "right_inverse" and _equals_definition(name, arguments, theirs):
        # A right inverse is not unique: where several modes have stride 1, CuTe and this library
        # go on from the first, tensor-layouts from the one that leads furthest; pycute stops at
        # modes of stride 0.
        return "another right inverse"
    if name == "left_inverse":
        if not isinstance(theirs, Exception) and _equals_definition(name, arguments, theirs):
            return "another left inverse, different outside the image"
        if library == "pycute" and not cute.is_bijective(cute.make_layout(a, cute.complement(a))):
            # It inverts (A, A*) from the right, which a mode of stride 0 or a gap cuts short.
            return "pycute inverts only layouts that their complement completes"
        return None
    if isinstance(theirs, AssertionError) and library == "pycute":
        # pycute asks that a leaf's stride divide a mode even where the leaf does not leave it.
        return "pycute asks for a divisibility that the composition does not need"
    if "divide" in name or name == "composition":
        modes = list(a) if isinstance(arguments[1], tuple) else [a]
        if any(mode.flat_shape[-1] == 1 for mode in modes):
            # Past the end a layout runs on along its last mode, also if its extent is 1; the
            # others drop that mode first.
            return "the right operand reaches past a last mode of extent 1"
    return None


@cache
def _results(name: str, make: Make) -> dict[tuple[Any, ...], tuple[Any, int]]:
    """The result of an operation for each of ``COUNT`` arguments, and how often they were drawn."""
    operation = _operation(name)
    rng = random.Random(f"{name} 1")
    results: dict[tuple[Any, ...], tuple[Any, int]] = {}
    refused: set[tuple[Any, ...]] = set()
    done = 0
    while done < COUNT:
        arguments = make(rng)
        if arguments in refused:
            continue
        if arguments in results:
            mine, times = results[arguments]
        else:
            try:
                mine, times = operation(*arguments), 0
            except LayoutError:
                refused.add(arguments)
                continue
        results[arguments] = mine, times + 1
        done += 1
    return results


def _check(library: str, name: str, theirs_of: Callable[..., Any], make: Make) -> None:
    explained = 0
    for arguments, (mine, times) in _results(name, make).items():
        try:
            theirs: Any = theirs_of(*arguments)
        except (AssertionError, ValueError, TypeError, ZeroDivisionError) as error:
            theirs = error
        if not isinstance(theirs, Exception) and _same(mine, theirs):
            is_layout = isinstance(mine, Layout) and (library, name) not in OTHER_RANKS
            right = not is_layout or mine.rank == theirs.rank
        else:
            is_explained = _explanation(library, name, arguments, theirs) is not None
            right = is_explained and _equals_definition(name, arguments, mine)
            explained += times
        assert right, f"{name}({', '.join(map(str, arguments))}) = {mine}, {library}: {theirs!r}"
    assert explained < COUNT // 2, f"{explained} of {COUNT} differ"


@pytest.mark.parametrize("name", [name for name, row in OPERATIONS.items() if row[1]])
def test_pycute(name: str) -> None:
    pycute = pytest.importorskip("pycute", reason="pycute is not installed (nvidia-cutlass)")

    def convert(value: Any) -> Any:
        if isinstance(value, Layout):
            return pycute.Layout(value.shape, value.stride)
        return tuple(convert(item) for item in value) if isinstance(value, tuple) else value

    make, theirs, _ours = OPERATIONS[name]
    assert theirs is not None
    function = getattr(pycute, theirs)
    _check("pycute", name, lambda *given: _from(function(*map(convert, given))), make)


@pytest.mark.parametrize("name", [name for name, row in OPERATIONS.items() if row[2]])
def test_tensor_layouts(name: str) -> None:
    library = pytest.importorskip("tensor_layouts", reason="tensor-layouts is not installed")

    def convert(value: Any) -> Any:
        if isinstance(value, Layout):
            return library.Layout(value.shape, value.stride)
        return library.Tile(*map(convert, value)) if isinstance(value, tuple) else value

    make, _pycute, theirs = OPERATIONS[name]
    assert theirs is not None
    function = getattr(library, theirs)
    _check("tensor-layouts", name, lambda *given: _from(function(*map(convert, given))), make)


def _zipped(pycute: Any, first: Any, second: Any) -> Any:
    """CuTe's ``zip``: pairs of modes, one pair of two modes that are no tuples."""
    pairs = (
        [(first[mode], second[mode]) for mode in range(len(first.shape))]
        if isinstance(first.shape, tuple)
        else [(first, second)]
    )
    return pycute.make_layout(*[pycute.make_layout(*pair) for pair in pairs])


@given(
    layouts(("compact", "padded"), most=32),
    layouts(("compact", "padded", "broadcast"), most=16),
    st.booleans(),
)
def test_products_by_mode_of_pycute(block: Layout[int], tiler: Layout[int], blocked: bool) -> None:
    """pycute has none: they are made of its logical product as CuTe makes them."""
    pycute = pytest.importorskip("pycute", reason="pycute is not installed")
    rank = max(block.rank, tiler.rank)
    operands: list[Any] = []
    for layout in (block, tiler):
        modes = list(layout) if isinstance(layout.shape, tuple) else [layout]
        if rank > 1 or isinstance(block.shape, tuple) or isinstance(tiler.shape, tuple):
            layout = cute.make_layout(*modes, *[Layout(1, 0)] * (rank - len(modes)))
        operands.append(pycute.Layout(layout.shape, layout.stride))
    try:
        product = pycute.logical_product(*operands)
    except AssertionError:
        reject()
    parts = (product[0], product[1]) if blocked else (product[1], product[0])
    theirs = _from(_zipped(pycute, *parts))
    try:
        mine = (cute.blocked_product if blocked else cute.raked_product)(block, tiler)
    except LayoutError:
        reject()
    assert mine.rank == theirs.rank == rank
    assert mine.indices() == theirs.indices()


def test_swizzles_of_both() -> None:
    pycute = pytest.importorskip("pycute", reason="pycute is not installed")
    library = pytest.importorskip("tensor_layouts", reason="tensor-layouts is not installed")
    rng = random.Random(1)
    for _attempt in range(COUNT // 10):
        swizzle = random_swizzled(rng).swizzle
        numbers = (swizzle.bits, swizzle.base, swizzle.shift)
        nvidia, third = pycute.Swizzle(*numbers), library.Swizzle(*numbers)
        for _index in range(10):
            index = rng.randrange(1 << 12)
            assert swizzle(index) == nvidia(index) == third(index)


# --- the known bugs of both, of which this library must be free ---


def test_product_with_an_integer() -> None:
    """pycute's logical_product(L, int) composes with the integer itself and fails."""
    assert cute.logical_product(Layout(4), 3) == cute.make_layout(Layout(4), Layout(3, 4))


def test_complement_of_an_overlapping_layout() -> None:
    """Both return something for layouts that have no complement of this form."""
    for layout in (Layout((2, 2), (1, 1)), Layout((4, 2), (1, 2)), Layout((3, 2), (2, 3))):
        with pytest.raises(LayoutError, match="overlaps"):
            cute.complement(layout)


def test_f2_conversion_is_exact_both_ways() -> None:
    """tensor-layouts' inverse F2 conversion loses layouts; here all come back."""
    rng = random.Random(2)
    for _attempt in range(COUNT):
        layout: Any = (
            random_swizzled(rng) if rng.random() < 0.3 else random_layout(rng, "padded", POWERS)
        )
        if not isinstance(layout, ComposedLayout):
            layout = Layout(layout.shape, _powers(layout))
        try:
            linear = LinearMap.from_layout(layout)
        except LayoutError:
            continue
        back = linear.to_layout(layout.shape)
        assert LinearMap.from_layout(back, linear.output_bits) == linear
        if layout.size() <= 64:
            assert back.indices() == layout.indices()


def _powers(layout: Layout[int]) -> Any:
    """The strides rounded up to powers of two, which keeps a padded layout linear."""
    flat = tuple(0 if d == 0 else 1 << (d - 1).bit_length() for d in layout.flat_stride)
    return importlib.import_module("mugraph.dialects.cute.int_tuple").unflatten(flat, layout.shape)
