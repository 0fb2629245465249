"""Sizes that a call says: extents of tensors that are numbers of the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, SSAValue

from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Index, Numeric, Part, Variable
from mugraph.dialects.cute.int_tuple import flatten
from mugraph.dialects.launch_extents import GridCut
from mugraph.dialects.named_extents import NamedExtent


@dataclass(frozen=True)
class Size(Variable):
    """A number from 0 to ``extent`` - 1 that a call says.

    Its value stands for the argument of a function that is not there yet.
    """

    @property
    def is_size(self) -> bool:
        """Whether a call says it."""
        return True

    @property
    def named(self) -> NamedExtent:
        """What a function says of it."""
        return NamedExtent(self.name, self.extent - 1, self.multiple)


def sym_int(symbol: str, largest: int, divisibility: int = 1) -> Index:
    """An extent that a call says: ``make_fake_tensor("f16", (sym_int("m", 8192), 4096))``.

    Its values are the multiples of ``divisibility`` up to ``largest``.  Tensors with the same
    extent must agree.
    """
    if not symbol.isidentifier():
        raise KernelError(f"sym_int: '{symbol}' is no name, such as 'm'")
    if (fault := NamedExtent(symbol, largest, divisibility).own_fault) is not None:
        raise KernelError(f"sym_int: '{symbol}' {fault}")
    (value,) = Block(arg_types=[IndexType()]).args
    value.name_hint = symbol
    return Index(0, ((Size(value, largest + 1, symbol, divisibility), 1),))


def size(what: Any, mode: Sequence[int] = ()) -> Any:
    """The number of elements of a tensor, a layout or a shape, or of a mode: ``size(a, [2])``.

    An index where a call says it.
    """
    shape = getattr(what, "shape", what)
    for place in mode:
        shape = shape[place]
    return prod(flatten(shape))


def ceil_div(extent: Any, step: int) -> Any:
    """An extent divided by a number and rounded up: how many tiles there are."""
    return (extent + step - 1) // step


def divisibility(extent: Any) -> int:
    """A number that divides an extent, whatever a call says; of a number itself."""
    return extent.multiple if isinstance(extent, Index) else extent


def size_named(extent: Any) -> Size | None:
    """The size that an extent is; ``None`` for a number.  Raises KernelError for expressions."""
    if not isinstance(extent, Index):
        return None
    match extent.terms:
        case ((Size() as size, 1),) if not extent.constant:
            return size
        case _:
            raise KernelError(f"the extent {extent} of a tensor is no number and no 'sym_int'")


def at_most(extent: Any) -> int:
    """An extent, of those that a call says the largest."""
    return extent.largest if isinstance(extent, Index) else extent


def grid_at_most(grid: Sequence[Numeric]) -> tuple[int, int, int]:
    """The blocks at the largest sizes."""
    x, y, z = map(at_most, grid)
    return x, y, z


def sizes_in(shapes: Sequence[Any]) -> Iterator[Size]:
    """The sizes that shapes have, each time."""
    for shape in shapes:
        yield from filter(None, map(size_named, flatten(shape)))


def cuts_of(grid: Sequence[Numeric], sizes: Sequence[SSAValue], buffers: int) -> list[GridCut]:
    """What cuts off a part of the largest grid; ``sizes`` are arguments behind ``buffers``."""
    numbers: Mapping[SSAValue, int] = {one: place for place, one in enumerate(sizes, buffers)}
    found: list[GridCut] = []
    for axis, extent in enumerate(grid):
        if not isinstance(extent, Index):
            continue
        size, step = _rounded_up(extent)
        if size is None or size.value not in numbers:
            raise KernelError(
                f"the grid has {extent} blocks along {'xyz'[axis]}; give a number, the extent of a "
                "tensor, or one divided by a number and rounded up, ceil_div(m, 128)"
            )
        found.append(GridCut(axis, numbers[size.value], step))
    return found


def _rounded_up(extent: Index) -> tuple[Size | None, int]:
    """The size and the step where an extent is a size, or one divided by a step and rounded up."""
    match extent.terms:
        case ((Size() as size, 1),) if not extent.constant:
            return size, 1
        case ((Part(index, step, is_remainder=False), sign),) if not extent.constant:
            match index.terms:
                case ((Size() as size, factor),):
                    # -(-m // s), and (m + s - 1) // s; of multiples of s m // s is the same.
                    form = factor, index.constant, sign
                    is_whole = form == (1, 0, 1) and size.multiple % step == 0
                    if is_whole or form in ((-1, 0, -1), (1, step - 1, 1)):
                        return size, step
                case _:
                    pass
        case _:
            pass
    return None, 1
