"""Open sizes of `.te` text: what they may be, and what programs take with them by estimate."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

from xdsl.utils.exceptions import ParseError, PassFailedException, VerifyException

from mugraph.errors import UserError
from mugraph.passes.costs.mapped_kernels import KernelTime
from mugraph.passes.texpr.estimates import estimate_kernels
from mugraph.texpr import syntax
from mugraph.texpr.build import build_module, sizes_of
from mugraph.texpr.parser import parse_text
from mugraph.texpr.scope import constant_of, fail

SEED = 24
REFUSALS = (ParseError, PassFailedException, UserError, VerifyException)

T = TypeVar("T")
Values = Mapping[str, Sequence[int]]
Combination = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class SizesEstimate:
    """What a program takes at some sizes, by estimate."""

    sizes: Combination
    kernels: tuple[KernelTime, ...]

    @property
    def microseconds(self) -> float:
        """Of all kernels, one after the other."""
        return sum(each.total for each in self.kernels) / 1000

    def __str__(self) -> str:
        """The sizes, the time, and what the longest kernel's is made of."""
        sizes = ",".join(f"{name}={value}" for name, value in self.sizes)
        longest = max(self.kernels, key=lambda each: each.total)
        return f"{sizes}: {self.microseconds:.1f} µs: {longest}"


def open_sizes(text: str, name: str, given: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The values of the sizes that a text leaves open and that are not given."""
    sizes = parse_text(text, name).sizes
    return {one.name: one.choices for one in sizes if one.choices and one.name not in given}


def combinations(values: Values, count: int) -> list[Combination]:
    """All combinations of some values; of more than ``count`` as many, drawn."""
    total = math.prod(map(len, values.values()))
    numbers = range(total)
    if total > count:
        numbers = sorted(random.Random(SEED).sample(numbers, count))
    chosen = {*numbers}
    return [
        tuple(zip(values, one, strict=True))
        for number, one in enumerate(itertools.product(*values.values()))
        if number in chosen
    ]


def estimate_sizes(
    text: str, name: str, sizes: Mapping[str, int], chosen: Combination, arch: str
) -> SizesEstimate:
    """What a program takes where its sizes have some values, beside those that it has anyhow.

    Raises what reading and mapping raise.
    """
    values = {**sizes, **dict(chosen)}
    require_whole_quotients(parse_text(text, name), name, values, {size for size, _ in chosen})
    module = build_module(text, name, values)
    return SizesEstimate(chosen, estimate_kernels(module, arch))


def require_whole_quotients(
    file: syntax.File, name: str, sizes: Mapping[str, int], chosen: Set[str]
) -> None:
    """Raises ``ParseError`` where a size is divided by a chosen one that does not divide it.

    ``M / TM`` rounds down, so that loops of so many steps would leave out what is left over.  What
    the chosen size stands in itself is rounded as the text wants it, ``(M + TM - 1) / TM``.
    """
    known = sizes_of(file, name, sizes)
    for node in syntax.nodes_of(file):
        if not isinstance(node, syntax.Binary) or node.operator != "/":
            continue
        divisors = _names_in(node.right) & chosen
        if not divisors or _names_in(node.left) & divisors:
            continue
        try:
            whole = constant_of(node.left, known, "what is divided")
            divisor = constant_of(node.right, known, "a divisor")
        except ParseError:  # it is not made of sizes alone
            continue
        if whole % divisor:
            fail(node, f"{whole} is no multiple of {divisor}, so that some is left over")


def _names_in(expression: syntax.Expression) -> set[str]:
    return {node.name for node in syntax.nodes_of(expression) if isinstance(node, syntax.Name)}


def in_order(
    candidates: Iterable[T], estimate: Callable[[T], SizesEstimate]
) -> tuple[list[SizesEstimate], list[tuple[T, Exception]]]:
    """The estimates, the least first; and candidates that are no programs of kernels, and why."""
    found: list[SizesEstimate] = []
    refused: list[tuple[T, Exception]] = []
    for one in candidates:
        try:
            found.append(estimate(one))
        except REFUSALS as problem:
            refused.append((one, problem))
    return sorted(found, key=lambda each: each.microseconds), refused
