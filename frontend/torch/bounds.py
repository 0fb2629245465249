"""Between which whole numbers the elements of a graph's tensors are: analysis, forward."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from mugraph.dialects.named_extents import LARGEST_EXTENT
from mugraph.torch.operator import import_torch
from mugraph.torch.rules import Rules
from mugraph.torch.symbols import is_symbol


class Interval(NamedTuple):
    """All whole numbers from the first to the last."""

    first: int
    last: int

    def union(self, other: Interval) -> Interval:
        """The least interval that has both."""
        return Interval(min(self.first, other.first), max(self.last, other.last))

    def within(self, first: int, last: int) -> bool:
        """Whether all numbers are between two others, these included."""
        return first <= self.first and self.last <= last


TRUTHS = Interval(0, 1)

Known = Interval | None
"""``None`` of tensors of which nothing is known, and of those of fractions."""

Rule = Callable[["Bounds", Any], Known]
"""From a call to the bounds of its result."""

_RULES = Rules[Rule]()


class Bounds(Mapping[Any, Known]):
    """The bounds of each node of a graph, found when they are first asked for."""

    def __init__(self, graph_module: Any) -> None:
        self._graph_module = graph_module
        self._known: dict[Any, Known] = {}

    def __getitem__(self, value: Any) -> Known:
        """Of a node, or of a number among its arguments."""
        if isinstance(value, (bool, int)):
            return Interval(int(value), int(value))
        if isinstance(value, float):
            return Interval(int(value), int(value)) if value.is_integer() else None
        if not hasattr(value, "meta"):
            return None
        if value not in self._known:
            self._known[value] = self._computed(value)
        return self._known[value]

    def take(self, node: Any, known: Known) -> None:
        """Has a node be known by these bounds, where it is not by its own operands."""
        if self[node] is None:
            self._known[node] = known

    def __iter__(self) -> Any:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def all_of(self, *values: Any) -> list[Interval] | None:
        """The bounds of several; ``None`` where one has none."""
        known = [self[value] for value in values]
        given = [each for each in known if each is not None]
        return given if len(given) == len(known) else None

    def _computed(self, node: Any) -> Known:
        torch = import_torch()
        value = node.meta.get("val")
        if node.op == "get_attr":
            return _of_constant(getattr(self._graph_module, node.target))
        rule = _RULES.get(str(node.target))
        if node.target is operator.getitem:
            rule = _of_part
        if not isinstance(value, torch.Tensor):
            return None
        if rule is None and value.dtype in (torch.int8, torch.uint8):
            return _exact_in(value.dtype)
        known = rule(self, node) if rule is not None else None
        if value.dtype == torch.bool:
            return known or TRUTHS
        return known if known is not None and known.within(*_exact_in(value.dtype)) else None


WORD = 32
"""Bits that a shift of whole numbers leaves at most."""
EXACT = 1 << 24
"""fp32 has all whole numbers up to this one."""


def _exact_in(dtype: Any) -> Interval:
    """Whole numbers that a type has, all of them."""
    torch = import_torch()
    if not dtype.is_floating_point and not dtype.is_complex:
        limits = torch.iinfo(dtype)
        return Interval(limits.min, limits.max)
    last = EXACT if dtype in (torch.float32, torch.float64) else 0
    return Interval(-last, last)


def _of_constant(tensor: Any) -> Known:
    torch = import_torch()
    if not isinstance(tensor, torch.Tensor) or not tensor.numel() or tensor.is_meta:
        return None
    if tensor.is_complex() or (tensor.is_floating_point() and tensor.numel() > 1):
        return None
    with import_module("torch.utils._python_dispatch")._disable_current_modes():
        least, most = (each.item() for each in torch.aminmax(tensor.detach()))
    if not (math.isfinite(least) and math.isfinite(most)):
        return None
    whole = float(least).is_integer() and float(most).is_integer()
    return Interval(int(least), int(most)) if whole else None


def extent_of(node: Any, dim: int) -> int:
    """An extent of what a node gives, at most, if it is a symbol; of one without dimensions 1."""
    shape = node.meta["val"].shape
    if not len(shape):
        return 1
    return LARGEST_EXTENT if is_symbol(shape[dim]) else int(shape[dim])


def count_of(value: Any) -> int:
    """How many elements a tensor has, at most, where extents are symbols."""
    return math.prod(LARGEST_EXTENT if is_symbol(each) else int(each) for each in value.shape)


def least_count_of(value: Any) -> int:
    """How many elements it has at least."""
    return math.prod(1 if is_symbol(each) else int(each) for each in value.shape)


_PLACES_ALONG = {"aten.topk.default": 2, "aten.sort.default": 1, "aten.sort.stable": 1}
"""Operators whose second result is places along a dimension, and which argument says that."""


def _of_part(bounds: Bounds, node: Any) -> Known:
    """One of several results."""
    source, index = node.args
    name = str(source.target)
    if name in _PLACES_ALONG and index == 1:
        at = _PLACES_ALONG[name]
        dim = source.args[at] if len(source.args) > at else source.kwargs.get("dim", -1)
        return Interval(0, extent_of(source.args[0], dim) - 1)
    if name == "mugraph.sort_groups.default":
        rows = extent_of(source.args[0], 0)
        return Interval(0, rows if index == 2 else rows - 1)
    return bounds[source.args[0]] if source.args else None


@_RULES.of(
    "view.default", "reshape.default", "_unsafe_view.default", "unsqueeze.default",
    "squeeze.default", "squeeze.dim", "squeeze.dims", "clone.default", "alias.default",
    "detach.default", "permute.default", "transpose.int", "t.default", "expand.default",
    "slice.Tensor", "select.int", "repeat.default", "index_select.default", "gather.default",
    "index.Tensor", "flip.default", "embedding.default", "amax.default", "amin.default",
    "_to_copy.default", "split.Tensor", "split_with_sizes.default", "unbind.int",
)  # fmt: skip
def _of_same(bounds: Bounds, node: Any) -> Known:
    """Some of the operand's numbers."""
    return bounds[node.args[0]]


@_RULES.of("cat.default")
def _of_concatenation(bounds: Bounds, node: Any) -> Known:
    known = bounds.all_of(*node.args[0])
    if not known:
        return None
    first, *others = known
    for each in others:
        first = first.union(each)
    return first


@_RULES.of("where.self")
def _of_choice(bounds: Bounds, node: Any) -> Known:
    condition, *values = node.args
    chosen = bounds[condition]
    if chosen is not None and chosen.first == chosen.last:
        return bounds[values[0 if chosen.first else 1]]
    known = bounds.all_of(*values)
    return None if known is None else known[0].union(known[1])


@_RULES.of("clamp.default")
def _of_clamp(bounds: Bounds, node: Any) -> Known:
    known = bounds[node.args[0]]
    ends = [bounds[each] if each is not None else known for each in clamps(node)]
    if ends[0] is None or ends[1] is None or node.meta["val"].dtype.is_floating_point:
        return None
    low, high = ends[0].first, ends[1].last
    first, last = (low, high) if known is None else known
    return Interval(min(max(first, low), high), min(max(last, low), high))


def clamps(node: Any) -> tuple[Any, Any]:
    """The bounds that a call of ``clamp`` has, each a number or ``None``."""
    given = [*node.args[1:], None, None][:2]
    return node.kwargs.get("min", given[0]), node.kwargs.get("max", given[1])


@_RULES.of("add.Tensor", "add.Scalar")
def _of_sum(bounds: Bounds, node: Any) -> Known:
    known = bounds.all_of(*node.args[:2], node.kwargs.get("alpha", 1))
    if known is None:
        return None
    a, b, (alpha, _) = known
    ends = [alpha * each for each in b]
    return Interval(a.first + min(ends), a.last + max(ends))


@_RULES.of("sub.Tensor", "sub.Scalar")
def _of_difference(bounds: Bounds, node: Any) -> Known:
    known = bounds.all_of(*node.args[:2])
    if known is None or node.kwargs.get("alpha", 1) != 1:
        return None
    a, b = known
    return Interval(a.first - b.last, a.last - b.first)


@_RULES.of("mul.Tensor", "mul.Scalar")
def _of_product(bounds: Bounds, node: Any) -> Known:
    known = bounds.all_of(*node.args[:2])
    if known is None:
        return None
    products = [x * y for x in known[0] for y in known[1]]
    return Interval(min(products), max(products))


@_RULES.of("bitwise_and.Scalar", "bitwise_and.Tensor", "__and__.Scalar", "__and__.Tensor")
def _of_mask(bounds: Bounds, node: Any) -> Known:
    """Bits that both have: no more than either, if that has no sign."""
    known = [bounds[value] for value in node.args[:2]]
    masks = [each.last for each in known if each is not None and each.first >= 0]
    return Interval(0, min(masks)) if masks else None


@_RULES.of(
    "bitwise_or.Scalar", "bitwise_or.Tensor", "__or__.Scalar", "__or__.Tensor",
    "bitwise_xor.Scalar", "bitwise_xor.Tensor", "__xor__.Scalar", "__xor__.Tensor",
)  # fmt: skip
def _of_bits(bounds: Bounds, node: Any) -> Known:
    """Bits that either has."""
    known = bounds.all_of(*node.args[:2])
    if known is None or min(each.first for each in known) < 0:
        return None
    return Interval(0, (1 << max(each.last for each in known).bit_length()) - 1)


@_RULES.of(
    "bitwise_right_shift.Tensor_Scalar", "bitwise_right_shift.Tensor", "__rshift__.Scalar",
    "__rshift__.Tensor",
)  # fmt: skip
def _of_shift(bounds: Bounds, node: Any) -> Known:
    """Quotients of powers of two, the signs kept."""
    known = bounds.all_of(*node.args[:2])
    if known is None or not known[1].within(0, WORD - 1):
        return None
    shifted = [each >> count for each in known[0] for count in known[1]]
    return Interval(min(shifted), max(shifted))


def _of_4_bits(bounds: Bounds, node: Any) -> Known:
    del bounds, node
    return Interval(-8, 7)


_RULES["mugraph.unpacked_int4.default"] = _of_4_bits


@_RULES.of("copy.default")
def _of_source(bounds: Bounds, node: Any) -> Known:
    return bounds[node.args[1]]


@_RULES.of("slice_scatter.default", "select_scatter.default")
def _of_part_replaced(bounds: Bounds, node: Any) -> Known:
    known = bounds.all_of(*node.args[:2])
    return None if known is None else known[0].union(known[1])


@_RULES.of("div.Tensor_mode")
def _of_quotient(bounds: Bounds, node: Any) -> Known:
    known = bounds[node.args[0]]
    if known is None or divisor(node) is None:
        return None
    return Interval(*(each // node.args[1] for each in known))


@_RULES.of("remainder.Scalar")
def _of_remainder(bounds: Bounds, node: Any) -> Known:
    count = divisor(node)
    return None if count is None else Interval(0, count - 1)


def divisor(node: Any) -> int | None:
    """The whole number above 0 that a call divides integers by, rounding down."""
    by = node.args[1]
    dtype = node.meta["val"].dtype
    rounds_down = node.kwargs.get("rounding_mode", "floor") == "floor"
    whole = isinstance(by, int) and not dtype.is_floating_point and rounds_down
    return by if whole and by > 0 else None


@_RULES.of("sum.dim_IntList", "cumsum.default")
def _of_total(bounds: Bounds, node: Any) -> Known:
    """Sums of no more elements than the operand has for each of the result."""
    known = bounds[node.args[0]]
    return None if known is None else total_of(node, known)


def total_of(node: Any, known: Interval) -> Interval:
    """The bounds of sums of an operand's elements within bounds."""
    operand = node.args[0].meta["val"]
    if str(node.target) == "aten.cumsum.default":
        count = extent_of(node.args[0], node.args[1])
    else:
        count = count_of(operand) // max(1, least_count_of(node.meta["val"]))
    least, most = (each * count for each in known)
    return Interval(min(known.first, least), max(known.last, most))


@_RULES.of("logical_not.default", "bitwise_not.default")
def _of_opposite(bounds: Bounds, node: Any) -> Known:
    """Of a truth the other one."""
    if node.args[0].meta["val"].dtype != import_torch().bool:
        return None
    known = bounds[node.args[0]] or TRUTHS
    return Interval(1 - known.last, 1 - known.first)


@_RULES.of("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def _of_some(bounds: Bounds, node: Any) -> Known:
    """Of truths that are all the same that one, if there are any."""
    operand = node.args[0]
    known = bounds[operand]
    is_one = known is not None and known.within(0, 1) and known.first == known.last
    return known if is_one and least_count_of(operand.meta["val"]) else TRUTHS


@_RULES.of("arange.start_step")
def _of_count(bounds: Bounds, node: Any) -> Known:
    """From the first number on, by as many steps as there are elements behind it."""
    known = bounds[node.args[0]]
    step = node.args[2] if len(node.args) > 2 else 1
    if known is None or not isinstance(step, int) or step < 1:
        return None
    return Interval(known.first, known.last + step * (count_of(node.meta["val"]) - 1))


@_RULES.of("argmax.default", "argmin.default")
def _of_place(bounds: Bounds, node: Any) -> Known:
    dim = node.args[1] if len(node.args) > 1 else None
    operand = node.args[0]
    count = count_of(operand.meta["val"]) if dim is None else extent_of(operand, dim)
    return Interval(0, int(count) - 1)


@_RULES.of("index_put.default")
def _of_replaced(bounds: Bounds, node: Any) -> Known:
    known = bounds.all_of(node.args[0], node.args[2])
    accumulates = len(node.args) > 3 and node.args[3]
    return None if known is None or accumulates else known[0].union(known[1])


def _compares(
    name: str,
    holds: Callable[[Interval, Interval], bool],
    not_: Callable[[Interval, Interval], bool],
) -> None:
    @_RULES.of(f"{name}.Tensor", f"{name}.Scalar")
    def decided(bounds: Bounds, node: Any) -> Known:
        """Whether the comparison holds of all numbers, or of none."""
        known = bounds.all_of(*node.args[:2])
        if known is not None and holds(*known):
            return Interval(1, 1)
        return Interval(0, 0) if known is not None and not_(*known) else TRUTHS

    _ = decided


def _less(a: Interval, b: Interval) -> bool:
    return a.last < b.first


def _at_most(a: Interval, b: Interval) -> bool:
    return a.last <= b.first


def _swapped(
    compare: Callable[[Interval, Interval], bool],
) -> Callable[[Interval, Interval], bool]:
    return lambda a, b: compare(b, a)


_compares("lt", _less, _swapped(_at_most))
_compares("le", _at_most, _swapped(_less))
_compares("gt", _swapped(_less), _at_most)
_compares("ge", _swapped(_at_most), _less)
