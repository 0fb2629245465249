"""Extents that torch knows as symbols, as :class:`~mugraph.build.Extent` of a program.

``dynamic=True``, ``mark_dynamic`` and dynamic shapes of ``torch.export`` make a symbol of an extent
that changes from call to call.  A program has a named extent in its place, whose value follows from
the shapes of a call's tensors, so that one compilation serves all values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mugraph.build import Extent
from mugraph.build.named_numbers import NamedNumber, stand_in
from mugraph.dialects.named_extents import named_extents, set_named_extents
from mugraph.dialects.tensor_types import row_major_strides
from mugraph.errors import UserError
from mugraph.runtime.cuda import only_function
from mugraph.torch.operator import import_torch

LARGEST = 8192
"""The largest value of a symbol that has no bound; calls with more run in torch."""
MOST = 2**17
"""The largest value of any symbol: workspaces have room for it."""
BUCKETS = (16, 64, 256, 512, 1024)
"""Few rows get other kernels than many: where ranges of values end, up to the largest one."""


Strides = tuple[int, ...]


class LateError(UserError):
    """An extent that follows from others, and is no dimension of a tensor of a call."""


class _OfSymbols(NamedNumber):
    """What is computed of symbols: torch has compared them, so other ones are not equal."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NamedNumber):
            return self.terms == other.terms
        return isinstance(other, int) and self.stand_in == other

    __hash__ = NamedNumber.__hash__


_OfSymbols.computed = _OfSymbols


class Symbol(Extent):
    """The extent of a symbol: torch has told 0 and 1 apart, so that it is neither."""

    least = 2
    computed = _OfSymbols
    __eq__ = _OfSymbols.__eq__
    __hash__ = _OfSymbols.__hash__

    @property
    def in_shape(self) -> NamedNumber:
        """Itself."""
        return self


def is_symbol(value: Any) -> bool:
    """Whether a value is a number that is known only when a graph runs."""
    return isinstance(value, import_torch().SymInt) and value.node.maybe_as_int() is None


def are_equal(one: Any, other: Any) -> bool:
    """Whether two extents are equal, whatever values their symbols have."""
    known = import_module("torch.fx.experimental.symbolic_shapes").statically_known_true
    return known(one == other)


def extent_of(value: Any) -> int:
    """An extent as a number, or the named extent that stands for a symbol or several multiplied.

    A sum, such as the ``s + 1`` keys of a cache that grew, is an extent of its own, of which a
    program knows no more than a call says.  Raises :class:`LateError` for what else is computed
    from symbols.
    """
    if not is_symbol(value):
        return int(value)
    expression, environment = value.node.expr, value.node.shape_env
    if not factors_of(value) and not _is_sum(expression, environment):
        raise LateError(f"the extent {expression}, which is known only at run time")
    return _named(expression, environment)


def _is_sum(expression: Any, environment: Any) -> bool:
    """Whether an extent is a sum of symbols and a number, and so large that it is no 0 or 1."""
    parts = expression.args if expression.is_Add else ()
    is_plain = all(part.is_Symbol or part.is_Integer for part in parts)
    return bool(parts) and is_plain and bool(environment.bound_sympy(expression).lower >= 2)


def factors_of(value: Any) -> list[Any]:
    """The symbols of which an extent is the product; none where it is anything else."""
    if not is_symbol(value):
        return []
    expression = value.node.expr
    factors = [expression] if expression.is_Symbol else [*expression.args]
    is_product = expression.is_Symbol or expression.is_Mul
    return factors if is_product and all(each.is_Symbol for each in factors) else []


def _named(expression: Any, environment: Any) -> Symbol:
    """The extent of an expression, up to its bound, or large enough for the call it is seen in."""
    parts = expression.args if expression.is_Add else expression.free_symbols
    name = ("_plus_" if expression.is_Add else "_").join(sorted(map(str, parts), reverse=True))
    name = name.replace("-", "minus_")
    bound = environment.bound_sympy(expression).upper
    if bound <= MOST:
        return Symbol(name, largest=int(bound))
    if hasattr(environment, "optimization_hint"):
        seen = environment.optimization_hint(expression, fallback=1)
    else:  # before torch 2.12
        seen = environment.size_hint(expression, allow_none=True) or 1
    return Symbol(name, largest=max(LARGEST, 2 ** math.ceil(math.log2(seen))))


def strides_of(shape: Sequence[Any], strides: Sequence[Any], named: Sequence[int]) -> Strides:
    """The strides of a tensor, in which named extents stand for what its shape has.

    ``named``: its shape as a program has it.
    """
    dense = row_major_strides([*map(stand_in, named)])
    return tuple(
        dense[at]
        if is_symbol(stride) and are_equal(stride, math.prod(shape[at + 1 :]))
        else _stride_of(stride)
        for at, stride in enumerate(strides)
    )


def _stride_of(value: Any) -> int:
    """A stride, in which named extents stand for symbols."""
    if not is_symbol(value):
        return int(value)
    expression = value.node.expr
    known = {each: _named(each, value.node.shape_env).stand_in for each in expression.free_symbols}
    return int(expression.subs(known))


def names_of(shape: Sequence[int]) -> set[str]:
    """The named extents among some."""
    return {extent.named.name for extent in shape if isinstance(extent, Extent)}


def may_be_handed_over(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a program can take a tensor, or give it: with one named extent at most.

    It is row-major, as it is or with that dimension first.
    """
    if not (count := sum(isinstance(extent, Extent) for extent in shape)):
        return True
    return count == 1 and (is_row_major(shape, strides) or _is_first_in_memory(shape, strides))


def is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the last dimension counts fastest, and nothing lies between elements."""
    pairs = zip(shape, strides, row_major_strides(shape), strict=True)
    return all(extent == 1 or stride == other for extent, stride, other in pairs)


def _is_first_in_memory(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a tensor is row-major once the dimension that a program has first is."""
    dim = dim_put_first(shape)
    first, steps = ([of[dim], *of[:dim], *of[dim + 1 :]] for of in (shape, strides))
    return is_row_major(first, steps)


def dim_put_first(shape: Sequence[int]) -> int:
    """The dimension that comes first in the tensor that a program takes or gives.

    The strides of a program's tensors are the same at each call, so that a named extent comes
    first, but for extents of 1.
    """
    named = (at for at, extent in enumerate(shape) if isinstance(extent, Extent))
    at = next(named, 0)
    return at if math.prod(shape[:at]) != 1 else 0


def divide_into_buckets(module: ModuleOp) -> None:
    """Gives few rows kernels of their own, where a program has one named extent."""
    function = only_function(module)
    known = named_extents(function)
    if len(known) == 1:
        ((name, extent),) = known.items()
        set_named_extents(function, {name: replace(extent, buckets=ends_below(extent.largest))})


def ends_below(largest: int) -> tuple[int, ...]:
    """Where buckets end, but for the last one, which is halved where there may be one more.

    Products have tiles for the largest number of rows of their bucket.
    """
    ends = tuple(end for end in BUCKETS if end < largest)
    is_wide = ends and largest > 2 * ends[-1]
    return (*ends, largest // 2) if is_wide and len(ends) < len(BUCKETS) else ends
